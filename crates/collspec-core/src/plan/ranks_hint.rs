//! A likely cause where sends and receives do not meet: a step that every rank runs.
use crate::ops::Kind;
use crate::scenario::{Case, NumberByRankKind, Ranks, Span, Step, StepComm};

/// Suggests `ranks` for a step without it that names one peer for all ranks.
pub fn who_runs(case: &Case, span: Span) -> Option<String> {
    let step = find(&case.steps, span)?;
    let everybody = matches!(step.ranks, Ranks::All) && matches!(step.comm, StepComm::Comm(_));
    let peer = match step.peer.as_ref().map(|p| &p.kind) {
        Some(NumberByRankKind::Int(peer)) if everybody => *peer,
        _ => return None,
    };
    let other = i32::from(peer == 0);
    let (role, partner) = match step.op.kind {
        Kind::Send => ("sends", "recv"),
        Kind::Recv => ("receives", "send"),
        _ => return None,
    };
    if !matches!(&step.comm, StepComm::Comm(name) if name.value == "world") {
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
    steps.iter().find_map(|s| if s.span == span { Some(s) } else { find(&s.steps, span) })
}
