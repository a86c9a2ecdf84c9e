//! Numbers as C's strtol and strtod read them: the longest beginning of a text that is one, and the rest.

/// A whole number: decimal, hexadecimal after `0x`, octal after `0`. One that is too large is the largest, as in C.
pub fn integer(text: &str) -> Option<(i64, &str)> {
    let (is_negative, unsigned) = sign(text);
    let hexadecimal = without_0x(unsigned).filter(|digits| digits.starts_with(|c: char| c.is_ascii_hexdigit()));
    let (digits, radix) = match hexadecimal {
        Some(digits) => (digits, 16),
        None if unsigned.starts_with('0') => (unsigned, 8),
        None => (unsigned, 10),
    };
    let (digits, rest) = beginning(digits, |c| c.is_digit(radix));
    let value = digits
        .chars()
        .filter_map(|c| c.to_digit(radix))
        .fold(0i64, |value, digit| value.saturating_mul(i64::from(radix)).saturating_add(i64::from(digit)));
    (!digits.is_empty()).then_some((if is_negative { -value } else { value }, rest))
}

/// A finite number: decimal, or hexadecimal after `0x`.
pub fn float(text: &str) -> Option<(f64, &str)> {
    let (is_negative, unsigned) = sign(text);
    let (value, rest) = without_0x(unsigned).and_then(hexadecimal).or_else(|| decimal(unsigned))?;
    Some((if is_negative { -value } else { value }, rest))
}

fn decimal(text: &str) -> Option<(f64, &str)> {
    let (_, after) = digits_and_point(text, 10)?;
    let rest = exponent(after, ['e', 'E']).map_or(after, |(_, rest)| rest);
    Some((text[..text.len() - rest.len()].parse().ok()?, rest))
}

fn hexadecimal(text: &str) -> Option<(f64, &str)> {
    let (point, after) = digits_and_point(text, 16)?;
    let digits = text[..text.len() - after.len()].chars().filter_map(|c| c.to_digit(16));
    let value = digits.fold(0.0, |value, digit| value * 16.0 + f64::from(digit));
    let (power, rest) = exponent(after, ['p', 'P']).unwrap_or((0, after));
    Some((value * f64::from(power.saturating_sub(point.saturating_mul(4))).exp2(), rest))
}

/// The digits after the point, and what follows; `None` without a digit.
fn digits_and_point(text: &str, radix: u32) -> Option<(i32, &str)> {
    let (whole, after) = beginning(text, |c| c.is_digit(radix));
    let (fraction, after) = match after.strip_prefix('.') {
        Some(fraction) => beginning(fraction, |c| c.is_digit(radix)),
        None => ("", after),
    };
    (whole.len() + fraction.len() > 0).then_some((i32::try_from(fraction.len()).ok()?, after))
}

/// The number of an exponent, and what follows.
fn exponent(text: &str, letters: [char; 2]) -> Option<(i32, &str)> {
    let (is_negative, digits) = signed(text.strip_prefix(letters)?);
    let (digits, rest) = beginning(digits, |c| c.is_ascii_digit());
    let value = digits.parse().unwrap_or(i32::MAX);
    (!digits.is_empty()).then_some((if is_negative { -value } else { value }, rest))
}

/// True for a minus, and what follows blanks and a sign.
fn sign(text: &str) -> (bool, &str) {
    signed(text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b'))
}

fn signed(text: &str) -> (bool, &str) {
    (text.starts_with('-'), text.strip_prefix(['-', '+']).unwrap_or(text))
}

fn without_0x(text: &str) -> Option<&str> {
    text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))
}

/// The longest beginning of such characters, and the rest.
fn beginning(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_those_of_strtol() {
        for (text, value, rest) in [
            ("8", 8, ""),
            ("0x10", 16, ""),
            ("0X1fG", 31, "G"),
            ("010", 8, ""),
            ("08", 0, "8"),
            ("0x", 0, "x"),
            ("1.5", 1, ".5"),
            (" \t+7 ", 7, " "),
            ("-1", -1, ""),
            ("99999999999999999999", i64::MAX, ""),
        ] {
            assert_eq!(integer(text), Some((value, rest)), "{text}");
        }
        assert!(["", "x", "-", "+ 1", "=5"].into_iter().all(|text| integer(text).is_none()));
    }

    #[test]
    fn numbers_are_those_of_strtod() {
        for (text, value, rest) in [
            ("1.5K", 1.5, "K"),
            ("1e3", 1000.0, ""),
            ("1e", 1.0, "e"),
            (".5M", 0.5, "M"),
            ("2.", 2.0, ""),
            ("0x1G", 1.0, "G"),
            ("0x1.8p4", 24.0, ""),
            ("0x", 0.0, "x"),
            (" -3 M", -3.0, " M"),
            ("0x1p-9999999999", 0.0, ""),
        ] {
            assert_eq!(float(text), Some((value, rest)), "{text}");
        }
        assert!(["", "G", ".", "-", "inf", "nan"].into_iter().all(|text| float(text).is_none()));
    }
}
