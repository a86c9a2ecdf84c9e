//! NCCL_ALGO: which algorithms are allowed, and which one an operation takes.
use crate::op::Kind;

/// How messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Around a ring, or along a chain for rooted operations.
    Ring,
    /// Two binary trees, each with half of the data; every rank has children in at most one.
    Tree,
    /// One binary tree (a word of this library).
    SingleTree,
    /// Straight between the two ranks; operations built on that have no choice.
    Direct,
}

impl Algorithm {
    /// NCCL_ALGO's word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ring => "Ring",
            Self::Tree => "Tree",
            Self::SingleTree => "SingleTree",
            Self::Direct => "Direct",
        }
    }
}

/// Words of NCCL_ALGO; those that need a GPU's hardware are known and never serve anything here.
const WORDS: &[(&str, Option<Algorithm>)] = &[
    ("tree", Some(Algorithm::Tree)),
    ("ring", Some(Algorithm::Ring)),
    ("singletree", Some(Algorithm::SingleTree)),
    ("collnetdirect", None),
    ("collnetchain", None),
    ("collnet", None),
    ("nvls", None),
    ("nvlstree", None),
    ("pat", None),
];

#[derive(Clone, Debug)]
struct Rule {
    /// The operation's word in lower case; `None` for all.
    operation: Option<String>,
    allowed: Vec<Algorithm>,
}

/// The algorithms that NCCL_ALGO allows. By default every operation with a choice takes the ring, whatever its size.
#[derive(Clone, Debug, Default)]
pub struct Algorithms {
    rules: Vec<Rule>,
    fault: Option<String>,
}

impl Algorithms {
    /// Reads a value such as `Ring`, `^Tree`, `Tree,Ring` or `Ring;allreduce:Tree`. A word nobody knows makes every
    /// communicator fail, as in NCCL.
    pub fn parse(text: &str) -> Self {
        let mut all = Self::default();
        for entry in text.split(';').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (operation, list) = match entry.split_once(':') {
                Some((operation, list)) => (Some(operation.trim().to_ascii_lowercase()), list.trim()),
                None => (None, entry),
            };
            if let Some(operation) = operation.as_deref()
                && !Kind::ALL.iter().any(|kind| kind.word() == operation)
            {
                all.fault.get_or_insert(format!("NCCL_ALGO names an operation nobody knows, `{operation}`"));
            }
            let (but, list) = match list.strip_prefix('^') {
                Some(list) => (true, list),
                None => (false, list),
            };
            let mut named = Vec::new();
            for word in list.split(',').map(|word| word.trim().to_ascii_lowercase()).filter(|word| !word.is_empty()) {
                match WORDS.iter().find(|(known, _)| *known == word) {
                    Some((_, algorithm)) => named.extend(*algorithm),
                    None => {
                        all.fault.get_or_insert(format!("NCCL_ALGO names an algorithm nobody knows, `{word}`"));
                    }
                }
            }
            let allowed = if but {
                let everything = [Algorithm::Ring, Algorithm::Tree, Algorithm::SingleTree];
                everything.into_iter().filter(|algorithm| !named.contains(algorithm)).collect()
            } else {
                named
            };
            all.rules.push(Rule { operation, allowed });
        }
        all
    }

    /// What is wrong with the value, if anything.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// The algorithm an operation takes; `None` if none that is allowed serves it.
    pub(crate) fn choose(&self, kind: Kind) -> Option<Algorithm> {
        let served = kind.algorithms();
        if served.is_empty() {
            return Some(Algorithm::Direct);
        }
        let word = kind.word();
        let own = self.rules.iter().rev().find(|rule| rule.operation.as_deref() == Some(word));
        let rule = own.or_else(|| self.rules.iter().rev().find(|rule| rule.operation.is_none()));
        match rule {
            None => served.first().copied(),
            Some(rule) => served.iter().copied().find(|algorithm| rule.allowed.contains(algorithm)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_exceptions_and_single_operations() {
        let choose = |text: &str, kind| Algorithms::parse(text).choose(kind);
        assert_eq!(choose("", Kind::AllReduce), Some(Algorithm::Ring));
        assert_eq!(choose("tree", Kind::AllReduce), Some(Algorithm::Tree));
        assert_eq!(choose("Tree", Kind::AllGather), None);
        assert_eq!(choose("NVLS", Kind::AllReduce), None);
        assert_eq!(choose("Tree,Ring", Kind::AllGather), Some(Algorithm::Ring));
        assert_eq!(choose("^Ring", Kind::AllReduce), Some(Algorithm::Tree));
        assert_eq!(choose("^Ring", Kind::ReduceScatter), None);
        assert_eq!(choose("SingleTree", Kind::Broadcast), Some(Algorithm::SingleTree));
        assert_eq!(choose("Tree", Kind::Gather), Some(Algorithm::Direct));
        assert_eq!(choose("Ring;allreduce:Tree", Kind::AllReduce), Some(Algorithm::Tree));
        assert_eq!(choose("Ring;allreduce:Tree", Kind::Reduce), Some(Algorithm::Ring));
        assert!(Algorithms::parse("Rings").fault().is_some());
        assert!(Algorithms::parse("allreduces:Ring").fault().is_some());
        assert!(Algorithms::parse("^PAT,ring").fault().is_none());
    }
}
