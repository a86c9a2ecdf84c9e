//! Reads a command line of nccl-tests.
use super::launcher_options::Launcher;
use super::nccl_tests_options::Options;
use super::nccl_tests_processes::{Before, GUESSED};
use crate::bench::{Operation, Reduction, Request, Roots, Sizes, Step};
use crate::import::nccl_tests::Command;
use anyhow::{Context, bail, ensure};
use collspec_core::num::DType;
use collspec_core::scenario::MOST_ITERATIONS;

/// The size in bytes, from -b to -e, if the line does not say.
const SIZE: u64 = 32 << 20;
/// The bytes between two sizes, if the line does not say.
const STEP: u64 = 1 << 20;
/// Programs of nccl-tests for which scenarios have no step.
const WITHOUT_STEP: [&str; 2] = ["hypercube", "alltoallv"];
/// nccl-tests' names of types and reductions, with two that it had before. Scenarios have others too.
const NAMES: [&str; 21] = [
    "int8", "char", "uint8", "int32", "int", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16",
    "f8e4m3", "f8e5m2", "sum", "prod", "max", "min", "avg", "mulsum", "all",
];
/// Options of launchers whose value may be named like a program.
const VALUES: [&str; 6] = ["-J", "--job-name", "-o", "--output", "-e", "--error"];

/// The line, with a launcher and variables before the program.
///
/// # Errors
///
/// The line does not name a program of nccl-tests, or has an option that these programs do not have.
pub fn read(line: &str) -> anyhow::Result<Command> {
    let (command, rest) = split_command(shell_words(line)?);
    let has_parts = command.iter().any(|word| {
        let file = word.rsplit('/').next().unwrap_or(word);
        Launcher::find(file).is_some_and(Launcher::has_parts)
    });
    let mut parts = command.split(|word| has_parts && word == ":");
    let first = Part::read(parts.next().unwrap_or(&[]), None)?;
    let Part { name, before, .. } = &first;
    let Some(operation) = Operation::parse(name) else {
        bail!("{name}_perf: a scenario has no single step for it; write its sends and receives as a `group`");
    };
    let (mut processes, mut guessed) = before.processes();
    let mut left_out = before.left_out.clone();
    for words in parts {
        let part = Part::read(words, Some(before))?;
        ensure!(
            part.name == first.name && part.options == first.options,
            "the parts of the line between ` : ` have different programs or options; one test has the same on all ranks"
        );
        let (own, guesses) = part.before.processes();
        processes = Some(processes.unwrap_or(1).saturating_add(own.unwrap_or(1)));
        guessed.extend(guesses);
        if (&part.before.algorithm, &part.before.protocol) != (&before.algorithm, &before.protocol) {
            guessed.push("NCCL_ALGO and NCCL_PROTO as before the first ` : ` for all ranks".to_owned());
        }
        left_out.extend(part.before.left_out);
    }
    let Part { name, before, options } = first;
    let ranks = match (options.number::<usize>('g')?, options.number::<usize>('t')?, processes) {
        (None, None, None) => {
            guessed.push(format!("{GUESSED} ranks; nccl-tests uses one GPU unless -g or a launcher says otherwise"));
            Some(GUESSED)
        }
        (gpus, threads, processes) => {
            let ranks = gpus.unwrap_or(1).checked_mul(threads.unwrap_or(1));
            ranks.and_then(|ranks| ranks.checked_mul(processes.unwrap_or(1)))
        }
    };
    let ranks = ranks.context("there are too many ranks")?;
    ensure!(ranks > 0, "there must be at least 1 rank");
    if options.number::<i64>('D')?.is_some_and(|form| form > 0) {
        guessed.push(format!("NCCL's {name}; with -D nccl-tests calls kernels of its own instead"));
    }
    guessed.extend(options.partly_read("gtfnwrRDu"));
    for letter in ['d', 'o'] {
        if let Some(word) = options.value(letter).filter(|word| !NAMES.contains(word)) {
            guessed.push(format!("{word}, which is no name of nccl-tests, so that it would take its default"));
        }
    }
    let iterations = options.number::<i64>('n')?;
    let warm_up = options.number::<i64>('w')?;
    let within = |count: Option<i64>, least| {
        count
            .filter(|count| *count >= least)
            .and_then(|count| u32::try_from(count).ok())
            .filter(|count| *count <= MOST_ITERATIONS)
    };
    for (letter, count, least) in [('n', iterations, 1), ('w', warm_up, 0)] {
        if let Some(count) = count.filter(|count| within(Some(*count), least).is_none()) {
            guessed
                .push(format!("as many iterations as [bench] has by itself, because it cannot have -{letter} {count}"));
        }
    }
    let dtypes = options.list('d', &DType::all(), DType::parse)?;
    let reductions = options.list('o', &Reduction::ALL, Reduction::parse)?;
    let roots = match options.number::<i64>('r')? {
        Some(-1) => Some(Roots::All),
        _ => options.number('r')?.map(|root| Roots::These(vec![root])),
    };
    let register = match options.number::<i64>('R')? {
        None | Some(0) => None,
        Some(2) => Some("window"),
        Some(_) => Some("local"),
    };
    let request = Request {
        sizes: Some(sizes(&options, &mut guessed)?),
        dtypes,
        reductions,
        roots,
        algorithms: before.algorithm.map(|value| vec![Some(value)]),
        protocols: before.protocol.map(|value| vec![Some(value)]),
        iterations: within(iterations, 1),
        warm_up: within(warm_up, 0),
        ..Request::default()
    };
    let offset = options.number('u')?.unwrap_or(0);
    left_out.extend(options.others("gtbeifnwdorRu"));
    left_out.extend(rest);
    Ok(Command { line: line.to_owned(), operation, ranks, request, register, offset, guessed, left_out })
}

