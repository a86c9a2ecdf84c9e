//! The files that may be NCCL libraries, found by their names. No library is opened.
use super::cache::{FILE, LibraryCache};
use super::program::command_for;
use crate::child::command;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Time limit of ldconfig and of python3, which list folders.
const LIMIT: Duration = Duration::from_secs(10);
/// The library's folder in the wheels of Python's registry.
const IN_WHEEL: &str = "nvidia/nccl/lib";

/// The place in which a library was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LibrarySource {
    /// Found in a folder of LD_LIBRARY_PATH.
    LoaderPath,
    /// Found in the system loader's cache.
    LoaderCache,
    /// Found in a site-packages folder of Python.
    Python,
    /// Found in a conda environment.
    Conda,
    /// Found in a folder of a CUDA installation or the system.
    Cuda,
    /// Fetched by `collspec nccl fetch`.
    Fetched,
}

impl fmt::Display for LibrarySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LoaderPath => "LD_LIBRARY_PATH",
            Self::LoaderCache => "the loader's cache",
            Self::Python => "Python's packages",
            Self::Conda => "conda",
            Self::Cuda => "the system's CUDA folders",
            Self::Fetched => "fetched",
        })
    }
}

/// A file that may be an NCCL library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The file, with links resolved.
    pub path: PathBuf,
    /// The place in which it was found first.
    pub source: LibrarySource,
}

/// The variables of an environment.
type Variables = Box<dyn Fn(&str) -> Option<OsString>>;

/// The places that a search looks into.
pub struct SearchPlaces {
    variable: Variables,
    /// The folder in front of the system's folders.
    root: PathBuf,
    /// The output of `ldconfig -p`.
    ldconfig: String,
    /// The folders in which python3 looks for packages.
    python: Vec<PathBuf>,
}

impl SearchPlaces {
    /// The places of this machine.
    pub fn of_this_machine() -> Self {
        let system = ["/sbin/ldconfig", "/usr/sbin/ldconfig"].map(|file| Some(Command::new(file)));
        let ldconfig = [command_for("ldconfig")].into_iter().chain(system);
        let ldconfig = ldconfig.flatten().find_map(|program| output_of(program, &["-p"])).unwrap_or_default();
        // Isolated, Python takes no module from the working folder; the folders that this omits are added.
        let ask = "import site, sys; print('\\n'.join([*sys.path, site.getusersitepackages()]))";
        let paths = command_for("python3").and_then(|python| output_of(python, &["-I", "-c", ask])).unwrap_or_default();
        let named = std::env::var_os("PYTHONPATH").unwrap_or_default();
        let python = std::env::split_paths(&named).chain(paths.lines().map(PathBuf::from));
        let python = python.filter(|path| path.is_absolute()).collect();
        Self { variable: Box::new(|name| std::env::var_os(name)), root: "/".into(), ldconfig, python }
    }
}

/// The standard output of a program; `None` if it is missing, fails or takes too long.
fn output_of(mut command: Command, args: &[&str]) -> Option<String> {
    command.args(args);
    let answer = command::run(command, LIMIT).ok()?;
    answer.status.success().then_some(answer.out)
}

/// Every file with NCCL's name, each once, the preferred ones first.
pub fn candidates(machine: &SearchPlaces) -> Vec<Candidate> {
    let mut seen = CandidateList::default();
    let folder = |name: &str| (machine.variable)(name).map(PathBuf::from).filter(|path| path.is_absolute());

    if let Some(list) = (machine.variable)("LD_LIBRARY_PATH") {
        for folder in std::env::split_paths(&list).filter(|folder| folder.is_absolute()) {
            seen.add_folder(&folder, LibrarySource::LoaderPath);
        }
    }
    for path in paths_in_ldconfig(&machine.ldconfig) {
        seen.add_file(&path, LibrarySource::LoaderCache);
    }
    if let Some(environment) = folder("VIRTUAL_ENV") {
        seen.add_python_environment(&environment, LibrarySource::Python);
    }
    for folder in &machine.python {
        seen.add_folder(&folder.join(IN_WHEEL), LibrarySource::Python);
    }
    if let Some(environment) = folder("CONDA_PREFIX") {
        seen.add_folder(&environment.join("lib"), LibrarySource::Conda);
        seen.add_python_environment(&environment, LibrarySource::Conda);
    }
    let local = machine.root.join("usr/local");
    for cuda in entries_starting_with(&local, "cuda").into_iter().rev() {
        for inside in ["lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"] {
            seen.add_folder(&cuda.join(inside), LibrarySource::Cuda);
        }
    }
    for inside in ["usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/local/lib"] {
        seen.add_folder(&machine.root.join(inside), LibrarySource::Cuda);
    }
    if let Ok(cache) = LibraryCache::from_variables(&machine.variable) {
        for path in cache.libraries() {
            seen.add_file(&path, LibrarySource::Fetched);
        }
    }
    seen.candidates
}

