//! Refuses programs whose result depends on luck: memory used on two streams of a rank without an order between them, and
//! steps of one group of which one writes what another uses.
//!
//! Every stream keeps a clock of how far the others had come when its latest work was enqueued (`after`, `wait`); a use is
//! ordered behind another exactly if its clock has seen it.
use super::lower::{Low, Sem};
use super::resolve::dedupe;
use super::types::{Region, StepId};
use crate::scenario::Diagnostic;
use crate::worker::job::What;
use std::collections::HashMap;

/// One use of memory.
#[derive(Clone, Copy)]
struct Use {
    start: u64,
    end: u64,
    writes: bool,
    stream: usize,
    /// Its number on its stream, from 1.
    number: usize,
    step: StepId,
    /// The group it is part of, if any.
    group: Option<u32>,
}

/// Checks every rank.
pub fn check(low: &Low) -> Result<(), Vec<Diagnostic>> {
    let mut diags = Vec::new();
    for rank in 0..low.p.n {
        diags.extend(one(low, rank));
    }
    if diags.is_empty() { Ok(()) } else { Err(dedupe(diags)) }
}

fn one(low: &Low, rank: usize) -> Vec<Diagnostic> {
    let streams = low.p.streams as usize;
    let mut clocks = vec![vec![0usize; streams]; streams];
    let mut host = vec![0usize; streams];
    let mut uses: HashMap<usize, Vec<Use>> = HashMap::new();
    let mut diags = Vec::new();
    for (index, call) in low.programs[rank].iter().enumerate() {
        match &call.what {
            What::After { stream, on } => {
                for other in on {
                    let seen = clocks[*other as usize].clone();
                    join(&mut clocks[*stream as usize], &seen);
                }
            }
            What::Wait { stream } => match stream {
                Some(s) => join(&mut host, &clocks[*s as usize]),
                None => clocks.iter().for_each(|c| join(&mut host, c)),
            },
            // These wait for what the communicator still does; they order nothing else.
            _ => {}
        }
        let Some(sem) = &low.sems[rank][index] else { continue };
        let (stream, regions) = touched(sem);
        let stream = stream as usize;
        let seen = host.clone();
        join(&mut clocks[stream], &seen);
        clocks[stream][stream] += 1;
        let group = (low.ends[rank][index] as usize != index).then_some(low.ends[rank][index]);
        for (region, writes) in regions {
            let Some((alloc, start, end)) = bytes(low, &region) else { continue };
            let this = Use { start, end, writes, stream, number: clocks[stream][stream], step: call.step, group };
            let list = uses.entry(alloc).or_default();
            if let Some(other) = list.iter().find(|o| clash(o, &this, &clocks[stream])) {
                diags.push(fault(low, rank, other, &this, &region));
            }
            // The latest use of the same bytes in the same way on the same stream stands for the earlier ones.
            match list.iter_mut().find(|o| (o.start, o.end, o.writes, o.stream) == (start, end, writes, stream)) {
                Some(old) => *old = this,
                None => list.push(this),
            }
        }
    }
    diags
}

fn join(into: &mut [usize], other: &[usize]) {
    into.iter_mut().zip(other).for_each(|(a, b)| *a = (*a).max(*b));
}

fn clash(old: &Use, new: &Use, clock: &[usize]) -> bool {
    let overlap = old.start < new.end && new.start < old.end;
    if !overlap || !(old.writes || new.writes) {
        return false;
    }
    if old.group.is_some() && old.group == new.group {
        // One call's own in-place pair is fine.
        return old.number != new.number || old.stream != new.stream;
    }
    old.stream != new.stream && clock[old.stream] < old.number
}

fn fault(low: &Low, rank: usize, old: &Use, new: &Use, region: &Region) -> Diagnostic {
    let name = &low.placed.buffers[region.buf].name;
    let step = |id: StepId| &low.p.steps[id as usize];
    let verb = |u: &Use| if u.writes { "writes" } else { "reads" };
    if old.group.is_some() && old.group == new.group {
        let text = format!(
            "within one group, {} {} `{name}` on rank {rank}, which {} {}",
            step(new.step).label,
            verb(new),
            step(old.step).label,
            verb(old)
        );
        return Diagnostic::new(step(new.step).span, text)
            .related(step(old.step).span, "the other step")
            .help("steps of a group run at the same time: use a buffer of its own, or end the group before");
    }
    let text = format!(
        "{} {} `{name}` on rank {rank} while {}, on another stream, {} it: nothing says which comes first",
        step(new.step).label,
        verb(new),
        step(old.step).label,
        verb(old)
    );
    Diagnostic::new(step(new.step).span, text)
        .related(step(old.step).span, "the other use")
        .help("add `after = [\"...\"]` to the later step, or a `wait` between them")
}

fn touched(sem: &Sem) -> (u32, Vec<(Region, bool)>) {
    match sem {
        Sem::Collective(c) => {
            (c.stream, c.send.map(|r| (r, false)).into_iter().chain(c.recv.map(|r| (r, true))).collect())
        }
        Sem::Post { from, stream, .. } => (*stream, vec![(*from, false)]),
        Sem::Land { to, stream, .. } => (*stream, vec![(*to, true)]),
        Sem::Map { reads, out, stream, .. } => {
            let reads = reads.iter().map(|(_, r)| (*r, false));
            (*stream, reads.chain([(*out, true)]).collect())
        }
    }
}

fn bytes(low: &Low, region: &Region) -> Option<(usize, u64, u64)> {
    let buffer = &low.placed.buffers[region.buf];
    let place = buffer.places[region.rank]?;
    let size = buffer.dtype.size() as u64;
    let start = place.offset + region.start * size;
    Some((place.alloc, start, start + region.len * size))
}
