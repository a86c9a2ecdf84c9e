//! Selects the syntax errors to show. After a missing bracket the parser continues inside the list and reads the following
//! lines as its elements, which gives many errors for one mistake.
use std::ops::Range;

/// Start, end and message of a syntax error.
type SyntaxError<'a> = (usize, usize, &'a str);

/// The errors that do not follow from an earlier one: the first of every statement whose brackets do not match, and the
/// first of every line of other statements. `errors` and the result are in the order of the text.
pub(crate) fn first_errors<'a>(text: &str, diagnostics: Vec<SyntaxError<'a>>) -> Vec<SyntaxError<'a>> {
    let mut statements = Statements { text, at: 0 }.peekable();
    // Errors up to this place are consequences of the last one kept.
    let mut explained = None;
    let mut kept = Vec::new();
    for diagnostic in diagnostics {
        // An error at the end of the text belongs to the last statement.
        while let Some(next) = statements.peek() {
            if diagnostic.0 < next.range.end || next.range.end == text.len() {
                break;
            }
            statements.next();
            explained = None;
        }
        if explained.is_some_and(|end| diagnostic.0 <= end) {
            continue;
        }
        // No statement begins with a bracket of a list: its opening bracket is missing further up.
        let inside = statements.peek().is_some_and(|s| text[s.range.clone()].trim_start().starts_with(['{', '}', ']']));
        if inside && !kept.is_empty() {
            continue;
        }
        kept.push(diagnostic);
        let matched = statements.peek().is_none_or(|statement| statement.matched);
        explained = Some(if matched { line_end(text.as_bytes(), diagnostic.0) } else { text.len() });
    }
    kept
}

/// A key with its value, or a header, up to the end of its last line.
struct Statement {
    range: Range<usize>,
    /// True if all brackets match.
    matched: bool,
}

/// The statements of a text: lines, joined while brackets or long strings are open.
struct Statements<'a> {
    text: &'a str,
    at: usize,
}

impl Iterator for Statements<'_> {
    type Item = Statement;

    fn next(&mut self) -> Option<Statement> {
        let (start, bytes) = (self.at, self.text.as_bytes());
        if start >= bytes.len() {
            return None;
        }
        let (mut depth, mut matched) = (0usize, true);
        let mut end = bytes.len();
        for (at, byte) in outside_texts(bytes, start) {
            match byte {
                b'[' | b'{' => depth += 1,
                b']' | b'}' => match depth.checked_sub(1) {
                    Some(less) => depth = less,
                    None => matched = false,
                },
                b'\n' if depth == 0 => {
                    end = at + 1;
                    break;
                }
                _ => {}
            }
        }
        self.at = end;
        Some(Statement { range: start..end, matched: matched && depth == 0 })
    }
}

/// The bytes from `start` on that are neither in a text nor in a comment, with their places.
fn outside_texts(bytes: &[u8], start: usize) -> impl Iterator<Item = (usize, u8)> {
    let mut next = start;
    std::iter::from_fn(move || {
        loop {
            let at = next;
            match bytes.get(at)? {
                b'#' => next = line_end(bytes, at),
                mark @ (b'"' | b'\'') => next = string_end(bytes, at, *mark),
                byte => {
                    next = at + 1;
                    return Some((at, *byte));
                }
            }
        }
    })
}

/// The innermost open bracket at `at`, with its place.
pub(crate) fn open_bracket(text: &str, at: usize) -> Option<(char, usize)> {
    let statement =
        Statements { text, at: 0 }.find(|statement| at < statement.range.end || statement.range.end == text.len())?;
    let mut open = Vec::new();
    for (place, byte) in outside_texts(text.as_bytes(), statement.range.start).take_while(|(place, _)| *place < at) {
        match byte {
            b'[' | b'{' => open.push((char::from(byte), place)),
            b']' | b'}' => drop(open.pop()),
            _ => {}
        }
    }
    open.pop()
}

