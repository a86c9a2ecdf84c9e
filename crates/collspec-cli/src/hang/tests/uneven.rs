//! All_to_alls to which every rank gives another size. A dump has one input and one output of each, and not their pieces.
use super::super::diagnosis::{Cause, Diagnosis};
use super::super::{Job, diagnose, text};
use super::only;
use crate::import::flight_recorder;
use crate::import::source::Source;
use proptest::prelude::*;
use std::fmt::Write;

/// An all_to_all with this input and output, from line 20; or an all_reduce from line 30.
#[derive(Clone, Copy, Debug)]
enum Call {
    AllToAll(u64, u64),
    AllReduce,
}

/// The dump of a rank of three, of whose calls those from `open` on are not complete.
fn dump(calls: &[Call], open: usize) -> String {
    let mut text =
        "{\"pg_config\": {\"0\": {\"desc\": \"default_pg\", \"ranks\": [0, 1, 2]}}, \"entries\": [".to_owned();
    for (at, call) in calls.iter().enumerate() {
        let (name, input, output, line) = match call {
            Call::AllToAll(input, output) => ("all_to_all", *input, *output, 20),
            Call::AllReduce => ("all_reduce", 1, 1, 30),
        };
        let comma = if at > 0 { ", " } else { "" };
        _ = write!(
            text,
            "{comma}{{\"record_id\": {at}, \"process_group\": [\"0\", \"default_pg\"], \"collective_seq_id\": {}, \"p2p_seq_id\": 0, \"op_id\": {}, \
             \"profiling_name\": \"nccl:{name}\", \"input_sizes\": [[{input}, 4]], \"input_dtypes\": [\"Float\"], \"output_sizes\": \
             [[{output}, 4]], \"output_dtypes\": [\"Float\"], \"state\": \"{}\", \"frames\": [{{\"name\": \"step\", \"filename\": \"/job/train.py\", \
             \"line\": {line}}}]}}",
            at + 1,
            at + 1,
            if at < open { "completed" } else { "started" },
        );
    }
    text + "]}"
}

fn diagnosed(ranks: &[(Vec<Call>, usize)]) -> Diagnosis {
    let read = |(rank, (calls, open)): (usize, &(Vec<Call>, usize))| {
        flight_recorder::read(rank, &Source::Input(dump(calls, *open).into_bytes())).unwrap()
    };
    diagnose(&Job::of_dumps(ranks.iter().enumerate().map(read).collect()).unwrap())
}

/// What a rank of three gives to the all_to_all with these pieces.
fn all_to_all(table: &[[u64; 3]; 3], rank: usize) -> Call {
    Call::AllToAll(table[rank].iter().sum(), table.iter().map(|row| row[rank]).sum())
}

fn tables() -> impl Strategy<Value = Vec<[[u64; 3]; 3]>> {
    prop::collection::vec(prop::array::uniform3(prop::array::uniform3(0u64..9)), 1..5)
}

#[test]
fn ranks_that_give_any_sizes_to_one_call_agree() {
    proptest!(|(tables in tables())| {
        let calls = |rank| tables.iter().flat_map(|table| [all_to_all(table, rank), Call::AllReduce]).collect::<Vec<_>>();
        let open = 2 * tables.len() - 2;
        let diagnosis = diagnosed(&[0, 1, 2].map(|rank| (calls(rank), open)));
        prop_assert_eq!(&diagnosis.findings, &[], "{}", text(&diagnosis));
        prop_assert!(diagnosis.verdict.contains("that are still open"), "{}", diagnosis.verdict);
    });
}

/// Only rank 1 is named. It does not matter which all_to_all it left out, nor which sizes calls of one number have because of that.
#[test]
fn the_rank_that_left_one_out_is_named() {
    proptest!(|(tables in tables(), at in 0usize..4)| {
        let at = 2 * (at % tables.len());
        let mut ranks = [0, 1, 2].map(|rank| {
            let all = tables.iter().flat_map(|table| [all_to_all(table, rank), Call::AllReduce]);
            (all.chain([Call::AllReduce]).collect::<Vec<_>>(), at)
        });
        ranks[1].0.remove(at);
        let diagnosis = diagnosed(&ranks);
        let (cause, named, line) = only(&diagnosis);
        prop_assert_eq!((cause, named, line), (Cause::LeftOut, vec![1], 20), "{}", text(&diagnosis));
    });
}

#[test]
fn sizes_that_cannot_fit_are_told_without_a_culprit() {
    let diagnosis =
        diagnosed(&[(6, 7), (5, 3), (6, 6)].map(|(input, output)| (vec![Call::AllToAll(input, output)], 0)));
    assert_eq!(diagnosis.findings, []);
    assert!(diagnosis.verdict.contains("call 1 of default_pg do not fit together"), "{}", diagnosis.verdict);
}
