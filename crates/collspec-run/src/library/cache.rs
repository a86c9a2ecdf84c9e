//! The cache of fetched libraries: `VERSION/libnccl.so.2` in a folder of the user.
use crate::cache_folder::{NoCacheFolder, cache_folder_from};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// The file's name in wheels, systems and cache.
pub(super) const FILE: &str = "libnccl.so.2";

/// The CUDA release that a library was built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaRelease(u32);
impl Default for CudaRelease {
    fn default() -> Self {
        Self(12)
    }
}
impl fmt::Display for CudaRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cu{}", self.0)
    }
}
impl std::str::FromStr for CudaRelease {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "11" => Ok(Self(11)),
            "12" => Ok(Self(12)),
            "13" => Ok(Self(13)),
            _ => Err("there are libraries for CUDA 11, 12 and 13".to_owned()),
        }
    }
}
impl CudaRelease {
    /// The name of the Python package with the library.
    pub fn package(self) -> String {
        format!("nvidia-nccl-{self}")
    }
}

/// The library to fetch.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The library's version.
    pub version: String,
    /// The CUDA release that it was built for.
    pub cuda: CudaRelease,
    /// Without the machine code of GPUs.
    pub slim: bool,
}

/// The folder of fetched libraries.
#[derive(Clone, Debug)]
pub struct LibraryCache(PathBuf);

impl LibraryCache {
    /// The user's cache: `collspec/nccl` under XDG_CACHE_HOME, else under `.cache` in the home folder.
    ///
    /// # Errors
    ///
    /// Neither folder is known.
    pub fn of_user() -> Result<Self, NoCacheFolder> {
        Self::from_variables(|name| std::env::var_os(name))
    }

    /// Like [`LibraryCache::of_user`], with `variable` as the environment.
    ///
    /// # Errors
    ///
    /// Neither folder can be determined.
    pub(super) fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, NoCacheFolder> {
        cache_folder_from(variable).map(|folder| Self(folder.join("nccl")))
    }

    /// The cache in this folder.
    pub fn in_folder(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// The folder of the cache.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// The path of a library, whether it exists or not.
    pub fn library_path(&self, wanted: &Wanted) -> PathBuf {
        let Wanted { version, cuda, slim } = wanted;
        let cuda = if *cuda == CudaRelease::default() { String::new() } else { format!("+{cuda}") };
        let slim = if *slim { "+slim" } else { "" };
        self.0.join(format!("{version}{cuda}{slim}")).join(FILE)
    }

    /// The libraries in the cache, by name.
    pub fn libraries(&self) -> Vec<PathBuf> {
        let Ok(entries) = self.0.read_dir() else { return Vec::new() };
        // Names that begin with a dot are unfinished downloads.
        let kept = entries.flatten().filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
        let mut files: Vec<_> = kept.map(|entry| entry.path().join(FILE)).filter(|path| path.is_file()).collect();
        files.sort();
        files
    }
}
