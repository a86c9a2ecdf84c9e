//! Cases and verdicts for unit tests.
use collspec_core::judge::{Outcome, Status, Verdict};
use collspec_core::scenario::{self, Case, SourceFile};
use std::sync::Arc;

/// A case called `name`: an all_reduce of two ranks, the only case of a file in `scenarios/`.
pub fn case(name: &str) -> Arc<Case> {
    let stem = name.split('[').next().unwrap_or(name);
    let text = "world_size = 2\nop = \"all_reduce\"\ninputs = [[1, 2], [3, 4]]\n";
    let file = Arc::new(SourceFile { path: format!("scenarios/{stem}.toml"), text: text.into() });
    let mut cases = scenario::parse(&file, stem).unwrap();
    let mut case = cases.remove(0);
    case.name = name.to_owned();
    Arc::new(case)
}

/// A verdict that contains only its status.
pub fn verdict(name: &str, status: Status) -> Verdict {
    Verdict {
        case: name.to_owned(),
        status,
        outcome: Some(Outcome::Ok),
        reason: None,
        seconds: 0.0,
        wall_seconds: 0.0,
        lanes: Vec::new(),
        findings: Vec::new(),
        fingerprint: None,
        order_maps: Vec::new(),
        outputs: None,
        snapshot: None,
        buffers: None,
        observed: None,
        not_looked_at: None,
        used: Vec::new(),
        fault_struck: Some(false),
        notes: Vec::new(),
    }
}
