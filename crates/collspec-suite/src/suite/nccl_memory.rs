//! Memory of the machine that NCCL itself takes.
use collspec_core::plan::Plan;
use collspec_run::job::{Call, CallKind};

/// Bytes of the pool of proxy operations in `/dev/shm` that NCCL creates for each rank of a communicator and fills completely
/// (`ncclProxyOpsPool`): measured with 2.18.3, 2.27.5, 2.30.7, 2.31.2 and 2.32.3.
fn pool(version: i32) -> u64 {
    match version {
        ..22700 => 4 << 20,
        22700..23200 => 32 << 20,
        _ => 65 << 20,
    }
}

/// Bytes that this version of NCCL takes at least, when the plan has the most communicators.
pub(super) fn of_communicators(plan: &Plan, version: i32) -> u64 {
    let most = |(rank, calls): (usize, &Vec<Call>)| most_at_once(plan, rank, calls);
    plan.programs.iter().enumerate().map(most).fold(0, u64::saturating_add).saturating_mul(pool(version))
}

/// The largest number of communicators that a rank has at the same time.
fn most_at_once(plan: &Plan, rank: usize, calls: &[Call]) -> u64 {
    let all = plan.comms.iter().filter(|comm| comm.members.contains(&rank)).count() as u64;
    let later = calls.iter().filter(|call| made(&call.kind).is_some()).count() as u64;
    let mut now = all.saturating_sub(later);
    let mut most = now;
    for call in calls {
        if made(&call.kind).is_some() {
            now = now.saturating_add(1);
        } else if matches!(call.kind, CallKind::Destroy { .. } | CallKind::Abort { .. }) {
            now = now.saturating_sub(1);
        }
        most = most.max(now);
    }
    most
}

/// The communicator that a call creates.
fn made(kind: &CallKind) -> Option<u32> {
    match kind {
        CallKind::Init { comm, .. } => Some(*comm),
        CallKind::Split { new, .. } | CallKind::Shrink { new, .. } | CallKind::Grow { new, .. } => *new,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use collspec_core::plan::{Limits, plan};
    use collspec_core::scenario::{SourceFile, parse};
    use std::sync::Arc;

    fn most(text: &str) -> u64 {
        let file = Arc::new(SourceFile { path: "test.toml".into(), text: text.into() });
        let case = Arc::new(parse(&file, "test").unwrap().remove(0));
        of_communicators(&plan(&case, &Limits::default()).unwrap(), 22705) / (32 << 20)
    }

    #[test]
    fn communicators_that_live_together_count() {
        let head = "world_size = 2\ninputs.x = { each = 1, count = 1 }\n";
        let round = |end: &str| {
            format!(
                "{head}steps = [{{ op = \"loop\", times = 5, steps = [{{ op = \"init\", new = \"one\", groups = [[0, 1]] }}{end}] }}, {{ op = \"all_reduce\", in = \"x\", out = \"y\" }}]\n"
            )
        };
        assert_eq!(most(&format!("{head}op = \"all_reduce\"\n").replace("inputs.x", "inputs")), 2);
        assert_eq!(most(&round("")), 12);
        assert_eq!(most(&round(", { op = \"destroy\", comm = \"one\" }")), 4);
    }
}
