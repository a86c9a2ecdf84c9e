//! Tests the comparison on invented times: how often it is wrong about equal libraries, and how often it finds a real
//! slowdown. Times are log-normal; each process group is faster or slower as a whole, the machine drifts during the job,
//! and some measurements are disturbed.
use super::tests::row;
use super::{Comparison, Pairs, SpeedVerdict};
use collspec_core::stats::Random;

/// The noise of a machine.
#[derive(Clone, Copy)]
struct Noise {
    /// Standard deviation of the logarithm of a measurement.
    measurement: f64,
    /// Standard deviation of the logarithm of a process group's factor, which all its rows share.
    group: f64,
    /// Slowdown of the machine from the beginning of the job to its end.
    drift: f64,
    /// The fraction of measurements that take up to twice as long.
    disturbed: f64,
}

/// The noise of a shared machine: about 4 % from sample to sample.
const USUAL: Noise = Noise { measurement: 0.035, group: 0.02, drift: 0.10, disturbed: 0.03 };

struct Machine {
    random: Random,
    noise: Noise,
    /// Process groups so far, and in the whole job.
    groups: (usize, usize),
}

const SIZES: std::ops::Range<u32> = 10..26;

impl Machine {
    /// One process group's time of every row.
    fn group(&mut self, factor: f64) -> Vec<f64> {
        let (now, all) = self.groups;
        self.groups.0 += 1;
        let drift = 1.0 + self.noise.drift * now as f64 / all as f64;
        let group = (self.noise.group * self.random.normal()).exp();
        let time = |size: u32| {
            let quiet = 1e-5 + f64::from(size).exp2() / 1e11;
            let disturbed = if self.random.unit() < self.noise.disturbed { 1.0 + self.random.unit() } else { 1.0 };
            quiet * factor * drift * group * disturbed * (self.noise.measurement * self.random.normal()).exp()
        };
        SIZES.map(time).collect()
    }
}

/// A whole job: base, candidate, candidate, base, and so on, and in each round the base once more for the control.
fn compare(seed: u64, noise: Noise, samples: usize, factor: f64) -> Comparison {
    let mut machine = Machine { random: Random::new(seed), noise, groups: (0, 3 * samples) };
    let (mut compared, mut control) = (Pairs::new(), Pairs::new());
    for round in 0..samples {
        let (base, candidate, again);
        if round % 2 == 0 {
            base = machine.group(1.0);
            candidate = machine.group(factor);
            again = machine.group(1.0);
        } else {
            again = machine.group(1.0);
            candidate = machine.group(factor);
            base = machine.group(1.0);
        }
        for (at, size) in SIZES.enumerate() {
            compared.entry(row(1 << size)).or_default().push((base[at], candidate[at]));
            control.entry(row(1 << size)).or_default().push((base[at], again[at]));
        }
    }
    Comparison::of(&compared, &control)
}

#[test]
fn of_400_comparisons_of_equal_libraries_none_reports_a_slowdown() {
    let mut verdicts = [0; 2];
    for seed in 0..400 {
        let comparison = compare(seed, USUAL, 8, 1.0);
        assert!(!comparison.verdict.is_worse(), "seed {seed}: {:?}", comparison.verdict);
        verdicts[usize::from(matches!(comparison.verdict, SpeedVerdict::NoVerdict(_)))] += 1;
    }
    let [said, unsaid] = verdicts;
    assert!(said >= 320, "{said} with a verdict, {unsaid} without: a gate that never speaks is none");
}

#[test]
fn a_slowdown_of_15_percent_is_found() {
    for samples in [7, 8, 10] {
        let found = (1000..1100).filter(|seed| compare(*seed, USUAL, samples, 1.15).verdict.is_worse()).count();
        assert!(found >= 95, "{samples} samples: {found} of 100");
    }
}

/// On a machine so noisy that a slowdown is indistinguishable from noise, there is no verdict rather than a wrong one.
#[test]
fn a_wild_machine_gets_no_false_verdict() {
    let wild = Noise { measurement: 0.25, group: 0.15, drift: 0.5, disturbed: 0.2 };
    let worse = (0..100).filter(|seed| compare(*seed, wild, 8, 1.0).verdict.is_worse()).count();
    assert_eq!(worse, 0);
    let silent = (0..100).filter(|seed| matches!(compare(*seed, wild, 8, 1.0).verdict, SpeedVerdict::NoVerdict(_)));
    assert!(silent.count() >= 95);
}
