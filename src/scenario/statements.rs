//! Which faults of syntax are worth showing: after a bracket that is missing the parser reads on inside of the list, and takes
//! the lines that follow for its elements, which gives many faults for one mistake.
use std::ops::Range;

/// A place in the text, and what is wrong there.
type Fault<'a> = (usize, usize, &'a str);

/// Of faults in the order of the text, those that are no consequences of an earlier one: the first of every statement whose
/// brackets do not match, and the first of every line of the others.
pub(crate) fn first_faults<'a>(text: &str, faults: Vec<Fault<'a>>) -> Vec<Fault<'a>> {
    let mut statements = Statements { text, at: 0 }.peekable();
    // Up to here, what was shown last explains the rest.
    let mut explained = None;
    let mut kept = Vec::new();
    for fault in faults {
        // A fault at the end of the text belongs to the last statement.
        while let Some(next) = statements.peek() {
            if fault.0 < next.range.end || next.range.end == text.len() {
                break;
            }
            statements.next();
            explained = None;
        }
        if explained.is_some_and(|end| fault.0 <= end) {
            continue;
        }
        kept.push(fault);
        let matched = statements.peek().is_none_or(|statement| statement.matched);
        explained = Some(if matched { line_end(text.as_bytes(), fault.0) } else { text.len() });
    }
    kept
}

/// A key with its value, or a header, and the end of its last line.
struct Statement {
    range: Range<usize>,
    /// Each bracket has its other half.
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
        let mut at = start;
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'[' | b'{' => depth += 1,
                b']' | b'}' => match depth.checked_sub(1) {
                    Some(less) => depth = less,
                    None => matched = false,
                },
                b'#' => {
                    at = line_end(bytes, at);
                    continue;
                }
                b'"' | b'\'' => {
                    at = string_end(bytes, at, *byte);
                    continue;
                }
                b'\n' if depth == 0 => {
                    at += 1;
                    break;
                }
                _ => {}
            }
            at += 1;
        }
        self.at = at;
        Some(Statement { range: start..at, matched: matched && depth == 0 })
    }
}

/// The line break from here on, or the end.
fn line_end(bytes: &[u8], from: usize) -> usize {
    bytes[from.min(bytes.len())..].iter().position(|b| *b == b'\n').map_or(bytes.len(), |at| from + at)
}

/// The end of a string that begins here; one in single marks ends with its line at the latest.
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
        let faults: Vec<_> = ["= =", "c", "= [3]", "d", "none"].map(|what| (place(what), place(what), what)).into();
        let kept: Vec<_> = first_faults(text, faults).into_iter().map(|fault| fault.2).collect();
        assert_eq!(kept, ["= =", "c"]);
    }

    #[test]
    fn each_line_of_a_closed_statement_has_its_own() {
        let text = "a = [\n{ b = },\n{ c = = },\n]\nd = =\n";
        let faults: Vec<_> = text.match_indices('=').map(|(at, what)| (at, at, what)).collect();
        let kept = first_faults(text, faults).into_iter().map(|fault| text[..fault.0].matches('\n').count());
        assert_eq!(kept.collect::<Vec<_>>(), [0, 1, 2, 4]);
    }
}
