//! Tests which differences between two footprints are reported, and which count as noise.
use super::*;
use crate::footprint::Choice;

/// The footprint of a library that behaves normally.
fn usual() -> Footprint {
    Footprint {
        ranks: 2,
        load_seconds: vec![0.01; 5],
        init_seconds: vec![0.40, 0.45, 0.42, 0.50, 0.41],
        first_call_seconds: vec![0.01; 5],
        device_bytes_after_init: vec![8 << 20; 5],
        host_bytes_after_init: vec![32 << 20; 5],
        threads_after_call: vec![4; 5],
        growth: vec![Growth { times: 8, host_bytes: 4096, ..Growth::default() }; 2],
        parameters: Some(BTreeMap::from([("NCCL_A".into(), "1".into()), ("NCCL_B".into(), "2".into())])),
        ..Footprint::default()
    }
}

fn found(base: &Footprint, candidate: &Footprint) -> Vec<(String, Meaning)> {
    footprint_changes(base, candidate).into_iter().map(|change| (change.subject, change.meaning)).collect()
}

fn only(subject: &str, meaning: Meaning) -> Vec<(String, Meaning)> {
    vec![(subject.to_owned(), meaning)]
}

#[test]
fn a_library_is_like_itself_and_noise_is_no_change() {
    assert_eq!(found(&usual(), &usual()), []);
    let noisy = Footprint {
        // One process waited for a processor; all were a little slower.
        init_seconds: vec![0.52, 0.60, 0.55, 3.0, 0.53],
        first_call_seconds: vec![0.05; 5],
        device_bytes_after_init: vec![(8 << 20) + 4096; 5],
        host_bytes_after_init: vec![33 << 20, 34 << 20, 35 << 20, 38 << 20, 32 << 20],
        growth: vec![Growth { times: 8, host_bytes: 900 << 10, ..Growth::default() }, Growth::default()],
        ..usual()
    };
    assert_eq!(found(&usual(), &noisy), []);
    let overlapping = Footprint { init_seconds: vec![0.45, 2.0, 2.0, 2.0, 2.0], ..usual() };
    assert_eq!(
        found(&usual(), &overlapping),
        [],
        "the slowest process of the base is slower than one of the candidate"
    );
    let few = Footprint { init_seconds: vec![9.0; 2], ..usual() };
    assert_eq!(found(&usual(), &few), [], "two samples tell nothing");
}

#[test]
fn slow_initialisation_is_worse_only_if_it_is_much_slower() {
    let with = |init_seconds: [f64; 5]| Footprint { init_seconds: init_seconds.to_vec(), ..usual() };
    assert_eq!(found(&usual(), &with([0.7; 5])), only("init time", Meaning::Changed));
    assert_eq!(found(&usual(), &with([1.2; 5])), only("init time", Meaning::Worse));
    assert_eq!(found(&with([1.2; 5]), &usual()), only("init time", Meaning::Better));
    let parts = |kernels: f64| BTreeMap::from([("kernels".to_owned(), kernels), ("topo".to_owned(), 0.1)]);
    let base = Footprint { init_parts: parts(0.2), ..usual() };
    let text = footprint_changes(&base, &Footprint { init_parts: parts(0.9), ..with([1.2; 5]) })[0].text.clone();
    assert_eq!(
        text,
        "making a communicator of 2 ranks takes 420 ms (400 ms to 500 ms in 5 processes) -> \
         1.20 s (1.20 s to 1.20 s in 5 processes); in seconds: kernels 0.20 -> 0.90"
    );
}

#[test]
fn what_stays_behind_with_each_communicator_is_worse() {
    let with = |growth: Growth| Footprint { growth: vec![Growth { times: 8, ..growth }; 2], ..usual() };
    let device = with(Growth { device_bytes: 2 << 20, ..Growth::default() });
    assert_eq!(found(&usual(), &device), only("device memory left behind", Meaning::Worse));
    // The first communicator's additional memory is exactly its leak.
    let device = Footprint { device_bytes_after_init: vec![10 << 20; 5], ..device };
    assert_eq!(found(&usual(), &device), only("device memory left behind", Meaning::Worse));
    assert_eq!(found(&device, &usual()), only("device memory left behind", Meaning::Better));
    assert_eq!(found(&device, &device), []);
    let host = with(Growth { host_bytes: 300 << 10, ..Growth::default() });
    assert_eq!(found(&usual(), &host), only("host memory left behind", Meaning::Worse));
    let kinds = BTreeMap::from([("/dev/null".to_owned(), 2)]);
    let descriptors = with(Growth { descriptors: 2, kinds, ..Growth::default() });
    let changes = footprint_changes(&usual(), &descriptors);
    assert_eq!(
        (changes.len(), changes[0].text.as_str()),
        (
            1,
            "the candidate leaves behind 2 descriptors (/dev/null) with each communicator of 2 ranks, 8 times in a row; \
             the base at most 0 descriptors"
        )
    );
    let small = with(Growth { device_bytes: 63 << 10, host_bytes: 255 << 10, ..Growth::default() });
    assert_eq!(found(&usual(), &small), []);
}

