//! Checks the answers of NCCL's query functions: a communicator's size, rank, device and asynchronous error, the texts of
//! errors, the version.
use super::findings::{FindingCollector, NO_EVENT, Priority};
use super::outcome::CommNames;
use super::{Lane, message};
use crate::job::Observation;
use crate::job::{Answer, Asked, Call, CallKind};
use crate::plan::Plan;
use nccl_sys::ncclResult_t;
use std::collections::BTreeSet;

mod memory;

/// Version code of NCCL 2.0.0, the smallest plausible one.
const OLDEST_VERSION: i32 = 2000;

/// Compares the answers on every rank with the plan's communicators.
pub(crate) fn check(plan: &Plan, observation: &Observation, collector: &mut FindingCollector) {
    let names = CommNames::of(plan);
    for (rank, report) in observation.ranks.iter().enumerate() {
        let interrupted = interrupted(plan, rank);
        for asked in &report.answers.comms {
            check_communicator(plan, &names, rank, asked, interrupted.contains(&asked.comm), collector);
        }
        memory::check(plan, &names, rank, &report.answers.memory, collector);
        check_error_texts(rank, &report.answers.texts, collector);
        if let Some(version) = report.answers.version {
            let texts = || QueryTexts { right: "a version code".into(), actual: value_text(version) };
            record("ncclGetVersion", version >= OLDEST_VERSION, rank, collector, texts);
        }
        if report.answers.mute > 0 {
            let texts =
                || QueryTexts { right: "a text".into(), actual: "a null pointer after a call that failed".into() };
            record("ncclGetLastError", false, rank, collector, texts);
        }
        if report.answers.handles_without_colour > 0 {
            let texts =
                || QueryTexts { right: "a null handle".into(), actual: "a handle to a rank without a colour".into() };
            record("ncclCommSplit", false, rank, collector, texts);
        }
    }
}

/// The communicators whose operations the rank's program ends, and those that have lost a rank: NCCL does not define their
/// asynchronous error.
fn interrupted(plan: &Plan, rank: usize) -> BTreeSet<u32> {
    let calls = plan.programs.get(rank).filter(|_| plan.comm_steps).into_iter().flatten();
    let lost = |ranks: &[u32]| {
        let touched =
            plan.comms.iter().zip(0u32..).filter(|(comm, _)| {
                comm.members.iter().any(|member| ranks.iter().any(|rank| *rank as usize == *member))
            });
        touched.map(|(_, index)| index).collect::<Vec<u32>>()
    };
    let of = |call: &Call| match &call.kind {
        CallKind::Revoke { comm } | CallKind::Shrink { parent: comm, abort: true, .. } => vec![*comm],
        CallKind::AwaitDeath { ranks, .. } => lost(ranks),
        _ => Vec::new(),
    };
    calls.flat_map(of).collect()
}

fn check_communicator(
    plan: &Plan,
    names: &CommNames<'_>,
    rank: usize,
    asked: &Asked,
    interrupted: bool,
    collector: &mut FindingCollector,
) {
    let Some(comm) = plan.comms.get(asked.comm as usize) else { return };
    let Some(own) = comm.members.iter().position(|member| *member == rank) else { return };
    let own = i32::try_from(own).ok();
    let size = i32::try_from(comm.members.len()).ok();
    // After misuse the state of a communicator is undefined.
    let error = if plan.undefined.is_none() && !interrupted { Some(ncclResult_t::Success.0) } else { None };
    for (function, answer, right) in [
        ("ncclCommCount", asked.count, size),
        ("ncclCommUserRank", asked.rank, own),
        ("ncclCommCuDevice", asked.device, asked.current),
        ("ncclCommGetAsyncError", asked.error, error),
    ] {
        let Some(right) = right.filter(|_| answer != Answer::Absent) else { continue };
        let texts = || {
            let actual = match answer {
                Answer::Is(value) => value_text(value),
                Answer::Refused(code) => {
                    ncclResult_t(code).name().map_or_else(|| format!("code {code}"), str::to_owned)
                }
                Answer::Nothing | Answer::Absent => "success but no value".into(),
            };
            QueryTexts { right: value_text(right), actual: format!("{actual} of {}", names.text(comm)) }
        };
        record(function, answer == Answer::Is(right), rank, collector, texts);
    }
}

