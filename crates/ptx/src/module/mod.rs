//! Declarations and bodies, each read when it is asked for.
mod body;
mod function;
mod operand;
mod scope;
mod tokens;
mod types;
mod variable;

pub use function::{Function, Guard, Instruction, LaunchBounds, Parameter, RegisterId, Signature};
pub use operand::{Base, Operand};
pub use types::{Space, Type};
pub use variable::{Shape, Value, Variable};
