//! What a kernel's `printf` says: the format with its arguments, as C writes it.

/// The longest text of one call, and the largest width and precision, in bytes.
const MOST_TEXT: usize = 64 << 10;
const MOST_WIDTH: usize = 4096;

/// The arguments of a call.
pub trait Arguments {
    type Error;
    /// The next one, of 4 or 8 bytes.
    fn word(&mut self, bytes: u64) -> Result<u64, Self::Error>;
    /// The text at an address, without its end.
    fn text(&mut self, address: u64) -> Result<Vec<u8>, Self::Error>;
}

/// The text of a call, and the number of its arguments that were used. A conversion that C does not have is copied as it stands.
///
/// # Errors
///
/// An argument cannot be read.
pub fn format<A: Arguments>(format: &[u8], arguments: &mut A) -> Result<(Vec<u8>, u32), A::Error> {
    let (mut text, mut count, mut at) = (Vec::new(), 0, 0);
    while at < format.len() && text.len() < MOST_TEXT {
        let next = format[at..].iter().position(|byte| *byte == b'%').map_or(format.len(), |found| at + found);
        text.extend_from_slice(&format[at..next]);
        at = next;
        if at >= format.len() {
            break;
        }
        let mut conversion = Conversion::default();
        let end = conversion.read(format, at + 1, arguments, &mut count)?;
        match conversion.written(arguments, &mut count)? {
            Some(written) => text.extend(written),
            None => text.extend_from_slice(&format[at..end]),
        }
        at = end;
    }
    text.truncate(MOST_TEXT);
    Ok((text, count))
}

/// What stands between a percent sign and the letter of a conversion, and that letter.
#[derive(Default)]
struct Conversion {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
    /// Bytes of a whole number: 1, 2, 4 or 8; 0 if nothing is said.
    bytes: u64,
    letter: u8,
}

impl Conversion {
    /// Reads it; gives the place behind it.
    fn read<A: Arguments>(
        &mut self,
        format: &[u8],
        mut at: usize,
        arguments: &mut A,
        count: &mut u32,
    ) -> Result<usize, A::Error> {
        let byte = |at: usize| format.get(at).copied().unwrap_or(0);
        loop {
            match byte(at) {
                b'-' => self.left = true,
                b'+' => self.plus = true,
                b' ' => self.space = true,
                b'#' => self.alternate = true,
                b'0' => self.zero = true,
                _ => break,
            }
            at += 1;
        }
        let mut number = |at: &mut usize| {
            if byte(*at) == b'*' {
                *at += 1;
                *count += 1;
                return arguments.word(4).map(|word| i64::from(word as i32));
            }
            let mut value = 0i64;
            while byte(*at).is_ascii_digit() {
                value = (value * 10 + i64::from(byte(*at) - b'0')).min(MOST_WIDTH as i64);
                *at += 1;
            }
            Ok(value)
        };
        let width = number(&mut at)?;
        self.left |= width < 0;
        self.width = (width.unsigned_abs() as usize).min(MOST_WIDTH);
        if byte(at) == b'.' {
            at += 1;
            // A negative one is none.
            self.precision = usize::try_from(number(&mut at)?).ok().map(|precision| precision.min(MOST_WIDTH));
        }
        loop {
            self.bytes = match byte(at) {
                b'h' if self.bytes == 2 => 1,
                b'h' => 2,
                b'l' | b'j' | b'z' | b't' | b'q' | b'L' => 8,
                _ => break,
            };
            at += 1;
        }
        self.letter = byte(at);
        Ok((at + 1).min(format.len()))
    }

