//! What can be typed; the comments here are the help text.
use crate::audit::peers::Peer;
use crate::audit::{Selection as Faults, UnknownId};
use crate::child::Workers;
use crate::library::{CudaRelease, is_version};
use crate::plan::Limits;
use crate::report::ReportFormat;
use crate::run::{RanksPerGpu, seconds};
use crate::scenario::{AllowEnv, Placement};
use crate::suite::{BackendChoice, BackendRequest, CaseSet, Filter, Forms, Reading, RunOptions};
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use soft_nccl::Connect;
use soft_nccl::fault::{FaultMode as Fault, NoFault};
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Collective-communication tests written as TOML files, judged rank by rank.
///
/// Exit codes: 0 all passed; 1 some failed; 2 the files or the command line are wrong; 3 a required backend is missing.
#[derive(Debug, Parser)]
#[command(name = "collspec", version)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Run(RunArgs),
    Check(CheckArgs),
    Audit(AuditArgs),
    /// List this machine's NCCL libraries, or fetch another.
    #[command(subcommand)]
    Nccl(NcclCommand),
    Doctor(DoctorArgs),
}

#[derive(Debug, Subcommand)]
pub enum NcclCommand {
    /// List the NCCL libraries of this machine: version, file, where it was found, and what it lacks.
    ///
    /// Looks into LD_LIBRARY_PATH, the loader's cache, Python's packages (python3's and VIRTUAL_ENV's), CONDA_PREFIX, the
    /// system's CUDA folders, and what was fetched. Each library is opened in a separate process.
    List,
    Fetch(NcclFetchArgs),
}

/// Fetch an NCCL library from its Python wheel and print the file's path.
///
/// The wheel comes through pip, or uv where there is no pip, with the registry and proxy that they are set up for. The
/// library is extracted, if its hash is right, into $XDG_CACHE_HOME/collspec/nccl (or ~/.cache/collspec/nccl); no code of
/// the wheel runs. A library that was fetched before is not fetched again.
#[derive(Debug, ClapArgs)]
pub struct NcclFetchArgs {
    /// The version, for example 2.30.7.
    #[arg(value_name = "VERSION", value_parser = version)]
    pub version: String,

    /// The CUDA release that it was built for: 11, 12 or 13.
    #[arg(long, value_name = "N", default_value = "12")]
    pub cuda: CudaRelease,
}

/// The cases to run.
#[derive(Debug, ClapArgs)]
pub struct SelectionArgs {
    /// Scenario files, or folders that hold them.
    ///
    /// The name of a case is its file's path below the given folder, without `.toml`; for a file that is given by itself, the
    /// file's name alone. Points of a matrix have `[axis=value,...]` after that.
    #[arg(value_name = "PATH", default_value = "scenarios")]
    pub paths: Vec<PathBuf>,

    /// Only cases whose name contains TEXT, or which have TEXT as a tag. Cases with the tag `long` run only if TEXT selects
    /// them.
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,

    /// The filter is the whole name of one case.
    #[arg(long, requires = "filter")]
    pub exact: bool,

    /// Forms in which the cases are run too, as far as they can take them, instead of those that the files name: all,
    /// none, or a list of in_place, misaligned, grouped, sub, one_thread, processes, ring, tree, single_tree, eager.
    ///
    /// The name of a case in a form has `form=NAME` last in its brackets.
    #[arg(long, value_name = "LIST", value_parser = Forms::parse)]
    pub forms: Option<Forms>,

    /// Let files set this NCCL_* variable too. May be given several times.
    ///
    /// Some of NCCL's variables load libraries, write files or connect to other hosts. Files can set only those that choose
    /// algorithms, protocols, channels, sizes, thresholds, transports, checks and the debug level.
    #[arg(long, value_name = "NAME", value_parser = AllowEnv::parse_name)]
    pub allow_env: Vec<String>,

    #[command(flatten)]
    pub bounds: LimitArgs,
}

/// Limits on what a file and a case may cost. The cost is computed before a case begins.
#[derive(Debug, ClapArgs)]
pub struct LimitArgs {
    /// Memory that a case may take in all copies, in worker, shared memory and judge, and that cases which run at the same
    /// time may take together: a number of bytes, for example 512MiB or 16GiB. A case that needs more is refused; one that needs more
    /// than this machine has free is skipped [default: 16GiB].
    #[arg(long, value_name = "BYTES", value_parser = Limits::bytes)]
    pub max_memory: Option<u64>,

    /// Operations that filling, working out and judging a case may take: one per element and operator of every expression, and
    /// equivalents for other work; a thousand million take about ten seconds [default: 4000000000].
    #[arg(long, value_name = "N", value_parser = Limits::operations)]
    pub max_work: Option<u64>,

    /// The same operations of all selected cases of a file together [default: 20000000000].
    #[arg(long, value_name = "N", value_parser = Limits::operations)]
    pub max_file_work: Option<u64>,

