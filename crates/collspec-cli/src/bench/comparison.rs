//! Decides if a candidate is slower than its base, from pairs of samples taken in turn and a control of the base against itself.
//!
//! A row is slower if the interval of the median of its pairs' ratios lies beyond a threshold, and that of a neighbouring size
//! does too. The threshold is the difference that the control shows between equal libraries, separately for small, medium and
//! large sizes. If the control is too noisy, or too little could be compared, there is no verdict.
mod control;
pub mod counts;
#[cfg(test)]
mod simulation;

use super::row::Row;
use super::sample::RowSample;
use collspec_core::stats::bootstrap::{Interval, of_ratio};
use collspec_core::stats::{Summary, sorted};
use control::{Control, Threshold};
pub use control::{Tier, TierThreshold};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// The confidence of a row's interval.
const CONFIDENCE: f64 = 0.95;
/// Number of pairs below which a row is not judged: with fewer, the interval of the median means too little.
pub const FEWEST_PAIRS: usize = 5;
/// The fraction of rows that may be inconclusive if the verdict is to be that nothing changed.
const MOST_INCONCLUSIVE: f64 = 0.10;
/// A row that would not show a change of this fraction is inconclusive.
const MOST_VISIBLE: f64 = 0.20;
/// Fixed seed: intervals are the same for the same samples.
const SEED: u64 = 0x5eed;

/// Samples of a row in seconds: those of one side, and those of the other that were taken next to them.
pub type Pairs = BTreeMap<Row, Vec<(f64, f64)>>;

/// Pairs the samples of two sides: the first of one with the first of the other, and so on. Only samples that both have a time
/// for are paired.
pub fn pairs(first: &[Vec<RowSample>], second: &[Vec<RowSample>]) -> Pairs {
    let mut pairs = Pairs::new();
    for (first, second) in first.iter().zip(second) {
        let of_second: HashMap<&Row, f64> =
            second.iter().filter_map(|sample| Some((&sample.row, sample.outcome.seconds()?))).collect();
        for sample in first {
            if let (Some(one), Some(other)) = (sample.outcome.seconds(), of_second.get(&sample.row)) {
                pairs.entry(sample.row.clone()).or_default().push((one, *other));
            }
        }
    }
    pairs
}

/// The result of comparing a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The candidate is slower here, and at a neighbouring size.
    Slower,
    /// The candidate is faster here, and at a neighbouring size.
    Faster,
    /// The samples and a neighbouring size do not show a difference: `~`.
    Same,
    /// The row is inconclusive; the text gives the reason.
    Inconclusive(String),
}

/// A row of both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowComparison {
    /// The row that was timed.
    pub row: Row,
    /// The result of the comparison.
    pub change: Change,
    /// The candidate's time divided by the base's: the median of the pairs, and its interval.
    pub ratio: Option<Interval>,
    /// The fraction by which equal libraries may differ for this size.
    pub threshold: Option<f64>,
    /// The base's samples in seconds, ascending, and their summary.
    pub base: Side,
    /// The candidate's samples.
    pub candidate: Side,
}

/// The samples of one side of a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// The samples in seconds, ascending.
    pub sorted: Vec<f64>,
    /// Their summary; `None` without samples.
    pub summary: Option<Summary>,
}

impl Side {
    /// The bus bandwidth of the median in GB/s; `None` without samples.
    pub fn bus_bandwidth(&self, row: &Row) -> Option<f64> {
        self.summary.map(|summary| row.bus_bandwidth(summary.median))
    }

    fn of(samples: impl Iterator<Item = f64>) -> Self {
        let samples: Vec<f64> = samples.collect();
        Self { summary: Summary::of(&samples), sorted: sorted(&samples).unwrap_or_default() }
    }
}

/// The conclusion from all rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpeedVerdict {
    /// Some rows are slower and none is faster.
    Slower,
    /// Some rows are faster and none is slower.
    Faster,
    /// Some rows are slower and some faster.
    Mixed,
    /// Enough was compared, and there is no difference.
    Same,
    /// There is no verdict; the text gives the reason.
    NoVerdict(String),
}

