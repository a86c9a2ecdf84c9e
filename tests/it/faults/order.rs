//! Faults on demand that concern streams, roots, groups, messages, communicators and failures: for each a small scenario
//! that passes on the sound library, fails on the faulty one, and that the library itself says the fault would change.
use super::ending::{
    Seen, Shown, assert_a_plain_sum_meets_none, assert_each_is_shown, example, fails, hangs, runner, silent,
};
use collspec_core::judge::{Status, Verdict};

const SHOWN: &[Shown] = &[
    silent("F12"),
    silent("F13"),
    silent("F14"),
    silent("F15"),
    silent("F30"),
    silent("F30b"),
    silent("F30c"),
    silent("F30d"),
    silent("F31"),
    silent("F31b"),
    silent("F31c"),
    silent("F31d"),
    silent("F32"),
    silent("F32b"),
    silent("F32c"),
    silent("F33"),
    silent("F34"),
    hangs("F34b"),
    silent("F35"),
    silent("F36"),
    silent("F36b"),
    hangs("F36c"),
    silent("F36d"),
    silent("F36e"),
    silent("F37"),
    hangs("F37b"),
    silent("F38"),
    silent("F40"),
    fails("F40b"),
    silent("F53"),
];

#[test]
fn each_fault_of_order_fails_its_scenario() {
    assert_each_is_shown(SHOWN);
}

#[test]
fn a_sum_that_meets_no_fault_passes_with_each() {
    assert_a_plain_sum_meets_none(SHOWN, &["F13"]);
}

#[test]
fn faults_strike_only_on_the_chosen_rank() {
    let runner = runner();
    for (wish, strikes) in [
        ("F12,rank=1", true),
        ("F12,rank=2", false),
        ("F36,rank=2", true),
        ("F36,rank=3", false),
        ("F15,rank=0", true),
        ("F15,rank=2", false),
    ] {
        let (fault, _) = wish.split_once(',').unwrap();
        let Verdict { status, reason, .. } = Seen::of(&runner, wish, &example(fault)).verdict;
        assert_eq!(status, if strikes { Status::Fail } else { Status::Pass }, "{wish}: {reason:?}");
    }
}

/// The exchange of contributions must not meet the program's messages: here it sends before its sum on one rank, and receives after it on
/// another.
#[test]
fn the_exchange_of_contributions_stays_apart_from_a_groups_messages() {
    let text = r#"
        world_size = 3
        inputs.x = { random = { seed = 3 }, count = 21 }
        [[steps]]
        op = "group"
        steps = [
            { op = "send", ranks = [0], peer = 1, in = "x" },
            { op = "all_reduce", in = "x", out = "y" },
            { op = "recv", ranks = [1], peer = 0, out = "z", count = 21 },
        ]
    "#;
    let runner = runner();
    Seen::of(&runner, "trace", text).passes();
    let Verdict { status, findings, .. } = Seen::of(&runner, "F21", text).verdict;
    assert_eq!(status, Status::Fail);
    assert!(findings.iter().all(|finding| finding.in_one_line().contains("y[")), "{findings:?}");
}
