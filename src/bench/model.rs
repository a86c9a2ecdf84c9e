//! A cost model: the time of an operation as `steps x latency + bytes on the critical path x time per byte`, for the ways in which
//! NCCL's algorithms pass data on. It is fitted to measured times, and says how far it is off.
//!
//! The model is that of Hockney ("The communication challenge for MPP", 1994), as Thakur, Rabenseifner and Gropp use it for
//! collectives ("Optimization of collective communication operations in MPICH", 2005).
use super::operation::Operation;
use super::row::Row;
use crate::stats::geometric_mean;
use serde::Serialize;

/// How data is passed on. With n ranks and S bytes in the larger buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Around a ring, each rank's part at a time. all_reduce: 2 (n - 1) steps, 2 S (n - 1) / n bytes (Patarasuk and Yuan,
    /// "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009); all_gather and reduce_scatter: half
    /// of both; broadcast and reduce: n - 1 steps, S bytes, in a pipeline.
    Ring,
    /// Up and down one binary tree in a pipeline: 2 log2(n) steps, and 2 S bytes both ways through an inner node, which takes
    /// its two children's data (Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and
    /// scan", 2009, section 1: half of the bandwidth).
    Tree,
    /// As a tree, but two of them, each with half of the data and the inner nodes of one the leaves of the other: 2 log2(n) steps, 2 S
    /// bytes in all_reduce, S in broadcast and reduce (the same, section 3).
    DoubleBinaryTree,
    /// From every rank to every other: n - 1 messages, S (n - 1) / n bytes.
    Pairwise,
    /// One message: 1 step, S bytes.
    Message,
}

impl Shape {
    /// In words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Tree => "tree",
            Self::DoubleBinaryTree => "double binary tree",
            Self::Pairwise => "pairwise",
            Self::Message => "message",
        }
    }

    /// The shapes that an operation may have.
    pub fn of(operation: Operation) -> &'static [Self] {
        match operation {
            Operation::AllReduce | Operation::Broadcast | Operation::Reduce => {
                &[Self::Ring, Self::DoubleBinaryTree, Self::Tree]
            }
            Operation::AllGather | Operation::ReduceScatter => &[Self::Ring],
            Operation::Gather | Operation::Scatter | Operation::AllToAll => &[Self::Pairwise],
            Operation::SendRecv => &[Self::Message],
        }
    }

    /// Steps one after the other, and bytes on the critical path.
    pub fn cost(self, operation: Operation, ranks: u64, bytes: u64) -> (f64, f64) {
        let (n, bytes) = (ranks.max(1) as f64, bytes as f64);
        let (others, depth) = (n - 1.0, n.log2().ceil());
        let ways = if operation == Operation::AllReduce { 2.0 } else { 1.0 };
        match self {
            Self::Ring if matches!(operation, Operation::Broadcast | Operation::Reduce) => (others, bytes),
            Self::Ring => (ways * others, ways * bytes * others / n),
            Self::Tree => (ways * depth, 2.0 * ways * bytes),
            Self::DoubleBinaryTree => (ways * depth, ways * bytes),
            Self::Pairwise => (others, bytes * others / n),
            Self::Message => (1.0, bytes),
        }
    }
}

/// A model with its two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Model {
    /// The operation.
    pub operation: Operation,
    /// How data is passed on.
    pub shape: Shape,
    /// Seconds for a step.
    pub latency: f64,
    /// Seconds for a byte; the inverse is a step's bandwidth.
    pub per_byte: f64,
    /// How far the model is off the points that it was fitted to: the geometric mean of the larger of measured and modelled
    /// time divided by the smaller, less 1.
    pub error: f64,
    /// Points that it was fitted to.
    pub points: usize,
    /// The numbers of ranks among them, the smallest and the largest.
    pub ranks: (u64, u64),
    /// The sizes among them in bytes, the smallest and the largest.
    pub sizes: (u64, u64),
}

/// Fewer points than this do not bear two numbers.
const FEWEST_POINTS: usize = 4;
/// Rounds of the fit; it changes nothing any more long before.
const ROUNDS: usize = 60;

impl Model {
    /// The model of this shape that is nearest to the points (a row, and its seconds). `None` with too few points, or without
    /// steps in any.
    pub fn fit(shape: Shape, points: &[(&Row, f64)]) -> Option<Self> {
        let operation = points.first()?.0.operation;
        let usable = |(row, seconds): &&(&Row, f64)| row.operation == operation && row.ranks > 1 && *seconds > 0.0;
        let points: Vec<&(&Row, f64)> = points.iter().filter(usable).collect();
        if points.len() < FEWEST_POINTS {
            return None;
        }
        let costs: Vec<(f64, f64, f64)> = points
            .iter()
            .map(|(row, seconds)| {
                let (steps, bytes) = shape.cost(operation, row.ranks as u64, row.bytes);
                (steps, bytes, *seconds)
            })
            .collect();
        let (latency, per_byte) = least_relative_squares(&costs)?;
        let off = |(steps, bytes, seconds): &(f64, f64, f64)| ratio(steps * latency + bytes * per_byte, *seconds);
        let error = geometric_mean(&costs.iter().map(off).collect::<Vec<_>>())? - 1.0;
        let ends = |of: &dyn Fn(&Row) -> u64| {
            let of = |point: &&&(&Row, f64)| of(point.0);
            let numbers: Vec<u64> = points.iter().map(|point| of(&point)).collect();
            Some((*numbers.iter().min()?, *numbers.iter().max()?))
        };
        let (ranks, sizes) = (ends(&|row| row.ranks as u64)?, ends(&|row| row.bytes)?);
        Some(Self { operation, shape, latency, per_byte, error, points: points.len(), ranks, sizes })
    }

