//! Messages for values in the notation of other languages: `True`, `None`, ranges of numbers, and `.5` or `1.`.
use super::diagnostic::{Diagnostic, Span};
use super::names::shorten;

/// Number of bytes of a number that a message repeats.
const SHOWN_NUMBER: usize = 40;

/// Number of values of a range that a message lists.
const SHOWN_VALUES: usize = 12;

/// The diagnostic for the value at `at`, if another language would accept it.
pub(super) fn diagnostic(text: &str, at: usize) -> Option<Diagnostic> {
    let span = value_at(text, at);
    let value = text.get(span.start..span.end)?;
    let say = |message: String, help: String| Some(Diagnostic::new(span, message).help(help));
    let (sign, word) = value.split_at(value.len() - value.trim_start_matches(['+', '-']).len());
    let known = match word.to_ascii_lowercase().as_str() {
        "true" if sign.is_empty() => Some("true"),
        "false" if sign.is_empty() => Some("false"),
        "nan" if sign.len() < 2 => Some("nan"),
        "inf" if sign.len() < 2 => Some("inf"),
        "infinity" if sign.len() < 2 => {
            return say(format!("`{value}` is not a valid TOML value"), format!("write `{sign}inf`"));
        }
        _ => None,
    };
    if let Some(known) = known.filter(|known| *known != word) {
        return say(format!("`{known}` is written in small letters"), format!("write `{sign}{known}`"));
    }
    if ["none", "null", "nil"].iter().any(|word| value.eq_ignore_ascii_case(word)) {
        return say(format!("TOML has no `{value}`"), "leave a key out that has no value".into());
    }
    if !value.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return None;
    }
    if value.contains("..") {
        let help = match range_as_list(value) {
            Some(values) => format!("write the values as a list: `[{values}]`"),
            None => "a list of values is written `[1, 2, 3]`".into(),
        };
        return say(format!("`{}` is not a valid TOML value", shorten(value, 24)), help);
    }
    let completed = complete(word);
    if sign.len() < 2 && completed != word && completed.len() <= SHOWN_NUMBER && completed.parse::<f64>().is_ok() {
        return say(format!("`{value}` lacks digits"), format!("write `{sign}{completed}`"));
    }
    None
}

/// The characters around `at` that belong to one value.
fn value_at(text: &str, at: usize) -> Span {
    let ends = |c: char| c.is_whitespace() || matches!(c, ',' | '[' | ']' | '{' | '}' | '#' | '"' | '\'');
    let before = text.get(..at).unwrap_or_default();
    let start =
        before.char_indices().rfind(|(_, c)| *c == '=' || ends(*c)).map_or(0, |(found, c)| found + c.len_utf8());
    let rest = text.get(start..).unwrap_or_default();
    Span { start, end: start + rest.find(ends).unwrap_or(rest.len()) }
}

/// The values of `1..4`, `1..=4` or `1...4`, separated by commas and with both ends, since a list is unambiguous about them.
pub(super) fn range_as_list(value: &str) -> Option<String> {
    let (from, to) = value.split_once("..")?;
    let (from, to) = (from.parse::<i64>().ok()?, to.trim_start_matches(['.', '=']).parse::<i64>().ok()?);
    (from <= to).then(|| listed((from..=to).map(i128::from), to.into()))
}

/// The values separated by commas, with the middle ones left out if there are many.
pub(super) fn listed(values: impl Iterator<Item = i128>, last: i128) -> String {
    let mut shown: Vec<_> = values.take(SHOWN_VALUES + 1).map(|value| value.to_string()).collect();
    if shown.len() > SHOWN_VALUES {
        shown.truncate(SHOWN_VALUES - 2);
        shown.extend(["...".to_owned(), last.to_string()]);
    }
    shown.join(", ")
}

/// The number with a 0 wherever digits are missing next to the decimal point.
fn complete(number: &str) -> String {
    let (mantissa, exponent) = number.split_at(number.find(['e', 'E']).unwrap_or(number.len()));
    match mantissa.split_once('.') {
        Some(("", fraction)) if !fraction.is_empty() => format!("0.{fraction}{exponent}"),
        Some((whole, "")) if !whole.is_empty() => format!("{whole}.0{exponent}"),
        _ => number.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(value: &str) -> Option<(String, String)> {
        let text = format!("timeout = {value}\n");
        diagnostic(&text, "timeout = ".len()).map(|d| (d.message, d.help.unwrap_or_default()))
    }

    #[test]
    fn values_of_other_languages_are_answered_with_what_to_write() {
        for (value, message, help) in [
            ("4..8", "`4..8` is not a valid TOML value", "write the values as a list: `[4, 5, 6, 7, 8]`"),
            ("1..=3", "`1..=3` is not a valid TOML value", "write the values as a list: `[1, 2, 3]`"),
            (
                "1..1000000000000",
                "`1..1000000000000` is not a valid TOML value",
                "write the values as a list: `[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ..., 1000000000000]`",
            ),
            ("8..4", "`8..4` is not a valid TOML value", "a list of values is written `[1, 2, 3]`"),
            ("1..", "`1..` is not a valid TOML value", "a list of values is written `[1, 2, 3]`"),
            ("1.", "`1.` lacks digits", "write `1.0`"),
            ("-.5", "`-.5` lacks digits", "write `-0.5`"),
            ("2.e-3", "`2.e-3` lacks digits", "write `2.0e-3`"),
            ("True", "`true` is written in small letters", "write `true`"),
            ("-Inf", "`inf` is written in small letters", "write `-inf`"),
            ("Infinity", "`Infinity` is not a valid TOML value", "write `inf`"),
            ("NaN", "`nan` is written in small letters", "write `nan`"),
            ("None", "TOML has no `None`", "leave a key out that has no value"),
        ] {
            assert_eq!(said(value), Some((message.to_owned(), help.to_owned())), "{value}");
        }
    }

    #[test]
    fn other_values_are_left_to_the_parser() {
        for value in ["sum", "rank..4", "2*3", "4k", "1.5.2", "", ".", "--1.", "1.5", "1e3", "true", "-inf"] {
            assert_eq!(said(value), None, "{value}");
        }
    }

    #[test]
    fn long_numbers_are_not_repeated() {
        for (before, after) in [("", "."), ("-.", ""), ("", "..2"), ("1..", "")] {
            let value = format!("{before}{}{after}", "1".repeat(100_000));
            let said = said(&value);
            assert!(said.iter().all(|(message, help)| message.len() + help.len() < 200), "{before}1...{after}");
        }
    }

    #[test]
    fn any_place_of_any_text_is_looked_at_without_a_panic() {
        let text = "a = 1..\u{e9}\u{2026}4 #\n='\u{1F600},000\r\n-.e+0x_";
        for at in 0..text.len() + 2 {
            let _ = diagnostic(text, at);
        }
    }
}
