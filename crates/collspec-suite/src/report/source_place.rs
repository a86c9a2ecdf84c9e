//! Spans as line and column, and the line of a span with a mark.
use collspec_core::printable::push_escaped;
use collspec_core::scenario::{SourceFile, Span};

/// Length in characters of the longest line that is shown whole.
const MAX_LINE: usize = 240;
/// Number of characters of a longer line that are shown before the marked part, after it, and of the part.
const CONTEXT_CHARACTERS: usize = 60;

/// Line and column, both from 1; columns count characters.
pub fn line_column(file: &SourceFile, span: Span) -> (usize, usize) {
    let end = floor_boundary(&file.text, span.start);
    let before = &file.text[..end];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// The text `path:line:column` for a place.
pub fn path_line_column(file: &SourceFile, span: Span) -> String {
    let (line, column) = line_column(file, span);
    format!("{}:{line}:{column}", file.path)
}

/// The line in which the span starts, with carets under the part of the span that is in it. annotate-snippets, which draws the
/// errors of files, shows a line whole however long it is, while these excerpts also go into JSON, JUnit and HTML.
pub fn excerpt(file: &SourceFile, span: Span) -> Option<String> {
    let (number, column) = line_column(file, span);
    let line = file.text.lines().nth(number - 1)?;
    if line.trim().is_empty() {
        return None;
    }
    let inside = file.text.get(span.start..span.end.max(span.start)).unwrap_or("");
    let width = inside.lines().next().unwrap_or("").chars().count();
    let shown = SourceLine::new(line, column - 1, width);
    let gutter = number.to_string();
    let blank = " ".repeat(gutter.len());
    let (indent, carets) = (" ".repeat(shown.indent), "^".repeat(shown.width.max(1)));
    Some(format!("{gutter} | {}\n{blank} | {indent}{carets}", shown.text))
}

/// A line of a file as shown, with the position and width of the marked part in it, in characters.
struct SourceLine {
    text: String,
    indent: usize,
    width: usize,
}

impl SourceLine {
    /// `before` is the number of characters before the part. Of a long line only the surroundings of the part are shown.
    fn new(line: &str, before: usize, width: usize) -> Self {
        let long = line.chars().nth(MAX_LINE).is_some();
        let (skipped, width) =
            if long { (before.saturating_sub(CONTEXT_CHARACTERS), width.min(CONTEXT_CHARACTERS)) } else { (0, width) };
        let mut text = String::from(if skipped > 0 { "…" } else { "" });
        let mut part = (text.chars().count(), 0);
        for (at, c) in line.chars().enumerate().skip(skipped) {
            if long && at >= before + width + CONTEXT_CHARACTERS {
                text.push('…');
                break;
            }
            let start = text.chars().count();
            match c {
                '\t' => text.push_str("    "),
                c => push_escaped(&mut text, c),
            }
            let shown = text.chars().count() - start;
            match at {
                at if at < before => part.0 += shown,
                at if at < before + width => part.1 += shown,
                _ => {}
            }
        }
        Self { text, indent: part.0, width: part.1 }
    }
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
        assert_eq!(path_line_column(&file, Span { start: 6, end: 7 }), "a.toml:2:1");
    }

    #[test]
    fn carets_stand_under_the_span() {
        let file = file("x = 1\n\top = \"sum\"\n");
        let text = excerpt(&file, Span { start: 12, end: 17 }).unwrap();
        assert_eq!(text, "2 |     op = \"sum\"\n  |          ^^^^^");
    }

    #[test]
    fn what_a_terminal_obeys_is_shown_escaped() {
        let file = file("x = \u{1b}[2J 5 # \u{202e}\n");
        let text = excerpt(&file, Span { start: 9, end: 10 }).unwrap();
        assert_eq!(text, "1 | x = \\u{1b}[2J 5 # \\u{202e}\n  |               ^");
    }

    #[test]
    fn a_long_line_is_cut_around_the_span() {
        let file = file(&format!("a = {}5{}\n", "x".repeat(1_000_000), "y".repeat(1_000_000)));
        let text = excerpt(&file, Span { start: 1_000_004, end: 1_000_005 }).unwrap();
        assert!(text.len() < 500, "{}", text.len());
        let (line, carets) = text.split_once('\n').unwrap();
        let (line, carets): (Vec<char>, Vec<char>) = (line.chars().collect(), carets.chars().collect());
        assert_eq!(line[carets.iter().position(|c| *c == '^').unwrap()], '5');
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
