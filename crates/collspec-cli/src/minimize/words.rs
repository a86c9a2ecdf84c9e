//! Words in a text of a scenario, such as an expression.

/// The names and numbers of a text.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '.').filter(|word| !word.is_empty())
}

/// The text with another word in place of each of these.
pub(super) fn replaced(text: &str, word: &str, other: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let (mut out, mut rest) = (String::new(), text);
    while let Some(start) = rest.find(is_part) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c| !is_part(c)).unwrap_or(from.len());
        out.push_str(before);
        out.push_str(if &from[..end] == word { other } else { &from[..end] });
        rest = &from[end..];
    }
    out + rest
}
