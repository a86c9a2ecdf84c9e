//! Splits the text of an expression into tokens with their places.
use super::ParseError;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind<'a> {
    Int(i128),
    Float(f64),
    Name(&'a str),
    /// An operator, bracket, comma, colon or dot.
    Sign(&'static str),
    End,
}

/// A token and its place.
#[derive(Clone, Debug)]
pub(super) struct Token<'a> {
    pub tok: TokenKind<'a>,
    pub start: usize,
    pub end: usize,
}

/// Longer signs first, so that `<=` is not read as `<`.
const SIGNS: &[&str] =
    &["<=", ">=", "==", "!=", "<", ">", "+", "-", "*", "/", "%", "^", "(", ")", "[", "]", ",", ":", "."];

/// Operators of other languages, and the operators for them here.
const FOREIGN_OPERATORS: &[(&str, &str)] = &[
    ("**", "power is `^`"),
    ("//", "where a whole number is needed, `/` drops the fraction; elsewhere write `floor(a / b)`"),
    ("&&", "multiply the two comparisons: `(a < b) * (c < d)`"),
    ("||", "write `max(a, b)` of the two comparisons"),
    ("!", "write `x == 0`"),
    ("=", "equality is `==`"),
    ("?", "write `if(condition, then, else)`"),
    ("&", "multiply the two comparisons: `(a < b) * (c < d)`"),
    ("|", "write `max(a, b)` of the two comparisons"),
    ("~", "write `x == 0`"),
    ("<<", "multiply: `x * 2 ^ k`"),
    (">>", "divide: `floor(x / 2 ^ k)`"),
];

/// All tokens, the last being [`TokenKind::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, ParseError> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|r| !r.is_empty()) {
        let Some(c) = rest.chars().next() else { break };
        if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        }
        let (tok, len) = if c.is_ascii_digit() || (c == '.' && rest[1..].starts_with(|d: char| d.is_ascii_digit())) {
            number(rest, at)?
        } else if c.is_ascii_alphabetic() || c == '_' {
            let len = rest.find(|d: char| !(d.is_ascii_alphanumeric() || d == '_')).unwrap_or(rest.len());
            match &rest[..len] {
                "nan" => (TokenKind::Float(f64::NAN), len),
                "inf" => (TokenKind::Float(f64::INFINITY), len),
                name => (TokenKind::Name(name), len),
            }
        } else {
            sign(rest, c, at)?
        };
        out.push(Token { tok, start: at, end: at + len });
        at += len;
    }
    out.push(Token { tok: TokenKind::End, start: text.len(), end: text.len() });
    Ok(out)
}

fn sign<'a>(rest: &str, c: char, at: usize) -> Result<(TokenKind<'a>, usize), ParseError> {
    let foreign = FOREIGN_OPERATORS
        .iter()
        .find(|(s, _)| rest.starts_with(s) && !["!=", "=="].iter().any(|k| rest.starts_with(k)));
    if let Some((s, cure)) = foreign {
        return Err(ParseError::new(at, at + s.len(), format!("`{s}` is not an operator here")).help(*cure));
    }
    match SIGNS.iter().find(|s| rest.starts_with(**s)) {
        Some(s) => Ok((TokenKind::Sign(s), s.len())),
        None => {
            let shown = if c.is_control() { c.escape_debug().to_string() } else { c.to_string() };
            Err(ParseError::new(at, at + c.len_utf8(), format!("`{shown}` has no meaning in an expression")))
        }
    }
}

/// Digits with `_` between them, a fraction, an exponent.
fn number<'a>(rest: &str, at: usize) -> Result<(TokenKind<'a>, usize), ParseError> {
    let digits = |from: usize| {
        let tail = rest.get(from..).unwrap_or("");
        from + tail.find(|d: char| !(d.is_ascii_digit() || d == '_')).unwrap_or(tail.len())
    };
    let mut len = digits(0);
    let mut whole = true;
    if rest[len..].starts_with('.') && !rest[len + 1..].starts_with(|d: char| d.is_ascii_alphabetic()) {
        whole = false;
        len = digits(len + 1);
    }
    if rest[len..].starts_with(['e', 'E']) {
        let signed = if rest[len + 1..].starts_with(['+', '-']) { len + 2 } else { len + 1 };
        if rest.get(signed..).is_some_and(|t| t.starts_with(|d: char| d.is_ascii_digit())) {
            whole = false;
            len = digits(signed);
        }
    }
    if rest[len..].starts_with(|d: char| d.is_ascii_alphanumeric()) {
        let end = rest.find(|d: char| !d.is_ascii_alphanumeric()).unwrap_or(rest.len()).max(len + 1);
        let message = format!("`{}` is neither a number nor a name", &rest[..end]);
        return Err(ParseError::new(at, at + end, message));
    }
    let text = rest[..len].replace('_', "");
    let fail = |m: &str| ParseError::new(at, at + len, m);
    if whole {
        let value = text.parse().map_err(|_| fail("this number does not fit 128 bits"))?;
        return Ok((TokenKind::Int(value), len));
    }
    let value: f64 = text.parse().map_err(|_| fail("this is not a number"))?;
    if value.is_infinite() {
        return Err(fail("this number is greater than any f64"));
    }
    Ok((TokenKind::Float(value), len))
}
