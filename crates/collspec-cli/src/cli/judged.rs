//! Runs a program whose NCCL calls are written down with some of their data.
use super::backend_args::driver_request;
use super::exit::Exit;
use super::gpu::{self, PlaceArgs};
use super::record::{FOLDER_VARIABLE, PRELOAD, RECORDER, before, cannot_start, in_front, program, startable};
use super::terminal;
use crate::fetch::elf;
use crate::judge::{self, Tally};
use crate::programs::{Calls, Gathering};
use anyhow::Context;
use collspec_run::child::descendants::{self, AFTER};
use collspec_run::child::guard::{ChildGuard, FOREVER};
use collspec_run::library::standin;
use collspec_run::run::Driver;
use collspec_run::signals;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The variable with what is copied, as the recorder reads it.
const SETTINGS_VARIABLE: &str = "COLLSPEC_JUDGE";
/// The variable with the schedule of kernels on software GPUs.
pub const SCHEDULE: &str = "COLLSPEC_SOFTWARE_SCHEDULE";
/// How long a program that is told to end has for it: torchrun gives its workers 30 seconds.
const GRACE: Duration = Duration::from_secs(40);
/// The time limit of a run, if none was asked for: this many times the longest run so far, and a minute more.
const TIMES: u32 = 10;
const MORE: Duration = Duration::from_secs(60);

/// What is run, and how.
pub struct Judged<'a> {
    pub words: &'a [OsString],
    pub place: PlaceArgs,
    pub driver: Option<&'a str>,
    /// What is copied, as the recorder reads it.
    pub settings: String,
    pub variables: Vec<(String, OsString)>,
    /// After this time it is ended. Without one it may take for ever.
    pub limit: Option<Duration>,
    /// It is one of several runs: its standard output goes to the standard error because the standard output is the report's, its standard
    /// input is empty as in the others, and what it leaves behind is ended before the next one.
    pub is_one_of_several: bool,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The exit code, or 128 and the number of a signal.
    pub code: u8,
    /// The time limit, if the program was ended because of it.
    pub limit: Option<Duration>,
}

impl Ended {
    /// True if the program ended by itself, with exit code 0.
    pub fn is_good(self) -> bool {
        self.code == 0 && self.limit.is_none()
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            None => write!(f, "exit code {}", self.code),
            Some(limit) => write!(f, "not ended after {:.0} s", limit.as_secs_f64()),
        }
    }
}

/// A run of a program, and what came of it.
pub struct JudgedRun {
    pub ended: Ended,
    pub tally: Tally,
    pub calls: Calls,
    pub files: Vec<PathBuf>,
}

/// Runs a program several times. Each run writes its copies to a new folder.
pub struct Series<'a> {
    pub words: &'a [OsString],
    pub driver: Option<&'a str>,
    /// The machine that its software GPUs are.
    machine: Option<String>,
    folder: TempDir,
    /// The time limit that was asked for.
    limit: Option<Duration>,
    /// The time of the longest run so far.
    longest: Option<Duration>,
    runs: usize,
}

impl<'a> Series<'a> {
    /// # Errors
    ///
    /// The folder for them cannot be made.
    pub fn new(
        words: &'a [OsString],
        driver: Option<&'a str>,
        machine: Option<&str>,
        limit: Option<f64>,
    ) -> anyhow::Result<Self> {
        let machine = machine.map(str::to_owned);
        let folder = tempfile::Builder::new().prefix("collspec-runs-").tempdir();
        let folder = folder.context("cannot make a folder for the copies")?;
        let limit = limit.map(Duration::from_secs_f64);
        Ok(Self { words, driver, machine, folder, limit, longest: None, runs: 0 })
    }

    /// Runs the program once more, on this library if there is one, and judges its results and gathers its calls. `variables` gets the
    /// folder of the run and returns the variables that the program gets.
    ///
    /// # Errors
    ///
    /// The program cannot be started, or its files cannot be read.
    pub fn run(
        &mut self,
        nccl: Option<&str>,
        variables: impl FnOnce(&Path) -> Vec<(String, OsString)>,
    ) -> anyhow::Result<JudgedRun> {
        self.runs += 1;
        let folder = self.folder.path().join(self.runs.to_string());
        std::fs::create_dir(&folder).context("cannot make a folder for the copies")?;
        let usual = |longest: Duration| longest.saturating_mul(TIMES).saturating_add(MORE);
        let program = Judged {
            words: self.words,
            place: PlaceArgs { nccl: nccl.map(str::to_owned), machine: self.machine.clone(), no_torch: false },
            driver: self.driver,
            settings: "all=0".to_owned(),
            variables: variables(&folder),
            limit: self.limit.or(self.longest.map(usual)),
            is_one_of_several: true,
        };
        let begun = Instant::now();
        let ended = program.run(&folder)?;
        self.longest = self.longest.max(Some(begun.elapsed()));
        let files = files_of(&folder)?;
        let mut gathering = Gathering::default();
        let tally = judge::judge(&files, Some(&mut gathering))?;
        Ok(JudgedRun { ended, tally, calls: gathering.calls(), files })
    }
}

