//! Case names: the file's name, then the point of the matrix in brackets.

/// A case's name from its file's name and its point.
pub fn case_name(stem: &str, point: &[(String, String)]) -> String {
    if point.is_empty() {
        return stem.to_owned();
    }
    let parts: Vec<_> = point.iter().map(|(axis, value)| format!("{}={}", escape(axis), escape(value))).collect();
    format!("{stem}[{}]", parts.join(","))
}

/// Bytes outside `[A-Za-z0-9._^+-]` as %XX, so that a name passes shells, filters and file systems.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for b in text.bytes() {
        if b.is_ascii_alphanumeric() || b"._^+-".contains(&b) {
            out.push(char::from(b));
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

/// At most so many characters, with an ellipsis where something was cut.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_strange_bytes() {
        let point = [("env.NCCL_ALGO".to_owned(), "^Ring,Tree".to_owned()), ("root".to_owned(), "[0,1]".to_owned())];
        let name = case_name("a/b", &point);
        assert_eq!(name, "a/b[env.NCCL_ALGO=^Ring%2CTree,root=%5B0%2C1%5D]");
        assert_eq!(file_part(&name), "a/b");
        assert_eq!(file_part("a/b"), "a/b");
        assert_eq!(escape("ä/"), "%C3%A4%2F");
    }
}
