//! Escapes text from other sources, so that it can be displayed.
//!
//! Scenario files, paths, variables, libraries and their logs can hold control characters: a terminal obeys them, and they
//! can hide or forge this program's own output. All foreign text passes through this module before it is shown.
use std::borrow::Cow;
use std::io::{self, Write};

/// Largest number of characters of a line.
const LINE: usize = 1000;
/// Limit on the total number of bytes of all lines.
const TEXT: usize = 32 << 10;

/// False for characters that a terminal obeys or does not display: control characters (C0, DEL and C1), line and paragraph separators,
/// marks of direction, and characters without a width.
pub fn is_printable(c: char) -> bool {
    let invisible = matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}');
    !c.is_control() && !invisible
}

/// Appends a character as it is displayed.
pub fn push_escaped(out: &mut String, c: char) {
    match c {
        '\n' | '\t' | '\r' => out.extend(c.escape_default()),
        c if is_printable(c) => out.push(c),
        c => out.extend(c.escape_unicode()),
    }
}

/// The text as one line: characters that cannot be displayed become `\n`, `\t` or `\u{1b}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_printable) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    text.chars().for_each(|c| push_escaped(&mut out, c));
    Cow::Owned(out)
}

/// The text with its line breaks. Long lines and very long texts are cut, with a note of how much is left out.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    let fine = |line: &str| line.len() <= LINE && line.chars().all(is_printable);
    if text.len() <= TEXT && text.split('\n').all(fine) {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut lines = text.split('\n');
    while let Some(line) = lines.next() {
        let line = cut_line(line.strip_suffix('\r').unwrap_or(line));
        if out.len() + line.len() > TEXT && !out.is_empty() {
            out.push_str(&format!("… {} more lines", 1 + lines.count()));
            return Cow::Owned(out);
        }
        out.push_str(&line);
        out.push('\n');
    }
    out.pop();
    Cow::Owned(out)
}

/// A text of several lines as one line of limited length.
pub fn one_line(text: &str) -> Cow<'_, str> {
    cut_line(text)
}

/// The unchanged text, or the beginning of a very long one with a note of how much is left out.
pub fn bounded(text: &str) -> Cow<'_, str> {
    bounded_to(text, TEXT)
}

/// Like [`bounded`], with at most this many bytes before the note.
pub fn bounded_to(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Cow::Owned(format!("{}… ({} more bytes)", &text[..end], text.len() - end))
}

/// A number with thousands separators.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The line, or the beginning of a long one with a note of how much is left out.
fn cut_line(line: &str) -> Cow<'_, str> {
    match line.char_indices().nth(LINE) {
        None => printable(line),
        Some((at, _)) => {
            let all = line.chars().count();
            Cow::Owned(format!("{}… ({} more characters)", printable(&line[..at]), all - LINE))
        }
    }
}

/// A writer that passes on only text which can be shown: the last guard in front of a terminal or a file. Line breaks
/// pass, and with `styled` the sequences that set colours, which occur only in this program's own text: foreign text has lost
/// its own before. Bytes that are not UTF-8 are shown as `\xNN`.
#[derive(Debug)]
pub struct PrintableWriter<W: Write> {
    to: W,
    styled: bool,
    /// The beginning of a character or sequence whose rest has not come yet.
    begun: Vec<u8>,
}

/// Longest sequence that sets colours: `ESC [ 38;2;255;255;255;48;2;255;255;255 m` and some more.
const LONGEST_STYLE: usize = 64;

impl<W: Write> PrintableWriter<W> {
    /// Writes displayable text to `to`; `styled` lets colours through.
    pub fn new(to: W, styled: bool) -> Self {
        Self { to, styled, begun: Vec::new() }
    }

