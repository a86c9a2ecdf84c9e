//! Kernels that are other than their library's PTX says, or note which of its instructions are executed.
use crate::machine;
use ptx::code::Change;
use ptx::run::{self, Executable, Executed};
use std::sync::Arc;

/// A changed instruction of a library in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// The number of its program, of those of all libraries in the order in which they were loaded.
    pub program: u32,
    /// The number of its function in the program.
    pub function: u32,
    /// Its number in the function.
    pub operation: u32,
    /// What is different about it.
    pub change: Change,
}

/// What is different about the kernels of all libraries in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alteration {
    /// The instructions that are executed are noted.
    Noted,
    /// One instruction is changed.
    Mutant(Mutant),
}

/// The instructions of a function that were executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutedFunction {
    /// As in a [`Mutant`].
    pub program: u32,
    /// As in a [`Mutant`].
    pub function: u32,
    /// The function's name.
    pub name: String,
    /// The unit of PTX in which it stands.
    pub unit: String,
    /// In the order of the text.
    pub operations: Vec<Executed>,
}

/// The reason kernels cannot be altered.
#[derive(Debug, thiserror::Error)]
pub enum AlterError {
    /// The threads that run kernels cannot be started.
    #[error("no thread to run kernels: {0}")]
    Machine(#[from] std::io::Error),
    /// The text of a function cannot be read.
    #[error(transparent)]
    Text(#[from] ptx::Error),
    /// The function is not that of a library here.
    #[error("there is no function {function} in program {program} of the libraries in this process")]
    NoFunction {
        /// The number of the program.
        program: u32,
        /// The number of the function.
        function: u32,
    },
}

/// From now on kernels that are launched are altered like this, or as their PTX says. No kernel may be at work.
///
/// # Errors
///
/// The mutant is not in a library here.
pub fn alter(alteration: Option<Alteration>) -> Result<(), AlterError> {
    let executables = machine::executables()?;
    let none = |mutant: Mutant| AlterError::NoFunction { program: mutant.program, function: mutant.function };
    executables.iter().for_each(|executable| executable.alter(None));
    match alteration {
        None => {}
        Some(Alteration::Noted) => {
            executables.iter().for_each(|executable| executable.alter(Some(run::Alteration::Noted)));
        }
        Some(Alteration::Mutant(mutant)) => {
            let executable = executables.get(mutant.program as usize).ok_or_else(|| none(mutant))?;
            let function = executable.program().function_id(mutant.function.into()).ok_or_else(|| none(mutant))?;
            let mutation = run::Mutation { function, operation: mutant.operation, change: mutant.change };
            executable.alter(Some(run::Alteration::Mutated(mutation)));
        }
    }
    Ok(())
}

/// The instructions that were executed since they are noted, by their numbers: program, function, and instruction in the function.
///
/// # Errors
///
/// The threads that run kernels cannot be started.
pub fn executed_numbers() -> Result<Vec<[u32; 3]>, AlterError> {
    let of_program = |(program, executable): (u32, Arc<Executable>)| {
        let all = executable.noted().into_iter();
        all.flat_map(move |(id, operations)| operations.into_iter().map(move |at| [program, id.number(), at]))
            .collect::<Vec<_>>()
    };
    Ok((0..).zip(machine::executables()?).flat_map(of_program).collect())
}

/// The instructions that were executed since they are noted.
///
/// # Errors
///
/// The threads that run kernels cannot be started, or the text of a function cannot be read.
pub fn executed() -> Result<Vec<ExecutedFunction>, AlterError> {
    let mut all = Vec::new();
    for (program, executable) in (0..).zip(machine::executables()?) {
        let names = executable.program();
        for (function, operations) in executable.executed()? {
            let name = names.signature(function)?.name;
            let unit = names.unit(names.unit_of(function)).name().to_owned();
            all.push(ExecutedFunction { program, function: function.number(), name, unit, operations });
        }
    }
    Ok(all)
}