    /// The models of all shapes that the operation may have, the nearest first.
    pub fn fit_all(points: &[(&Row, f64)]) -> Vec<Self> {
        let shapes = points.first().map_or(&[][..], |(row, _)| Shape::of(row.operation));
        let mut models: Vec<Self> = shapes.iter().filter_map(|shape| Self::fit(*shape, points)).collect();
        // shapes that differ by a constant factor fit equally well; their order is then that of the list
        models.sort_by(|a, b| (a.error * 1e6).round().total_cmp(&(b.error * 1e6).round()));
        models
    }

    /// The time in seconds of a size on so many ranks.
    pub fn seconds(&self, ranks: u64, bytes: u64) -> f64 {
        let (steps, bytes) = self.shape.cost(self.operation, ranks, bytes);
        steps * self.latency + bytes * self.per_byte
    }

    /// True if so many ranks, or such a size, lie outside of what was measured.
    pub fn extrapolates(&self, ranks: u64, bytes: u64) -> bool {
        !(self.ranks.0..=self.ranks.1).contains(&ranks) || !(self.sizes.0..=self.sizes.1).contains(&bytes)
    }
}

/// The larger divided by the smaller.
fn ratio(a: f64, b: f64) -> f64 {
    if a > b { a / b } else { b / a }
}

/// The latency and the time per byte, neither below zero, for which the sum of squares of (modelled - measured) / sqrt(modelled x
/// measured) is least: to second order the squares of the logarithms of their ratio, so that small sizes count as much as
/// large ones. Each round solves a linear problem with the weights of the last one.
fn least_relative_squares(costs: &[(f64, f64, f64)]) -> Option<(f64, f64)> {
    let mut weights: Vec<f64> = costs.iter().map(|(.., seconds)| seconds.powi(-2)).collect();
    let mut fitted = None;
    for _ in 0..ROUNDS {
        let (latency, per_byte) = weighted_squares(costs, &weights)?;
        fitted = Some((latency, per_byte));
        for (weight, (steps, bytes, seconds)) in weights.iter_mut().zip(costs) {
            let modelled = (steps * latency + bytes * per_byte).max(seconds * 1e-3);
            *weight = 1.0 / (modelled * seconds);
        }
    }
    fitted.filter(|(latency, per_byte)| latency + per_byte > 0.0)
}

