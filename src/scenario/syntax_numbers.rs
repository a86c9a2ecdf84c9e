//! Messages for what was meant as a number, `true` or `false` and is none: ranges, grouped digits, suffixes of other
//! languages, missing and superfluous digits.
use super::diagnostic::{Diagnostic, Span};
use super::names::shorten;

/// Bytes of a number that a message repeats.
const SHOWN_NUMBER: usize = 40;

/// Values of a range that a message lists.
const SHOWN_VALUES: usize = 12;

/// The diagnostic for the value at `at`, of which the TOML parser says `message`, if it is written as a number, a range of
/// numbers, `true` or `false`, but not as TOML writes them.
pub(super) fn diagnostic(text: &str, at: usize, message: &str) -> Option<Diagnostic> {
    let span = value_at(text, at);
    let value = text.get(span.start..span.end)?;
    let say = |message: String, help: Option<String>| {
        let diagnostic = Diagnostic::new(span, message);
        Some(match help {
            Some(help) => diagnostic.help(help),
            None => diagnostic,
        })
    };
    let write = |correct: String| (correct.len() <= SHOWN_NUMBER).then(|| format!("write `{correct}`"));
    let (signs, word) = value.split_at(value.len() - value.trim_start_matches(['+', '-']).len());
    let known = match word.to_ascii_lowercase().as_str() {
        "true" if signs.is_empty() => Some("true"),
        "false" if signs.is_empty() => Some("false"),
        "nan" if signs.len() < 2 => Some("nan"),
        "inf" if signs.len() < 2 => Some("inf"),
        "infinity" if signs.len() < 2 => return say(format!("`{value}` is no value"), write(format!("{signs}inf"))),
        _ => None,
    };
    if let Some(known) = known.filter(|known| *known != word) {
        return say(format!("`{known}` is written in small letters"), write(format!("{signs}{known}")));
    }
    if ["none", "null", "nil"].iter().any(|word| value.eq_ignore_ascii_case(word)) {
        return say(format!("TOML has no `{value}`"), Some("leave a key out that has no value".into()));
    }
    if !value.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return None;
    }
    if let Some(values) = range_as_list(value) {
        let help = format!("write the values as a list: `[{values}]`");
        return say(format!("`{}` is no value", shorten(value, 24)), Some(help));
    }
    if value.contains("..") {
        return say(
            format!("`{}` is no value", shorten(value, 24)),
            Some("a list of values is written `[1, 2, 3]`".into()),
        );
    }
    if let Some(number) = grouped(text, span) {
        let whole = Span { start: span.start, end: span.start + number.len() };
        let diagnostic = Diagnostic::new(whole, "the digits of a number are not separated by commas");
        return Some(match write(number.replace(',', "")) {
            Some(help) => diagnostic.help(format!("{help} or `{}`", number.replace(',', "_"))),
            None => diagnostic,
        });
    }
    let digits = value.trim_start_matches(['+', '-']);
    let sign = if value[..value.len() - digits.len()].contains('-') { "-" } else { "" };
    if value.len() - digits.len() > 1 && is_number(digits) {
        // Of two minus signs it cannot be known whether both are meant.
        let is_doubtful = value.matches('-').count() > 1;
        let help = write(format!("{sign}{digits}"));
        let help = if is_doubtful { help.map(|help| format!("{help} or `{digits}`")) } else { help };
        return say("a number has one sign".into(), help);
    }
    for (radix, base) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        let Some((prefix, behind)) = digits.split_at_checked(2).filter(|(start, _)| start.eq_ignore_ascii_case(radix))
        else {
            continue;
        };
        return match behind.chars().find(|c| !c.is_digit(base) && *c != '_') {
            Some(wrong) => say(format!("`{wrong}` is no digit of a number that begins with `{radix}`"), None),
            None if prefix != radix => {
                let has_digits = behind.starts_with(|c: char| c.is_digit(base));
                let help = if has_digits { write(format!("{radix}{}", behind.to_lowercase())) } else { None };
                say(format!("`{radix}` is written in small letters"), help)
            }
            None if digits.len() < value.len() => say(format!("a number that begins with `{radix}` has no sign"), None),
            None => None,
        };
    }
    if digits.starts_with('0') && digits[1..].starts_with(|c: char| c.is_ascii_digit() || c == '_') {
        let without = digits.trim_start_matches(['0', '_']);
        let number = if without.starts_with(|c: char| c.is_ascii_digit()) { without } else { &format!("0{without}") };
        // Zeros alone may be a group of digits behind a comma.
        let help = (!without.is_empty() && is_number(number)).then(|| write(format!("{sign}{number}"))).flatten();
        return say("a number does not begin with 0 and a further digit".into(), help);
    }
    let completed = complete(digits);
    if completed != digits && is_number(&completed) {
        return say(format!("`{}` lacks digits", shorten(value, 24)), write(format!("{sign}{completed}")));
    }
    let bare = digits.trim_end_matches(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | ';'));
    let rest = &digits[bare.len()..];
    let is_suffix = ["f", "F", "l", "L", "u", "U", "ul", "UL", "ll", "LL", "ull", "ULL", "n", ";", "_"].contains(&rest);
    let number = complete(bare);
    if is_suffix && is_number(&number) {
        return say(format!("a number does not end in `{rest}`"), write(format!("{sign}{number}")));
    }
    let is_of_number = ["invalid float", "invalid fraction", "invalid mantissa", "invalid exponent"];
    match is_of_number.iter().any(|start| message.starts_with(start)) {
        true => say(format!("`{}` is no number", shorten(value, 24)), None),
        false => None,
    }
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

