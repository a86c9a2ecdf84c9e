//! The algorithm that one call requests: `algSelection` of the call's configuration, as a text and as the set that it admits.
use super::NcclCall;
use nccl_sys::{ALGORITHM_NAMES, AlgorithmName};

/// The word that leaves the choice to the library.
pub const AUTOMATIC: &str = "auto";

/// The algorithms that a call's configuration requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct AlgorithmChoice {
    /// NCCL's expression; empty leaves the choice to the library.
    pub selection: String,
    /// True if a selection that cannot be met is an error of the call. Otherwise the library chooses in that case.
    pub force: bool,
}

/// The reason a selection cannot be met by any library.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnmetSelection {
    /// A name that NCCL does not document.
    #[error("NCCL has no algorithm whose name begins with `{0}`")]
    Unknown(String),
    /// A term without a name, or with names that exclude each other.
    #[error("`{0}` in it names no algorithm")]
    Empty(String),
    /// Names that the function does not have.
    #[error("{0} has none of them: {1}")]
    NotServed(&'static str, String),
}

/// The families and protocols that a selection admits, as values of NCCL_ALGO and NCCL_PROTO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlgorithmVariables {
    /// The value for NCCL_ALGO.
    pub algorithms: String,
    /// NCCL_PROTO; `None` if every protocol is admitted.
    pub protocols: Option<String>,
}

/// The algorithms' names for NCCL_ALGO, by the beginning of their names in a selection.
const FAMILIES: [(&str, &str); 7] = [
    ("TREE_", "Tree"),
    ("RING_", "Ring"),
    ("COLLNET_DIRECT_", "CollnetDirect"),
    ("COLLNET_CHAIN_", "CollnetChain"),
    ("NVLS_", "NVLS"),
    ("NVLSTREE_", "NVLSTree"),
    ("PAT_", "PAT"),
];
const PROTOCOLS: [(&str, &str); 3] = [("LL", "LL"), ("LL128", "LL128"), ("SIMPLE", "Simple")];

impl AlgorithmChoice {
    /// True if the choice is left to the library.
    pub fn is_automatic(&self) -> bool {
        self.selection.is_empty()
    }

    /// The names that the selection admits for a call; empty if the library chooses.
    ///
    /// # Errors
    ///
    /// No library can meet it.
    pub fn admitted(&self, call: NcclCall) -> Result<Vec<&'static AlgorithmName>, UnmetSelection> {
        if self.is_automatic() {
            return Ok(Vec::new());
        }
        let text: String = self.selection.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        let mut admitted = vec![false; ALGORITHM_NAMES.len()];
        for term in text.split(',') {
            let of_term = term_names(term)?;
            admitted.iter_mut().zip(of_term).for_each(|(all, one)| *all |= one);
        }
        let served = |name: &&AlgorithmName| name.functions.contains(&call.symbol());
        let named = ALGORITHM_NAMES.iter().zip(admitted).filter(|(_, is)| *is).map(|(name, _)| name);
        let names: Vec<_> = named.filter(served).collect();
        if names.is_empty() {
            let its: Vec<_> = ALGORITHM_NAMES.iter().filter(served).map(|name| name.name).collect();
            let its = if its.is_empty() { "it has no choice of algorithms".to_owned() } else { its.join(", ") };
            return Err(UnmetSelection::NotServed(call.symbol(), its));
        }
        Ok(names)
    }

    /// The variables that admit exactly the same for a call; `None` if none do.
    pub fn variables(&self, call: NcclCall) -> Option<AlgorithmVariables> {
        let names = self.admitted(call).ok()?;
        let all: Vec<(&str, &str)> = names.iter().map(|name| family_and_protocol(name)).collect::<Option<_>>()?;
        let mut algorithms: Vec<&str> = all.iter().map(|(family, _)| *family).collect();
        let mut protocols: Vec<&str> = all.iter().map(|(_, protocol)| *protocol).collect();
        for list in [&mut algorithms, &mut protocols] {
            list.sort_unstable();
            list.dedup();
        }
        let has = |one: &(&str, &str)| all.contains(one);
        let served = ALGORITHM_NAMES.iter().filter(|name| name.functions.contains(&call.symbol()));
        // Every pair of an algorithm and a protocol that the function has must be admitted, or the variables admit more.
        let product = served
            .filter_map(family_and_protocol)
            .filter(|(family, protocol)| algorithms.contains(family) && protocols.contains(protocol))
            .all(|pair| has(&pair));
        let every = algorithms.iter().all(|family| {
            let of_family = ALGORITHM_NAMES.iter().filter_map(family_and_protocol).filter(|(of, _)| of == family);
            of_family.map(|(_, protocol)| protocol).all(|protocol| protocols.contains(&protocol))
        });
        let protocols = (!every).then(|| protocols.join(","));
        (product && !all.is_empty()).then(|| AlgorithmVariables { algorithms: algorithms.join(","), protocols })
    }
}

