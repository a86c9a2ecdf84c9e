//! The work of each device's kernels. The counts do not depend on the schedule.
use ptx::run::Work;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The work of a device's kernels that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Kernels that were launched.
    pub launches: u64,
    /// Blocks of all these kernels.
    pub blocks: u64,
    /// The work done by these blocks.
    pub work: Work,
}

/// The counts of each device.
static COUNTS: Mutex<Vec<Counts>> = Mutex::new(Vec::new());

fn locked() -> MutexGuard<'static, Vec<Counts>> {
    COUNTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The work of a device's kernels that have ended in this process. A kernel is counted before its stream continues.
pub fn counts(device: usize) -> Counts {
    locked().get(device).copied().unwrap_or_default()
}

/// As [`counts`], of all devices together.
pub fn counts_of_all() -> Counts {
    locked().iter().fold(Counts::default(), |all, own| Counts {
        launches: all.launches + own.launches,
        blocks: all.blocks + own.blocks,
        work: all.work + own.work,
    })
}

/// Adds a kernel that has ended, with its number of blocks.
pub(crate) fn note(device: usize, blocks: u64, work: Work) {
    let mut counts = locked();
    if counts.len() <= device {
        counts.resize(device + 1, Counts::default());
    }
    let known = &mut counts[device];
    known.launches += 1;
    known.blocks += blocks;
    known.work += work;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_count_apart() {
        let work = Work { instructions: 5, loaded: 4, stored: 3 };
        note(7, 2, work);
        note(7, 1, work);
        note(8, 1, work);
        assert_eq!(counts(7), Counts { launches: 2, blocks: 3, work: work + work });
        assert_eq!(counts_of_all(), Counts { launches: 3, blocks: 4, work: work + work + work });
        assert_eq!((counts(6), counts(8).launches, counts(99)), (Counts::default(), 1, Counts::default()));
    }
}
