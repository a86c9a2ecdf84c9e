//! Expressions: parsed once, evaluated per rank, element or round.
//!
//! - Numbers (`12`, `1_000`, `0.5`, `1e-6`, `nan`, `inf`), names, `+ - * / % ^`, comparisons, parentheses, calls, and `x[k]`.
//! - Precedence is Python's: comparisons, then `+ -`, then `* / %`, then the sign, then `^`, which is right associative
//!   (`-2 ^ 2` is -4, `2 ^ 3 ^ 2` is 512, `2 ^ -1` is allowed). Comparisons are 1 or 0 and cannot be chained.
//! - [`Mode::Whole`]: operations whose operands are all whole stay whole, in 128 bits; `/` drops the fraction (towards
//!   zero), `%` has the divisor's sign; leaving 128 bits and dividing by zero are errors. An operation with another operand,
//!   a negative power, and `sqrt exp ln log2 sin cos` are f64; `floor` and `ceil` give whole numbers.
//! - [`Expr::eval_wrapping`], for elements of integer types, is [`Mode::Whole`] in which `+ - * ^` may leave 128 bits.
//! - [`Mode::Float`]: everything is f64 by IEEE rules and the pure-Rust `libm`, the same on every machine; `x[k]` still counts
//!   its index in whole numbers.
//! - [`Expr::eval_exact`], for `assert`: whole values stay whole, everything else is f64.
//! - `if(c, a, b)` computes only the branch taken. `min` and `max` of something that is not a number are not a number;
//!   -0.0 is below 0.0 for them.
//! - `close(a, b, tol)` is 1 if |a - b| <= tol. An infinity is close only to itself, even with an infinite tolerance. NaN is
//!   not close to any number.
//! - Evaluation always ends: an expression has at most `MAX_LENGTH` bytes, its tree at most `MAX_DEPTH` levels, and the language has no loops.
mod block;
mod eval;
mod exact;
mod foreign_functions;
mod lex;
pub mod map;
mod parse;
mod period;
#[cfg(test)]
mod tests;
mod wrapping;

pub use block::{BLOCK, BlockEvaluator, BlockValues};
pub use eval::Mode;
pub use parse::{NameUse, Parsed, UseKind, parse, parse_ref};

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A parsed expression. The worker receives it too, to evaluate a `map`. Copies share text and tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expr {
    /// The text as the user wrote it.
    pub text: Arc<str>,
    /// The syntax tree of the expression.
    pub node: Arc<ExprNode>,
}

/// A node of the syntax tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ExprNode {
    /// A whole number as written.
    Int(i128),
    /// A number with a fraction or exponent; also `nan` and `inf`.
    Float(f64),
    /// A name: `rank`, an axis, a buffer.
    Name(String),
    /// An element of a buffer, `x[k]`.
    Index(String, Box<ExprNode>),
    /// A figure of a step, such as `step.seconds`, in `assert`.
    Field(String, String),
    /// The negated value.
    Neg(Box<ExprNode>),
    /// An operation with two operands.
    Binary(BinOp, Box<ExprNode>, Box<ExprNode>),
    /// A function call: one of `min max abs floor ceil sqrt exp ln log2 sin cos if same close`.
    Call(Func, Vec<ExprNode>),
}

impl ExprNode {
    /// Calls `f` for every node, parents first.
    pub fn visit<'a>(&'a self, f: &mut impl FnMut(&'a Self)) {
        f(self);
        match self {
            Self::Index(_, a) | Self::Neg(a) => a.visit(f),
            Self::Binary(_, a, b) => {
                a.visit(f);
                b.visit(f);
            }
            Self::Call(_, args) => args.iter().for_each(|a| a.visit(f)),
            Self::Int(_) | Self::Float(_) | Self::Name(_) | Self::Field(..) => {}
        }
    }
}

impl Expr {
    /// The names of values and buffers, in order of appearance.
    pub fn names(&self) -> Vec<&str> {
        let mut out = Vec::new();
        self.node.visit(&mut |node| {
            if let ExprNode::Name(name) | ExprNode::Index(name, _) = node {
                out.push(name.as_str());
            }
        });
        out
    }

