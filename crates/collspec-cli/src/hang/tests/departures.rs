//! Ranks that leave out calls, make more, or make others.
use super::super::diagnosis::{Cause, Diagnosis};
use super::super::text;
use super::{Call, all, call, diagnosed, only, open, world};

/// Calls as in `64@10 64@20 1@30?`: elements, line, and a question mark if the call is open.
fn calls(text: &str) -> Vec<Call> {
    let one = |word: &str| {
        let (count, line) = word.trim_end_matches('?').split_once('@').unwrap();
        let call = call(0, "all_reduce", count.parse().unwrap(), line.parse().unwrap());
        if word.ends_with('?') { open(call) } else { call }
    };
    text.split_whitespace().map(one).collect()
}

/// The diagnosis of ranks that make these calls.
fn of(ranks: &[&str]) -> Diagnosis {
    diagnosed(&world(ranks.len()), &all(ranks.len(), |rank| calls(ranks[rank])))
}

/// The diagnosis of four ranks, of which `rank` makes other calls than the others.
fn of_one(rank: usize, own: &str, others: &str) -> Diagnosis {
    let mut all = [others; 4];
    all[rank] = own;
    of(&all)
}

/// Rounds of three calls of one size, up to a call that is open.
const OTHERS: &str = "8@10 8@20 8@30 8@10 8@20 8@30 8@10 8@20 8@30 8@10 8@20 8@30 8@10 8@20 8@30?";

#[test]
fn a_call_of_equal_size_that_was_left_out_is_found_by_its_line() {
    let own = "8@10 8@20 8@30 8@10 8@20 8@30 8@10 8@30 8@10 8@20 8@30 8@10 8@20 8@30";
    let diagnosis = of_one(2, own, OTHERS);
    assert_eq!(only(&diagnosis), (Cause::LeftOut, vec![2], 20));
    assert_eq!(diagnosis.findings[0].others, [0, 1, 3]);
    assert!(!diagnosis.findings[0].is_undecided);
    assert_eq!(diagnosis.last_common.unwrap().number.as_deref(), Some("7"));
}

