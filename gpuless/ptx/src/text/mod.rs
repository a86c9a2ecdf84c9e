//! Text: units, their tokens, and an index of their definitions.
mod index;
mod lexer;
mod unit;

pub use index::{Definition, DefinitionKind, Index, Linkage};
pub use lexer::{Lexer, Token, TokenKind};
pub use unit::Unit;
