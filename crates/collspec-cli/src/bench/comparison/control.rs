//! Measures by how much a library differs from itself, and derives the thresholds.
use super::{Beyond, Pairs, neighbours, ratio};
use crate::bench::row::Row;
use collspec_core::stats::bootstrap::Interval;
use collspec_core::stats::{median, median_absolute_deviation};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A group of sizes with about the same noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Up to 1 MiB, limited by latency.
    Small,
    /// Up to 64 MiB, between the two others.
    Medium,
    /// Large sizes, limited by bandwidth.
    Large,
}

impl Tier {
    /// Every tier, from small to large sizes.
    pub const ALL: [Self; 3] = [Self::Small, Self::Medium, Self::Large];

    /// The tier of a size in bytes.
    pub fn of(bytes: u64) -> Self {
        if bytes <= 1 << 20 {
            Self::Small
        } else if bytes <= 64 << 20 {
            Self::Medium
        } else {
            Self::Large
        }
    }

    /// The largest threshold: a control that requires more is too noisy.
    pub fn ceiling(self) -> f64 {
        match self {
            Self::Small => 0.15,
            Self::Medium => 0.08,
            Self::Large => 0.06,
        }
    }

    /// The tier as words in a report.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Small => "sizes up to 1 MiB",
            Self::Medium => "sizes over 1 MiB up to 64 MiB",
            Self::Large => "sizes over 64 MiB",
        }
    }
}

/// The smallest threshold: smaller differences are irrelevant, however steady the control.
const FLOOR: f64 = 0.02;
/// Distance of the threshold above the median, in deviations.
const DEVIATIONS: f64 = 3.0;

/// A tier's threshold, or the reason it does not have one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Threshold {
    /// The threshold as a fraction of the base's time.
    Is(f64),
    /// The control requires this fraction, which is more than the ceiling.
    TooNoisy(f64),
    /// The control does not have a row in the tier.
    Missing,
}

/// A tier's threshold, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TierThreshold {
    /// The tier that was controlled.
    pub tier: Tier,
    /// The fraction by which the library may differ from itself, as measured.
    pub measured: f64,
    /// True if the threshold exceeds the tier's ceiling, so that its sizes cannot be judged.
    pub too_noisy: bool,
    /// Number of rows of the control that it is based on.
    pub rows: usize,
}

/// The base compared with itself, for every tier.
pub(super) struct Control {
    tiers: Vec<TierThreshold>,
    changed: Option<Row>,
}

impl Control {
    /// Derives thresholds from pairs of the base with itself. For each row, the distance of its median ratio from 1 counts, which
    /// is also how rows are judged: the threshold is the tier's median distance plus three times its median absolute deviation.
    pub(super) fn of(pairs: &Pairs) -> Self {
        let ratios: HashMap<&Row, Interval> =
            pairs.iter().filter_map(|(row, pairs)| Some((row, ratio(row, pairs)?))).collect();
        let tiers: Vec<TierThreshold> = Tier::ALL
            .into_iter()
            .filter_map(|tier| {
                let own = ratios.iter().filter(|(row, _)| Tier::of(row.bytes) == tier);
                let distances: Vec<f64> = own.map(|(_, ratio)| ratio.estimate.ln().abs()).collect();
                let spread = median_absolute_deviation(&distances)?;
                let measured = (median(&distances)? + DEVIATIONS * spread).exp_m1().max(FLOOR);
                Some(TierThreshold { tier, measured, too_noisy: measured > tier.ceiling(), rows: distances.len() })
            })
            .collect();
        let mut control = Self { tiers, changed: None };
        control.changed = control.first_change(&ratios);
        control
    }

    /// The first row that would count as slower or faster, if the control were a comparison.
    fn first_change(&self, ratios: &HashMap<&Row, Interval>) -> Option<Row> {
        let beyond = |row: &Row| {
            let threshold = self.threshold(row.bytes)?;
            Some(Beyond::of(ratios.get(row)?, threshold)).filter(|beyond| *beyond != Beyond::Nothing)
        };
        let neighbours = neighbours(ratios.keys().copied());
        let agrees = |row: &Row, own: Beyond| {
            neighbours.get(row).is_some_and(|near| near.iter().any(|near| beyond(near) == Some(own)))
        };
        let changed = ratios.keys().filter(|row| beyond(row).is_some_and(|own| agrees(row, own)));
        changed.min().map(|row| (*row).clone())
    }

    /// A row that differs from itself, if there is one.
    pub(super) fn changed(&self) -> Option<&Row> {
        self.changed.as_ref()
    }

    pub(super) fn of_size(&self, bytes: u64) -> Threshold {
        let tier = Tier::of(bytes);
        match self.tiers.iter().find(|known| known.tier == tier) {
            None => Threshold::Missing,
            Some(known) if known.too_noisy => Threshold::TooNoisy(known.measured),
            Some(known) => Threshold::Is(known.measured),
        }
    }

    /// The threshold of a size, if there is one.
    pub(super) fn threshold(&self, bytes: u64) -> Option<f64> {
        match self.of_size(bytes) {
            Threshold::Is(share) => Some(share),
            Threshold::TooNoisy(_) | Threshold::Missing => None,
        }
    }

    pub(super) fn thresholds(&self) -> Vec<TierThreshold> {
        self.tiers.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::steady;
    use super::*;

    #[test]
    fn thresholds_are_by_tier_and_have_a_floor_and_a_ceiling() {
        let sizes = [1 << 10, 1 << 12, 1 << 14, 1 << 21, 1 << 22, 1 << 23, 1 << 28, 1 << 29, 1 << 30];
        let factor = |bytes: u64| match Tier::of(bytes) {
            Tier::Small => 1.0,
            Tier::Medium if bytes == 1 << 22 => 1.09,
            Tier::Medium => 0.96,
            Tier::Large => 0.8,
        };
        let control = Control::of(&steady(&sizes, factor));
        assert_eq!(control.of_size(8), Threshold::Is(FLOOR));
        assert!(matches!(control.of_size(2 << 20), Threshold::Is(share) if (0.04..0.08).contains(&share)));
        assert!(matches!(control.of_size(1 << 30), Threshold::TooNoisy(share) if share > 0.2));
        assert_eq!(Control::of(&Pairs::new()).of_size(8), Threshold::Missing);
    }

    #[test]
    fn tiers_end_where_they_say() {
        let tiers = [1 << 20, (1 << 20) + 1, 64 << 20, (64 << 20) + 1].map(Tier::of);
        assert_eq!(tiers, [Tier::Small, Tier::Medium, Tier::Medium, Tier::Large]);
    }
}
