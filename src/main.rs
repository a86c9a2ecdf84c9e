//! The command: a worker if it was started as one, else the command line.
#![deny(unsafe_code)]

use std::process::ExitCode;

/// The libraries that cargo has built beside this program's own.
#[cfg(embeds_libraries)]
macro_rules! libraries {
    ($($name:literal),*) => {
        [$(($name, include_bytes!(concat!(env!("COLLSPEC_BUILT_LIBRARIES"), "/", $name)).as_slice())),*]
    };
}

#[cfg(embeds_libraries)]
static LIBRARIES: [collspec::EmbeddedLibrary; 4] = libraries![
    "libgpuless_driver.so",
    "libcollspec_recorder.so",
    "libcollspec_standin_cuda.so",
    "libcollspec_standin_nccl.so"
];

fn main() -> ExitCode {
    #[cfg(embeds_libraries)]
    collspec::embed(&LIBRARIES);
    collspec::enter_if_asked();
    collspec::command()
}
