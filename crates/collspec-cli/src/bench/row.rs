//! One row of a measurement.
use super::operation::{Operation, Reduction, type_name};
use collspec_core::num::DType;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The parameters of a timed operation: equal rows may be compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Row {
    /// The operation to time.
    pub operation: Operation,
    pub reduction: Option<Reduction>,
    /// The element type of the buffers.
    pub dtype: DType,
    /// The value of NCCL_ALGO, if one is requested.
    pub algorithm: Option<String>,
    /// The value of NCCL_PROTO, if one is requested.
    pub protocol: Option<String>,
    /// Number of ranks that take part.
    pub ranks: usize,
    /// The root, if the operation has one.
    pub root: Option<usize>,
    /// Bytes of the larger buffer.
    pub bytes: u64,
    /// True if send and receive buffer share memory.
    pub in_place: bool,
}

impl Row {
    /// The count argument of NCCL's call.
    pub fn count(&self) -> u64 {
        self.operation.count(self.bytes, self.dtype, self.ranks).0
    }

    /// Bytes per second, in units of 10^9, as if each rank's data moved once.
    pub fn algorithm_bandwidth(&self, seconds: f64) -> f64 {
        if seconds > 0.0 { self.bytes as f64 / seconds / 1e9 } else { 0.0 }
    }

    /// The algorithm bandwidth times the operation's factor: comparable with the speed of a link.
    pub fn bus_bandwidth(&self, seconds: f64) -> f64 {
        self.algorithm_bandwidth(seconds) * self.operation.bandwidth_factor(self.ranks)
    }

    /// The same row with another size; all such rows form a curve.
    pub fn with_bytes(&self, bytes: u64) -> Self {
        Self { bytes, ..self.clone() }
    }

    /// The same row in or out of place.
    pub fn with_in_place(&self, in_place: bool) -> Self {
        Self { in_place, ..self.clone() }
    }

    /// Describes what all rows of a curve share: everything but the size.
    pub fn curve(&self) -> String {
        let mut words = vec![self.operation.name().to_owned()];
        words.extend(self.reduction.map(|reduction| reduction.name().to_owned()));
        words.push(type_name(self.dtype).to_owned());
        words.push(format!("{} ranks", self.ranks));
        words.extend(self.root.filter(|root| *root > 0).map(|root| format!("root {root}")));
        words.extend(self.algorithm.clone());
        words.extend(self.protocol.clone());
        words.push(if self.in_place { "in place" } else { "out of place" }.to_owned());
        words.join(", ")
    }
}

/// `all_reduce, sum, float, 4 ranks, out of place, 1,048,576 bytes`.
impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} bytes", self.curve(), collspec_core::printable::thousands(self.bytes))
    }
}

#[cfg(test)]
pub mod fixture {
    use super::*;

    /// A sum of floats over all of these ranks.
    pub fn sum(ranks: usize, bytes: u64, in_place: bool) -> Row {
        Row {
            operation: Operation::AllReduce,
            reduction: Some(Reduction::Sum),
            dtype: DType::F32,
            algorithm: None,
            protocol: None,
            ranks,
            root: None,
            bytes,
            in_place,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(operation: Operation) -> Row {
        Row {
            operation,
            reduction: None,
            dtype: DType::F32,
            algorithm: Some("Ring".into()),
            protocol: None,
            ranks: 4,
            root: None,
            bytes: 1 << 20,
            in_place: false,
        }
    }

    #[test]
    fn bandwidths_are_bytes_by_time_and_what_passes_a_link() {
        let row = row(Operation::AllReduce);
        assert_eq!(row.algorithm_bandwidth(1e-3), 1.048_576);
        assert_eq!(row.bus_bandwidth(1e-3), 1.048_576 * 1.5);
        assert_eq!(row.bus_bandwidth(0.0), 0.0);
    }

    #[test]
    fn a_row_is_named_by_all_that_it_is() {
        let text = row(Operation::AllGather).to_string();
        assert_eq!(text, "all_gather, float, 4 ranks, Ring, out of place, 1,048,576 bytes");
    }

    #[test]
    fn a_row_survives_being_written() {
        let row = row(Operation::SendRecv);
        assert_eq!(serde_json::from_str::<Row>(&serde_json::to_string(&row).unwrap()).unwrap(), row);
    }
}
