//! The names that `algSelection` of [`ncclCollConfig_t`](crate::ncclCollConfig_t) knows (2.32's user guide).

/// An algorithm with its protocol, or a kernel on symmetric memory, that a call may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlgorithmName {
    /// The name. A selection names it by any beginning of it, in any case.
    pub name: &'static str,
    /// The functions that have it, without `Config`.
    pub functions: &'static [&'static str],
}

const fn of(functions: &'static [&'static str], name: &'static str) -> AlgorithmName {
    AlgorithmName { name, functions }
}

const REDUCE_ALL: &[&str] = &["ncclAllReduce"];
const RINGS: &[&str] = &["ncclAllReduce", "ncclReduce", "ncclBroadcast", "ncclAllGather", "ncclReduceScatter"];
const SWITCHED: &[&str] = &["ncclAllReduce", "ncclAllGather", "ncclReduceScatter"];
const BLOCKS: &[&str] = &["ncclAllGather", "ncclReduceScatter"];
const GATHER: &[&str] = &["ncclAllGather"];
const SCATTER: &[&str] = &["ncclReduceScatter"];

/// Every documented name. Operations that go from rank to rank without an algorithm (`ncclAlltoAll`, `ncclGather`, `ncclScatter`)
/// have none.
pub const ALGORITHM_NAMES: &[AlgorithmName] = &[
    of(REDUCE_ALL, "TREE_LL"),
    of(REDUCE_ALL, "TREE_LL128"),
    of(REDUCE_ALL, "TREE_SIMPLE"),
    of(RINGS, "RING_LL"),
    of(RINGS, "RING_LL128"),
    of(RINGS, "RING_SIMPLE"),
    of(SWITCHED, "COLLNET_DIRECT_SIMPLE"),
    of(REDUCE_ALL, "COLLNET_CHAIN_SIMPLE"),
    of(SWITCHED, "NVLS_SIMPLE"),
    of(REDUCE_ALL, "NVLSTREE_SIMPLE"),
    of(BLOCKS, "PAT_SIMPLE"),
    of(REDUCE_ALL, "SYMK_AGxLL_R"),
    of(REDUCE_ALL, "SYMK_AGxLLMC_R"),
    of(REDUCE_ALL, "SYMK_RSxTmaLD_AGxTmaST"),
    of(REDUCE_ALL, "SYMK_RSxLD_AGxST"),
    of(REDUCE_ALL, "SYMK_RSxLDMC_AGxSTMC"),
    of(BLOCKS, "SYMK_LL"),
    of(GATHER, "SYMK_LLMC"),
    of(GATHER, "SYMK_TmaST"),
    of(GATHER, "SYMK_ST"),
    of(GATHER, "SYMK_TmaSTMC"),
    of(GATHER, "SYMK_STMC"),
    of(GATHER, "SYMK_RailRing_LsaSTMC"),
    of(SCATTER, "SYMK_TmaLD"),
    of(SCATTER, "SYMK_LD"),
    of(SCATTER, "SYMK_LDMC"),
    of(SCATTER, "SYMK_RailA2A_LsaLD"),
    of(SCATTER, "SYMK_RailA2A_LsaLDMC"),
];

impl AlgorithmName {
    /// True if a word of a selection refers to it.
    pub fn is_meant_by(&self, word: &str) -> bool {
        !word.is_empty() && self.name.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
    }
}
