//! Tokens (PTX ISA, 4.1 to 4.5).
use super::unit::Unit;
use crate::error::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// `add`, `%r1`, `$L__BB0_2`: letters, digits, `_`, `$` and `%`, not beginning with a digit.
    Name,
    /// `.s64`, `.shared::cta`: a dot, then a name with the parts that `::` joins to it.
    Dotted,
    /// A whole number in any base, as its bits.
    Whole(u64),
    /// `0f3F800000`: the bits of a number of single precision.
    Single(u32),
    /// `0d3FF0000000000000`, or a decimal number with a point or an exponent: the bits of a number of double precision.
    Double(u64),
    /// `"nounroll"`, with its quotes.
    Text,
    /// A punctuation mark: one of `{}()[]<>,;:@!+-=|`.
    Mark(u8),
    /// The text is over.
    End,
}

/// A token and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: TokenKind,
    /// Offset of its first byte.
    pub start: usize,
    /// The byte after its last.
    pub end: usize,
}

impl Token {
    /// True if the token is this mark.
    pub fn is(&self, mark: u8) -> bool {
        self.kind == TokenKind::Mark(mark)
    }
}

/// Reads tokens one after the other.
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    unit: &'a Unit,
    /// The unit's text up to the end of the part that is read.
    bytes: &'a [u8],
    at: usize,
}

const MARKS: &[u8] = b"{}()[]<>,;:@!+-=|";

fn begins_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | b'%')
}

fn continues_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%')
}

impl<'a> Lexer<'a> {
    /// The tokens of a part of a unit.
    pub fn new(unit: &'a Unit, start: usize, end: usize) -> Self {
        let text = unit.text().as_bytes();
        let bytes = &text[..end.min(text.len())];
        Self { unit, bytes, at: start.min(bytes.len()) }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    /// Passes over white space and comments.
    fn skip_space(&mut self) -> Result<(), Error> {
        loop {
            match self.byte(self.at) {
                Some(byte) if byte.is_ascii_whitespace() => self.at += 1,
                Some(b'/') if self.byte(self.at + 1) == Some(b'/') => {
                    let rest = &self.bytes[self.at..];
                    self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                }
                Some(b'/') if self.byte(self.at + 1) == Some(b'*') => {
                    let rest = &self.bytes[self.at + 2..];
                    let Some(length) = rest.windows(2).position(|two| two == b"*/") else {
                        return Err(self.unit.error(self.at, "this comment has no end"));
                    };
                    self.at += length + 4;
                }
                _ => return Ok(()),
            }
        }
    }

    /// The next token; after the last one [`TokenKind::End`] again and again.
    ///
    /// # Errors
    ///
    /// A character that begins no token, a number that cannot be read, or a text or comment without an end.
    pub fn next_token(&mut self) -> Result<Token, Error> {
        self.skip_space()?;
        let start = self.at;
        let Some(first) = self.byte(start) else {
            return Ok(Token { kind: TokenKind::End, start, end: start });
        };
        let kind = match first {
            b'.' if self.byte(start + 1).is_some_and(begins_name) => {
                self.at = start + 1;
                self.skip_name();
                while self.bytes[self.at..].starts_with(b"::") {
                    self.at += 2;
                    self.skip_name();
                }
                TokenKind::Dotted
            }
            _ if begins_name(first) => {
                self.skip_name();
                TokenKind::Name
            }
            _ if first.is_ascii_digit() || first == b'.' => self.number()?,
            b'"' => {
                let rest = &self.bytes[start + 1..];
                let Some(length) =
                    rest.iter().position(|byte| matches!(byte, b'"' | b'\n')).filter(|at| rest[*at] == b'"')
                else {
                    return Err(self.unit.error(start, "this text has no end in its line"));
                };
                self.at = start + length + 2;
                TokenKind::Text
            }
            _ if MARKS.contains(&first) => {
                self.at = start + 1;
                TokenKind::Mark(first)
            }
            _ => {
                let shown = self.unit.text()[start..].chars().next().unwrap_or(' ');
                return Err(self.unit.error(start, format!("{shown:?} begins no token")));
            }
        };
        Ok(Token { kind, start, end: self.at })
    }

    /// The next token, which is left where it is.
    pub fn peek(&self) -> Result<Token, Error> {
        self.clone().next_token()
    }

    /// The first byte that no token has had yet.
    pub fn position(&self) -> usize {
        self.at
    }

    pub fn text(&self, token: Token) -> &'a str {
        &self.unit.text()[token.start..token.end]
    }

    fn skip_name(&mut self) {
        let rest = &self.bytes[self.at..];
        self.at += rest.iter().position(|byte| !continues_name(*byte)).unwrap_or(rest.len());
    }

