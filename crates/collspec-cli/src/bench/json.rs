//! The results as JSON with the fields of nccl-tests (`-J`, version 2 of its format). Data that nccl-tests does not have is under
//! the key `collspec`.
use super::counts::NOTE;
use super::line::Line;
use super::operation::type_name;
use super::result::{RowResult, average_bus_bandwidth};
use super::sampler::Timing;
use chrono::DateTime;
use serde_json::{Value, json};

/// The version of nccl-tests' format.
const VERSION: u32 = 2;

/// The file's contents other than its rows.
#[derive(Clone, Debug)]
pub struct JsonFrame {
    /// The start of the first sample and the end of the last one, in seconds since 1970.
    pub time: (u64, u64),
    /// The words of the command line.
    pub args: Vec<String>,
    /// Variables that affect the library, as NAME=VALUE.
    pub env: Vec<String>,
    /// NCCL's version code.
    pub version: i32,
    /// A description of the library.
    pub library: String,
    /// The way rows were timed.
    pub timing: Timing,
    /// The clock that measures times; `None` if work is counted instead.
    pub clock: Option<&'static str>,
    /// Number of samples that were planned.
    pub samples: usize,
    /// Descriptions of each rank's device.
    pub devices: Vec<String>,
}

/// Builds the complete JSON file.
pub fn json(frame: &JsonFrame, results: &[RowResult]) -> Value {
    let failed = results.iter().any(RowResult::failed);
    let bandwidth = || json!({ "bandwidth": average_bus_bandwidth(results), "okay": "unchecked" });
    let wrong: u64 = results.iter().filter_map(|result| result.wrong).fold(0, u64::saturating_add);
    json!({
        "version": VERSION,
        "start_time": date(frame.time.0),
        "args": frame.args,
        "env": frame.env,
        "nccl_version": frame.version,
        "config": config(frame, results),
        "results": Line::of(results).into_iter().filter_map(|line| line_json(frame, line)).collect::<Vec<_>>(),
        "out_of_bounds": { "count": wrong, "okay": (!failed).to_string() },
        "average_bus_bandwidth": frame.clock.map(|_| bandwidth()),
        "end_time": date(frame.time.1),
        "collspec": {
            "library": frame.library,
            "samples": frame.samples,
            "clock": frame.clock,
            "over_ranks": frame.timing.over_ranks,
            "counts": frame.clock.is_none().then_some(NOTE),
        },
    })
}

fn config(frame: &JsonFrame, results: &[RowResult]) -> Value {
    let sizes = || results.iter().map(|result| result.row.bytes);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let device = |(rank, info): (usize, &String)| {
        json!({
            "rank": rank,
            "group": 0,
            "pid": std::process::id(),
            "hostname": host.trim(),
            "device": rank,
            "device_hex": "",
            "device_info": info,
        })
    };
    json!({
        "nthreads": 1,
        "ngpus": frame.devices.len(),
        "minimum_bytes": sizes().min().unwrap_or(0),
        "maximum_bytes": sizes().max().unwrap_or(0),
        "warmup_iters": frame.timing.warm_up,
        "iterations": frame.timing.iterations,
        "aggregated_iterations": 1,
        "validation": u8::from(frame.timing.verify),
        "graph": 0,
        "blocking_collectives": "false",
        "parallel_init": "false",
        "devices": frame.devices.iter().enumerate().map(device).collect::<Vec<_>>(),
    })
}

fn line_json(frame: &JsonFrame, line: Line<'_>) -> Option<Value> {
    let row = line.row()?;
    Some(json!({
        "size": row.bytes,
        "count": row.count(),
        "type": type_name(row.dtype),
        "redop": row.reduction.map_or("none", |reduction| reduction.name()),
        "root": row.root.map_or_else(|| "-1".to_owned(), |root| root.to_string()),
        "out_of_place": line.out_of_place.map(place),
        "in_place": line.in_place.map(place),
        "actual_iterations": frame.timing.iterations,
        "experiment_name": row.operation.name(),
        "collspec": {
            "ranks": row.ranks,
            "algorithm": row.algorithm,
            "protocol": row.protocol,
            "out_of_place": line.out_of_place.map(spread),
            "in_place": line.in_place.map(spread),
        },
    }))
}

