//! The table of all faults, by number: first those that belong to no family, then the members of the families of numbers and of situations.
use crate::fault::{Entry, Fault, FaultMode, Injection, WORDS};
use crate::plain::PLAIN;
use crate::{numbers, situations};
use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

const _: () = assert!(PLAIN.len() + numbers::COUNT + situations::COUNT <= 64 * WORDS, "a bit for every fault");

/// All faults by number.
pub static TABLE: LazyLock<Vec<Entry>> =
    LazyLock::new(|| PLAIN.iter().copied().chain(numbers::entries()).chain(situations::entries()).collect());

impl Fault {
    /// Every fault, including the members of families.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..TABLE.len()).map(|number| Self(number as u16))
    }

    /// The fault's description.
    pub fn entry(self) -> &'static Entry {
        &TABLE[usize::from(self.0)]
    }

    /// Its number in the table, which is its bit in [`Reached`](crate::Reached).
    pub fn number(self) -> usize {
        usize::from(self.0)
    }

    /// The only element type in which it can strike, by name; `None` if it can in every type.
    pub fn only_type(self) -> Option<&'static str> {
        numbers::type_of(usize::from(self.0).checked_sub(PLAIN.len())?)
    }

    /// Parses a fault's id, in upper or lower case.
    pub fn parse(id: &str) -> Option<Self> {
        Self::all().find(|fault| fault.entry().id.eq_ignore_ascii_case(id))
    }
}

/// A text that names no mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFault {
    /// The id is not in the table.
    #[error("there is no fault `{0}`: they are from {first} to {last}, not every number, some followed by a letter; `collspec audit --list-faults` lists them", first = first(), last = last())]
    Unknown(String),
    /// The id is that of a family.
    #[error("`{0}` is a family of faults; one of them is `{1}`, and `collspec audit --list-faults` lists them all")]
    Family(String, &'static str),
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
        let fault = Fault::parse(id).ok_or_else(|| {
            let is_member = |entry: &&Entry| entry.family.is_some_and(|(family, _)| family.eq_ignore_ascii_case(id));
            let member = TABLE.iter().find(is_member);
            member.map_or_else(|| NoFault::Unknown(id.to_owned()), |member| NoFault::Family(id.to_owned(), member.id))
        })?;
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
        let family = "f41".parse::<FaultMode>().map_err(|error| error.to_string());
        assert!(family.is_err_and(|error| error.contains("one of them is `F41-")));
    }

    #[test]
    fn ids_are_unique_and_every_fault_says_what_shows_it() {
        let mut ids: Vec<&str> = TABLE.iter().map(|entry| entry.id).collect();
        ids.sort_unstable();
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(TABLE.iter().all(|entry| !entry.text.is_empty() && !entry.shown_by.is_empty()));
    }
}
