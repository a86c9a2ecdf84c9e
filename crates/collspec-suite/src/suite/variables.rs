//! Warnings about variables that look like this program's own but are not, and about an NCCL variable that does not reach workers.
use super::options::{NAMED, NamedOption};
use collspec_core::printable::printable;
use collspec_core::suggest::nearest;
use collspec_run::child::program::COMM_ID;
use collspec_run::launch;

/// The prefix of all this program's variables.
const PREFIX: &str = "COLLSPEC_";

/// The variable that selects cases under `cargo test`.
pub const FILTER: &str = "COLLSPEC_FILTER";
/// The variable that selects a share of the cases under `cargo test`.
pub const SHARD: &str = "COLLSPEC_SHARD";

/// Variables of the software library, the stand-ins, and the processes that this program starts.
const OTHERS: [&str; 28] = [
    "COLLSPEC_SOFT_ARITHMETIC",
    "COLLSPEC_SOFT_CONNECT",
    "COLLSPEC_JUDGE",
    "COLLSPEC_RECORD",
    "COLLSPEC_SOFT_EAGER",
    "COLLSPEC_SOFT_NETWORK",
    "COLLSPEC_SOFT_SEED",
    "COLLSPEC_SOFT_TRACE",
    "COLLSPEC_SOFTWARE_CACHE",
    "COLLSPEC_SOFTWARE_FAULT",
    "COLLSPEC_SOFTWARE_GPUS",
    "COLLSPEC_SOFTWARE_MACHINE",
    "COLLSPEC_SOFTWARE_NVLINKS",
    "COLLSPEC_SOFTWARE_SCHEDULE",
    "COLLSPEC_SOFTWARE_SWITCH",
    "COLLSPEC_SOFTWARE_WORK",
    "COLLSPEC_STANDIN",
    "COLLSPEC_STANDIN_DEVICES",
    "COLLSPEC_STANDIN_DRIVER",
    "COLLSPEC_STANDIN_EXCLUSIVE",
    "COLLSPEC_STANDIN_FAULT",
    "COLLSPEC_WORKER",
    "COLLSPEC_WORKER_DEVICE",
    "COLLSPEC_WORKER_FAULTS",
    "COLLSPEC_WORKER_NCCL",
    "COLLSPEC_WORKER_SOFTWARE_GPUS",
    "COLLSPEC_PROBE",
    "COLLSPEC_PROBE_DRIVER",
];

/// Prefixes of the variables that this project's own tests read.
const OF_TESTS: [&str; 3] = ["COLLSPEC_BLESS", "COLLSPEC_FUZZ", "COLLSPEC_TEST_"];

/// Warnings about NCCL_COMM_ID, and about variables of this process that begin with `COLLSPEC_` and have no effect. Those of
/// `cargo test` have no effect on a `command` that has options.
pub fn warnings(command: Option<&str>) -> Vec<String> {
    let mut names: Vec<String> = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names.iter().filter_map(|name| warning(name).or_else(|| for_tests_alone(name, command?))).collect()
}

fn warning(name: &str) -> Option<String> {
    if name == COMM_ID {
        return Some(format!(
            "{COMM_ID} is set and does not reach the ranks: every communicator would have the id of that address, and ranks of two that are made at \
             the same time could not be told apart. `env.{COMM_ID}` in a scenario with `--allow-env {COMM_ID}` sets it for its cases"
        ));
    }
    let rest = name.strip_prefix(PREFIX)?;
    let options = NAMED.iter().filter(|option| option.has_variable).map(NamedOption::variable);
    let known: Vec<String> =
        options.chain([FILTER, SHARD].into_iter().chain(OTHERS).chain(launch::VARIABLES).map(str::to_owned)).collect();
    if known.iter().any(|known| known == name) || OF_TESTS.iter().any(|start| name.starts_with(start)) {
        return None;
    }
    // The common prefix would make every name look similar.
    let near = nearest(rest, known.iter().filter_map(|known| known.strip_prefix(PREFIX)));
    let cure = near.map(|near| format!("; did you mean {PREFIX}{near}?")).unwrap_or_default();
    Some(format!("the variable {} means nothing to collspec{cure}", printable(name)))
}

/// The warning about a variable that a command does not read because it has an option.
fn for_tests_alone(name: &str, command: &str) -> Option<String> {
    let options = NAMED.iter().filter(|option| option.has_variable).map(|option| (option.variable(), option.name));
    let mut all = options.chain([(FILTER.to_owned(), "filter"), (SHARD.to_owned(), "shard")]);
    let (_, option) = all.find(|(variable, _)| variable == name)?;
    Some(format!("the variable {name} is for `cargo test`; `{command}` has the option --{option}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_variable_is_told_with_the_nearest_name() {
        let words = |name: &str| warning(name).unwrap_or_default();
        assert_eq!(
            words("COLLSPEC_BACKND"),
            "the variable COLLSPEC_BACKND means nothing to collspec; did you mean COLLSPEC_BACKEND?"
        );
        assert!(words("COLLSPEC_FILTERS").ends_with("did you mean COLLSPEC_FILTER?"));
        assert!(words("COLLSPEC_SOFT_SEDE").ends_with("did you mean COLLSPEC_SOFT_SEED?"));
        assert_eq!(words("COLLSPEC_BANANA"), "the variable COLLSPEC_BANANA means nothing to collspec");
        assert!(words("COLLSPEC_JOBS").contains("means nothing"), "only the command has this option");
        for known in [
            "COLLSPEC_BACKEND",
            "COLLSPEC_MAX_FILE_WORK",
            FILTER,
            SHARD,
            "COLLSPEC_TEST_X",
            "COLLSPEC_RANK",
            "NCCL_X",
            "PATH",
        ] {
            assert_eq!(warning(known), None);
        }
    }
}
