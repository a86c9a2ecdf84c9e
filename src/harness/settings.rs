//! The COLLSPEC_* variables of a test program.
use collspec_core::plan::SetBy;
use collspec_suite::suite::options::{NAMED, NamedOption, usual_memory};
use collspec_suite::suite::variables::{FILTER, SHARD};
use collspec_suite::suite::{Filter, OptionError, RunOptions, Shard};
use std::env::VarError;

/// The values of the variables; they mean the same as the command's options.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HarnessSettings {
    /// The filter given in COLLSPEC_FILTER.
    pub filter: Filter,
    /// The shard given in COLLSPEC_SHARD.
    pub shard: Option<Shard>,
    /// The options given in all other variables.
    pub options: RunOptions,
}

/// The options that can be set by a variable.
fn with_variable() -> impl Iterator<Item = &'static NamedOption> {
    NAMED.iter().filter(|option| option.has_variable)
}

/// Variables that affect a case's result, which the command that runs it again repeats.
pub fn to_repeat() -> Vec<String> {
    with_variable().filter(|option| option.bears_on_results()).map(NamedOption::variable).collect()
}

impl HarnessSettings {
    /// Reads the variables with `variable`; an empty one counts as unset.
    ///
    /// # Errors
    ///
    /// A variable is not UTF-8, or has a value that its option cannot have. The message names the variable.
    pub fn read(variable: impl Fn(&str) -> Result<String, VarError>) -> Result<Self, String> {
        let text = |name: &str| match variable(name) {
            Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
            Err(VarError::NotPresent) => Ok(None),
            Err(VarError::NotUnicode(_)) => Err(format!("{name} is not UTF-8")),
        };
        let mut options = RunOptions::default();
        options.reading.limits.set_by = SetBy::Variables;
        options.reading.limits.memory = usual_memory();
        for option in with_variable() {
            let name = option.variable();
            if let Some(value) = text(&name)? {
                options.set(option.name, &value).map_err(|error| match error {
                    OptionError::Value { reason, .. } => format!("{name}={value}: {reason}"),
                    unknown => unknown.to_string(),
                })?;
            }
        }
        let shard =
            text(SHARD)?.map(|value| Shard::parse(&value).map_err(|reason| format!("{SHARD}={value}: {reason}")));
        Ok(Self { filter: Filter::parse(text(FILTER)?), shard: shard.transpose()?, options })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use collspec_core::plan::Limits;
    use collspec_core::scenario::Placement;
    use collspec_run::run::RanksPerGpu;
    use collspec_suite::suite::{BackendChoice, Forms, Requirement};
    use soft_nccl::Connect;

    fn with(name: &'static str, value: &'static str) -> Result<RunOptions, String> {
        let read = |asked: &str| if asked == name { Ok(value.to_owned()) } else { Err(VarError::NotPresent) };
        HarnessSettings::read(read).map(|settings| settings.options)
    }

    #[test]
    fn variables_mean_what_options_mean() {
        let mut usual = RunOptions::default();
        usual.reading.limits = Limits { set_by: SetBy::Variables, memory: usual_memory(), ..Limits::default() };
        assert_eq!(with("X", "y"), Ok(usual.clone()));
        assert_eq!(with("COLLSPEC_BACKEND", "soft").map(|s| s.backend.backend), Ok(BackendChoice::Soft));
        assert_eq!(with("COLLSPEC_BACKEND", ""), Ok(usual));
        assert_eq!(with("COLLSPEC_REQUIRE", "nccl").map(|s| s.backend.require), Ok(Some(Requirement::Nccl)));
        assert_eq!(with("COLLSPEC_NCCL", "2.30.7").map(|s| s.backend.nccl), Ok(Some("2.30.7".into())));
        assert_eq!(with("COLLSPEC_RANKS_PER_GPU", "auto").map(|s| s.ranks_per_gpu), Ok(RanksPerGpu::Auto));
        assert!(with("COLLSPEC_RANKS_PER_GPU", "0").is_err());
        assert_eq!(with("COLLSPEC_PLACEMENT", "processes").map(|s| s.placement), Ok(Some(Placement::Processes)));
        assert_eq!(with("COLLSPEC_TIMEOUT", "2.5").map(|s| s.timeout), Ok(Some(2.5)));
        assert_eq!(with("COLLSPEC_OPENING_TIMEOUT", "9").map(|s| s.opening_timeout), Ok(Some(9.0)));
        assert_eq!(with("COLLSPEC_SEED", "7").map(|s| s.variation.seed), Ok(Some(7)));
        assert_eq!(with("COLLSPEC_EAGER", "4096").map(|s| s.eager), Ok(Some(4096)));
        assert_eq!(with("COLLSPEC_CONNECT", "lazy").map(|s| s.connect), Ok(Some(Connect::Lazy)));
        assert_eq!(with("COLLSPEC_MAX_MEMORY", "2GiB").map(|s| s.reading.limits.memory), Ok(2 << 30));
        assert_eq!(with("COLLSPEC_MAX_WORK", "5000").map(|s| s.reading.limits.work), Ok(5000));
        // A refusal over a limit names the setting that is available here.
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
        let ring = |asked: &str| if asked == FILTER { Ok("ring".to_owned()) } else { Err(VarError::NotPresent) };
        assert_eq!(HarnessSettings::read(ring).map(|settings| settings.filter), Ok(Filter::parse(["ring"])));
        let half = |asked: &str| if asked == SHARD { Ok("1/2".to_owned()) } else { Err(VarError::NotPresent) };
        assert_eq!(HarnessSettings::read(half).map(|settings| settings.shard), Ok(Shard::parse("1/2").ok()));
        assert!(with(SHARD, "2/1").unwrap_err().starts_with("COLLSPEC_SHARD=2/1: expected I/N"));
    }

    #[test]
    fn the_manual_names_every_variable() {
        let manual = include_str!("../../docs/cli.md");
        for name in with_variable().map(NamedOption::variable).chain([FILTER, SHARD].map(str::to_owned)) {
            assert!(manual.contains(&format!("`{name}`")), "{name} is not in docs/cli.md");
        }
    }

    #[test]
    fn an_unknown_backend_is_an_error_that_names_the_variable() {
        let words = with("COLLSPEC_REQUIRE", "cuda").unwrap_err();
        assert_eq!(words, "COLLSPEC_REQUIRE=cuda: did you mean nccl? a run can require nccl, nccl-software or soft");
    }
}
