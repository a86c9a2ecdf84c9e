//! The forms that change placement or environment: placements, algorithms, and eager sends.
use super::super::case::{Case, EnvValue, EnvVar, Placement, Spanned, all_steps};
use super::visit;
use crate::ops::{self, Collective, Composite, Kind, Op};

/// The variable that restricts the algorithms.
const ALGORITHMS: &str = "NCCL_ALGO";
/// The variable for eager sends of the software library, with the number of bytes that each pair of ranks may have in flight.
const EAGER: (&str, &str) = ("COLLSPEC_SOFT_EAGER", "65536");
/// An algorithm that only the software library has.
pub(super) const SINGLE_TREE: &str = "SingleTree";
/// The algorithm of operations that do not have the requested one.
const RING: &str = "Ring";

pub(super) fn has_placement(case: &Case) -> Option<&'static str> {
    (case.placement != Placement::default()).then_some("the file says its placement")
}

pub(super) fn too_many_processes(case: &Case) -> Option<&'static str> {
    has_placement(case)
        .or_else(|| (case.total_ranks() > Placement::MAX_PROCESSES).then_some("it would need more than 16 processes"))
}

pub(super) fn one_thread(case: &mut Case) {
    case.placement = Placement::OneThread;
    // On one thread the ranks' durations do not depend on each other's delays.
    visit::drop_figures(case, &["seconds"]);
}

pub(super) fn processes(case: &mut Case) {
    case.placement = Placement::Processes;
}

/// The case's collectives that have a choice of algorithms.
fn collectives_with_algorithms(case: &Case) -> Vec<&'static Collective> {
    let mut found: Vec<&'static Collective> = Vec::new();
    for collective in visit::all_of(case).filter_map(|step| step.op.kind.collective()) {
        if !collective.algorithms.is_empty() && !found.iter().any(|known| known.call == collective.call) {
            found.push(collective);
        }
    }
    found
}

pub(super) fn no_algorithm(case: &Case, algorithm: &str) -> Option<&'static str> {
    if case.env.iter().any(|var| var.name.value == ALGORITHMS) {
        return Some("the file sets NCCL_ALGO");
    }
    if visit::all_of(case).any(|step| step.algorithm().is_some()) {
        return Some("a step says its algorithm");
    }
    if algorithm == SINGLE_TREE && elsewhere(case) {
        return Some("the file requires another backend than soft");
    }
    let serves = collectives_with_algorithms(case).iter().any(|op| op.algorithms.contains(&algorithm));
    (!serves).then_some("none of its operations has that algorithm")
}

pub(super) fn algorithm(case: &mut Case, algorithm: &str) {
    let serves = |op: &Collective| op.algorithms.contains(&algorithm);
    let value = if collectives_with_algorithms(case).iter().all(|op| serves(op)) {
        algorithm.to_owned()
    } else {
        let all = ops::TABLE.iter().filter_map(|op| match &op.kind {
            Kind::Collective(collective) if serves(collective) => {
                Some(format!(";{}:{algorithm}", op.name.replace('_', "")))
            }
            _ => None,
        });
        RING.to_owned() + &all.collect::<String>()
    };
    set(case, ALGORITHMS, value);
    // Traffic depends on the algorithm; results do not.
    visit::drop_figures(case, &["rounds", "sent", "received", "inner"]);
}

pub(super) fn single_tree(case: &mut Case) {
    algorithm(case, SINGLE_TREE);
    case.requires.backend = Some("soft".to_owned());
}

pub(super) fn no_send(case: &Case) -> Option<&'static str> {
    if elsewhere(case) {
        return Some("the file requires another backend than soft");
    }
    let sends = |op: &Op| matches!(op.kind, Kind::Send | Kind::SendRecv | Kind::Composite(Composite::AllToAllV));
    (!all_steps(&case.steps).any(|step| sends(step.op))).then_some("it has no sends")
}

pub(super) fn eager(case: &mut Case) {
    let (name, value) = EAGER;
    set(case, name, value.to_owned());
    case.requires.backend = Some("soft".to_owned());
}

fn elsewhere(case: &Case) -> bool {
    case.requires.backend.as_ref().is_some_and(|backend| backend != "soft")
}

fn set(case: &mut Case, name: &str, value: String) {
    let name = Spanned { span: case.span, value: name.to_owned() };
    case.env.push(EnvVar { name, value: EnvValue::All(value) });
}