/// The values of `1..4`, `1..=4` or `1...4`, separated by commas and with both ends, since a list has no doubt about them.
pub(super) fn range_as_list(value: &str) -> Option<String> {
    let (from, to) = value.split_once("..")?;
    let (from, to) = (from.parse::<i64>().ok()?, to.trim_start_matches(['.', '=']).parse::<i64>().ok()?);
    (from <= to).then(|| listed((from..=to).map(i128::from), to.into()))
}

/// The values separated by commas, the middle ones left out where they are many.
pub(super) fn listed(values: impl Iterator<Item = i128>, last: i128) -> String {
    let mut shown: Vec<_> = values.take(SHOWN_VALUES + 1).map(|value| value.to_string()).collect();
    if shown.len() > SHOWN_VALUES {
        shown.truncate(SHOWN_VALUES - 2);
        shown.extend(["...".to_owned(), last.to_string()]);
    }
    shown.join(", ")
}

/// The number `1,000` whose first digits are at `span`, if it stands behind a key that begins its line: in lists a comma separates.
fn grouped(text: &str, span: Span) -> Option<&str> {
    let line = text.get(..span.start)?.rsplit('\n').next()?;
    let is_value_of_line = line.matches('=').count() == 1 && !line.contains(['[', '{', '"', '\'', '#']);
    let rest = text.get(span.start..)?;
    let number = &rest[..rest.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(rest.len())];
    // What goes on behind the groups is left alone: its digits would get lost.
    if rest[number.len()..].starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_')) {
        return None;
    }
    let mut groups = number.split(',');
    let first = groups.next()?;
    let rest: Vec<_> = groups.collect();
    let is_grouped = (1..=3).contains(&first.len()) && !rest.is_empty() && rest.iter().all(|group| group.len() == 3);
    (is_value_of_line && is_grouped).then_some(number)
}

/// The number with a 0 wherever digits are missing beside the point or after the exponent.
fn complete(number: &str) -> String {
    let (mantissa, exponent) = match number.find(['e', 'E']) {
        Some(at) => number.split_at(at),
        None => (number, ""),
    };
    let mantissa = match mantissa.split_once('.') {
        Some((whole, fraction)) => {
            let or_zero = |digits: &str| if digits.is_empty() { "0".to_owned() } else { digits.to_owned() };
            format!("{}.{}", or_zero(whole), or_zero(fraction))
        }
        None => mantissa.to_owned(),
    };
    let lacks_exponent = exponent.len() == 1 || exponent.len() == 2 && exponent.ends_with(['+', '-']);
    if lacks_exponent { mantissa } else { mantissa + exponent }
}

