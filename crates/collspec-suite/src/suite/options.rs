//! Options for reading files and running cases: those of `collspec run` and the variables COLLSPEC_*.
//!
//! A new option is an entry of [`NAMED`] and a field of [`RunOptions`], or of its [`Variation`]. If the entry has a help, it is an argument of
//! the commands that run cases in software; other commands list theirs in `crates/collspec-cli/src/cli/*_args.rs`.
use super::{AtLeast, BackendChoice, BackendRequest, ChosenBackend, DriverRequest, Forms, Reading, Requirement};
use collspec_core::judge::{Details, ShowBuffers};
use collspec_core::plan::Limits;
use collspec_core::scenario::{AllowEnv, Placement, size_in_bytes};
use collspec_run::child::Workers;
use collspec_run::job::Variation;
use collspec_run::machines::MachineProfile;
use collspec_run::run::memory::free;
use collspec_run::run::{RanksPerGpu, SoftwareCluster, seconds};
use soft_nccl::Connect;
use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::thread::available_parallelism;
use thiserror::Error;
use wrong_nccl::{FaultMode, NoFault};

/// Options for reading files and running cases.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunOptions {
    /// The backend requested.
    pub backend: BackendRequest,
    /// Limit on the ranks that share a GPU.
    pub ranks_per_gpu: RanksPerGpu,
    /// Number of cases that run at the same time; the runner keeps about as many idle workers.
    pub jobs: Option<NonZeroUsize>,
    /// Ranks of a case in each process that a launcher has started; 1 if unset.
    pub ranks_per_process: Option<NonZeroUsize>,
    /// True if no further case starts after a failure.
    pub fail_fast: bool,
    /// How many of the selected cases have to run.
    pub at_least: Option<AtLeast>,
    /// Seconds per case instead of the default; a case's own `timeout` takes precedence.
    pub timeout: Option<f64>,
    /// Seconds for creating communicators and loading, and for destroying communicators after a case, instead of the default.
    pub opening_timeout: Option<f64>,
    /// What these options make different in every run.
    pub variation: Variation,
    /// Number of bytes that the software library's sends may leave unreceived.
    pub eager: Option<u64>,
    /// When the software library's ranks connect.
    pub connect: Option<Connect>,
    /// Placement for files that do not set one, if the case allows it.
    pub placement: Option<Placement>,
    /// Forms, variables that files may set, and limits.
    pub reading: Reading,
    /// The cases whose verdicts include buffer contents.
    pub show_buffers: ShowBuffers,
    /// True if verdicts include the last run's results.
    pub keep_results: bool,
    /// Parts of verdicts that only some reports show.
    pub details: Details,
    /// Variables of the workers' environment; variables that files set override them.
    pub variables: Vec<(String, String)>,
    /// The program that is started as a worker.
    pub workers: Workers,
}

/// The reason an option cannot be set.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionError {
    /// No option has this name.
    #[error("there is no option `{0}`")]
    Unknown(String),
    /// The value is not valid for the option.
    #[error("`{name}` = `{value}`: {reason}")]
    Value {
        /// The option's name.
        name: String,
        value: String,
        /// The reason it is not valid.
        reason: String,
    },
}

/// An option that can be set by name.
pub struct NamedOption {
    /// The name in `--NAME`; the variable is COLLSPEC_NAME in upper case, with `_` for `-`.
    pub name: &'static str,
    /// False if the option exists only on the command line.
    pub has_variable: bool,
    set: fn(&mut RunOptions, &str) -> Result<(), String>,
    /// The non-default values, for a command that runs a case again; `None` if the option does not affect results.
    values: Option<fn(&RunOptions) -> Vec<String>>,
    /// The libraries that it is for.
    pub is_for: IsFor,
    /// True if the two sides of a comparison may differ in it. The others determine the cases, or their limits.
    pub may_differ_by_side: bool,
    /// For an option of the software library or of software GPUs: what its value is called, and what the command's help says.
    pub help: Option<(&'static str, &'static str)>,
}