    /// The text to write for `bytes`. The beginning of an incomplete character or sequence is kept for the next call unless this
    /// is the `end`.
    fn escape(&mut self, bytes: &[u8], end: bool) -> String {
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let mut out = String::with_capacity(all.len());
        let mut rest = all.as_slice();
        while !rest.is_empty() {
            if self.styled && rest.starts_with(b"\x1b") {
                match style(rest) {
                    StyleSequence::Whole(len) => {
                        out.push_str(&String::from_utf8_lossy(&rest[..len]));
                        rest = &rest[len..];
                        continue;
                    }
                    StyleSequence::Begun if !end => break,
                    StyleSequence::Begun | StyleSequence::None => {}
                }
            }
            match character(rest) {
                NextCharacter::Whole('\n', len) => {
                    out.push('\n');
                    rest = &rest[len..];
                }
                NextCharacter::Whole(c, len) => {
                    push_escaped(&mut out, c);
                    rest = &rest[len..];
                }
                NextCharacter::Begun if !end => break,
                NextCharacter::Begun | NextCharacter::Broken => {
                    out.push_str(&format!("\\x{:02x}", rest[0]));
                    rest = &rest[1..];
                }
            }
        }
        self.begun = rest.to_vec();
        out
    }

    fn finish(&mut self) -> io::Result<()> {
        let last = self.escape(&[], true);
        self.to.write_all(last.as_bytes())
    }
}

enum StyleSequence {
    Whole(usize),
    Begun,
    None,
}

/// The sequence `ESC [ digits and ; m` that begins here, if one does.
fn style(bytes: &[u8]) -> StyleSequence {
    for (at, byte) in bytes.iter().take(LONGEST_STYLE).enumerate() {
        match (at, byte) {
            (0, b'\x1b') | (1, b'[') => {}
            (2.., b'0'..=b'9' | b';') => {}
            (2.., b'm') => return StyleSequence::Whole(at + 1),
            _ => return StyleSequence::None,
        }
    }
    if bytes.len() < LONGEST_STYLE { StyleSequence::Begun } else { StyleSequence::None }
}

enum NextCharacter {
    Whole(char, usize),
    Begun,
    Broken,
}

fn character(bytes: &[u8]) -> NextCharacter {
    let head = &bytes[..bytes.len().min(4)];
    let (valid, broken) = match std::str::from_utf8(head) {
        Ok(text) => (text, None),
        Err(error) => (std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default(), Some(error.error_len())),
    };
    match (valid.chars().next(), broken) {
        (Some(c), _) => NextCharacter::Whole(c, c.len_utf8()),
        (None, Some(None)) => NextCharacter::Begun,
        (None, _) => NextCharacter::Broken,
    }
}

impl<W: Write> Write for PrintableWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let shown = self.escape(bytes, false);
        self.to.write_all(shown.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.finish()?;
        self.to.flush()
    }
}

impl<W: Write> Drop for PrintableWriter<W> {
    fn drop(&mut self) {
        // An error cannot be reported from a drop.
        let _ = self.finish();
    }
}

/// JSON in which all characters that cannot be displayed are escaped, where JSON itself demands it only of the first 32.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrintableJson;

impl serde_json::ser::Formatter for PrintableJson {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, to: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| !is_printable(*c)) {
            to.write_all(&rest.as_bytes()[..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(to, "\\u{unit:04x}")?;
            }
            rest = &rest[at + c.len_utf8()..];
        }
        to.write_all(rest.as_bytes())
    }
}

/// Writes a value as JSON with [`PrintableJson`].
///
/// # Errors
///
/// Writing fails, or the value cannot be serialized.
pub fn write_json<T: serde::Serialize + ?Sized>(to: &mut dyn Write, value: &T) -> serde_json::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(to, PrintableJson))
}

/// Names that a message has room for.
const NAMED: usize = 4;