    /// The text of its argument; `None` if there is no such conversion.
    fn written<A: Arguments>(&self, arguments: &mut A, count: &mut u32) -> Result<Option<Vec<u8>>, A::Error> {
        let mut next = |arguments: &mut A, bytes| {
            *count += 1;
            arguments.word(bytes)
        };
        let whole = if self.bytes == 8 { 8 } else { 4 };
        Ok(Some(match self.letter {
            b'%' => b"%".to_vec(),
            b'd' | b'i' => {
                let word = next(arguments, whole)?;
                let value = match self.bytes {
                    1 => i64::from(word as i8),
                    2 => i64::from(word as i16),
                    8 => word as i64,
                    _ => i64::from(word as i32),
                };
                self.number(self.sign(value < 0), value.unsigned_abs().to_string(), value == 0)
            }
            b'u' | b'o' | b'x' | b'X' => {
                let word = next(arguments, whole)?;
                let value = match self.bytes {
                    1 => word & 0xff,
                    2 => word & 0xffff,
                    8 => word,
                    _ => word & 0xffff_ffff,
                };
                let (prefix, digits) = match self.letter {
                    b'u' => ("", value.to_string()),
                    b'o' => (if self.alternate && value != 0 { "0" } else { "" }, format!("{value:o}")),
                    b'x' => (if self.alternate && value != 0 { "0x" } else { "" }, format!("{value:x}")),
                    _ => (if self.alternate && value != 0 { "0X" } else { "" }, format!("{value:X}")),
                };
                self.number(prefix, digits, value == 0)
            }
            b'c' => self.padded(vec![next(arguments, 4)? as u8]),
            b's' => {
                let address = next(arguments, 8)?;
                let mut text = if address == 0 { b"(null)".to_vec() } else { arguments.text(address)? };
                text.truncate(self.precision.unwrap_or(usize::MAX));
                self.padded(text)
            }
            b'p' => {
                let address = next(arguments, 8)?;
                self.padded(if address == 0 { b"(nil)".to_vec() } else { format!("{address:#x}").into_bytes() })
            }
            b'f' | b'F' | b'e' | b'E' | b'g' | b'G' => self.float(f64::from_bits(next(arguments, 8)?)),
            b'a' | b'A' => {
                next(arguments, 8)?;
                return Ok(None);
            }
            _ => return Ok(None),
        }))
    }

    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.plus, self.space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        }
    }

    fn padded(&self, text: Vec<u8>) -> Vec<u8> {
        let room = vec![b' '; self.width.saturating_sub(text.len())];
        if self.left { [text, room].concat() } else { [room, text].concat() }
    }

    /// Zeros stand between the prefix and the digits, and spaces before or after both.
    fn filled(&self, prefix: &str, digits: &str, zeros: bool) -> Vec<u8> {
        let room = self.width.saturating_sub(prefix.len() + digits.len());
        let zeros = if zeros && self.zero && !self.left { "0".repeat(room) } else { String::new() };
        self.padded(format!("{prefix}{zeros}{digits}").into_bytes())
    }

    fn number(&self, prefix: &str, digits: String, is_zero: bool) -> Vec<u8> {
        let least = self.precision.unwrap_or(1);
        let digits = if is_zero && least == 0 { String::new() } else { digits };
        let zeros = "0".repeat(least.saturating_sub(digits.len()));
        self.filled(prefix, &format!("{zeros}{digits}"), self.precision.is_none())
    }

    fn float(&self, value: f64) -> Vec<u8> {
        let upper = self.letter.is_ascii_uppercase();
        let cased = |text: String| if upper { text.to_ascii_uppercase() } else { text };
        let sign = self.sign(value.is_sign_negative());
        let value = value.abs();
        if !value.is_finite() {
            return self.filled(sign, &cased(if value.is_nan() { "nan" } else { "inf" }.to_owned()), false);
        }
        let precision = self.precision.unwrap_or(6);
        let point = if self.alternate && precision == 0 { "." } else { "" };
        let digits = match self.letter.to_ascii_lowercase() {
            b'f' => format!("{value:.precision$}{point}"),
            b'e' => exponential(value, precision, point),
            _ => self.general(value, precision.max(1)),
        };
        self.filled(sign, &cased(digits), true)
    }

    /// `%g`: the shorter of both, without zeros at the end.
    fn general(&self, value: f64, precision: usize) -> String {
        let exponent = exponent_of(value, precision - 1);
        let fixed = exponent >= -4 && exponent < precision as i32;
        let all = if fixed {
            let behind = (precision as i32 - 1 - exponent).max(0) as usize;
            format!("{value:.behind$}")
        } else {
            exponential(value, precision - 1, "")
        };
        if self.alternate {
            return all;
        }
        let (digits, exponent) = all.split_at(all.find('e').unwrap_or(all.len()));
        let digits = if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
        format!("{digits}{exponent}")
    }
}

