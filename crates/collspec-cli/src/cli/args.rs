//! The command-line arguments; the comments on them are the help text.
use super::backend_args::BackendArgs;
use super::bench_args::BenchArgs;
use super::coverage_args::CoverageArgs;
pub(super) use super::headings::{BACKEND, LIMITS, MACHINES, MANNER, REPORT, SOFTWARE};
use super::headings::{CASES, FAULTS, REQUIRED};
use super::mutants_args::MutantsArgs;
use super::quick_args::QuickArgs;
use super::report_args::ReportArgs;
use super::settings_args::SettingsArgs;
use crate::audit::{AtLeast, Selection as Faults, UnknownId};
use crate::corpus;
use crate::fetch::is_version;
use crate::formats::ReportFormat;
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use collspec_core::judge::{Details, ShowBuffers};
use collspec_core::plan::Limits;
use collspec_core::scenario::AllowEnv;
use collspec_run::child::Workers;
use collspec_run::launch::ChosenLauncher;
use collspec_run::library::CudaRelease;
use collspec_run::run::seconds;
use collspec_suite::suite::options::usual_memory;
use collspec_suite::suite::{CaseSet, Filter, Forms, Reading, RunOptions, Shard};
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Collective-communication tests written as TOML files, judged rank by rank.
///
/// `collspec PATH...` is short for `collspec run PATH...`.
///
/// Exit codes: 0 all passed; 1 some failed; 2 the files or the command line are wrong; 3 a backend or cases that were required are missing;
/// 4 (compare) no verdict.
#[derive(Debug, Parser)]
#[command(name = "collspec", version, max_term_width = 120)]
#[command(override_usage = "collspec PATH...\n       collspec COMMAND ...")]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Run(RunArgs),
    Check(CheckArgs),
    New(super::new::NewArgs),
    Explain(Box<super::explain_args::ExplainArgs>),
    Compare(Box<super::compare_args::CompareArgs>),
    Gate(super::gate::GateArgs),
    Audit(AuditArgs),
    Select(Box<super::select_args::SelectArgs>),
    Bench(Box<BenchArgs>),
    Import(super::import_args::ImportArgs),
    Hang(super::hang_args::HangArgs),
    Minimize(Box<super::minimize_args::MinimizeArgs>),
    Explore(Box<super::explore_args::ExploreArgs>),
    Faults(Box<super::faults_args::FaultsArgs>),
    Soak(Box<super::soak_args::SoakArgs>),
    Tuning(Box<super::tuning_args::TuningArgs>),
    /// List this machine's NCCL libraries, or fetch one.
    #[command(subcommand)]
    Nccl(NcclCommand),
    /// List, show and check the machines that software GPUs can be.
    #[command(subcommand)]
    Machine(super::machine::MachineCommand),
    Doctor(DoctorArgs),
    Judge(super::judge_args::JudgeArgs),
    Record(super::record::RecordArgs),
    Gpu(super::gpu::GpuArgs),
    Schema(super::schema::SchemaArgs),
    Completions(super::manual::CompletionsArgs),
    Man(super::manual::ManArgs),
}

#[derive(Debug, Subcommand)]
pub enum NcclCommand {
    /// List the NCCL libraries on this machine: version, file, where it was found, and which functions it lacks.
    ///
    /// Looks in LD_LIBRARY_PATH, the loader's cache, Python packages (of python3 and VIRTUAL_ENV), CONDA_PREFIX, the
    /// system's CUDA folders, and the libraries that were fetched. Each library is opened in a separate process.
    List,
    Fetch(NcclFetchArgs),
}

/// Fetch an NCCL library from its Python wheel and print the file's path.
///
/// The wheel is downloaded by pip, or by uv where pip is missing, with the package index and proxy that they are configured to use. If its hash is right, the library is extracted into $XDG_CACHE_HOME/collspec/nccl (or
/// ~/.cache/collspec/nccl). None of the wheel's code is run. A library that was fetched before is not fetched again.
#[derive(Debug, ClapArgs)]
pub struct NcclFetchArgs {
    /// The version, for example 2.30.7.
    #[arg(value_name = "VERSION", value_parser = version)]
    pub version: String,

