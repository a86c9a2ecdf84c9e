//! Jobs that stand still, made up rank by rank.
mod departures;
mod logs;
mod restarted;
mod uneven;

use super::diagnosis::{Cause, Diagnosis};
use super::{Job, diagnose, text};
use crate::import::flight_recorder;
use crate::import::source::Source;
use proptest::prelude::*;
use std::fmt::Write;

/// A call of a rank: the group, the operation, the elements, the line, and how far it came.
#[derive(Clone, Debug)]
struct Call {
    group: usize,
    name: String,
    count: u64,
    line: u64,
    state: &'static str,
}

fn call(group: usize, name: &str, count: u64, line: u64) -> Call {
    Call { group, name: name.to_owned(), count, line, state: "completed" }
}

fn open(call: Call) -> Call {
    Call { state: "started", ..call }
}

/// The dump of a rank whose groups have these ranks.
fn dump(groups: &[Vec<usize>], calls: &[Call]) -> String {
    let mut text = "{\"version\": \"2.10\", \"pg_config\": {".to_owned();
    for (number, ranks) in groups.iter().enumerate() {
        let comma = if number > 0 { ", " } else { "" };
        let name = if ranks.len() > 2 || groups.len() == 1 { "default_pg".to_owned() } else { format!("pair{number}") };
        _ = write!(text, "{comma}\"{number}\": {{\"desc\": \"{name}\", \"ranks\": \"{ranks:?}\"}}");
    }
    text.push_str("}, \"entries\": [");
    let mut made = vec![0; groups.len()];
    let mut messages = vec![0; groups.len()];
    for (at, call) in calls.iter().enumerate() {
        let is_message = call.name.starts_with("send") || call.name.starts_with("recv");
        if is_message {
            messages[call.group] += 1
        } else {
            made[call.group] += 1
        };
        let comma = if at > 0 { ", " } else { "" };
        _ = write!(
            text,
            "{comma}{{\"record_id\": {at}, \"process_group\": [\"{group}\", \"\"], \"collective_seq_id\": {}, \"p2p_seq_id\": {}, \
             \"op_id\": {}, \"profiling_name\": \"nccl:{}\", \"input_sizes\": [[{count}]], \"input_dtypes\": [\"Float\"], \
             \"output_sizes\": [[{count}]], \"output_dtypes\": [\"Float\"], \"state\": \"{}\", \"frames\": [{{\"name\": \"step\", \
             \"filename\": \"/job/train.py\", \"line\": {}}}]}}",
            made[call.group],
            messages[call.group],
            at + 1,
            call.name,
            call.state,
            call.line,
            group = call.group,
            count = call.count,
        );
    }
    text + "]}"
}

/// The diagnosis of a job of which only these ranks have left a dump.
fn diagnosed(groups: &[Vec<usize>], ranks: &[(usize, Vec<Call>)]) -> Diagnosis {
    let read = |(rank, calls): &(usize, Vec<Call>)| {
        flight_recorder::read(*rank, &Source::Input(dump(groups, calls).into_bytes())).unwrap()
    };
    diagnose(&Job::of_dumps(ranks.iter().map(read).collect()).unwrap())
}

fn all(ranks: usize, calls: impl Fn(usize) -> Vec<Call>) -> Vec<(usize, Vec<Call>)> {
    (0..ranks).map(|rank| (rank, calls(rank))).collect()
}

fn world(ranks: usize) -> Vec<Vec<usize>> {
    vec![(0..ranks).collect()]
}

/// What the only finding says.
fn only(diagnosis: &Diagnosis) -> (Cause, Vec<usize>, u64) {
    let [finding] = diagnosis.findings.as_slice() else { panic!("{}", text(diagnosis)) };
    let line = finding.call.stack.first().and_then(|line| line.line).unwrap_or(0);
    (finding.cause, finding.ranks.clone(), line as u64)
}

/// Rounds of three calls of one size, of which the last is open.
fn rounds(count: usize) -> Vec<Call> {
    let mut calls: Vec<Call> =
        (0..count).flat_map(|_| [10, 20, 30].map(|line| call(0, "all_reduce", 8, line))).collect();
    calls.last_mut().unwrap().state = "started";
    calls
}

#[test]
fn a_rank_without_a_dump_is_not_named_while_others_disagree() {
    let calls = |rank: usize| match rank {
        2 => vec![call(0, "all_reduce", 4, 1), open(call(0, "all_reduce", 1, 3))],
        _ => vec![call(0, "all_reduce", 4, 1), open(call(0, "all_reduce", 9, 2)), open(call(0, "all_reduce", 1, 3))],
    };
    let diagnosis = diagnosed(&world(4), &all(3, calls));
    assert_eq!(only(&diagnosis), (Cause::LeftOut, vec![2], 2));
    let agree = diagnosed(&world(4), &all(3, |_| calls(0)));
    assert_eq!(only(&agree), (Cause::Unknown, vec![3], 2));
    assert!(agree.is_guess() && !diagnosis.is_guess());
}

/// A dump from before the others is not that of a rank that stopped.
#[test]
fn what_one_rank_completed_was_made_by_all() {
    let diagnosis = diagnosed(
        &world(3),
        &all(3, |rank| {
            let mut calls = rounds(3);
            calls.last_mut().unwrap().state = "completed";
            calls.truncate(if rank == 1 { 5 } else { 9 });
            calls
        }),
    );
    assert_eq!(diagnosis.findings, []);
    assert!(diagnosis.verdict.contains("no call is open"), "{}", diagnosis.verdict);
    let open = diagnosed(&world(3), &all(3, |_| rounds(3)));
    assert_eq!(open.findings, []);
    assert!(open.verdict.contains("that are still open"), "{}", open.verdict);
}