/// `rank 3 on b`, `rank 3 on b and rank 4 on b`; of many the first few and their number.
pub fn names_in_words(names: &[String]) -> String {
    match names {
        [] => "nobody".to_owned(),
        [one] => one.clone(),
        _ if names.len() > NAMED => {
            let (named, more) = names.split_at(NAMED);
            format!("{} and {} {}", named.join(", "), more.len(), if more.len() == 1 { "other" } else { "others" })
        }
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A text as a TOML string in which every character is visible.
pub fn toml_string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if is_printable(c) => out.push(c),
            c => out.push_str(&format!("\\U{:08X}", u32::from(c))),
        }
    }
    out + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1000), "1,000");
        assert_eq!(thousands(12_345_678), "12,345,678");
    }

    /// One character of each kind that must not appear unescaped.
    const HOSTILE: &str =
        "\u{0}\u{7}\u{8}\u{b}\u{c}\r\u{1b}\u{7f}\u{85}\u{9b}\u{200b}\u{200e}\u{2028}\u{202e}\u{2066}\u{feff}\u{e0041}";

    fn clean(text: &str) -> bool {
        text.chars().all(is_printable)
    }

    #[test]
    fn a_line_has_nothing_that_a_terminal_obeys() {
        assert_eq!(printable("a\u{1b}]0;x\u{7}\nb\tc\u{9b}"), "a\\u{1b}]0;x\\u{7}\\nb\\tc\\u{9b}");
        assert!(matches!(printable("plain ä 漢 🙂"), Cow::Borrowed(_)));
        for c in HOSTILE.chars() {
            assert!(!is_printable(c) && clean(&printable(&c.to_string())), "{c:?}");
        }
    }

    #[test]
    fn lines_stay_lines_and_are_cut() {
        assert_eq!(printable_lines("a\r\nb\u{1b}\n"), "a\nb\\u{1b}\n");
        let long = "x".repeat(5000);
        let shown = printable_lines(&long);
        assert!(shown.ends_with("… (4000 more characters)") && shown.len() < 1100, "{shown}");
        let many = "line\n".repeat(100_000);
        let shown = printable_lines(&many);
        assert!(shown.len() < TEXT + 100 && shown.ends_with(" more lines"), "{}", shown.len());
        let wide = "\u{1b}".repeat(1000);
        assert!(printable_lines(&format!("{wide}\n").repeat(100)).len() <= TEXT + 100);
    }

    fn guarded(parts: &[&[u8]], styled: bool) -> String {
        let mut out = Vec::new();
        let mut guard = PrintableWriter::new(&mut out, styled);
        for part in parts {
            guard.write_all(part).unwrap();
        }
        drop(guard);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_guard_lets_colours_pass_and_nothing_else() {
        let text = b"\x1b[1;31mFAIL\x1b[0m a\x1b]0;t\x07\x1b[2J\r\n\xff\xc3\xa4";
        let styled = "\u{1b}[1;31mFAIL\u{1b}[0m a\\u{1b}]0;t\\u{7}\\u{1b}[2J\\r\n\\xffä";
        assert_eq!(guarded(&[text], true), styled);
        // The result does not depend on how the text is split into writes.
        for at in 0..text.len() {
            assert_eq!(guarded(&[&text[..at], &text[at..]], true), styled);
        }
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(guarded(&bytes, true), styled);
        assert!(guarded(&[text], false).starts_with("\\u{1b}[1;31mFAIL\\u{1b}[0m"));
        assert_eq!(guarded(&[b"\x1b[1;1"], true), "\\u{1b}[1;1");
        assert_eq!(guarded(&[b"\xe6\xbc"], true), "\\xe6\\xbc");
    }

    #[test]
    fn json_reads_back_and_holds_nothing_raw() {
        let mut out = Vec::new();
        write_json(&mut out, HOSTILE).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(clean(&text), "{text:?}");
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), HOSTILE);
    }

    #[test]
    fn many_names_are_a_few_and_a_number() {
        let named =
            |count: u32| names_in_words(&(0..count).map(|rank| format!("rank {rank} on b")).collect::<Vec<_>>());
        assert_eq!(named(1), "rank 0 on b");
        assert_eq!(named(2), "rank 0 on b and rank 1 on b");
        assert_eq!(named(4), "rank 0 on b, rank 1 on b, rank 2 on b and rank 3 on b");
        assert_eq!(named(5), "rank 0 on b, rank 1 on b, rank 2 on b, rank 3 on b and 1 other");
        assert_eq!(named(70), "rank 0 on b, rank 1 on b, rank 2 on b, rank 3 on b and 66 others");
    }
}