impl Judged<'_> {
    /// Runs the program to its end, with files in this folder.
    ///
    /// # Errors
    ///
    /// It cannot be started, or what it needs is missing.
    pub fn run(&self, folder: &Path) -> anyhow::Result<Ended> {
        let word = self.words.first().context("no program is named")?;
        let file = startable(word).with_context(|| cannot_start(word))?;
        if elf::is_static(&file) {
            writeln!(
                terminal::err(),
                "collspec: {} is linked statically, so its own calls cannot be seen",
                file.display()
            )?;
        }
        let mut variables = vec![
            (FOLDER_VARIABLE.to_owned(), folder.into()),
            (SETTINGS_VARIABLE.to_owned(), self.settings.clone().into()),
        ];
        variables.extend(self.variables.iter().cloned());
        let mut preload = self.place.library()?.map(|library| before(library, PRELOAD));
        if has_software_gpus(self.words, self.driver)? {
            for (name, value) in gpu::variables(&self.place, &self.place.cluster(None)?, 0)? {
                if name == PRELOAD { preload = Some(value) } else { variables.push((name, value)) }
            }
        }
        let recorder = standin::installed(RECORDER)?;
        let preload = match preload {
            Some(others) => in_front(recorder, Some(others)),
            None => before(recorder, PRELOAD),
        };
        variables.push((PRELOAD.to_owned(), preload));
        let mut command = program(self.words, &variables)?;
        if self.is_one_of_several {
            command.stdin(Stdio::null()).stdout(Stdio::from(std::io::stderr().as_fd().try_clone_to_owned()?));
        }
        descendants::adopt().context("the processes of the program could not be found again")?;
        // Before the program can be seen: a signal that ended this process alone would leave it running.
        signals::outlive_program();
        let child = command.spawn().with_context(|| cannot_start(word))?;
        signals::pass_on_to(&[child.id()]);
        // It leads no process group: what a terminal sends to this process's group reaches it too.
        let mut child = ChildGuard::of(child);
        let ended = child.ends_within(self.limit.unwrap_or(FOREVER));
        if !ended {
            tell_to_end(&child);
        }
        signals::pass_on_no_more(child.id());
        let status = child.end().context("cannot wait for the program")?;
        self.end_the_rest()?;
        Ok(Ended { code: Exit::of_program(status).code(), limit: self.limit.filter(|_| !ended) })
    }

    /// Waits for what the program has left behind: its calls are judged, too.
    fn end_the_rest(&self) -> anyhow::Result<()> {
        let left = descendants::end_within(AFTER);
        if left > 0 && self.is_one_of_several {
            descendants::kill_all();
            writeln!(terminal::err(), "collspec: {left} processes that the program had left behind were ended")?;
        } else if left > 0 {
            let later = "still run; their later calls are not judged";
            writeln!(terminal::err(), "collspec: {left} processes that the program has left behind {later}")?;
        }
        Ok(())
    }
}

/// True if the program gets software GPUs: as other commands choose a driver. This program itself chooses when it runs.
///
/// # Errors
///
/// The driver that was asked for does not exist.
pub fn has_software_gpus(words: &[OsString], driver: Option<&str>) -> anyhow::Result<bool> {
    let own = std::env::current_exe().and_then(|own| own.canonicalize()).ok();
    let program = words.first().and_then(|word| startable(word).ok()?.canonicalize().ok());
    if driver.is_none() && own.is_some() && program == own {
        return Ok(false);
    }
    let driver = driver_request(driver).resolve(false).map_err(anyhow::Error::msg)?;
    Ok(driver == Driver::Software)
}

/// Asks a program to end, so that it ends what it has started, and then kills what is left.
fn tell_to_end(child: &ChildGuard) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let asked = pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok());
    if asked {
        child.ends_within(GRACE);
    }
    descendants::kill_all();
}

/// The files that the recorder has written to a folder.
///
/// # Errors
///
/// The folder cannot be read.
pub fn files_of(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read the folder {}", folder.display()))?;
    let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<PathBuf> = files.filter(|file| file.extension() == Some(OsStr::new("log"))).collect();
    files.sort();
    Ok(files)
}