#[test]
fn a_call_in_addition_is_found() {
    let diagnosis =
        of_one(1, "8@10 8@20 8@30 8@10 8@77 8@20 8@30 8@10 8@20?", "8@10 8@20 8@30 8@10 8@20 8@30 8@10 8@20 8@30?");
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

/// Rank 0 often runs other lines that make the same calls, for example because only it logs.
#[test]
fn lines_that_always_differ_by_rank_do_not_matter() {
    let others = "8@10 8@20 8@30 8@10 8@20 8@30 8@10 8@20 8@30 8@10?";
    let first = others.replace("@20", "@21");
    let diagnosis = of(&[&first, others, others, "8@10 8@20 8@30 8@10 8@20 8@30 8@10 8@20 8@30"]);
    assert_eq!(only(&diagnosis), (Cause::Stopped, vec![3], 10));
}

/// The commonest hang: the others wait in the call that a rank has left out, and have made nothing after it.
#[test]
fn a_call_that_was_left_out_is_named_where_all_others_stand_in_it() {
    let others = "64@10 64@20 1@30 64@10 64@20 1@30?";
    for ran_on in ["64@10 64@20 1@30 64@10 64@20 64@10?", "64@10 64@20 1@30 64@10 64@20 64@10? 64@20?"] {
        let diagnosis = of(&[others, others, others, ran_on]);
        assert_eq!(only(&diagnosis), (Cause::LeftOut, vec![3], 30), "{}", text(&diagnosis));
    }
    // What has never followed that call before may have been made in its place.
    let diagnosis = of(&[others, others, others, "64@10 64@20 1@30 64@10 64@20 9@70?"]);
    assert_eq!(only(&diagnosis), (Cause::Instead, vec![3], 30), "{}", text(&diagnosis));
}

#[test]
fn a_rank_that_left_the_others_twice_is_told_with_the_first_call() {
    let own = "8@10 8@20 8@30 8@10 8@30 8@10 8@20 8@30 8@10 8@20 8@30 8@20 8@30";
    let diagnosis = of_one(2, own, OTHERS);
    assert_eq!(only(&diagnosis), (Cause::LeftOut, vec![2], 20), "{}", text(&diagnosis));
    assert_eq!(diagnosis.last_common.unwrap().number.as_deref(), Some("4"));
}

#[test]
fn a_rank_whose_lines_are_its_own_throughout_is_compared_with_the_others() {
    let own = "8@110 8@120 8@130 8@110 8@120 8@130 8@110 8@130 8@110 8@120 8@130 8@110 8@120 8@130";
    let diagnosis = of_one(0, own, OTHERS);
    assert_eq!(only(&diagnosis), (Cause::LeftOut, vec![0], 20), "{}", text(&diagnosis));
}

/// Two orders of calls of one size are neither a call left out nor one in addition.
#[test]
fn an_exchanged_pair_of_calls_is_not_one_that_was_left_out() {
    let order = "8@10 8@20 8@30 8@10 8@20 8@30 8@10?";
    let other = "8@10 8@20 8@30 8@20 8@10 8@30 8@10?";
    assert_eq!(of(&[order, order, other]).findings, []);
}

#[test]
fn two_ranks_that_differ_in_lines_alone_may_both_be_wrong() {
    let diagnosis = of(&["8@10 8@20 8@30 8@10 8@20 8@30?", "8@10 8@20 8@30 8@20 8@30"]);
    assert_eq!(only(&diagnosis).2, 10, "{}", text(&diagnosis));
    assert!(diagnosis.findings[0].is_undecided && diagnosis.verdict.contains("or the others are wrong"));
}

#[test]
fn a_dump_that_is_older_than_the_others_is_not_that_of_a_rank_that_stopped() {
    let diagnosis = of(&["8@10 8@20 8@30 8@10?", "8@10", "8@10 8@20 8@30 8@10?"]);
    assert_eq!(only(&diagnosis), (Cause::Unknown, vec![1], 10), "{}", text(&diagnosis));
}

#[test]
fn one_rank_in_a_call_that_most_do_not_make_may_be_the_wrong_one() {
    let diagnosis = of(&["8@10 8@20?", "8@10", "8@10", "8@10"]);
    assert_eq!(only(&diagnosis), (Cause::Stopped, vec![1, 2, 3], 20));
    assert!(diagnosis.verdict.contains("or that call is one too many"), "{}", diagnosis.verdict);
    let clear = of(&["8@10 8@20?", "8@10 8@20?", "8@10 8@20?", "8@10"]);
    assert!(!clear.findings[0].is_undecided, "{}", clear.verdict);
}

/// Others are named only if they stand in the call, not if they made it and went on.
#[test]
fn a_rank_that_stopped_is_one_finding_in_all_its_communicators() {
    let groups = vec![vec![0, 1, 2, 3], vec![2, 3], vec![0, 1]];
    let diagnosis = diagnosed(
        &groups,
        &all(4, |rank| match rank {
            3 => vec![call(0, "all_reduce", 4, 10)],
            2 => vec![call(0, "all_reduce", 4, 10), open(call(1, "all_reduce", 2, 20))],
            _ => vec![call(0, "all_reduce", 4, 10), call(2, "all_reduce", 2, 20), open(call(0, "all_reduce", 4, 30))],
        }),
    );
    assert_eq!((only(&diagnosis).0, only(&diagnosis).1), (Cause::Stopped, vec![3]), "{}", text(&diagnosis));
}

/// If rank 0 alone runs its steps under a profiler, its calls come from another line. It is not to be blamed for that.
#[test]
fn two_calls_from_a_line_of_one_rank_do_not_matter() {
    let step = |rank: usize| {
        let line = if rank == 0 { 203 } else { 205 };
        [call(0, "all_gather", 64, line), call(0, "reduce_scatter", 64, line), call(0, "all_reduce", 1, 250)]
    };
    let diagnosis = diagnosed(
        &world(4),
        &all(4, |rank| {
            let mut calls: Vec<Call> = (0..4).flat_map(|_| step(rank)).collect();
            if rank == 3 {
                calls.remove(8);
            }
            calls.truncate(9);
            calls.last_mut().unwrap().state = "started";
            calls
        }),
    );
    assert_eq!(only(&diagnosis), (Cause::LeftOut, vec![3], 250), "{}", text(&diagnosis));
}

/// With two calls in a step, the next step's first call is not one that was made in addition.
#[test]
fn the_second_of_two_calls_is_left_out_although_one_call_agrees_behind_it() {
    let others = "8@10 1@30 8@10 1@30 8@10 1@30?";
    let diagnosis = of(&[others, others, others, "8@10 1@30 8@10 1@30 8@10 8@10? 1@30?"]);
    assert_eq!(only(&diagnosis), (Cause::LeftOut, vec![3], 30), "{}", text(&diagnosis));
    let new = of(&[others, others, others, "8@10 1@30 8@10 1@30 8@10 7@77? 1@30?"]);
    assert_eq!(only(&new), (Cause::Added, vec![3], 77), "{}", text(&new));
}

/// A dump that is old in one communicator is old in all.
#[test]
fn a_dump_that_lags_is_not_that_of_a_rank_that_stopped() {
    let lagging = of(&["8@10 8@20?", "8@10 8@20?", "8@10?"]);
    assert_eq!(only(&lagging), (Cause::Unknown, vec![2], 20));
    assert!(lagging.verdict.contains("older than the others"), "{}", lagging.verdict);
    let groups = vec![vec![0, 1, 2, 3], vec![2, 3]];
    let diagnosis = diagnosed(
        &groups,
        &all(4, |rank| match rank {
            3 => vec![call(1, "all_reduce", 2, 20)],
            2 => vec![call(1, "all_reduce", 2, 20), call(1, "all_reduce", 2, 20), open(call(0, "barrier", 0, 30))],
            _ => vec![open(call(0, "barrier", 0, 30))],
        }),
    );
    assert_eq!(only(&diagnosis), (Cause::Unknown, vec![3], 30), "{}", text(&diagnosis));
}

/// Of two ranks that wait for each other, the one is named whose calls do not follow each other as before.
#[test]
fn a_rank_that_left_its_own_way_is_named_and_not_the_one_that_waits_for_it() {
    let (groups, steps) = (vec![vec![0, 1, 2, 3], vec![0, 1], vec![2, 3]], 3);
    let program = |rank: usize| {
        let pair = 1 + rank / 2;
        let step = [call(pair, "all_reduce", 8, 10), call(0, "all_reduce", 1, 20)];
        (0..steps).flat_map(|_| step.clone()).collect::<Vec<Call>>()
    };
    let diagnosis = diagnosed(
        &groups,
        &all(4, |rank| {
            let mut calls = program(rank);
            if rank == 1 {
                calls.remove(4);
            }
            // Its partner waits for it in the pair, and all others in the world.
            let last = if rank == 0 { 5 } else { calls.len() };
            calls.truncate(last);
            calls.last_mut().unwrap().state = "started";
            calls
        }),
    );
    assert_eq!(only(&diagnosis), (Cause::LeftOut, vec![1], 10), "{}", text(&diagnosis));
    assert_eq!(diagnosis.findings[0].others, [0]);
}

/// The root of a broadcast is done before the others have begun.
#[test]
fn a_rank_that_stopped_before_a_broadcast_has_no_old_dump() {
    let program = |rank: usize| {
        let root = call(0, "broadcast", 4, 10);
        let own = if rank == 0 { root } else { open(root) };
        match rank {
            3 => vec![call(0, "all_reduce", 8, 5)],
            _ => vec![call(0, "all_reduce", 8, 5), own, open(call(0, "all_reduce", 8, 20))],
        }
    };
    let diagnosis = diagnosed(&world(4), &all(4, program));
    assert_eq!((only(&diagnosis).0, only(&diagnosis).1), (Cause::Stopped, vec![3]), "{}", text(&diagnosis));
}

/// All ranks of a ring send first: each has its own call, although all calls look alike.
#[test]
fn the_two_sides_of_a_circle_are_different_ranks() {
    for ranks in [2, 4] {
        let diagnosis = diagnosed(
            &world(ranks),
            &all(ranks, |rank| {
                let (next, before) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
                let receives = call(0, &format!("recv {rank}<-{before}"), 4, 20);
                vec![open(call(0, &format!("send {rank}->{next}"), 4, 10)), Call { state: "scheduled", ..receives }]
            }),
        );
        let finding = &diagnosis.findings[0];
        assert_eq!((only(&diagnosis).0, finding.ranks.len(), finding.others.len()), (Cause::Order, 1, 1));
        assert_ne!(finding.ranks, finding.others);
    }
}

/// Rank 3 waits for rank 5, which has left no dump. That does not make the dump of rank 3 an old one.
#[test]
fn a_rank_that_waits_for_one_without_a_dump_is_not_named() {
    let groups = vec![vec![0, 1, 2, 3, 4, 5], vec![3, 5]];
    let diagnosis = diagnosed(
        &groups,
        &all(5, |rank| match rank {
            3 => vec![call(0, "all_reduce", 8, 5), open(call(1, "all_reduce", 4, 10))],
            _ => vec![call(0, "all_reduce", 8, 5), open(call(0, "all_reduce", 8, 20))],
        }),
    );
    assert_eq!((only(&diagnosis).0, only(&diagnosis).1), (Cause::Unknown, vec![5]), "{}", text(&diagnosis));
}