#[test]
fn what_a_thousand_calls_leave_behind_is_worse() {
    let with = |host_bytes| Footprint {
        growth_of_calls: vec![Growth { times: 7, host_bytes, ..Growth::default() }; 2],
        ..usual()
    };
    let (clean, leaking) = (with(0), with(352_000));
    assert_eq!(found(&clean, &leaking), only("host memory left behind by calls", Meaning::Worse));
    assert_eq!(found(&leaking, &clean), only("host memory left behind by calls", Meaning::Better));
    assert_eq!(
        footprint_changes(&clean, &leaking)[0].text,
        "the candidate leaves behind 343.7 KiB of host memory with every 1,000 calls on 2 ranks, 7 times in a row; \
         the base at most 0 bytes of host memory"
    );
    assert_eq!(found(&with(8 << 10), &with(60 << 10)), [], "less than a page for each hundred calls is noise");
    assert_eq!(found(&usual(), &leaking), [], "a recording from before this was measured");
}

#[test]
fn effects_on_the_process_are_worse() {
    let moved = Footprint { processors: vec!["rank 0: 0-1 -> 0".to_owned()], ..usual() };
    assert_eq!(found(&usual(), &moved), only("processors", Meaning::Worse));
    assert_eq!(found(&moved, &usual()), only("processors", Meaning::Better));
    let set = serde_json::json!([{ "name": "OMP_NUM_THREADS", "before": null, "after": "1" }]);
    let set = Footprint { variables: serde_json::from_value(set).unwrap(), ..usual() };
    assert_eq!(found(&usual(), &set), only("changed variable OMP_NUM_THREADS", Meaning::Worse));
    let text = &footprint_changes(&usual(), &set)[0].text;
    assert_eq!(text, "the candidate changes the variable OMP_NUM_THREADS: not set -> `1`");
    assert_eq!(found(&set, &usual()), only("changed variable OMP_NUM_THREADS", Meaning::Better));
    assert_eq!(found(&set, &set), []);
}

#[test]
fn a_library_that_cannot_be_measured_is_worse_than_one_that_can() {
    let failed = Footprint { ranks: 2, failures: vec!["it hangs".into(); 2], ..Footprint::default() };
    assert_eq!(found(&usual(), &failed), only("measuring", Meaning::Worse));
    assert_eq!(found(&failed, &usual()), only("measuring", Meaning::Better));
    assert_eq!(found(&failed, &failed), []);
    let once = Footprint { failures: vec!["it hangs".into()], ..usual() };
    assert_eq!(found(&usual(), &once), only("measuring", Meaning::Changed));
}

#[test]
fn memory_threads_algorithms_and_parameters_are_told() {
    let memory = Footprint { device_bytes_after_init: vec![16 << 20; 5], ..usual() };
    assert_eq!(found(&usual(), &memory), only("device memory after init", Meaning::Changed));
    let threads = Footprint { threads_after_call: vec![6; 5], ..usual() };
    assert_eq!(found(&usual(), &threads), only("threads after the first call", Meaning::Changed));
    let choices = |words: [&str; 3]| {
        let sizes = [1 << 10, 1 << 14, 1 << 20].into_iter().zip(words);
        let choice =
            |(bytes, words): (u64, &str)| Choice { operation: Some("AllReduce".into()), bytes, words: words.into() };
        Footprint { choices: sizes.map(choice).collect(), ..usual() }
    };
    let changes = footprint_changes(&choices(["TREE LL", "TREE LL", "RING LL"]), &choices(["RING LL"; 3]));
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].text, "AllReduce between 2 ranks: 1 KiB to 16 KiB TREE LL -> 1 KiB to 16 KiB RING LL");
    let parameters = BTreeMap::from([("NCCL_A".into(), "1".into()), ("NCCL_C".into(), "2".into())]);
    let other = Footprint { parameters: Some(parameters), ..usual() };
    let wanted = [("new parameters", Meaning::Changed), ("gone parameters", Meaning::Changed)];
    assert_eq!(found(&usual(), &other), wanted.map(|(subject, meaning)| (subject.to_owned(), meaning)));
    let changed = Footprint {
        parameters: Some(BTreeMap::from([("NCCL_A".into(), "9".into()), ("NCCL_B".into(), "2".into())])),
        ..usual()
    };
    assert_eq!(found(&usual(), &changed), only("parameter NCCL_A", Meaning::Changed));
    assert_eq!(found(&usual(), &Footprint { parameters: None, ..usual() }), []);
}