    fn number(&mut self) -> Result<TokenKind, Error> {
        let start = self.at;
        let rest = &self.bytes[start..];
        let exponent = |at: usize| matches!(rest[at], b'+' | b'-') && matches!(rest[at - 1], b'e' | b'E');
        let is_hexadecimal =
            rest.len() > 1 && rest[0] == b'0' && matches!(rest[1], b'x' | b'X' | b'f' | b'F' | b'd' | b'D');
        let length = (0..rest.len())
            .find(|at| {
                let byte = rest[*at];
                !(byte.is_ascii_alphanumeric() || (!is_hexadecimal && (byte == b'.' || (*at > 0 && exponent(*at)))))
            })
            .unwrap_or(rest.len());
        self.at = start + length;
        let text = &self.unit.text()[start..self.at];
        read_number(text).ok_or_else(|| self.unit.error(start, format!("`{text}` is not a number")))
    }
}

fn read_number(text: &str) -> Option<TokenKind> {
    let digits = |from: usize, base: u32, of: &str| {
        let digits = of.get(from..)?;
        u64::from_str_radix(digits, base).ok().filter(|_| digits.starts_with(|c: char| c.is_ascii_alphanumeric()))
    };
    match text.get(..2) {
        Some("0f" | "0F") => {
            return u32::from_str_radix(text.get(2..)?, 16).ok().filter(|_| text.len() == 10).map(TokenKind::Single);
        }
        Some("0d" | "0D") => {
            return u64::from_str_radix(text.get(2..)?, 16).ok().filter(|_| text.len() == 18).map(TokenKind::Double);
        }
        _ => {}
    }
    if text.contains(['.']) || (text.contains(['e', 'E']) && !text.starts_with("0x") && !text.starts_with("0X")) {
        return text.parse::<f64>().ok().map(|value| TokenKind::Double(value.to_bits()));
    }
    let whole = text.strip_suffix(['U', 'u']).unwrap_or(text);
    let value = match whole.as_bytes() {
        [b'0', b'x' | b'X', ..] => digits(2, 16, whole),
        [b'0', b'b' | b'B', ..] => digits(2, 2, whole),
        [b'0', _, ..] => digits(1, 8, whole),
        _ => digits(0, 10, whole),
    };
    value.map(TokenKind::Whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<(TokenKind, String)> {
        let unit = Unit::new("t", text.into()).unwrap();
        let mut lexer = Lexer::new(&unit, 0, usize::MAX);
        let mut all = Vec::new();
        loop {
            let token = lexer.next_token().unwrap();
            if token.kind == TokenKind::End {
                return all;
            }
            all.push((token.kind, lexer.text(token).to_owned()));
        }
    }

    fn refusal(text: &str) -> String {
        let unit = Unit::new("t", text.into()).unwrap();
        let mut lexer = Lexer::new(&unit, 0, usize::MAX);
        loop {
            match lexer.next_token() {
                Err(error) => return error.to_string(),
                Ok(token) => assert_ne!(token.kind, TokenKind::End, "{text} is read"),
            }
        }
    }

    #[test]
    fn an_instruction_is_a_name_and_what_is_dotted_to_it() {
        let all = tokens("@!%p1 ld.shared::cta.b64 %rd1, [x+-8]; // done");
        let texts: Vec<&str> = all.iter().map(|(_, text)| text.as_str()).collect();
        let expected = ["@", "!", "%p1", "ld", ".shared::cta", ".b64", "%rd1", ",", "[", "x", "+", "-", "8", "]", ";"];
        assert_eq!(texts, expected);
        assert_eq!((all[3].0, all[4].0), (TokenKind::Name, TokenKind::Dotted));
    }

    #[test]
    fn numbers_of_every_base() {
        use TokenKind::{Double, Single, Whole};
        for (text, value) in [
            ("0", Whole(0)),
            ("42U", Whole(42)),
            ("0x1fU", Whole(31)),
            ("0b101", Whole(5)),
            ("017", Whole(15)),
            ("18446744073709551615", Whole(u64::MAX)),
            ("0f3F800000", Single(0x3f80_0000)),
            ("0d3FF0000000000000", Double(0x3ff0_0000_0000_0000)),
            ("1.5", Double(1.5f64.to_bits())),
            ("2e-3", Double(2e-3f64.to_bits())),
        ] {
            assert_eq!(tokens(text), [(value, text.to_owned())]);
        }
        for text in ["08", "0x", "18446744073709551616", "0f3F80000", "0d3F", "12ab", "1.2.3", "0b2"] {
            assert!(refusal(text).ends_with("is not a number"), "{text}: {}", refusal(text));
        }
    }

    #[test]
    fn what_begins_no_token_is_named_with_its_place() {
        assert_eq!(refusal("add;\n  #"), "t:2:3: '#' begins no token");
        assert_eq!(refusal("/* x"), "t:1:1: this comment has no end");
        assert_eq!(refusal(".pragma \"x\ny\""), "t:1:9: this text has no end in its line");
        assert_eq!(refusal("é"), "t:1:1: 'é' begins no token");
    }
}
