//! Opens a library: by absolute path, with all symbols at once, isolated from other libraries, and for the life of the process.
use crate::elf::{self, NoLibrary};
use crate::enums::ncclResult_t;
use crate::table::Nccl;
use crate::version::version_text;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, c_int};
use std::path::{Path, PathBuf};

/// The oldest version that is accepted; the oldest that this table was ever held against.
pub const OLDEST: c_int = 21300;

/// The reason a file is not used as an NCCL library.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file does not exist, or cannot be reached.
    #[error("{}: {source}", path.display())]
    NotFound {
        /// The path as given.
        path: PathBuf,
        /// The error from the system.
        source: std::io::Error,
    },
    /// The loader refuses the file: it is not a library, is for another machine, or needs something that is missing here.
    #[error("{} cannot be loaded: {words}", path.display())]
    Refused {
        /// Path of the file.
        path: PathBuf,
        /// The loader's message.
        words: String,
    },
    /// A library, but none with NCCL's interface.
    #[error("{} is a library, but not NCCL: it has no ncclGetVersion", path.display())]
    NotNccl {
        /// Path of the file.
        path: PathBuf,
    },
    /// It does not say which version it is.
    #[error(
        "{} does not tell its version: ncclGetVersion answers {code:?}, version {version}{}",
        path.display(), after_colon(text)
    )]
    NoVersion {
        /// Path of the file.
        path: PathBuf,
        /// The result of `ncclGetVersion`.
        code: ncclResult_t,
        /// The value that it stored as version.
        version: c_int,
        /// The text of ncclGetLastError; may be empty.
        text: String,
    },
    /// The library is older than [`OLDEST`].
    #[error(
        "{} is NCCL {}, too old: collspec works with {} and later",
        path.display(), version_text(*version), version_text(OLDEST)
    )]
    TooOld {
        /// Path of the file.
        path: PathBuf,
        /// The library's version code.
        version: c_int,
    },
}

impl Nccl {
    /// Looks into the file at `path`, without opening it as a library: its path without links, if it is one of this machine that defines
    /// `ncclGetVersion`.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is not a shared library that defines `ncclGetVersion`.
    pub fn look_at(path: &Path) -> Result<PathBuf, LoadError> {
        let not_found = |source| LoadError::NotFound { path: path.to_owned(), source };
        let path = path.canonicalize().map_err(not_found)?;
        match looked_at(&path, "ncclGetVersion").map_err(not_found)? {
            Ok(()) => Ok(path),
            Err(NoLibrary::Not(words)) => Err(LoadError::Refused { words, path }),
            Err(NoLibrary::Lacks) => Err(LoadError::NotNccl { path }),
        }
    }

    /// Opens the library at `path` and fills a table from it; entries that it lacks stay empty.
    ///
    /// The path is made absolute first: two files are then two libraries, even if both call themselves `libnccl.so.2`.
    /// Only the functions named `nccl*` are taken; their twins for profilers (`pnccl*`) are left alone.
    ///
    /// Opening a library runs its code, so a file is opened only if it is a shared library of this machine that defines
    /// `ncclGetVersion`. Its code then runs with all rights of the calling process.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, is not an NCCL library for this machine, or the loader refuses it.
    pub fn load(path: &Path) -> Result<Nccl, LoadError> {
        let path = Self::look_at(path)?;
        // SAFETY: initialisers run; the caller trusts the file (see above). Local binding keeps the library's symbols
        // from other libraries', and theirs from it; binding now makes a missing dependency an error here, not an
        // abort at the first call.
        let opened = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) };
        let library = match opened {
            Ok(library) => library,
            Err(error) => return Err(LoadError::Refused { words: loader_words(&error), path }),
        };
        let mut table = Nccl::empty(path.display().to_string());
        table.fill(&library);
        // Never unloaded, not even a refused one: NCCL starts threads and registers what runs at exit or at a thread's
        // end, and the table holds bare addresses. The handle is leaked on purpose.
        std::mem::forget(library);

        let Some(get_version) = table.ncclGetVersion else { return Err(LoadError::NotNccl { path }) };
        let mut version = 0;
        // SAFETY: a place for one number; the call needs nothing else, neither device nor initialisation.
        let code = unsafe { get_version(&mut version) };
        if code != ncclResult_t::Success || version <= 0 {
            return Err(LoadError::NoVersion { path, code, version, text: last_error(&table) });
        }
        if version < OLDEST {
            return Err(LoadError::TooOld { path, version });
        }
        Ok(table)
    }
}

/// The library's text for its last error; empty if there is none.
fn last_error(table: &Nccl) -> String {
    let Some(get_last_error) = table.ncclGetLastError else { return String::new() };
    // SAFETY: a null communicator is allowed: the text is that of the process.
    let text = unsafe { get_last_error(std::ptr::null_mut()) };
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not null, and the library's texts have an end and last until its next error on this thread.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().trim().to_owned()
}

fn after_colon(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

/// Checks that a file is a shared library of this machine that defines `symbol`; it is read, not opened as a library.
///
/// # Errors
///
/// The reason it is not, in words that follow the file's name.
pub fn defines(path: &Path, symbol: &str) -> Result<(), String> {
    match looked_at(path, symbol).map_err(|error| error.to_string())? {
        Ok(()) => Ok(()),
        Err(NoLibrary::Not(words)) => Err(words),
        Err(NoLibrary::Lacks) => Err(format!("it is a library without {symbol}")),
    }
}

fn looked_at(path: &Path, symbol: &str) -> std::io::Result<Result<(), NoLibrary>> {
    // opening a pipe would wait for somebody to write to it, here and in the loader
    if !path.metadata()?.is_file() {
        return Ok(Err(NoLibrary::Not("it is not a regular file".into())));
    }
    Ok(elf::defines(&std::fs::File::open(path)?, symbol))
}

/// The loader's own message, which follows the crate's.
fn loader_words(error: &libloading::Error) -> String {
    let mut words = error.to_string();
    let mut inner = std::error::Error::source(error);
    while let Some(source) = inner {
        if !words.contains(&source.to_string()) {
            words = format!("{words}: {source}");
        }
        inner = source.source();
    }
    words
}