    /// The CUDA release it was built for: 11, 12 or 13.
    #[arg(long, value_name = "N", default_value = "12")]
    pub cuda: CudaRelease,

    /// Leave out the machine code for GPUs, about four fifths of the file. What remains runs on software GPUs only. It is stored
    /// next to the full library of that version, which is preferred if both are there.
    #[arg(long)]
    pub slim: bool,
}

/// The folder of scenarios if no path is given.
pub const DEFAULT_FOLDER: &str = "scenarios";

/// The options of the selection, which a program in place of cases excludes. The group of [`SelectionArgs`] has none of them because others
/// are flattened into it.
pub const OF_SELECTION: [&str; 8] =
    ["paths", "corpus", "filter", "exact", "forms", "allow_env", "LimitArgs", "QuickArgs"];

/// The cases to run.
#[derive(Clone, Debug, ClapArgs)]
pub struct SelectionArgs {
    /// Scenario files, or folders of them.
    ///
    /// A case is named after its file: the path below the given folder, without `.toml`, or just the file's name if the file
    /// itself was given. If files from different paths would have the same name, their folders are put in front of it.
    /// Cases of a matrix have `[axis=value,...]` after the name. [default: scenarios]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    /// Take collspec's own scenarios, which the program brings along, or a part of them: a folder such as `regressions`, or a file.
    #[arg(long, value_name = "PART", num_args = 0..=1, default_missing_value = "", value_parser = corpus::part,
          conflicts_with = "paths", help_heading = CASES)]
    pub corpus: Option<PathBuf>,

    /// Select cases whose name contains TEXT or that have the tag TEXT; with `not TEXT`, all others. Can be given several
    /// times.
    ///
    /// A case runs if any TEXT selects it and no `not TEXT` excludes it. Cases with the tag `long` run only if a TEXT
    /// selects them.
    #[arg(long, short = 'k', value_name = "TEXT", help_heading = CASES)]
    pub filter: Vec<String>,

    /// Take the filter as the full name of one case. A leading `not` is then part of the name.
    #[arg(long, requires = "filter", help_heading = CASES, hide_short_help = true)]
    pub exact: bool,

    /// Run every case in these forms as well, where it can take them; replaces the forms that files name: all, none,
    /// or a list of in_place, misaligned, grouped, captured, sub, one_thread, processes, ring, tree, single_tree, eager.
    ///
    /// In a form, a case has `form=NAME` at the end of the brackets in its name.
    #[arg(long, value_name = "LIST", value_parser = Forms::parse, help_heading = CASES, hide_short_help = true)]
    pub forms: Option<Forms>,

    /// Let files set this NCCL_* variable as well. Can be given several times.
    ///
    /// Some of NCCL's variables load libraries, write files or connect to other hosts. By default files can set only those that
    /// choose algorithms, protocols, channels, sizes, thresholds, transports, checks and the debug level.
    #[arg(long, value_name = "NAME", value_parser = AllowEnv::parse_name, help_heading = LIMITS, hide_short_help = true)]
    pub allow_env: Vec<String>,

    #[command(flatten)]
    pub bounds: LimitArgs,
}

/// Limits on what a file and a case may cost. The cost is computed before a case begins.
#[derive(Clone, Debug, ClapArgs)]
pub struct LimitArgs {
    /// How much memory a case may use in all its copies, and all cases that run at the same time together, for example
    /// 512MiB [default: what this machine has free].
    ///
    /// This includes worker, shared memory and judge. A case that needs more is refused; one that needs more than this
    /// machine has free is skipped. Without this option, no case of up to 16GiB is refused.
    #[arg(long, visible_alias = "memory", value_name = "BYTES", value_parser = Limits::bytes, help_heading = LIMITS, hide_short_help = true)]
    pub max_memory: Option<u64>,