/// Eight groups of eight ranks one way, and eight the other way.
#[test]
fn one_cause_is_one_finding_however_many_ranks_wait() {
    let ranks = 64;
    let mut groups = world(ranks);
    groups.extend((0..8).map(|row| (8 * row..8 * row + 8).collect()));
    groups.extend((0..8).map(|column| (0..8).map(|row| 8 * row + column).collect()));
    for goes_on in [false, true] {
        let program = |rank: usize| {
            let (row, column) = (1 + rank / 8, 9 + rank % 8);
            let round = [
                call(row, "all_gather", 64, 10),
                call(row, "reduce_scatter", 64, 20),
                call(column, "all_reduce", 32, 30),
            ];
            let mut calls: Vec<Call> = (0..5).flat_map(|_| round.clone()).collect();
            // Rank 13 leaves out the last call of its row. So its column completes its last call, and all other columns wait.
            let last = calls.len() - 1;
            match (rank / 8, rank % 8) {
                (1, 5) => {
                    calls.remove(last - 1);
                    calls.extend(goes_on.then(|| open(call(row, "all_gather", 64, 10))));
                }
                (1, _) => {
                    calls.truncate(last);
                    calls[last - 1].state = "started";
                }
                (_, 5) => calls.extend(goes_on.then(|| call(row, "all_gather", 64, 10)).into_iter().map(open)),
                _ => calls[last].state = "started",
            }
            calls
        };
        let diagnosis = diagnosed(&groups, &all(ranks, program));
        let cause = if goes_on { Cause::LeftOut } else { Cause::Stopped };
        assert_eq!(only(&diagnosis), (cause, vec![13], 20), "{}", text(&diagnosis));
        assert_eq!(diagnosis.findings[0].others, [8, 9, 10, 11, 12, 14, 15]);
    }
}

#[test]
fn two_groups_in_different_orders_are_the_finding() {
    let groups = vec![vec![0, 1, 2, 3], vec![0, 1]];
    let diagnosis = diagnosed(
        &groups,
        &all(4, |rank| {
            let (one, other) = (open(call(0, "all_reduce", 4, 10)), open(call(1, "all_reduce", 4, 20)));
            match rank {
                0 => vec![one, Call { state: "scheduled", ..other }],
                1 => vec![other, Call { state: "scheduled", ..one }],
                _ => vec![one],
            }
        }),
    );
    assert_eq!(only(&diagnosis).0, Cause::Order);
    assert_eq!((&*diagnosis.findings[0].ranks, &*diagnosis.findings[0].others), (&[1][..], &[0, 2, 3][..]));
    assert!(diagnosis.verdict.contains("wait for each other"), "{}", diagnosis.verdict);
}

/// Rank 1 waits for a message, and rank 0, which would send it, stands in a collective with all others.
#[test]
fn a_message_that_nobody_sends_is_told_with_the_call_that_its_sender_stands_in() {
    let diagnosis = diagnosed(
        &world(3),
        &all(3, |rank| match rank {
            1 => vec![call(0, "all_reduce", 4, 10), open(call(0, "recv 1<-0", 4, 40))],
            _ => vec![call(0, "all_reduce", 4, 10), open(call(0, "all_reduce", 4, 20))],
        }),
    );
    let said = text(&diagnosis);
    assert_eq!(only(&diagnosis), (Cause::NoMessage, vec![0], 40), "{said}");
    assert!(said.contains("recv of 4 f32 from rank 0") && said.contains("train.py:20"), "{said}");
    let differ = diagnosed(
        &world(2),
        &all(2, |rank| vec![open(call(0, if rank == 0 { "send 0->1" } else { "recv 1<-0" }, 4 + rank as u64, 40))]),
    );
    assert_eq!(only(&differ).0, Cause::MessagesDiffer);
    let stopped = diagnosed(
        &world(2),
        &all(2, |rank| match rank {
            0 => vec![call(0, "all_reduce", 4, 10)],
            _ => vec![call(0, "all_reduce", 4, 10), open(call(0, "recv 1<-0", 4, 40))],
        }),
    );
    assert_eq!(only(&stopped), (Cause::Stopped, vec![0], 40));
}

/// Anything at all is an answer or an error.
#[test]
fn any_calls_of_any_ranks_are_answered() {
    let call = (0usize..3, 0usize..5, 1u64..3, 0u64..4, 0usize..3).prop_map(|(group, op, count, line, state)| {
        let name = ["all_reduce", "all_gather", "send 0->1", "recv 1<-0", "barrier"][op];
        Call { state: ["completed", "started", "scheduled"][state], ..self::call(group, name, count, line) }
    });
    let ranks = prop::collection::vec(prop::collection::vec(call, 0..12), 1..5);
    proptest!(|(ranks in ranks)| {
        let groups = vec![vec![0, 1, 2, 3, 4], vec![0, 1, 2, 3], vec![0, 1, 2, 3]];
        let ranks: Vec<(usize, Vec<Call>)> = ranks.into_iter().enumerate().collect();
        let diagnosis = diagnosed(&groups, &ranks);
        prop_assert!(!diagnosis.verdict.is_empty());
        prop_assert!(diagnosis.findings.iter().all(|finding| !finding.ranks.is_empty()));
    });
}
