//! What came of judging a job.
use super::call::Call;
use collspec_core::oracle::ElementLane;
use collspec_core::printable::one_line;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Wrong elements that are told one by one.
const TOLD: usize = 20;

/// An element that is not what the operation gives.
#[derive(Clone, Debug)]
pub struct Wrong {
    pub call: Call,
    /// The launch of its graph.
    pub replay: u64,
    /// The element of the output.
    pub element: u64,
    pub expected: String,
    pub found: String,
}

impl Wrong {
    /// One line.
    pub fn text(&self) -> String {
        let Self { call, replay, element, expected, found } = self;
        let launch = if call.in_graph { format!(", launch {replay} of its graph") } else { String::new() };
        let text = format!(
            "rank {} of {}, call {} of communicator {:016x}{launch}: {}; element {element}: expected {expected}, found {found}; {}",
            call.rank,
            call.ranks,
            call.number,
            call.comm,
            call.text(),
            call.place
        );
        one_line(&text).into_owned()
    }

    fn json(&self) -> Value {
        let Self { call, replay, element, expected, found } = self;
        json!({
            "rank": call.rank, "ranks": call.ranks, "call": call.number, "communicator": format!("{:016x}", call.comm),
            "launch": replay, "operation": call.op.word(), "reduction": call.op.reduces().then(|| call.reduce_word()),
            "root": (call.op.is_rooted() || call.op.is_message()).then_some(call.root), "count": call.count,
            "type": call.dtype.name(), "element": element, "expected": expected, "found": found, "at": call.place,
        })
    }
}

/// The counts of a job. Calls are counted on each of their ranks.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub seen: u64,
    /// Calls whose data is looked at.
    pub looked_at: u64,
    pub judged: u64,
    pub exact: u64,
    pub by_orders: u64,
    pub by_bound: u64,
    /// Elements that the oracle cannot decide.
    pub undecided: u64,
    /// Calls by the reason why they were not judged.
    pub not_judged: BTreeMap<String, u64>,
    pub wrong: u64,
    /// The first ones.
    pub wrongs: Vec<Wrong>,
    /// The first of them as a scenario.
    pub scenario: Option<String>,
    /// Processes whose file has reached its limit.
    pub full: u64,
    /// Processes with two libraries, of which one is followed.
    pub second_libraries: u64,
}

impl Tally {
    pub fn add_element(&mut self, lane: ElementLane) {
        *match lane {
            ElementLane::Exact => &mut self.exact,
            ElementLane::Admissible => &mut self.by_orders,
            ElementLane::Bounded => &mut self.by_bound,
        } += 1;
    }

    pub fn add_wrong(&mut self, wrong: Wrong) {
        self.wrong += 1;
        if self.wrongs.len() < TOLD {
            self.wrongs.push(wrong);
        }
    }

    pub fn leave_out(&mut self, reason: impl Into<String>, calls: u64) {
        if calls > 0 {
            *self.not_judged.entry(reason.into()).or_default() += calls;
        }
    }

    pub fn elements(&self) -> u64 {
        self.exact + self.by_orders + self.by_bound
    }

    /// What is told, by line: wrong elements, and last the counts.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.wrongs.iter().map(|wrong| format!("wrong: {}", wrong.text())).collect();
        let more = self.wrong - self.wrongs.len() as u64;
        if more > 0 {
            lines.push(format!("wrong: {more} more elements"));
        }
        if self.full > 0 {
            lines.push(format!("{} files reached their limit: nothing is known of what came later", self.full));
        }
        if self.second_libraries > 0 {
            let processes = self.second_libraries;
            lines.push(format!("{processes} processes use a second NCCL library, whose calls were not seen"));
        }
        if self.seen == 0 {
            lines.push(
                "no call of NCCL was seen: the program makes none, has its NCCL linked statically, or found it in a way that \
                 cannot be followed"
                    .to_owned(),
            );
        }
        let left_out: Vec<String> = self.not_judged.iter().map(|(reason, calls)| format!("{calls} {reason}")).collect();
        let undecided = if self.undecided > 0 { format!(", {} undecided", self.undecided) } else { String::new() };
        lines.push(format!(
            "{} calls seen, {} judged, {} not{}; {} elements judged ({} exact, {} by orders, {} by a bound){undecided}; {} wrong",
            self.seen,
            self.judged,
            self.seen.saturating_sub(self.judged),
            if left_out.is_empty() { String::new() } else { format!(" ({})", one_line(&left_out.join(", "))) },
            self.elements(),
            self.exact,
            self.by_orders,
            self.by_bound,
            self.wrong,
        ));
        lines
    }

    pub fn json(&self) -> Value {
        json!({
            "calls": { "seen": self.seen, "judged": self.judged, "not_judged": self.not_judged },
            "elements": { "exact": self.exact, "orders": self.by_orders, "bound": self.by_bound, "undecided": self.undecided },
            "wrong": self.wrong, "wrong_elements": self.wrongs.iter().map(Wrong::json).collect::<Vec<_>>(),
            "full_files": self.full, "second_libraries": self.second_libraries,
        })
    }
}
