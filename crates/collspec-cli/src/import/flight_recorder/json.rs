//! JSON dumps as values.
use super::value::{Id, Node, Values};
use serde_json::Value;

/// Reads the values of a JSON text. Depth is limited by the parser.
pub fn read(bytes: &[u8]) -> Result<Values, String> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let mut values = Values::default();
    values.root = add(&mut values, value).ok_or("more values than a dump has")?;
    Ok(values)
}

fn add(values: &mut Values, value: Value) -> Option<Id> {
    let node = match value {
        Value::Null => Node::None,
        Value::Bool(value) => Node::Bool(value),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Node::Int(i128::from(number)),
            (None, Some(number)) => Node::Int(i128::from(number)),
            (None, None) => Node::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Node::Text(text.into()),
        Value::Array(list) => {
            Node::List(list.into_iter().map(|value| add(values, value)).collect::<Option<Vec<Id>>>()?)
        }
        Value::Object(map) => {
            let mut pairs = Vec::with_capacity(map.len());
            for (key, value) in map {
                pairs.push((values.add(Node::Text(key.into()))?, add(values, value)?));
            }
            Node::Dict(pairs)
        }
    };
    values.add(node)
}
