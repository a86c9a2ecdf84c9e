//! Pictures of two libraries' times for the same rows: a picture for each operation, a colour for each curve, and a dashed line for
//! the candidate.
use super::{COLOURS, Curve, TIMES, picture};
use crate::bench::comparison::{RowComparison, Side};
use crate::bench::operation::Operation;
use crate::bench::row::Row;
use std::collections::BTreeMap;

/// A picture for each operation, each with the number of curves without room.
pub fn plot_sides(rows: &[RowComparison]) -> Vec<(String, usize)> {
    let mut by_operation: BTreeMap<Operation, BTreeMap<Row, Vec<&RowComparison>>> = BTreeMap::new();
    for row in rows {
        by_operation.entry(row.row.operation).or_default().entry(row.row.with_bytes(0)).or_default().push(row);
    }
    let pictures = by_operation.into_iter().map(|(operation, curves)| {
        let of_sides = curves.into_iter().enumerate().flat_map(|(number, (row, mut rows))| {
            rows.sort_by_key(|row| row.row.bytes);
            let side = |name: &str, dashed: bool, side: fn(&RowComparison) -> &Side| {
                let mut curve = Curve::new(format!("{name}: {}", row.curve()), row.clone());
                (curve.colour, curve.dashed) = (number % COLOURS.len(), dashed);
                let median = |row: &&RowComparison| Some((row.row.bytes, side(row).summary?.median));
                curve.points = rows.iter().filter_map(median).filter(|(_, seconds)| *seconds > 0.0).collect();
                curve
            };
            [side("base", false, |row| &row.base), side("candidate", true, |row| &row.candidate)]
        });
        picture(operation.name(), TIMES, of_sides.filter(|curve| !curve.points.is_empty()).collect())
    });
    pictures.collect()
}

#[cfg(test)]
mod tests {
    use super::plot_sides;
    use crate::bench::comparison::{Comparison, pairs};
    use crate::bench::plot::tests::samples;

    #[test]
    fn each_operation_has_a_picture_with_both_sides() {
        let (base, candidate) = (samples("Ring", 1.0), samples("Ring", 1.5));
        let pairs = pairs(&[base], &[candidate]);
        let timed = Comparison::of(&pairs, &pairs);
        let pictures = plot_sides(&timed.rows);
        let [(svg, 0)] = pictures.as_slice() else { panic!("{} pictures", pictures.len()) };
        assert!(svg.contains("<title>all_gather</title>") && svg.contains("bus bandwidth (GB/s)"), "{svg}");
        for (class, name) in [("c0 out", "base"), ("c0 in", "candidate"), ("c1 out", "base"), ("c1 in", "candidate")] {
            assert_eq!(svg.matches(&format!("<polyline class=\"{class}\"")).count(), 2, "{name}: {svg}");
        }
        assert!(svg.contains(">base: all_gather, float, 4 ranks, Ring, out of place<"), "{svg}");
        assert!(svg.contains(">candidate: all_gather, float, 4 ranks, Ring, in place<"), "{svg}");
        assert!(plot_sides(&[]).is_empty());
    }
}
