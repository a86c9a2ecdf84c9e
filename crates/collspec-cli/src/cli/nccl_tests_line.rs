//! Reads a command line of nccl-tests.
use super::bench_args::{BenchArgs, operation};
use crate::bench::Request;
use crate::import::nccl_tests::Command;
use anyhow::{Context, bail};
use clap::{Args as ClapArgs, Parser};
use std::num::NonZeroUsize;

/// The options of nccl-tests: those that `collspec bench` has, and the others.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, name = "nccl-tests")]
struct Options {
    #[command(flatten)]
    bench: BenchArgs,
    #[command(flatten)]
    others: OtherOptions,
}

/// What decides the number of ranks, or has no meaning for a scenario.
#[derive(Debug, ClapArgs)]
struct OtherOptions {
    #[arg(long = "nthreads", short = 't', default_value = "1")]
    threads: usize,
    #[arg(long = "agg_iters", short = 'm')]
    aggregated: Option<String>,
    #[arg(long = "run_cycles", short = 'N')]
    cycles: Option<String>,
    #[arg(long = "parallel_init", short = 'p')]
    parallel_init: Option<String>,
    #[arg(long = "blocking", short = 'z')]
    blocking: Option<String>,
    #[arg(long = "stream_null", short = 'y')]
    null_stream: Option<String>,
    #[arg(long = "cudagraph", short = 'G')]
    graph: Option<String>,
    #[arg(long = "report_cputime", short = 'C')]
    cpu_time: Option<String>,
    #[arg(long = "local_register", short = 'R')]
    register: Option<String>,
}

/// The line, with a launcher and variables before the program.
///
/// # Errors
///
/// The line does not name a program of nccl-tests, or has an option that these programs do not have.
pub fn read(line: &str) -> anyhow::Result<Command> {
    let words = shlex::split(line).context("the quotes do not match")?;
    let named = |word: &String| operation(word.rsplit('/').next().unwrap_or(word));
    let at = words.iter().position(|word| named(word).is_some());
    let at = at.context("no program of nccl-tests is named, such as all_reduce_perf")?;
    let (before, options) = (&words[..at], &words[at..]);
    let Some(program) = named(&words[at]) else { bail!("no program of nccl-tests is named") };
    let parsed = Options::try_parse_from(options).map_err(|error| {
        // Its first line says what is wrong; the others are about a command that does not exist.
        let text = error.to_string();
        anyhow::anyhow!("{}", text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned())
    })?;
    let request = parsed.bench.request()?;
    let mut left_out = Vec::new();
    let (mut processes, mut algorithm, mut protocol) = (1, None, None);
    let mut words = before.iter();
    while let Some(word) = words.next() {
        match word.split_once('=') {
            Some(("NCCL_ALGO", value)) => algorithm = Some(value.to_owned()),
            Some(("NCCL_PROTO", value)) => protocol = Some(value.to_owned()),
            Some((option, value)) if PROCESSES.contains(&option) => processes = number(word, value)?,
            _ if PROCESSES.contains(&word.as_str()) => {
                processes = number(word, words.next().map_or("", String::as_str))?;
            }
            _ => match word.strip_prefix("-np").or_else(|| word.strip_prefix("-n")).map(str::parse::<NonZeroUsize>) {
                Some(Ok(count)) => processes = count.get(),
                _ => left_out.push(word.clone()),
            },
        }
    }
    let OtherOptions { threads, aggregated, cycles, parallel_init, blocking, null_stream, graph, cpu_time, register } =
        parsed.others;
    let others = [
        ("-m", aggregated),
        ("-N", cycles),
        ("-p", parallel_init),
        ("-z", blocking),
        ("-y", null_stream),
        ("-G", graph),
        ("-C", cpu_time),
        ("-R", register),
    ];
    left_out.extend(others.into_iter().filter_map(|(option, value)| Some(format!("{option} {}", value?))));
    let gpus = request.ranks.as_ref().and_then(|ranks| ranks.first()).copied();
    let ranks = gpus.unwrap_or(1).checked_mul(threads).and_then(|ranks| ranks.checked_mul(processes));
    let said = gpus.is_some() || threads > 1 || processes > 1;
    let mut request = Request { sizes: request.sizes.or_else(|| crate::bench::SIZES.list().ok()), ..request };
    request.algorithms = algorithm.map(|value| vec![Some(value)]).or(request.algorithms);
    request.protocols = protocol.map(|value| vec![Some(value)]).or(request.protocols);
    let ranks = if said { Some(ranks.context("there are too many ranks")?) } else { None };
    Ok(Command { line: line.to_owned(), operation: program, ranks, request, left_out })
}

/// The options of mpirun, srun and torchrun for the number of processes.
const PROCESSES: [&str; 6] = ["-np", "--np", "-n", "--ntasks", "--nproc-per-node", "--nproc_per_node"];

fn number(option: &str, value: &str) -> anyhow::Result<usize> {
    let count = value.parse().ok().filter(|count| *count > 0);
    count.with_context(|| format!("{option}: `{value}` is not a number of processes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::nccl_tests::import;
    use collspec_core::plan::{Limits, plan};
    use collspec_core::scenario::{SourceFile, parse};
    use std::sync::Arc;

    fn imported(line: &str) -> String {
        let text = import(&read(line).unwrap()).unwrap().text;
        let file = Arc::new(SourceFile { path: "imported.toml".into(), text: text.as_str().into() });
        let cases = parse(&file, "imported").unwrap_or_else(|rejected| panic!("{rejected}\n{text}"));
        for case in cases {
            let name = case.name.clone();
            plan(&Arc::new(case), &Limits::default()).unwrap_or_else(|error| panic!("{name}: {error:?}\n{text}"));
        }
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
    fn launchers_say_how_many_processes_there_are() {
        for before in
            ["srun -n16", "mpirun --np=16", "mpirun -np 16", "srun --ntasks 16", "torchrun --nproc-per-node=16"]
        {
            assert_eq!(read(&format!("{before} all_reduce_perf -g 2")).unwrap().ranks, Some(32), "{before}");
        }
    }

    #[test]
    fn sizes_that_cost_too_much_for_a_case_are_measured_only() {
        let text = imported("./build/all_reduce_perf -b 8 -e 16G -f 2 -g 8");
        assert!(text.contains("left out of the cases: ") && text.contains(", 17179869184]"), "{text}");
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
            ("all_reduce_perf -t 99999999999 -g 99999999999", "too many ranks"),
        ] {
            let error = read(line).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(words), "{line}: {error}");
        }
    }
}
