//! Byte ranges as lines and columns, and the line they stand in.
use crate::scenario::{SourceFile, Span};

/// Line and column, both from 1; columns count characters.
pub fn line_column(file: &SourceFile, span: Span) -> (usize, usize) {
    let end = floor_boundary(&file.text, span.start);
    let before = &file.text[..end];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// `path:line:column`.
pub fn place(file: &SourceFile, span: Span) -> String {
    let (line, column) = line_column(file, span);
    format!("{}:{line}:{column}", file.path)
}

/// The line in which the span starts, with carets under the part of the span that is in it.
pub fn excerpt(file: &SourceFile, span: Span) -> Option<String> {
    let (number, column) = line_column(file, span);
    let line = file.text.lines().nth(number - 1)?;
    if line.trim().is_empty() {
        return None;
    }
    let inside = file.text.get(span.start..span.end.max(span.start)).unwrap_or("");
    let width = inside.lines().next().unwrap_or("").chars().count();
    // Tabs stay tabs, so that the carets stand right whatever their width.
    let indent: String = line.chars().take(column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    let gutter = number.to_string();
    let blank = " ".repeat(gutter.len());
    Some(format!("{gutter} | {line}\n{blank} | {indent}{}", "^".repeat(width.max(1))))
}

fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> SourceFile {
        SourceFile { path: "a.toml".into(), text: text.into() }
    }

    #[test]
    fn lines_and_columns_count_from_one() {
        let file = file("a = 1\n\u{e4}\u{f6} = 2\n");
        assert_eq!(line_column(&file, Span { start: 0, end: 1 }), (1, 1));
        assert_eq!(line_column(&file, Span { start: 6, end: 7 }), (2, 1));
        assert_eq!(line_column(&file, Span { start: 11, end: 12 }), (2, 4));
        assert_eq!(line_column(&file, Span { start: 900, end: 901 }), (3, 1));
        assert_eq!(place(&file, Span { start: 6, end: 7 }), "a.toml:2:1");
    }

    #[test]
    fn carets_stand_under_the_span() {
        let file = file("x = 1\n\top = \"sum\"\n");
        let text = excerpt(&file, Span { start: 12, end: 17 }).unwrap();
        assert_eq!(text, "2 | \top = \"sum\"\n  | \t     ^^^^^");
    }

    #[test]
    fn spans_outside_the_text_are_no_panic() {
        for start in 0..20 {
            for end in 0..20 {
                let _ = excerpt(&file("\u{e4}b\n\nc"), Span { start, end });
            }
        }
    }
}