/// The libraries that an option is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsFor {
    /// Every library.
    Any,
    /// NCCL libraries.
    Nccl,
    /// The software library.
    Soft,
    /// NCCL libraries on software GPUs.
    SoftwareGpus,
    /// The software library, and NCCL libraries on software GPUs.
    AnySoftware,
}

const fn option(
    name: &'static str,
    set: fn(&mut RunOptions, &str) -> Result<(), String>,
    values: fn(&RunOptions) -> Vec<String>,
) -> NamedOption {
    NamedOption { values: Some(values), ..unrepeated(name, set) }
}

/// An option that does not affect results.
const fn unrepeated(name: &'static str, set: fn(&mut RunOptions, &str) -> Result<(), String>) -> NamedOption {
    let (is_for, may_differ_by_side) = (IsFor::Any, false);
    NamedOption { name, has_variable: true, set, values: None, is_for, may_differ_by_side, help: None }
}

impl NamedOption {
    const fn on_the_command_line_only(self) -> Self {
        Self { has_variable: false, ..self }
    }

    const fn of_a_side(self, is_for: IsFor) -> Self {
        Self { is_for, may_differ_by_side: true, ..self }
    }

    const fn with_help(self, value: &'static str, help: &'static str) -> Self {
        Self { help: Some((value, help)), ..self }
    }
}

