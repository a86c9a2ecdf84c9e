//! Fetching a library: its wheel comes through Python's own tools, which know the registry, proxies and credentials and
//! check the file against the registry's hash. No code of the wheel runs.
use super::download::{self, Progress};
use super::slim::{Kept, SlimError, slim};
use super::wheel::{self, WheelError};
use super::work_folder::WorkFolder;
use collspec_run::child::command::{self, Answer, CommandError};
use collspec_run::library::program::command_for;
use collspec_run::library::{LibraryCache, Wanted};
use collspec_run::signals;
use nccl_sys::{LoadError, Nccl};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Time limit of a download of some hundreds of megabytes.
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(30 * 60);
/// Time limit of a tool that is asked whether it works.
const START_LIMIT: Duration = Duration::from_secs(30);

/// A library in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Path of the library.
    pub path: PathBuf,
    /// Its sha256 as the wheel lists it; `None` if it was in the cache already.
    pub hash: Option<String>,
    /// The amount that was kept, if it was slimmed now.
    pub kept: Option<Kept>,
}

/// The reason why no library was fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The text is not a version in the form that registries use.
    #[error("{0:?} is not a version of NCCL; versions look like 2.30.7")]
    Version(String),
    /// No tool that fetches wheels was found.
    #[error("fetching a library needs pip or uv, and neither is installed; install python3-pip or uv")]
    NoTool,
    /// The registry cannot be reached.
    #[error("{tool} does not reach the package registry: {words}")]
    NoNetwork {
        /// Name of the tool.
        tool: &'static str,
        /// Output of the tool.
        words: String,
    },
    /// The registry lacks this version.
    #[error("{package} has no version {version}{}", other_versions_text(there))]
    NoSuchVersion {
        /// Name of the package.
        package: String,
        /// The version that was asked for.
        version: String,
        /// The versions that the tool lists.
        there: Vec<String>,
    },
    /// The file that arrived is not the one listed by the registry.
    #[error("{tool} got another {package} {version} than the registry lists: {words}")]
    IndexHash {
        /// Name of the tool.
        tool: &'static str,
        /// Name of the package.
        package: String,
        /// Version of the package.
        version: String,
        /// The hashes, in its words.
        words: String,
    },
    /// The tool failed for another reason.
    #[error("{tool} failed: {words}")]
    Tool {
        /// Name of the tool.
        tool: &'static str,
        /// Output of the tool.
        words: String,
    },
    /// The time limit is over.
    #[error("{tool} has not finished in {} minutes", DOWNLOAD_LIMIT.as_secs() / 60)]
    TooSlow {
        /// Name of the tool.
        tool: &'static str,
    },
    /// SIGINT was received.
    #[error("interrupted")]
    Interrupted,
    /// The file is not an NCCL library of this machine.
    #[error(transparent)]
    NoLibrary(#[from] LoadError),
    /// The wheel cannot be used.
    #[error(transparent)]
    Wheel(#[from] WheelError),
    /// The library cannot be slimmed.
    #[error(transparent)]
    Slim(#[from] SlimError),
    /// The cache cannot be written.
    #[error("{}: {source}", path.display())]
    Cache {
        /// The file or folder.
        path: PathBuf,
        /// The error from the system.
        source: io::Error,
    },
}

fn other_versions_text(there: &[String]) -> String {
    if there.is_empty() { String::new() } else { format!("; there are {}", there.join(", ")) }
}

/// Fetches a library into the cache, where it appears complete or not at all, even if SIGINT ends the work. A library that the cache
/// already has stays. `tell` receives the progress of the download.
///
/// # Errors
///
/// No version, no tool, a registry or download that fails, a wheel with wrong bytes or without an NCCL library, a library that cannot be
/// slimmed, or a cache that cannot be written.
pub fn fetch(wanted: &Wanted, cache: &LibraryCache, tell: &dyn Fn(Progress)) -> Result<Fetched, FetchError> {
    if !is_version(&wanted.version) {
        return Err(FetchError::Version(wanted.version.clone()));
    }
    let place = cache.library_path(wanted);
    // An existing file is examined and not opened as a library, which would run its code.
    if place.is_file() {
        Nccl::look_at(&place)?;
        return Ok(Fetched { path: place, hash: None, kept: None });
    }
    signals::catch_interrupt();
    limit_file_size();
    let cannot = |path: &Path| {
        let path = path.to_owned();
        move |source| FetchError::Cache { path, source }
    };
    let tool = FetchTool::first_available().ok_or(FetchError::NoTool)?;
    // The tool runs in another working folder, so the path must be absolute.
    let cache = &LibraryCache::in_folder(std::path::absolute(cache.folder()).map_err(cannot(cache.folder()))?);
    let place = cache.library_path(wanted);
    fs::create_dir_all(cache.folder()).map_err(cannot(cache.folder()))?;
    let work = WorkFolder::new(cache.folder()).map_err(cannot(cache.folder()))?;
    let came = tool.download(&wanted.cuda.package(), &wanted.version, work.path(), tell)?;
    let ready = work.path().join("ready");
    let hash = wheel::extract(&came, &ready)?;
    Nccl::look_at(&ready)?;
    let kept = if wanted.slim { Some(slim(&ready)?) } else { None };
    if signals::is_interrupted() {
        return Err(FetchError::Interrupted);
    }
    let folder = place.parent().unwrap_or(cache.folder());
    fs::create_dir_all(folder).map_err(cannot(folder))?;
    fs::rename(&ready, &place).map_err(cannot(&place))?;
    Ok(Fetched { path: place, hash: Some(hash), kept })
}

/// Keeps files of this process and of those that it starts from growing without bound: uv unpacks wheels itself.
fn limit_file_size() {
    let limit = getrlimit(Resource::Fsize);
    let current = limit.current.map_or(wheel::MAX_LIBRARY_BYTES, |current| current.min(wheel::MAX_LIBRARY_BYTES));
    // Without success the size that the wheel lists is still held against the limit.
    let _ = setrlimit(Resource::Fsize, Rlimit { current: Some(current), ..limit });
}

/// True for digits and dots with a suffix like `.post1`, which a tool cannot mistake for an option or a path.
pub fn is_version(text: &str) -> bool {
    let number = |part: &str| !part.is_empty() && part.len() <= 4 && part.bytes().all(|byte| byte.is_ascii_digit());
    let part = |part: &str| number(part) || part.strip_prefix("post").is_some_and(number);
    text.contains('.') && text.starts_with(|first: char| first.is_ascii_digit()) && text.split('.').all(part)
}

/// A program that fetches wheels.
#[derive(Clone, Copy, Debug)]
enum FetchTool {
    /// `pip` under one of its names.
    Pip(&'static [&'static str]),
    Uv,
}

impl FetchTool {
    /// The first tool that this machine has.
    fn first_available() -> Option<Self> {
        // `-I`: without modules from the working folder, PYTHONPATH and the user's own site.
        let tools = [Self::Pip(&["python3", "-I", "-m", "pip"]), Self::Pip(&["pip3"]), Self::Pip(&["pip"]), Self::Uv];
        tools.into_iter().find(|tool| {
            let Some(mut command) = tool.command() else { return false };
            command.arg("--version");
            command::run(command, START_LIMIT).is_ok_and(|answer| answer.status.success())
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Pip(_) => "pip",
            Self::Uv => "uv",
        }
    }

    /// Its command without arguments, which does not depend on the working folder.
    fn command(self) -> Option<Command> {
        let words: &[&str] = match self {
            Self::Pip(words) => words,
            Self::Uv => &["uv"],
        };
        let (first, more) = words.split_first()?;
        let mut command = command_for(first)?;
        command.args(more);
        Some(command)
    }

    /// Downloads a package into `work`: a wheel, or a folder into which one was unpacked.
    fn download(
        self,
        package: &str,
        version: &str,
        work: &Path,
        tell: &dyn Fn(Progress),
    ) -> Result<PathBuf, FetchError> {
        let tool = self.name();
        let wanted = format!("{package}=={version}");
        let (target, log) = (work.join("came"), work.join("log"));
        let mut command = self.command().ok_or(FetchError::NoTool)?;
        // An empty folder: neither Python nor uv finds modules or settings in it.
        command.current_dir(work);
        // Large files pass through the temporary folder, which may be small.
        command.env("TMPDIR", work);
        match self {
            Self::Pip(_) => {
                command.args(["download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input"]);
                command.args(["--disable-pip-version-check", "--progress-bar=off", "--no-color"]);
                command.args(["--timeout=20", "--retries=2"]).arg("--log").arg(&log);
                let machine = std::env::consts::ARCH;
                for glibc in ["1", "2010", "2014", "_2_17", "_2_18", "_2_27", "_2_28", "_2_34"] {
                    command.arg(format!("--platform=manylinux{glibc}_{machine}"));
                }
                command.arg("--dest").arg(&target).arg(&wanted);
            }
            Self::Uv => {
                let platform = format!("{}-manylinux_2_34", std::env::consts::ARCH);
                command.args(["pip", "install", "--no-deps", "--only-binary=:all:", "--no-cache", "--no-progress"]);
                command.args(["--color=never", "--link-mode=copy", "--python-platform", &platform]);
                command.arg("--target").arg(&target).arg(&wanted);
            }
        }
        let stop = || {
            tell(download::progress(work, &log));
            signals::is_interrupted()
        };
        let answer = match command::run_unless(command, DOWNLOAD_LIMIT, &stop) {
            Ok(Some(answer)) => answer,
            Ok(None) => return Err(FetchError::Interrupted),
            Err(CommandError::TooSlow(_)) => return Err(FetchError::TooSlow { tool }),
            Err(error) => return Err(FetchError::Tool { tool, words: error.to_string() }),
        };
        if !answer.status.success() {
            return Err(error_from_answer(tool, package, version, &answer));
        }
        let entries = fs::read_dir(&target).map_err(|source| FetchError::Cache { path: target.clone(), source })?;
        let mut files = entries.flatten().map(|entry| entry.path());
        Ok(files.find(|path| path.extension().is_some_and(|end| end == "whl")).unwrap_or(target))
    }
}

/// The error that a tool's output means.
fn error_from_answer(tool: &'static str, package: &str, version: &str, answer: &Answer) -> FetchError {
    let said = &answer.err;
    let line = |needle: &str| said.lines().find(|line| line.contains(needle)).map(str::trim);
    let offline = [
        "Temporary failure in name resolution",
        "Name or service not known",
        "Failed to establish a new connection",
        "Connection refused",
        "Network is unreachable",
        "timed out",
        "Max retries exceeded",
        "Cannot connect to proxy",
        "dns error",
        "error sending request",
        "Failed to fetch",
    ];
    if let Some(words) = offline.into_iter().find_map(line) {
        // pip prints its client's state in front of the system's message.
        let words = words.rsplit(">: ").next().and_then(|words| words.split("')").next()).unwrap_or(words);
        return FetchError::NoNetwork { tool, words: shortened(words) };
    }
    let none = ["No matching distribution", "Could not find a version", "there is no version of", "no versions of"];
    if none.into_iter().any(|needle| said.contains(needle)) {
        let list = line("(from versions: ").and_then(|line| line.split("(from versions: ").nth(1));
        let list = list.and_then(|list| list.split(')').next()).unwrap_or_default();
        let there = list.split(", ").filter(|word| is_version(word)).map(str::to_owned).collect();
        return FetchError::NoSuchVersion { package: package.to_owned(), version: version.to_owned(), there };
    }
    if ["DO NOT MATCH THE HASHES", "Hash mismatch"].into_iter().any(|needle| said.contains(needle)) {
        let words =
            said.lines().skip_while(|line| !line.contains("Expected")).map(str::trim).collect::<Vec<_>>().join(" ");
        let (package, version, words) = (package.to_owned(), version.to_owned(), shortened(&words));
        return FetchError::IndexHash { tool, package, version, words };
    }
    let words = said.lines().rev().find(|line| line.starts_with("ERROR") || line.starts_with("error"));
    let words = words.or_else(|| said.lines().rev().find(|line| !line.trim().is_empty()));
    FetchError::Tool { tool, words: words.map_or_else(|| answer.status.to_string(), shortened) }
}

fn shortened(line: &str) -> String {
    let line = line.trim_start_matches("WARNING: ").trim_start_matches("ERROR: ");
    match line.char_indices().nth(300) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn wanted(version: &str, cuda: &str) -> Wanted {
        Wanted { version: version.to_owned(), cuda: cuda.parse().unwrap(), slim: false }
    }

    #[test]
    fn versions_are_nothing_else() {
        for good in ["2.30.7", "2.18.3", "2.26.2.post1", "2.30"] {
            assert!(is_version(good), "{good}");
        }
        for bad in
            ["", "2", "latest", "2.30.7 --pre", "-r", "2..3", "2.3.", ".2", "2.30.x", "../2.3", "2.30*", "post1.2"]
        {
            assert!(!is_version(bad), "{bad}");
            let error =
                fetch(&wanted(bad, "12"), &LibraryCache::in_folder("/no/such/folder".into()), &|_| ()).unwrap_err();
            assert!(matches!(error, FetchError::Version(_)), "{error}");
        }
    }

    #[test]
    fn what_is_there_is_not_fetched_again() {
        let folder = tempfile::tempdir().unwrap();
        let cache = LibraryCache::in_folder(folder.path().to_owned());
        let (cu12, cu13) = (wanted("2.30.7", "12"), wanted("2.30.7", "13"));
        let path = cache.library_path(&cu13);
        assert_ne!(path, cache.library_path(&cu12));
        assert_ne!(cache.library_path(&Wanted { slim: true, ..cu13.clone() }), path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "x").unwrap();
        let refused = fetch(&cu13, &cache, &|_| ()).unwrap_err().to_string();
        assert!(refused.ends_with("cannot be loaded: it is not a library (not an ELF file)"), "{refused}");
    }

    #[test]
    fn a_tools_words_become_a_reason() {
        let reason = |said: &str| {
            let answer = Answer { status: ExitStatus::from_raw(256), out: String::new(), err: said.to_owned() };
            error_from_answer("pip", "nvidia-nccl-cu12", "9.9", &answer)
        };
        let there = "ERROR: Could not find a version that satisfies the requirement nvidia-nccl-cu12==9.9 \
                     (from versions: 2.16.2, 2.26.2.post1, 2.30.7)\nERROR: No matching distribution found for x\n";
        match reason(there) {
            FetchError::NoSuchVersion { there, .. } => assert_eq!(there, ["2.16.2", "2.26.2.post1", "2.30.7"]),
            other => panic!("{other}"),
        }
        let words = reason(there).to_string();
        assert_eq!(words, "nvidia-nccl-cu12 has no version 9.9; there are 2.16.2, 2.26.2.post1, 2.30.7");
        // Offline, pip prints both messages.
        let offline = "WARNING: Retrying after connection broken by 'NewConnectionError: Failed to establish a new connection'\n\
                       ERROR: Could not find a version that satisfies the requirement x (from versions: none)\n";
        assert!(matches!(reason(offline), FetchError::NoNetwork { .. }));
        let noisy =
            "Retrying after 'NewConnectionError('<x object at 0x7f>: Name or service not known')': /simple/x/\n";
        assert!(matches!(reason(noisy), FetchError::NoNetwork { words, .. } if words == "Name or service not known"));
        let uv =
            "  × No solution found when resolving dependencies:\n  ╰─▶ Because there is no version of x==9.9 and\n";
        assert!(matches!(reason(uv), FetchError::NoSuchVersion { there, .. } if there.is_empty()));
        let other = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If\n    x from y:\n\
                     \x20       Expected sha256 00\n             Got        ad\n";
        assert!(reason(other).to_string().ends_with("than the registry lists: Expected sha256 00 Got        ad"));
        let full = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n";
        assert!(matches!(reason(full), FetchError::Tool { words, .. } if words.contains("No space left")));
        assert!(matches!(reason(""), FetchError::Tool { .. }));
    }
}
