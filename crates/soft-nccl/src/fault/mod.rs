//! Faults on demand: the library can be made wrong in a known way, to test what a corpus would notice.
//!
//! A place that can go wrong asks `hit`, and asks only where going wrong would change something. So the library can
//! also say, without doing anything wrong, which faults a program could meet ([`FaultMode::Trace`]).
//!
//! The sound code does not know about faults: it calls the hooks of `engine::hooks`, whose default bodies do the right thing, and
//! `install` replaces them for the process.
mod batches;
mod blocks;
mod calls;
mod changes;
mod communicators;
mod deaths;
mod extension;
mod graphs;
mod groups;
mod injector;
mod memory;
mod numbers;
mod one_sided;
mod order;
mod registration;
mod requests;
mod scalars;
mod selections;
mod site;
mod situations;
mod stale;
mod streams;
mod sums;
mod table;
mod values;
mod writing;

pub use table::TABLE;
use table::named;

use crate::algo::Algorithm;
use crate::engine::hooks;
use crate::settings::settings;
use nccl_sys::Nccl;
use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A fault: a number in [`TABLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fault(u16);

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

/// A fault, and the place where it strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Injection {
    /// The fault to inject.
    pub fault: Fault,
    /// Only on this rank of any communicator.
    pub rank: Option<usize>,
    /// Only in operations that take this algorithm.
    pub algorithm: Option<Algorithm>,
}

/// The library's behaviour: correct, or with an injected fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FaultMode {
    /// The library is correct.
    #[default]
    Sound,
    /// It is right, and notes which faults would have changed something.
    Trace,
    /// The library has this fault.
    Inject(Injection),
}

/// A text that names no mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFault {
    /// The id is not in the table.
    #[error("there is no fault `{0}`: they are from {first} to {last}, not every number, some followed by a letter; `collspec audit --list-faults` lists them", first = first(), last = last())]
    Unknown(String),
    /// Neither `rank=` nor `algorithm=`.
    #[error("`{0}` is neither `rank=N` nor `algorithm=` with Ring, Tree, SingleTree or Direct")]
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

    /// `F07`, `F07,rank=1`, `F07,algorithm=Tree`, both, or `trace`.
    fn from_str(text: &str) -> Result<Self, NoFault> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("trace") {
            return Ok(Self::Trace);
        }
        let mut words = text.split(',').map(str::trim);
        let id = words.next().unwrap_or_default();
        let fault = Fault::parse(id).ok_or_else(|| NoFault::Unknown(id.to_owned()))?;
        let mut injection = Injection { fault, rank: None, algorithm: None };
        for word in words {
            let unclear = || NoFault::Where(word.to_owned());
            match word.split_once('=').ok_or_else(unclear)? {
                ("rank", number) => injection.rank = Some(number.parse().map_err(|_| unclear())?),
                ("algorithm", name) => {
                    let named = ALGORITHMS.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(name));
                    injection.algorithm = Some(named.ok_or_else(unclear)?);
                }
                _ => return Err(unclear()),
            }
        }
        Ok(Self::Inject(injection))
    }
}

impl fmt::Display for FaultMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sound => f.write_str(""),
            Self::Trace => f.write_str("trace"),
            Self::Inject(Injection { fault, rank, algorithm }) => {
                f.write_str(fault.entry().id)?;
                if let Some(rank) = rank {
                    write!(f, ",rank={rank}")?;
                }
                match algorithm {
                    Some(algorithm) => write!(f, ",algorithm={}", algorithm.name()),
                    None => Ok(()),
                }
            }
        }
    }
}

/// The mode at this moment, packed; 0 leaves it to the settings.
static NOW: AtomicU64 = AtomicU64::new(0);

/// The mode of the settings.
static CONFIGURED: LazyLock<Result<FaultMode, NoFault>> =
    LazyLock::new(|| settings().injection.as_deref().map_or(Ok(FaultMode::Sound), str::parse));

/// The library's mode. Settings that cannot be understood leave it sound.
fn mode() -> FaultMode {
    let configured = || CONFIGURED.as_ref().copied().unwrap_or_default();
    Packed(NOW.load(Ordering::Relaxed)).mode().unwrap_or_else(configured)
}

/// Makes the library's functions subject to faults, and adds those that request faults.
pub(crate) fn install(table: &mut Nccl) {
    hooks::install(&injector::Injector);
    extension::fill(table);
}

/// Sets the mode from now on; `None` leaves it to the settings again. Only while no communicator is in use.
pub fn set_mode(mode: Option<FaultMode>) {
    NOW.store(mode.map_or(0, |mode| Packed::of(mode).0), Ordering::Relaxed);
    take_reached();
    prepare();
}

/// Delays streams if the wanted faults depend on a stream's progress, which would otherwise be left to chance.
fn prepare() {
    use named::{F12, F13, F13B, F38, F53, F60, F60B, F60C, F67B};
    let late = [F12, F53, F13, F13B, F38, F60, F60B, F60C, F67B];
    crate::device::set_lazy(late.into_iter().any(wanted));
}

/// A mode in a word: kind, fault, rank and algorithm (both plus one) from the lowest byte on.
struct Packed(u64);

const ALGORITHMS: [Algorithm; 4] = [Algorithm::Ring, Algorithm::Tree, Algorithm::SingleTree, Algorithm::Direct];

impl Packed {
    fn of(mode: FaultMode) -> Self {
        Self(match mode {
            FaultMode::Sound => 1,
            FaultMode::Trace => 2,
            FaultMode::Inject(Injection { fault, rank, algorithm }) => {
                let place = ALGORITHMS.iter().position(|known| Some(*known) == algorithm).map_or(0, |at| at as u64 + 1);
                let rank = rank.map_or(0, |rank| (rank as u64).min(RANKS) + 1);
                3 | u64::from(fault.0) << 8 | place << 24 | rank << 32
            }
        })
    }

    fn mode(&self) -> Option<FaultMode> {
        Some(match self.0 & 0xff {
            1 => FaultMode::Sound,
            2 => FaultMode::Trace,
            3 => FaultMode::Inject(Injection {
                fault: Fault((self.0 >> 8) as u16),
                rank: (self.0 >> 32).checked_sub(1).map(|rank| rank as usize),
                algorithm: (self.0 >> 24 & 0xff).checked_sub(1).and_then(|at| ALGORITHMS.get(at as usize).copied()),
            }),
            _ => return None,
        })
    }
}

/// More ranks than any communicator has.
const RANKS: u64 = (1 << 31) - 1;

const WORDS: usize = 16;

/// Faults by number: a bit each.
pub type Reached = [u64; WORDS];

static REACHED: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

const _: () = assert!(table::PLAIN.len() + numbers::COUNT + situations::COUNT <= 64 * WORDS, "a bit for every fault");

/// True if this fault strikes; called only where it would change something. Records that the place was reached.
fn hit(fault: Fault, rank: usize, algorithm: Algorithm) -> bool {
    match mode() {
        FaultMode::Sound => false,
        FaultMode::Trace => {
            note(fault);
            false
        }
        FaultMode::Inject(injection) => {
            let strikes = injection.fault == fault
                && injection.rank.is_none_or(|only| only == rank)
                && injection.algorithm.is_none_or(|only| only == algorithm);
            if strikes {
                note(fault);
            }
            strikes
        }
    }
}

/// True if it is worth checking whether `fault` would change something: it is requested, or everything is traced and this
/// one has not been recorded.
fn wanted(fault: Fault) -> bool {
    match mode() {
        FaultMode::Sound => false,
        FaultMode::Trace => !noted(fault),
        FaultMode::Inject(injection) => injection.fault == fault,
    }
}

/// True if `fault` is requested for this algorithm, on any rank.
fn aims(fault: Fault, algorithm: Algorithm) -> bool {
    match mode() {
        FaultMode::Inject(injection) => {
            injection.fault == fault && injection.algorithm.is_none_or(|only| only == algorithm)
        }
        FaultMode::Sound | FaultMode::Trace => false,
    }
}

/// The one rank on which `fault` is asked for.
fn aimed(fault: Fault) -> Option<usize> {
    match mode() {
        FaultMode::Inject(injection) if injection.fault == fault => injection.rank,
        _ => None,
    }
}

fn noted(fault: Fault) -> bool {
    let number = fault.number();
    REACHED.get(number / 64).is_some_and(|word| word.load(Ordering::Relaxed) & (1 << (number % 64)) != 0)
}

fn note(fault: Fault) {
    let number = fault.number();
    if let Some(word) = REACHED.get(number / 64) {
        word.fetch_or(1 << (number % 64), Ordering::Relaxed);
    }
}

/// Returns the faults that struck, or would have, since the last call. The next operations belong to another program, and state
/// kept for this one does not matter to it.
pub fn take_reached() -> Reached {
    stale::forget();
    scalars::forget();
    changes::forget();
    one_sided::forget();
    registration::forget();
    std::array::from_fn(|at| REACHED[at].swap(0, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_fault_and_ids_are_in_order() {
        let mut found: Vec<&str> = TABLE.iter().map(Entry::class).collect();
        found.dedup();
        let mut classes = found.clone();
        classes.sort_unstable();
        classes.dedup();
        assert_eq!(found.len(), classes.len(), "the faults of a class stand together");
        assert!((1..=53).all(|class| classes.contains(&format!("F{class:02}").as_str())));
        assert!(table::PLAIN.is_sorted_by(|a, b| a.id < b.id));
        let mut ids: Vec<&str> = TABLE.iter().map(|entry| entry.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), TABLE.len(), "no id stands twice");
        assert!(TABLE.iter().all(|entry| !entry.text.is_empty() && !entry.shown_by.is_empty()));
    }

    #[test]
    fn members_of_families_strike_in_the_type_that_their_id_names() {
        let only = |id: &str| Fault::parse(id).and_then(Fault::only_type);
        assert_eq!((only("F01"), only("F68")), (None, None));
        assert_eq!((only("F41-f16-sum"), only("F52i-f8e4m3")), (Some("f16"), Some("f8e4m3")));
        for fault in Fault::all() {
            let number = fault.number();
            let of_numbers = (table::PLAIN.len()..table::PLAIN.len() + numbers::COUNT).contains(&number);
            let named = fault.entry().id.split('-').nth(1).filter(|_| of_numbers);
            assert_eq!(fault.only_type(), named, "{}", fault.entry().id);
        }
    }

    #[test]
    fn wishes_fit_in_a_word() {
        assert_eq!(Packed(0).mode(), None);
        for text in [
            "F07",
            "F07,rank=0",
            "F40c,algorithm=Tree",
            "F52i-f8e4m3,rank=2147483000,algorithm=Direct",
            "F01,rank=1023,algorithm=Direct",
            "trace",
        ] {
            let mode: FaultMode = text.parse().unwrap();
            assert_eq!(Packed::of(mode).mode(), Some(mode));
        }
        assert_eq!(Packed::of(FaultMode::Sound).mode(), Some(FaultMode::Sound));
    }

    #[test]
    fn wishes_are_read_and_written() {
        for text in [
            "F07",
            "F07,rank=1",
            "F40,algorithm=Tree",
            "F41-f16-prod",
            "F51-f64-one_rank,rank=1",
            "F01,rank=3,algorithm=Ring",
            "trace",
        ] {
            assert_eq!(text.parse::<FaultMode>().map(|mode| mode.to_string()).as_deref(), Ok(text));
        }
        assert_eq!(
            "f07,algorithm=singletree".parse::<FaultMode>().map(|w| w.to_string()),
            Ok("F07,algorithm=SingleTree".into())
        );
        for text in [
            "",
            "F00",
            "F99",
            "F41",
            "F41-f16",
            "F41-i8-sum",
            "F07,rank",
            "F07,rank=x",
            "F07,algorithm=NVLS",
            "F07,where=1",
        ] {
            assert!(text.parse::<FaultMode>().is_err(), "{text}");
        }
    }
}
