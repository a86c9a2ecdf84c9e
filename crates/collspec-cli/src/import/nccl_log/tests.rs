use super::super::golden::{assert_golden, data, files, refusals};
use super::collect::Collector;
use super::read::read;
use super::{Form, import};
use proptest::prelude::*;
use std::path::PathBuf;

fn imported(files: &[PathBuf], form: Form) -> String {
    import(files, form, &mut |_| ()).unwrap_or_else(|error| panic!("{files:?}: {error}")).text
}

/// The scenario of a text, or why there is none.
fn of_text(text: &[u8], form: Form) -> Result<String, String> {
    of_files(&[text], form)
}

fn of_files(files: &[&[u8]], form: Form) -> Result<String, String> {
    let mut collector = Collector::new(form == Form::Rounds);
    for text in files {
        read(*text, "text.log", &mut collector, &mut |_| ()).map_err(|error| error.to_string())?;
    }
    collector.end()?;
    let imported = super::build::build(&collector, &[], form).map_err(|error| error.to_string())?;
    Ok(imported.text)
}

#[test]
fn a_training_step_is_a_loop_or_its_different_calls() {
    let logs = files("nccl_fsdp");
    for (form, name) in [
        (Form::Rounds, "nccl_fsdp.toml"),
        (Form::Unique { bench: false }, "nccl_fsdp_unique.toml"),
        (Form::Unique { bench: true }, "nccl_fsdp_bench.toml"),
    ] {
        let text = imported(&logs, form);
        assert_eq!(refusals(&text), "");
        assert_golden(name, &text);
    }
}

/// The lines that matter, with the operation and what follows it.
fn steps(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim).filter(|line| line.starts_with("{ op = \""));
    lines.filter(|line| !line.contains("\"loop\"")).collect()
}

/// Every release whose lines differ: the same program was logged by each of them.
#[test]
fn the_logs_of_all_releases_become_one_program() {
    let logs: Vec<PathBuf> =
        files("nccl_log").into_iter().filter(|path| !path.to_string_lossy().contains("gather")).collect();
    assert_eq!(logs.len(), 7);
    for path in logs {
        let version = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = imported(std::slice::from_ref(&path), Form::Rounds);
        assert_eq!(refusals(&text), "", "{version}\n{text}");
        // Before 2.21 a split looks like a communicator of its own, and before 2.23 some types are lost.
        let minor: u32 = version.split('.').nth(1).unwrap().parse().unwrap();
        let comm = if minor < 21 { "comm" } else { "split" };
        let in_order =
            if minor < 21 { "comms.comm = { groups = [[1, 0]] }" } else { "comms.split = { color = 0, key = [1, 0] }" };
        assert!(text.contains(in_order), "{version}\n{text}");
        assert!(text.contains(&format!("NCCL {version}")), "{version}\n{text}");
        let (count, dtype) = if minor < 23 { (128, "i8") } else { (64, "bf16") };
        for letters in ["bc ", "ag "] {
            let input = format!("count = {count}, dtype = \"{dtype}\"");
            let line = text.lines().find(|line| line.starts_with(&format!("inputs.{letters}")));
            assert!(line.is_some_and(|line| line.contains(&input)), "{version}\n{text}");
        }
        assert!(text.contains("count = 8, dtype = \"i64\", offset = 1"), "{version}\n{text}");
        let expected = [
            "{ op = \"all_reduce\", in = \"ar0\", out = \"ar0_out\" },",
            "{ op = \"all_reduce\", reduce = \"max\", in = \"ar1\", out = \"ar1\" },  # in place",
            "{ op = \"broadcast\", root = 1, in = \"bc\", out = \"bc_out\" },",
            "{ op = \"all_gather\", in = \"ag\", out = \"ag_out\" },",
            "{ op = \"reduce_scatter\", reduce = { premul_sum = 1 }, in = \"rs\", out = \"rs_out\" },",
            "{ op = \"send_recv\", peer = \"(rank + 1) % n\", in = \"sent\", out = \"got\" },",
            &format!(
                "{{ op = \"reduce\", comm = \"{comm}\", reduce = \"avg\", in = \"red\", out = \"red_out\", stream = \"s1\" }},"
            ),
        ];
        // One log has a second round.
        assert_eq!(steps(&text), expected, "{version}\n{text}");
        assert_eq!(text.contains("times = 2"), version == "2.31.2", "{version}\n{text}");
        let unique = imported(&[path], Form::Unique { bench: false });
        assert_eq!(refusals(&unique), "", "{version}\n{unique}");
        assert_eq!(unique.lines().filter(|line| line.contains(" calls")).count(), 7, "{version}\n{unique}");
    }
}