/// The test that a program belongs to: `all_reduce` for `build/all_reduce_perf`. Some builds add a suffix to the program's name, such as
/// `all_reduce_perf_mpi`.
fn test(word: &str) -> Option<&str> {
    let file = word.rsplit('/').next().unwrap_or(word);
    let (name, suffix) = file.split_once("_perf").unwrap_or((file, ""));
    let is_program = Operation::parse(name).is_some() || WITHOUT_STEP.contains(&name);
    (is_program && (suffix.is_empty() || suffix.starts_with(['_', '-']))).then_some(name)
}

/// A launcher with its options, a program and the options of that.
struct Part<'a> {
    before: Before,
    name: &'a str,
    options: Options,
}

impl<'a> Part<'a> {
    fn read(words: &'a [String], part_of: Option<&Before>) -> anyhow::Result<Self> {
        let (at, name) = program(words).context("no program of nccl-tests is named, such as all_reduce_perf")?;
        let (before, after) = words.split_at(at);
        Ok(Self { before: Before::read(before, part_of)?, name, options: Options::read(&after[1..])? })
    }
}

/// The place and the test of the program: a word with `_perf` if there is one, because a job may be named like a test.
fn program(words: &[String]) -> Option<(usize, &str)> {
    let named = |is_program: fn(&str) -> bool| {
        let is_value = |at: usize| at > 0 && VALUES.contains(&words[at - 1].as_str());
        let mut programs = words.iter().enumerate().filter(|(at, word)| is_program(word) && !is_value(*at));
        programs.find_map(|(at, word)| Some((at, test(word)?)))
    };
    named(|word| word.contains("_perf")).or_else(|| named(|_| true))
}