impl SpeedVerdict {
    /// True if at least one row is slower.
    pub fn is_worse(&self) -> bool {
        matches!(self, Self::Slower | Self::Mixed)
    }
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The rows, with those of a curve ordered by size.
    pub rows: Vec<RowComparison>,
    /// The thresholds that the control sets.
    pub thresholds: Vec<TierThreshold>,
    /// The conclusion from all rows.
    pub verdict: SpeedVerdict,
}

impl Comparison {
    /// Compares (base, candidate) pairs, with (base, base) pairs as control.
    pub fn of(compared: &Pairs, control: &Pairs) -> Self {
        let control = Control::of(control);
        let beyond: HashMap<&Row, (Interval, Beyond)> = compared
            .iter()
            .filter_map(|(row, pairs)| {
                let ratio = ratio(row, pairs)?;
                Some((row, (ratio, control.threshold(row.bytes).map_or(Beyond::Nothing, |t| Beyond::of(&ratio, t)))))
            })
            .collect();
        let neighbours = neighbours(compared.keys());
        let row = |(row, pairs): (&Row, &Vec<(f64, f64)>)| {
            let near = neighbours.get(row).map(Vec::as_slice).unwrap_or_default();
            let agrees = |own: Beyond| near.iter().any(|near| beyond.get(near).is_some_and(|(_, at)| *at == own));
            let own = beyond.get(row).copied();
            let change = match (inconclusive(row, pairs, own, &control, near), own) {
                (Some(why), _) => Change::Inconclusive(why),
                (None, Some((_, Beyond::Slower))) if agrees(Beyond::Slower) => Change::Slower,
                (None, Some((_, Beyond::Faster))) if agrees(Beyond::Faster) => Change::Faster,
                (None, _) => Change::Same,
            };
            RowComparison {
                row: row.clone(),
                change,
                ratio: own.map(|(ratio, _)| ratio),
                threshold: control.threshold(row.bytes),
                base: Side::of(pairs.iter().map(|(base, _)| *base)),
                candidate: Side::of(pairs.iter().map(|(_, candidate)| *candidate)),
            }
        };
        let rows: Vec<RowComparison> = compared.iter().map(row).collect();
        let verdict = verdict(&rows, &control);
        Self { rows, thresholds: control.thresholds(), verdict }
    }

    /// Number of rows whose result satisfies `of`.
    pub fn count(&self, of: impl Fn(&Change) -> bool) -> usize {
        self.rows.iter().filter(|row| of(&row.change)).count()
    }
}

/// The side of the threshold on which an interval lies completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beyond {
    Slower,
    Faster,
    Nothing,
}

impl Beyond {
    fn of(ratio: &Interval, threshold: f64) -> Self {
        if ratio.low > 1.0 + threshold {
            Self::Slower
        } else if ratio.high < 1.0 / (1.0 + threshold) {
            Self::Faster
        } else {
            Self::Nothing
        }
    }
}

/// The ratio of a row with enough pairs.
fn ratio(row: &Row, pairs: &[(f64, f64)]) -> Option<Interval> {
    if pairs.len() < FEWEST_PAIRS { None } else { of_ratio(pairs, CONFIDENCE, SEED ^ row.bytes) }
}

/// The reason a row is inconclusive, if it is.
fn inconclusive(
    row: &Row,
    pairs: &[(f64, f64)],
    own: Option<(Interval, Beyond)>,
    control: &Control,
    near: &[Row],
) -> Option<String> {
    let Some((ratio, beyond)) = own else {
        let (pairs, plural) = (pairs.len(), if pairs.len() == 1 { "" } else { "s" });
        return Some(format!("{pairs} pair{plural} of samples; {FEWEST_PAIRS} are needed"));
    };
    let threshold = match control.of_size(row.bytes) {
        Threshold::Missing => return Some("no control for sizes like this one".into()),
        Threshold::TooNoisy(share) => return Some(too_noisy(Tier::of(row.bytes), share)),
        Threshold::Is(threshold) => threshold,
    };
    if near.is_empty() {
        return Some("no neighbouring size was measured, which would have to agree".into());
    }
    // a row that shows a difference despite a wide interval is conclusive
    let visible = (1.0 + threshold) * (ratio.high / ratio.low).sqrt() - 1.0;
    (beyond == Beyond::Nothing && visible > MOST_VISIBLE).then(|| {
        let (visible, most) = (visible * 100.0, MOST_VISIBLE * 100.0);
        format!(
            "its samples vary so much that only a change of {visible:.0} % or more would show, not one of {most:.0} %"
        )
    })
}