    /// How many operations it may take to fill, compute and judge a case: one for each element and operator of every
    /// expression, and the equivalent for other work. A billion take about ten seconds [default: 4000000000].
    #[arg(long, value_name = "N", value_parser = Limits::operations, help_heading = LIMITS, hide_short_help = true)]
    pub max_work: Option<u64>,

    /// The same for all selected cases of a file together [default: 20000000000].
    #[arg(long, value_name = "N", value_parser = Limits::operations, help_heading = LIMITS, hide_short_help = true)]
    pub max_file_work: Option<u64>,

    /// The largest allowed scenario file [default: 1MiB].
    #[arg(long, value_name = "BYTES", value_parser = Limits::bytes, help_heading = LIMITS, hide_short_help = true)]
    pub max_file: Option<u64>,
}

impl LimitArgs {
    /// The limits given, with defaults for the others.
    pub fn limits(&self) -> Limits {
        let usual = Limits::default();
        Limits {
            memory: self.max_memory.unwrap_or_else(usual_memory),
            work: self.max_work.unwrap_or(usual.work),
            file_work: self.max_file_work.unwrap_or(usual.file_work),
            file: self.max_file.unwrap_or(usual.file),
            ..usual
        }
    }
}

impl SelectionArgs {
    /// The files and folders in which cases are looked for.
    pub fn searched(&self) -> Vec<PathBuf> {
        match &self.corpus {
            Some(part) => vec![part.clone()],
            None if self.paths.is_empty() => vec![PathBuf::from(DEFAULT_FOLDER)],
            None => self.paths.clone(),
        }
    }

    /// True if no option selects cases.
    pub fn is_default(&self) -> bool {
        let whole = self.corpus.as_ref().is_none_or(|part| part.ends_with(DEFAULT_FOLDER));
        self.paths.is_empty() && whole && self.filter.is_empty() && self.forms.is_none()
    }

    pub fn filter(&self) -> Filter {
        if self.exact { Filter::named(&self.filter) } else { Filter::parse(&self.filter) }
    }

    /// The options for reading files.
    pub fn reading(&self) -> Reading {
        Reading {
            forms: self.forms.clone().unwrap_or_default(),
            allow_env: AllowEnv::from_names(&self.allow_env),
            limits: self.bounds.limits(),
        }
    }

    /// The files' cases in the wanted forms.
    ///
    /// # Errors
    ///
    /// A path cannot be read or is not a scenario file.
    pub fn open(&self) -> Result<CaseSet, collspec_suite::suite::Error> {
        CaseSet::open_with(&self.searched(), &self.reading())
    }
}

/// Run scenarios and judge every rank's results.
///
/// If any file has an error, or a selected case cannot run as written, all errors are shown and nothing runs.
#[derive(Debug, ClapArgs)]
pub struct RunArgs {
    #[command(flatten)]
    pub selection: SelectionArgs,

    #[command(flatten)]
    pub backend: BackendArgs,

    #[command(flatten)]
    pub quick: QuickArgs,

    /// How many cases run at the same time [default: one per core, two per core on software GPUs (divided by the nodes), 1 on GPUs; except on GPUs, one more that mostly waits].
    #[arg(long, short, value_name = "N", value_parser = at_least_one, help_heading = MANNER)]
    pub jobs: Option<NonZeroUsize>,

    /// Stop starting cases after one has failed.
    #[arg(long, help_heading = MANNER)]
    pub fail_fast: bool,

    /// If some files have errors, run the cases of the others. The exit code is still 2.
    #[arg(long, help_heading = MANNER)]
    pub keep_going: bool,

    /// Run only cases that failed the last time they ran from this working folder.
    ///
    /// Their names are kept in $XDG_CACHE_HOME/collspec/failed (or ~/.cache/collspec/failed), one file per working folder.
    #[arg(long, help_heading = CASES)]
    pub failed: bool,