/// Words by which the text of an error code can be told from the texts of other codes, in NCCL and in other libraries.
const WORDS: [(ncclResult_t, &str); 10] = [
    (ncclResult_t::UnhandledCudaError, "cuda"),
    (ncclResult_t::SystemError, "system"),
    (ncclResult_t::InternalError, "internal"),
    (ncclResult_t::InvalidArgument, "argument"),
    (ncclResult_t::InvalidUsage, "usage"),
    (ncclResult_t::RemoteError, "remote"),
    (ncclResult_t::RemoteError, "network"),
    (ncclResult_t::InProgress, "progress"),
    (ncclResult_t::Timeout, "timeout"),
    (ncclResult_t::Timeout, "timed out"),
];

/// True if a text has the words of another code, and not those of its code.
fn is_of_another(code: i32, text: &str) -> bool {
    let text = text.to_lowercase();
    let speaks = |own: bool| WORDS.iter().any(|(of, word)| (of.0 == code) == own && text.contains(word));
    speaks(false) && !speaks(true)
}

/// Every code must have a text that differs from those of other codes. A library may have one text for all errors.
fn check_error_texts(rank: usize, texts: &[(i32, Option<String>)], collector: &mut FindingCollector) {
    let mut errors = texts.iter().filter(|(code, _)| *code != ncclResult_t::Success.0).map(|(_, text)| text);
    let first = errors.next();
    let one_for_all = errors.all(|other| Some(other) == first);
    for (code, text) in texts {
        let of = |code: i32| ncclResult_t(code).name().map_or_else(|| format!("code {code}"), str::to_owned);
        let differs = |other: i32| !one_for_all || other == ncclResult_t::Success.0;
        let same = || texts.iter().find(|(other, its)| other < code && its == text && differs(*other));
        let actual = match text.as_deref() {
            None => Some("a null pointer".to_owned()),
            Some("") => Some("an empty text".to_owned()),
            Some(words) => match same() {
                Some((other, _)) => Some(format!("the text of {}", of(*other))),
                None => (differs(*code) && is_of_another(*code, words))
                    .then(|| format!("a text of another code, {words:?},")),
            },
        };
        let texts = || {
            let actual = format!("{} for {}", actual.as_deref().unwrap_or("a text"), of(*code));
            QueryTexts { right: "a text for this code alone".into(), actual }
        };
        record("ncclGetErrorString", actual.is_none(), rank, collector, texts);
    }
}

fn value_text(value: i32) -> String {
    if value == i32::MIN { "nothing".into() } else { value.to_string() }
}

/// The right and the actual answer of a query function, in words.
struct QueryTexts {
    right: String,
    actual: String,
}

/// Counts an answer that was checked, and reports a wrong one; the texts are computed only in that case.
fn record(
    function: &'static str,
    right: bool,
    rank: usize,
    collector: &mut FindingCollector,
    texts: impl FnOnce() -> QueryTexts,
) {
    collector.count_checked(Lane::Invariants, 1);
    if right {
        return;
    }
    let QueryTexts { right, actual } = texts();
    let text = format!("rank {rank}: {function} answered {actual}, expected {right}");
    let mut finding = message::without_element(Lane::Invariants, text, right, actual);
    finding.rank = Some(rank);
    collector.add(Priority::Invariant(NO_EVENT), finding);
}

#[cfg(test)]
mod tests {
    use super::super::{Lane, Status};
    use super::*;
    use crate::job::Answers;
    use crate::judge::test_case::planned_case;

    const TURNED: &str = r#"
world_size = 3
comms.turned = { color = 0, key = "-rank" }
inputs.x = { each = "rank", count = 1 }
steps = [{ op = "all_reduce", comm = "turned", in = "x", out = "y" }]
"#;

    fn right_answers(comm: u32, rank: i32) -> Asked {
        Asked {
            comm,
            count: Answer::Is(3),
            rank: Answer::Is(rank),
            device: Answer::Is(7),
            current: Some(7),
            error: Answer::Is(0),
        }
    }

