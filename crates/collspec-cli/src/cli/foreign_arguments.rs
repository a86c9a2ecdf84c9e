//! Options and commands of other programs, answered with this program's counterparts.
use clap::error::{ContextKind, ContextValue, ErrorKind};

const RANKS: &str =
    "the number of ranks is part of the scenario: `world_size = 4`, or `matrix.world_size = [2, 4]` for several";
const SIZES: &str = "sizes are part of the scenario, in elements: `count = 1024`, or `matrix.count = [1, 1024]` for several; \
    `collspec bench all_reduce -b 8 -e 128M` measures by size";
const CALL: &str =
    "operation, type and root are part of the scenario: `op = \"all_reduce\"`, `dtype = \"f32\"`, `root = 0`";
const TOLERANCE: &str = "results are judged exactly or with every rounding that NCCL may make; a scenario's own tolerance is \
    `assert = [\"close(out, 0.3, 1e-6)\"]`";
const REPEATS: &str = "`collspec run` judges results, and `collspec bench` measures; a scenario runs several times with \
    `repeat = 10`";
const ITERATIONS: &str = "every iteration is one call outside of graphs, timed by itself";
const REGISTRATION: &str =
    "registration is part of the scenario: `register = \"local\"` at its top, or in an entry of its `inputs`";
const CPU_TIME: &str =
    "times are those between two events on each rank's stream; `-a` says how the ranks' times become one";
const NULL_STREAM: &str =
    "every rank has a stream of its own; a scenario's step with `stream = \"default\"` runs on the null stream";
const THREADS: &str = "every rank has a thread, and makes its communicator there: `-g 8` are 8 ranks";

/// Options of mpirun, torchrun, nccl-tests and pytest, and their counterparts.
const OPTIONS: &[(&[&str], &str)] = &[
    (
        &["-n", "-np", "--np", "--nranks", "--ranks", "--world-size", "--nproc-per-node", "-g", "--gpus", "--ngpus"],
        RANKS,
    ),
    (&["-b", "-e", "--minbytes", "--maxbytes", "--stepfactor", "--stepbytes", "--size", "--count"], SIZES),
    (&["-o", "--op", "-d", "--datatype", "--dtype", "-r", "--root"], CALL),
    (&["--tolerance", "--atol", "--rtol"], TOLERANCE),
    (&["-w", "--warmup_iters", "--iters", "--repeat"], REPEATS),
    (&["-m", "--agg_iters", "-G", "--cudagraph", "-N", "--run_cycles", "-z", "--blocking"], ITERATIONS),
    (&["-R", "--local_register"], REGISTRATION),
    (&["-C", "--report_cputime"], CPU_TIME),
    (&["-y", "--stream_null"], NULL_STREAM),
    (&["-B", "--bitwise"], TOLERANCE),
    (&["-t", "--nthreads", "-p", "--parallel_init"], THREADS),
    (&["-x", "--exitfirst"], "`--fail-fast` starts no other case after one has failed"),
    (&["--json", "--jsonl"], "write `--format jsonl`"),
    (&["--junit", "--junitxml", "--junit-xml", "--junit_xml"], "write `--format junit --output FILE`"),
    (&["--html"], "write `--format html --output FILE`"),
    (&["--dry-run"], "`collspec check PATH` checks and runs nothing"),
    (&["--lf", "--last-failed"], "`--failed` runs the cases that failed last time"),
];

/// Words in place of a command.
const COMMANDS: &[(&[&str], &str)] = &[
    (&["test", "start", "exec"], "`collspec run PATH` runs scenarios"),
    (&["list", "ls"], "`collspec run --list` names the cases that would run"),
    (&["validate", "lint"], "`collspec check PATH` finds errors and runs nothing"),
    (&["info", "status", "env"], "`collspec doctor` reports what this machine can run"),
];

/// The whole message for an argument that belongs to another program.
pub fn message(error: &clap::Error) -> Option<String> {
    let (kind, table, what) = match error.kind() {
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, OPTIONS, "option"),
        ErrorKind::InvalidSubcommand => (ContextKind::InvalidSubcommand, COMMANDS, "command"),
        _ => return None,
    };
    let Some(ContextValue::String(given)) = error.get(kind) else { return None };
    let name = given.split('=').next().unwrap_or(given);
    let (names, help) = table.iter().find(|(names, _)| names.contains(&name))?;
    // The parser quotes the first letter of a text that it takes for several short options, as in `-np`.
    let typed: Vec<String> = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let longer = |arg: &&String| arg.starts_with(name) && names.contains(&arg.as_str());
    let name =
        if typed.iter().any(|arg| arg == name) { name } else { typed.iter().find(longer).map_or(name, |arg| arg) };
    Some(format!("collspec: there is no {what} `{name}`: {help}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::Args;
    use clap::{CommandFactory, Parser};

    #[test]
    fn foreign_arguments_get_what_to_write() {
        let of =
            |words: &[&str]| Args::try_parse_from(words).err().and_then(|error| message(&error)).unwrap_or_default();
        assert!(of(&["collspec", "run", "--nranks", "4"]).contains("`world_size = 4`"));
        assert!(of(&["collspec", "run", "-np", "4"]).contains("`world_size = 4`"));
        assert_eq!(of(&["collspec", "run", "--json"]), "collspec: there is no option `--json`: write `--format jsonl`");
        assert!(of(&["collspec", "run", "--dry-run"]).contains("`collspec check PATH`"));
        assert!(of(&["collspec", "run", "--atol=1e-6"]).contains("close(out"));
        // The options in people's scripts for nccl-tests.
        for (option, words) in
            [("-R", "`register = \"local\"`"), ("-C", "events"), ("-y", "`stream = \"default\"`"), ("-B", "exactly")]
        {
            for words_of in
                [&["collspec", "bench", "all_reduce", option, "1"], &["collspec", "run", "a.toml", option, "1"]]
            {
                let message = of(words_of);
                assert!(message.starts_with(&format!("collspec: there is no option `{option}`: ")), "{message}");
                assert!(message.contains(words), "{message}");
            }
        }
        assert!(of(&["collspec", "test"]).contains("`collspec run PATH`"));
        assert_eq!(of(&["collspec", "run", "--jbos", "4"]), "", "the parser's own message has the nearest option");
    }

    #[test]
    fn no_foreign_option_is_one_of_ours() {
        let ours = Args::command();
        for command in ours.get_subcommands() {
            assert!(!COMMANDS.iter().any(|(names, _)| names.contains(&command.get_name())));
        }
        let run = ours.find_subcommand("run").expect("the command");
        for argument in run.get_arguments() {
            let long = argument.get_long().map(|long| format!("--{long}"));
            let short = argument.get_short().map(|short| format!("-{short}"));
            for name in long.into_iter().chain(short) {
                assert!(!OPTIONS.iter().any(|(names, _)| names.contains(&name.as_str())), "{name}");
            }
        }
    }
}
