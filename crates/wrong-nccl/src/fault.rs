//! The faults: their descriptions, which of them is wanted, and which of them a program has met.
use crate::numbers;
use crate::table::{self, TABLE};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

/// A fault: a number in [`TABLE`].
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

impl Fault {
    /// Every fault, including the members of families.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..TABLE.len()).map(|number| Self(number as u16))
    }

    /// The fault's description.
    pub fn entry(self) -> &'static Entry {
        &TABLE[usize::from(self.0)]
    }

    /// Its number in the table, which is its bit in [`Reached`].
    pub fn number(self) -> usize {
        usize::from(self.0)
    }

    /// The only element type in which it can strike, by name; `None` if it can in every type.
    pub fn only_type(self) -> Option<&'static str> {
        numbers::type_of(usize::from(self.0).checked_sub(table::PLAIN.len())?)
    }

    /// Parses a fault's id, in upper or lower case.
    pub fn parse(id: &str) -> Option<Self> {
        Self::all().find(|fault| fault.entry().id.eq_ignore_ascii_case(id))
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

/// A text that names no mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFault {
    /// The id is not in the table.
    #[error("there is no fault `{0}`: they are from {first} to {last}, not every number, some followed by a letter; `collspec audit --list-faults` lists them", first = first(), last = last())]
    Unknown(String),
    /// Not `rank=`.
    #[error("`{0}` is not `rank=N`")]
    Where(String),
}

/// The classes of the table, which are the first three letters of its ids.
fn classes() -> impl Iterator<Item = &'static str> {
    TABLE.iter().filter_map(|entry| entry.id.get(..3))
}

fn first() -> &'static str {
    classes().min().unwrap_or_default()
}

fn last() -> &'static str {
    classes().max().unwrap_or_default()
}

impl FromStr for FaultMode {
    type Err = NoFault;

    /// `F07`, `F07,rank=1`, or `trace`; an empty text is [`FaultMode::Sound`].
    fn from_str(text: &str) -> Result<Self, NoFault> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self::Sound);
        }
        if text.eq_ignore_ascii_case("trace") {
            return Ok(Self::Trace);
        }
        let mut words = text.split(',').map(str::trim);
        let id = words.next().unwrap_or_default();
        let fault = Fault::parse(id).ok_or_else(|| NoFault::Unknown(id.to_owned()))?;
        let mut injection = Injection { fault, rank: None };
        for word in words {
            let number = word.strip_prefix("rank=").and_then(|number| number.parse().ok());
            injection.rank = Some(number.ok_or_else(|| NoFault::Where(word.to_owned()))?);
        }
        Ok(Self::Inject(injection))
    }
}

impl fmt::Display for FaultMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sound => f.write_str(""),
            Self::Trace => f.write_str("trace"),
            Self::Inject(Injection { fault, rank }) => {
                f.write_str(fault.entry().id)?;
                rank.map_or(Ok(()), |rank| write!(f, ",rank={rank}"))
            }
        }
    }
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

const WORDS: usize = 16;

/// Faults by number: a bit each.
pub type Reached = [u64; WORDS];

static REACHED: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

const _: () = assert!(table::COUNT <= 64 * WORDS, "a bit for every fault");

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

/// The one rank on which `fault` is asked for.
pub(crate) fn aimed(fault: Fault) -> Option<usize> {
    match mode() {
        FaultMode::Inject(injection) if injection.fault == fault => injection.rank,
        _ => None,
    }
}

fn note(fault: Fault) {
    let number = fault.number();
    if let Some(word) = REACHED.get(number / 64) {
        word.fetch_or(1 << (number % 64), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_written_as_they_are_read() {
        for text in ["", "trace", "F07", "F23b,rank=3", "F41-f16-prod"] {
            assert_eq!(text.parse::<FaultMode>().map(|mode| mode.to_string()).as_deref(), Ok(text));
        }
        for text in ["F99x", "F07,rank=x", "F07,algorithm=Tree", ","] {
            assert!(text.parse::<FaultMode>().is_err(), "{text}");
        }
    }

    #[test]
    fn ids_are_unique_and_every_fault_says_what_shows_it() {
        let mut ids: Vec<&str> = TABLE.iter().map(|entry| entry.id).collect();
        ids.sort_unstable();
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(TABLE.iter().all(|entry| !entry.text.is_empty() && !entry.shown_by.is_empty()));
    }
}