/// Two unknowns, none below zero.
fn weighted_squares(costs: &[(f64, f64, f64)], weights: &[f64]) -> Option<(f64, f64)> {
    let sum = |of: &dyn Fn(f64, f64, f64) -> f64| -> f64 {
        costs.iter().zip(weights).map(|((steps, bytes, seconds), weight)| weight * of(*steps, *bytes, *seconds)).sum()
    };
    let (ss, sb, bb) = (sum(&|s, _, _| s * s), sum(&|s, b, _| s * b), sum(&|_, b, _| b * b));
    let (st, bt) = (sum(&|s, _, t| s * t), sum(&|_, b, t| b * t));
    if ss <= 0.0 || bb <= 0.0 {
        return None;
    }
    let determinant = ss * bb - sb * sb;
    if determinant > 1e-12 * ss * bb {
        let (latency, per_byte) = ((st * bb - bt * sb) / determinant, (bt * ss - st * sb) / determinant);
        if latency >= 0.0 && per_byte >= 0.0 {
            return Some((latency, per_byte));
        }
    }
    // the best with one of them 0
    let (alone_latency, alone_per_byte) = (st / ss, bt / bb);
    let left = |latency: f64, per_byte: f64| sum(&|s, b, t| (s * latency + b * per_byte - t).powi(2));
    let by_latency = left(alone_latency, 0.0) <= left(0.0, alone_per_byte);
    Some(if by_latency { (alone_latency, 0.0) } else { (0.0, alone_per_byte) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num::DType;
    use crate::stats::Random;

    fn row(operation: Operation, ranks: usize, bytes: u64) -> Row {
        let (reduction, dtype, algorithm, protocol) = (None, DType::F32, None, None);
        Row { operation, reduction, dtype, algorithm, protocol, ranks, root: None, bytes, in_place: false }
    }

    /// Counted by hand for 4 ranks and 1,200 bytes.
    #[test]
    fn costs_are_those_of_the_algorithms() {
        let cost = |shape: Shape, operation| shape.cost(operation, 4, 1200);
        assert_eq!(cost(Shape::Ring, Operation::AllReduce), (6.0, 1800.0));
        assert_eq!(cost(Shape::Ring, Operation::AllGather), (3.0, 900.0));
        assert_eq!(cost(Shape::Ring, Operation::Broadcast), (3.0, 1200.0));
        assert_eq!(cost(Shape::Tree, Operation::AllReduce), (4.0, 4800.0));
        assert_eq!(cost(Shape::DoubleBinaryTree, Operation::AllReduce), (4.0, 2400.0));
        assert_eq!(cost(Shape::DoubleBinaryTree, Operation::Reduce), (2.0, 1200.0));
        assert_eq!(cost(Shape::Pairwise, Operation::AllToAll), (3.0, 900.0));
        assert_eq!(cost(Shape::Message, Operation::SendRecv), (1.0, 1200.0));
        assert_eq!(Shape::Ring.cost(Operation::AllReduce, 1, 1200), (0.0, 0.0));
    }

    fn points(operation: Operation, time: impl Fn(&Row) -> f64) -> Vec<(Row, f64)> {
        let rows = (3..28).step_by(2).map(|size| row(operation, 8, 1 << size));
        rows.map(|row| (row.clone(), time(&row))).collect()
    }

    fn borrowed(points: &[(Row, f64)]) -> Vec<(&Row, f64)> {
        points.iter().map(|(row, seconds)| (row, *seconds)).collect()
    }

    #[test]
    fn a_model_finds_its_own_numbers_again() {
        let (latency, per_byte) = (3e-6, 1.0 / 20e9);
        for shape in Shape::of(Operation::AllReduce) {
            let exact = points(Operation::AllReduce, |row| {
                let (steps, bytes) = shape.cost(row.operation, 8, row.bytes);
                steps * latency + bytes * per_byte
            });
            let model = Model::fit(*shape, &borrowed(&exact)).unwrap();
            assert!((model.latency / latency - 1.0).abs() < 1e-6, "{model:?}");
            assert!((model.per_byte / per_byte - 1.0).abs() < 1e-6, "{model:?}");
            assert!(model.error < 1e-6, "{model:?}");
            assert_eq!((model.ranks, model.sizes, model.points), ((8, 8), (8, 1 << 27), 13));
        }
    }

    #[test]
    fn noise_is_the_error_that_is_said() {
        let mut random = Random::new(5);
        let noise: Vec<f64> = (0..13).map(|_| (0.1 * random.normal()).exp()).collect();
        let at = std::cell::Cell::new(0);
        let noisy = points(Operation::AllGather, |row| {
            let (steps, bytes) = Shape::Ring.cost(row.operation, 8, row.bytes);
            at.set(at.get() + 1);
            (steps * 2e-6 + bytes / 10e9) * noise[at.get() - 1]
        });
        let model = Model::fit(Shape::Ring, &borrowed(&noisy)).unwrap();
        assert!((0.03..0.15).contains(&model.error), "{model:?}");
        assert!((model.latency / 2e-6 - 1.0).abs() < 0.15 && (model.per_byte * 10e9 - 1.0).abs() < 0.15, "{model:?}");
    }

    /// Times from 2, 4 and 8 ranks tell a ring, whose steps grow with the ranks, from a tree.
    #[test]
    fn several_numbers_of_ranks_tell_the_shapes_apart() {
        let of = |shape: Shape| {
            let mut points = Vec::new();
            for ranks in [2, 4, 8, 16] {
                for size in [10, 14, 18, 22] {
                    let row = row(Operation::AllReduce, ranks, 1 << size);
                    let (steps, bytes) = shape.cost(row.operation, ranks as u64, row.bytes);
                    points.push((row, steps * 4e-6 + bytes / 5e9));
                }
            }
            let models = Model::fit_all(&borrowed(&points));
            (models[0].shape, models.len())
        };
        assert_eq!(of(Shape::Ring), (Shape::Ring, 3));
        assert_eq!(of(Shape::DoubleBinaryTree), (Shape::DoubleBinaryTree, 3));
    }

    #[test]
    fn what_was_not_measured_is_extrapolated() {
        let exact = points(Operation::AllReduce, |row| 1e-5 + row.bytes as f64 / 1e10);
        let model = Model::fit(Shape::Ring, &borrowed(&exact)).unwrap();
        assert!(!model.extrapolates(8, 1024) && model.extrapolates(24_576, 1024) && model.extrapolates(8, 1 << 30));
        assert!(model.seconds(24_576, 8) > 1000.0 * model.seconds(8, 8), "a ring's steps grow with the ranks");
    }

    #[test]
    fn too_little_has_no_model() {
        let exact = points(Operation::AllReduce, |_| 1e-5);
        assert_eq!(Model::fit(Shape::Ring, &borrowed(&exact[..3])), None);
        assert_eq!(Model::fit_all(&[]), Vec::new());
        let single: Vec<(Row, f64)> = exact.iter().map(|(row, t)| (Row { ranks: 1, ..row.clone() }, *t)).collect();
        assert_eq!(Model::fit(Shape::Ring, &borrowed(&single)), None);
        // flat times: latency alone
        let flat = Model::fit(Shape::Ring, &borrowed(&exact)).unwrap();
        assert!(flat.per_byte < 1e-15 || flat.error > 0.0, "{flat:?}");
    }
}
