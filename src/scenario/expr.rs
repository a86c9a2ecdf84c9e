//! Expressions (scenario-language section 4): parsed once, evaluated per rank, element or round.
use serde::{Deserialize, Serialize};

/// A parsed expression. Also travels to the worker, which evaluates `map`s with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expr {
    /// As the user wrote it.
    pub text: String,
    /// The syntax tree.
    pub node: Node,
}

/// A node of the syntax tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Node {
    /// A whole number.
    Int(i128),
    /// A number with a fraction or exponent; also `nan` and `inf`.
    Float(f64),
    /// A name: `rank`, an axis, a buffer.
    Name(String),
    /// `x[k]`.
    Index(String, Box<Node>),
    /// `step.seconds` and its like, in `assert`.
    Field(String, String),
    /// Unary minus.
    Neg(Box<Node>),
    /// A binary operation.
    Binary(BinOp, Box<Node>, Box<Node>),
    /// A function call: one of `min max abs floor ceil sqrt exp ln log2 sin cos if same`.
    Call(Func, Vec<Node>),
}

/// Binary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
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

/// Functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
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
}

/// A number during evaluation.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Exact.
    Int(i128),
    /// Rounded to f64 after each operation.
    Float(f64),
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EvalError(pub String);

/// Where names get their values.
pub trait Scope {
    /// The value of a name; for a buffer, its element `[i]`.
    fn name(&self, name: &str) -> Result<Value, EvalError>;
    /// Element `index` of a buffer.
    fn element(&self, buffer: &str, index: i128) -> Result<Value, EvalError> {
        let _ = index;
        Err(EvalError(format!("`{buffer}` cannot be indexed here")))
    }
    /// A figure of a named step.
    fn field(&self, step: &str, field: &str) -> Result<Value, EvalError> {
        Err(EvalError(format!("`{step}.{field}` has no value here")))
    }
    /// `same(a, b)`.
    fn same(&self, a: &str, b: &str) -> Result<bool, EvalError> {
        Err(EvalError(format!("`same({a}, {b})` has no meaning here")))
    }
}
