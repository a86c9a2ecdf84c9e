//! Kernels on software GPUs that cannot go on, in words: which warps wait, for what, and for which rank.
use crate::job::NO_KERNEL_MOVES;
use collspec_core::printable::names_in_words;
use gpuless_cuda::api::{Home, place};
use gpuless_cuda::library;
use ptx::run::{StandingBlock, Wait};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Limit on the positions of one kernel in the text.
const MOST_PLACES: usize = 6;
/// Limit on the kernels in the text.
const MOST_KERNELS: usize = 32;

/// The warps of a kernel at one position that wait for the same ranks.
#[derive(Default)]
struct Position {
    warps: usize,
    blocks: BTreeSet<u32>,
    /// What one of them waits for.
    waits: String,
}

/// What lanes wait for.
struct Reason {
    text: String,
    /// The other devices that have written to the memory that the lanes poll; `None` if they do not poll device memory.
    writers: Option<BTreeSet<usize>>,
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
    let mut awaited: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (number, ((device, kernel, halted), blocks)) in kernels.iter().enumerate() {
        let mut positions: BTreeMap<(&str, Option<BTreeSet<usize>>), Position> = BTreeMap::new();
        for (spot, wait) in blocks.iter().flat_map(|block| &block.spots) {
            let reason = reason(*device, wait, &name);
            // A stopped GPU is not waiting for other ranks.
            if let Some(writers) = reason.writers.as_ref().filter(|_| !halted) {
                awaited.entry(*device).or_default().extend(writers);
            }
            let position = positions.entry((&spot.at, reason.writers)).or_default();
            if position.warps == 0 {
                position.waits = reason.text;
            }
            position.warps += 1;
            position.blocks.insert(spot.block);
        }
        if number >= MOST_KERNELS {
            continue;
        }
        let stopped = if *halted { ", whose GPU has stopped" } else { "" };
        _ = write!(text, "\n  {}{stopped}: {}", name(*device), plain(kernel));
        for ((at, _), position) in positions.iter().take(MOST_PLACES) {
            _ = write!(text, "\n    {position}\n      at {at}");
        }
        if positions.len() > MOST_PLACES {
            _ = write!(text, "\n    and warps at {} more positions", positions.len() - MOST_PLACES);
        }
    }
    if kernels.len() > MOST_KERNELS {
        _ = write!(text, "\n  and {} more kernels", kernels.len() - MOST_KERNELS);
    }
    for (device, writers) in &awaited {
        let whom = match writers.is_empty() {
            true => "a rank whose kernels have not written there before, as far as is recorded".to_owned(),
            false => list(writers, &name),
        };
        _ = write!(text, "\n{} waits for {whom}", name(*device));
    }
    let at_work: BTreeSet<usize> = blocks.iter().map(|block| block.device).collect();
    let all_awaited: BTreeSet<usize> = awaited.into_values().flatten().collect();
    for device in all_awaited.difference(&at_work) {
        _ = write!(text, "\n{} runs no kernel", name(*device));
    }
    for (device, ..) in kernels.keys().filter(|(_, _, halted)| *halted) {
        _ = write!(text, "\nthe GPU of {} has stopped", name(*device));
    }
    Some(text)
}

/// The names of devices in a sentence.
fn list(devices: &BTreeSet<usize>, name: &dyn Fn(usize) -> String) -> String {
    names_in_words(&devices.iter().map(|device| name(*device)).collect::<Vec<_>>())
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

/// What lanes on a device wait for.
fn reason(device: usize, wait: &Wait, name: &dyn Fn(usize) -> String) -> Reason {
    let unknown = || Reason { text: wait.to_string(), writers: None };
    let Wait::Poll { address } = wait else { return unknown() };
    let Some(place) = usize::try_from(*address).ok().and_then(place) else { return unknown() };
    let mut writers = library::writers(&place);
    writers.remove(&device);
    let memory = match place.home {
        Home::Host => return Reason { text: format!("{wait}: host memory"), writers: None },
        Home::Caller => "memory of the scenario".to_owned(),
        Home::Device(owner) => format!("NCCL's memory of {}", name(owner)),
    };
    let written = if writers.is_empty() {
        "no write of another rank's kernel is recorded".to_owned()
    } else {
        format!("written before by {}", list(&writers, name))
    };
    let word = place.word.map_or(String::new(), |word| format!(", which holds {word:#x}"));
    let text = format!("{wait}: byte {} of {} of {memory}{word}; {written}", place.offset, place.bytes);
    Reason { text, writers: Some(writers) }
}
