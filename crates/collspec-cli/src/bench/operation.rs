//! The operations that can be timed, with their names in the scenario language and in nccl-tests.
use collspec_core::num::DType;
use collspec_core::ops::{self, Bandwidth, Collective, Extent, InPlace, Kind};
use serde::{Deserialize, Serialize};

/// An operation that can be timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    AllReduce,
    Reduce,
    Broadcast,
    AllGather,
    Gather,
    ReduceScatter,
    Scatter,
    AllToAll,
    SendRecv,
}

impl Operation {
    /// Every operation that can be timed.
    pub const ALL: [Self; 9] = [
        Self::AllReduce,
        Self::Reduce,
        Self::Broadcast,
        Self::AllGather,
        Self::Gather,
        Self::ReduceScatter,
        Self::Scatter,
        Self::AllToAll,
        Self::SendRecv,
    ];

    /// The operation's name in the scenario language.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::Reduce => "reduce",
            Self::Broadcast => "broadcast",
            Self::AllGather => "all_gather",
            Self::Gather => "gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::Scatter => "scatter",
            Self::AllToAll => "all_to_all",
            Self::SendRecv => "send_recv",
        }
    }

    /// Parses the operation's name, or that of the program in nccl-tests.
    pub fn parse(text: &str) -> Option<Self> {
        let word = text.strip_suffix("_perf").unwrap_or(text);
        match word {
            "alltoall" => Some(Self::AllToAll),
            "sendrecv" => Some(Self::SendRecv),
            _ => Self::ALL.into_iter().find(|operation| operation.name() == word),
        }
    }

    /// The operation's properties as a collective; `None` for a group of sends and receives.
    pub fn collective(self) -> Option<&'static Collective> {
        match &ops::find(self.name())?.kind {
            Kind::Collective(collective) => Some(collective),
            _ => None,
        }
    }

    /// True if it takes a reduction.
    pub fn reduces(self) -> bool {
        self.collective().is_some_and(|collective| collective.reduces)
    }

    /// True if it takes a root.
    pub fn is_rooted(self) -> bool {
        self.collective().is_some_and(|collective| collective.rooted)
    }

    /// True if it can work in place.
    pub fn works_in_place(self) -> bool {
        self.collective().is_some_and(|collective| collective.in_place != InPlace::Never)
    }

    /// The bus bandwidth divided by the algorithm bandwidth, for this many ranks.
    pub fn bandwidth_factor(self, ranks: usize) -> f64 {
        self.collective().map_or(Bandwidth::Whole, |collective| collective.bandwidth).factor(ranks)
    }

    /// NCCL's count for a size in bytes, and the bytes that this count moves. As in nccl-tests the size is that of the larger
    /// buffer, and where that has a part for every rank, each part is a multiple of 16 bytes.
    pub fn count(self, bytes: u64, dtype: DType, ranks: usize) -> (u64, u64) {
        let size = dtype.size() as u64;
        let elements = bytes / size;
        let (send, recv) = self.collective().map_or((Extent::One, Extent::One), |c| (c.send, c.recv));
        if send == Extent::One && recv == Extent::One {
            return (elements, elements * size);
        }
        let (ranks, whole) = (ranks.max(1) as u64, (16 / size).max(1));
        let part = elements / ranks / whole * whole;
        (part, part * ranks * size)
    }
}

/// A reduction, by its name in nccl-tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reduction {
    Sum,
    Prod,
    Max,
    Min,
    Avg,
    /// premul_sum with the factor 2.
    MulSum,
}

impl Reduction {
    /// Every reduction that can be timed.
    pub const ALL: [Self; 6] = [Self::Sum, Self::Prod, Self::Max, Self::Min, Self::Avg, Self::MulSum];

    /// The reduction's name in nccl-tests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Prod => "prod",
            Self::Max => "max",
            Self::Min => "min",
            Self::Avg => "avg",
            Self::MulSum => "mulsum",
        }
    }

    /// Parses the reduction's name, or its name in the scenario language.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "premul_sum" => Some(Self::MulSum),
            _ => Self::ALL.into_iter().find(|reduction| reduction.name() == text),
        }
    }

    /// The reduction's value in a scenario.
    pub fn scenario_value(self) -> &'static str {
        match self {
            Self::MulSum => "{ premul_sum = 2 }",
            Self::Sum => "\"sum\"",
            Self::Prod => "\"prod\"",
            Self::Max => "\"max\"",
            Self::Min => "\"min\"",
            Self::Avg => "\"avg\"",
        }
    }
}

/// A type's name in nccl-tests.
pub fn type_name(dtype: DType) -> &'static str {
    match dtype {
        DType::I8 => "int8",
        DType::U8 => "uint8",
        DType::I32 => "int32",
        DType::U32 => "uint32",
        DType::I64 => "int64",
        DType::U64 => "uint64",
        DType::F16 => "half",
        DType::Bf16 => "bfloat16",
        DType::F32 => "float",
        DType::F64 => "double",
        DType::F8e4m3 => "f8e4m3",
        DType::F8e5m2 => "f8e5m2",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_language_and_of_nccl_tests() {
        for operation in Operation::ALL {
            assert!(ops::find(operation.name()).is_some(), "{operation:?}");
            assert_eq!(Operation::parse(&format!("{}_perf", operation.name())), Some(operation));
            let written = serde_json::to_string(&operation).unwrap();
            assert_eq!(written, format!("\"{}\"", operation.name()));
        }
        assert_eq!(Operation::parse("alltoall_perf"), Some(Operation::AllToAll));
        assert_eq!(Operation::parse("sendrecv"), Some(Operation::SendRecv));
        assert_eq!(Operation::parse("barrier"), None);
        assert_eq!(Reduction::parse("premul_sum"), Some(Reduction::MulSum));
    }

    /// The factors of doc/PERFORMANCE.md of nccl-tests, for 4 ranks.
    #[test]
    fn bandwidth_factors_are_those_of_nccl_tests() {
        let factor = |operation: Operation| operation.bandwidth_factor(4);
        assert_eq!(factor(Operation::AllReduce), 1.5);
        for operation in [Operation::AllGather, Operation::ReduceScatter, Operation::AllToAll, Operation::Gather] {
            assert_eq!(factor(operation), 0.75, "{operation:?}");
        }
        for operation in [Operation::Broadcast, Operation::Reduce, Operation::SendRecv] {
            assert_eq!(factor(operation), 1.0, "{operation:?}");
        }
        assert_eq!((Operation::AllReduce.bandwidth_factor(1), Operation::Broadcast.bandwidth_factor(1)), (0.0, 1.0));
    }

    #[test]
    fn sizes_are_those_of_the_larger_buffer_in_parts_of_16_bytes() {
        assert_eq!(Operation::AllReduce.count(1030, DType::F32, 4), (257, 1028));
        assert_eq!(Operation::AllGather.count(1030, DType::F32, 4), (64, 1024));
        assert_eq!(Operation::ReduceScatter.count(200, DType::F16, 3), (32, 192));
        assert_eq!(Operation::AllToAll.count(63, DType::U8, 4), (0, 0));
        assert_eq!(Operation::SendRecv.count(7, DType::F64, 2), (0, 0));
    }
}
