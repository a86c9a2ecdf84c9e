//! A part of a unit as tokens, for the readers of declarations and bodies.
use super::types::Type;
use crate::error::Error;
use crate::text::{Lexer, Token, TokenKind, Unit};
use std::ops::Range;

/// The tokens of a part of a unit.
pub struct Tokens<'a> {
    pub unit: &'a Unit,
    lexer: Lexer<'a>,
}

impl<'a> Tokens<'a> {
    pub fn new(unit: &'a Unit, part: Range<usize>) -> Self {
        Self { unit, lexer: Lexer::new(unit, part.start, part.end) }
    }

    pub fn next(&mut self) -> Result<Token, Error> {
        self.lexer.next_token()
    }

    pub fn peek(&self) -> Result<Token, Error> {
        self.lexer.peek()
    }

    pub fn text(&self, token: Token) -> &'a str {
        self.lexer.text(token)
    }

    /// Takes the next token if it is this mark.
    pub fn takes(&mut self, mark: u8) -> Result<bool, Error> {
        let is = self.peek()?.is(mark);
        if is {
            self.next()?;
        }
        Ok(is)
    }

    /// Takes the next token if it is dotted; without its point.
    pub fn dotted(&mut self) -> Result<Option<&'a str>, Error> {
        let token = self.peek()?;
        if token.kind != TokenKind::Dotted {
            return Ok(None);
        }
        self.next()?;
        Ok(self.text(token).get(1..))
    }

    /// The next token must be this mark.
    pub fn expect(&mut self, mark: u8) -> Result<(), Error> {
        let token = self.next()?;
        if token.is(mark) { Ok(()) } else { Err(self.unexpected(token, &format!("`{}`", char::from(mark)))) }
    }

    /// The next token must be a name.
    pub fn name(&mut self) -> Result<&'a str, Error> {
        let token = self.next()?;
        if token.kind == TokenKind::Name { Ok(self.text(token)) } else { Err(self.unexpected(token, "a name")) }
    }

    /// The next token must be a type.
    pub fn ty(&mut self) -> Result<Type, Error> {
        let token = self.next()?;
        let named = self.text(token).strip_prefix('.').and_then(Type::named);
        named.ok_or_else(|| self.unexpected(token, "a type"))
    }

    /// The next token must be a whole number of at most `most`.
    pub fn whole(&mut self, most: u64) -> Result<u64, Error> {
        let token = self.next()?;
        match token.kind {
            TokenKind::Whole(value) if value <= most => Ok(value),
            TokenKind::Whole(value) => Err(self.unit.error(token.start, format!("{value} is more than {most}"))),
            _ => Err(self.unexpected(token, "a whole number")),
        }
    }

    pub fn unexpected(&self, token: Token, wanted: &str) -> Error {
        let what = match token.kind {
            TokenKind::End => format!("{wanted} is missing here"),
            _ => format!("{wanted} is expected here, not `{}`", self.text(token)),
        };
        self.unit.error(token.start, what)
    }
}
