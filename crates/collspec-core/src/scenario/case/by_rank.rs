//! Values that may differ by rank, and sets of ranks.
use super::Spanned;
use crate::expr::Expr;
use crate::scenario::diagnostic::Span;

/// A number that may differ by rank and is not yet evaluated.
#[derive(Clone, Debug)]
pub struct NumberByRank {
    /// The value's place in the file.
    pub span: Span,
    /// The notation of the number.
    pub kind: NumberByRankKind,
}

/// The notation of a number.
#[derive(Clone, Debug)]
pub enum NumberByRankKind {
    /// A whole number or a truth value (1 or 0).
    Int(i128),
    /// A number with a fraction.
    Float(f64),
    /// An expression in quotes.
    Expr(Expr),
    /// One entry per rank (of the communicator, or of the world; rule 3 of the language). Entries are never lists.
    List(Vec<NumberByRank>),
}

/// The world ranks that run a step or have a buffer.
#[derive(Clone, Debug)]
pub enum Ranks {
    /// Every rank that is able to.
    All,
    /// The ranks in this list.
    List(Vec<Spanned<i128>>),
    /// Ranks for which the expression is true.
    Expr(Spanned<Expr>),
}
