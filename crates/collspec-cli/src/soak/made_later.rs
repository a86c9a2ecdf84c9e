//! Communicators that steps make by unique ids, some of them without blocking, and calls that are left in progress.
use super::program::{Communicator, World};

/// Makes a communicator by ids, or leaves a call on a new one in progress and aborts it.
pub(super) fn made_later(world: &mut World) -> Vec<String> {
    if world.rng.percent(25) {
        return left_in_progress(world);
    }
    let groups = world.groups();
    let smallest = groups.iter().map(Vec::len).min().unwrap_or(1);
    let mut keys = String::new();
    if world.rng.percent(30) {
        keys += &format!(", ids = {}", world.rng.between(1, smallest));
    }
    let non_blocking = if world.rng.percent(40) { Some(true) } else { None };
    if let Some(config) = non_blocking.and_then(|_| world.config(true)) {
        keys += &format!(", config = {config}");
    }
    let name = format!("late_{}", world.name());
    let step = format!("{{ op = \"init\", new = \"{name}\", groups = {groups:?}{keys} }}");
    let non_blocking = non_blocking.unwrap_or(world.non_blocking);
    world.communicators.push(Communicator { name, groups, non_blocking });
    vec![step]
}

/// A call that is not over when it returns; then its communicator can only be aborted.
fn left_in_progress(world: &mut World) -> Vec<String> {
    let (name, ranks) = (format!("never_{}", world.name()), world.ranks);
    let Some(config) = world.config(true) else { return Vec::new() };
    let mut all: Vec<usize> = (0..ranks).collect();
    world.rng.shuffle(&mut all);
    let wait = "{ op = \"wait\" }".to_owned();
    if ranks > 1 && world.rng.percent(50) {
        let mut coming = all.clone();
        coming.truncate(world.rng.between(1, ranks - 1));
        coming.sort_unstable();
        return vec![
            wait,
            format!(
                "{{ op = \"init\", new = \"{name}\", groups = [{all:?}], ranks = {coming:?}, config = {config}, error = \"in_progress\" }}"
            ),
            format!("{{ op = \"abort\", comm = \"{name}\", ranks = {coming:?} }}"),
        ];
    }
    let init = format!("{{ op = \"init\", new = \"{name}\", groups = [{all:?}], config = {config} }}");
    let abort = format!("{{ op = \"abort\", comm = \"{name}\" }}");
    let input = world.buffers.iter().find(|b| b.counts.iter().all(|count| *count == b.counts[0] && count.is_some()));
    let input = input.map(|buffer| buffer.name.clone());
    match input {
        Some(input) if world.rng.percent(60) => {
            let out = world.name();
            let call = format!(
                "{{ op = \"all_reduce\", comm = \"{name}\", in = \"{input}\", out = \"{out}\", error = \"in_progress\" }}"
            );
            vec![wait, init, call, abort]
        }
        _ => vec![wait, init, format!("{{ op = \"finalize\", comm = \"{name}\", error = \"in_progress\" }}"), abort],
    }
}
