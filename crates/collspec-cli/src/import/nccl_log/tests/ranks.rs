//! Ranks and communicators: who they are, and what those do that have no log.
use super::super::Form;
use super::{call, init, of_text, steps};
use crate::import::golden::refusals;

/// One process with several GPUs, and words before NCCL's.
#[test]
fn ranks_of_one_process_are_told_apart_by_their_device() {
    let mut log = String::new();
    for rank in 0..2 {
        log.push_str(&format!("(Worker pid=7) 3: {}", init(rank, 2, 9)));
    }
    for rank in 0..2 {
        log.push_str(&format!("[rank{rank}]:{}", call(rank, 9, "AllReduce", 0, 6, 0).replace("h:", " h:")));
    }
    let text = of_text(log.as_bytes(), Form::Rounds).unwrap();
    assert!(text.contains("world_size = 2") && steps(&text).len() == 1, "{text}");
    assert!(!text.contains("could not be read"), "{text}");
}

#[test]
fn a_rank_without_a_log_makes_the_calls_of_the_others() {
    let log = init(0, 2, 1) + &call(0, 1, "AllReduce", 0, 6, 0) + &call(0, 1, "Send", 1, 3, 1);
    let text = of_text(log.as_bytes(), Form::Rounds).unwrap();
    assert_eq!(refusals(&text), "", "{text}");
    assert!(text.contains("# guessed: the log has nothing of rank 1"), "{text}");
    assert!(!text.contains("send") && text.contains("# left out: 1 message of 2 calls,"), "{text}");
    let text = of_text(log.as_bytes(), Form::Unique { bench: false }).unwrap();
    assert_eq!(refusals(&text), "", "{text}");
}

#[test]
fn a_call_that_says_another_number_of_ranks_is_of_a_communicator_that_is_not_known() {
    let own = |line: String| line.replace(" stream", " [nranks=2] stream");
    let mut log = String::new();
    for rank in 0..2 {
        log += &(init(rank, 2, rank) + &own(call(rank, rank, "AllReduce", 0, 6, 0)));
        log += &own(call(rank, rank, "AllReduce", 1, 7, 0)).replace("=2]", "=4]");
    }
    let text = of_text(log.as_bytes(), Form::Rounds).unwrap();
    assert!(
        text.contains("# left out: 2 calls of communicators whose beginning is not in the log (first: text.log:3)")
    );
    assert_eq!(steps(&text).len(), 1, "{text}");
}

/// Loops with other steps, or in loops, are not equal rounds of the whole.
#[test]
fn the_description_counts_the_communicators_of_all_ranks_and_the_steps() {
    let mut log = String::new();
    for rank in 0..4 {
        log += &init(rank, 4, rank);
        let device = (format!("cudaDev {}", rank % 2), format!("cudaDev {rank}"));
        let pair = init(rank % 2, 2, rank)
            .replace(&device.0, &device.1)
            .replace(" 0xa", " 0xb")
            .replace("0x77", &format!("0x8{}", rank / 2));
        log += &(pair + &call(rank, rank, "AllReduce", 0, 6, 0).repeat(5));
        log += &call(rank % 2, rank, "AllGather", 0, 6, 0).replace(" 0xa", " 0xb");
    }
    let text = of_text(log.as_bytes(), Form::Rounds).unwrap();
    assert_eq!(refusals(&text), "", "{text}");
    assert!(text.contains(" on h, 3 communicators, 2 steps\""), "{text}");
}

/// The lines of the beginning are lost, and a pointer has two communicators after each other.
#[test]
fn a_pointer_that_is_used_again_is_another_communicator() {
    let mut log = String::new();
    for (id, count) in [("0x77", 6), ("0x78", 7)] {
        for rank in 0..2 {
            log += &init(rank, 2, rank).replace("0x77", id).replace("START", "COMPLETE");
            log += &call(rank, rank, "AllReduce", 0, count, 0);
        }
    }
    let text = of_text(log.as_bytes(), Form::Rounds).unwrap();
    assert_eq!(refusals(&text), "", "{text}");
    assert!(text.contains(", 2 communicators, 2 steps"), "{text}");
}

#[test]
fn communicators_of_too_many_ranks_together_are_an_error() {
    let line = init(0, 1024, 1);
    let log: String = (0..1_030).map(|id| line.replace("0x77", &format!("0x{id:x}"))).collect();
    let error = of_text(log.as_bytes(), Form::Rounds).unwrap_err();
    assert!(error.starts_with("text.log:1025: communicators of more than 1048576 ranks together"), "{error}");
}

#[test]
fn a_word_glued_to_the_first_line_of_a_process_is_no_host() {
    let mut log = String::from("done");
    for rank in 0..2 {
        log += &(init(rank, 2, 1) + &call(rank, 1, "AllReduce", 0, 6, 0));
    }
    let text = of_text(log.as_bytes(), Form::Rounds).unwrap();
    assert!(text.contains("2 ranks on h,") && !text.contains("could not be read"), "{text}");
}

#[test]
fn thousands_of_communicators_are_named_in_a_moment() {
    let mut log = String::new();
    for id in 0x1000..0x1000 + 7_000 {
        let lines = init(0, 1, 1) + &call(0, 1, "AllReduce", 0, 6, 0);
        log += &lines.replace(" 0xa0", &format!(" 0x{:x}", id + 1)).replace("0x77", &format!("0x{id:x}"));
    }
    let before = std::time::Instant::now();
    assert!(of_text(log.as_bytes(), Form::Rounds).unwrap().contains("comms.comm_6999 = "));
    assert!(before.elapsed().as_secs() < 20, "{:?}", before.elapsed());
}
