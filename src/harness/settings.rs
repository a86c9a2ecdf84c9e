//! What COLLSPEC_* variables say, read once.
use crate::plan::{Limits, SetBy};
use crate::run::{RanksPerGpu, seconds};
use crate::scenario::{AllowEnv, Placement};
use crate::suite::Options;
use crate::suite::{BackendChoice, Choice, Filter, Forms, Reading, Wish};
use soft_nccl::Connect;
use std::env::VarError;

/// The variable that says in which forms cases are run.
pub const FORMS: &str = "COLLSPEC_FORMS";

/// Variables that bear on a case's result, which a command that runs it again must repeat.
pub const TELLING: &[&str] = &[
    "COLLSPEC_ALLOW_ENV",
    "COLLSPEC_BACKEND",
    "COLLSPEC_NCCL",
    "COLLSPEC_DRIVER",
    "COLLSPEC_RANKS_PER_GPU",
    "COLLSPEC_PLACEMENT",
    "COLLSPEC_TIMEOUT",
    "COLLSPEC_OPENING_TIMEOUT",
    "COLLSPEC_SEED",
    "COLLSPEC_EAGER",
    "COLLSPEC_CONNECT",
    "COLLSPEC_MAX_MEMORY",
    "COLLSPEC_MAX_WORK",
    "COLLSPEC_MAX_FILE_WORK",
    "COLLSPEC_MAX_FILE",
];

/// The variables' meaning; the same as that of the command's options.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// COLLSPEC_BACKEND, COLLSPEC_REQUIRE, COLLSPEC_NCCL and COLLSPEC_DRIVER.
    pub wish: Wish,
    /// COLLSPEC_RANKS_PER_GPU.
    pub ranks_per_gpu: RanksPerGpu,
    /// COLLSPEC_PLACEMENT.
    pub placement: Option<Placement>,
    /// COLLSPEC_TIMEOUT.
    pub timeout: Option<f64>,
    /// COLLSPEC_OPENING_TIMEOUT.
    pub opening: Option<f64>,
    /// COLLSPEC_SEED.
    pub seed: Option<u64>,
    /// COLLSPEC_EAGER.
    pub eager: Option<u64>,
    /// COLLSPEC_CONNECT.
    pub connect: Option<Connect>,
    /// COLLSPEC_FILTER.
    pub filter: Filter,
    /// COLLSPEC_FORMS, COLLSPEC_ALLOW_ENV, COLLSPEC_MAX_MEMORY, COLLSPEC_MAX_WORK, COLLSPEC_MAX_FILE_WORK and
    /// COLLSPEC_MAX_FILE.
    pub reading: Reading,
}

impl Settings {
    /// From variables that `variable` looks up; an empty one is as good as none.
    pub fn read(variable: impl Fn(&str) -> Result<String, VarError>) -> Result<Self, String> {
        let from = Variables(variable);
        let number = |text: &str| text.parse::<u64>().map_err(|_| "a number from 0 on is wanted".to_owned());
        let usual = Limits::default();
        Ok(Self {
            wish: Wish {
                backend: from.parsed("COLLSPEC_BACKEND", BackendChoice::parse)?.unwrap_or_default(),
                require: from.parsed("COLLSPEC_REQUIRE", BackendChoice::parse)?,
                nccl: from.text("COLLSPEC_NCCL")?,
                driver: from.text("COLLSPEC_DRIVER")?.map(Into::into),
            },
            ranks_per_gpu: from.parsed("COLLSPEC_RANKS_PER_GPU", RanksPerGpu::parse)?.unwrap_or_default(),
            placement: from.parsed("COLLSPEC_PLACEMENT", Placement::parse)?,
            timeout: from.parsed("COLLSPEC_TIMEOUT", seconds)?,
            opening: from.parsed("COLLSPEC_OPENING_TIMEOUT", seconds)?,
            seed: from.parsed("COLLSPEC_SEED", number)?,
            eager: from.parsed("COLLSPEC_EAGER", number)?,
            connect: from.parsed("COLLSPEC_CONNECT", str::parse)?,
            filter: Filter { text: from.text("COLLSPEC_FILTER")?, exact: false, long: false },
            reading: Reading {
                forms: from.parsed(FORMS, Forms::parse)?.unwrap_or_default(),
                allow_env: from.parsed("COLLSPEC_ALLOW_ENV", AllowEnv::parse)?.unwrap_or_default(),
                limits: Limits {
                    memory: from.parsed("COLLSPEC_MAX_MEMORY", Limits::bytes)?.unwrap_or(usual.memory),
                    work: from.parsed("COLLSPEC_MAX_WORK", Limits::operations)?.unwrap_or(usual.work),
                    file_work: from.parsed("COLLSPEC_MAX_FILE_WORK", Limits::operations)?.unwrap_or(usual.file_work),
                    file: from.parsed("COLLSPEC_MAX_FILE", Limits::bytes)?.unwrap_or(usual.file),
                    set_by: SetBy::Variables,
                    ..usual
                },
            },
        })
    }

