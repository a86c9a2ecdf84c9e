//! The first lines of an imported scenario.
use super::text::{Text, quoted};
use std::path::Path;

/// Adds the lines that every imported scenario begins with, after the remarks.
pub fn header(remarks: &[String], description: &str, source: &str, tag: &str, size: usize) -> Text {
    let mut text = Text::default();
    for remark in remarks {
        text.remark(remark);
    }
    text.line(format!("description = {}", quoted(description)));
    text.line(format!("source = {}", quoted(source)));
    text.line(format!("tags = [\"imported\", \"{tag}\"]"));
    text.line(format!("world_size = {size}"));
    text
}

/// `1 rank`, `2 ranks`.
pub fn counted(count: u64, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

/// The folder and the first and last of these files, the last without what all have in common.
pub fn sources(paths: &[&Path]) -> String {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (Some(first), Some(last)) = (paths.first(), paths.last()) else { return String::new() };
    let folder = first.canonicalize().ok().and_then(|path| Some(name(path.parent()?)));
    let folder = folder.filter(|folder| !folder.is_empty()).map_or_else(String::new, |folder| format!("{folder}/"));
    if paths.len() == 1 {
        return format!("{folder}{}", name(first));
    }
    let (first, last) = (name(first), name(last));
    let common = first.char_indices().zip(last.chars()).take_while(|((_, one), other)| one == other);
    let cut = common.filter(|((_, c), _)| !c.is_alphanumeric()).last().map_or(0, |((at, _), _)| at);
    format!("{folder}{first} to {}", &last[cut..])
}
