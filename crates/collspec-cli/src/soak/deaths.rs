//! Programs in which processes of ranks end while the others continue.
use super::program::{Communicator, World};
use super::steps;

const WAIT: &str = "{ op = \"wait\" }";
const STATUSES: &[&str] =
    &["0", "1", "7", "255", "\"SIGKILL\"", "\"SIGKILL\"", "\"SIGABRT\"", "\"SIGSEGV\"", "\"SIGTERM\""];

/// The steps of a program in which some ranks end: operations before, operations in flight, the end, the actions of the others on
/// the communicators that have lost a rank, and operations on the remaining ones.
pub(super) fn program(world: &mut World) -> Vec<String> {
    let mut lines = Vec::new();
    for _ in 0..world.rng.between(1, 3) {
        lines.extend(steps::data(world, true));
    }
    let dead = dying(world);
    // Operations in flight may be lost, but not all operations.
    lines.push(WAIT.to_owned());
    world.streams.clear();
    let kept = world.buffers.clone();
    for _ in 0..world.rng.below(4) {
        lines.extend(in_flight(world, &dead));
    }
    let never = if world.rng.percent(20) { left_in_progress(world) } else { Vec::new() };
    let abort = never.last().cloned();
    lines.extend(never.into_iter().take(2));
    let status = *world.rng.pick(STATUSES);
    lines.push(format!("{{ op = \"exit\", ranks = {dead:?}, status = {status} }}"));
    lines.extend(abort);
    for comm in lost(world, &dead) {
        if world.rng.percent(25) {
            lines.extend(behind_the_end(world, &comm));
        }
    }
    if world.rng.percent(15) {
        world.head.push("requires = { backend = \"soft\" }".to_owned());
        lines.push("{ op = \"wait\", error = \"remote_error\" }".to_owned());
    }
    // The results of lost operations are unknown, so later steps do not use them.
    world.buffers.retain(|buffer| kept.iter().any(|old| old.name == buffer.name));
    for buffer in &mut world.buffers {
        dead.iter().for_each(|rank| buffer.counts[*rank] = None);
    }
    world.buffers.retain(|buffer| buffer.counts.iter().any(Option::is_some));
    let mut ended = lost(world, &dead);
    world.rng.shuffle(&mut ended);
    for comm in ended {
        lines.extend(recovery(world, &comm, &dead));
    }
    if world.communicators.is_empty() {
        lines.push(made_of_the_rest(world, &dead));
    }
    for _ in 0..world.rng.between(1, 3) {
        lines.extend(steps::data(world, false));
    }
    lines
}

fn dying(world: &mut World) -> Vec<usize> {
    let mut all: Vec<usize> = (0..world.ranks).collect();
    world.rng.shuffle(&mut all);
    let most = if world.rng.percent(25) { 2 } else { 1 };
    all.truncate(most.min(world.ranks - 1));
    all.sort_unstable();
    all
}

/// The communicators that lose a rank.
fn lost(world: &World, dead: &[usize]) -> Vec<Communicator> {
    let loses = |comm: &&Communicator| comm.members().iter().any(|rank| dead.contains(rank));
    world.communicators.iter().filter(loses).cloned().collect()
}

/// A collective that nothing waits for before the end; some of them are not called by the ranks that end.
fn in_flight(world: &mut World, dead: &[usize]) -> Option<String> {
    let at = world.rng.below(world.communicators.len());
    let comm = world.communicators[at].clone();
    let step = on(world, &comm)?;
    let left: Vec<usize> = comm.members().into_iter().filter(|rank| !dead.contains(rank)).collect();
    let called = world.rng.percent(50) || left.is_empty() || left.len() == comm.members().len();
    Some(if called { step } else { with_key(&step, &format!("ranks = {left:?}")) })
}

/// A collective on a communicator that has lost a rank already.
fn behind_the_end(world: &mut World, comm: &Communicator) -> Option<String> {
    on(world, comm)
}