/// NCCL 2.28 and later have calls for what were groups of messages.
#[test]
fn gather_scatter_and_all_to_all_count_parts() {
    let text = imported(&[data("nccl_log/2.28.9.gather.log")], Form::Rounds);
    assert_eq!(refusals(&text), "");
    for line in [
        "inputs.aa = { random = { seed = 0 }, count = 64, dtype = \"f32\" }",
        "inputs.ga = { random = { seed = 1 }, count = 64, dtype = \"f32\" }",
        "inputs.sc = { random = { seed = 2 }, count = 64, dtype = \"f32\" }",
        "{ op = \"scatter\", root = 1, in = \"sc\", out = \"sc_out\" },",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

fn init(rank: usize, n: usize, pid: usize) -> String {
    format!(
        "h:{pid}:{pid} [{rank}] NCCL INFO ncclCommInitRank comm 0xa{rank} rank {rank} nranks {n} cudaDev {rank} nvmlDev 0 \
         busId 1 commId 0x77 - Init START\n"
    )
}

fn call(rank: usize, pid: usize, name: &str, number: usize, count: u64, root: usize) -> String {
    format!(
        "h:{pid}:{pid} [{rank}] NCCL INFO {name}: opCount {number:x} sendbuff 0x1000 recvbuff 0x2000 count {count} datatype 7 op 0 \
         root {root} comm 0xa{rank} stream 0x5\n"
    )
}

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

fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
#[ignore = "slow"]
fn a_million_lines_take_no_more_memory_than_a_few() {
    let mut collector = Collector::new(false);
    let path = "long.log";
    read(init(0, 1, 1).as_bytes(), path, &mut collector, &mut |_| ()).unwrap();
    let before = memory();
    let lines = call(0, 1, "AllReduce", 0, 6, 0).repeat(1_000);
    for _ in 0..1_000 {
        read(lines.as_bytes(), path, &mut collector, &mut |_| ()).unwrap();
    }
    assert!(memory().saturating_sub(before) < 20_000, "{before} and then {} KiB", memory());
    assert_eq!(collector.different.len(), 1);
    assert_eq!(collector.different[0].calls, 1_000_000);
}

#[test]
fn a_line_without_an_end_is_passed_over() {
    let log = init(0, 1, 1) + &"x".repeat(1 << 20) + "\n" + &call(0, 1, "AllReduce", 0, 6, 0);
    assert!(of_text(log.as_bytes(), Form::Rounds).is_ok());
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_become_a_scenario(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = of_text(&bytes, Form::Rounds);
    }

    /// A log whose bytes were changed, cut and put elsewhere.
    #[test]
    fn changed_logs_are_refused_or_become_a_scenario(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..4),
        rounds in any::<bool>(),
    ) {
        let mut log = std::fs::read(data("nccl_log/2.31.2.log")).unwrap();
        for (at, byte) in changes {
            let at = at.index(log.len());
            log[at] = byte;
        }
        for (one, other) in cuts {
            let (one, other) = (one.index(log.len()), other.index(log.len()));
            let length = (log.len() - one.max(other)).min(120);
            log.drain(one.min(other)..one.min(other) + length.min(log.len() - one.min(other) - 1));
        }
        let _ = of_text(&log, if rounds { Form::Rounds } else { Form::Unique { bench: true } });
    }

    /// Groups of a recording that have anything in them, on two communicators.
    #[test]
    fn recordings_with_any_groups_are_refused_or_become_a_scenario(
        calls in prop::collection::vec((0..3usize, 0..4usize, 0..3usize, 0..4u64, any::<bool>()), 0..40),
        rounds in any::<bool>(),
    ) {
        const NAMES: [&str; 4] = ["AllReduce", "AllGather", "Send", "Recv"];
        let mut log = "h:1:1 [0] NCCL INFO collspec record\n".to_owned();
        for rank in 0..3 {
            log.push_str(&init(rank, 3, 1));
            log.push_str(&init(rank, 3, 1).replace(" 0xa", " 0xb").replace("0x77", "0x78"));
        }
        for (rank, name, root, group, other) in calls {
            let call = call(rank, 1, NAMES[name], 0, 6, root);
            let call = if other { call.replace(" 0xa", " 0xb") } else { call };
            let group = if group == 0 { String::new() } else { format!(" group {group}") };
            log.push_str(&format!("{}{group}\n", call.trim_end()));
        }
        let _ = of_text(log.as_bytes(), if rounds { Form::Rounds } else { Form::Unique { bench: true } });
    }

    /// Numbers in a line that say anything.
    #[test]
    fn lines_with_any_numbers_are_refused_or_become_a_scenario(
        calls in prop::collection::vec((0..3usize, 0..11usize, 0..4usize, prop_oneof![0..9u64, any::<u64>()], 0..4usize), 0..30),
        rounds in any::<bool>(),
    ) {
        const NAMES: [&str; 11] = ["AllReduce", "Reduce", "Broadcast", "AllGather", "ReduceScatter", "AlltoAll", "Gather", "Scatter", "Send", "Recv", "Else"];
        let mut log = init(0, 3, 1) + &init(1, 3, 2) + &init(2, 3, 2);
        for (rank, name, number, count, root) in calls {
            log.push_str(&call(rank, 1 + usize::from(rank > 0), NAMES[name], number, count, root));
        }
        let _ = of_text(log.as_bytes(), if rounds { Form::Rounds } else { Form::Unique { bench: true } });
    }
}

/// A log of many rounds with large buffers: fewer rounds make a case that may run.
#[test]
fn rounds_are_as_many_as_a_case_may_cost() {
    let mut log = init(0, 2, 1) + &init(1, 2, 2);
    for _ in 0..300 {
        for rank in 0..2 {
            log.push_str(&call(rank, 1 + rank, "AllReduce", 0, 4_000_000, 0));
            log.push_str(&call(rank, 1 + rank, "AllGather", 0, 9, 0));
        }
    }
    let text = of_text(log.as_bytes(), Form::Rounds).unwrap();
    assert_eq!(refusals(&text), "", "{text}");
    assert!(text.contains(" of 300 rounds, because of what a case may cost"), "{text}");
}

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
fn sums_of_many_ranks_have_inputs_with_which_they_can_be_judged() {
    let lines = |n: usize, op: usize| {
        let line = call(0, 0, "AllReduce", 0, 6, 0).replace("datatype 7 op 0", &format!("datatype 9 op {op}"));
        of_text((init(0, n, 0) + &line).as_bytes(), Form::Rounds).unwrap()
    };
    let text = lines(253, 0);
    assert!(text.contains("random = { seed = 0 }") && !text.contains("guessed: inputs of"), "{text}");
    let text = lines(512, 4);
    assert!(text.contains("each = \"(rank + i) % 4 == 0\"") && text.contains("# guessed: inputs of 0 and 1"), "{text}");
    let case = super::super::accepted::planned(&text).unwrap();
    assert!(collspec_core::oracle::Forecast::new(&case, 0).is_ok(), "{text}");
    assert!(lines(300, 4).contains("# check refuses this: avg of 300 ranks' bf16 round so often"));
}

#[test]
fn buffers_that_no_case_may_have_are_told() {
    for form in [Form::Rounds, Form::Unique { bench: false }] {
        let log = init(0, 1, 0) + &call(0, 0, "AllReduce", 0, 1 << 40, 0);
        let text = of_text(log.as_bytes(), form).unwrap();
        assert!(text.starts_with("# check refuses this: ") && text.contains("more than the limit of"), "{text}");
    }
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
fn offsets_of_received_buffers_are_told() {
    let call = call(0, 1, "AllReduce", 0, 6, 0).replace("recvbuff 0x2000", "recvbuff 0x2004");
    let text = of_text((init(0, 1, 1) + &call).as_bytes(), Form::Rounds).unwrap();
    assert!(text.contains("# left out: offsets of buffers that are received into, not in place (1 line)"), "{text}");
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
