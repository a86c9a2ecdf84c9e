//! Text: units, their tokens, and an index of what they define.
mod index;
mod lexer;
mod unit;

pub use index::{Definition, DefinitionKind, Index, Linkage};
pub use lexer::{Lexer, Token, TokenKind};
pub use unit::Unit;
