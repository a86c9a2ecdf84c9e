//! Errors of attaching to a library.
use std::io;
use std::path::PathBuf;

/// The reason a library was not changed, or its changes were undone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// This program was built for a machine for which no jumps are known.
    #[error("functions of a library can be replaced on x86-64 only")]
    NotOnThisMachine,
    /// The file cannot be opened.
    #[error("{}: {error}", path.display())]
    Open {
        /// Path of the library.
        path: PathBuf,
        /// The error from the system.
        #[source]
        error: io::Error,
    },
    /// The file is something else, or its tables are damaged.
    #[error("it is not a library that can be read: {0}")]
    NotALibrary(String),
    /// The library is for another machine.
    #[error("it is a library for another machine than x86-64 (ELF machine {0})")]
    OtherMachine(u16),
    /// The library is not loaded in this process.
    #[error("it is not loaded in this process")]
    NotLoaded,
    /// The loaded code differs from the file.
    #[error("the file has changed since it was loaded: {0} differs")]
    Changed(String),
    /// Jumps of an earlier call are present.
    #[error("its CUDA runtime has been replaced already")]
    AlreadyAttached,
    /// The symbols that name the runtime's functions have been taken out of the file.
    #[error("it is stripped: without a symbol table (.symtab) the CUDA runtime's functions in it cannot be found")]
    Stripped,
    /// No function of the runtime is in the library.
    #[error("the CUDA runtime is not linked into it{}", if *imported { ": it imports the runtime from another library" } else { "" })]
    NoRuntime {
        /// The library imports functions of the runtime.
        imported: bool,
    },
    /// A jump would overwrite the bytes that follow the function.
    #[error("{function} has room for {room} bytes, and a jump takes {needed}")]
    TooShort {
        /// The function's name.
        function: String,
        /// Bytes between the function's start and the next symbol.
        room: usize,
        /// Bytes of a jump.
        needed: usize,
    },
    /// Two names of one function have different replacements.
    #[error("{first} and {second} are one function in it, and two different ones are to answer for them")]
    TwoAnswers {
        /// One of the names.
        first: String,
        /// The other name.
        second: String,
    },
    /// Memory is not as a loader maps it.
    #[error("its memory at {address:#x} {what}")]
    Memory {
        /// The address in this process.
        address: usize,
        /// A description of the problem.
        what: String,
    },
    /// The system does not let memory be changed.
    #[error("the memory at {address:#x} cannot be changed: {error}{}", if *undone { "" } else { "; what was changed before could not be undone, so the library must not be used" })]
    Protected {
        /// The address in this process.
        address: usize,
        /// The error from the system.
        #[source]
        error: io::Error,
        /// True if all earlier changes were undone.
        undone: bool,
    },
    /// Memory for machine code could not be obtained.
    #[error("no memory for the functions that answer `not supported`: {0}")]
    Stubs(#[source] io::Error),
    /// The process's mappings cannot be read.
    #[error("/proc/self/maps: {0}")]
    Maps(#[source] io::Error),
}