    /// The names of the values that indices are computed from: `y` in `x[y[0]]` and in `x[y]`.
    pub fn names_in_indices(&self) -> Vec<&str> {
        fn go<'a>(node: &'a ExprNode, inside: bool, out: &mut Vec<&'a str>) {
            match node {
                ExprNode::Name(name) if inside => out.push(name),
                ExprNode::Index(name, index) => {
                    out.extend(inside.then_some(name.as_str()));
                    go(index, true, out);
                }
                ExprNode::Neg(inner) => go(inner, inside, out),
                ExprNode::Binary(_, left, right) => {
                    go(left, inside, out);
                    go(right, inside, out);
                }
                ExprNode::Call(_, args) => args.iter().for_each(|arg| go(arg, inside, out)),
                ExprNode::Name(_) | ExprNode::Int(_) | ExprNode::Float(_) | ExprNode::Field(..) => {}
            }
        }
        let mut out = Vec::new();
        go(&self.node, false, &mut out);
        out
    }

    /// The names used without an index: neither `x` in `x[k]` nor the arguments of `same`.
    pub fn bare_names(&self) -> Vec<&str> {
        fn go<'a>(node: &'a ExprNode, out: &mut Vec<&'a str>) {
            match node {
                ExprNode::Name(name) => out.push(name),
                ExprNode::Index(_, inner) | ExprNode::Neg(inner) => go(inner, out),
                ExprNode::Binary(_, a, b) => {
                    go(a, out);
                    go(b, out);
                }
                ExprNode::Call(Func::Same, _) | ExprNode::Int(_) | ExprNode::Float(_) | ExprNode::Field(..) => {}
                ExprNode::Call(_, args) => args.iter().for_each(|a| go(a, out)),
            }
        }
        let mut out = Vec::new();
        go(&self.node, &mut out);
        out
    }
}

/// The operators with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BinOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Pow,
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
}

/// The functions of the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Func {
    Min,
    Max,
    Abs,
    Floor,
    Ceil,
    Sqrt,
    Exp,
    Ln,
    Log2,
    Sin,
    Cos,
    If,
    Same,
    Close,
}

impl Func {
    /// Every function of the language.
    pub const ALL: [Self; 14] = {
        use Func::*;
        [Min, Max, Abs, Floor, Ceil, Sqrt, Exp, Ln, Log2, Sin, Cos, If, Same, Close]
    };

    /// The function's name in expressions.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Min => "min",
            Self::Max => "max",
            Self::Abs => "abs",
            Self::Floor => "floor",
            Self::Ceil => "ceil",
            Self::Sqrt => "sqrt",
            Self::Exp => "exp",
            Self::Ln => "ln",
            Self::Log2 => "log2",
            Self::Sin => "sin",
            Self::Cos => "cos",
            Self::If => "if",
            Self::Same => "same",
            Self::Close => "close",
        }
    }

    /// The function with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|f| f.name() == name)
    }
}

/// The figures of a named step, in `assert`.
pub const FIELDS: [&str; 5] = ["seconds", "rounds", "sent", "received", "inner"];

/// The names with a fixed meaning, which a file cannot use for others.
pub const BUILTIN_NAMES: [&str; 6] = ["rank", "n", "world_rank", "world_size", "i", "t"];

/// An error in the text of an expression, with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ParseError {
    /// First byte in the text.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// A description of the error.
    pub message: String,
    /// The suggested fix.
    pub help: Option<String>,
}

impl ParseError {
    fn new(start: usize, end: usize, message: impl Into<String>) -> Self {
        Self { start, end, message: message.into(), help: None }
    }
    fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }
}

/// A number during evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// A whole number, exact.
    Int(i128),
    /// A number in floating point, rounded after each operation.
    Float(f64),
}

/// The reason why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EvalError(pub String);

/// The values of names.
pub trait Scope {
    /// The value of a name; for a buffer, its element `[i]`.
    ///
    /// # Errors
    ///
    /// The name is unknown, or has no value here.
    fn name(&self, name: &str) -> Result<Value, EvalError>;
    /// The number of the buffer whose element `[i]` the name refers to, if it is one of those that are read in blocks.
    fn buffer(&self, name: &str) -> Option<usize> {
        let _ = name;
        None
    }
    /// The value of element `index` of a buffer.
    ///
    /// # Errors
    ///
    /// The buffer or element does not exist, or elements are unknown in this scope.
    fn element(&self, buffer: &str, index: i128) -> Result<Value, EvalError> {
        let _ = index;
        Err(EvalError(format!("`{buffer}` cannot be indexed here")))
    }
    /// The value of a figure of a named step.
    ///
    /// # Errors
    ///
    /// The step or figure does not exist, or figures are unknown in this scope.
    fn field(&self, step: &str, field: &str) -> Result<Value, EvalError> {
        Err(EvalError(format!("`{step}.{field}` has no value here")))
    }
    /// `same(a, b)`.
    ///
    /// # Errors
    ///
    /// A buffer is unknown, or contents are unknown here.
    fn same(&self, a: &str, b: &str) -> Result<bool, EvalError> {
        Err(EvalError(format!("`same({a}, {b})` has no meaning here")))
    }
}
