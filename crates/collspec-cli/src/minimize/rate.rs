//! The failure rate of a case, and the number of runs that a smaller one therefore needs.

/// Runs after which a case that has failed in each of them counts as one that always fails.
const CONFIRMED: u32 = 5;
/// Failures from which the rate of a case that fails now and then is taken.
const FAILURES: u32 = 5;

/// Runs of a case, and how many of them failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    /// Number of failed runs.
    pub failed: u32,
    /// Number of runs.
    pub all: u32,
}

impl Rate {
    /// Runs a case that has failed first in run number `first` until it is known whether it always fails, or else how often; at most
    /// `most` runs in all. With a case that takes `long`, one more failure must do to take it for one that always fails.
    pub fn measure(first: u32, most: u32, long: impl Fn() -> bool, mut fails: impl FnMut() -> bool) -> Self {
        let mut rate = Self { failed: 1, all: first };
        while rate.all < most && !rate.is_known(long()) {
            rate.all += 1;
            rate.failed += u32::from(fails());
        }
        rate
    }

    fn is_known(self, long: bool) -> bool {
        if self.is_always() {
            self.all >= CONFIRMED || (long && self.all > 1)
        } else {
            self.failed >= FAILURES || (long && self.all >= CONFIRMED)
        }
    }

    /// True if no run has passed.
    pub fn is_always(self) -> bool {
        self.failed == self.all
    }

    /// Runs in which a case that fails as often as this one fails at least once in 19 of 20 trials; at most `most`.
    pub fn tries(self, most: u32) -> u32 {
        if self.is_always() {
            return 1;
        }
        let rate = f64::from(self.failed) / f64::from(self.all.max(1));
        let needed = (0.05_f64.ln() / (1.0 - rate).ln()).ceil();
        (needed as u32).clamp(1, most.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::Rate;

    /// The rate of a case whose runs end like this, from the first failure on.
    fn measured(first: u32, most: u32, long: bool, ends: &str) -> Rate {
        let mut ends = ends.chars();
        Rate::measure(first, most, || long, || ends.next().unwrap_or_else(|| panic!("too many runs")) == 'f')
    }

    #[test]
    fn a_first_failure_is_confirmed() {
        let steady = measured(1, 20, false, "ffff");
        assert_eq!((steady, steady.tries(20)), (Rate { failed: 5, all: 5 }, 1));
        // The first run failed by chance: nine of ten pass.
        let flaky = measured(1, 20, false, "ppppppppfpppppppppp");
        assert_eq!((flaky, flaky.tries(50)), (Rate { failed: 2, all: 20 }, 29));
        assert_eq!(measured(1, 20, false, "fffpf"), Rate { failed: 5, all: 6 });
    }

    #[test]
    fn a_case_that_takes_long_is_confirmed_once() {
        assert_eq!(measured(1, 20, true, "f"), Rate { failed: 2, all: 2 });
        assert_eq!(measured(1, 20, true, "pppf"), Rate { failed: 2, all: 5 });
        assert_eq!(measured(7, 20, true, ""), Rate { failed: 1, all: 7 });
    }

    #[test]
    fn no_more_runs_are_made_than_may_be() {
        assert_eq!(measured(1, 1, false, ""), Rate { failed: 1, all: 1 });
        let half = measured(2, 4, false, "pf");
        assert_eq!((half, half.tries(20), half.tries(3)), (Rate { failed: 2, all: 4 }, 5, 3));
    }
}
