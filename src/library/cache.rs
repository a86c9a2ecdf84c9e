//! Where fetched libraries are kept: `VERSION/libnccl.so.2` in a folder of the user's.
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// The file's name in wheels, systems and cache.
pub(super) const FILE: &str = "libnccl.so.2";

/// The CUDA release that a library was built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cuda(u32);

impl Default for Cuda {
    fn default() -> Self {
        Self(12)
    }
}

impl fmt::Display for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cu{}", self.0)
    }
}

impl std::str::FromStr for Cuda {
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

#[cfg(feature = "cli")]
impl Cuda {
    /// The name of the library's package.
    pub(super) fn package(self) -> String {
        format!("nvidia-nccl-{self}")
    }
}

/// The folder of fetched libraries.
#[derive(Clone, Debug)]
pub struct Cache(PathBuf);

/// There is no folder to keep libraries in.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no folder for fetched libraries: neither XDG_CACHE_HOME nor HOME is an absolute path")]
pub struct NoCache;

impl Cache {
    /// The user's: `collspec/nccl` under XDG_CACHE_HOME, else under `.cache` at home.
    pub fn of_user() -> Result<Self, NoCache> {
        Self::from(|name| std::env::var_os(name))
    }

    /// As [`Cache::of_user`], of somebody whose environment is `variable`.
    pub(super) fn from(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, NoCache> {
        let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || absolute("HOME").map(|home| home.join(".cache"));
        let base = absolute("XDG_CACHE_HOME").or_else(home).ok_or(NoCache)?;
        Ok(Self(base.join("collspec").join("nccl")))
    }

    /// A folder of the caller's choice.
    pub fn at(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Where a version is kept, whether it is there or not.
    pub fn place(&self, version: &str, cuda: Cuda) -> PathBuf {
        let name = if cuda == Cuda::default() { version.to_owned() } else { format!("{version}+{cuda}") };
        self.0.join(name).join(FILE)
    }

    /// What is kept, by name.
    pub fn libraries(&self) -> Vec<PathBuf> {
        let Ok(entries) = self.0.read_dir() else { return Vec::new() };
        // what begins with a dot is unfinished
        let kept = entries.flatten().filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
        let mut files: Vec<_> = kept.map(|entry| entry.path().join(FILE)).filter(|path| path.is_file()).collect();
        files.sort();
        files
    }
}