/// The words of a line as a shell reads them, with those that it passes to a further shell (`bash -c "..."`) in their place.
fn shell_words(line: &str) -> anyhow::Result<Vec<String>> {
    const SHELLS: [&str; 4] = ["bash", "dash", "sh", "zsh"];
    let split = |text: &str| shlex::split(text).context("the quotes do not match");
    let mut words = split(line)?;
    let passes = |pair: &[String]| {
        let file = pair[0].rsplit('/').next().unwrap_or_default();
        SHELLS.contains(&file) && pair[1].starts_with('-') && !pair[1].starts_with("--") && pair[1].ends_with('c')
    };
    if let Some(at) = words.windows(2).position(passes)
        && let Some(inner) = words.get(at + 2)
    {
        let inner = split(inner)?;
        words.splice(at..at + 3, inner);
    }
    if let Some(bare) = words.first().and_then(|first| first.strip_prefix('(')).map(str::to_owned) {
        words[0] = bare;
        if let Some(last) = words.last_mut().filter(|last| last.ends_with(')')) {
            last.pop();
        }
        words.retain(|word| !word.is_empty());
    }
    // Commands in front of the one with the test, such as `export NCCL_ALGO=Ring;`.
    let begins = words.iter().position(|word| test(word).is_some()).unwrap_or(0);
    let ours = words.split_off(begins);
    let pieces = words.iter().flat_map(|word| word.split(';')).filter(|piece| !["", "&&", "export"].contains(piece));
    Ok(pieces.map(str::to_owned).chain(ours).collect())
}

/// The words of a command, and those with which the shell goes on: a pipe, a redirection or another command. A mark may stand at the end
/// of a word, as in `-g 4; ./all_gather_perf`.
fn split_command(mut words: Vec<String>) -> (Vec<String>, Vec<String>) {
    let begins = words.iter().position(|word| test(word).is_some()).unwrap_or(words.len());
    let is_redirection = |word: &str| word.trim_start_matches(['1', '2', '&']).starts_with('>');
    let mark = |word: &str| if is_redirection(word) { Some(0) } else { word.find(['|', '&', ';']) };
    let Some((at, mark)) = words.iter().enumerate().skip(begins).find_map(|(at, word)| Some((at, mark(word)?))) else {
        return (words, Vec::new());
    };
    let mut rest = words.split_off(at);
    if mark > 0 {
        let after = rest[0].split_off(mark);
        words.push(std::mem::replace(&mut rest[0], after));
    }
    (words, rest)
}