/// The line break from here on, or the end.
pub(crate) fn line_end(bytes: &[u8], from: usize) -> usize {
    bytes[from.min(bytes.len())..].iter().position(|b| *b == b'\n').map_or(bytes.len(), |at| from + at)
}

/// The end of a string that begins at `from`; a string that is not triple-quoted ends with its line at the latest.
fn string_end(bytes: &[u8], from: usize, mark: u8) -> usize {
    let long = [mark; 3];
    let (mut at, end) =
        if bytes[from..].starts_with(&long) { (from + 3, bytes.len()) } else { (from + 1, line_end(bytes, from)) };
    let is_long = at == from + 3;
    while at < end {
        if bytes[at] == b'\\' && mark == b'"' {
            at += 2;
        } else if is_long && bytes[at..].starts_with(&long) {
            return at + 3;
        } else if !is_long && bytes[at] == mark {
            return at + 1;
        } else {
            at += 1;
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statements(text: &str) -> Vec<(&str, bool)> {
        Statements { text, at: 0 }.map(|s| (&text[s.range], s.matched)).collect()
    }

    #[test]
    fn a_statement_goes_on_while_a_bracket_is_open() {
        assert_eq!(
            statements("a = [1,\n 2]\n# ]\nb = \"[\\\"[\"\nc = '['\nd = \"\"\"\n[\"\"\"\n[e]"),
            [
                ("a = [1,\n 2]\n", true),
                ("# ]\n", true),
                ("b = \"[\\\"[\"\n", true),
                ("c = '['\n", true),
                ("d = \"\"\"\n[\"\"\"\n", true),
                ("[e]", true)
            ]
        );
        assert_eq!(statements("a = [\nb = 1\n"), [("a = [\nb = 1\n", false)]);
        assert_eq!(statements("a = 1]\nb = 1\n"), [("a = 1]\n", false), ("b = 1\n", true)]);
        assert_eq!(
            statements("a = \"x\nb = 'y\nc = \"\\"),
            [("a = \"x\n", true), ("b = 'y\n", true), ("c = \"\\", true)]
        );
        assert_eq!(statements("a = \"\"\"\\"), [("a = \"\"\"\\", true)]);
    }

    #[test]
    fn one_fault_of_a_statement_that_is_not_closed() {
        let text = "a = =\nb = [[1], [2]\nc = [3]\nd = 4\n";
        let place = |what: &str| text.find(what).unwrap_or(text.len());
        let diagnostics: Vec<_> =
            ["= =", "c", "= [3]", "d", "none"].map(|what| (place(what), place(what), what)).into();
        let kept: Vec<_> = first_errors(text, diagnostics).into_iter().map(|diagnostic| diagnostic.2).collect();
        assert_eq!(kept, ["= =", "c"]);
    }

    #[test]
    fn one_fault_of_a_list_without_its_opening_bracket() {
        let text = "a = \n  { b = 1 },\n  { c = 2 },\n]\nd = =\n";
        let diagnostics: Vec<_> = text.match_indices(['{', ']', '=']).map(|(at, what)| (at, at, what)).collect();
        let kept = first_errors(text, diagnostics);
        let lines: Vec<_> = kept.into_iter().map(|diagnostic| text[..diagnostic.0].matches('\n').count()).collect();
        assert_eq!(lines, [0, 4]);
    }

    #[test]
    fn each_line_of_a_closed_statement_has_its_own() {
        let text = "a = [\n{ b = },\n{ c = = },\n]\nd = =\n";
        let diagnostics: Vec<_> = text.match_indices('=').map(|(at, what)| (at, at, what)).collect();
        let kept =
            first_errors(text, diagnostics).into_iter().map(|diagnostic| text[..diagnostic.0].matches('\n').count());
        assert_eq!(kept.collect::<Vec<_>>(), [0, 1, 2, 4]);
    }
}
