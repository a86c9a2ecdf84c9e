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
    /// All by id, the library's first.
    pub fn all() -> impl Iterator<Item = Self> {
        let mut faults: Vec<Self> = Fault::all().map(Self::Fault).collect();
        faults.sort_by_key(|fault| fault.id());
        faults.into_iter().chain(Flaw::all().map(Self::Flaw))
    }

    /// `F07`, `F23b`, `F41-f16-prod`, `J01`.
    pub fn id(self) -> &'static str {
        match self {
            Self::Fault(fault) => fault.entry().id,
            Self::Flaw(flaw) => flaw.info().id,
        }
    }

    /// The id without a letter.
    pub fn class(self) -> &'static str {
        match self {
            Self::Fault(fault) => fault.entry().class(),
            Self::Flaw(flaw) => flaw.info().class(),
        }
    }

    /// For a fault of a family, the family's id and what goes wrong in all of it.
    pub fn family(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Fault(fault) => fault.entry().family,
            Self::Flaw(_) => None,
        }
    }

    /// True if the text is its id, or the id of the family it belongs to, or that and the type.
    fn is_called(self, text: &str) -> bool {
        let start = self.id().as_bytes().get(..text.len());
        let whole = self.id().len() == text.len();
        let ends = whole || self.family().is_some() && self.id().as_bytes().get(text.len()) == Some(&b'-');
        ends && start.is_some_and(|start| start.eq_ignore_ascii_case(text.as_bytes()))
    }

    /// What goes wrong.
    pub fn text(self) -> &'static str {
        match self {
            Self::Fault(fault) => fault.entry().text,
            Self::Flaw(flaw) => flaw.info().text,
        }
    }

    /// What kind of scenario shows it.
    pub fn shown_by(self) -> &'static str {
        match self {
            Self::Fault(fault) => fault.entry().shown_by,
            Self::Flaw(flaw) => flaw.info().shown_by,
        }
    }
}

/// Which are meant; all, unless some are named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection(BTreeSet<Item>);

/// A text that names no fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no fault `{0}`: the library's are {first} to {last}, the judge's J01 to J10, some with a letter behind",
        first = ends().0, last = ends().1)]
pub struct NoSelection(String);

/// The first class of the library's faults, and the last.
fn ends() -> (&'static str, &'static str) {
    let classes = || Fault::all().map(|fault| fault.entry().class());
    (classes().min().unwrap_or_default(), classes().max().unwrap_or_default())
}

impl FromStr for Selection {
    type Err = NoSelection;

    /// Ids with commas between them; `F41` and `F41-f16` are all members of the family, or those of the type.
    fn from_str(text: &str) -> Result<Self, NoSelection> {
        let mut all = BTreeSet::new();
        for id in text.split(',').map(str::trim) {
            let named: Vec<Item> = Item::all().filter(|item| item.is_called(id)).collect();
            if id.is_empty() || named.is_empty() {
                return Err(NoSelection(id.to_owned()));
            }
            all.extend(named);
        }
        Ok(Self(all))
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
        assert_eq!(ids("F41-f16-prod"), ["F41-f16-prod"]);
        let of_f16 = ids("f41-f16");
        assert!(of_f16.len() > 1 && of_f16.iter().all(|id| id.starts_with("F41-f16-")), "{of_f16:?}");
        let family = ids("F43");
        assert!(
            family.len() > 1 && family.iter().all(|id| id.starts_with("F43-")),
            "F43b is another family: {family:?}"
        );
        assert_eq!("F41-f".parse::<Selection>(), Err(NoSelection("F41-f".into())));
        assert_eq!("F01,F99".parse::<Selection>(), Err(NoSelection("F99".into())));
        assert!("".parse::<Selection>().is_err());
        let flaws: Selection = "J03".parse().unwrap();
        assert_eq!(flaws.faults().count(), Fault::all().count(), "a flaw is shown by any fault");
        assert_eq!(Selection::default().items().count(), Item::all().count());
    }
}
