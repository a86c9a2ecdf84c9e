//! Links units into a program: names are bound across units, and definitions are read when first needed.
mod names;
mod program;
mod reach;

pub use names::{FunctionId, Symbol, UnitId, VariableId};
pub use program::{LinkError, Linked, Program};
pub use reach::SharedMemory;

/// The source code that decides what linking finds out, and how much shared memory a kernel has: what was kept by other code is not used.
pub const SOURCES: [&str; 16] = [
    include_str!("../text/index.rs"),
    include_str!("../text/lexer.rs"),
    include_str!("../text/unit.rs"),
    include_str!("../module/body.rs"),
    include_str!("../module/function.rs"),
    include_str!("../module/mod.rs"),
    include_str!("../module/operand.rs"),
    include_str!("../module/scope.rs"),
    include_str!("../module/tokens.rs"),
    include_str!("../module/types.rs"),
    include_str!("../module/variable.rs"),
    include_str!("mod.rs"),
    include_str!("names.rs"),
    include_str!("program.rs"),
    include_str!("reach.rs"),
    include_str!("../run/executable.rs"),
];
