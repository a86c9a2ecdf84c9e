//! One-sided operations in the plan: sizes that no test machine has, and what the order between ranks follows from.
use crate::support::Home;
use collspec_core::plan::{Limits, plan};
use collspec_core::scenario::{SourceFile, parse};
use collspec_run::job::CallKind;
use std::sync::Arc;

const BUFFERS: &str = "world_size = 3\ninputs.x = { each = \"rank + i\", count = 8, register = \"window\" }\ninputs.w = { each = 0, count = 8, register = \"window\" }\n";

fn check(home: &Home, steps: &str) -> crate::support::Run {
    home.file("case.toml", &format!("{BUFFERS}steps = [\n{steps}\n]\n"));
    home.run(&["check", "case.toml"])
}

#[test]
fn a_put_of_more_than_a_gibibyte_is_planned() {
    let planned = |to: &str| {
        let text = format!(
            "world_size = 2\nregister = \"window\"\ndtype = \"u8\"\ninputs.x = {{ each = 1, count = 3000000000 }}\ninputs.w = {{ count = 3000000000 }}\n\
             steps = [\n  {{ op = \"put\", ranks = [0], peer = 1, in = \"x[0:2500000000]\", out = \"w[{to}:]\" }},\n  \
             {{ op = \"wait_signal\", ranks = [1], peer = 0 }},\n]\n"
        );
        let file = Arc::new(SourceFile { path: "large.toml".into(), text: text.into() });
        let case = Arc::new(parse(&file, "large").unwrap().remove(0));
        plan(&case, &Limits { memory: 1 << 40, ..Limits::default() }).map_err(|found| found[0].message.clone())
    };
    let planned_put = planned("500000000").unwrap();
    let puts = planned_put.programs[0].iter().filter_map(|call| match call.kind {
        CallKind::Put { count, offset, .. } => Some((count, offset)),
        _ => None,
    });
    assert_eq!(puts.collect::<Vec<_>>(), [(2_500_000_000, 500_000_000)]);
    let message = planned("500000001").unwrap_err();
    assert!(message.contains("the put reads 2500000000 elements"), "{message}");
}

/// A put over what the other rank has read needs something that follows from the reading.
#[test]
fn an_order_between_ranks_follows_from_what_they_wait_for() {
    let home = Home::new();
    let first = "{ op = \"map\", ranks = [1], expr = \"w\", out = \"y\" },";
    let last = "{ op = \"put\", ranks = [0], peer = 1, in = \"x\", out = \"w\" },\n{ op = \"wait_signal\", ranks = [1], peer = 0 },";
    for (between, ordered) in [
        ("", false),
        // Rank 1 says so, and rank 0 waits for it.
        ("{ op = \"signal\", ranks = [1], peer = 0 },\n{ op = \"wait_signal\", ranks = [0], peer = 1 },", true),
        (
            "{ op = \"send\", ranks = [1], peer = 0, in = \"x\" },\n{ op = \"recv\", ranks = [0], peer = 1, out = \"z\" },",
            true,
        ),
        ("{ op = \"all_reduce\", in = \"x\", out = \"z\" },", true),
        ("{ op = \"broadcast\", root = 1, in = \"x\", out = \"z\" },", true),
        // Data of rank 0 or 2 say nothing of rank 1.
        ("{ op = \"broadcast\", root = 0, in = \"x\", out = \"z\" },", false),
        (
            "{ op = \"send\", ranks = [0], peer = 1, in = \"x\" },\n{ op = \"recv\", ranks = [1], peer = 0, out = \"z\" },",
            false,
        ),
        // On another stream of rank 1 it says nothing of the map, unless that comes first there too.
        (
            "{ op = \"signal\", ranks = [1], peer = 0, stream = \"s\" },\n{ op = \"wait_signal\", ranks = [0], peer = 1 },",
            false,
        ),
        (
            "{ op = \"signal\", ranks = [1], peer = 0, stream = \"s\", after = [\"main\"] },\n{ op = \"wait_signal\", ranks = [0], peer = 1 },",
            true,
        ),
        (
            "{ op = \"wait\", ranks = [1] },\n{ op = \"signal\", ranks = [1], peer = 0, stream = \"s\" },\n{ op = \"wait_signal\", ranks = [0], peer = 1 },",
            true,
        ),
        // By way of rank 2.
        (
            "{ op = \"signal\", ranks = [1], peer = 2 },\n{ op = \"wait_signal\", ranks = [2], peer = 1 },\n\
             { op = \"signal\", ranks = [2], peer = 0 },\n{ op = \"wait_signal\", ranks = [0], peer = 2 },",
            true,
        ),
    ] {
        let run = check(&home, &format!("{first}\n{between}\n{last}"));
        assert_eq!(run.code, if ordered { 0 } else { 2 }, "{between}: {run}");
        assert_eq!(run.err.contains("nothing says which comes first"), !ordered, "{between}: {run}");
    }
}

#[test]
#[ignore = "slow"]
fn many_ranks_and_rounds_of_puts_are_checked_in_time_or_refused() {
    let home = Home::new();
    let ring = |ranks: usize, rounds: usize| {
        format!(
            "world_size = {ranks}\nregister = \"window\"\ninputs.x = {{ each = \"i\", count = 2 }}\ninputs.w = {{ each = 0, count = 2 }}\n\
             steps = [{{ op = \"loop\", times = {rounds}, steps = [\n  {{ op = \"put\", peer = \"(rank + 1) % n\", in = \"x\", out = \"w\" }},\n  \
             {{ op = \"wait_signal\", peer = \"(rank - 1) % n\" }},\n  {{ op = \"signal\", peer = \"(rank - 1) % n\" }},\n  \
             {{ op = \"wait_signal\", peer = \"(rank + 1) % n\" }},\n] }}]\n"
        )
    };
    home.file("fits.toml", &ring(64, 20));
    let fits = home.run(&["check", "fits.toml"]);
    assert_eq!(fits.code, 0, "{fits}");
    home.file("large.toml", &ring(1024, 20));
    let large = home.run(&["check", "large.toml"]);
    assert!(large.code == 2 && large.err.contains("too many calls for a program with one-sided operations"), "{large}");
    home.file("pairs.toml", &ring(2, 12000));
    let pairs = home.run(&["check", "pairs.toml"]);
    assert!(pairs.code == 2 && pairs.err.contains("too many to compare"), "{pairs}");
}
