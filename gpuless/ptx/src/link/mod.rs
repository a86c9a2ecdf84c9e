//! Links units into a program: names are bound across units, and definitions are read when first needed.
mod names;
mod program;
mod reach;

pub use names::{FunctionId, Symbol, UnitId, VariableId};
pub use program::{LinkError, Program};
pub use reach::SharedMemory;
