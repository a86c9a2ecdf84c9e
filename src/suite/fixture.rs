//! Cases and verdicts for unit tests of what works on many of them.
use crate::judge::{Outcome, Status, Verdict};
use crate::scenario::{Case, Placement, Requires, SourceFile, Sp, Span};
use std::sync::Arc;

/// A case called `name`, in a file of its own under `scenarios/`; it has no steps.
pub fn case(name: &str) -> Arc<Case> {
    let stem = name.split('[').next().unwrap_or(name);
    let text = "world_size = 2\nop = \"all_reduce\"\ninputs = [[1, 2], [3, 4]]\n";
    Arc::new(Case {
        name: name.to_owned(),
        file: Arc::new(SourceFile { path: format!("scenarios/{stem}.toml"), text: text.into() }),
        span: Span { start: 0, end: 10 },
        description: None,
        source: None,
        tags: Vec::new(),
        world_size: Sp { span: Span { start: 13, end: 14 }, v: 2 },
        point: Vec::new(),
        axes: Vec::new(),
        inputs: Vec::new(),
        comms: Vec::new(),
        steps: Vec::new(),
        expect: Vec::new(),
        asserts: Vec::new(),
        outcome: None,
        reason: None,
        env: Vec::new(),
        config: Vec::new(),
        offset: None,
        offsets: Vec::new(),
        repeat: 1,
        timeout: None,
        placement: Placement::Threads,
        requires: Requires::default(),
        snapshot: None,
        swept: false,
        short: true,
        forms: Vec::new(),
        form: None,
        outer: None,
    })
}

/// A verdict with nothing but its status.
pub fn verdict(name: &str, status: Status) -> Verdict {
    Verdict {
        case: name.to_owned(),
        status,
        outcome: Some(Outcome::Ok),
        reason: None,
        seconds: 0.0,
        lanes: Vec::new(),
        findings: Vec::new(),
        fingerprint: None,
        outputs: None,
        snapshot: None,
        notes: Vec::new(),
    }
}
