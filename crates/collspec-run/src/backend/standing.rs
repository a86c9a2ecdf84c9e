//! Kernels on software GPUs that cannot go on, in words: which warps wait, for what, and for which rank.
use crate::job::NO_KERNEL_MOVES;
use ptx::run::{Spot, StandingBlock, Wait};
use soft_cudart::api::{Home, place};
use soft_cudart::library;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Limit on the positions listed of one kernel.
const MOST_PLACES: usize = 6;
/// Limit on the kernels listed.
const MOST_KERNELS: usize = 32;

/// The warps at one position of a kernel.
#[derive(Default)]
struct Position {
    warps: usize,
    blocks: BTreeSet<u32>,
    waits: String,
}

/// What all kernels of this process wait for, if none of them moves: only the host can help them then. `ranks` names the ranks of a device.
pub fn standing(ranks: &dyn Fn(usize) -> Option<String>) -> Option<String> {
    let blocks = library::standing()?;
    let name = |device: usize| ranks(device).unwrap_or_else(|| format!("device {device}"));
    let mut kernels: BTreeMap<(usize, &str, bool), Vec<&StandingBlock>> = BTreeMap::new();
    for block in &blocks {
        kernels.entry((block.device, &block.kernel, block.halted)).or_default().push(block);
    }
    let mut text = NO_KERNEL_MOVES.to_owned();
    // For each device, those that have written to the memory that it polls.
    let mut writers: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for ((device, kernel, halted), blocks) in kernels.iter().take(MOST_KERNELS) {
        let stopped = if *halted { ", whose GPU has stopped" } else { "" };
        _ = write!(text, "\n  {}{stopped}: {}", name(*device), plain(kernel));
        let mut positions: BTreeMap<&str, Position> = BTreeMap::new();
        for (spot, wait) in blocks.iter().flat_map(|block| &block.spots) {
            // What a stopped GPU does not do is not what others wait for.
            let writers = if *halted { &mut BTreeMap::new() } else { &mut writers };
            add(&mut positions, spot, || words(*device, wait, &name, writers));
        }
        for (at, position) in positions.iter().take(MOST_PLACES) {
            _ = write!(text, "\n    {position}\n      at {at}");
        }
        if positions.len() > MOST_PLACES {
            _ = write!(text, "\n    and warps at {} more positions", positions.len() - MOST_PLACES);
        }
    }
    if kernels.len() > MOST_KERNELS {
        _ = write!(text, "\n  and {} more kernels", kernels.len() - MOST_KERNELS);
    }
    let mut awaited = BTreeSet::new();
    let at_work: BTreeSet<usize> = blocks.iter().map(|block| block.device).collect();
    for (device, writers) in writers {
        _ = match &*writers.iter().map(|writer| name(*writer)).collect::<Vec<_>>() {
            [] => write!(text, "\n{} waits for a rank that has not written to this memory before", name(device)),
            names => write!(text, "\n{} waits for {}", name(device), names.join(" and ")),
        };
        awaited.extend(writers);
    }
    for device in awaited.difference(&at_work) {
        _ = write!(text, "\n{} runs no kernel", name(*device));
    }
    for (device, ..) in kernels.keys().filter(|(_, _, halted)| *halted) {
        _ = write!(text, "\nthe GPU of {} has stopped", name(*device));
    }
    Some(text)
}

/// A kernel's name without C++'s notes on its parameters, as in `_Z6kernelPf`.
fn plain(name: &str) -> &str {
    let plain = || {
        let rest = name.strip_prefix("_Z")?;
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        rest[digits..].get(..rest[..digits].parse().ok()?)
    };
    plain().unwrap_or(name)
}

fn add<'a>(positions: &mut BTreeMap<&'a str, Position>, spot: &'a Spot, words: impl FnOnce() -> String) {
    let position = positions.entry(&spot.at).or_default();
    if position.warps == 0 {
        position.waits = words();
    }
    position.warps += 1;
    position.blocks.insert(spot.block);
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let blocks = match (self.blocks.first(), self.blocks.len()) {
            (Some(block), 1) => format!("block {block}"),
            (_, count) => format!("{count} blocks"),
        };
        let warps = if self.warps == 1 { "a warp".to_owned() } else { format!("{} warps", self.warps) };
        write!(f, "{warps} of {blocks}: {}", self.waits)
    }
}

/// What lanes on a device wait for; notes the other devices that have written to memory that they poll.
fn words(
    device: usize,
    wait: &Wait,
    name: &dyn Fn(usize) -> String,
    writers: &mut BTreeMap<usize, BTreeSet<usize>>,
) -> String {
    let Wait::Poll { address } = wait else { return wait.to_string() };
    let Some(place) = usize::try_from(*address).ok().and_then(place) else { return wait.to_string() };
    let mut wrote = library::writers(&place);
    wrote.remove(&device);
    let memory = match place.home {
        Home::Host => return format!("{wait}: host memory"),
        Home::Caller => "memory of the scenario".to_owned(),
        Home::Device(owner) => format!("NCCL's memory of {}", name(owner)),
    };
    let written = match &*wrote.iter().map(|writer| name(*writer)).collect::<Vec<_>>() {
        [] => "no other rank has written there yet".to_owned(),
        names => format!("{} has written there before", names.join(", ")),
    };
    writers.entry(device).or_default().extend(wrote);
    let word = place.word.map_or(String::new(), |word| format!(", which holds {word:#x}"));
    format!("{wait}: byte {} of {} of {memory}{word}; {written}", place.offset, place.bytes)
}
