//! Declarations and bodies, each read when it is asked for.
mod body;
mod function;
mod operand;
mod scope;
mod tokens;
mod types;
mod variable;

pub use function::{Declared, Function, Guard, Instruction, LaunchBounds, Parameter, RegisterId, Signature};
pub use operand::{Base, Name, Operand};
pub use types::{Space, Type};
pub use variable::{Room, Shape, Value, Variable};
