//! Whether ranks agree in their calls, and which calls are left out or guessed.
use super::super::Form;
use super::{call, init, of_files, of_text, steps};
use crate::import::golden::refusals;

/// A damaged line of one rank does not hide that another one lacks a call.
#[test]
fn a_call_that_a_rank_did_not_log_is_told_as_guessed() {
    let log = init(0, 2, 1)
        + &init(1, 2, 2)
        + &call(0, 1, "AllReduce", 0, 6, 0)
        + &call(0, 1, "AllReduce", 1, 7, 0)
        + &call(1, 2, "AllReduce", 1, 7, 0)
        + "h:1:1 [0] NCCL INFO AllReduce: opCo\n";
    let text = of_text(log.as_bytes(), Form::Rounds).unwrap();
    assert_eq!(steps(&text).len(), 2, "{text}");
    assert!(text.contains("# guessed: 1 collective of rank 1,"), "{text}");
}

#[test]
fn a_damaged_log_says_nothing_about_the_other_logs() {
    let damaged = init(0, 2, 1) + "h:1:1 [0] NCCL INFO AllReduce: opCo\n" + &call(0, 1, "AllReduce", 0, 6, 0);
    let damaged = damaged + &call(0, 1, "AllReduce", 1, 7, 0) + &call(0, 1, "AllReduce", 2, 8, 0);
    let intact = init(1, 2, 2) + &call(1, 2, "AllReduce", 0, 6, 0) + &call(1, 2, "AllReduce", 2, 8, 0);
    let text = of_files(&[damaged.as_bytes(), intact.as_bytes()], Form::Rounds).unwrap();
    assert!(!text.contains("collective of rank 1") && text.contains("left out: 3 calls of 5 at the end"), "{text}");
}

#[test]
fn what_is_left_out_at_the_end_names_the_ranks_that_have_ended() {
    let mut log = String::new();
    for rank in 0..3 {
        log += &(init(rank, 3, rank) + &call(rank, rank, "AllReduce", 0, 6, 0));
    }
    log += &(call(0, 0, "AllReduce", 1, 7, 0) + &call(0, 0, "Send", 2, 7, 1) + &call(2, 2, "AllReduce", 1, 7, 0));
    let text = of_text(log.as_bytes(), Form::Rounds).unwrap();
    assert_eq!(refusals(&text), "", "{text}");
    assert!(text.contains("# left out: 2 calls of 6 at the end, after the last ones of rank 1\n"), "{text}");
    assert!(text.contains("# left out: 1 message of 6 calls, whose other end is not logged\n"), "{text}");
}

/// Rank 2 makes something else. Where there is a rank 3, it has ended before.
#[test]
fn ranks_that_disagree_are_told_and_their_calls_stay() {
    for (n, name, count, words) in [
        (3, "AllGather", 7, "all_gather of 7 f32"),
        (3, "AllReduce", 8, "all_reduce of 8 f32"),
        (4, "AllReduce", 8, "all_reduce of 8 f32"),
    ] {
        let mut log = String::new();
        for rank in 0..n {
            log += &(init(rank, n, rank) + &call(rank, rank, "AllReduce", 0, 6, 0).repeat(3));
        }
        for (rank, name, count) in [(0, "AllReduce", 7), (0, "AllReduce", 6), (1, "AllReduce", 7), (2, name, count)] {
            log += &call(rank, rank, name, 1, count, 0);
        }
        let text = of_text(log.as_bytes(), Form::Rounds).unwrap();
        let said = format!("ranks disagree in what comes next; ranks 0 and 1: all_reduce of 7 f32; rank 2: {words}\n");
        assert!(text.contains(&said) && text.contains("times = 3"), "{text}");
        let refused = refusals(&text);
        let words = if n == 3 { "rank 0 calls AllReduce sum of 7 f32, but rank 2 calls" } else { "wait for rank 3" };
        assert!(refused.contains(words), "{refused}\n{text}");
        // Where lines are damaged, the calls of rank 2 may be among them.
        log += "h:2:2 [0] NCCL INFO AllReduce: opCo\n";
        log += "h:2:2 [0] NCCL INFO AllReduce: opCo\n";
        let text = of_text(log.as_bytes(), Form::Rounds).unwrap();
        assert_eq!(refusals(&text), "", "{text}");
    }
}

#[test]
fn where_only_the_root_reads_each_rank_keeps_its_count_and_type() {
    for (name, part) in [("Broadcast", 8), ("Scatter", 4)] {
        for (datatype, count, words) in [(7, part + 1, format!("{} f32", part + 1)), (9, part, format!("{part} bf16"))]
        {
            let root = init(0, 2, 0) + &call(0, 0, name, 0, part, 0) + &call(0, 0, name, 1, part, 0);
            let other = call(1, 1, name, 1, count, 0).replace("datatype 7", &format!("datatype {datatype}"));
            let log = root + &init(1, 2, 1) + &call(1, 1, name, 0, part, 0) + &other;
            let text = of_text(log.as_bytes(), Form::Rounds).unwrap();
            let refused = refusals(&text);
            assert!(refused.contains(&format!("rank 1 calls {name} of {words} with root 0, but")), "{refused}\n{text}");
        }
    }
}

