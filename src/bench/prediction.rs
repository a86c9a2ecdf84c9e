//! The cost models of the measured curves, and what they say of other numbers of ranks.
use super::model::{Model, Shape};
use super::result::RowResult;
use super::row::Row;
use crate::printable::one_line;
use crate::printable::thousands;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The models of rows that differ in size and number of ranks alone.
#[derive(Clone, Debug, Serialize)]
pub struct Models {
    /// What the rows have in common.
    pub row: Row,
    /// One for each shape that fits what was asked for, the nearest first.
    pub models: Vec<Model>,
    /// What they say of other numbers of ranks.
    pub predictions: Vec<Prediction>,
}

/// What a model says of a size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// The model's shape.
    pub shape: Shape,
    /// Number of ranks.
    pub ranks: u64,
    /// Bytes.
    pub bytes: u64,
    /// Seconds.
    pub seconds: f64,
    /// True if the number of ranks lies outside of what was measured.
    pub extrapolated: bool,
}

/// The largest number of ranks that is predicted for.
pub const MOST_RANKS: u64 = 24_576;

impl Models {
    /// Of all results, with predictions for these numbers of ranks at the smallest and the largest size of each curve.
    pub fn of(results: &[RowResult], predict: &[u64]) -> Vec<Self> {
        let mut curves: BTreeMap<Row, Vec<(&Row, f64)>> = BTreeMap::new();
        for result in results {
            let Some(seconds) = result.seconds() else { continue };
            let key = Row { ranks: 0, ..result.row.with_bytes(0) };
            curves.entry(key).or_default().push((&result.row, seconds));
        }
        let models = |(row, points): (Row, Vec<(&Row, f64)>)| {
            let asked = row.algorithm.as_deref().map(str::to_ascii_lowercase);
            let wanted = |shape: Shape| match asked.as_deref() {
                Some("ring") => shape != Shape::Tree && shape != Shape::DoubleBinaryTree,
                Some("tree") => shape != Shape::Ring,
                _ => true,
            };
            let models: Vec<Model> = Model::fit_all(&points).into_iter().filter(|model| wanted(model.shape)).collect();
            let predictions = predict.iter().flat_map(|ranks| {
                models.iter().flat_map(move |model| {
                    let sizes = [model.sizes.0, model.sizes.1];
                    sizes.map(|bytes| Prediction {
                        shape: model.shape,
                        ranks: *ranks,
                        bytes,
                        seconds: model.seconds(*ranks, bytes),
                        extrapolated: model.extrapolates(*ranks, bytes),
                    })
                })
            });
            Self { row, predictions: predictions.collect(), models }
        };
        curves.into_iter().map(models).filter(|models| !models.models.is_empty()).collect()
    }

    /// The nearest model of every curve of these results, for the picture.
    pub fn nearest(all: &[Self], results: &[RowResult]) -> Vec<(Row, Model)> {
        let mut found: Vec<(Row, Model)> = Vec::new();
        for result in results {
            let key = result.row.with_bytes(0);
            let own = all.iter().find(|models| models.row == Row { ranks: 0, ..key.clone() });
            if let Some(model) = own.and_then(|models| models.models.first())
                && !found.iter().any(|(known, _)| *known == key)
            {
                found.push((key, *model));
            }
        }
        found
    }

