//! Which fault is wanted, and which faults a program has met.
use std::sync::atomic::{AtomicU64, Ordering};

/// A fault: a number in [`TABLE`](crate::TABLE).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fault(pub(crate) u16);

/// The description of a fault.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// `F23`, `F23b` for a further one of the class, or `F41-f16-prod` for a member of a family.
    pub id: &'static str,
    /// The effect of the fault.
    pub text: &'static str,
    /// The kind of scenario that reveals it.
    pub shown_by: &'static str,
    /// For a member of a family, the family's id and the description of its rule.
    pub family: Option<(&'static str, &'static str)>,
}

impl Entry {
    /// The class: the id's letter and number.
    pub fn class(&self) -> &'static str {
        self.id.get(..3).unwrap_or(self.id)
    }
}

/// A fault, and the rank on which it strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Injection {
    /// The fault.
    pub fault: Fault,
    /// Only on this rank of any communicator.
    pub rank: Option<usize>,
}

/// What the library in between does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FaultMode {
    /// It passes every call on as it is.
    #[default]
    Sound,
    /// The same, and it notes which faults would have changed something.
    Trace,
    /// It has this fault.
    Inject(Injection),
}

/// The mode at this moment, packed: its kind in the lowest byte, then the fault, and from bit 32 on the rank plus one.
static MODE: AtomicU64 = AtomicU64::new(0);

const TRACE: u64 = 1;
const INJECT: u64 = 2;

/// The mode of the process.
pub(crate) fn mode() -> FaultMode {
    let word = MODE.load(Ordering::Relaxed);
    match word & 0xff {
        TRACE => FaultMode::Trace,
        INJECT => FaultMode::Inject(Injection {
            fault: Fault((word >> 8) as u16),
            rank: (word >> 32).checked_sub(1).map(|rank| rank as usize),
        }),
        _ => FaultMode::Sound,
    }
}

pub(crate) fn set_mode(mode: FaultMode) {
    let word = match mode {
        FaultMode::Sound => 0,
        FaultMode::Trace => TRACE,
        FaultMode::Inject(Injection { fault, rank }) => {
            let rank = rank.map_or(0, |rank| (rank as u64).min(u64::from(u32::MAX) - 1) + 1);
            INJECT | u64::from(fault.0) << 8 | rank << 32
        }
    };
    MODE.store(word, Ordering::Relaxed);
}

pub(crate) const WORDS: usize = 16;

/// Faults by number: a bit each.
pub type Reached = [u64; WORDS];

static REACHED: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

/// The faults that were met since the last call of this function.
pub(crate) fn take_reached() -> Reached {
    std::array::from_fn(|at| REACHED[at].swap(0, Ordering::Relaxed))
}

/// True if this fault strikes on this rank; called only where it would change something. Notes that it was met.
pub(crate) fn hit(fault: Fault, rank: usize) -> bool {
    match mode() {
        FaultMode::Sound => false,
        FaultMode::Trace => {
            note(fault);
            false
        }
        FaultMode::Inject(injection) => {
            let strikes = injection.fault == fault && injection.rank.is_none_or(|only| only == rank);
            if strikes {
                note(fault);
            }
            strikes
        }
    }
}

/// True if it is worth looking whether this fault would change something. Ranks of one program agree on the answer, so that what
/// they do together because of it is the same on all of them.
pub(crate) fn wanted(fault: Fault) -> bool {
    match mode() {
        FaultMode::Sound => false,
        FaultMode::Trace => true,
        FaultMode::Inject(injection) => injection.fault == fault,
    }
}

/// True if it is worth looking whether this fault would change something here: it is wanted, and a trace has not met it yet. Ranks may
/// disagree, so this decides only about what a rank does by itself.
pub(crate) fn sought(fault: Fault) -> bool {
    wanted(fault) && !(mode() == FaultMode::Trace && is_noted(fault))
}

/// The one rank on which `fault` is asked for.
pub(crate) fn aimed(fault: Fault) -> Option<usize> {
    match mode() {
        FaultMode::Inject(injection) if injection.fault == fault => injection.rank,
        _ => None,
    }
}

fn is_noted(fault: Fault) -> bool {
    let number = fault.number();
    REACHED.get(number / 64).is_some_and(|word| word.load(Ordering::Relaxed) & (1 << (number % 64)) != 0)
}

fn note(fault: Fault) {
    let number = fault.number();
    if let Some(word) = REACHED.get(number / 64) {
        word.fetch_or(1 << (number % 64), Ordering::Relaxed);
    }
}