fn too_noisy(tier: Tier, share: f64) -> String {
    let (share, ceiling) = (share * 100.0, tier.ceiling() * 100.0);
    let tier = tier.describe();
    format!(
        "the control is too noisy: the base differs from itself by {share:.1} % at {tier}, more than {ceiling:.0} %"
    )
}

/// The next smaller and the next larger size of the same curve.
fn neighbours<'a>(rows: impl Iterator<Item = &'a Row>) -> HashMap<&'a Row, Vec<Row>> {
    let mut curves: BTreeMap<Row, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        curves.entry(row.with_bytes(0)).or_default().push(row);
    }
    let mut neighbours: HashMap<&Row, Vec<Row>> = HashMap::new();
    for mut rows in curves.into_values() {
        rows.sort_by_key(|row| row.bytes);
        for pair in rows.windows(2) {
            if let [small, large] = pair {
                neighbours.entry(small).or_default().push((*large).clone());
                neighbours.entry(large).or_default().push((*small).clone());
            }
        }
    }
    neighbours
}

fn verdict(rows: &[RowComparison], control: &Control) -> SpeedVerdict {
    let has = |change: Change| rows.iter().any(|row| row.change == change);
    if let Some(row) = control.changed() {
        return SpeedVerdict::NoVerdict(format!("the control differs from itself: {row}"));
    }
    match (has(Change::Slower), has(Change::Faster)) {
        (true, true) => return SpeedVerdict::Mixed,
        (true, false) => return SpeedVerdict::Slower,
        _ => {}
    }
    let reasons: Vec<&str> = rows
        .iter()
        .filter_map(|row| match &row.change {
            Change::Inconclusive(why) => Some(why.as_str()),
            Change::Slower | Change::Faster | Change::Same => None,
        })
        .collect();
    let (silent, all) = (reasons.len(), rows.len());
    if all == 0 {
        return SpeedVerdict::NoVerdict("no row was measured on both sides".into());
    }
    if silent as f64 > MOST_INCONCLUSIVE * all as f64 {
        let first = reasons.first().copied().unwrap_or_default();
        return SpeedVerdict::NoVerdict(format!("{silent} of {all} rows are inconclusive, the first because {first}"));
    }
    if has(Change::Faster) { SpeedVerdict::Faster } else { SpeedVerdict::Same }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::operation::Operation;
    use crate::bench::sample::RowOutcome;
    use collspec_core::num::DType;

    pub(super) fn row(bytes: u64) -> Row {
        Row {
            operation: Operation::AllGather,
            reduction: None,
            dtype: DType::F32,
            algorithm: None,
            protocol: None,
            ranks: 8,
            root: None,
            bytes,
            in_place: false,
        }
    }

    /// Pairs that differ slightly, with the second side multiplied by `factor`.
    pub(super) fn steady(sizes: &[u64], factor: impl Fn(u64) -> f64) -> Pairs {
        let wobble = [1.0, 1.01, 0.99, 1.005, 0.995, 1.0, 1.008];
        let pairs =
            |bytes: u64| wobble.iter().map(|w| (1e-5 * w, 1e-5 * factor(bytes) * (2.0 - w))).collect::<Vec<_>>();
        sizes.iter().map(|bytes| (row(*bytes), pairs(*bytes))).collect()
    }

    const SIZES: [u64; 5] = [1024, 2048, 4096, 8192, 16384];

    fn changes(comparison: &Comparison) -> Vec<Change> {
        comparison.rows.iter().map(|row| row.change.clone()).collect()
    }

    #[test]
    fn a_slow_row_needs_a_neighbour_that_agrees() {
        let control = steady(&SIZES, |_| 1.0);
        let alone = Comparison::of(&steady(&SIZES, |bytes| if bytes == 4096 { 1.5 } else { 1.0 }), &control);
        assert_eq!((changes(&alone), &alone.verdict), (vec![Change::Same; 5], &SpeedVerdict::Same));
        let two = Comparison::of(&steady(&SIZES, |bytes| if bytes >= 8192 { 1.3 } else { 1.0 }), &control);
        let expected = [Change::Same, Change::Same, Change::Same, Change::Slower, Change::Slower];
        assert_eq!((changes(&two), &two.verdict), (expected.to_vec(), &SpeedVerdict::Slower));
        assert!(two.verdict.is_worse());
        let slow = &two.rows[4];
        assert!(slow.ratio.is_some_and(|ratio| (ratio.estimate - 1.3).abs() < 0.03), "{slow:?}");
        assert_eq!((slow.base.sorted.len(), slow.candidate.summary.map(|s| s.bimodal)), (7, Some(false)));
    }

    #[test]
    fn faster_and_mixed_have_their_own_verdicts() {
        let control = steady(&SIZES, |_| 1.0);
        let of = |factor: &dyn Fn(u64) -> f64| Comparison::of(&steady(&SIZES, factor), &control).verdict;
        assert_eq!(of(&|_| 0.8), SpeedVerdict::Faster);
        assert_eq!(of(&|bytes| if bytes < 4096 { 0.8 } else { 1.25 }), SpeedVerdict::Mixed);
    }

    #[test]
    fn too_little_is_no_verdict() {
        let few: Pairs = steady(&SIZES, |_| 1.0).into_iter().map(|(row, pairs)| (row, pairs[..4].to_vec())).collect();
        let control = steady(&SIZES, |_| 1.0);
        let no = |comparison: Comparison| match comparison.verdict {
            SpeedVerdict::NoVerdict(why) => why,
            other => panic!("{other:?}"),
        };
        assert!(no(Comparison::of(&few, &control)).contains("4 pairs of samples; 5 are needed"));
        assert!(no(Comparison::of(&Pairs::new(), &control)).contains("no row"));
        assert!(no(Comparison::of(&control, &Pairs::new())).contains("no control"));
        let single = steady(&SIZES[..1], |_| 2.0);
        assert!(no(Comparison::of(&single, &control)).contains("no neighbouring size"));
    }

    #[test]
    fn a_noisy_control_is_no_verdict() {
        let shifted = |bytes: u64| if bytes.is_multiple_of(4096) { 1.4 } else { 0.7 };
        let noisy = Comparison::of(&steady(&SIZES, |_| 1.5), &steady(&SIZES, shifted));
        assert!(matches!(&noisy.verdict, SpeedVerdict::NoVerdict(why) if why.contains("control")), "{noisy:?}");
        let factor = |bytes: u64| if bytes >= 8192 { 1.3 } else { 1.0 };
        let changed = Comparison::of(&steady(&SIZES, |_| 1.0), &steady(&SIZES, factor));
        let SpeedVerdict::NoVerdict(why) = &changed.verdict else { panic!("{changed:?}") };
        assert_eq!(why, "the control differs from itself: all_gather, float, 8 ranks, out of place, 8,192 bytes");
    }

    #[test]
    fn what_the_control_differs_by_is_no_change() {
        let control = steady(&SIZES, |_| 1.1);
        let of = |factor: f64| Comparison::of(&steady(&SIZES, |_| factor), &control).verdict;
        assert_eq!((of(1.09), of(1.2)), (SpeedVerdict::Same, SpeedVerdict::Slower));
    }

    #[test]
    fn samples_are_paired_in_turn_where_both_have_a_time() {
        let timed = |seconds| RowOutcome::Timed { seconds, iterations: vec![], wrong: None, finding: None };
        let sample = |bytes, outcome| RowSample { row: row(bytes), outcome };
        let first = [vec![sample(64, timed(1.0)), sample(128, timed(2.0))], vec![sample(64, timed(3.0))]];
        let failed = RowOutcome::Failed { reason: "hang".into() };
        let second = [vec![sample(128, failed), sample(64, timed(5.0))], vec![sample(64, timed(6.0))], vec![]];
        assert_eq!(pairs(&first, &second), Pairs::from([(row(64), vec![(1.0, 5.0), (3.0, 6.0)])]));
    }

    #[test]
    fn a_comparison_survives_being_written() {
        let control = steady(&SIZES, |_| 1.0);
        let comparison = Comparison::of(&control, &control);
        let text = serde_json::to_string(&comparison).unwrap();
        assert_eq!(serde_json::from_str::<Comparison>(&text).unwrap().verdict, comparison.verdict);
    }
}
