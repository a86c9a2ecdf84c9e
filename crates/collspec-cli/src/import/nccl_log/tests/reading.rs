//! Which lines are calls, and what a log that cannot be used is told.
use super::super::Form;
use super::{call, init, of_files, of_text};
use crate::import::golden::refusals;

/// A line of rank 1 is mixed into one of rank 0, and the end is cut off.
#[test]
fn damaged_lines_are_counted_and_the_rest_goes_on() {
    let mixed = call(0, 1, "AllReduce", 1, 7, 0);
    let cut = mixed.find("count").unwrap() + 6;
    let log = init(0, 2, 1)
        + &init(1, 2, 2)
        + &call(0, 1, "AllReduce", 0, 6, 0)
        + &call(1, 2, "AllReduce", 0, 6, 0)
        + &mixed[..cut]
        + &call(1, 2, "AllReduce", 1, 7, 0)
        + &call(0, 1, "AllReduce", 2, 8, 0)
        + &call(1, 2, "AllReduce", 2, 8, 0)
        + &call(0, 1, "AllReduce", 3, 9, 0)
        + "h:2:2 [1] NCCL INFO AllReduce: opCo";
    let text = of_text(log.as_bytes(), Form::Rounds).unwrap();
    assert_eq!(refusals(&text), "", "{text}");
    assert!(text.contains("2 lines of the log could not be read"), "{text}");
    assert!(text.contains("count = 8,"), "{text}");
}

#[test]
fn what_is_no_log_is_an_error_that_says_what_to_do() {
    let error = of_text(b"hello\nworld\n", Form::Rounds).unwrap_err();
    assert!(error.contains("2 read") && error.contains("NCCL_DEBUG_SUBSYS=INIT,COLL"), "{error}");
    let error = of_text(init(0, 2, 1).as_bytes(), Form::Unique { bench: false }).unwrap_err();
    assert!(error.contains("no calls"), "{error}");
    let error = of_text(init(0, 5000, 1).as_bytes(), Form::Rounds).unwrap_err();
    assert!(error.starts_with("text.log:1: a communicator of 5000 ranks"), "{error}");
}

#[test]
fn too_many_different_calls_are_an_error_at_their_line() {
    let mut log = init(0, 1, 1);
    for count in 0..9_000 {
        log.push_str(&call(0, 1, "AllReduce", 0, count, 0));
    }
    let error = of_text(log.as_bytes(), Form::Unique { bench: false }).unwrap_err();
    assert!(error.starts_with("text.log:8002: more than 8000 different calls"), "{error}");
}

#[test]
fn a_line_without_an_end_is_passed_over() {
    let log = init(0, 1, 1) + &"x".repeat(1 << 20) + "\n" + &call(0, 1, "AllReduce", 0, 6, 0);
    assert!(of_text(log.as_bytes(), Form::Rounds).is_ok());
}

/// With SUBSYS=TUNING or ALL, NCCL logs how it does a call in a line that begins with the call's name. Such a line must not count as
/// a damaged call, because the calls beside a damaged one are left out.
#[test]
fn lines_about_the_tuning_of_a_call_are_not_calls() {
    let log = |rank: usize, words: &str| {
        let place = format!("node:{}:{} [{rank}] NCCL INFO", 100 + rank, 200 + rank);
        let comm = format!("comm 0x7f0{rank}");
        let init =
            format!("{place} ncclCommInitRank {comm} rank {rank} nranks 2 cudaDev {rank} busId 1000 commId 0xb8b2");
        let call = |name: &str, number: usize| {
            format!(
                "{place} {name}: opCount {number} sendbuff 0x10 recvbuff 0x20 count 10 datatype 7 op 0 root 0 {comm} [nranks=2] \
                 stream 0x1003"
            )
        };
        let last = call(if rank == 0 { "AllReduce" } else { "AllGather" }, 1);
        let tuned = format!("{place} AllReduce: {words}");
        format!("{init} - Init START\n{init} - Init COMPLETE\n{}\n{tuned}\n{last}\n{tuned}\n", call("AllReduce", 0))
    };
    let told = ["4000 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}", "4000 Bytes -> Algo 1 proto 0 time 9.5"];
    for words in told {
        let logs = [log(0, words), log(1, words)];
        let text = of_files(&[logs[0].as_bytes(), logs[1].as_bytes()], Form::Rounds).unwrap();
        let refused = refusals(&text);
        assert!(refused.contains("AllReduce") && refused.contains("AllGather"), "{words}: {refused}\n{text}");
    }
}

/// Two processes that share a pipe can lose the line break between their messages.
#[test]
fn a_second_call_in_a_line_is_read() {
    let log = |separator: &str| {
        let place = "node1:41:42 [0] NCCL INFO";
        let init = format!("{place} ncclCommInitRank comm 0x7f rank 0 nranks 1 cudaDev 0 busId 1000 commId 0xb8b2");
        let call = |number: usize| {
            format!(
                "{place} AllReduce: opCount {number} sendbuff 0x10 recvbuff 0x20 count 10 datatype 7 op 0 root 0 comm 0x7f \
                 [nranks=1] stream 0x1003"
            )
        };
        format!("{init} - Init START\n{init} - Init COMPLETE\n{}{separator}{}\n", call(0), call(1))
    };
    let [apart, joined] = ["\n", ""].map(|separator| of_text(log(separator).as_bytes(), Form::Rounds).unwrap());
    assert_eq!(apart, joined);
}