/// A version's line, and two ranks that each receive from the other before they send to it.
fn receives_before_sends(version: &str, numbers: [usize; 2]) -> String {
    let mut log = format!("NCCL version {version}+cuda12.9\n");
    for rank in 0..2 {
        log += &(init(rank, 2, rank) + &call(rank, rank, "Recv", numbers[0], 6, 1 - rank));
        log += &call(rank, rank, "Send", numbers[1], 6, 1 - rank).replace("recvbuff 0x2000", "recvbuff 0x3000");
    }
    log
}

#[test]
fn messages_with_different_numbers_are_one_group_only_where_each_call_has_its_own() {
    for version in ["2.26.2", "2.27.5", "2.28.9"] {
        let text = of_text(receives_before_sends(version, [0, 1]).as_bytes(), Form::Rounds).unwrap();
        assert!(refusals(&text).contains("waits for rank 1") && !text.contains("send_recv"), "{version}\n{text}");
        let text = of_text(receives_before_sends(version, [1, 1]).as_bytes(), Form::Rounds).unwrap();
        assert!(refusals(&text).is_empty() && text.contains("send_recv"), "{version}\n{text}");
    }
    let text = of_text(receives_before_sends("2.31.2", [0, 1]).as_bytes(), Form::Rounds).unwrap();
    assert!(text.contains("send_recv") && text.contains("# guessed: messages in a row"), "{text}");
}

#[test]
fn messages_of_different_lengths_stay_where_no_line_is_damaged() {
    let log = init(0, 2, 0) + &call(0, 0, "Send", 0, 6, 1) + &call(0, 0, "AllReduce", 1, 6, 0);
    let log = log + &init(1, 2, 1) + &call(1, 1, "Recv", 0, 7, 0) + &call(1, 1, "AllReduce", 1, 6, 0);
    let text = of_text(log.as_bytes(), Form::Rounds).unwrap();
    assert!(text.contains("# check refuses this: rank 0 sends 6 f32, but rank 1 receives 7 f32"), "{text}");
}

/// Rank 0 has a group, and rank 1 makes the same calls without one.
#[test]
fn what_completes_is_not_called_a_disagreement() {
    let mut log = String::new();
    for rank in 0..2 {
        log += &format!("h:{rank}:{rank} [0] NCCL INFO collspec record\n");
        log += &init(rank, 2, rank);
        for (number, count) in [(0, 6), (1, 7)] {
            let group = if rank == 0 { 5 } else { number };
            let line = call(rank, rank, "AllReduce", number, count, 0);
            log += &line.replace(" stream", &format!(" group {group} stream"));
        }
    }
    let text = of_text(log.as_bytes(), Form::Rounds).unwrap();
    assert_eq!(refusals(&text), "", "{text}");
    assert!(text.contains("# ranks issue the same calls in another order, or in other groups; rank 0: "), "{text}");
    assert!(!text.contains("disagree"), "{text}");
}

#[test]
fn of_many_ranks_that_disagree_the_rest_is_counted_and_takes_no_time() {
    let n = 512;
    let mut log = String::new();
    for rank in 0..n {
        log += &init(rank, n, rank);
        for number in 0..60 {
            log += &call(rank, rank, "AllReduce", number, (10 + number + 100 * rank.min(5)) as u64, 0);
        }
    }
    let before = std::time::Instant::now();
    let text = of_text(log.as_bytes(), Form::Rounds).unwrap();
    assert!(before.elapsed().as_secs() < 20, "{:?}", before.elapsed());
    assert!(text.contains("rank 3: all_reduce of 310 f32; and 508 more\n"), "{text}");
}

#[test]
fn ranks_that_wait_for_each_other_on_two_communicators_disagree() {
    let mut log = String::new();
    for rank in 0..2 {
        let (one, other) =
            (call(rank, rank, "AllReduce", 0, 6, 0), call(rank, rank, "AllReduce", 0, 6, 0).replace(" 0xa", " 0xb"));
        log += &(init(rank, 2, rank) + &init(rank, 2, rank).replace(" 0xa", " 0xb").replace("0x77", "0x78"));
        log += &if rank == 0 { one + &other } else { other + &one };
    }
    let text = of_text(log.as_bytes(), Form::Rounds).unwrap();
    assert!(text.contains("2 communicators, 3 steps"), "{text}");
    assert!(text.contains("rank 1: all_reduce of 6 f32, comm = \"comm\""), "{text}");
    assert!(refusals(&text).contains("wait"), "{text}");
}

#[test]
fn offsets_of_received_buffers_are_told() {
    let call = call(0, 1, "AllReduce", 0, 6, 0).replace("recvbuff 0x2000", "recvbuff 0x2004");
    let text = of_text((init(0, 1, 1) + &call).as_bytes(), Form::Rounds).unwrap();
    assert!(text.contains("# left out: offsets of buffers that are received into, not in place (1 line)"), "{text}");
}
