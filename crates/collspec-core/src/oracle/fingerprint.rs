//! Fingerprints: the families that explain a library's results. An element distinguishes families if it has several right
//! values.
use super::answer::{JudgedElement, Ruling};
use super::families::FamilySet;
use serde::{Deserialize, Serialize};

/// The families that explain the judged elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The families that explain every telling element; empty if no single one does.
    pub families: FamilySet,
    /// Number of accepted elements whose admissible set has two members or more.
    pub telling: u64,
    /// Number of judged elements.
    pub elements: u64,
}

impl Default for Fingerprint {
    fn default() -> Self {
        Self { families: FamilySet::ALL, telling: 0, elements: 0 }
    }
}

impl Fingerprint {
    /// Takes an element's families into account.
    pub fn add(&mut self, judged: &JudgedElement) {
        self.elements += 1;
        if let Ruling::Accept { families: Some(families), set_size: Some(2..) } = &judged.ruling {
            self.families = self.families.intersect(*families);
            self.telling += 1;
        }
    }

    /// Adds elements that were accepted without families.
    pub fn add_untold(&mut self, elements: u64) {
        self.elements += elements;
    }

    /// True if any element distinguishes families.
    pub fn tells(&self) -> bool {
        self.telling > 0
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
    }
}
