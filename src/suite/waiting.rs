//! Cases that spend most of their time waiting: others can run on their core meanwhile.
use crate::ops::{Host, Kind};
use crate::scenario::{Case, ExpectedOutcome, Step};
use std::sync::Arc;

/// The cases with those in front that mostly wait, and the number of these.
pub(super) fn in_front(cases: &[Arc<Case>]) -> (Vec<Arc<Case>>, usize) {
    let (mut waiting, others): (Vec<_>, Vec<_>) = cases.iter().cloned().partition(|case| mostly_waits(case));
    let count = waiting.len();
    waiting.extend(others);
    (waiting, count)
}

/// True if a rank sleeps or a process ends, or if the case may hang until its time is up.
fn mostly_waits(case: &Case) -> bool {
    let may_hang = case.outcome.as_ref().is_some_and(|outcome| outcome.value.contains(&ExpectedOutcome::Hang));
    may_hang || any_pauses(&case.before) || any_pauses(&case.steps)
}

fn any_pauses(steps: &[Step]) -> bool {
    let pauses = |step: &Step| matches!(step.op.kind, Kind::Host(Host::Sleep | Host::Exit));
    steps.iter().any(|step| pauses(step) || any_pauses(&step.steps))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{SourceFile, parse};

    fn case(name: &str, rest: &str) -> Arc<Case> {
        let text = format!("world_size = 2\ninputs.x = [[1], [2]]\n{rest}\n");
        let file = Arc::new(SourceFile { path: format!("{name}.toml"), text: text.into() });
        Arc::new(parse(&file, name).unwrap().remove(0))
    }

    #[test]
    fn cases_that_wait_come_first_and_all_keep_their_order() {
        let reduce = "{ op = \"all_reduce\", in = \"x\", out = \"y\" }";
        let sleep = "{ op = \"sleep\", seconds = 0.1, ranks = [1] }";
        let cases = [
            case("plain", &format!("steps = [{reduce}]")),
            case("sleeps", &format!("steps = [{sleep}, {reduce}]")),
            case("sleeps_in_a_loop", &format!("steps = [{{ op = \"loop\", times = 2, steps = [{reduce}, {sleep}] }}]")),
            case("plain_too", &format!("steps = [{reduce}, {reduce}]")),
            case("slept_before", &format!("before = [{sleep}, {reduce}]\nsteps = [{reduce}]")),
            case("may_hang", &format!("outcome = [\"ok\", \"hang\"]\nsteps = [{reduce}]")),
        ];
        let (ordered, waiting) = in_front(&cases);
        let names: Vec<_> = ordered.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["sleeps", "sleeps_in_a_loop", "slept_before", "may_hang", "plain", "plain_too"]);
        assert_eq!(waiting, 4);
    }
}
