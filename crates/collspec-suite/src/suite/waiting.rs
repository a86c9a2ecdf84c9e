//! Small cases that spend most of their time waiting, so that others can use their core meanwhile.
use super::kept_plans::KeptPlans;
use collspec_core::plan::{Limits, Plan};
use collspec_core::scenario::{Case, ExpectedOutcome, Placement, Step, StepKind, all_steps};
use std::sync::Arc;

/// Limit on the operations of a case that mostly waits: less than a tenth of a second.
const MOST_WORK: u64 = 5_000_000;
/// Limit on the bytes of such a case's memory, counting all copies, which bounds the library's work.
const MOST_MEMORY: u64 = 8 << 20;

/// The cases with those that mostly wait and compute little moved to the front, and the number of these: one that computes as well would
/// slow down the others. With `proves_hangs` the library ends a hang between the threads of one process at once; otherwise only a time
/// limit does.
pub(super) fn in_front(
    cases: &[Arc<Case>],
    plans: &KeptPlans,
    limits: &Limits,
    proves_hangs: bool,
) -> (Vec<Arc<Case>>, usize) {
    let is_light = |plan: Arc<Plan>| plan.cost.memory <= MOST_MEMORY && plan.cost.work <= MOST_WORK;
    let waits = |case: &Arc<Case>| mostly_waits(case, proves_hangs) && plans.plan(case, limits).is_ok_and(is_light);
    let (mut waiting, others): (Vec<_>, Vec<_>) = cases.iter().cloned().partition(waits);
    let count = waiting.len();
    waiting.extend(others);
    (waiting, count)
}

/// True if a rank sleeps, a process ends, or only a time limit can end a hang.
fn mostly_waits(case: &Case, proves_hangs: bool) -> bool {
    let may_hang = case.outcome.as_ref().is_some_and(|outcome| outcome.value.contains(&ExpectedOutcome::Hang));
    let pauses = |step: &Step| matches!(step.kind, StepKind::Sleep { .. } | StepKind::Exit { .. });
    let waits = all_steps(&case.before).chain(all_steps(&case.steps)).any(pauses);
    let is_proved = proves_hangs && case.placement != Placement::Processes;
    waits || may_hang && !is_proved
}

#[cfg(test)]
mod tests {
    use super::*;
    use collspec_core::scenario::{SourceFile, parse};

    fn case(name: &str, rest: &str) -> Arc<Case> {
        let text = format!("world_size = 2\n{rest}\n");
        let file = Arc::new(SourceFile { path: format!("{name}.toml"), text: text.into() });
        Arc::new(parse(&file, name).unwrap().remove(0))
    }

    fn program(name: &str, count: usize, rest: &str) -> Arc<Case> {
        case(name, &format!("inputs.x = {{ each = \"rank + i\", count = {count} }}\n{rest}"))
    }

    #[test]
    fn small_cases_that_wait_come_first_and_all_keep_their_order() {
        let reduce = "{ op = \"all_reduce\", in = \"x\", out = \"y\" }";
        let sleep = "{ op = \"sleep\", seconds = 0.1, ranks = [1] }";
        let in_a_loop = format!("steps = [{{ op = \"loop\", times = 2, steps = [{reduce}, {sleep}] }}]");
        let send = |from: usize, to: usize| format!("{{ op = \"send\", in = \"x\", peer = {to}, ranks = [{from}] }}");
        let recv = |from: usize, to: usize| format!("{{ op = \"recv\", out = \"y\", peer = {from}, ranks = [{to}] }}");
        let may_hang = format!(
            "outcome = [\"ok\", \"hang\"]\nsteps = [{}, {}, {}, {}]",
            send(0, 1),
            send(1, 0),
            recv(0, 1),
            recv(1, 0)
        );
        let cases = [
            program("plain", 2, &format!("steps = [{reduce}]")),
            program("sleeps", 2, &format!("steps = [{sleep}, {reduce}]")),
            program("sleeps_and_computes", 1 << 20, &format!("steps = [{sleep}, {reduce}]")),
            program("sleeps_in_a_loop", 2, &in_a_loop),
            program("plain_too", 2, &format!("steps = [{reduce}, {reduce}]")),
            program("slept_before", 2, &format!("before = [{sleep}, {reduce}]\nsteps = [{reduce}]")),
            program("hang_that_is_proved", 2, &may_hang),
            program("hang_of_processes", 2, &format!("placement = \"processes\"\n{may_hang}")),
        ];
        let plans = KeptPlans::default();
        let (ordered, waiting) = in_front(&cases, &plans, &Limits::default(), true);
        let names: Vec<_> = ordered.iter().map(|case| case.name.as_str()).collect();
        let (first, others) = names.split_at(waiting);
        assert_eq!(first, ["sleeps", "sleeps_in_a_loop", "slept_before", "hang_of_processes"]);
        assert_eq!(others, ["plain", "sleeps_and_computes", "plain_too", "hang_that_is_proved"]);
        let (ordered, waiting) = in_front(&cases, &plans, &Limits::default(), false);
        assert_eq!((waiting, ordered[3].name.as_str()), (5, "hang_that_is_proved"), "where only a time limit ends it");
    }
}
