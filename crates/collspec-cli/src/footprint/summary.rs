//! The measurements of several processes as one.
use super::growth::Growth;
use super::log::Choice;
use super::measure::Measurement;
use super::process::{ProcessState, VariableChange, processors_in_words};
use collspec_core::stats::median;
use collspec_run::job::MappedLibrary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The cost of a library for a process and its effects on it, from several processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Footprint {
    /// Ranks of the communicators.
    pub ranks: usize,
    /// Processes that could not measure: why, each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// The files that were really loaded, as reported by the processes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub loaded: Vec<LoadedLibrary>,
    /// Seconds in which the library was loaded, by process.
    pub load_seconds: Vec<f64>,
    /// Seconds taken to create the first communicator, by process.
    pub init_seconds: Vec<f64>,
    /// The library's own breakdown of these seconds on rank 0: the median of each part.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub init_parts: BTreeMap<String, f64>,
    /// Seconds of the first all-reduce, of 1 MiB, by process.
    pub first_call_seconds: Vec<f64>,
    /// Bytes on the devices of all ranks that the first communicator took, by process.
    pub device_bytes_after_init: Vec<i64>,
    /// The same after the first call.
    pub device_bytes_after_call: Vec<i64>,
    /// Bytes on the host that loading and the first communicator took, by process.
    pub host_bytes_after_init: Vec<i64>,
    /// The same after the first call.
    pub host_bytes_after_call: Vec<i64>,
    /// Threads that are more after the first call than before the library was loaded, by process.
    pub threads_after_call: Vec<i64>,
    /// The same of descriptors.
    pub descriptors_after_call: Vec<i64>,
    /// The resources that remain after each communicator, in the processes that made enough of them.
    pub growth: Vec<Growth>,
    /// The resources that remain after every [`super::CALLS`] small calls of each rank on a communicator of all ranks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub growth_of_calls: Vec<Growth>,
    /// The same on a communicator of one rank.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub growth_of_calls_alone: Vec<Growth>,
    /// Ranks' threads whose processors were others after the first communicator, in all processes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processors: Vec<String>,
    /// Variables of the environment that the library changed, in all processes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<VariableChange>,
    /// The choices for operations of several sizes, where all processes agree.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Choice>,
    /// The library's parameters, if it lists them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<BTreeMap<String, String>>,
}

/// A file that a process has loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedLibrary {
    /// The library's file as reported by the kernel.
    #[serde(flatten)]
    pub file: MappedLibrary,
    /// The build id of the file at this path, if it has one and no other file has taken its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
}

