//! Resources that remain after something that is done again and again: a communicator that is created and destroyed, or
//! a thousand calls.
use super::process::ProcessState;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Steady growth of a process per repetition; 0 for anything that grows at first only, such as caches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Growth {
    /// Number of repetitions.
    #[serde(alias = "communicators")]
    pub times: usize,
    /// Bytes of memory on the devices.
    pub device_bytes: u64,
    /// Bytes of memory on the host.
    pub host_bytes: u64,
    /// Number of threads that remain after each.
    pub threads: u64,
    /// Number of descriptors that remain after each.
    pub descriptors: u64,
    /// The kinds of threads and descriptors that grow, by name, with their growth.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds: BTreeMap<String, u64>,
}

/// Fewer states in a row tell nothing.
const LEAST: usize = 4;

impl Growth {
    /// The growth between the states of a process after each repetition; `None` if there are too few.
    pub fn of(states: &[ProcessState]) -> Option<Self> {
        if states.len() < LEAST {
            return None;
        }
        let over = |value: &dyn Fn(&ProcessState) -> Option<u64>| {
            steady(&states.iter().filter_map(value).collect::<Vec<u64>>())
        };
        let total = |counts: &BTreeMap<String, u64>| counts.values().sum();
        let mut kinds = BTreeMap::new();
        for of in [threads, descriptors] {
            for name in states.last().into_iter().flat_map(|last| of(last).keys()) {
                let growth = over(&|state| Some(of(state).get(name).copied().unwrap_or(0)));
                if growth > 0 {
                    kinds.insert(name.clone(), growth);
                }
            }
        }
        Some(Self {
            times: states.len() - 1,
            device_bytes: over(&|state| state.device_bytes),
            host_bytes: over(&|state| state.host_bytes),
            threads: over(&|state| Some(total(&state.threads))),
            descriptors: over(&|state| Some(total(&state.descriptors))),
            kinds,
        })
    }
}

fn threads(state: &ProcessState) -> &BTreeMap<String, u64> {
    &state.threads
}

fn descriptors(state: &ProcessState) -> &BTreeMap<String, u64> {
    &state.descriptors
}

/// The growth from value to value that three quarters of the values show, and that the later half shows on average: one-time
/// growth, and temporary growth, do not count. An allocator takes megabytes at a time, so that half of the steps of a process
/// that keeps nothing may be large.
fn steady(values: &[u64]) -> u64 {
    let mut steps: Vec<f64> = values.windows(2).map(|pair| pair[1] as f64 - pair[0] as f64).collect();
    let late = &steps[steps.len() / 2..];
    let average = late.iter().sum::<f64>() / late.len().max(1) as f64;
    steps.sort_by(f64::total_cmp);
    let quartile = steps.get(steps.len().saturating_sub(1) / 4).copied().unwrap_or(0.0);
    quartile.min(average).max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_grows_with_every_communicator_is_growth() {
        assert_eq!(steady(&[10, 12, 14, 16, 18]), 2);
        assert_eq!(steady(&[0, 900, 900, 900, 900]), 0, "a cache that fills at first");
        assert_eq!(steady(&[0, 0, 0, 0, 900]), 0, "one step");
        assert_eq!(steady(&[5, 9, 5, 9, 5]), 0, "what comes and goes");
        assert_eq!(steady(&[9, 7, 5, 3]), 0);
        assert_eq!(steady(&[0, 100, 180, 290, 400, 470]), 80, "with noise");
        let arenas = [180544, 194100, 259444, 260480, 261116, 265040, 265932, 266048, 266068];
        assert_eq!(steady(&arenas), 116, "KiB of NCCL 2.27.5, which keeps nothing");
        assert_eq!((steady(&[]), steady(&[7])), (0, 0));
    }

    #[test]
    fn growth_is_told_by_kind() {
        let state = |count: u64| ProcessState {
            threads: BTreeMap::from([("main".into(), 1), ("idle".into(), count)]),
            descriptors: BTreeMap::from([("/dev/null".into(), 2 * count)]),
            host_bytes: Some(4096 * count),
            device_bytes: None,
        };
        let states: Vec<ProcessState> = (0..5).map(state).collect();
        let growth = Growth::of(&states).unwrap();
        let kinds = BTreeMap::from([("idle".to_owned(), 1), ("/dev/null".to_owned(), 2)]);
        let wanted = Growth { times: 4, device_bytes: 0, host_bytes: 4096, threads: 1, descriptors: 2, kinds };
        assert_eq!(growth, wanted);
        assert_eq!(Growth::of(&states[..3]), None);
    }
}