/// A collective on this communicator by its name: those of `groups` cannot be ended.
fn on(world: &mut World, comm: &Communicator) -> Option<String> {
    let all = std::mem::replace(&mut world.communicators, vec![comm.clone()]);
    let made = world.buffers.clone();
    let step = steps::data_of_one(world);
    world.communicators = all;
    let fits = |step: &String| !step.contains("groups = ");
    if step.as_ref().is_some_and(fits) {
        return step;
    }
    world.buffers = made;
    None
}

fn with_key(step: &str, key: &str) -> String {
    format!("{}, {key} }}", step.trim_end().trim_end_matches('}').trim_end())
}

/// A call of every rank that is in progress at the end, and the abort of its communicator.
fn left_in_progress(world: &mut World) -> Vec<String> {
    let fitting = |counts: &[Option<usize>]| counts[0].is_some() && counts.iter().all(|count| *count == counts[0]);
    let input = world.buffers.iter().find(|buffer| fitting(&buffer.counts)).map(|buffer| buffer.name.clone());
    let (Some(input), Some(config)) = (input, world.config(true)) else { return Vec::new() };
    let (name, out) = (format!("never_{}", world.name()), world.name());
    let all: Vec<usize> = (0..world.ranks).collect();
    vec![
        format!("{{ op = \"init\", new = \"{name}\", groups = [{all:?}], config = {config} }}"),
        format!(
            "{{ op = \"all_reduce\", comm = \"{name}\", in = \"{input}\", out = \"{out}\", stream = \"{name}\", error = \"in_progress\" }}"
        ),
        format!("{{ op = \"abort\", comm = \"{name}\" }}"),
    ]
}

/// Ends a communicator that has lost a rank; a shrink makes one of the ranks that are left.
fn recovery(world: &mut World, comm: &Communicator, dead: &[usize]) -> Vec<String> {
    world.communicators.retain(|other| other.name != comm.name);
    let name = &comm.name;
    let abort = |ranks: &[usize]| format!("{{ op = \"abort\", comm = \"{name}\", ranks = {ranks:?} }}");
    let [group] = comm.groups.as_slice() else {
        let hit = comm.groups.iter().filter(|group| group.iter().any(|rank| dead.contains(rank)));
        let left: Vec<usize> = hit.flatten().copied().filter(|rank| !dead.contains(rank)).collect();
        return if left.is_empty() { Vec::new() } else { vec![abort(&left)] };
    };
    let rest: Vec<usize> = group.iter().copied().filter(|rank| !dead.contains(rank)).collect();
    if rest.is_empty() {
        return Vec::new();
    }
    if world.rng.percent(35) {
        return vec![abort(&rest)];
    }
    let without: Vec<usize> = (0..group.len()).filter(|rank| dead.contains(&group[*rank])).collect();
    let new = format!("rest_{}", world.name());
    world.communicators.push(Communicator {
        name: new.clone(),
        groups: vec![rest.clone()],
        non_blocking: comm.non_blocking,
    });
    let shrink =
        |keys: &str| format!("{{ op = \"shrink\", new = \"{new}\", comm = \"{name}\", without = {without:?}{keys} }}");
    if world.rng.percent(20) {
        return vec![format!("{{ op = \"revoke\", comm = \"{name}\" }}"), shrink("")];
    }
    let mut lines = vec![shrink(", abort = true")];
    match world.rng.below(3) {
        0 => lines.push(abort(&rest)),
        1 => lines.push(format!("{{ op = \"destroy\", comm = \"{name}\" }}")),
        _ => {}
    }
    lines
}

fn made_of_the_rest(world: &mut World, dead: &[usize]) -> String {
    let rest: Vec<usize> = (0..world.ranks).filter(|rank| !dead.contains(rank)).collect();
    let name = format!("late_{}", world.name());
    let step = format!("{{ op = \"init\", new = \"{name}\", groups = [{rest:?}] }}");
    world.communicators.push(Communicator { name, groups: vec![rest], non_blocking: world.non_blocking });
    step
}
