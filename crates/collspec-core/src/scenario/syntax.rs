//! Messages for errors of TOML's syntax: the error in the words of this project, and the suggested fix.
use super::diagnostic::{Diagnostic, Span};
use super::names::shorten;
use super::statements::{line_end, open_bracket};
use super::syntax_numbers;

/// The message and help for an error that the TOML parser reports as `message` at `span`.
pub(crate) fn diagnostic(text: &str, span: Span, message: &str) -> Diagnostic {
    let here = text.get(span.start..span.end).unwrap_or_default();
    let from_here = text.get(span.start..).unwrap_or_default();
    let say = |message: String| Diagnostic::new(span, message);
    if message.contains("recurs") {
        let text_of = format!("nested too deeply: at most {MOST_NESTED} levels can stand inside of each other");
        // The parser does not give the place of a key with too many parts.
        return Diagnostic::new(long_key(text).unwrap_or(span), text_of);
    }
    if is_json(text) {
        return say("a scenario is written in TOML, not in JSON".into())
            .help("write a key per line: `world_size = 2`, `op = \"all_reduce\"`");
    }
    if let Some(lines) = from_yaml(text) {
        return say("this is YAML; TOML has `=` between key and value".into())
            .help(format!("write a key per line: `{}`", lines.join("`, `")));
    }
    if message.starts_with("invalid literal string, expected `'`") {
        let line = text.get(..span.start).and_then(|before| before.rsplit('\n').next()).unwrap_or_default();
        return match line.contains('\'') {
            true => say("this text does not end on its line".into()).help("close it with `'`"),
            // The parser gives the same message for a key without a value in a table.
            false => say("expected `=` and a value before this".into()),
        };
    }
    for (kind, quotes) in [("basic", "\"\"\""), ("literal", "'''")] {
        if message.starts_with(&format!("invalid multi-line {kind} string, expected `{}`", &quotes[..1])) {
            return say("this text never ends".into()).help(format!("close it with `{quotes}`"));
        }
    }
    if let Some(diagnostic) = VALUE_ERRORS.iter().find(|start| message.starts_with(**start)).and_then(|_| {
        // Text after the value is reported where it begins.
        let at = if message.starts_with(MORE_BEHIND) { span.start.saturating_sub(1) } else { span.start };
        syntax_numbers::diagnostic(text, at)
    }) {
        return diagnostic;
    }
    if message.starts_with("string values must be quoted") {
        return match key_behind_value(text, span) {
            Some(key) if open_bracket(text, span.start).is_some() => say(format!("a comma is missing before `{key}`")),
            Some(_) => line_goes_on(say),
            None => unquoted(say, text, span, here),
        };
    }
    if message.starts_with("invalid boolean") {
        return unquoted(say, text, span, here);
    }
    if message.starts_with("invalid basic string, expected `\"`") {
        return say("this text does not end on its line".into()).help("close it with `\"`");
    }
    if message.starts_with("invalid basic string, expected non-double-quote") {
        return say("a text cannot hold this character".into()).help("write its code: `\\u0000` for the character 0");
    }
    if message.starts_with("extra `=`") {
        return say("there is an `=` too many".into());
    }
    if let Some(correct) = with_colon(text, span.start) {
        return say("a key and its value stand on either side of `=`".into()).help(format!("write `{correct}`"));
    }
    if message.starts_with("key with no value") {
        return say("expected `=` and a value here".into())
            .help("a scenario is a TOML file of lines such as `world_size = 2`; a comment begins with `#`");
    }
    if message.starts_with("unclosed") {
        return match open_bracket(text, span.start) {
            Some((bracket, opened)) => {
                say(format!("the `{bracket}` of line {} is never closed", line_number(text, opened)))
            }
            None => say(message.to_owned()),
        };
    }
    if message.starts_with("extra comma") {
        return say("there is one comma too many".into());
    }
    if message.starts_with("missing comma") || message.starts_with("missing key for inline table") {
        return missing_in_list(say, text, span.start, from_here);
    }
    if message.starts_with(MORE_BEHIND) {
        return line_goes_on(say);
    }
    say(message.trim_end_matches(", expected nothing").to_owned())
}

/// Beginnings of the parser's messages on values that are neither texts nor lists nor tables.
const VALUE_ERRORS: [&str; 7] = [
    "string values must be quoted",
    MORE_BEHIND,
    "invalid fraction",
    "invalid mantissa",
    "invalid exponent",
    "invalid float",
    "invalid boolean",
];
const MORE_BEHIND: &str = "unexpected key or value";

/// Limit on the nesting levels that the TOML parser reads.
const MOST_NESTED: usize = 80;

/// The first key or header of a table that has more parts than the parser reads.
fn long_key(text: &str) -> Option<Span> {
    let mut start = 0;
    text.split_inclusive('\n').find_map(|line| {
        let from = start + line.len() - line.trim_start().len();
        start += line.len();
        let key = line.trim_start().split(['=', '#', '"', '\'', '\n', '\r']).next().unwrap_or_default().trim_end();
        (key.matches('.').count() >= MOST_NESTED).then(|| Span { start: from, end: from + key.len() })
    })
}

/// True for a text that is a JSON object, of which every line would be an error.
pub(crate) fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// True if the text has the form of keys and words of the language.
fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The key whose value begins at `at`, if it begins its line.
fn key_before(text: &str, at: usize) -> Option<&str> {
    let line = text.get(..at)?.rsplit('\n').next()?;
    line.trim().strip_suffix('=').map(str::trim).filter(|key| is_word(key))
}

