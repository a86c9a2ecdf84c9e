//! Plans of cases, and what runs of them leave, made by hand.
use collspec_core::plan::{Limits, Place, Plan, plan};
use collspec_core::scenario::{SourceFile, parse};
use collspec_run::job::{Answers, Ended, Observation, RankEnd, RankReport};
use std::ops::Range;
use std::sync::Arc;

/// The plan of the first case of a file.
pub fn planned(text: String) -> Plan {
    let file = Arc::new(SourceFile { path: "bench.toml".into(), text: text.into() });
    let mut cases = parse(&file, "bench").unwrap_or_else(|rejected| panic!("{:?}", rejected.diagnostics));
    plan(&Arc::new(cases.remove(0)), &Limits::default()).unwrap_or_else(|d| panic!("{d:?}"))
}

/// The allocation and the bytes of a buffer on every rank.
pub fn places(plan: &Plan, name: &str) -> Vec<(usize, Range<usize>)> {
    let buffer = plan.buffers.iter().find(|buffer| buffer.name == name).expect("a buffer");
    let place = |place: &Option<Place>| {
        let place = place.as_ref().expect("every rank has one");
        let from = (plan.allocs[place.alloc].start() + place.offset) as usize;
        (place.alloc, from..from + place.count as usize * buffer.dtype.size())
    };
    buffer.places.iter().map(place).collect()
}

/// A run that ended well and left these images.
pub fn observation(ranks: usize, images: Vec<Vec<u8>>) -> Observation {
    let report = || RankReport {
        end: RankEnd::Done,
        codes: Vec::new(),
        figures: Vec::new(),
        answers: Answers::default(),
        times: Vec::new(),
        work: None,
        machine: None,
    };
    Observation {
        ended: Ended::Done,
        ranks: (0..ranks).map(|_| report()).collect(),
        images,
        as_expected: Vec::new(),
        checkpoints: Vec::new(),
        log: String::new(),
        seconds: 0.001,
        reached: None,
        reached_until_limit: None,
        reused: false,
        deaths: Vec::new(),
    }
}
