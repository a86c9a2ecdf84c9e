//! NCCL_ALGO and NCCL_PROTO: which algorithms and protocols are allowed, and which ones an operation takes.
use crate::op::Kind;
use crate::route::{Algorithm, Protocol};
use std::str::FromStr;

/// Words of NCCL_ALGO; those that need a GPU's hardware are accepted and never serve anything.
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

impl FromStr for Algorithm {
    type Err = String;

    /// Reads a word of NCCL_ALGO in any case.
    fn from_str(text: &str) -> Result<Self, String> {
        let word = text.trim().to_ascii_lowercase();
        let known = WORDS.iter().find(|(known, _)| *known == word).and_then(|(_, algorithm)| *algorithm);
        known.ok_or_else(|| format!("no algorithm of this library is called `{}`", word.escape_debug()))
    }
}

/// The names of protocols in NCCL_PROTO.
const PROTOCOLS: &[(&str, Option<Protocol>)] =
    &[("simple", Some(Protocol::Simple)), ("ll128", Some(Protocol::Ll128)), ("ll", Some(Protocol::Ll))];

#[derive(Clone, Debug)]
struct Rule<T> {
    /// The operation's word in lower case; `None` for all.
    operation: Option<String>,
    allowed: Vec<T>,
}

/// The rules of a variable such as NCCL_ALGO.
#[derive(Clone, Debug)]
struct Allowed<T> {
    rules: Vec<Rule<T>>,
    error: Option<String>,
}

impl<T> Default for Allowed<T> {
    fn default() -> Self {
        Self { rules: Vec::new(), error: None }
    }
}

impl<T: Copy + PartialEq> Allowed<T> {
    /// Reads a value such as `Ring`, `^Tree`, `Tree,Ring` or `Ring;allreduce:Tree`.
    fn parse(variable: &str, thing: &str, words: &[(&str, Option<T>)], text: &str) -> Self {
        let mut all = Self::default();
        for entry in text.split(';').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (operation, list) = match entry.split_once(':') {
                Some((operation, list)) => (Some(operation.trim().to_ascii_lowercase()), list.trim()),
                None => (None, entry),
            };
            if let Some(operation) = operation.as_deref()
                && !Kind::ALL.iter().any(|kind| kind.algo_word() == operation)
            {
                all.error.get_or_insert(format!("{variable} names an unknown operation, `{operation}`"));
            }
            let (but, list) = match list.strip_prefix('^') {
                Some(list) => (true, list),
                None => (false, list),
            };
            let mut named = Vec::new();
            for word in list.split(',').map(|word| word.trim().to_ascii_lowercase()).filter(|word| !word.is_empty()) {
                match words.iter().find(|(known, _)| *known == word) {
                    Some((_, found)) => named.extend(*found),
                    None => {
                        all.error.get_or_insert(format!("{variable} names an unknown {thing}, `{word}`"));
                    }
                }
            }
            let allowed = if but {
                words.iter().filter_map(|(_, known)| *known).filter(|known| !named.contains(known)).collect()
            } else {
                named
            };
            all.rules.push(Rule { operation, allowed });
        }
        all
    }

    /// True if a rule applies to the operation.
    fn forces(&self, kind: Kind) -> bool {
        self.rules.iter().any(|rule| rule.operation.as_deref().is_none_or(|operation| operation == kind.algo_word()))
    }

    /// The first of those that serve an operation that is allowed.
    fn choose(&self, kind: Kind, served: &[T]) -> Option<T> {
        let word = kind.algo_word();
        let own = self.rules.iter().rev().find(|rule| rule.operation.as_deref() == Some(word));
        let rule = own.or_else(|| self.rules.iter().rev().find(|rule| rule.operation.is_none()));
        match rule {
            None => served.first().copied(),
            Some(rule) => served.iter().copied().find(|one| rule.allowed.contains(one)),
        }
    }
}

/// The algorithms that NCCL_ALGO allows. By default every operation with a choice takes the ring, whatever its size.
#[derive(Clone, Debug, Default)]
pub struct Algorithms(Allowed<Algorithm>);

