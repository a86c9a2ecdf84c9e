//! The table `[bench]` of the most frequent calls.
use super::super::call::{Collective, properties, reduces};
use super::unique::{Variant, What};

/// Calls whose values go into the table.
const MOST: usize = 8;

/// The table; `None` if no collective is on all ranks.
pub fn table(variants: &[Variant], world: usize) -> Option<String> {
    let mut frequent: Vec<(u64, &Collective)> = variants
        .iter()
        .filter_map(|variant| match &variant.what {
            What::Collective(call) if variant.family == 0 => Some((variant.calls, call)),
            _ => None,
        })
        .collect();
    frequent.sort_by_key(|(calls, _)| std::cmp::Reverse(*calls));
    frequent.truncate(MOST);
    // The value of a key: what these calls have, each once.
    let list = |key: &str, value: &dyn Fn(&Collective) -> Option<String>| {
        let mut values: Vec<String> = Vec::new();
        for value in frequent.iter().filter_map(|(_, call)| value(call)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        if values.is_empty() { String::new() } else { format!("{key} = [{}]\n", values.join(", ")) }
    };
    // The size is that of the larger buffer.
    let bytes = |call: &Collective| {
        let part = call.part(world).checked_mul(call.dtype.size() as u64)?;
        let sides = properties(call.op).map(|properties| [properties.send, properties.recv])?;
        sides.into_iter().filter_map(|side| side.elements(part, world)).max().filter(|bytes| *bytes > 0)
    };
    let count = frequent.len();
    let first = format!("# The {count} most frequent calls; every combination of their values is measured.\n[bench]\n");
    let keys = [
        list("op", &|call| Some(format!("\"{}\"", call.op))),
        list("reduce", &|call| reduces(call.op).then(|| format!("\"{}\"", call.reduce))),
        list("dtype", &|call| Some(format!("\"{}\"", call.dtype.name()))),
        list("in_place", &|call| Some(call.in_place.to_string())),
        list("bytes", &|call| Some(bytes(call)?.to_string())),
    ];
    (count > 0).then(|| first + &keys.concat())
}
