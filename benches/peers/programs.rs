//! The programs that time other libraries: built from the sources in this folder, and run for one sample.
use super::Work;
use super::measure::median;
use collspec_cli::bench::{Operation, OverRanks};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// Another library.
pub trait Peer {
    /// Whether it has the operation as one call.
    fn has(&self, operation: Operation) -> bool;

    /// Runs a new process group for its times; the error says what failed, wrong results among it.
    fn sample(&self, work: &Work) -> Result<f64, String>;
}

/// Open MPI.
pub struct OpenMpi {
    folder: TempDir,
}

/// gloo, over TCP.
pub struct Gloo {
    folder: TempDir,
}

impl OpenMpi {
    /// Builds its program; the error says why it cannot be measured.
    pub fn build() -> Result<Self, String> {
        let version = Command::new("mpirun").arg("--version").output().map_err(|error| format!("mpirun: {error}"))?;
        if !String::from_utf8_lossy(&version.stdout).contains("Open MPI") {
            return Err("mpirun is that of another MPI".to_owned());
        }
        let folder = new_folder()?;
        compile("mpicc", "openmpi.c", &folder, &[])?;
        Ok(Self { folder })
    }
}

impl Peer for OpenMpi {
    fn has(&self, _: Operation) -> bool {
        true
    }

    fn sample(&self, work: &Work) -> Result<f64, String> {
        let mut command = Command::new("mpirun");
        if rustix::process::geteuid().is_root() {
            command.arg("--allow-run-as-root");
        }
        command.args(["--oversubscribe", "-n", &work.ranks.to_string()]);
        command.arg(program(&self.folder)).args(arguments(work));
        let output = command.stdin(Stdio::null()).output().map_err(|error| format!("mpirun: {error}"))?;
        times(&[output], work.ranks)
    }
}

impl Gloo {
    /// Builds its program; the error says why it cannot be measured.
    pub fn build() -> Result<Self, String> {
        let folder = new_folder()?;
        compile("c++", "gloo.cc", &folder, &["-std=c++17", "-lgloo", "-pthread"])?;
        Ok(Self { folder })
    }
}

impl Peer for Gloo {
    fn has(&self, operation: Operation) -> bool {
        operation != Operation::ReduceScatter
    }

    fn sample(&self, work: &Work) -> Result<f64, String> {
        // The ranks find each other by files in a folder that no other group has used.
        let meeting = tempfile::tempdir_in(&self.folder).map_err(|error| error.to_string())?;
        let spawn = |rank: usize| {
            let mut command = Command::new(program(&self.folder));
            command.args(arguments(work)).args([rank.to_string(), work.ranks.to_string()]).arg(meeting.path());
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
        };
        let ranks: Vec<Child> =
            (0..work.ranks).map(spawn).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        // A rank whose pipe is full waits, and the others wait for it: their output is small, and so it never is.
        let outputs: Vec<Output> = ranks
            .into_iter()
            .map(Child::wait_with_output)
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?;
        times(&outputs, work.ranks)
    }
}

fn new_folder() -> Result<TempDir, String> {
    tempfile::tempdir().map_err(|error| format!("no folder for its program: {error}"))
}

fn program(folder: &TempDir) -> PathBuf {
    folder.path().join("program")
}

fn arguments(work: &Work) -> [String; 4] {
    let (warm_up, iterations) = work.iterations();
    let elements = work.bytes / size_of::<f32>() as u64;
    [work.operation.name().to_owned(), elements.to_string(), warm_up.to_string(), iterations.to_string()]
}

/// Builds one of the sources beside this file.
fn compile(compiler: &str, source: &str, folder: &TempDir, flags: &[&str]) -> Result<(), String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers").join(source);
    let output = Command::new(compiler).arg("-O2").arg("-o").arg(program(folder)).arg(source).args(flags).output();
    let output = output.map_err(|error| format!("{compiler}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let reason = text.lines().find(|line| line.contains("error")).or(text.lines().last()).unwrap_or_default();
    Err(format!("{compiler} says: {}", reason.trim()))
}

/// The median of the iterations that the programs have printed, a line for each rank.
fn times(outputs: &[Output], ranks: usize) -> Result<f64, String> {
    if let Some(failed) = outputs.iter().find(|output| !output.status.success()) {
        let text = String::from_utf8_lossy(&failed.stderr).into_owned();
        return Err(format!("{}: {}", failed.status, text.lines().find(|line| !line.is_empty()).unwrap_or_default()));
    }
    let mut by_rank = Vec::new();
    for line in outputs
        .iter()
        .flat_map(|output| String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect::<Vec<_>>())
    {
        let mut words = line.split_whitespace();
        let wrong = words.next().and_then(|word| word.parse::<u64>().ok());
        let times: Vec<f64> = words.flat_map(str::parse).collect();
        match wrong {
            Some(0) => by_rank.push(times),
            Some(wrong) => return Err(format!("{wrong} elements are wrong on one rank")),
            None => return Err(format!("it printed `{line}`")),
        }
    }
    let iterations = OverRanks::Mean.iterations(&by_rank);
    if by_rank.len() == ranks && !iterations.is_empty() {
        Ok(median(iterations))
    } else {
        Err("not every rank printed its times".to_owned())
    }
}
