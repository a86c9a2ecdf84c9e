//! What a plan asks of the library or the devices and they cannot do: known beforehand, so a reason to skip.
use super::machine::Machine;
use crate::backend::version_text;
use crate::num::DType;
use crate::ops::NcclCall;
use crate::plan::Plan;
use crate::worker::job::{Red, What};
use nccl_sys::{Nccl, release};

/// Compute capability from which on 8-bit floats are added and compared.
const REDUCES_FP8: (u32, u32) = (9, 0);

/// The first thing that is missing.
pub fn lacking(plan: &Plan, machine: &Machine) -> Option<String> {
    let calls = plan.prelude.iter().chain(&plan.programs).flatten();
    calls.map(|call| &call.what).find_map(|what| function(what, machine).or_else(|| dtype(what, machine, plan.n)))
}

fn function(what: &What, machine: &Machine) -> Option<String> {
    let has = |name: &&str| machine.probed.symbols.iter().any(|symbol| symbol == name);
    let missing = needs(what, &|name| has(&name)).into_iter().find(|name| !has(name))?;
    let since = Nccl::SYMBOLS.iter().find(|(name, _)| *name == missing).map_or("?", |(_, since)| since);
    let version = version_text(machine.probed.version);
    let older = release(since).is_some_and(|code| machine.probed.version < code);
    let this =
        if older { format!("this is {version}") } else { format!("this library, NCCL {version}, does not have it") };
    Some(format!("needs {missing} (since NCCL {since}); {this}"))
}

/// Functions that a call uses.
fn needs(what: &What, has: &dyn Fn(&str) -> bool) -> Vec<&'static str> {
    // without a call of their own these are groups of sends and receives
    let or_pairs = |name| if has(name) { vec![name] } else { vec!["ncclSend", "ncclRecv"] };
    match what {
        What::Collective { call, red, .. } => {
            let mut names = match call {
                NcclCall::AllReduce => vec!["ncclAllReduce"],
                NcclCall::Reduce => vec!["ncclReduce"],
                NcclCall::Broadcast => vec!["ncclBroadcast"],
                NcclCall::AllGather => vec!["ncclAllGather"],
                NcclCall::ReduceScatter => vec!["ncclReduceScatter"],
                NcclCall::AlltoAll => or_pairs("ncclAlltoAll"),
                NcclCall::Gather => or_pairs("ncclGather"),
                NcclCall::Scatter => or_pairs("ncclScatter"),
            };
            if matches!(red, Red::PreMulSum { .. }) {
                names.extend(["ncclRedOpCreatePreMulSum", "ncclRedOpDestroy"]);
            }
            names
        }
        What::Send { .. } => vec!["ncclSend"],
        What::Recv { .. } => vec!["ncclRecv"],
        What::GroupStart => vec!["ncclGroupStart"],
        What::GroupEnd => vec!["ncclGroupEnd"],
        What::Init { config: None, .. } => vec!["ncclGetUniqueId", "ncclCommInitRank"],
        What::Init { config: Some(_), .. } => vec!["ncclGetUniqueId", "ncclCommInitRankConfig"],
        What::Split { .. } => vec!["ncclCommSplit"],
        What::Finalize { .. } => vec!["ncclCommFinalize"],
        What::Destroy { .. } => vec!["ncclCommDestroy"],
        What::Abort { .. } => vec!["ncclCommAbort"],
        _ => Vec::new(),
    }
}

fn dtype(what: &What, machine: &Machine, ranks: usize) -> Option<String> {
    let (dtype, reduces) = match what {
        What::Collective { dtype, red, .. } => (*dtype, *red != Red::None),
        What::Send { dtype, .. } | What::Recv { dtype, .. } => (*dtype, false),
        _ => return None,
    };
    let since = match dtype {
        DType::F8e4m3 | DType::F8e5m2 => "2.24",
        DType::Bf16 => "2.10",
        _ => return None,
    };
    let name = dtype.name();
    if release(since).is_some_and(|code| machine.probed.version < code) {
        return Some(format!("needs {name} (since NCCL {since}); this is {}", version_text(machine.probed.version)));
    }
    let least = machine.used(ranks).iter().map(|device| device.compute).min()?;
    let small = matches!(dtype, DType::F8e4m3 | DType::F8e5m2);
    (small && reduces && least < REDUCES_FP8).then(|| {
        let ((a, b), (c, d)) = (REDUCES_FP8, least);
        format!("reductions of {name} need GPUs of compute capability {a}.{b}; the least here is {c}.{d}")
    })
}