impl Algorithms {
    /// Reads the variable. An unknown word makes every communicator fail, as in NCCL.
    pub fn parse(text: &str) -> Self {
        Self(Allowed::parse("NCCL_ALGO", "algorithm", WORDS, text))
    }

    /// The default, but with this algorithm for every operation that it serves.
    pub fn preferring(algorithm: Algorithm) -> Self {
        let served = Kind::ALL.iter().filter(|kind| kind.algorithms().contains(&algorithm));
        let rule = |kind: &Kind| Rule { operation: Some(kind.algo_word().to_owned()), allowed: vec![algorithm] };
        Self(Allowed { rules: served.map(rule).collect(), error: None })
    }

    /// The error in the value, if there is one.
    pub(crate) fn error(&self) -> Option<&str> {
        self.0.error.as_deref()
    }

    /// True if the variable restricts the algorithms of the operation.
    pub(crate) fn forces(&self, kind: Kind) -> bool {
        self.0.forces(kind)
    }

    /// The algorithm an operation takes; `None` if none that is allowed serves it.
    pub(crate) fn choose(&self, kind: Kind) -> Option<Algorithm> {
        let served = kind.algorithms();
        if served.is_empty() { Some(Algorithm::Direct) } else { self.0.choose(kind, served) }
    }
}

/// The protocols that NCCL_PROTO allows. By default every operation takes the simple one, as do those without a choice of
/// algorithm in any case.
#[derive(Clone, Debug, Default)]
pub struct Protocols(Allowed<Protocol>);

impl Protocols {
    /// Reads the variable. An unknown word makes every communicator fail, as in NCCL.
    pub fn parse(text: &str) -> Self {
        Self(Allowed::parse("NCCL_PROTO", "protocol", PROTOCOLS, text))
    }

    /// The error in the value, if there is one.
    pub(crate) fn error(&self) -> Option<&str> {
        self.0.error.as_deref()
    }

    /// True if the variable restricts the protocols of the operation.
    pub(crate) fn forces(&self, kind: Kind) -> bool {
        self.0.forces(kind)
    }

    /// The protocol an operation takes; `None` if none is allowed.
    pub(crate) fn choose(&self, kind: Kind) -> Option<Protocol> {
        if kind.algorithms().is_empty() {
            return Some(Protocol::Simple);
        }
        self.0.choose(kind, &[Protocol::Simple, Protocol::Ll128, Protocol::Ll])
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
        assert!(Algorithms::parse("Rings").error().is_some());
        assert!(Algorithms::parse("allreduces:Ring").error().is_some());
        assert!(Algorithms::parse("^PAT,ring").error().is_none());
    }

    #[test]
    fn a_preference_leaves_other_operations_alone() {
        let algorithms = Algorithms::preferring(Algorithm::Tree);
        assert_eq!(algorithms.choose(Kind::AllReduce), Some(Algorithm::Tree));
        assert_eq!(algorithms.choose(Kind::Reduce), Some(Algorithm::Ring));
        assert_eq!(algorithms.choose(Kind::AllGather), Some(Algorithm::Ring));
        assert_eq!(algorithms.choose(Kind::Send), Some(Algorithm::Direct));
        assert_eq!("SINGLETREE".parse(), Ok(Algorithm::SingleTree));
        assert!("nvls".parse::<Algorithm>().is_err());
    }

    #[test]
    fn protocols_are_read_alike() {
        let choose = |text: &str, kind| Protocols::parse(text).choose(kind);
        assert_eq!(choose("", Kind::AllReduce), Some(Protocol::Simple));
        assert_eq!(choose("LL,ll128", Kind::AllGather), Some(Protocol::Ll128));
        assert_eq!(choose("^Simple,LL128", Kind::Reduce), Some(Protocol::Ll));
        assert_eq!(choose("LL;broadcast:Simple", Kind::Broadcast), Some(Protocol::Simple));
        assert_eq!(choose("LL", Kind::Send), Some(Protocol::Simple));
        assert_eq!(choose("^LL,LL128,Simple", Kind::AllReduce), None);
        assert_eq!(Protocols::parse("LL256").error(), Some("NCCL_PROTO names an unknown protocol, `ll256`"));
    }
}
