//! The operands of instructions (PTX ISA, 6).
use super::function::RegisterId;

/// The thing that a name in an operand refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// Memory that the function's body declares: its place in [`super::Function::memory`].
    Own(usize),
    /// A parameter of the function, or a symbol that units define.
    Outer(String),
}

impl From<&str> for Name {
    fn from(name: &str) -> Self {
        Self::Outer(name.to_owned())
    }
}

/// An operand of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A register's value.
    Register(RegisterId),
    /// `!%p`: a predicate that is inverted.
    Inverted(RegisterId),
    /// The bits of a whole number.
    Whole(u64),
    /// The bits of a number of single precision.
    Single(u32),
    /// The bits of a number of double precision.
    Double(u64),
    /// A special register, such as `%tid.x`.
    Special(String),
    /// The address of a variable or function, plus an offset in bytes; also the name of a function that is called.
    Symbol(Name, i64),
    /// The instruction with this number, to which a branch leads.
    Label(usize),
    /// Memory: a base in brackets, plus an offset in bytes.
    Memory(Base, i64),
    /// A vector of operands: `{%r1, %r2}`.
    Vector(Vec<Operand>),
    /// `%p1|%p2`: two results.
    Pair(Box<(Operand, Operand)>),
    /// `(a, b)`: the arguments or the results of a call.
    List(Vec<Operand>),
    /// `_`: a result that is discarded.
    Unused,
}

/// The base of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// The contents of a register.
    Register(RegisterId),
    /// A variable or parameter.
    Symbol(Name),
    /// Nothing: the number is the address.
    Nothing,
}
