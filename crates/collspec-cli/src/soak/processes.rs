//! Resources of this process and its idle workers: memory and descriptors, which must not grow with the number of programs.
use std::fs;

/// The resources that a process holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Bytes of memory that no file backs.
    pub memory: u64,
    /// Number of open descriptors.
    pub descriptors: u64,
}

impl Held {
    /// The resources that the process holds now; `None` if it has ended.
    pub fn by(pid: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
        let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64;
        Some(Self { memory: kilobytes.saturating_mul(1024), descriptors })
    }

    fn most(self, other: Self) -> Self {
        Self { memory: self.memory.max(other.memory), descriptors: self.descriptors.max(other.descriptors) }
    }
}

/// The resources of a process during a run, in two parts of equal length: a cache grows in the first part only.
#[derive(Clone, Debug, Default)]
pub struct Course {
    samples: Vec<Held>,
}

/// Growth in the second half up to this amount is attributed to the allocator.
const SLACK: u64 = 16 << 20;
/// Growth in the second half that communicators which a worker keeps for the next program explain: sockets to other processes.
const KEPT_DESCRIPTORS: u64 = 64;
/// Number of samples below which comparing the halves is not conclusive.
const FEWEST: usize = 8;

impl Course {
    /// Adds a sample of the current resources.
    pub fn add(&mut self, held: Held) {
        self.samples.push(held);
    }

    /// Number of samples taken.
    pub fn samples(&self) -> usize {
        self.samples.len()
    }

    /// The largest use in the second quarter, and in the last one; `None` if there are too few samples.
    pub fn halves(&self) -> Option<(Held, Held)> {
        let all = self.samples.len();
        if all < FEWEST {
            return None;
        }
        let most = |part: &[Held]| part.iter().copied().fold(Held::default(), Held::most);
        let quarter = |from: usize| self.samples.get(all * from / 4..all * (from + 1) / 4).map(most);
        Some((quarter(1)?, quarter(3)?))
    }

    /// A description of the growth between the two halves.
    pub fn growth(&self) -> Option<String> {
        let (before, after) = self.halves()?;
        if after.memory > before.memory + before.memory / 5 + SLACK {
            return Some(format!("memory grew from {} to {} bytes", before.memory, after.memory));
        }
        if after.descriptors > before.descriptors + before.descriptors / 5 + KEPT_DESCRIPTORS {
            return Some(format!("open descriptors grew from {} to {}", before.descriptors, after.descriptors));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(held: impl Iterator<Item = (u64, u64)>) -> Course {
        Course { samples: held.map(|(memory, descriptors)| Held { memory, descriptors }).collect() }
    }

    #[test]
    fn what_settles_does_not_grow_and_what_rises_does() {
        let settled = course((0..100u64).map(|at| (50_000_000 + at.min(20) * 1_000_000, 12 + at % 3)));
        assert_eq!(settled.growth(), None);
        let rising = course((0..100u64).map(|at| (50_000_000 + at * 1_000_000, 12)));
        assert!(rising.growth().is_some_and(|words| words.starts_with("memory grew")));
        let leaking = course((0..100u64).map(|at| (50_000_000, 12 + at * 4)));
        assert!(leaking.growth().is_some_and(|words| words.starts_with("open descriptors grew")));
        assert_eq!(course((0..3u64).map(|at| (at << 30, at))).growth(), None, "too few samples say nothing");
    }

    #[test]
    fn this_process_holds_something() {
        let held = Held::by(std::process::id()).unwrap();
        assert!(held.memory > 100_000 && held.descriptors >= 3, "{held:?}");
        assert_eq!(Held::by(u32::MAX), None);
    }
}