    /// Run only the I-th of N shares of the cases. The shares are about equal, and each case is in exactly one.
    #[arg(long, value_name = "I/N", value_parser = Shard::parse, help_heading = CASES)]
    pub shard: Option<Shard>,

    /// Print the names of the cases that would run, one per line, and run nothing.
    #[arg(long, conflicts_with_all = ["output", "verbose", "durations"], help_heading = CASES)]
    pub list: bool,

    #[command(flatten)]
    pub coverage: CoverageArgs,

    #[command(flatten)]
    pub settings: SettingsArgs,

    #[command(flatten)]
    pub launch: LaunchArgs,

    #[command(flatten)]
    pub report: ReportArgs,

    /// Also record the run in this file: verdicts, hashes of every rank's results, how they were summed, and the library and
    /// machine. `collspec compare` accepts the file in place of a library.
    #[arg(long, value_name = "FILE", conflicts_with = "list", help_heading = REPORT)]
    pub record: Option<PathBuf>,

    /// With --record: do not measure what the library costs a process (the time of its first calls, memory, and what it changes
    /// and leaves behind in the process). The measurement takes five processes before the cases run.
    #[arg(long, requires = "record", help_heading = REPORT, hide_short_help = true)]
    pub no_footprint: bool,

    /// Name every case, not only those that fail, and say what was checked in each pass (human format).
    #[arg(long, short, help_heading = REPORT)]
    pub verbose: bool,

    /// Show the contents of each rank's buffers before and after every case, abbreviated if long (human format).
    #[arg(long, help_heading = REPORT)]
    pub show: bool,

    /// Name the N slowest cases with their times (human format; the formats for programs have the times of all cases).
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, help_heading = REPORT)]
    pub durations: usize,
}

impl RunArgs {
    /// The options given, with defaults for everything else.
    pub fn options(&self) -> RunOptions {
        self.settings.apply(RunOptions {
            backend: self.backend.request(),
            jobs: self.jobs,
            ranks_per_process: self.launch.ranks_per_process,
            fail_fast: self.fail_fast,
            at_least: self.coverage.at_least(),
            reading: self.selection.reading(),
            show_buffers: self.show_buffers(),
            keep_results: self.record.is_some(),
            details: self.details(),
            workers: Workers::CurrentExe,
            ..RunOptions::default()
        })
    }
}

impl RunArgs {
    /// The details that the reports show.
    fn details(&self) -> Details {
        if self.report.has(ReportFormat::Jsonl) || self.record.is_some() {
            Details::OrderMaps
        } else if self.verbose || self.show {
            Details::Fingerprint
        } else {
            Details::None
        }
    }

    /// Whose buffers are shown: of all cases if that was asked for, else of the failures that get a page.
    fn show_buffers(&self) -> ShowBuffers {
        match (self.show, self.report.has(ReportFormat::Html)) {
            (true, _) => ShowBuffers::Always,
            (false, true) => ShowBuffers::OfFailures,
            (false, false) => ShowBuffers::Never,
        }
    }
}

/// Runs that a launcher such as mpirun, srun or torchrun starts as several processes.
#[derive(Debug, ClapArgs)]
pub struct LaunchArgs {
    /// What started this process together with others: openmpi, slurm, torchrun, hydra, pals, or `variables` for
    /// COLLSPEC_RANK and COLLSPEC_SIZE; none if the process is alone. The default, auto, looks at the environment.
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = ChosenLauncher::parse, help_heading = MACHINES, hide_short_help = true)]
    pub launcher: ChosenLauncher,

    /// Seconds within which all processes that the launcher started must have connected [default: 120].
    #[arg(long, value_name = "S", value_parser = seconds, help_heading = MACHINES, hide_short_help = true)]
    pub meeting_timeout: Option<f64>,

    /// How many ranks of a case run in each process that the launcher started [default: 1].
    #[arg(long, value_name = "N", value_parser = at_least_one, help_heading = MACHINES, hide_short_help = true)]
    pub ranks_per_process: Option<NonZeroUsize>,
}

