//! Time limits for waiting. Only time in which this process ran counts, because a process that is stopped (Ctrl-Z, a
//! debugger) cannot receive an answer that came in time.
use collspec_core::cores::cores;
use std::time::{Duration, Instant};

/// The longest single wait, and so the most time that one stop can cost.
const SLICE: Duration = Duration::from_millis(100);
/// A wait that ends later than asked for by more than this was interrupted by a stop.
const LATE: Duration = Duration::from_millis(100);
/// Number of times the last wait is repeated after a stop; limited, so that waiting ends on a machine that is always late.
const GRANTS: u32 = 5;

/// How many times as long as on an idle machine something may take that waits for a processor: the threads that have wanted to
/// run in the last minute, for each core. At least 1, and at most 8, because the figure of a container is that of its host.
pub fn waiting_factor() -> f64 {
    waiting_factor_of(rustix::system::sysinfo().loads[0], cores())
}

/// The same of an average load as the kernel gives it, in 65,536ths.
fn waiting_factor_of(load: impl Into<u64>, cores: usize) -> f64 {
    (load.into() as f64 / 65_536.0 / cores.max(1) as f64).clamp(1.0, 8.0)
}

/// The time that is left.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    left: Duration,
    grants: u32,
}

impl Patience {
    /// The whole limit is left.
    pub fn new(limit: Duration) -> Self {
        Self { left: limit, grants: GRANTS }
    }

    /// The remaining time.
    pub fn left(&self) -> Duration {
        self.left
    }

    /// Reduces the time that is left to at most this.
    pub fn shorten(&mut self, most: Duration) {
        self.left = self.left.min(most);
    }

    /// Calls `wait` with the time for which it may block until it returns something or no time is left; at least once.
    pub fn wait<T>(&mut self, mut wait: impl FnMut(Duration) -> Option<T>) -> Option<T> {
        loop {
            let slice = self.left.min(SLICE);
            let begun = Instant::now();
            let came = wait(slice);
            let took = begun.elapsed();
            self.left = self.left.saturating_sub(took.min(slice));
            if came.is_some() {
                return came;
            }
            if !self.left.is_zero() {
                continue;
            }
            // Another thread may still have to read an answer that came during the stop.
            if took <= slice + LATE || self.grants == 0 {
                return None;
            }
            self.grants -= 1;
            self.left = SLICE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_grows_with_the_load_of_each_core() {
        assert_eq!((waiting_factor_of(0u64, 2), waiting_factor_of(131_072u64, 2)), (1.0, 1.0), "a core for each");
        assert_eq!((waiting_factor_of(655_360u64, 2), waiting_factor_of(6_553_600u64, 1)), (5.0, 8.0));
    }

    #[test]
    fn time_in_which_nothing_ran_does_not_count() {
        let mut patience = Patience::new(Duration::from_secs(3600));
        let mut stops = 0;
        let came = patience.wait(|_| {
            stops += 1;
            std::thread::sleep(4 * SLICE);
            (stops == 2).then_some("answer")
        });
        assert_eq!(came, Some("answer"));
        assert!(patience.left() >= Duration::from_secs(3600) - 2 * SLICE);
    }

    #[test]
    fn after_a_stop_at_the_last_moment_there_is_another() {
        let mut patience = Patience::new(SLICE / 10);
        let mut waits = 0;
        let came = patience.wait(|_| {
            waits += 1;
            if waits == 1 {
                std::thread::sleep(4 * SLICE);
            }
            (waits == 2).then_some(())
        });
        assert!(came.is_some());
    }

    #[test]
    fn it_ends_also_on_a_machine_that_is_always_late() {
        let mut patience = Patience::new(Duration::ZERO);
        let mut waits = 0;
        let came = patience.wait(|slice| {
            waits += 1;
            std::thread::sleep(slice + 2 * LATE);
            None::<()>
        });
        assert!(came.is_none() && patience.left().is_zero());
        assert_eq!(waits, GRANTS + 1);
        assert!(Patience::new(Duration::ZERO).wait(Some).is_some(), "what is there is taken");
    }
}
