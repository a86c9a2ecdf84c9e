//! The folder for data that this program keeps between its runs.
use std::ffi::OsString;
use std::path::PathBuf;

/// The folder for the cache cannot be determined.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("there is no cache folder: neither XDG_CACHE_HOME nor HOME is an absolute path")]
pub struct NoCacheFolder;

/// The folder for data that this program keeps between its runs: `collspec` under XDG_CACHE_HOME, or else under `.cache` in the home
/// folder.
///
/// # Errors
///
/// Neither folder is known.
pub fn cache_folder() -> Result<PathBuf, NoCacheFolder> {
    cache_folder_from(|name| std::env::var_os(name))
}

/// The folder, in the cache, for what processes on software GPUs have found out about the PTX of libraries.
///
/// # Errors
///
/// As for [`cache_folder`].
pub fn programs_folder() -> Result<PathBuf, NoCacheFolder> {
    Ok(cache_folder()?.join("programs"))
}

pub(crate) fn cache_folder_from(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, NoCacheFolder> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || absolute("HOME").map(|home| home.join(".cache"));
    Ok(absolute("XDG_CACHE_HOME").or_else(home).ok_or(NoCacheFolder)?.join("collspec"))
}
