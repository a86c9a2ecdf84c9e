//! Steps that make communicators of others, and that take one out of use, for a while or until it is destroyed.
use super::program::{Communicator, World};

const WAIT: &str = "{ op = \"wait\" }";

/// A communicator of one group, as shrink and grow need it.
fn single(world: &mut World) -> Option<Communicator> {
    let fitting: Vec<Communicator> = world.communicators.iter().filter(|c| c.groups.len() == 1).cloned().collect();
    if fitting.is_empty() { None } else { Some(world.rng.pick(&fitting).clone()) }
}

fn new_name(world: &mut World) -> String {
    format!("late_{}", world.name())
}

/// The communicator is used no more, unless it is the world's.
fn forget(world: &mut World, name: &str) {
    world.communicators.retain(|comm| comm.name != name);
}

/// Leaves some ranks of a communicator out.
pub(super) fn shrunk(world: &mut World) -> Vec<String> {
    let Some(comm) = single(world).filter(|comm| comm.smallest() > 1) else { return Vec::new() };
    let members = comm.members();
    let left_out: Vec<usize> =
        (0..members.len()).filter(|rank| *rank > 0 && world.rng.percent(40)).take(members.len() - 1).collect();
    if left_out.is_empty() {
        return Vec::new();
    }
    let rest: Vec<usize> =
        members.iter().enumerate().filter(|(rank, _)| !left_out.contains(rank)).map(|(_, member)| *member).collect();
    let (name, parent) = (new_name(world), &comm.name);
    let aborts = parent != "world" && world.rng.percent(30);
    let mut steps = Vec::new();
    if aborts {
        forget(world, parent);
        steps.push(WAIT.to_owned());
        steps.push(format!(
            "{{ op = \"shrink\", new = \"{name}\", comm = \"{parent}\", without = {left_out:?}, abort = true }}"
        ));
        steps.push(format!("{{ op = \"abort\", comm = \"{parent}\" }}"));
    } else {
        steps.push(WAIT.to_owned());
        steps.push(format!("{{ op = \"shrink\", new = \"{name}\", comm = \"{parent}\", without = {left_out:?} }}"));
    }
    world.communicators.push(Communicator { name, groups: vec![rest], non_blocking: comm.non_blocking });
    steps
}

/// Adds ranks to a communicator that does not have all.
pub(super) fn grown(world: &mut World) -> Vec<String> {
    let Some(comm) = single(world) else { return Vec::new() };
    let members = comm.members();
    let mut others: Vec<usize> = (0..world.ranks).filter(|rank| !members.contains(rank)).collect();
    if others.is_empty() {
        return Vec::new();
    }
    world.rng.shuffle(&mut others);
    others.truncate(world.rng.between(1, others.len()));
    let name = new_name(world);
    let step = format!("{{ op = \"grow\", new = \"{name}\", comm = \"{}\", with = {others:?} }}", comm.name);
    let groups = vec![[members, others].concat()];
    world.communicators.push(Communicator { name, groups, non_blocking: comm.non_blocking });
    vec![WAIT.to_owned(), step]
}

/// Takes a communicator out of use: for a while, or until it is destroyed.
pub(super) fn out_of_use(world: &mut World) -> Vec<String> {
    if world.communicators.len() < 2 {
        return Vec::new();
    }
    let at = world.rng.between(1, world.communicators.len() - 1);
    let comm = world.communicators[at].name.clone();
    let step = |op: &str, keys: &str| format!("{{ op = \"{op}\", comm = \"{comm}\"{keys} }}");
    let mut steps = vec![WAIT.to_owned()];
    if world.rng.percent(60) {
        steps.push(step("suspend", ""));
        if world.rng.percent(30) {
            steps.push(step("suspend", ", error = \"invalid_usage\""));
        }
        steps.push(step("resume", ""));
        if world.rng.percent(30) {
            steps.push(step("resume", ", error = \"invalid_usage\""));
        }
        return steps;
    }
    let (first, again) = *world.rng.pick(&[("revoke", "revoke"), ("finalize", "finalize")]);
    steps.push(step(first, ""));
    if world.rng.percent(50) {
        steps.push(step(again, ", error = \"invalid_argument\""));
    }
    let end: &&str = world.rng.pick(&["destroy", "abort"]);
    steps.push(step(end, ""));
    forget(world, &comm);
    steps
}