/// Every option, in the order in which a repeating command lists them.
pub const NAMED: &[NamedOption] = &[
    option(
        "backend",
        |options, text| BackendChoice::parse(text).map(|value| options.backend.backend = value),
        |options| {
            let backend = options.backend.backend;
            if backend == BackendChoice::Auto { Vec::new() } else { vec![backend.name().to_owned()] }
        },
    ),
    unrepeated("require", |options, text| Requirement::parse(text).map(|value| options.backend.require = Some(value))),
    option(
        "nccl",
        |options, text| {
            options.backend.nccl = Some(text.to_owned());
            Ok(())
        },
        |options| options.backend.nccl.iter().cloned().collect(),
    ),
    option(
        "driver",
        |options, text| {
            options.backend.driver = DriverRequest::parse(text);
            Ok(())
        },
        |options| unless(&options.backend.driver, &DriverRequest::Auto),
    )
    .of_a_side(IsFor::Nccl),
    option(
        "machine",
        |options, text| {
            options.backend.machine = Some(machine_name(text)?);
            Ok(())
        },
        |options| options.backend.machine.iter().cloned().collect(),
    )
    .of_a_side(IsFor::SoftwareGpus),
    option(
        "nodes",
        |options, text| {
            options.backend.nodes = Some(nodes(text)?);
            Ok(())
        },
        |options| shown(&options.backend.nodes),
    )
    .of_a_side(IsFor::SoftwareGpus),
    option(
        "ranks-per-gpu",
        |options, text| RanksPerGpu::parse(text).map(|value| options.ranks_per_gpu = value),
        |options| unless(&options.ranks_per_gpu, &RanksPerGpu::One),
    )
    .of_a_side(IsFor::Nccl),
    option(
        "ranks-per-process",
        |options, text| {
            options.ranks_per_process = Some(positive(text)?);
            Ok(())
        },
        |options| shown(&options.ranks_per_process),
    )
    .on_the_command_line_only(),
    option(
        "timeout",
        |options, text| seconds(text).map(|value| options.timeout = Some(value)),
        |options| shown(&options.timeout),
    )
    .of_a_side(IsFor::Any),
    option(
        "opening-timeout",
        |options, text| seconds(text).map(|value| options.opening_timeout = Some(value)),
        |options| shown(&options.opening_timeout),
    )
    .of_a_side(IsFor::Any),
    option(
        "seed",
        |options, text| number(text).map(|value| options.variation.seed = Some(value)),
        |options| shown(&options.variation.seed),
    )
    .of_a_side(IsFor::AnySoftware)
    .with_help(
        "N",
        "Shuffle the order in which the software library's tasks run, or the warps of software GPUs take \
         turns; the same number gives the same order",
    ),
    option(
        "delay-stores",
        |options, text| text.parse().map(|value| options.variation.delay_stores = Some(value)),
        |options| options.variation.delay_stores.iter().map(|unit| unit.name().to_owned()).collect(),
    )
    .of_a_side(IsFor::SoftwareGpus)
    .with_help(
        "UNIT",
        "Let others see the stores of kernels on software GPUs late, and in any order that no fence \
         forbids, as --seed decides [seed: 0 if unset]. The value is what becomes visible at once: an \
         `element` of a thread's vector, which is all that PTX guarantees; what a `thread` stores with \
         one instruction; or a `line` of 128 bytes",
    ),
    option(
        "early-loads",
        |options, text| text.parse().map(|value| options.variation.early_loads = Some(value)),
        |options| options.variation.early_loads.iter().map(|loads| loads.name().to_owned()).collect(),
    )
    .of_a_side(IsFor::SoftwareGpus)
    .with_help(
        "LOADS",
        "Let loads of kernels on software GPUs find what memory held earlier, as far as no acquire \
         forbids it, as --seed decides [seed: 0 if unset]: `weak` loads, which a GPU's L1 cache may \
         satisfy; or `all` of them, which PTX permits, so volatile and relaxed ones too",
    ),
    option(
        "eager",
        |options, text| number(text).map(|value| options.eager = Some(value)),
        |options| shown(&options.eager),
    )
    .of_a_side(IsFor::Soft)
    .with_help(
        "BYTES",
        "Send messages of up to this many bytes without waiting for their receive (soft backend) \
         [default: 0]",
    ),
    option(
        "connect",
        |options, text| text.parse().map(|value| options.connect = Some(value)),
        |options| options.connect.iter().map(|when| when.name().to_owned()).collect(),
    )
    .of_a_side(IsFor::Soft)
    .with_help(
        "WHEN",
        "When the software library's ranks connect: `init` (the default), while they make a communicator; \
         or `lazy`, in the first call that needs it, where the host waits for the other ranks' first \
         call, as with NCCL",
    ),
    option(
        "fault",
        |options, text| {
            let mode: FaultMode = text.parse().map_err(|error: NoFault| error.to_string())?;
            options.variation.fault = mode.to_string();
            Ok(())
        },
        |options| unless(&options.variation.fault, &String::new()),
    )
    .of_a_side(IsFor::AnySoftware)
    .with_help(
        "FAULT",
        "Put a library that has this deliberate bug between the scenarios and the right one, to see which of \
         them catch it: F01 and up (`collspec audit --list-faults` lists them). `,rank=N` limits it to one rank",
    ),
    option(
        "max-memory",
        |options, text| Limits::bytes(text).map(|value| options.reading.limits.memory = value),
        |options| {
            let memory = options.reading.limits.memory;
            if memory == Limits::default().memory { Vec::new() } else { unless(&memory, &usual_memory()) }
        },
    ),
    option(
        "max-work",
        |options, text| Limits::operations(text).map(|value| options.reading.limits.work = value),
        |options| unless(&options.reading.limits.work, &Limits::default().work),
    ),
    option(
        "max-file-work",
        |options, text| Limits::operations(text).map(|value| options.reading.limits.file_work = value),
        |options| unless(&options.reading.limits.file_work, &Limits::default().file_work),
    ),
    option(
        "max-file",
        |options, text| Limits::bytes(text).map(|value| options.reading.limits.file = value),
        |options| unless(&options.reading.limits.file, &Limits::default().file),
    ),
    option(
        "placement",
        |options, text| Placement::parse(text).map(|value| options.placement = Some(value)),
        |options| options.placement.iter().map(|placement| placement.name().to_owned()).collect(),
    )
    .of_a_side(IsFor::Any),
    option(
        "allow-env",
        |options, text| AllowEnv::parse(text).map(|value| options.reading.allow_env = value),
        |options| options.reading.allow_env.names().to_vec(),
    ),
    unrepeated("forms", |options, text| Forms::parse(text).map(|value| options.reading.forms = value)),
    unrepeated("jobs", |options, text| {
        options.jobs = Some(positive(text)?);
        Ok(())
    })
    .on_the_command_line_only(),
    unrepeated("at-least", |options, text| AtLeast::parse(text).map(|value| options.at_least = Some(value))),
    unrepeated("no-skips", |options, text| {
        match text {
            "1" | "true" => options.at_least = Some(AtLeast::ALL),
            "0" | "false" => {}
            _ => return Err("expected 1 or 0".to_owned()),
        }
        Ok(())
    }),
    unrepeated("fail-fast", |options, text| {
        options.fail_fast = text.parse().map_err(|_| "expected true or false".to_owned())?;
        Ok(())
    })
    .on_the_command_line_only(),
];

