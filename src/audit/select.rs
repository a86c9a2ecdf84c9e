//! Faults of the library and flaws of the judge as one list, and which of them are meant.
use crate::judge::Flaw;
use soft_nccl::fault::Fault;
use std::collections::BTreeSet;
use std::str::FromStr;

/// Something that can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Item {
    /// With the library.
    Fault(Fault),
    /// With the judge.
    Flaw(Flaw),
}

impl Item {
    /// All, the library's first.
    pub fn all() -> impl Iterator<Item = Self> {
        Fault::all().map(Self::Fault).chain(Flaw::all().map(Self::Flaw))
    }

    /// `F07`, `F23b`, `J01`.
    pub fn id(self) -> &'static str {
        match self {
            Self::Fault(fault) => fault.entry().id,
            Self::Flaw(flaw) => flaw.entry().id,
        }
    }

    /// The id without a letter.
    pub fn class(self) -> &'static str {
        match self {
            Self::Fault(fault) => fault.entry().class(),
            Self::Flaw(flaw) => flaw.entry().class(),
        }
    }

    /// What goes wrong.
    pub fn text(self) -> &'static str {
        match self {
            Self::Fault(fault) => fault.entry().text,
            Self::Flaw(flaw) => flaw.entry().text,
        }
    }

    /// What kind of scenario shows it.
    pub fn shown_by(self) -> &'static str {
        match self {
            Self::Fault(fault) => fault.entry().shown_by,
            Self::Flaw(flaw) => flaw.entry().shown_by,
        }
    }
}

/// Which are meant; all, unless some are named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection(BTreeSet<Item>);

/// A text that names no fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no fault `{0}`: the library's are F01 to F68, the judge's J01 to J10, some with a letter behind")]
pub struct NoSelection(String);

impl FromStr for Selection {
    type Err = NoSelection;

    /// Ids with commas between them.
    fn from_str(text: &str) -> Result<Self, NoSelection> {
        let item = |id: &str| {
            let id = id.trim();
            let flaw = || Flaw::parse(id).map(Item::Flaw);
            Fault::parse(id).map(Item::Fault).or_else(flaw).ok_or_else(|| NoSelection(id.to_owned()))
        };
        Ok(Self(text.split(',').map(item).collect::<Result<_, _>>()?))
    }
}

impl Selection {
    /// Those that the table shows.
    pub fn items(&self) -> impl Iterator<Item = Item> {
        Item::all().filter(|item| self.0.is_empty() || self.0.contains(item))
    }

    /// Those that the library is to have: all, if none of its own is named, since a flaw is shown by any of them.
    pub fn faults(&self) -> impl Iterator<Item = Fault> {
        let named = self.0.iter().any(|item| matches!(item, Item::Fault(_)));
        Fault::all().filter(move |fault| !named || self.0.contains(&Item::Fault(*fault)))
    }

    /// Those that the judge is to have.
    pub fn flaws(&self) -> impl Iterator<Item = Flaw> {
        self.items().filter_map(|item| if let Item::Flaw(flaw) = item { Some(flaw) } else { None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_named_with_commas_between() {
        let ids = |text: &str| -> Vec<&str> { text.parse::<Selection>().unwrap().items().map(Item::id).collect() };
        assert_eq!(ids("f07, J03,F01"), ["F01", "F07", "J03"]);
        assert_eq!("F01,F99".parse::<Selection>(), Err(NoSelection("F99".into())));
        assert!("".parse::<Selection>().is_err());
        let flaws: Selection = "J03".parse().unwrap();
        assert_eq!(flaws.faults().count(), Fault::all().count(), "a flaw is shown by any fault");
        assert_eq!(Selection::default().items().count(), Item::all().count());
    }
}
