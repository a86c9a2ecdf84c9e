//! The observations of a case's run.
use crate::job::RankReport;

/// The way a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every rank has finished.
    Done,
    /// Some rank's call failed (see the reports).
    Errored,
    /// The time limit passed, or the software library proved that nothing can move.
    Hung {
        /// True if the hang was proved.
        proved: bool,
        /// True if it happened while communicators were created.
        opening: bool,
        /// Describes who waits for whom, if known.
        waits: String,
    },
    /// A part of the worker died.
    Crashed {
        /// The end of the process as text: `signal 9 (SIGKILL)`, `exit status 1`.
        how: String,
        /// True if it happened while communicators were created.
        opening: bool,
    },
}

/// The observations of a run; a case with `repeat` has one per run.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The way the run ended.
    pub ended: Ended,
    /// Reports by world rank; empty if they are unknown.
    pub ranks: Vec<RankReport>,
    /// Final images by allocation (guards included); empty unless the allocation's rank is `Done`.
    pub images: Vec<Vec<u8>>,
    /// For each allocation, true if every byte of its final image was the only right one when it was read, so that it was not kept.
    /// `false` for allocations beyond the end.
    pub as_expected: Vec<bool>,
    /// Checkpoints, by index; empty unless its rank is `Done`.
    pub checkpoints: Vec<Vec<u8>>,
    /// Excerpt of the worker's standard error and of NCCL's log.
    pub log: String,
    /// Seconds from *loaded* to the end.
    pub seconds: f64,
    /// Faults on demand that struck, or would have: a bit each in the order of its table; `None` if the worker could not report them.
    pub reached: Option<Vec<u64>>,
    /// The faults met until the time limit ended the run, if they were to be recorded and the worker still answers; later faults
    /// are unknown.
    pub reached_until_limit: Option<Vec<u64>>,
    /// True if the communicators had been used by an earlier case.
    pub reused: bool,
    /// World ranks whose processes ended while the others went on, and how: `exit status 0`, `signal 9 (SIGKILL)`.
    pub deaths: Vec<(u32, String)>,
}

impl Observation {
    /// True if the allocation's final image is the expected one, and was not kept for that reason.
    pub fn is_as_expected(&self, alloc: usize) -> bool {
        self.as_expected.get(alloc).copied().unwrap_or(false)
    }

    /// Approximate bytes of memory that it takes.
    pub fn bytes(&self) -> u64 {
        let lists = self.images.iter().chain(&self.checkpoints);
        let data: usize = lists.map(|bytes| bytes.len() + size_of::<Vec<u8>>()).sum();
        let figures: usize =
            self.ranks.iter().map(|rank| size_of_val(rank) + size_of_val(rank.figures.as_slice())).sum();
        (size_of::<Self>() + data + figures + self.log.len()) as u64
    }
}
