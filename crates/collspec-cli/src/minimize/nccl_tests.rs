//! The nccl-tests command that is nearest to a case.
use collspec_core::plan::{self, Limits};
use collspec_core::scenario::{Case, EnvValue, all_steps};
use collspec_suite::report::shell;
use std::sync::Arc;

/// The programs of nccl-tests by the word of an operation.
const PROGRAMS: [(&str, &str); 9] = [
    ("all_reduce", "all_reduce_perf"),
    ("all_gather", "all_gather_perf"),
    ("reduce_scatter", "reduce_scatter_perf"),
    ("broadcast", "broadcast_perf"),
    ("reduce", "reduce_perf"),
    ("all_to_all", "alltoall_perf"),
    ("gather", "gather_perf"),
    ("scatter", "scatter_perf"),
    ("send_recv", "sendrecv_perf"),
];

/// The names of types in nccl-tests.
const TYPES: [(&str, &str); 12] = [
    ("i8", "int8"),
    ("u8", "uint8"),
    ("i32", "int32"),
    ("u32", "uint32"),
    ("i64", "int64"),
    ("u64", "uint64"),
    ("f16", "half"),
    ("f32", "float"),
    ("f64", "double"),
    ("bf16", "bfloat16"),
    ("f8e4m3", "f8e4m3"),
    ("f8e5m2", "f8e5m2"),
];

/// The command for the case's last operation that nccl-tests has; `None` if it has none of them. Its buffer contents differ.
pub fn nearest_command(case: &Arc<Case>) -> Option<String> {
    let known = all_steps(&case.steps).filter_map(|step| {
        let (_, program) = PROGRAMS.iter().find(|(name, _)| *name == step.op.name)?;
        Some((step, program))
    });
    let (step, program) = known.last()?;
    let plan = plan::plan(case, &Limits::default()).ok()?;
    let name = step.output().or(step.input()).map(|buffer| buffer.name.as_str());
    let output = plan.buffers.iter().find(|buffer| Some(buffer.name.as_str()) == name).or(plan.buffers.last())?;
    let count = output.places.iter().flatten().map(|place| place.count).max()?;
    // The size is that of the larger of a call's two buffers.
    let larger = if step.op.name == "reduce_scatter" { count * plan.n as u64 } else { count };
    let bytes = larger.max(1) * output.dtype.size() as u64;
    let dtype = TYPES.iter().find(|(name, _)| *name == output.dtype.name()).map_or("float", |(_, name)| name);
    let mut words: Vec<String> = Vec::new();
    for variable in &case.env {
        if let EnvValue::All(value) = &variable.value {
            words.push(format!("{}={}", variable.name.value, shell::quote_if_needed(value)));
        }
    }
    words.push(format!("{program} -b {bytes} -e {bytes} -g {} -d {dtype} -c 1 -w 0 -n 1", plan.n));
    Some(words.join(" "))
}