    /// The findings for changed answers of rank 0, which is rank 2 of `turned`.
    fn findings_after(change: impl FnOnce(&mut Answers)) -> Vec<String> {
        let planned = planned_case(TURNED);
        let turned = planned.plan.comms.iter().position(|comm| comm.name.as_deref() == Some("turned")).unwrap() as u32;
        let mut observation = planned.perfect();
        let answers = &mut observation.ranks[0].answers;
        answers.comms = vec![right_answers(turned, 2)];
        answers.texts = (0..8).map(|code| (code, Some(format!("text {code}")))).collect();
        answers.version = Some(23007);
        change(answers);
        let verdict = planned.judge(&[observation]);
        assert_eq!(verdict.status == Status::Fail, !verdict.findings.is_empty());
        assert!(verdict.findings.iter().all(|finding| finding.lane == Lane::Invariants));
        verdict.findings.into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn right_answers_and_absent_functions_pass() {
        assert_eq!(findings_after(|_| {}), [] as [&str; 0]);
        assert_eq!(findings_after(|answers| *answers = Answers::default()), [] as [&str; 0]);
        let absent = |answers: &mut Answers| {
            let asked = &mut answers.comms[0];
            (asked.count, asked.rank, asked.device) = (Answer::Absent, Answer::Absent, Answer::Absent);
            asked.error = Answer::Absent;
        };
        assert_eq!(findings_after(absent), [] as [&str; 0]);
    }

    /// The texts of all releases of NCCL that have these codes.
    const TEXTS: [&str; 9] = [
        "no error",
        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "internal error - please report this issue to the NCCL developers",
        "invalid argument (run with NCCL_DEBUG=WARN for details)",
        "invalid usage (run with NCCL_DEBUG=WARN for details)",
        "remote process exited or there was a network error",
        "NCCL operation in progress",
        "timeout",
    ];

    #[test]
    fn no_text_of_nccl_is_of_another_code_and_every_swapped_pair_is() {
        let judged = |texts: [&str; 9]| {
            let numbered = || (0..).zip(texts.map(|text| Some(text.to_owned()))).collect();
            findings_after(|answers| answers.texts = numbered())
        };
        assert_eq!(judged(TEXTS), [] as [&str; 0]);
        // Words that a library may add say nothing of another code.
        let mut longer = TEXTS;
        longer[6] = "remote process exited, or a system call of the network had a timeout";
        longer[8] = "timeout: the operation was in progress for too long, see the system's log";
        assert_eq!(judged(longer), [] as [&str; 0]);
        for one in 0..TEXTS.len() {
            for other in 0..one {
                let mut swapped = TEXTS;
                swapped.swap(one, other);
                let found = judged(swapped);
                assert!(!found.is_empty(), "{one} and {other}");
                assert!(found.iter().all(|text| text.contains("a text of another code")), "{found:?}");
            }
        }
    }

    #[test]
    fn each_wrong_answer_is_named() {
        type Change = fn(&mut Answers);
        const CHANGES: &[(Change, &str)] = &[
            (|a| a.comms[0].count = Answer::Is(2), "ncclCommCount answered 2 of communicator `turned`, expected 3"),
            (|a| a.comms[0].count = Answer::Nothing, "ncclCommCount answered success but no value"),
            (|a| a.comms[0].rank = Answer::Is(0), "ncclCommUserRank answered 0 of communicator `turned`, expected 2"),
            (|a| a.comms[0].rank = Answer::Refused(4), "ncclCommUserRank answered invalid_argument"),
            (|a| a.comms[0].device = Answer::Is(0), "ncclCommCuDevice answered 0 of communicator `turned`, expected 7"),
            (|a| a.comms[0].error = Answer::Is(7), "ncclCommGetAsyncError answered 7"),
            (|a| a.texts[3].1 = None, "ncclGetErrorString answered a null pointer for internal_error"),
            (|a| a.texts[4].1 = Some(String::new()), "ncclGetErrorString answered an empty text for invalid_argument"),
            (|a| a.texts[6].1 = Some("text 0".into()), "ncclGetErrorString answered the text of ok for remote_error"),
            (
                |a| a.texts[6].1 = Some("text 5".into()),
                "ncclGetErrorString answered the text of invalid_usage for remote_error",
            ),
            (
                |a| a.texts[5].1 = Some("Invalid argument".into()),
                "ncclGetErrorString answered a text of another code, \"Invalid argument\", for invalid_usage",
            ),
            (
                |a| a.texts[0].1 = Some("internal error".into()),
                "ncclGetErrorString answered a text of another code, \"internal error\", for ok",
            ),
            (
                |a| a.handles_without_colour = 1,
                "ncclCommSplit answered a handle to a rank without a colour, expected a null handle",
            ),
            (|a| a.version = Some(i32::MIN), "ncclGetVersion answered nothing"),
            (|a| a.version = Some(0), "ncclGetVersion answered 0"),
            (|a| a.mute = 1, "ncclGetLastError answered a null pointer after a call that failed"),
        ];
        for (change, text) in CHANGES {
            let found = findings_after(change);
            assert!(found.len() == 1 && found[0].contains(text), "{text}: {found:?}");
        }
    }
}