/// The first lines of a YAML file, converted to TOML.
fn from_yaml(text: &str) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n').take(40) {
        let here = start;
        start += line.len();
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, _) = line.split_once(':')?;
        if !is_word(key) {
            return (lines.len() > 1).then_some(lines);
        }
        lines.extend(with_colon(text, here));
        if lines.len() == 3 {
            break;
        }
    }
    (lines.len() > 1).then_some(lines)
}

/// True for a text whose first lines are YAML, of which every line would be an error.
pub(crate) fn is_yaml(text: &str) -> bool {
    from_yaml(text).is_some()
}

/// The key that follows a value at the end of `span`: `op` in `world_size = 2 op = "all_reduce"`.
fn key_behind_value(text: &str, span: Span) -> Option<&str> {
    let (value, key) = text.get(span.start..span.end)?.trim().rsplit_once(char::is_whitespace)?;
    let behind = text.get(span.end..)?.trim_start_matches([' ', '\t']);
    (!value.trim().is_empty() && key.split('.').all(is_word) && behind.starts_with('=')).then_some(key)
}

fn line_goes_on(say: impl Fn(String) -> Diagnostic) -> Diagnostic {
    say("the line does not end after this value".into())
        .help("each key has a line of its own, and a comment begins with `#`")
}

/// A value that is neither a number nor in quotes.
fn unquoted(say: impl Fn(String) -> Diagnostic, text: &str, span: Span, here: &str) -> Diagnostic {
    match here.trim() {
        "" => say("a value is missing here".into())
            .help("a value is a number, a text in quotes, true, false, a list `[...]` or a table `{...}`"),
        _ if here.contains(|c: char| c.is_whitespace() && !c.is_ascii()) => {
            say("TOML does not allow this kind of space".into()).help("write an ordinary space in its place")
        }
        value if value.len() > 60 => say(format!("`{}` is not a valid TOML value", shorten(value, 24)))
            .help("write text and expressions in quotes"),
        value if value.split_whitespace().all(|word| word.parse::<f64>().is_ok()) => {
            let list = value.split_whitespace().collect::<Vec<_>>().join(", ");
            match open_bracket(text, span.start) {
                Some(('[', _)) => say(format!("a comma is missing in `{value}`")).help(format!("write `{list}`")),
                _ => say(format!("`{value}` is more than one value")).help(format!("a list is written `[{list}]`")),
            }
        }
        word if is_word(word) && word.len() <= 60 => match key_before(text, span.start) {
            Some(key) => say("text needs quotes".into()).help(format!("write `{key} = \"{word}\"`")),
            None => say("text needs quotes".into()).help(format!("write `\"{word}\"`")),
        },
        value if value.starts_with(['\u{201c}', '\u{201d}', '\u{201e}', '\u{2018}', '\u{2019}']) => {
            let inside = value.trim_matches(|c: char| matches!(c, '\u{2018}'..='\u{201f}'));
            say(format!("`{value}` is not a valid TOML value"))
                .help(format!("quotes are straight ones: `\"{inside}\"`"))
        }
        value if value.contains(" //") || value.contains(" /*") => {
            let mark = if value.contains(" //") { "//" } else { "/*" };
            say(format!("`{mark}` does not begin a comment")).help("a comment begins with `#`")
        }
        // Part of a value whose other part is in quotes, or a value that needs more than quotes.
        value
            if value.contains(['\\', '`', '"'])
                || text.get(span.end..).unwrap_or_default().trim_start().starts_with(['"', '\'']) =>
        {
            say(format!("`{value}` is not a valid TOML value")).help("write the whole text or expression in quotes")
        }
        value => say(format!("`{value}` is not a valid TOML value"))
            .help(format!("write text and expressions in quotes: `\"{value}\"`")),
    }
}

/// The line `key: value` at `at` converted to TOML.
fn with_colon(text: &str, at: usize) -> Option<String> {
    let start = text.get(..at)?.rfind('\n').map_or(0, |newline| newline + 1);
    let line = text.get(start..line_end(text.as_bytes(), at))?;
    let (key, value) = line.split_once(':')?;
    let (key, value) = (key.trim().trim_matches('"'), value.trim().trim_end_matches(','));
    let is_key = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let is_value =
        value.parse::<f64>().is_ok() || value.starts_with(['"', '[', '{']) || ["true", "false"].contains(&value);
    let is_word = !value.is_empty() && value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    match (is_key, is_value, is_word) {
        (true, true, _) => Some(format!("{key} = {value}")),
        (true, false, true) => Some(format!("{key} = \"{value}\"")),
        _ => None,
    }
}

/// A diagnostic on the text in a list or table where a comma or the end should be.
fn missing_in_list(say: impl Fn(String) -> Diagnostic, text: &str, at: usize, from_here: &str) -> Diagnostic {
    let begins_line = text.get(..at).is_some_and(|before| before.trim_end_matches([' ', '\t']).ends_with('\n'));
    let line = from_here.lines().next().unwrap_or_default();
    let is_statement = line.starts_with('[') && line.trim_end().ends_with(']') && !line.contains(',')
        || line
            .split_once('=')
            .is_some_and(|(key, _)| key.trim_end().bytes().all(|b| b.is_ascii_alphanumeric() || b"_.\"".contains(&b)));
    match open_bracket(text, at) {
        Some((bracket, opened)) if begins_line && (is_statement || bracket == '{') => {
            let close = if bracket == '{' { '}' } else { ']' };
            let number = line_number(text, opened);
            say(format!("a `{close}` is missing before this"))
                .help(format!("the `{bracket}` of line {number} is still open"))
        }
        _ => say("a comma is missing before this".into()),
    }
}

fn line_number(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or_default().matches('\n').count() + 1
}