impl Footprint {
    /// Combines the measurements of processes with this many ranks each.
    pub fn of(ranks: usize, results: Vec<Result<Measurement, String>>) -> Self {
        let (measured, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        let all: Vec<Measurement> = measured.into_iter().flatten().collect();
        let seconds = |of: fn(&Measurement) -> f64| all.iter().map(of).collect();
        let more = |later: fn(&Measurement) -> &ProcessState, of: &dyn Fn(&ProcessState) -> Option<u64>| {
            let difference = |one: &Measurement| Some(of(later(one))? as i64 - of(&one.before)? as i64);
            all.iter().filter_map(difference).collect::<Vec<i64>>()
        };
        let (device, host) = (|state: &ProcessState| state.device_bytes, |state: &ProcessState| state.host_bytes);
        let threads = |state: &ProcessState| Some(state.threads.values().sum());
        let descriptors = |state: &ProcessState| Some(state.descriptors.values().sum());
        Self {
            ranks,
            failures: failed.into_iter().filter_map(Result::err).collect(),
            loaded: loaded(&all),
            load_seconds: seconds(|one| one.load_seconds),
            init_seconds: seconds(|one| one.init_seconds),
            init_parts: init_parts(&all),
            first_call_seconds: seconds(|one| one.first_call_seconds),
            device_bytes_after_init: more(initialised, &device),
            device_bytes_after_call: more(called, &device),
            host_bytes_after_init: more(initialised, &host),
            host_bytes_after_call: more(called, &host),
            threads_after_call: more(called, &threads),
            descriptors_after_call: more(called, &descriptors),
            growth: all.iter().filter_map(|one| Growth::of(&one.destroyed)).collect(),
            growth_of_calls: all.iter().filter_map(|one| Growth::of(&one.calls)).collect(),
            growth_of_calls_alone: all.iter().filter_map(|one| Growth::of(&one.calls_alone)).collect(),
            processors: common(all.iter().map(changed_processors).collect()),
            variables: common(all.iter().map(|one| one.variables.clone()).collect()),
            choices: common(all.iter().map(|one| one.choices.clone()).collect()),
            parameters: all.first().and_then(|one| Some(one.parameters.clone()?.into_iter().collect())),
        }
    }

    /// True if every process failed to measure.
    pub fn is_missing(&self) -> bool {
        self.init_seconds.is_empty()
    }

    /// The files that were really loaded.
    pub fn mapped(&self) -> Vec<MappedLibrary> {
        self.loaded.iter().map(|loaded| loaded.file.clone()).collect()
    }
}

fn initialised(one: &Measurement) -> &ProcessState {
    &one.initialised
}

fn called(one: &Measurement) -> &ProcessState {
    &one.called
}

/// The elements that all lists share, in order.
fn common<T: Ord + Clone>(mut all: Vec<Vec<T>>) -> Vec<T> {
    let Some(mut first) = all.pop() else { return Vec::new() };
    first.retain(|one| all.iter().all(|other| other.contains(one)));
    first.sort();
    first.dedup();
    first
}

/// The rank's threads that may run on other processors than before.
fn changed_processors(one: &Measurement) -> Vec<String> {
    let words = |(rank, (old, new)): (usize, &(Vec<usize>, Vec<usize>))| {
        (old != new && !new.is_empty())
            .then(|| format!("rank {rank}: {} -> {}", processors_in_words(old), processors_in_words(new)))
    };
    one.processors.iter().enumerate().filter_map(words).collect()
}

fn init_parts(all: &[Measurement]) -> BTreeMap<String, f64> {
    let mut parts: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for timings in all.iter().filter_map(|one| one.timings.iter().find(|timings| timings.rank == 0)) {
        for (part, seconds) in &timings.parts {
            parts.entry(part).or_default().push(*seconds);
        }
    }
    parts.into_iter().filter_map(|(part, seconds)| Some((part.to_owned(), median(&seconds)?))).collect()
}

fn loaded(all: &[Measurement]) -> Vec<LoadedLibrary> {
    let mut files: Vec<MappedLibrary> = all.iter().flat_map(|one| one.mapped.clone().unwrap_or_default()).collect();
    files.sort();
    files.dedup();
    let build_id = |file: &MappedLibrary| {
        (!file.is_replaced()).then(|| crate::fetch::elf::build_id(Path::new(&file.path))).flatten()
    };
    files.into_iter().map(|file| LoadedLibrary { build_id: build_id(&file), file }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(init_seconds: f64, device: u64) -> Measurement {
        let state = |device| ProcessState { device_bytes: Some(device), host_bytes: None, ..ProcessState::default() };
        Measurement {
            init_seconds,
            before: state(100),
            initialised: state(100 + device),
            called: state(90),
            processors: vec![(vec![0, 1], vec![0]), (vec![0, 1], vec![0, 1])],
            ..Measurement::default()
        }
    }

    #[test]
    fn several_processes_are_one_footprint() {
        let footprint =
            Footprint::of(2, vec![Ok(measurement(1.0, 5)), Err("it ended".to_owned()), Ok(measurement(2.0, 7))]);
        assert_eq!((footprint.init_seconds.as_slice(), footprint.failures.len()), (&[1.0, 2.0][..], 1));
        assert_eq!(footprint.device_bytes_after_init, [5, 7]);
        assert_eq!(footprint.device_bytes_after_call, [-10, -10]);
        assert_eq!(footprint.host_bytes_after_init, [0i64; 0]);
        assert_eq!(footprint.processors, ["rank 0: 0-1 -> 0"]);
        assert!(!footprint.is_missing() && Footprint::of(2, Vec::new()).is_missing());
    }

    #[test]
    fn what_one_process_alone_has_is_not_the_librarys() {
        assert_eq!(common(vec![vec![3, 1, 2], vec![2, 3]]), [2, 3]);
        assert_eq!(common::<u8>(Vec::new()), [0u8; 0]);
    }

    #[test]
    fn a_footprint_of_a_later_version_is_read() {
        let read: Footprint = serde_json::from_str(r#"{"ranks": 2, "unknown": [1]}"#).unwrap();
        assert_eq!(read, Footprint { ranks: 2, ..Footprint::default() });
    }
}
