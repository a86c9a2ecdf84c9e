//! A likely cause where sends and receives do not meet: a step that every rank runs.
use crate::scenario::{Case, NumberByRankKind, Ranks, Span, Step, StepComm, StepKind, all_steps};

/// Suggests `ranks` for a step without it that names one peer for all ranks.
pub fn who_runs(case: &Case, span: Span) -> Option<String> {
    let step = find(&case.steps, span)?;
    let (peer, role, partner) = match &step.kind {
        StepKind::Send { peer, .. } => (peer, "sends", "recv"),
        StepKind::Recv { peer, .. } => (peer, "receives", "send"),
        _ => return None,
    };
    let (Ranks::All, StepComm::Comm(comm), NumberByRankKind::Int(peer)) = (&step.ranks, &step.comm, &peer.kind) else {
        return None;
    };
    let other = i32::from(*peer == 0);
    if comm.value != "world" {
        let text = "every rank of the communicator runs this step: to say which one does, write `ranks = [...]` on it, in world ranks";
        return Some(text.into());
    }
    Some(format!(
        "every rank runs this step, rank {peer} too: if only rank {other} {role}, write `ranks = [{other}]` on the step, \
         and `ranks = [{peer}]` on the {partner}"
    ))
}

/// The step at this place.
pub fn find(steps: &[Step], span: Span) -> Option<&Step> {
    all_steps(steps).find(|step| step.span == span)
}
