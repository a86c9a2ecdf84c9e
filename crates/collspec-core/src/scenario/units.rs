//! Converts sizes in the notation of other programs, in bytes or with a unit, to numbers of elements.
use super::tree::{TomlEntry, TomlKind};

/// Suggests a number of elements for a size such as `4MB` or `64k`. Sizes in bytes count f32 elements, the default type.
pub(super) fn elements(text: &str) -> Option<String> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text.get(..digits)?.parse().ok()?;
    let unit = text.get(digits..)?.trim().to_ascii_lowercase();
    let shift = match unit.trim_end_matches('b').trim_end_matches('i') {
        "" if unit == "b" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return None,
    };
    let number = number.checked_mul(1 << shift)?;
    if unit.ends_with('b') {
        return Some(format!("write `count = {}` for this many bytes of f32", number / 4));
    }
    Some(format!("write `count = {number}`"))
}

/// Parses bytes with a unit, as nccl-tests and this language write them: `8`, `32K`, `128M`, `128MiB`. Every unit is a power of 1024.
pub fn bytes(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text.get(..digits)?.parse().ok()?;
    let shift = match text.get(digits..)? {
        "" | "B" => 0,
        "k" | "K" | "KiB" => 10,
        "m" | "M" | "MiB" => 20,
        "g" | "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        _ => return None,
    };
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0)
}

/// Suggests a replacement for a key that is a buffer's size in other programs.
pub(super) fn size_of_buffer(e: &TomlEntry) -> Option<String> {
    let TomlKind::Int(size) = e.value.kind else { return None };
    match &*e.key {
        "bytes" | "nbytes" | "size_bytes" => Some(format!("write `count = {}`: {size} bytes of f32", size / 4)),
        "zeros" => Some(format!("write `{{ each = 0, count = {size} }}`")),
        "ones" => Some(format!("write `{{ each = 1, count = {size} }}`")),
        _ => None,
    }
}
