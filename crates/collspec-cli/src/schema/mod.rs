//! The scenario language as a JSON Schema, for editors: made from the tables of keys and operations.
use collspec_core::num::DType;
use collspec_core::ops::{self, COMMON_KEYS};
use collspec_core::scenario::keys::{self, KEYS, KeyPlace, ValueType};
use serde_json::{Map, Value, json};

/// The schema, in the draft that editors' TOML extensions know.
pub fn schema() -> Value {
    let definitions = [("step", step()), ("buffer", table(KeyPlace::Buffer)), ("row", table(KeyPlace::Row))];
    let mut file = file();
    let of_definitions: Map<String, Value> =
        definitions.into_iter().map(|(name, definition)| (name.to_owned(), definition)).collect();
    file["definitions"] = of_definitions.into();
    file["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    file["title"] = "A scenario of collspec".into();
    file
}

/// The file: its own keys, those that are defaults for steps and buffers, and those of a step in the short form.
fn file() -> Value {
    let own = KEYS.iter().filter(|key| key.places.contains(&KeyPlace::File) || key.is_default);
    let of_short_form = KEYS.iter().filter(|key| key.places.contains(&KeyPlace::Step));
    let mut properties = Map::new();
    for key in own.chain(of_short_form) {
        properties.entry(key.name).or_insert_with(|| described(key));
    }
    for absent in ["in", "out"] {
        properties.remove(absent);
    }
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// A step: the keys of all steps, and for each operation those that it can have.
fn step() -> Value {
    let mut step = table(KeyPlace::Step);
    step["required"] = json!(["op"]);
    let of_operation = ops::TABLE.iter().map(|op| {
        let nests = matches!(op.kind, ops::Kind::Group | ops::Kind::Loop);
        let defaults = keys::default_keys().filter(|_| nests);
        let names: Vec<&str> = COMMON_KEYS.iter().chain(op.keys).copied().chain(defaults).collect();
        json!({
            "if": { "properties": { "op": { "const": op.name } } },
            "then": { "propertyNames": { "enum": names } },
        })
    });
    step["allOf"] = of_operation.collect();
    // Defaults on a group or loop can be keys of buffers alone.
    for key in KEYS.iter().filter(|key| key.is_default) {
        let Some(properties) = step["properties"].as_object_mut() else { continue };
        properties.entry(key.name).or_insert_with(|| described(key));
    }
    step
}

fn table(place: KeyPlace) -> Value {
    let keys = KEYS.iter().filter(|key| key.places.contains(&place));
    let properties: Map<String, Value> = keys.map(|key| (key.name.to_owned(), described(key))).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// A buffer, as a list with a row per rank or as a table, or buffers by name; one of the words may stand for each.
fn buffers(words: &[&str]) -> Value {
    let buffer = json!({ "anyOf": [
        { "type": "array", "items": { "anyOf": [{ "type": ["array", "string"] }, { "$ref": "#/definitions/row" }] } },
        { "$ref": "#/definitions/buffer" },
        { "enum": words },
    ] });
    json!({ "anyOf": [buffer, { "type": "object", "additionalProperties": buffer }] })
}

fn described(key: &keys::Key) -> Value {
    let mut value = of_type(key.value);
    value["description"] = format!("{}\n\nIt must be {}.", key.doc, key.value.describe()).into();
    value
}

/// A value of one of these types, or a list of them.
fn one_or_list(types: &[&str]) -> Value {
    let mut all = types.to_vec();
    all.push("array");
    json!({ "type": all, "items": { "type": types } })
}

/// A text, with words that an editor proposes.
fn proposed(words: impl Iterator<Item = &'static str>) -> Value {
    json!({ "type": "string", "enum": words.collect::<Vec<_>>() })
}

fn of_type(value: ValueType) -> Value {
    match value {
        ValueType::Text | ValueType::BufferPart => json!({ "type": "string" }),
        ValueType::Texts => one_or_list(&["string"]),
        ValueType::TextList => json!({ "type": "array", "items": { "type": "string" } }),
        ValueType::Int => json!({ "type": "integer" }),
        ValueType::Number => json!({ "type": "number" }),
        ValueType::Bool => json!({ "type": "boolean" }),
        ValueType::NumByRank => one_or_list(&["integer", "string"]),
        ValueType::RealByRank => one_or_list(&["number", "string"]),
        ValueType::BoolByRank => one_or_list(&["boolean", "integer", "string"]),
        ValueType::TextByRank => one_or_list(&["string", "number"]),
        ValueType::Counts => json!({ "type": ["string", "number", "array"] }),
        // JSON has no infinities and no NaN: what reads TOML for a schema makes null of them.
        ValueType::ExprOrRow => json!({ "type": ["string", "number", "array", "null"] }),
        ValueType::ExprOrNumber => json!({ "type": ["string", "number"] }),
        ValueType::Groups => {
            json!({ "type": "array", "items": { "type": "array", "items": { "type": "integer" } } })
        }
        ValueType::Ranks | ValueType::RanksOfComm => {
            json!({ "type": ["string", "array"], "items": { "type": "integer" } })
        }
        ValueType::Steps => json!({ "type": "array", "items": { "$ref": "#/definitions/step" } }),
        ValueType::Table => json!({ "type": "object" }),
        ValueType::TableOf(place) => table(place),
        ValueType::TablesOf(place) => json!({ "type": "object", "additionalProperties": table(place) }),
        ValueType::Word(words) => proposed(words.iter().copied()),
        ValueType::Operation => proposed(ops::TABLE.iter().map(|op| op.name)),
        ValueType::Buffers => buffers(&[]),
        ValueType::Expectations => buffers(&["any", "untouched"]),
        // Other names of these types are known, too.
        ValueType::DType => {
            json!({ "anyOf": [proposed(DType::ALL.iter().map(|dtype| dtype.name())), { "type": "string" }] })
        }
        ValueType::Reduction => json!({ "anyOf": [
            proposed(["sum", "prod", "min", "max", "avg"].into_iter()),
            table(KeyPlace::Reduce),
        ] }),
        ValueType::AlgorithmChoice => json!({ "anyOf": [{ "type": "string" }, table(KeyPlace::Algorithm)] }),
        ValueType::ExitStatus => json!({ "type": ["integer", "string", "array"] }),
        ValueType::Ints => one_or_list(&["integer"]),
        ValueType::Bools => one_or_list(&["boolean"]),
        ValueType::ByteSize => json!({ "type": ["integer", "string"] }),
        ValueType::SizeRange => json!({ "anyOf": [one_or_list(&["integer", "string"]), table(KeyPlace::Sizes)] }),
    }
}