/// A factor of at most 1 does not count. With a larger one, nccl-tests does not look at the step in bytes.
fn sizes(options: &Options, guessed: &mut Vec<String>) -> anyhow::Result<Vec<u64>> {
    let step = match options.number('f')?.filter(|factor| *factor > 1) {
        Some(factor) => Step::Factor(factor),
        None => Step::Bytes(options.size('i')?.unwrap_or(STEP)),
    };
    let (from, to) = (options.size('b')?.unwrap_or(SIZE), options.size('e')?.unwrap_or(SIZE));
    if let Step::Bytes(0) = step {
        bail!("-i: `0` bytes between sizes, with which nccl-tests never ends");
    }
    if from > 0 {
        return Ok(Sizes { from, to, step }.list()?);
    }
    let Step::Bytes(from) = step else {
        bail!("-b: from 0 bytes no factor leads to another size, and nccl-tests never ends")
    };
    guessed.push(
        "the sizes after -b 0 that nccl-tests has by -i; the warm-up of its newer releases never ends".to_owned(),
    );
    let mut sizes = vec![0];
    if from <= to {
        sizes.extend(Sizes { from, to, step }.list()?);
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::nccl_tests::import;
    use collspec_core::oracle::Forecast;
    use collspec_core::plan::{Limits, plan};
    use collspec_core::scenario::{Case, SourceFile, parse};
    use std::sync::Arc;

    fn imported(line: &str) -> String {
        let text = import(&read(line).unwrap()).unwrap().text;
        let file = Arc::new(SourceFile { path: "imported.toml".into(), text: text.as_str().into() });
        let cases = parse(&file, "imported").unwrap_or_else(|rejected| panic!("{rejected}\n{text}"));
        let work = |case: Case| {
            let name = case.name.clone();
            let plan = plan(&Arc::new(case), &Limits::default());
            plan.unwrap_or_else(|error| panic!("{name}: {error:?}\n{text}")).cost.work
        };
        assert!(cases.into_iter().map(work).sum::<u64>() <= Limits::default().file_work, "{text}");
        text
    }

    #[test]
    fn a_line_becomes_a_sweep_and_a_bench() {
        let text = imported(
            "mpirun -np 2 -x NCCL_DEBUG=INFO NCCL_ALGO=Ring ./build/all_reduce_perf -b 8 -e 32 -f 2 -d bfloat16 -g 2 -G 1",
        );
        for line in [
            "# left out: mpirun -x NCCL_DEBUG=INFO -G 1",
            "world_size = 4",
            "env.NCCL_ALGO = \"Ring\"",
            "inputs = { each = \"(i + 3 * rank) % 17\", count = \"floor(bytes / 2)\" }",
            "matrix.bytes = [8, 16, 32]",
            "matrix.in_place = [false, true]",
            "dtype = [\"bf16\"]",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn a_line_is_read_as_a_shell_reads_it() {
        for line in [
            "export NCCL_ALGO=Ring; mpirun -np 4 ./all_reduce_perf -f 2",
            "export NCCL_ALGO=Ring;export NCCL_DEBUG=WARN && mpirun -np 4 ./all_reduce_perf -f 2",
            "(NCCL_ALGO=Ring mpirun -np 4 ./all_reduce_perf -f 2)",
            "srun -n 4 bash -c 'NCCL_ALGO=Ring ./all_reduce_perf -f 2'",
            "/bin/sh -lc \"NCCL_ALGO=Ring mpirun -np 4 ./all_reduce_perf -f 2\"",
        ] {
            let text = imported(line);
            for said in ["world_size = 4", "env.NCCL_ALGO = \"Ring\""] {
                assert!(text.lines().any(|found| found == said), "{line}\n{text}");
            }
        }
    }

    #[test]
    fn launchers_say_how_many_processes_there_are() {
        for before in
            ["srun -n16", "mpirun --np=16", "mpirun -np 16", "srun --ntasks 16", "torchrun --nproc-per-node=16"]
        {
            assert_eq!(read(&format!("{before} all_reduce_perf -g 2")).unwrap().ranks, 32, "{before}");
        }
    }

    #[test]
    fn a_count_of_processes_that_is_not_in_the_line_is_guessed() {
        for (before, processes, guess) in [
            ("srun -N2 --ntasks-per-node=8", 16, ""),
            ("srun --nodes 2 --ntasks-per-node 8 -n 12", 12, ""),
            ("torchrun --nnodes=2 --nproc-per-node=8", 16, ""),
            ("mpirun --host h1,h2 -N 8", 16, ""),
            ("mpiexec.hydra -hosts h1,h2 -ppn 8", 16, ""),
            ("/opt/bin/mpirun -H h1 --map-by ppr:4:node", 4, ""),
            ("mpirun --host h1:8,h2:8", 16, "16 processes"),
            ("mpirun -H h1,h2", 2, "2 processes"),
            ("srun -N4", 4, "one process on each of 4 nodes"),
            ("srun --ntasks-per-node=8", 8, "one node"),
            ("salloc -N2 srun --ntasks-per-node=4", 8, ""),
            ("nice -n 10 numactl -N 3 mpirun --n 4", 4, ""),
            ("mpirun -H h1:2 -H h2:2", 4, "4 processes"),
            ("srun -w h1,h2 --ntasks-per-node=4", 8, ""),
            ("mpirun --hostfile hosts", 2, "2 processes, because the line does not say how many mpirun starts"),
        ] {
            let read = read(&format!("{before} all_reduce_perf -g 1")).unwrap();
            assert_eq!((read.ranks, read.guessed.len()), (processes, usize::from(!guess.is_empty())), "{before}");
            assert!(read.guessed.concat().starts_with(guess), "{before}: {:?}", read.guessed);
        }
        assert_eq!(read("all_reduce_perf").unwrap().ranks, 2);
        assert_eq!(read("nice -n 10 all_reduce_perf -g 2").unwrap().ranks, 2);
        assert_eq!(read("all_reduce_perf -g 1").unwrap().ranks, 1);
    }

    #[test]
    fn sizes_are_those_that_nccl_tests_would_run() {
        let sizes = |options: &str| read(&format!("all_reduce_perf {options}")).unwrap().request.sizes.unwrap();
        assert_eq!(sizes(""), [32 << 20]);
        assert_eq!(sizes("-b 30M"), [30 << 20, 31 << 20, 32 << 20]);
        assert_eq!(sizes("-b 9 -e 3M"), [9, (1 << 20) + 9, (2 << 20) + 9]);
        assert_eq!(sizes("-b 9 -e 3M -f 1"), sizes("-b 9 -e 3M"));
        assert_eq!(sizes("-b 1k -e 1.5KB -i 256"), [1024, 1280, 1536]);
        assert_eq!(sizes("--minb=8 --maxbytes 64 -f 2 -i 8 -f4"), [8, 32]);
    }

    #[test]
    fn numbers_are_read_as_nccl_tests_reads_them() {
        let of = |options: &str| read(&format!("all_reduce_perf {options}")).unwrap();
        let told = |read: &Command| read.guessed.join("; ");
        let read = of("-g 0x2 -b 8 -e 2097160 -f 1.5");
        assert_eq!((read.ranks, read.request.sizes.as_deref()), (2, Some(&[8, (1 << 20) + 8, (2 << 20) + 8][..])));
        assert_eq!(told(&read), "-f 1, which is all that nccl-tests reads of `1.5`");
        assert_eq!(of("-g 010 -t 2").ranks, 16);
        assert_eq!(of("-g 2 -b 0x400 -e 1e3K -f 0x10").request.sizes.unwrap(), [1 << 10, 1 << 14, 1 << 18]);
        assert_eq!(of("-g 2 -b '1 K' -e 1024").request.sizes.unwrap(), [1024]);
        assert!(matches!(of("-g 2 -r ' -1'").request.roots, Some(Roots::All)));
        let read = of("-g 2 -b 0 -e 3M");
        assert_eq!(read.request.sizes.as_deref(), Some(&[0, 1 << 20, 2 << 20, 3 << 20][..]));
        assert!(told(&read).starts_with("the sizes after -b 0 "), "{read:?}");
        for (count, iterations) in [("0", None), ("-5", None), ("100001", None), ("0x10", Some(16))] {
            let read = of(&format!("-g 2 -b 8 -e 8 -n {count}"));
            assert_eq!(read.request.iterations, iterations, "{count}");
            assert_eq!(told(&read).starts_with("as many iterations as [bench] has by itself"), iterations.is_none());
            assert!(import(&read).is_ok(), "{count}");
        }
        assert!(told(&of("-g 2 -d bf16")).starts_with("bf16, which is no name of nccl-tests"));
    }

    #[test]
    fn a_line_may_go_on_in_the_shell_and_have_jobs_named_like_tests() {
        let line =
            "srun -J all_reduce_perf -n 4 ./all_gather_perf -g 1 2>&1 | tee -a log && ./all_reduce_perf -e 1G -g 8";
        let line = read(line).unwrap();
        assert_eq!((line.operation, line.ranks), (Operation::AllGather, 4));
        let left_out = "srun -J all_reduce_perf 2>&1 | tee -a log && ./all_reduce_perf -e 1G -g 8";
        assert_eq!(line.left_out.join(" "), left_out);
        let line = read("./all_reduce_perf -b 8 -e 8 -g 4; ./all_gather_perf -b 1K -e 1K -g 8").unwrap();
        assert_eq!((line.ranks, line.left_out.join(" ").as_str()), (4, "; ./all_gather_perf -b 1K -e 1K -g 8"));
        assert_eq!(read("srun -n 4 --job-name gather all_reduce_perf -g 1").unwrap().operation, Operation::AllReduce);
        assert_eq!(read("srun -J job -n 4 -p reduce all_gather_perf -g 1").unwrap().operation, Operation::AllGather);
    }

    /// The scenario, and what the oracle says against the first case that cannot be judged.
    fn checked(line: &str) -> (String, Option<String>) {
        let text = imported(line);
        let file = Arc::new(SourceFile { path: "imported.toml".into(), text: text.as_str().into() });
        let refused = parse(&file, "imported").unwrap().into_iter().find_map(|case| {
            let plan = plan(&Arc::new(case), &Limits::default()).unwrap();
            Some(Forecast::new(&plan, 0).err()?.remove(0).message)
        });
        (text, refused)
    }

    #[test]
    fn what_is_imported_can_be_judged() {
        for (line, left_out) in [
            ("all_reduce_perf -o prod -d f8e4m3 -g 16", ""),
            ("reduce_perf -o prod -d f8e5m2 -g 100 -r 7", ""),
            ("all_reduce_perf -o prod -d bfloat16 -g 256", ""),
            ("all_reduce_perf -o all -d float -g 300", ""),
            ("all_reduce_perf -o all -d half -g 9", ""),
            ("all_reduce_perf -o avg -d all -g 11", "avg of 11 ranks' f8e4m3, f8e5m2"),
            ("reduce_scatter_perf -d all -o all -g 16", ""),
            ("reduce_scatter_perf -d all -o all -g 8", ""),
            ("all_reduce_perf -o all -d f8e4m3 -g 12", "avg of 12 ranks' f8e4m3"),
        ] {
            let (text, refused) = checked(&format!("{line} -b 1K -e 1K"));
            assert_eq!(refused, None, "{line}\n{text}");
            let told = text.lines().find_map(|line| line.strip_prefix("# left out of the cases: ")).unwrap_or_default();
            assert!(told.starts_with(left_out) && told.is_empty() == left_out.is_empty(), "{line}: {told}");
        }
        let text = imported("all_reduce_perf -d all -o all -g 16 -b 1K -e 2K -f 2");
        assert!(
            text.lines().any(|line| line.starts_with("f8e4m3_prod = { dtype = \"f8e4m3\", reduce = \"prod\", ")),
            "{text}"
        );
    }

    #[test]
    fn what_cannot_be_judged_at_all_is_told() {
        let (text, refused) = checked("all_reduce_perf -o avg -d f8e5m2 -g 12 -b 1K -e 1K");
        let told = "# check refuses this: avg of 12 ranks' f8e5m2, which round so often that no result can be judged";
        assert!(refused.is_some() && text.lines().any(|line| line == told), "{text}");
    }

    #[test]
    fn every_option_of_nccl_tests_is_read() {
        let options = "-p 1 -c 5 -z 3 -y 1 -T 9 -C 1 -S 1 -J a.json -a 3 -x 2 -D 1 -V 32 -M 1 -I 1 -K 2 -m 4 -N 0 -G 2";
        let read = read(&format!("all_reduce_perf_mpi -b 8 -e 8 -g 2 {options}")).unwrap();
        assert_eq!(read.left_out.join(" "), options);
        assert!(read.guessed.concat().contains("with -D nccl-tests calls kernels of its own"), "{:?}", read.guessed);
    }

    #[test]
    fn buffers_are_registered_and_begin_as_the_line_says() {
        for program in [
            "all_reduce",
            "all_gather",
            "reduce_scatter",
            "gather",
            "scatter",
            "alltoall",
            "sendrecv",
            "reduce",
            "broadcast",
        ] {
            for (option, key) in
                [("-R 1", "register = \"local\""), ("-R 2", "register = \"window\""), ("-u 3", "offset = 3")]
            {
                let text = imported(&format!("{program}_perf -b 1K -e 2K -f 2 -g 4 {option}"));
                assert!(text.lines().any(|line| line == key), "{option}\n{text}");
            }
        }
        assert!(!imported("all_reduce_perf -b 8 -e 8 -R 0").contains("register"));
        // In place, only the root's input and output would be in one window.
        for (program, has_cases_in_place) in
            [("gather", false), ("scatter", false), ("all_gather", true), ("reduce", true)]
        {
            let text = imported(&format!("{program}_perf -b 1K -e 1K -g 4 -R 2"));
            assert_eq!(text.contains("\nmatrix.in_place"), has_cases_in_place, "{text}");
            assert_eq!(text.contains("\n# left out: cases in place"), !has_cases_in_place, "{text}");
        }
    }

    #[test]
    fn cases_are_of_a_smaller_size_where_all_cost_too_much() {
        let text = imported("srun -N2 --ntasks-per-node=8 all_gather_perf -b 512M -e 8G -f 2 -g 1");
        assert!(text.contains("\nworld_size = 16\n") && text.contains("# guessed: cases of "), "{text}");
        assert!(text.contains("bytes = [536870912, 1073741824,"), "{text}");
    }

    #[test]
    fn sizes_that_cost_too_much_for_a_case_are_measured_only() {
        let text = imported("./build/all_reduce_perf -b 8 -e 16G -f 2 -g 8");
        assert!(text.contains("left out of the cases: ") && text.contains(", 17179869184]"), "{text}");
    }

    #[test]
    fn sizes_that_cost_too_much_for_a_file_are_measured_only() {
        let text = imported("all_reduce_perf -b 1M -e 64M -i 256K -g 8");
        assert!(text.contains("left out of the cases: ") && text.contains(", 67108864]"), "{text}");
    }

    #[test]
    fn what_planning_refuses_at_every_size_is_told_as_planning_says_it() {
        for (line, words) in
            [("all_reduce_perf -b 8 -e 8 -g 5000", "5000 ranks"), ("broadcast_perf -b 8 -e 8 -g 4 -r 4", "root")]
        {
            let error = import(&read(line).unwrap()).unwrap_err().to_string();
            assert!(error.contains(words), "{line}: {error}");
        }
    }

    #[test]
    fn a_line_without_elements_says_how_many_bytes_one_takes() {
        let error = import(&read("all_gather_perf -b 4 -e 4 -g 4 -d double").unwrap()).unwrap_err().to_string();
        assert!(error.ends_with("which takes 64 bytes"), "{error}");
    }

    #[test]
    fn sizes_without_elements_are_told() {
        let text = imported("all_gather_perf -b 16 -e 1K -f 2 -g 8");
        let told = "# left out: 3 sizes without an element of each type on each rank";
        assert!(text.lines().any(|line| line == told), "{text}");
    }

    #[test]
    fn every_program_and_every_list_is_a_scenario() {
        for program in
            ["all_gather", "reduce_scatter", "gather", "scatter", "alltoall", "sendrecv", "reduce", "broadcast"]
        {
            let text = imported(&format!("{program}_perf -b 64 -e 1K -f 4 -d all -o all -r -1 -t 3"));
            assert!(text.contains("f8e5m2 = { dtype = \"f8e5m2\", inputs = "), "{text}");
        }
    }

    #[test]
    fn a_line_that_is_not_understood_is_an_error() {
        for (line, words) in [
            ("", "no program"),
            ("all_reduce_perf 'x", "quotes"),
            ("mpirun -np 0 all_reduce_perf", "`0` is not a number"),
            ("mpirun -np many all_reduce_perf", "`many` is not a number"),
            ("all_reduce_perf --frobnicate", "frobnicate"),
            ("all_reduce_perf -b 8M -e 8", "smaller"),
            ("all_reduce_perf -e 8", "smaller"),
            ("all_reduce_perf -b 8 -i 0", "-i: `0`"),
            ("all_reduce_perf -b 0 -f 2", "-b: from 0 bytes"),
            ("all_reduce_perf -b -1", "`-1`"),
            ("all_reduce_perf -g -2", "-2"),
            ("all_reduce_perf -b 8 -e 8Q", "`8Q`"),
            ("all_reduce_perf -k 8", "-k"),
            ("all_reduce_perf -b", "missing"),
            ("all_reduce_perf --per_iter 1", "--per_iter_timing or --per_iter_skip"),
            ("all_reduce_perf -d f12", "f12"),
            ("all_reduce_perf -g two", "two"),
            ("hypercube_perf -g 4", "no single step"),
            ("alltoallv_perf_mpi -g 4", "no single step"),
            ("all_reduce_perf -t 99999999999 -g 99999999999", "too many ranks"),
        ] {
            let error = read(line).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(words), "{line}: {error}");
        }
    }
}
