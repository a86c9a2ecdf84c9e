//! Jobs that stand still, made up rank by rank.
use super::diagnosis::{Cause, Diagnosis};
use super::inputs::Evidence;
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

/// What is said of these ranks; of the others there is no dump.
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
fn a_call_of_equal_size_that_was_left_out_is_found_by_its_line() {
    let diagnosis = diagnosed(
        &world(4),
        &all(4, |rank| {
            let mut calls = rounds(5);
            if rank == 2 {
                calls.remove(7);
                calls.last_mut().unwrap().state = "completed";
            }
            calls
        }),
    );
    assert_eq!(only(&diagnosis), (Cause::LeftOut, vec![2], 20));
    assert_eq!(diagnosis.findings[0].others, [0, 1, 3]);
    assert!(!diagnosis.findings[0].is_undecided);
    assert_eq!(diagnosis.last_common.unwrap().number.as_deref(), Some("7"));
}

#[test]
fn a_call_in_addition_is_found() {
    let diagnosis = diagnosed(
        &world(4),
        &all(4, |rank| {
            let mut calls = rounds(3);
            if rank == 1 {
                calls.insert(4, call(0, "all_reduce", 8, 77));
                calls.pop();
                calls.last_mut().unwrap().state = "started";
            }
            calls
        }),
    );
    assert_eq!(only(&diagnosis), (Cause::Added, vec![1], 77));
}

#[test]
fn another_call_than_the_others_make_is_found_and_two_ranks_have_no_majority() {
    let calls = |rank: usize| {
        let name = if rank == 0 { "all_gather" } else { "all_reduce" };
        vec![call(0, "all_reduce", 4, 1), open(call(0, name, 4, 2))]
    };
    let diagnosis = diagnosed(&world(3), &all(3, calls));
    assert_eq!(only(&diagnosis), (Cause::Instead, vec![0], 2));
    assert!(!diagnosis.findings[0].is_undecided);
    let diagnosis = diagnosed(&world(2), &all(2, calls));
    assert!(
        diagnosis.findings[0].is_undecided && diagnosis.verdict.contains("or the others are wrong"),
        "{}",
        diagnosis.verdict
    );
}

/// A branch for the first rank is no reason to name it.
#[test]
fn lines_that_always_differ_by_rank_do_not_matter() {
    let diagnosis = diagnosed(
        &world(4),
        &all(4, |rank| {
            let mut calls = rounds(4);
            calls.iter_mut().skip(1).step_by(3).for_each(|call| call.line += u64::from(rank == 0));
            if rank == 3 {
                calls.truncate(9);
            }
            calls.truncate(10);
            if rank != 3 {
                calls.last_mut().unwrap().state = "started";
            }
            calls
        }),
    );
    assert_eq!(only(&diagnosis), (Cause::Stopped, vec![3], 10));
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
        let cause = if goes_on { Cause::Instead } else { Cause::Stopped };
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
    assert_eq!(only(&diagnosis).1, [0, 1]);
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

/// Lines of NCCL's log of a rank.
fn log(rank: usize, ranks: usize, counts: &[u64]) -> String {
    let who = format!("h:{0}:{0} [{rank}] NCCL INFO", 100 + rank);
    let mut text = format!(
        "{who} ncclCommInitRank comm 0xa{rank} rank {rank} nranks {ranks} cudaDev {rank} nvmlDev 0 busId 1 commId 0x77 - Init START\n"
    );
    for (at, count) in counts.iter().enumerate() {
        _ = writeln!(
            text,
            "{who} AllReduce: opCount {at:x} sendbuff 0x1000 recvbuff 0x2000 count {count} datatype 7 op 0 root 0 comm 0xa{rank} stream 0x5"
        );
    }
    text
}

fn of_sources(sources: Vec<Source>) -> Diagnosis {
    let mut evidence = Evidence::default();
    sources.into_iter().for_each(|source| evidence.take(source, false).unwrap());
    diagnose(&evidence.job(&mut |_| ()).unwrap())
}

#[test]
fn logs_show_who_left_out_a_call_and_who_stopped() {
    let left_out = |rank: usize| if rank == 1 { vec![5, 6, 8] } else { vec![5, 6, 7, 8] };
    let sources = |counts: &dyn Fn(usize) -> Vec<u64>| {
        (0..3).map(|rank| Source::Input(log(rank, 3, &counts(rank)).into_bytes())).collect()
    };
    let diagnosis = of_sources(sources(&left_out));
    assert_eq!(only(&diagnosis).0, Cause::LeftOut);
    assert_eq!(diagnosis.findings[0].ranks, [1]);
    let stopped = of_sources(sources(&|rank| if rank == 2 { vec![5, 6] } else { vec![5, 6, 7] }));
    assert_eq!((only(&stopped).0, only(&stopped).1), (Cause::Stopped, vec![2]));
    let agree = of_sources(sources(&|_| vec![5, 6]));
    assert_eq!(agree.findings, []);
}

/// However a log was stored, it says the same.
#[test]
fn compressed_wrapped_and_coloured_logs_are_read() {
    use std::io::Write as _;
    let plain: Vec<String> = (0..3).map(|rank| log(rank, 3, if rank == 1 { &[5, 8] } else { &[5, 7, 8] })).collect();
    let gzip = |text: &String| {
        let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        to.write_all(text.as_bytes()).unwrap();
        to.finish().unwrap()
    };
    let utf_16 = |text: &String| [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let wrapped = |text: &String| {
        let line = |line: &str| format!("{}\n", serde_json::json!({ "log": format!("{line}\n"), "stream": "stdout" }));
        text.lines().map(line).collect::<String>().into_bytes()
    };
    let coloured = |text: &String| text.replace("NCCL", "\x1b[32mNC\x1b[0mCL").into_bytes();
    let expected = of_sources(plain.iter().map(|text| Source::Input(text.clone().into_bytes())).collect());
    assert_eq!(only(&expected).0, Cause::LeftOut);
    for stored in [
        plain.iter().map(gzip).collect::<Vec<_>>(),
        plain.iter().map(utf_16).collect(),
        plain.iter().map(wrapped).collect(),
        plain.iter().map(coloured).collect(),
    ] {
        let diagnosis = of_sources(stored.into_iter().map(Source::Input).collect());
        assert_eq!(diagnosis, expected);
    }
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