#[derive(Default)]
struct CandidateList {
    paths: BTreeSet<PathBuf>,
    candidates: Vec<Candidate>,
}

impl CandidateList {
    fn add_file(&mut self, path: &Path, source: LibrarySource) {
        let Ok(path) = path.canonicalize() else { return };
        if path.is_file() && self.paths.insert(path.clone()) {
            self.candidates.push(Candidate { path, source });
        }
    }

    fn add_folder(&mut self, folder: &Path, source: LibrarySource) {
        for name in [FILE, "libnccl.so"] {
            self.add_file(&folder.join(name), source);
        }
    }

    /// Adds the libraries of a folder in which Python was installed.
    fn add_python_environment(&mut self, environment: &Path, source: LibrarySource) {
        for python in entries_starting_with(&environment.join("lib"), "python3") {
            self.add_folder(&python.join("site-packages").join(IN_WHEEL), source);
        }
    }
}

/// The entries of a folder whose names begin with `begin`, by name.
fn entries_starting_with(folder: &Path, begin: &str) -> Vec<PathBuf> {
    let Ok(entries) = folder.read_dir() else { return Vec::new() };
    let begins = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(begin));
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(begins).collect();
    paths.sort();
    paths
}

/// NCCL's files in `ldconfig -p`'s list, of lines like `libnccl.so.2 (libc6,x86-64) => /path`.
fn paths_in_ldconfig(ldconfig: &str) -> impl Iterator<Item = PathBuf> {
    ldconfig.lines().filter_map(|line| {
        let (name, path) = line.trim().split_once(" => ")?;
        let name = name.split(' ').next()?;
        matches!(name, FILE | "libnccl.so").then(|| PathBuf::from(path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::fs;

    #[test]
    fn every_place_is_looked_into_and_every_file_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        let file = |name: &str| {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), "x").unwrap();
            at(name)
        };
        let expected = [
            (file("opt/a/libnccl.so.2.30.7"), LibrarySource::LoaderPath),
            (file("lib/libnccl.so.2"), LibrarySource::LoaderCache),
            (file("venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2"), LibrarySource::Python),
            (file("site/nvidia/nccl/lib/libnccl.so.2"), LibrarySource::Python),
            (file("conda/lib/libnccl.so.2"), LibrarySource::Conda),
            (file("conda/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2"), LibrarySource::Conda),
            (file("usr/local/cuda-13.0/lib64/libnccl.so.2"), LibrarySource::Cuda),
            (file("usr/local/cuda-12.4/targets/x86_64-linux/lib/libnccl.so"), LibrarySource::Cuda),
            (file("usr/lib/x86_64-linux-gnu/libnccl.so.2"), LibrarySource::Cuda),
            (file("cache/collspec/nccl/2.18.3/libnccl.so.2"), LibrarySource::Fetched),
            (file("cache/collspec/nccl/2.30.7+cu13/libnccl.so.2"), LibrarySource::Fetched),
        ];
        // Links, unfinished files and other names add nothing.
        std::os::unix::fs::symlink(at("opt/a/libnccl.so.2.30.7"), at("opt/a/libnccl.so.2")).unwrap();
        std::os::unix::fs::symlink("libnccl.so.2", at("opt/a/libnccl.so")).unwrap();
        std::os::unix::fs::symlink(at("usr/local/cuda-13.0"), at("usr/local/cuda")).unwrap();
        file("cache/collspec/nccl/.fetch/libnccl.so.2");
        file("lib/libnccl-net.so.2");
        fs::create_dir_all(at("opt/b/libnccl.so.2")).unwrap();

        let variables = BTreeMap::from([
            ("LD_LIBRARY_PATH", format!("{}::relative:{}", at("opt/a").display(), at("opt/b").display())),
            ("VIRTUAL_ENV", at("venv").display().to_string()),
            ("CONDA_PREFIX", at("conda").display().to_string()),
            ("XDG_CACHE_HOME", at("cache").display().to_string()),
        ]);
        let library = |name: &str| format!("\t{name} (libc6,x86-64) => {}\n", at("lib").join(name).display());
        let machine = SearchPlaces {
            variable: Box::new(move |name| variables.get(name).map(OsString::from)),
            root: at(""),
            ldconfig: format!("2 libs found\n{}{}", library("libnccl.so.2"), library("libnccl-net.so.2")),
            python: vec![at("site"), at("nothing")],
        };
        let found = candidates(&machine);
        let found: Vec<_> = found.into_iter().map(|candidate| (candidate.path, candidate.source)).collect();
        assert_eq!(found, expected);
    }
}