    /// How cases are run on what was chosen.
    pub fn options(&self, chosen: Choice, jobs: usize) -> Options {
        Options {
            backend: chosen.backend,
            machine: chosen.machine,
            ranks_per_gpu: self.ranks_per_gpu,
            placement: self.placement,
            timeout: self.timeout,
            opening: self.opening,
            seed: self.seed,
            eager: self.eager,
            connect: self.connect,
            limits: self.reading.limits,
            jobs,
            ..Options::default()
        }
    }
}

struct Variables<F>(F);

impl<F: Fn(&str) -> Result<String, VarError>> Variables<F> {
    fn text(&self, name: &str) -> Result<Option<String>, String> {
        match (self.0)(name) {
            Ok(text) if text.is_empty() => Ok(None),
            Ok(text) => Ok(Some(text)),
            Err(VarError::NotPresent) => Ok(None),
            Err(VarError::NotUnicode(_)) => Err(format!("{name} is not UTF-8")),
        }
    }

    fn parsed<T>(&self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
        let parse = |text: String| parse(&text).map_err(|words| format!("{name}={text}: {words}"));
        self.text(name)?.map(parse).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, value: &'static str) -> Result<Settings, String> {
        Settings::read(|asked| if asked == name { Ok(value.to_owned()) } else { Err(VarError::NotPresent) })
    }

