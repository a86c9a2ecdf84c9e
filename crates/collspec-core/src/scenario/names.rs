//! Names of cases (the file's name, then the point of the matrix in brackets), and the rule for names in a file.
use crate::expr::{BUILTIN_NAMES, Func};
use crate::fnv::fnv64;

/// Longest value that is part of a name without being cut, in bytes.
const MAX_PART: usize = 240;

/// A case's name from its file's name and its point.
pub fn case_name(stem: &str, point: &[(String, String)]) -> String {
    if point.is_empty() {
        return stem.to_owned();
    }
    let parts: Vec<_> = point.iter().map(|(axis, value)| format!("{}={}", name_part(axis), name_part(value))).collect();
    format!("{stem}[{}]", parts.join(","))
}

/// A value as part of a name. A long value is cut and followed by a hash, so that names stay distinct.
fn name_part(text: &str) -> String {
    if text.len() <= MAX_PART {
        return escape(text);
    }
    let mut end = MAX_PART;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    // Escaped text never contains the `~` in front of the hash.
    let hash = fnv64(text.as_bytes());
    format!("{}~{hash:016x}", escape(&text[..end]))
}

/// The name of a case in a form, from the case's own name: the form comes last in the point's brackets.
pub fn with_form(name: &str, form: &str) -> String {
    match name.strip_suffix(']') {
        Some(start) => format!("{start},form={}]", escape(form)),
        None => format!("{name}[form={}]", escape(form)),
    }
}

/// Writes bytes outside `[A-Za-z0-9._^+-]` as %XX, so that a name passes shells, filters and file systems.
pub fn escape(text: &str) -> String {
    escape_bytes(text.as_bytes())
}

/// Like [`escape`], for bytes that may not be text.
pub(super) fn escape_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for b in bytes {
        if b.is_ascii_alphanumeric() || b"._^+-".contains(b) {
            out.push(char::from(*b));
        } else {
            out.push_str(&format!("%{b:02X}"));
        }
    }
    out
}

/// The file's part of a case's name.
pub fn file_part(name: &str) -> &str {
    match name.find('[') {
        Some(at) if name.ends_with(']') => &name[..at],
        _ => name,
    }
}

/// The text, cut to `most` characters with an ellipsis.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// True for a name that matches `[a-z][a-z0-9_]*`.
pub(crate) fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Message and help for a name that a buffer, axis, communicator, stream or step cannot have.
pub fn bad_name(name: &str) -> Option<(String, String)> {
    let help = "names are lower-case letters, digits and `_`, and start with a letter".to_owned();
    if !is_identifier(name) {
        let shown: String = name.chars().take(40).collect();
        return Some((format!("`{}` cannot be a name", shown.escape_debug()), help));
    }
    if BUILTIN_NAMES.contains(&name) || name == "nan" || name == "inf" || Func::parse(name).is_some() {
        return Some((format!("`{name}` is reserved in expressions"), "choose another name".into()));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut_and_stay_apart() {
        let name = |last: &str| case_name("a", &[("tags".to_owned(), format!("{}{last}", "\u{e4}".repeat(500_000)))]);
        assert!(name("1").len() < 1000 && name("1") != name("2"), "{}", name("1"));
        assert_eq!(file_part(&name("1")), "a");
    }

    #[test]
    fn names_have_no_strange_bytes() {
        let point = [("env.NCCL_ALGO".to_owned(), "^Ring,Tree".to_owned()), ("root".to_owned(), "[0,1]".to_owned())];
        let name = case_name("a/b", &point);
        assert_eq!(name, "a/b[env.NCCL_ALGO=^Ring%2CTree,root=%5B0%2C1%5D]");
        assert_eq!(file_part(&name), "a/b");
        assert_eq!(file_part("a/b"), "a/b");
        assert_eq!(escape("ä/"), "%C3%A4%2F");
        assert_eq!(with_form("a/b", "tree"), "a/b[form=tree]");
        assert_eq!(with_form("a/b[n=2,variant=x]", "tree"), "a/b[n=2,variant=x,form=tree]");
        assert_eq!(file_part(&with_form("a/b", "tree")), "a/b");
    }
}