/// The exponent of a number that is written with so many digits behind the point.
fn exponent_of(value: f64, precision: usize) -> i32 {
    let text = format!("{value:.precision$e}");
    text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

fn exponential(value: f64, precision: usize, point: &str) -> String {
    let text = format!("{value:.precision$e}");
    let digits = text.split('e').next().unwrap_or_default();
    let exponent = exponent_of(value, precision);
    format!("{digits}{point}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arguments in a row, and texts by address.
    struct Given(Vec<u64>);

    impl Arguments for Given {
        type Error = u64;
        fn word(&mut self, bytes: u64) -> Result<u64, u64> {
            if self.0.is_empty() { Err(bytes) } else { Ok(self.0.remove(0)) }
        }
        fn text(&mut self, address: u64) -> Result<Vec<u8>, u64> {
            if address == 7 { Ok(b"seven".to_vec()) } else { Err(address) }
        }
    }

    fn written(text: &str, words: &[u64]) -> String {
        let (text, count) = format(text.as_bytes(), &mut Given(words.to_vec())).unwrap();
        assert_eq!(count as usize, words.len());
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn numbers_and_texts_are_written_as_c_writes_them() {
        let minus = (-5i64) as u64;
        assert_eq!(written("%d|%5d|%-5d|%05d|%+d|% d", &[minus, 7, 7, minus, 7, 7]), "-5|    7|7    |-0005|+7| 7");
        assert_eq!(
            written("%u %x %#X %o %lu %llx", &[minus, 255, 255, 8, minus, 1 << 40]),
            "4294967291 ff 0XFF 10 18446744073709551611 10000000000"
        );
        assert_eq!(written("%ld %lld %hhd %hd %zu", &[minus, minus, 300, 70000, 9]), "-5 -5 44 4464 9");
        assert_eq!(written("%.3d %.0d| %*d %-*d|", &[5, 0, 4, 9, 3, 1]), "005 |    9 1  |");
        assert_eq!(written("%s|%8s|%-8s|%.2s|%s", &[7, 7, 7, 7, 0]), "seven|   seven|seven   |se|(null)");
        assert_eq!(written("100%% %c %p %p", &[u64::from(b'z'), 16, 0]), "100% z 0x10 (nil)");
    }

    #[test]
    fn floats_are_written_as_c_writes_them() {
        let written =
            |text: &str, values: &[f64]| written(text, &values.iter().map(|value| value.to_bits()).collect::<Vec<_>>());
        assert_eq!(
            written("%f %.2f %8.3f %-8.1f| %08.2f %+f", &[1.5, 2.675, -0.5, 2.25, -3.5, 0.0]),
            "1.500000 2.67   -0.500 2.2     | -0003.50 +0.000000"
        );
        assert_eq!(written("%e %.0e %E %#.0f", &[12345.678, 0.0, 1e-300, 3.0]), "1.234568e+04 0e+00 1.000000E-300 3.");
        assert_eq!(
            written("%g %g %g %g %g %.3g %#g", &[0.0001, 0.00001, 123456.0, 1234567.0, 100000.0, 1234.0, 1.5]),
            "0.0001 1e-05 123456 1.23457e+06 100000 1.23e+03 1.50000"
        );
        assert_eq!(
            written("%f %5F %05f %g", &[f64::INFINITY, f64::NAN, f64::NEG_INFINITY, 999999.5]),
            "inf   NAN  -inf 1e+06"
        );
    }

    #[test]
    fn any_format_ends() {
        assert_eq!(written("%", &[]), "%");
        assert_eq!(written("a %y %lll", &[]), "a %y %lll");
        assert_eq!(written("%999999999999999999999d", &[1]).len(), MOST_WIDTH);
        assert_eq!(written("%.*d", &[u64::from(u32::MAX), 5]), "5", "a negative precision is none");
        assert_eq!(written("%*d", &[u64::from(i32::MIN as u32), 5]).len(), MOST_WIDTH);
        assert_eq!(written(&"%4096d".repeat(100), &[1; 17][..16]).len(), MOST_TEXT);
        assert_eq!(format(b"%d %d", &mut Given(vec![1])), Err(4));
        assert_eq!(format(b"%s", &mut Given(vec![8])), Err(8));
    }
}
