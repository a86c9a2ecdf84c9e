//! Suggests replacements for programs that cannot finish.
use super::super::ranks_hint::find;
use super::super::simulate::{CHANGES_TOGETHER, CONNECTS, ENDED, ENDS_TOGETHER, MAY_BE_ABORTED};
use super::super::types::{StepId, Waiting};
use super::silent_partners::CONNECTS_TO_THE_SILENT;
use crate::ops::Kind;
use crate::scenario::{Case, Span, Step, StepComm};

const IF_MEANT: &str = "if the hang is meant, say `outcome = \"hang\"`";

/// The problem of a program that may block, and the fix.
pub fn against_blocking(waiting: &[Waiting]) -> (&'static str, &'static str) {
    let waits = |why: &str| waiting.iter().any(|w| w.what == why);
    if waits(ENDS_TOGETHER) {
        return (
            "these ranks may wait for each other when communicators end",
            "end the communicators in the same order on all ranks, and after what other ranks wait for",
        );
    }
    if waits(CHANGES_TOGETHER) {
        return (
            "these ranks wait for others that do not suspend or resume the communicator",
            "let all its ranks suspend it, and resume it, in the same order as other calls that wait",
        );
    }
    if waits(CONNECTS_TO_THE_SILENT) {
        return (
            "these ranks connect to a rank that does not answer",
            "make a call that needs the rank while all come to it, so that they are connected, or leave the rank out",
        );
    }
    if waits(CONNECTS) {
        return (
            "these ranks wait for each other while NCCL connects them",
            "let all ranks send each other something in one earlier `group`, or put these calls into one `group`",
        );
    }
    ("these ranks wait for each other unless the library buffers their sends", "put the calls into one `group`")
}

/// The likely fix, and a way to run the program anyway.
pub fn against(case: &Case, waiting: &[Waiting], span: impl Fn(StepId) -> Span) -> String {
    if waiting.iter().any(|w| w.what == ENDED) {
        return format!(
            "end the operations before with `abort`, or with a `shrink` that has `abort = true`, or wait for them before the `exit`; {IF_MEANT}"
        );
    }
    if waiting.iter().any(|w| w.what == MAY_BE_ABORTED) {
        return "let the rank that aborts wait for the operation first, or abort the communicator on the ranks that wait as well; if both \
             endings are meant, say `outcome = [\"hang\", \"ok\"]`".to_owned();
    }
    // A rank that only waits for ranks that wait goes on when they do.
    let waits = |rank: &usize| waiting.iter().any(|w| w.rank == *rank);
    let causes: Vec<Waiting> = waiting.iter().filter(|w| !w.on.iter().all(waits)).cloned().collect();
    let causes = if causes.is_empty() { waiting.to_vec() } else { causes };
    let steps: Option<Vec<&Step>> = causes.iter().map(|w| find(&case.steps, span(w.step))).collect();
    let cure = steps.and_then(|steps| cure(case, &causes, &steps));
    match cure {
        Some(cure) => format!("{cure}; {IF_MEANT}"),
        None => "say `outcome = \"hang\"` to run it all the same".to_owned(),
    }
}

fn cure(case: &Case, waiting: &[Waiting], steps: &[&Step]) -> Option<String> {
    let all = |f: fn(&Kind) -> bool| steps.iter().all(|step| f(&step.op.kind));
    let waits = |rank: &usize| waiting.iter().any(|w| w.rank == *rank);
    let each_other = waiting.len() > 1 && waiting.iter().all(|w| w.on.iter().any(waits));
    let (first, others) = steps.split_first()?;
    if all(|kind| matches!(kind, Kind::Send | Kind::Recv)) && each_other {
        return Some("use `op = \"send_recv\"`, or put both calls into one `group`".to_owned());
    }
    if first.own_ranks && all(|kind| matches!(kind, Kind::Comm(_))) {
        return Some("let the missing ranks make the call too, by this step or by one of their own".to_owned());
    }
    if !all(|kind| matches!(kind, Kind::Collective(_) | Kind::Composite(_))) {
        return None;
    }
    if each_other {
        return Some("make the calls in the same order on every rank".to_owned());
    }
    let one_step = others.iter().all(|step| step.span == first.span);
    let absent = waiting.iter().all(|w| !w.on.iter().any(waits));
    if !one_step || !absent || !first.own_ranks {
        return None;
    }
    let in_world = matches!(&first.comm, StepComm::Comm(name) if name.value == "world");
    // With more ranks only the first few are listed.
    let told = waiting.len() < 8 || waiting.len() == case.world_size.value;
    if !in_world || !told {
        return Some("for all ranks of its communicator leave `ranks` out".to_owned());
    }
    let mut ranks: Vec<usize> = waiting.iter().map(|w| w.rank).collect();
    ranks.sort_unstable();
    let list = ranks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let who = if ranks.len() == 1 { format!("rank {list}") } else { format!("the ranks {list}") };
    Some(format!("for {who} only write `groups = [[{list}]]` in place of `ranks`; for all ranks leave `ranks` out"))
}