    #[test]
    fn variables_mean_what_options_mean() {
        let limits = Limits { set_by: SetBy::Variables, ..Limits::default() };
        let usual = Settings { reading: Reading { limits, ..Reading::default() }, ..Settings::default() };
        assert_eq!(with("X", "y"), Ok(usual.clone()));
        assert_eq!(with("COLLSPEC_BACKEND", "soft").map(|s| s.wish.backend), Ok(BackendChoice::Soft));
        assert_eq!(with("COLLSPEC_BACKEND", ""), Ok(usual));
        assert_eq!(with("COLLSPEC_REQUIRE", "nccl").map(|s| s.wish.require), Ok(Some(BackendChoice::Nccl)));
        assert_eq!(with("COLLSPEC_NCCL", "2.30.7").map(|s| s.wish.nccl), Ok(Some("2.30.7".into())));
        assert_eq!(with("COLLSPEC_RANKS_PER_GPU", "auto").map(|s| s.ranks_per_gpu), Ok(RanksPerGpu::Auto));
        assert!(with("COLLSPEC_RANKS_PER_GPU", "0").is_err());
        assert_eq!(with("COLLSPEC_PLACEMENT", "processes").map(|s| s.placement), Ok(Some(Placement::Processes)));
        assert_eq!(with("COLLSPEC_TIMEOUT", "2.5").map(|s| s.timeout), Ok(Some(2.5)));
        assert_eq!(with("COLLSPEC_OPENING_TIMEOUT", "9").map(|s| s.opening), Ok(Some(9.0)));
        assert_eq!(with("COLLSPEC_SEED", "7").map(|s| s.seed), Ok(Some(7)));
        assert_eq!(with("COLLSPEC_EAGER", "4096").map(|s| s.eager), Ok(Some(4096)));
        assert_eq!(with("COLLSPEC_CONNECT", "lazy").map(|s| s.connect), Ok(Some(Connect::Lazy)));
        assert_eq!(with("COLLSPEC_MAX_MEMORY", "2GiB").map(|s| s.reading.limits.memory), Ok(2 << 30));
        assert_eq!(with("COLLSPEC_MAX_WORK", "5000").map(|s| s.reading.limits.work), Ok(5000));
        // A refusal over a limit says what can be set here.
        assert_eq!(with("COLLSPEC_MAX_WORK", "5000").map(|s| s.reading.limits.set_by), Ok(SetBy::Variables));
        assert_eq!(SetBy::Variables.raise("max-work", 6000), "`COLLSPEC_MAX_WORK=6000`");
        assert_eq!(with("COLLSPEC_MAX_FILE", "64KiB").map(|s| s.reading.limits.file), Ok(64 << 10));
        for (name, value) in [
            ("COLLSPEC_MAX_MEMORY", "2 GB"),
            ("COLLSPEC_MAX_WORK", "0"),
            ("COLLSPEC_MAX_FILE", "-1"),
            ("COLLSPEC_PLACEMENT", "gpus"),
            ("COLLSPEC_TIMEOUT", "0"),
            ("COLLSPEC_OPENING_TIMEOUT", "soon"),
            ("COLLSPEC_SEED", "-1"),
            ("COLLSPEC_EAGER", "1k"),
            ("COLLSPEC_CONNECT", "late"),
        ] {
            let words = with(name, value).unwrap_err();
            assert!(words.starts_with(&format!("{name}={value}: ")), "{words}");
        }
        assert_eq!(with("COLLSPEC_FORMS", "tree").map(|s| s.reading.forms), Forms::parse("tree"));
        assert!(with("COLLSPEC_FORMS", "treee").unwrap_err().contains("did you mean tree?"));
        let allowed = with("COLLSPEC_ALLOW_ENV", "NCCL_A,NCCL_B").map(|s| s.reading.allow_env.names().to_vec());
        assert_eq!(allowed, Ok(vec!["NCCL_A".into(), "NCCL_B".into()]));
        assert!(with("COLLSPEC_ALLOW_ENV", "LD_PRELOAD").is_err());
        assert_eq!(with("COLLSPEC_FILTER", "ring").map(|s| s.filter.text), Ok(Some("ring".into())));
    }

    #[test]
    fn the_readme_names_every_variable() {
        let readme = include_str!("../../README.md");
        for name in TELLING.iter().chain(&["COLLSPEC_REQUIRE", "COLLSPEC_FILTER"]) {
            assert!(readme.contains(&format!("`{name}`")), "{name} is not in README.md");
        }
    }

    #[test]
    fn what_is_set_reaches_the_runner() {
        let settings =
            Settings { seed: Some(3), opening: Some(4.0), ..with("COLLSPEC_PLACEMENT", "one_thread").unwrap() };
        let options = settings.options(Choice::default(), 2);
        assert_eq!((options.placement, options.opening), (Some(Placement::OneThread), Some(4.0)));
        assert_eq!((options.seed, options.jobs, options.timeout), (Some(3), 2, None));
    }

    #[test]
    fn an_unknown_backend_is_an_error_that_names_the_variable() {
        let words = with("COLLSPEC_REQUIRE", "cuda").unwrap_err();
        assert_eq!(words, "COLLSPEC_REQUIRE=cuda: the backends are auto, soft and nccl");
    }
}