    /// Bytes of a scenario file [default: 1MiB].
    #[arg(long, value_name = "BYTES", value_parser = Limits::bytes)]
    pub max_file: Option<u64>,
}

impl LimitArgs {
    fn limits(&self) -> Limits {
        let usual = Limits::default();
        Limits {
            memory: self.max_memory.unwrap_or(usual.memory),
            work: self.max_work.unwrap_or(usual.work),
            file_work: self.max_file_work.unwrap_or(usual.file_work),
            file: self.max_file.unwrap_or(usual.file),
            ..usual
        }
    }
}

impl SelectionArgs {
    pub fn filter(&self) -> Filter {
        Filter { text: self.filter.clone(), exact: self.exact, long: false }
    }

    /// How the files are read.
    pub fn reading(&self) -> Reading {
        Reading {
            forms: self.forms.clone().unwrap_or_default(),
            allow_env: AllowEnv::from_names(&self.allow_env),
            limits: self.bounds.limits(),
        }
    }

    /// The files' cases in the forms that are wanted.
    ///
    /// # Errors
    ///
    /// A path that cannot be read or is no scenario file.
    pub fn open(&self) -> Result<CaseSet, crate::suite::Error> {
        CaseSet::open_with(&self.paths, &self.reading())
    }
}

/// Run scenarios and judge every rank's results.
///
/// If any file has an error, or a selected case cannot be run as it is written, all diagnostics are shown and nothing runs.
#[derive(Debug, ClapArgs)]
pub struct RunArgs {
    #[command(flatten)]
    pub selection: SelectionArgs,

    /// What runs the cases: `nccl` is a real library on GPUs, `soft` is NCCL's interface in software; `auto` is nccl if a
    /// driver, devices and a library are there, else soft.
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = BackendChoice::parse)]
    pub backend: BackendChoice,

    /// Fail with exit code 3 if this backend is missing, instead of using another.
    #[arg(long, value_name = "NAME", value_parser = BackendChoice::parse)]
    pub require: Option<BackendChoice>,

    #[command(flatten)]
    pub place: LibraryArgs,

    /// How many ranks may share a GPU where a case has more ranks than there are GPUs: a number, or auto for as many as
    /// the case needs. Such ranks get a process each. Without it such cases are skipped.
    #[arg(long, value_name = "N", default_value = "1", value_parser = RanksPerGpu::parse)]
    pub ranks_per_gpu: RanksPerGpu,

    /// Cases that run at the same time [default: the number of cores; on nccl 1].
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,

    /// Time limit in seconds for cases that name none.
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub timeout: Option<f64>,

    /// Time limit for what comes before and after a case, in seconds: making communicators and filling buffers, and
    /// destroying communicators [default: 60].
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub opening_timeout: Option<f64>,

    /// Shuffle the order in which the software library's tasks run; the same number gives the same order.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Messages of up to this many bytes are sent without waiting for their receive (soft backend) [default: 0].
    #[arg(long, value_name = "BYTES")]
    pub eager: Option<u64>,

    /// When ranks of the software library connect: `init` (the default), as they make a communicator, or `lazy`, in the
    /// first call that needs it, on the host, which waits there for the other ranks' first call, as NCCL's does.
    #[arg(long, value_name = "WHEN")]
    pub connect: Option<Connect>,

    /// Give the software library this deliberate bug, to see which scenarios notice it: F01 and so on (`collspec audit` lists
    /// them); with `,rank=N` on one rank only, with `,algorithm=NAME` in one algorithm only.
    #[arg(long, value_name = "FAULT", value_parser = fault)]
    pub fault: Option<Fault>,

    /// Placement of the ranks for files that name none: threads, processes or one_thread. Cases that cannot run in this
    /// placement run in the default one.
    #[arg(long, value_name = "NAME", value_parser = Placement::parse)]
    pub placement: Option<Placement>,

    /// Format of the report: text, or one JSON object per case.
    #[arg(long, value_enum, default_value_t = ReportFormat::Human)]
    pub format: ReportFormat,

    /// Write the report to this file instead of the standard output; not over a scenario file of the run.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Name every case, not only those that fail, and say of each pass what was checked (human format).
    #[arg(long, short)]
    pub verbose: bool,

    /// Show of every case what each rank's buffers held before and after, long ones abbreviated (human format).
    #[arg(long)]
    pub show: bool,
}

impl RunArgs {
    /// What was typed, and the default of everything else.
    pub fn options(&self) -> RunOptions {
        RunOptions {
            backend: BackendRequest {
                backend: self.backend,
                require: self.require,
                nccl: self.place.nccl.clone(),
                driver: self.place.driver.clone(),
            },
            ranks_per_gpu: self.ranks_per_gpu,
            jobs: self.jobs,
            timeout: self.timeout,
            opening_timeout: self.opening_timeout,
            seed: self.seed,
            eager: self.eager,
            connect: self.connect,
            fault: self.fault.unwrap_or_default(),
            placement: self.placement,
            reading: self.selection.reading(),
            show_buffers: self.show,
            workers: Workers::CurrentExe,
        }
    }
}

