//! What a plan needs and the library or the devices lack. It is known before the case runs, so the case is skipped.
use super::rank_devices::RankDevices;
use crate::backend::version_text;
use crate::job::{CallKind, Red};
use crate::plan::Plan;
use crate::run::Machine;
use crate::scenario::Placement;
use nccl_sys::{ConfigField, Nccl, release};

/// Compute capability from which on 8-bit floats are added and compared.
const REDUCES_FP8: (u32, u32) = (9, 0);

const GROUP: [&str; 2] = ["ncclGroupStart", "ncclGroupEnd"];
/// What takes the place of a call that the library does not have, in a group.
const PAIRS: [&str; 4] = ["ncclSend", "ncclRecv", "ncclCommCount", "ncclCommUserRank"];

/// The first thing that is missing.
pub fn missing_feature(plan: &Plan, machine: &Machine, devices: &RankDevices<'_>) -> Option<String> {
    let has = |name: &str| machine.probed.symbols.iter().any(|symbol| symbol == name);
    // one thread makes the calls of all ranks, which only groups allow; communicators are destroyed after every case
    let grouped: &[_] = if plan.case.placement == Placement::OneThread { &GROUP } else { &[] };
    let always = grouped.iter().chain(&["ncclCommDestroy"]).copied().find(|name| !has(name));
    let calls = plan.prelude.iter().chain(&plan.programs).flatten();
    let mut kinds = calls.map(|call| call.kind.inner());
    always.map(|name| function(name, machine)).or_else(|| {
        kinds.find_map(|kind| {
            let missing = needs(kind, &has).into_iter().find(|name| !has(name));
            let missing = missing.map(|name| function(name, machine));
            missing.or_else(|| field(kind, plan, machine)).or_else(|| dtype(kind, machine, devices))
        })
    })
}

fn function(missing: &str, machine: &Machine) -> String {
    let since = Nccl::SYMBOLS.iter().find(|(name, _)| *name == missing).map_or("?", |(_, since)| since);
    let version = machine.probed.version;
    if release(since).is_some_and(|code| version < code) {
        return needed(missing, since, machine);
    }
    format!("needs {missing} (since NCCL {since}); this library, NCCL {}, does not have it", version_text(version))
}

fn needed(what: &str, since: &str, machine: &Machine) -> String {
    format!("needs {what} (since NCCL {since}); this is {}", version_text(machine.probed.version))
}

/// A field of a configuration that this version of the library ignores.
fn field(kind: &CallKind, plan: &Plan, machine: &Machine) -> Option<String> {
    let (CallKind::Init { config, .. }
    | CallKind::Split { config, .. }
    | CallKind::Shrink { config, .. }
    | CallKind::Grow { config, .. }) = kind
    else {
        return None;
    };
    let set = plan.configs.get((*config)? as usize)?;
    let mut set = set.iter().filter_map(|(name, _)| ConfigField::find(name));
    let field = set.find(|field| release(field.since).is_some_and(|code| machine.probed.version < code))?;
    Some(needed(&format!("the configuration's {}", field.name), field.since, machine))
}

/// NCCL's functions that a call uses on a library that has all of them.
#[cfg(any(test, feature = "internals"))]
pub fn functions_of(kind: &CallKind) -> Vec<&'static str> {
    needs(kind, &|_| true)
}

/// Functions that a call uses.
fn needs(kind: &CallKind, has: &dyn Fn(&str) -> bool) -> Vec<&'static str> {
    // a library without these calls can run them as groups of sends and receives
    let or_pairs = |name| if has(name) { vec![name] } else { [&PAIRS[..], &GROUP].concat() };
    match kind {
        CallKind::Collective { call, red, algorithm, .. } => {
            let mut names = if algorithm.is_some() {
                vec![call.symbol_with_config()]
            } else if call.is_pairwise() {
                or_pairs(call.symbol())
            } else {
                vec![call.symbol()]
            };
            if matches!(red, Red::PreMulSum { .. }) {
                names.extend(["ncclRedOpCreatePreMulSum", "ncclRedOpDestroy"]);
            }
            names
        }
        CallKind::Send { .. } => vec!["ncclSend"],
        CallKind::Recv { .. } => vec!["ncclRecv"],
        CallKind::GroupStart => vec!["ncclGroupStart"],
        CallKind::GroupEnd => vec!["ncclGroupEnd"],
        CallKind::Init { ids: Some(_), .. } => vec!["ncclGetUniqueId", "ncclCommInitRankScalable"],
        CallKind::Init { config: None, .. } => vec!["ncclGetUniqueId", "ncclCommInitRank"],
        CallKind::Init { config: Some(_), .. } => vec!["ncclGetUniqueId", "ncclCommInitRankConfig"],
        CallKind::Split { .. } => vec!["ncclCommSplit"],
        CallKind::Shrink { .. } => vec!["ncclCommShrink"],
        CallKind::GrowId { .. } => vec!["ncclCommGetUniqueId"],
        CallKind::Grow { .. } => vec!["ncclCommGrow"],
        CallKind::Revoke { .. } => vec!["ncclCommRevoke"],
        CallKind::Suspend { .. } => vec!["ncclCommSuspend"],
        CallKind::Resume { .. } => vec!["ncclCommResume"],
        CallKind::Finalize { .. } => vec!["ncclCommFinalize"],
        CallKind::Destroy { .. } => vec!["ncclCommDestroy"],
        CallKind::Abort { .. } => vec!["ncclCommAbort"],
        CallKind::Put { .. } => vec!["ncclPutSignal"],
        CallKind::Signal { .. } => vec!["ncclSignal"],
        CallKind::WaitSignal { .. } => vec!["ncclWaitSignal"],
        CallKind::Register { window: false, .. } => vec!["ncclCommRegister", "ncclCommDeregister"],
        CallKind::Register { window: true, .. } => {
            vec!["ncclMemAlloc", "ncclMemFree", "ncclCommWindowRegister", "ncclCommWindowDeregister"]
        }
        _ => Vec::new(),
    }
}

fn dtype(kind: &CallKind, machine: &Machine, devices: &RankDevices<'_>) -> Option<String> {
    let (dtype, reduces) = match kind {
        CallKind::Collective { dtype, red, .. } => (*dtype, *red != Red::None),
        CallKind::Send { dtype, .. } | CallKind::Recv { dtype, .. } => (*dtype, false),
        _ => return None,
    };
    let (name, since) = (dtype.name(), dtype.since());
    if release(since).is_some_and(|code| machine.probed.version < code) {
        return Some(needed(name, since, machine));
    }
    let least = devices.least_compute()?;
    let small = dtype.is_float() && dtype.size() == 1;
    (small && reduces && least < REDUCES_FP8).then(|| {
        let ((a, b), (c, d)) = (REDUCES_FP8, least);
        format!("reductions of {name} need GPUs of compute capability {a}.{b}; the least here is {c}.{d}")
    })
}
