//! What a case or a file may cost, and the memory that reading takes.
use super::super::Form;
use super::super::collect::Collector;
use super::super::read::read;
use super::{call, init, of_text};
use crate::import::accepted;
use crate::import::golden::refusals;

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

#[test]
fn reductions_of_many_ranks_have_inputs_with_which_they_can_be_judged() {
    let (sum, prod, avg) = (0, 1, 4);
    let (f16, f32, bf16, f8e4m3) = (6, 7, 9, 10);
    let text = |form: Form, n: usize, op: usize, dtype: usize| {
        let line = call(0, 0, "AllReduce", 0, 6, 0).replace("datatype 7 op 0", &format!("datatype {dtype} op {op}"));
        of_text((init(0, n, 0) + &line).as_bytes(), form).unwrap()
    };
    for (n, op, dtype, content) in [
        (170, sum, bf16, "random = { seed = 0 }"),
        (192, sum, bf16, "each = \"(rank + i) % 2 == 0\""),
        (512, avg, bf16, "each = \"(rank + i) % 4 == 0\""),
        (11, sum, f8e4m3, "random = { seed = 0 }"),
        (12, sum, f8e4m3, "each = \"(rank + i) % 2 == 0\""),
        (8, prod, f8e4m3, "random = { seed = 0 }"),
        (9, prod, f16, "each = \"1 + ((rank + i) % 9 == 0)\""),
        (200, prod, f32, "each = \"1 + ((rank + i) % 200 == 0)\""),
    ] {
        for form in [Form::Rounds, Form::Unique { bench: false }] {
            let text = text(form, n, op, dtype);
            let guesses = text.matches("# guessed: inputs of ").count();
            assert!(text.contains(content) && guesses == usize::from(!content.starts_with("random")), "{text}");
            let case = accepted::planned(&text).unwrap();
            assert!(collspec_core::oracle::Forecast::new(&case, 0).is_ok(), "{text}");
        }
    }
    assert!(text(Form::Rounds, 300, avg, bf16).contains("# check refuses this: avg of 300 ranks' bf16 round so often"));
}

/// Where ranks disagree, their counts may cost too much as well, in the calls that disagree or in rounds after them.
#[test]
fn costs_are_told_where_ranks_disagree() {
    let begin = init(0, 2, 1) + &init(1, 2, 2);
    let one = call(0, 1, "AllReduce", 0, 6, 0) + &call(1, 2, "AllReduce", 0, 4_294_967_295, 0);
    let disagree = call(0, 1, "AllReduce", 0, 7, 0) + &call(1, 2, "AllReduce", 0, 8, 0);
    let round = call(0, 1, "AllReduce", 0, 6, 0) + &call(1, 2, "AllReduce", 0, 6, 0);
    let rounds = disagree + &round.repeat(67_000);
    for calls in [one, rounds] {
        let text = of_text((begin.clone() + &calls).as_bytes(), Form::Rounds).unwrap();
        let told = text.lines().find_map(|line| line.strip_prefix("# check refuses this: ")).unwrap_or_default();
        assert!(told.contains("limit") && text.contains("# the ranks disagree in what comes next"), "{told}\n{text}");
    }
}

#[test]
fn buffers_that_no_case_may_have_are_told() {
    for form in [Form::Rounds, Form::Unique { bench: false }] {
        let log = init(0, 1, 0) + &call(0, 0, "AllReduce", 0, 1 << 40, 0);
        let text = of_text(log.as_bytes(), form).unwrap();
        assert!(text.starts_with("# check refuses this: ") && text.contains("more than the limit of"), "{text}");
    }
}

/// Each case could be run, but not all of them in one file.
#[test]
fn different_calls_that_cost_too_much_together_are_told() {
    let mut log = init(0, 2, 1) + &init(1, 2, 2);
    for count in 20_000_000..20_000_300 {
        log += &(call(0, 1, "AllReduce", 0, count, 0) + &call(1, 2, "AllReduce", 0, count, 0));
    }
    let text = of_text(log.as_bytes(), Form::Unique { bench: false }).unwrap();
    assert_eq!(refusals(&text), "", "{text}");
    assert!(text.starts_with("# check refuses this: the 300 cases of this file together take more than "), "{text}");
}