/// Commands that run in one process.
#[derive(Debug, ClapArgs)]
pub struct AloneArgs {
    /// What started this process together with others, as for `collspec run`. This command runs in a single process and refuses
    /// to be one of several; none says that the process is alone.
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = ChosenLauncher::parse, help_heading = MACHINES, hide_short_help = true)]
    pub launcher: ChosenLauncher,
}

/// Where the backend nccl comes from.
#[derive(Debug, ClapArgs)]
pub struct LibraryArgs {
    /// The NCCL library: a file, or one of the versions that `collspec nccl list` shows, such as 2.30.7. Implies
    /// `--backend nccl`, unless a backend is named.
    #[arg(long, value_name = "PATH|VERSION", help_heading = BACKEND)]
    pub nccl: Option<String>,

    /// The devices that the library runs on: `cuda` for this machine's GPUs, or `software` for software GPUs, on which the
    /// library runs its own kernels without a GPU. By default, a library that was named or required runs on software GPUs if the
    /// machine has no GPUs. A folder means the libcuda.so.1 (and libcuda.so) in it. `stand-in` is a driver without
    /// GPUs that was built with this program. It cannot run kernels, so use it with `--nccl stand-in`.
    #[arg(long, value_name = "NAME|DIR", help_heading = BACKEND)]
    pub driver: Option<String>,
}

/// Report what this machine can run: driver, GPUs and NCCL libraries, what each lacks, what is skipped, and how to fix it.
#[derive(Debug, ClapArgs)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub place: LibraryArgs,
}

/// Read, check and analyse scenarios without running them.
///
/// Shows every error of every file, whether the programs of each file can block, and the totals in one line.
#[derive(Debug, ClapArgs)]
pub struct CheckArgs {
    #[command(flatten)]
    pub selection: SelectionArgs,

    /// Do not compute the required results, which takes long for large buffers. Errors that only values show, such as an
    /// index outside a buffer that depends on data, are then not found.
    #[arg(long = "static", help_heading = MANNER)]
    pub plan_only: bool,

    /// Format of the report: text, or one JSON object per line (errors, and a summary).
    #[arg(long, value_enum, default_value_t = CheckFormat::Human, help_heading = REPORT)]
    pub format: CheckFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CheckFormat {
    /// A line per file, the errors with their lines, and a summary.
    Human,
    /// JSON objects, one per line.
    Jsonl,
}

/// Measure which deliberate bugs in the library and flaws in the judge the scenarios catch.
///
/// First every case runs without a fault and must pass. Then it runs with each fault of a wrong library in between that affects
/// it, and failing results are judged again by judges that check less. Exit code 1 if a fault or flaw goes unnoticed.
///
/// With --nccl, a real library is audited on software GPUs instead: one instruction of its kernels is changed at a time, of those that
/// the cases execute, and the report says which of these mutants no case notices. Exit code 1 if fewer than --at-least are noticed.
#[derive(Debug, ClapArgs)]
pub struct AuditArgs {
    #[command(flatten)]
    pub selection: SelectionArgs,

    #[command(flatten)]
    pub alone: AloneArgs,

    #[command(flatten)]
    pub library: LibraryArgs,

    #[command(flatten)]
    pub kernels: MutantsArgs,

    /// Try only these, separated by commas: F01 and up are the library's, J01 to J10 the judge's; some end with a letter.
    #[arg(long, value_name = "FAULTS", value_parser = faults, help_heading = FAULTS)]
    pub fault: Option<Faults>,

    /// Print these faults and flaws with a description of each, and run nothing.
    #[arg(long, help_heading = FAULTS)]
    pub list_faults: bool,

