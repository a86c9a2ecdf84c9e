//! Fingerprints: the families that explain a library's results. An element tells families apart if it has several right
//! values.
use super::answer::{JudgedElement, Ruling};
use super::families::FamilySet;
use serde::{Deserialize, Serialize};

/// The families that explain the judged elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The families that explain every telling element; empty if no single one does.
    pub families: FamilySet,
    /// Accepted elements whose admissible set has two members or more.
    pub telling: u64,
    /// Number of judged elements.
    pub elements: u64,
}

/// The comparison of two fingerprints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// The same families.
    Same,
    /// No family explains both.
    Different,
    /// Some families explain both: no evidence of a change.
    Compatible,
    /// One of them has no element that tells.
    NoEvidence,
}

impl Default for Fingerprint {
    fn default() -> Self {
        Self { families: FamilySet::ALL, telling: 0, elements: 0 }
    }
}

impl Fingerprint {
    /// Adds an element.
    pub fn add(&mut self, judged: &JudgedElement) {
        self.elements += 1;
        if let Ruling::Accept { families: Some(families), set_size: Some(2..) } = &judged.ruling {
            self.families = self.families.intersect(*families);
            self.telling += 1;
        }
    }

    /// Takes in elements that cannot tell, such as those of the exact lane.
    pub fn add_silent(&mut self, elements: u64) {
        self.elements += elements;
    }

    /// Takes in another part of the same result.
    pub fn merge(&mut self, other: &Self) {
        self.families = self.families.intersect(other.families);
        self.telling += other.telling;
        self.elements += other.elements;
    }

    /// True if any element tells families apart.
    pub fn tells(&self) -> bool {
        self.telling > 0
    }

    /// Compares the families of two runs. A result that no single family explains is a mixture, which is compatible with all.
    pub fn compare(&self, other: &Self) -> Comparison {
        match (self.tells() && other.tells(), self.families == other.families) {
            (false, _) => Comparison::NoEvidence,
            (true, true) => Comparison::Same,
            _ if self.families.is_empty() || other.families.is_empty() => Comparison::Compatible,
            _ if self.families.intersect(other.families).is_empty() => Comparison::Different,
            _ => Comparison::Compatible,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{ElementLane, Rounding, Scale, Shape};

    fn element(families: FamilySet, set_size: usize) -> JudgedElement {
        let ruling = Ruling::Accept { families: Some(families), set_size: Some(set_size) };
        JudgedElement { lane: ElementLane::Admissible, ruling, note: None }
    }

    #[test]
    fn only_telling_elements_count() {
        let chain = FamilySet::with_wider(Shape::Chain, Rounding::EachStep, Scale::None, false);
        let tree = FamilySet::single(Shape::Tree, Rounding::EachStep, Scale::None);
        let once = FamilySet::single(Shape::Chain, Rounding::Once, Scale::None);
        let print = |parts: &[(FamilySet, usize)]| {
            let mut print = Fingerprint::default();
            parts.iter().for_each(|(f, n)| print.add(&element(*f, *n)));
            print
        };
        let (a, b) = (print(&[(chain, 2), (once, 1)]), print(&[(chain, 3), (tree, 2)]));
        assert_eq!((a.families, a.telling, a.elements), (chain, 1, 2));
        assert_eq!(b.families, tree);
        assert_eq!(a.compare(&b), Comparison::Compatible);
        assert_eq!(a.compare(&a), Comparison::Same);
        assert_eq!(a.compare(&print(&[(once, 2)])), Comparison::Different);
        assert_eq!(a.compare(&print(&[(chain, 1)])), Comparison::NoEvidence);
        assert_eq!(a.compare(&print(&[(once, 2), (chain, 2)])), Comparison::Compatible);
    }
}
