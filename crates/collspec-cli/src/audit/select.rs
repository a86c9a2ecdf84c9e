//! Faults of the library and flaws of the judge in one list, and a selection of them by id.
use super::flaw::Flaw;
use std::collections::BTreeSet;
use std::str::FromStr;
use wrong_nccl::Fault;

/// A fault of the library or a flaw of the judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultOrFlaw {
    /// A fault of the library.
    Fault(Fault),
    /// A flaw of the judge.
    Flaw(Flaw),
}

impl FaultOrFlaw {
    /// All by id, the faults first.
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

    /// For a fault of a family, the family's id and its description.
    pub fn family(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Fault(fault) => fault.entry().family,
            Self::Flaw(_) => None,
        }
    }

    /// True if the text is its id, the id of the family it belongs to, or the family's id and the type.
    fn matches_id(self, text: &str) -> bool {
        let start = self.id().as_bytes().get(..text.len());
        let whole = self.id().len() == text.len();
        let ends = whole || self.family().is_some() && self.id().as_bytes().get(text.len()) == Some(&b'-');
        ends && start.is_some_and(|start| start.eq_ignore_ascii_case(text.as_bytes()))
    }

    /// The fault or flaw in one line.
    pub fn text(self) -> &'static str {
        match self {
            Self::Fault(fault) => fault.entry().text,
            Self::Flaw(flaw) => flaw.info().text,
        }
    }

    /// The kind of scenario that shows it.
    pub fn shown_by(self) -> &'static str {
        match self {
            Self::Fault(fault) => fault.entry().shown_by,
            Self::Flaw(flaw) => flaw.info().shown_by,
        }
    }
}

/// A selection of faults and flaws; all if it is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection(BTreeSet<FaultOrFlaw>);

/// A text that is the id of no fault or flaw.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no fault `{0}`: the library's are from {first} to {last}, the judge's J01 to J10; `collspec audit --list-faults` lists them",
        first = class_bounds().0, last = class_bounds().1)]
pub struct UnknownId(String);

/// The first class of the library's faults, and the last.
fn class_bounds() -> (&'static str, &'static str) {
    let classes = || Fault::all().map(|fault| fault.entry().class());
    (classes().min().unwrap_or_default(), classes().max().unwrap_or_default())
}

impl FromStr for Selection {
    type Err = UnknownId;

    /// Ids with commas between them; `F41` and `F41-f16` are all members of the family, or those of the type.
    fn from_str(text: &str) -> Result<Self, UnknownId> {
        let mut all = BTreeSet::new();
        for id in text.split(',').map(str::trim) {
            let named: Vec<FaultOrFlaw> = FaultOrFlaw::all().filter(|item| item.matches_id(id)).collect();
            if id.is_empty() || named.is_empty() {
                return Err(UnknownId(id.to_owned()));
            }
            all.extend(named);
        }
        Ok(Self(all))
    }
}

impl Selection {
    /// The faults and flaws that the table shows.
    pub fn items(&self) -> impl Iterator<Item = FaultOrFlaw> {
        FaultOrFlaw::all().filter(|item| self.0.is_empty() || self.0.contains(item))
    }

    /// The faults to run with: all if the selection names none, because any of them may reveal a flaw.
    pub fn faults(&self) -> impl Iterator<Item = Fault> {
        let named = self.0.iter().any(|item| matches!(item, FaultOrFlaw::Fault(_)));
        Fault::all().filter(move |fault| !named || self.0.contains(&FaultOrFlaw::Fault(*fault)))
    }

    /// The flaws to judge with.
    pub fn flaws(&self) -> impl Iterator<Item = Flaw> {
        self.items().filter_map(|item| if let FaultOrFlaw::Flaw(flaw) = item { Some(flaw) } else { None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_named_with_commas_between() {
        let ids =
            |text: &str| -> Vec<&str> { text.parse::<Selection>().unwrap().items().map(FaultOrFlaw::id).collect() };
        assert_eq!(ids("f07, J03,F01"), ["F01", "F07", "J03"]);
        assert_eq!(ids("F41-f16-prod"), ["F41-f16-prod"]);
        let of_f16 = ids("f41-f16");
        assert!(of_f16.len() > 1 && of_f16.iter().all(|id| id.starts_with("F41-f16-")), "{of_f16:?}");
        let family = ids("F43");
        assert!(
            family.len() > 1 && family.iter().all(|id| id.starts_with("F43-")),
            "F43b is another family: {family:?}"
        );
        assert_eq!("F41-f".parse::<Selection>(), Err(UnknownId("F41-f".into())));
        assert_eq!("F01,F99".parse::<Selection>(), Err(UnknownId("F99".into())));
        assert!("".parse::<Selection>().is_err());
        let flaws: Selection = "J03".parse().unwrap();
        assert_eq!(flaws.faults().count(), Fault::all().count(), "a flaw is shown by any fault");
        assert_eq!(Selection::default().items().count(), FaultOrFlaw::all().count());
    }
}
