//! Why a library cannot run on software GPUs.
use crate::attach::AttachError;
use crate::fatbin::FatbinError;
use ptx::link::LinkError;

/// The reason a library cannot run on software GPUs.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The PTX in it cannot be taken out.
    #[error(transparent)]
    Fatbin(#[from] FatbinError),
    /// The library does not contain PTX.
    #[error("the library carries no PTX, and the machine code of a GPU cannot run here")]
    NoPtx,
    /// A registered fat binary does not contain PTX.
    #[error("it is there as machine code alone ({}), which cannot run here, and not as PTX", architectures.join(", "))]
    MachineCode {
        /// The architectures for which there is machine code.
        architectures: Vec<String>,
    },
    /// The PTX cannot be read.
    #[error(transparent)]
    Text(#[from] ptx::Error),
    /// Its units are not a program.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Its calls cannot come here.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// No threads for its kernels.
    #[error("no thread to run kernels: {0}")]
    Threads(#[from] std::io::Error),
}
