//! Buffers, their initial contents, and their expected contents.
use super::{ElementValue, NumberByRank, Ranks, Spanned};
use crate::expr::Expr;
use crate::num::DType;
use crate::scenario::diagnostic::Span;

/// A named buffer, or part of it.
#[derive(Clone, Debug)]
pub struct BufferRef {
    /// The place of the whole text in the file.
    pub span: Span,
    /// The buffer's name in the file.
    pub name: String,
    /// The bounds `[from:to]`; either may be missing.
    pub slice: Option<(Option<Expr>, Option<Expr>)>,
}

/// A buffer that exists before the first step.
#[derive(Clone, Debug)]
pub struct BufferDef {
    /// Name and its span (the short form's `in` has the span of `inputs`).
    pub name: Spanned<String>,
    /// Element type; the default is f32, or u8 for text.
    pub dtype: DType,
    /// The initial contents.
    pub content: BufferContent,
    /// Number of elements between a 256-byte boundary and the start, by world rank.
    pub offset: Option<NumberByRank>,
    /// The way its memory is registered with the communicators that use it.
    pub register: Option<RegisterByRank>,
    /// The ranks that have the buffer.
    pub ranks: Ranks,
}

/// The way memory is registered with a communicator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RegisterKind {
    /// The memory is not registered.
    #[default]
    None,
    /// Each rank registers it separately, with `ncclCommRegister`.
    Local,
    /// All ranks register it together as a symmetric window, with `ncclCommWindowRegister`.
    Window,
}

/// The key `register` of a buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisterByRank {
    /// The place of `register` in the file.
    pub span: Span,
    /// The kind of registration, by world rank.
    pub kinds: Vec<RegisterKind>,
}

#[derive(Clone, Debug)]
pub enum BufferContent {
    /// One row per world rank.
    Rows(Vec<Row>),
    /// One table for all ranks.
    All(FillTable),
}

impl BufferContent {
    /// The table of a rank: the one for all ranks, or the one in the rank's row.
    pub fn table(&self, rank: usize) -> Option<&FillTable> {
        match self {
            Self::All(fill) => Some(fill),
            Self::Rows(rows) => match rows.get(rank).map(|row| &row.kind) {
                Some(RowKind::Table(fill)) => Some(fill),
                _ => None,
            },
        }
    }

    /// The elements of a rank's row, if it is written element by element.
    pub fn elements(&self, rank: usize) -> Option<&[Element]> {
        match self {
            Self::All(_) => None,
            Self::Rows(rows) => match rows.get(rank).map(|row| &row.kind) {
                Some(RowKind::Elements(list)) => Some(list),
                _ => None,
            },
        }
    }
}

/// One rank's row.
#[derive(Clone, Debug)]
pub struct Row {
    /// The row's place in the file.
    pub span: Span,
    /// The contents and the notation of the row.
    pub kind: RowKind,
}

/// The notation of a row.
#[derive(Clone, Debug)]
pub enum RowKind {
    /// Single elements (nesting removed).
    Elements(Vec<Element>),
    /// The row is a table.
    Table(FillTable),
    /// "untouched", in `expect` only: no element was written.
    Untouched,
    /// "any", in `expect` only: not compared.
    Any,
}

/// A table with the contents of a buffer or row.
#[derive(Clone, Debug)]
pub struct FillTable {
    /// The table's place in the file.
    pub span: Span,
    /// The values that fill the buffer.
    pub values: FillValues,
    /// Number of elements, defaults included; `None` if the values or the step that uses the buffer give it.
    pub count: Option<NumberByRank>,
}

/// The values of a [`FillTable`].
#[derive(Clone, Debug)]
pub enum FillValues {
    /// No values: the buffer starts with poison.
    Poison,
    /// An expression in `rank`, `n`, `i` and axes, in world ranks.
    Each(Spanned<Expr>),
    Number(Element),
    /// The same row on every rank.
    Row(Vec<Element>),
    /// Random numbers by seed, rank and index; see `num::random`.
    Random {
        /// Seed of the random values.
        seed: u64,
        /// Lowest value; the default for integer types is the type's lowest.
        low: Option<Element>,
        /// Highest value (integers), or first excluded value (floats).
        high: Option<Element>,
    },
    /// One text for all ranks: literal parts and expressions in turn.
    Template(Vec<TextPart>),
    /// One literal text per world rank.
    Texts(Vec<String>),
    /// "untouched" for all ranks, in `expect` only.
    Untouched,
    /// "any" for all ranks, in `expect` only.
    Any,
}

/// A part of a text template.
#[derive(Clone, Debug)]
pub enum TextPart {
    /// Text that stays as written.
    Literal(String),
    /// An expression whose value is filled in.
    Expr(Spanned<Expr>),
}

/// An element as written in the file; it fits its dtype.
#[derive(Clone, Debug, PartialEq)]
pub struct Element {
    /// The element's place in the file.
    pub span: Span,
    /// The element's value.
    pub value: ElementValue,
}

/// An entry of `expect`.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// The buffer or part of it.
    pub target: BufferRef,
    /// Rows or a table; `Untouched` and `Any` are possible.
    pub content: BufferContent,
}