/// Where the backend nccl comes from.
#[derive(Debug, ClapArgs)]
pub struct LibraryArgs {
    /// The NCCL library: a file, or a version such as 2.30.7 among those that `collspec nccl list` shows. Means
    /// `--backend nccl` where that is auto.
    #[arg(long, value_name = "PATH|VERSION")]
    pub nccl: Option<String>,

    /// A folder whose libcuda.so.1 (and libcuda.so) is the CUDA driver, instead of the machine's. The value `stand-in`
    /// means the driver that was built with this program, and with --nccl the library.
    #[arg(long, value_name = "DIR")]
    pub driver: Option<PathBuf>,
}

/// Report what this machine can run: driver, GPUs, NCCL libraries, what each lacks, what is skipped, and what to do.
#[derive(Debug, ClapArgs)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub place: LibraryArgs,
}

/// Read, check and analyse scenarios; run nothing.
///
/// Shows every error of every file, and for each file whether its programs can block.
#[derive(Debug, ClapArgs)]
pub struct CheckArgs {
    #[command(flatten)]
    pub selection: SelectionArgs,
}

/// Measure which deliberate bugs of the library and flaws of the judge the scenarios catch.
///
/// Every case first runs without a fault and must pass. Then each runs with every fault of the software library that
/// affects it, and what it caught is judged again by judges that check less. Exit code 1 if a fault or flaw goes unnoticed.
#[derive(Debug, ClapArgs)]
pub struct AuditArgs {
    #[command(flatten)]
    pub selection: SelectionArgs,

    /// Only these, separated by commas: F01 and so on are the library's, J01 to J10 the judge's; some are followed by a letter.
    #[arg(long, value_name = "FAULTS", value_parser = faults)]
    pub fault: Option<Faults>,

    /// The checker: collspec (the default), or a public suite's way to run and judge the same operations: nccl-tests,
    /// rccl, ucc. May be given several times; then one table compares them.
    #[arg(long = "as", value_name = "NAME", value_parser = checker_name)]
    pub checkers: Vec<CheckerName>,

    /// Run every case with every fault that affects it. Without this, no more cases of a file run with a fault that two of its
    /// cases have caught, so counts of cases are lower bounds.
    #[arg(long, conflicts_with = "quick")]
    pub every_case: bool,

    /// Run no more cases with a fault after 20 cases of any files have caught it.
    #[arg(long)]
    pub quick: bool,

    /// Report for every scenario file what it catches, what it alone catches, and whether it is redundant.
    #[arg(long)]
    pub scenarios: bool,

    /// Runs at the same time [default: the number of cores].
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,

    /// Time limit of a run without a fault, in seconds, for cases that name none.
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub timeout: Option<f64>,

    /// Format of the report: text, or JSON objects, one per line: faults, scenarios, lanes, folders, a summary.
    #[arg(long, value_enum, default_value_t = AuditFormat::Human)]
    pub format: AuditFormat,

    /// Write the report to this file instead of the standard output; not over a scenario file of the run.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AuditFormat {
    /// A table of what was noticed, and what would notice the rest.
    Human,
    /// JSON objects, one per line.
    Jsonl,
}

/// A checker, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckerName {
    /// This program's own.
    Collspec,
    /// A public suite's.
    Peer(Peer),
}

fn checker_name(text: &str) -> Result<CheckerName, String> {
    if text == "collspec" {
        return Ok(CheckerName::Collspec);
    }
    let known: Vec<&str> = Peer::ALL.into_iter().map(Peer::name).collect();
    let unknown = || format!("the checkers are collspec, {}", known.join(", "));
    Peer::parse(text).map(CheckerName::Peer).ok_or_else(unknown)
}

fn fault(text: &str) -> Result<Fault, NoFault> {
    text.parse()
}

fn faults(text: &str) -> Result<Faults, UnknownId> {
    text.parse()
}

fn version(text: &str) -> Result<String, String> {
    if is_version(text) { Ok(text.to_owned()) } else { Err("expected a version like 2.30.7".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_hold_together() {
        Args::command().debug_assert();
    }

    #[test]
    fn the_readme_names_every_option_of_run() {
        let readme = include_str!("../../README.md");
        let command = Args::command();
        let run = command.get_subcommands().find(|sub| sub.get_name() == "run").unwrap();
        for option in run.get_arguments().filter_map(|arg| arg.get_long()).filter(|name| *name != "help") {
            assert!(readme.contains(&format!("`--{option}")), "--{option} is not in README.md");
        }
    }

    #[test]
    fn the_help_names_every_form() {
        let mut run = Args::command();
        let help = run.find_subcommand_mut("run").unwrap().render_long_help().to_string();
        for form in crate::scenario::forms::names() {
            assert!(help.contains(form), "{form}");
        }
    }

    #[test]
    fn a_timeout_is_a_positive_number() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        for bad in ["0", "-1", "inf", "nan", "soon", ""] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
