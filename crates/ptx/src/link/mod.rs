//! Units become a program: names are bound across units, and what they stand for is read when it is first asked for.
mod names;
mod program;
mod reach;

pub use names::{FunctionId, Symbol, UnitId, VariableId};
pub use program::{LinkError, Program};
pub use reach::SharedMemory;