fn place(result: &RowResult) -> Value {
    if let Some(work) = result.work {
        return json!({
            "instructions": work.instructions,
            "bytes_loaded": work.loaded,
            "bytes_stored": work.stored,
            "launches": work.launches,
            "blocks": work.blocks,
            "nwrong": result.wrong,
        });
    }
    let seconds = result.seconds();
    json!({
        "time": seconds.map(|seconds| seconds * 1e6),
        "alg_bw": seconds.map(|seconds| result.row.algorithm_bandwidth(seconds)),
        "bus_bw": seconds.map(|seconds| result.row.bus_bandwidth(seconds)),
        "nwrong": result.wrong,
    })
}

fn spread(result: &RowResult) -> Value {
    if result.work.is_some() {
        return json!({ "varies": result.varies, "failed": result.trouble, "skipped": result.skipped });
    }
    let us = |seconds: f64| seconds * 1e6;
    json!({
        "samples_us": result.samples.iter().copied().map(us).collect::<Vec<_>>(),
        "median_us": result.seconds().map(us),
        "interval_us": result.interval.map(|interval| [us(interval.low), us(interval.high)]),
        "cv_pct": result.variation().map(|variation| variation * 100.0),
        "noisy": result.is_noisy(),
        "bimodal": result.is_bimodal(),
        "failed": result.trouble,
        "skipped": result.skipped,
    })
}

/// `2026-11-22 12:00:00`, in UTC.
fn date(seconds: u64) -> String {
    let date = i64::try_from(seconds).ok().and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    date.map_or_else(String::new, |date| date.format("%Y-%m-%d %H:%M:%S").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::operation::{Operation, Reduction};
    use crate::bench::row::Row;
    use crate::bench::sample::{OverRanks, RowOutcome, RowSample};
    use collspec_core::num::DType;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00:00");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(date(1_795_348_799), "2026-11-22 11:59:59");
    }

    /// The fields that readers of nccl-tests' files use, with their names and types there.
    #[test]
    fn the_fields_are_those_of_nccl_tests() {
        let row = Row {
            operation: Operation::AllReduce,
            reduction: Some(Reduction::Sum),
            dtype: DType::Bf16,
            algorithm: None,
            protocol: Some("LL".into()),
            ranks: 2,
            root: None,
            bytes: 1_000_000,
            in_place: false,
        };
        let outcome = |seconds| RowOutcome::Timed { seconds, iterations: vec![], wrong: Some(0), finding: None };
        let sample = |seconds| vec![RowSample { row: row.clone(), outcome: outcome(seconds) }];
        let results = RowResult::of(std::slice::from_ref(&row), &[sample(1e-3), sample(3e-3), sample(2e-3)]);
        let timing = Timing { warm_up: 1, iterations: 7, over_ranks: OverRanks::Mean, verify: true };
        let frame = JsonFrame {
            time: (0, 1),
            args: vec!["collspec".into()],
            env: vec![],
            version: 23_007,
            library: "soft".into(),
            timing,
            clock: Some("host"),
            samples: 3,
            devices: vec!["d".into(); 2],
        };
        let file = json(&frame, &results);
        assert_eq!(file["version"], 2);
        assert_eq!(file["nccl_version"], 23_007);
        assert_eq!(file["config"]["ngpus"], 2);
        assert_eq!(file["config"]["devices"][1]["rank"], 1);
        let first = &file["results"][0];
        assert_eq!((&first["size"], &first["count"]), (&json!(1_000_000), &json!(500_000)));
        assert_eq!(
            (&first["type"], &first["redop"], &first["root"]),
            (&json!("bfloat16"), &json!("sum"), &json!("-1"))
        );
        assert_eq!(first["out_of_place"], json!({ "time": 2000.0, "alg_bw": 0.5, "bus_bw": 0.5, "nwrong": 0 }));
        assert_eq!((&first["in_place"], &first["actual_iterations"]), (&Value::Null, &json!(7)));
        assert_eq!(first["collspec"]["out_of_place"]["samples_us"], json!([1000.0, 3000.0, 2000.0]));
        assert_eq!(file["average_bus_bandwidth"]["bandwidth"], 0.5);
        assert_eq!(file["out_of_bounds"], json!({ "count": 0, "okay": "true" }));
    }
}