/// The words that make up a selection: the names of families, and of their algorithms.
pub fn algorithm_words() -> impl Iterator<Item = &'static str> {
    let families = FAMILIES.iter().map(|(start, _)| start.trim_end_matches('_'));
    families.chain(ALGORITHM_NAMES.iter().map(|name| name.name))
}

/// The names that a term admits: those that all of its factors name.
fn term_names(term: &str) -> Result<Vec<bool>, UnmetSelection> {
    let mut admitted = vec![true; ALGORITHM_NAMES.len()];
    for factor in term.split('+') {
        let (but, word) = factor.strip_prefix('^').map_or((false, factor), |word| (true, word));
        if word.is_empty() {
            return Err(UnmetSelection::Empty(term.to_owned()));
        }
        let named: Vec<bool> = ALGORITHM_NAMES.iter().map(|name| name.is_meant_by(word)).collect();
        if !named.contains(&true) {
            return Err(UnmetSelection::Unknown(word.to_owned()));
        }
        admitted.iter_mut().zip(named).for_each(|(all, is)| *all &= is != but);
    }
    if admitted.contains(&true) { Ok(admitted) } else { Err(UnmetSelection::Empty(term.to_owned())) }
}

/// Values of NCCL_ALGO and NCCL_PROTO for a name; `None` for kernels on symmetric memory, which they do not name.
fn family_and_protocol(name: &AlgorithmName) -> Option<(&'static str, &'static str)> {
    let (start, family) = FAMILIES.iter().find(|(start, _)| name.name.starts_with(start))?;
    let (_, protocol) = PROTOCOLS.iter().find(|(protocol, _)| name.name.get(start.len()..) == Some(*protocol))?;
    Some((family, protocol))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(selection: &str, call: NcclCall) -> Result<Vec<&'static str>, UnmetSelection> {
        let choice = AlgorithmChoice { selection: selection.to_owned(), force: true };
        choice.admitted(call).map(|names| names.into_iter().map(|name| name.name).collect())
    }

    #[test]
    fn selections_are_read_as_documented() {
        let all = |selection| names(selection, NcclCall::AllReduce).unwrap();
        assert_eq!(all(""), [""; 0]);
        assert_eq!(all("ring"), ["RING_LL", "RING_LL128", "RING_SIMPLE"]);
        assert_eq!(all("Ring_Simple"), ["RING_SIMPLE"]);
        // A name is also the beginning of longer ones.
        assert_eq!(all("tree_ll"), ["TREE_LL", "TREE_LL128"]);
        assert_eq!(all("nvls"), ["NVLS_SIMPLE", "NVLSTREE_SIMPLE"]);
        assert_eq!(all(" ring + ^RING_LL128 "), ["RING_LL", "RING_SIMPLE"]);
        assert_eq!(all("tree_simple,ring_simple"), ["TREE_SIMPLE", "RING_SIMPLE"]);
        assert_eq!(all("^symk + ^coll + ^nvls + ^tree"), ["RING_LL", "RING_LL128", "RING_SIMPLE"]);
        assert_eq!(names("pat,tree", NcclCall::AllGather).unwrap(), ["PAT_SIMPLE"]);
    }

    #[test]
    fn what_no_library_can_meet_is_said() {
        let why = |selection, call| names(selection, call).unwrap_err();
        assert_eq!(why("rings", NcclCall::AllReduce), UnmetSelection::Unknown("rings".into()));
        for empty in ["ring,", ",", "+", "^", "ring+", "ring + tree"] {
            assert!(matches!(why(empty, NcclCall::AllReduce), UnmetSelection::Empty(_)), "{empty}");
        }
        assert!(matches!(why("tree", NcclCall::Broadcast), UnmetSelection::NotServed("ncclBroadcast", _)));
        assert!(why("ring", NcclCall::Gather).to_string().contains("no choice"));
    }

    #[test]
    fn variables_admit_the_same_or_are_none() {
        let variables = |selection: &str, call| {
            let choice = AlgorithmChoice { selection: selection.to_owned(), force: true };
            choice.variables(call).map(|v| (v.algorithms, v.protocols))
        };
        let some = |algorithms: &str, protocols: Option<&str>| Some((algorithms.into(), protocols.map(Into::into)));
        assert_eq!(variables("ring", NcclCall::AllReduce), some("Ring", None));
        assert_eq!(variables("ring_simple", NcclCall::AllReduce), some("Ring", Some("Simple")));
        assert_eq!(variables("tree_ll + ^tree_ll128", NcclCall::AllReduce), some("Tree", Some("LL")));
        assert_eq!(variables("ring,tree", NcclCall::AllReduce), some("Ring,Tree", None));
        assert_eq!(variables("ring,tree", NcclCall::Reduce), some("Ring", None));
        assert_eq!(variables("ring_ll,tree_simple", NcclCall::AllReduce), None);
        assert_eq!(variables("pat", NcclCall::AllGather), some("PAT", None));
        assert_eq!(variables("symk", NcclCall::AllGather), None);
        assert_eq!(variables("tree", NcclCall::AllGather), None);
    }
}
