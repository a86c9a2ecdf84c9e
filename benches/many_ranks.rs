//! What a case of more ranks than can be run costs the process that judges: planning, working out what is expected, and the shares of
//! the job for processes of eight ranks each. Nothing runs.
//!
//! Run it with `cargo bench --bench many_ranks`; docs/measurements.md says what follows. The figures are of one run on one machine.
mod measure;

use collspec_core::oracle::Forecast;
use collspec_core::plan::{Limits, plan};
use collspec_core::scenario::{Case, SourceFile, parse};
use collspec_run::job::{Share, wire};
use collspec_run::run::{MemoryPlace, job};
use measure::{MIB, head, peak_during, row, time};
use std::sync::Arc;
use std::time::Instant;

/// Ranks of a process, as GPUs of a machine.
const EACH: usize = 8;

fn main() {
    println!("{}\n", measure::machine());
    println!(
        "{}",
        head(&[
            "operation",
            "ranks",
            "plan",
            "forecast",
            "shares",
            "bytes of all shares",
            "bytes of the largest",
            "most memory"
        ])
    );
    for (operation, count, most) in [
        ("all_reduce", "4", 24_576),
        ("all_reduce", "16384", 24_576),
        ("broadcast", "4", 24_576),
        ("reduce_scatter", "n", 24_576),
        // What these two expect grows with the square of the ranks.
        ("all_gather", "1", 4096),
        ("all_to_all", "n", 4096),
    ] {
        for ranks in [1024, 4096, 24_576].into_iter().filter(|ranks| *ranks <= most) {
            let count = if count == "n" { ranks.to_string() } else { count.to_owned() };
            let (most_memory, cells) = peak_during(|| cells(&case(operation, ranks, &count), ranks));
            let mut all = vec![format!("{operation} of {count}"), ranks.to_string()];
            all.extend(cells);
            all.push(format!("{} MiB", most_memory / MIB));
            println!("{}", row(&all));
        }
    }
}

fn case(operation: &str, ranks: usize, count: &str) -> Arc<Case> {
    let text = format!(
        "world_size = {ranks}\nop = \"{operation}\"\ninputs = {{ each = \"(97 * rank + i) % 251\", count = {count} }}\n"
    );
    let file = Arc::new(SourceFile { path: "many.toml".into(), text: text.into() });
    Arc::new(parse(&file, "many").unwrap_or_else(|faults| panic!("{faults}")).remove(0))
}

fn cells(case: &Arc<Case>, ranks: usize) -> Vec<String> {
    let limits = Limits { ranks, calls: usize::MAX, memory: u64::MAX, work: u64::MAX, ..Limits::default() };
    let begun = Instant::now();
    let plan = plan(case, &limits).expect("a plan");
    let planned = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let forecast = Forecast::new(&plan, 0).expect("a forecast");
    let foreseen = begun.elapsed().as_secs_f64();
    let (job, _) = job(&plan, &forecast, MemoryPlace::Arena);
    let begun = Instant::now();
    let parts: Vec<_> = (0..ranks / EACH).map(|part| (part * EACH) as u32..((part + 1) * EACH) as u32).collect();
    let (mut all, mut largest) = (0, 0);
    for share in Share::of_all(&job, &parts) {
        let mut bytes = Vec::new();
        wire::put(&mut bytes, &share).expect("a message");
        (all, largest) = (all + bytes.len(), largest.max(bytes.len()));
    }
    let shared = begun.elapsed().as_secs_f64();
    vec![time(planned), time(foreseen), time(shared), all.to_string(), largest.to_string()]
}