    /// Writes the models, and what they predict, in lines that readers of nccl-tests pass over.
    ///
    /// # Errors
    ///
    /// Writing fails.
    pub fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        let Some(first) = self.models.first() else { return Ok(()) };
        let name = self.row.curve().replace(", 0 ranks", "");
        writeln!(to, "#\n# Cost model of {}, fitted to {} points", one_line(&name), thousands(first.points as u64))?;
        writeln!(to, "# {:>18}  latency (us)  bandwidth (GB/s)  off by (%)", "shape")?;
        for model in &self.models {
            let bandwidth = if model.per_byte > 0.0 { format!("{:.3}", 1e-9 / model.per_byte) } else { "any".into() };
            let (latency, error) = (model.latency * 1e6, model.error * 100.0);
            writeln!(to, "# {:>18}  {latency:>12.3}  {bandwidth:>16}  {error:>10.1}", model.shape.describe())?;
        }
        if self.models.len() > 1 && first.ranks.0 == first.ranks.1 {
            let ranks = thousands(first.ranks.0);
            writeln!(
                to,
                "# with {ranks} ranks alone every shape fits equally well: measure several numbers of ranks to tell them apart"
            )?;
        }
        if !self.predictions.is_empty() {
            writeln!(
                to,
                "# {:>18}  {:>7}  {:>14}  {:>14}  {:>12}",
                "shape", "ranks", "size (B)", "time (us)", "busbw (GB/s)"
            )?;
        }
        for Prediction { shape, ranks, bytes, seconds, extrapolated } in &self.predictions {
            let row = Row { ranks: usize::try_from(*ranks).unwrap_or(usize::MAX), ..self.row.with_bytes(*bytes) };
            let (busbw, time) = (row.bus_bandwidth(*seconds), seconds * 1e6);
            let (ranks, size) = (thousands(*ranks), thousands(*bytes));
            let note = if *extrapolated { "  extrapolated" } else { "" };
            let shape = shape.describe();
            writeln!(to, "# {shape:>18}  {ranks:>7}  {size:>14}  {time:>14.2}  {busbw:>12.3}{note}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::operation::Operation;
    use crate::bench::sample::{RowOutcome, RowSample};
    use crate::num::DType;

    fn results(ranks: &[usize], algorithm: Option<&str>) -> Vec<RowResult> {
        let mut rows = Vec::new();
        for ranks in ranks {
            for size in [10, 14, 18, 22] {
                rows.push(Row {
                    operation: Operation::AllReduce,
                    reduction: None,
                    dtype: DType::F32,
                    algorithm: algorithm.map(str::to_owned),
                    protocol: None,
                    ranks: *ranks,
                    root: None,
                    bytes: 1 << size,
                    in_place: false,
                });
            }
        }
        let timed = |row: &Row| {
            let (steps, bytes) = Shape::Ring.cost(row.operation, row.ranks as u64, row.bytes);
            let outcome = RowOutcome::Timed {
                seconds: steps * 2e-6 + bytes / 4e9,
                iterations: vec![],
                wrong: None,
                finding: None,
            };
            RowSample { row: row.clone(), outcome }
        };
        RowResult::of(&rows, &[rows.iter().map(timed).collect()])
    }

    fn text(models: &[Models]) -> String {
        let mut text = Vec::new();
        models.iter().for_each(|models| models.write(&mut text).unwrap());
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn several_ranks_have_one_model_that_predicts_more() {
        let results = results(&[2, 4, 8], None);
        let models = Models::of(&results, &[8, 24_576]);
        assert_eq!(models.len(), 1);
        assert_eq!(models[0].models[0].shape, Shape::Ring);
        let ring: Vec<_> = models[0].predictions.iter().filter(|p| p.shape == Shape::Ring).collect();
        assert_eq!(ring.iter().map(|p| p.extrapolated).collect::<Vec<_>>(), [false, false, true, true]);
        assert!((ring[2].seconds / (2.0 * 24_575.0 * 2e-6) - 1.0).abs() < 0.01, "{:?}", ring[2]);
        let text = text(&models);
        assert!(
            text.contains("24,576") && text.contains("extrapolated") && !text.contains("tell them apart"),
            "{text}"
        );
        assert_eq!(Models::nearest(&models, &results).len(), 3, "one for each number of ranks");
    }

    #[test]
    fn one_number_of_ranks_tells_no_shape_and_says_so() {
        let models = Models::of(&results(&[4], None), &[]);
        assert!(text(&models).contains("with 4 ranks alone every shape fits equally well"), "{}", text(&models));
        let asked = Models::of(&results(&[4], Some("Ring")), &[64]);
        let shapes: Vec<Shape> = asked[0].models.iter().map(|model| model.shape).collect();
        assert_eq!(shapes, [Shape::Ring], "the algorithm that was asked for");
        assert!(Models::of(&[], &[64]).is_empty());
    }
}