    /// Run every case with every fault that affects it. By default, once two cases of a file have caught a fault, its other
    /// cases are not run with it, so counts of cases are lower bounds.
    #[arg(long, conflicts_with = "quick", help_heading = FAULTS)]
    pub every_case: bool,

    /// Stop running cases with a fault once 20 cases, of any files, have caught it.
    #[arg(long, help_heading = FAULTS)]
    pub quick: bool,

    /// Report what each scenario file catches, what it alone catches, and whether it is redundant.
    #[arg(long, help_heading = REPORT)]
    pub scenarios: bool,

    /// Exit code 1 only if something is missed that was not missed in the audit recorded in FILE.
    #[arg(long, value_name = "FILE", help_heading = REQUIRED)]
    pub baseline: Option<PathBuf>,

    /// Record in FILE what is caught and missed, for --baseline. Entries that this audit does not look for stay unchanged.
    /// The exit code is then 0 even if faults are missed, unless --baseline or --at-least is given as well.
    #[arg(long, value_name = "FILE", help_heading = REQUIRED)]
    pub write_baseline: Option<PathBuf>,

    /// Exit code 1 only if fewer than N of the library's faults are caught, or of its mutants noticed: a number, or a percentage
    /// of those that are tried, such as 90%.
    #[arg(long, value_name = "N", help_heading = REQUIRED)]
    pub at_least: Option<AtLeast>,

    /// How many runs happen at the same time [default: one more than the number of cores].
    #[arg(long, short, value_name = "N", value_parser = at_least_one, help_heading = MANNER)]
    pub jobs: Option<NonZeroUsize>,

    /// Time limit in seconds for a run without a fault, for cases whose file sets none.
    #[arg(long, value_name = "S", value_parser = seconds, help_heading = MANNER)]
    pub timeout: Option<f64>,

    /// Format of the report: text, or one JSON object per line (faults, scenarios, lanes, folders, and a summary).
    #[arg(long, value_enum, default_value_t = AuditFormat::Human, help_heading = REPORT)]
    pub format: AuditFormat,

    /// Write the report to this file instead of standard output. It cannot be a scenario file of the run.
    #[arg(long, value_name = "FILE", help_heading = REPORT)]
    pub output: Option<PathBuf>,
}

impl AuditArgs {
    /// True if the kernels of a real library are audited.
    pub fn names_library(&self) -> bool {
        self.library.nccl.is_some() || self.library.driver.is_some()
    }

    /// True if the exit code depends on more than whether everything was caught.
    pub fn has_requirements(&self) -> bool {
        self.baseline.is_some() || self.write_baseline.is_some() || self.at_least.is_some()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AuditFormat {
    /// A table of what was caught, and what would catch the rest.
    Human,
    /// JSON objects, one per line.
    Jsonl,
}

/// A number of things of which there must be one.
pub(super) fn at_least_one(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "expected a number of at least 1".to_owned())
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
    fn the_manual_names_every_option_of_run() {
        let manual = include_str!("../../../../docs/cli.md");
        let command = Args::command();
        let run = command.get_subcommands().find(|sub| sub.get_name() == "run").unwrap();
        for option in run.get_arguments().filter_map(|arg| arg.get_long()).filter(|name| *name != "help") {
            assert!(manual.contains(&format!("`--{option}")), "--{option} is not in docs/cli.md");
        }
    }

    #[test]
    fn the_manual_of_bench_names_the_options_that_only_it_has() {
        let manual = include_str!("../../../../docs/bench.md");
        for option in ["-w", "-n", "-c", "-a", "-b", "-e", "-f", "-g", "-d", "--algo", "--proto", "-J", "--plot"] {
            assert!(manual.contains(option), "{option} is not in docs/bench.md");
        }
    }

    #[test]
    fn the_help_names_every_form() {
        let mut run = Args::command();
        let help = run.find_subcommand_mut("run").unwrap().render_long_help().to_string();
        for form in collspec_core::scenario::forms::names() {
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
