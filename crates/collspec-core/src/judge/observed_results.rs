//! A compact form of a run's results, which can be stored and compared with another run's.
use super::images::image_bytes;
use super::outcome::{code_name, step_of_call};
use super::outputs::{whole_buffer, written_buffers};
use crate::job::{Observation, RankEnd};
use crate::oracle::Forecast;
use crate::oracle::interpreter::region_bytes;
use crate::oracle::memory::Certainty;
use crate::plan::{Event, Plan};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// The results of one run, as hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedResults {
    /// The buffers that steps write, in the plan's order.
    pub buffers: Vec<BufferHashes>,
    /// For each world rank, a hash of the results copied while the program ran because later steps use or overwrite them;
    /// `None` for a rank without such results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intermediate: Vec<Option<ContentHash>>,
    /// Calls that did not succeed, in the order of ranks and calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<CallError>,
}

/// The final contents of a buffer, restricted to the bytes that the program determines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferHashes {
    /// The buffer's name in the file.
    pub buffer: String,
    /// The hashes by world rank; `None` where the rank lacks the buffer.
    pub ranks: Vec<Option<ContentHash>>,
}

/// XXH3 (64 bits) of some bytes, written as 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContentHash(u64);

impl ContentHash {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(xxh3_64(bytes))
    }
}

impl From<ContentHash> for String {
    fn from(hash: ContentHash) -> String {
        format!("{:016x}", hash.0)
    }
}

impl TryFrom<String> for ContentHash {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digits = text.len() == 16 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let value = digits.then(|| u64::from_str_radix(&text, 16).ok()).flatten();
        value.map(Self).ok_or_else(|| format!("`{}` is not a hash of 16 hexadecimal digits", text.escape_debug()))
    }
}

/// A call that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallError {
    /// World rank that made the call.
    pub rank: usize,
    /// Label of the step; `None` while creating communicators or outside calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The name of NCCL's code as scenarios write it, such as `invalid_argument`.
    pub code: String,
    /// The library's error text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// Number of characters of an error's text that are kept.
const MAX_TEXT: usize = 400;

/// Extracts the results of a run. A run that did not end well has no contents.
pub(super) fn observed_results(
    plan: &Plan,
    forecast: &Forecast,
    observation: &Observation,
    ended_well: bool,
) -> ObservedResults {
    let errors = errors(plan, observation);
    if !ended_well {
        return ObservedResults { errors, ..ObservedResults::default() };
    }
    let of_buffer = |buf: &usize| BufferHashes {
        buffer: plan.buffers[*buf].name.clone(),
        ranks: (0..plan.n).map(|rank| contents(plan, forecast, observation, *buf, rank)).collect(),
    };
    let buffers = written_buffers(plan).iter().map(of_buffer).collect();
    ObservedResults { buffers, intermediate: intermediate(plan, forecast, observation), errors }
}

fn contents(
    plan: &Plan,
    forecast: &Forecast,
    observation: &Observation,
    buf: usize,
    rank: usize,
) -> Option<ContentHash> {
    let (alloc, range) = region_bytes(plan, whole_buffer(plan, buf, rank)?)?;
    let start = plan.allocs[alloc].start();
    let part = (start + range.start) as usize..(start + range.end) as usize;
    let image = image_bytes(forecast, observation, alloc, part)?;
    let mut hash = Xxh3Default::new();
    for (part, run) in forecast.final_memory.get(alloc)?.runs_in(range.clone()) {
        if is_result(run.certainty) {
            hash.update(image.get((part.start - range.start) as usize..(part.end - range.start) as usize)?);
        }
    }
    Some(ContentHash(hash.digest()))
}

/// True for bytes that the program determines. Untouched bytes have the contents that the run put there, and undefined
/// bytes have any.
fn is_result(certainty: Certainty) -> bool {
    matches!(certainty, Certainty::Known | Certainty::Ambiguous)
}

fn intermediate(plan: &Plan, forecast: &Forecast, observation: &Observation) -> Vec<Option<ContentHash>> {
    // It is unknown how far an aborted step got.
    if plan.events.iter().any(|event| matches!(event, Event::Undefined { .. })) {
        return Vec::new();
    }
    let mut by_rank: Vec<Option<Xxh3Default>> = (0..plan.n).map(|_| None).collect();
    for (checkpoint, bytes) in forecast.checkpoints.iter().zip(&observation.checkpoints) {
        if let Some(hash) = by_rank.get_mut(checkpoint.write.region.rank) {
            hash.get_or_insert_default().update(bytes);
        }
    }
    if by_rank.iter().all(Option::is_none) {
        return Vec::new();
    }
    by_rank.into_iter().map(|hash| hash.map(|hash| ContentHash(hash.digest()))).collect()
}