/// True for digits with at most one point and an exponent.
fn is_number(text: &str) -> bool {
    let is_plain = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
    is_plain && text.starts_with(|c: char| c.is_ascii_digit()) && !text.ends_with('.') && text.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(value: &str) -> Option<(String, String)> {
        let text = format!("timeout = {value}\n");
        diagnostic(&text, "timeout = ".len(), "unexpected key or value")
            .map(|d| (d.message, d.help.unwrap_or_default()))
    }

    #[test]
    fn values_that_are_no_numbers_are_answered_with_what_to_write() {
        for (value, message, help) in [
            ("4..8", "`4..8` is no value", "write the values as a list: `[4, 5, 6, 7, 8]`"),
            ("1..=3", "`1..=3` is no value", "write the values as a list: `[1, 2, 3]`"),
            ("-1...1", "`-1...1` is no value", "write the values as a list: `[-1, 0, 1]`"),
            (
                "1..1000000000000",
                "`1..1000000000000` is no value",
                "write the values as a list: `[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ..., 1000000000000]`",
            ),
            ("1,000", "the digits of a number are not separated by commas", "write `1000` or `1_000`"),
            ("12,000,000", "the digits of a number are not separated by commas", "write `12000000` or `12_000_000`"),
            ("1.", "`1.` lacks digits", "write `1.0`"),
            ("-.5", "`-.5` lacks digits", "write `-0.5`"),
            ("1e", "`1e` lacks digits", "write `1`"),
            ("2.e-3", "`2.e-3` lacks digits", "write `2.0e-3`"),
            ("007", "a number does not begin with 0 and a further digit", "write `7`"),
            ("00.5", "a number does not begin with 0 and a further digit", "write `0.5`"),
            ("-00.5", "a number does not begin with 0 and a further digit", "write `-0.5`"),
            ("0_1", "a number does not begin with 0 and a further digit", "write `1`"),
            ("00", "a number does not begin with 0 and a further digit", ""),
            ("--3", "a number has one sign", "write `-3` or `3`"),
            ("+-3", "a number has one sign", "write `-3`"),
            ("-+3", "a number has one sign", "write `-3`"),
            ("++3", "a number has one sign", "write `3`"),
            ("8..4", "`8..4` is no value", "a list of values is written `[1, 2, 3]`"),
            ("1..", "`1..` is no value", "a list of values is written `[1, 2, 3]`"),
            ("0XZZ", "`Z` is no digit of a number that begins with `0x`", ""),
            ("0xG", "`G` is no digit of a number that begins with `0x`", ""),
            ("0b12", "`2` is no digit of a number that begins with `0b`", ""),
            ("0XFF", "`0x` is written in small letters", "write `0xff`"),
            ("-0x1", "a number that begins with `0x` has no sign", ""),
            ("1.5f", "a number does not end in `f`", "write `1.5`"),
            ("1.f", "a number does not end in `f`", "write `1.0`"),
            ("10UL", "a number does not end in `UL`", "write `10`"),
            ("3;", "a number does not end in `;`", "write `3`"),
            ("1_", "a number does not end in `_`", "write `1`"),
            ("True", "`true` is written in small letters", "write `true`"),
            ("-Inf", "`inf` is written in small letters", "write `-inf`"),
            ("Infinity", "`Infinity` is no value", "write `inf`"),
            ("NaN", "`nan` is written in small letters", "write `nan`"),
            ("None", "TOML has no `None`", "leave a key out that has no value"),
            ("FALSE", "`false` is written in small letters", "write `false`"),
        ] {
            assert_eq!(said(value), Some((message.to_owned(), help.to_owned())), "{value}");
        }
    }

    #[test]
    fn what_is_no_number_is_left_to_others() {
        for value in
            ["sum", "rank..4", "2*3", "4k", "64MiB", "1.5.2", "", "\u{201c}a\u{201d}", "10,00", "1,000.5", "1,000k"]
        {
            assert_eq!(said(value), None, "{value}");
        }
        // A comma separates inside of a list.
        assert!(diagnostic("x = [1,000]", 5, "unexpected leading zero").is_none_or(|d| !d.message.contains("commas")));
    }

    #[test]
    fn long_numbers_are_not_repeated() {
        for (before, behind) in [("--", ""), ("0", ""), ("", ",000"), ("", "."), ("", "f"), ("-.", ""), ("0X", "")] {
            let value = format!("{before}{}{behind}", "1".repeat(100_000));
            let said = said(&value);
            assert!(
                said.iter().all(|(message, help)| message.len() + help.len() < 200),
                "{before}1...{behind}: {said:?}"
            );
        }
    }

    #[test]
    fn what_the_parser_takes_for_a_number_is_called_none() {
        for value in ["1.5.2", "1e5.3", "1e3ms"] {
            let said = diagnostic(&format!("x = {value}"), 4, "invalid float").map(|d| (d.message, d.help));
            assert_eq!(said, Some((format!("`{value}` is no number"), None)), "{value}");
        }
    }

    #[test]
    fn nothing_is_said_of_values_that_toml_accepts() {
        for value in [
            "1", "-1", "+1", "1.5", "1e3", "1E-3", "0", "0.5", "0x1f", "0b01", "0o17", "1_000", "true", "false", "inf",
            "-inf", "nan", "0e0",
        ] {
            assert_eq!(said(value), None, "{value}");
        }
    }

    #[test]
    fn any_place_of_any_text_is_looked_at_without_a_panic() {
        let text = "a = 1..\u{e9}\u{2026}4 #\n='\u{1F600},000\r\n-.e+0x_";
        for at in 0..text.len() + 2 {
            let _ = diagnostic(text, at, "invalid float");
        }
    }
}