/// The limit on memory if none is set: the machine's free memory when first asked, but at least that of
/// [`Limits::default`], so that a case which is merely too large for this machine is skipped and not refused.
pub fn usual_memory() -> u64 {
    static MEMORY: OnceLock<u64> = OnceLock::new();
    *MEMORY.get_or_init(|| free().unwrap_or(0).max(Limits::default().memory))
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "expected a whole number, 0 or greater".to_owned())
}

fn positive(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "expected a whole number, 1 or greater".to_owned())
}

/// Checks the name of a machine. A file is read when the machine is needed.
///
/// # Errors
///
/// No machine has this name.
pub fn machine_name(text: &str) -> Result<String, String> {
    if MachineProfile::is_file(text) {
        return Ok(text.to_owned());
    }
    MachineProfile::find(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Parses a number of bytes.
///
/// # Errors
///
/// The text is not a number with a unit or without one.
pub fn size(text: &str) -> Result<u64, String> {
    size_in_bytes(text).ok_or_else(|| "expected a number of bytes such as 8, 32K, 128M or 1G".to_owned())
}

/// Parses a number of nodes.
///
/// # Errors
///
/// The text is not a whole number from 1 to the largest number of nodes.
pub fn nodes(text: &str) -> Result<NonZeroUsize, String> {
    let most = SoftwareCluster::MOST_NODES;
    let nodes = positive(text)?;
    if nodes.get() > most { Err(format!("there can be at most {most} nodes")) } else { Ok(nodes) }
}

fn shown<T: ToString>(value: &Option<T>) -> Vec<String> {
    value.iter().map(T::to_string).collect()
}

fn unless<T: ToString + PartialEq>(value: &T, default: &T) -> Vec<String> {
    if value == default { Vec::new() } else { vec![value.to_string()] }
}

impl NamedOption {
    /// True if these options have a value for it that is not the default.
    pub fn is_set(&self, options: &RunOptions) -> bool {
        self.values.is_some_and(|values| !values(options).is_empty())
    }

    /// True if the option affects results, so that a command that runs a case again must repeat it.
    pub fn bears_on_results(&self) -> bool {
        self.values.is_some()
    }

    /// The environment variable with the same meaning, for a test harness.
    pub fn variable(&self) -> String {
        format!("COLLSPEC_{}", self.name.replace('-', "_").to_uppercase())
    }
}

impl RunOptions {
    /// Sets an option as on the command line.
    ///
    /// # Errors
    ///
    /// The name is not in [`NAMED`], or the value is not valid for the option.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        let option = NAMED.iter().find(|option| option.name == name);
        let option = option.ok_or_else(|| OptionError::Unknown(name.to_owned()))?;
        let error = |reason| OptionError::Value { name: name.to_owned(), value: value.to_owned(), reason };
        (option.set)(self, value).map_err(error)
    }

    /// The options that affect results, as words of a command line.
    pub fn to_repeat(&self) -> Vec<String> {
        let words = |option: &NamedOption| {
            let name = format!("--{}", option.name);
            let values = option.values.map(|values| values(self)).unwrap_or_default();
            values.into_iter().flat_map(move |value| [name.clone(), value])
        };
        NAMED.iter().flat_map(words).collect()
    }

    /// Number of cases to run at the same time: as requested, else one per core; on GPUs one, because cases take turns on them. On software
    /// GPUs two per core, because the ranks of a case wait for each other more than half of its time, shared by the nodes of a machine,
    /// but no more than there is memory for: each worker keeps communicators, which take some.
    pub fn jobs_on(&self, chosen: &ChosenBackend) -> usize {
        let default = || match &chosen.machine {
            None => cores(),
            Some(machine) if chosen.counts_work() => {
                let with_memory = self.reading.limits.memory / MEMORY_OF_JOB;
                let most = MOST_JOBS.min(usize::try_from(with_memory).unwrap_or(usize::MAX));
                (2 * cores() / machine.node_names().len().max(1)).clamp(1, most.max(1))
            }
            Some(_) => 1,
        };
        self.jobs.map_or_else(default, NonZeroUsize::get)
    }

    /// True if waiting cases may run in addition to the jobs: not on GPUs, where cases take turns, and not if a number was requested.
    pub(super) fn may_run_more_at_a_time(&self, chosen: &ChosenBackend) -> bool {
        let take_turns = chosen.machine.is_some() && !chosen.counts_work();
        self.jobs.is_none() && !take_turns && chosen.cluster.is_none()
    }
}

/// Bytes of the workers of a job on software GPUs, the one at work and one that is idle, with the communicators that they keep: 1.4 GiB was
/// the most that one took in a run of the whole selection.
const MEMORY_OF_JOB: u64 = 3 << 30;
/// Jobs on software GPUs, if none were asked for.
const MOST_JOBS: usize = 32;

/// Number of cores that this process may use.
pub fn cores() -> usize {
    available_parallelism().map_or(1, NonZeroUsize::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_run_at_a_time_only_where_no_number_was_asked_for() {
        let mut options = RunOptions::default();
        let chosen = ChosenBackend::default();
        assert!(options.may_run_more_at_a_time(&chosen));
        options.jobs = NonZeroUsize::new(2);
        assert!(!options.may_run_more_at_a_time(&chosen));
    }

    #[test]
    fn what_is_set_is_repeated() {
        let mut options = RunOptions::default();
        assert_eq!(options.to_repeat(), Vec::<String>::new());
        for (name, value) in [
            ("backend", "nccl"),
            ("nccl", "2.30.7"),
            ("driver", "/d"),
            ("machine", "dgx-h100"),
            ("nodes", "2"),
            ("ranks-per-gpu", "auto"),
            ("ranks-per-process", "2"),
            ("timeout", "2.5"),
            ("opening-timeout", "9"),
            ("seed", "7"),
            ("delay-stores", "line"),
            ("early-loads", "weak"),
            ("eager", "4096"),
            ("connect", "lazy"),
            ("fault", "F01"),
            ("max-memory", "1024"),
            ("max-work", "5000"),
            ("max-file-work", "6000"),
            ("max-file", "700"),
            ("placement", "processes"),
            ("allow-env", "NCCL_A"),
        ] {
            options.set(name, value).unwrap();
            let repeated = options.to_repeat();
            let mut pairs = repeated.chunks(2).map(|pair| (pair[0].as_str(), pair[1].as_str()));
            assert!(pairs.any(|pair| pair == (&format!("--{name}"), value)), "{name} {value}: {repeated:?}");
        }
        for (name, value) in [("require", "nccl"), ("forms", "tree"), ("jobs", "3"), ("fail-fast", "true")] {
            let before = (options.clone(), options.to_repeat());
            options.set(name, value).unwrap();
            assert!(options != before.0 && options.to_repeat() == before.1, "{name}");
        }
    }

    #[test]
    fn what_has_no_meaning_is_an_error() {
        let mut options = RunOptions::default();
        assert_eq!(options.set("sead", "1"), Err(OptionError::Unknown("sead".into())));
        for option in NAMED.iter().filter(|option| !["nccl", "driver"].contains(&option.name)) {
            assert!(matches!(options.set(option.name, "-"), Err(OptionError::Value { .. })), "{}", option.name);
        }
        assert_eq!(options, RunOptions::default());
    }

    #[test]
    fn variables_are_named_after_options() {
        let names: Vec<String> = NAMED.iter().map(NamedOption::variable).collect();
        assert!(names.contains(&"COLLSPEC_MAX_FILE_WORK".to_owned()), "{names:?}");
    }
}