fn errors(plan: &Plan, observation: &Observation) -> Vec<CallError> {
    let mut errors = Vec::new();
    for (rank, report) in observation.ranks.iter().enumerate() {
        let step = |call: Option<u32>| {
            let step = step_of_call(plan, rank, call)?;
            plan.steps.get(step as usize).map(|step| step.label.clone())
        };
        let error = |step, code: i32, text: &str| CallError {
            rank,
            step,
            code: code_name(code),
            text: text.chars().take(MAX_TEXT).collect(),
        };
        for (call, code, text) in report.codes.iter().filter(|(_, code, _)| *code != 0) {
            errors.push(error(step(Some(*call)), *code, text));
        }
        if let RankEnd::Error { prelude, call, code, text } = &report.end {
            let step = step(call.filter(|_| !prelude));
            let last = errors.last().is_some_and(|last: &CallError| {
                last.rank == rank && last.step == step && last.code == code_name(*code)
            });
            if !last {
                errors.push(error(step, *code, text));
            }
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Ended;
    use crate::judge::CaseJudge;
    use crate::judge::test_case::{TestCase, planned_case};

    const CASE: &str = "world_size = 3\nop = \"reduce_scatter\"\ninputs = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]\n";

    fn observed(case: &TestCase, run: Observation) -> ObservedResults {
        let mut judge = CaseJudge::new(&case.plan, &case.forecast).keeping_results(true);
        judge.judge_run(run);
        *judge.into_verdict(true).observed.expect("results are kept")
    }

    #[test]
    fn one_bit_changes_one_hash() {
        let case = planned_case(CASE);
        let before = observed(&case, case.perfect());
        assert_eq!(before, observed(&case, case.perfect()));
        assert_eq!(before.buffers.iter().map(|buffer| buffer.buffer.as_str()).collect::<Vec<_>>(), ["out"]);
        for rank in 0..3 {
            let mut run = case.perfect();
            case.element(&mut run, "out", rank, 0)[0] ^= 1;
            let after = observed(&case, run);
            let same: Vec<bool> =
                before.buffers[0].ranks.iter().zip(&after.buffers[0].ranks).map(|(a, b)| a == b).collect();
            assert_eq!(same, [0, 1, 2].map(|other| other != rank));
        }
    }

    #[test]
    fn nothing_is_kept_unless_it_is_asked_for() {
        let case = planned_case(CASE);
        assert_eq!(case.judge(&[case.perfect()]).observed, None);
    }

    #[test]
    fn an_error_is_kept_with_its_step_and_without_contents() {
        let case = planned_case(CASE);
        let mut run = case.perfect();
        run.ended = Ended::Errored;
        let call = case.plan.programs[1].iter().position(|call| call.step == 0).map(|call| call as u32);
        run.ranks[1].end = RankEnd::Error { prelude: false, call, code: 4, text: "no such thing".into() };
        let kept = observed(&case, run);
        assert_eq!(kept.buffers, []);
        let step = Some(case.plan.steps[0].label.clone());
        let error = CallError { rank: 1, step, code: "invalid_argument".into(), text: "no such thing".into() };
        assert_eq!(kept.errors, [error]);
    }

    #[test]
    fn a_hash_is_read_back_and_anything_else_is_refused() {
        let hash = ContentHash::of(b"abc");
        let text = serde_json::to_string(&hash).unwrap();
        assert_eq!(serde_json::from_str::<ContentHash>(&text).unwrap(), hash);
        // XXH3 of `abc` with seed 0, as its reference implementation gives it: recordings of all versions hold this hash.
        assert_eq!(text, "\"78af5f94892f3950\"");
        for wrong in ["\"\"", "\"78af5f94892f395\"", "\"+8af5f94892f3950\"", "\"78af5f94892f3950 \"", "1"] {
            assert!(serde_json::from_str::<ContentHash>(wrong).is_err(), "{wrong}");
        }
    }
}
