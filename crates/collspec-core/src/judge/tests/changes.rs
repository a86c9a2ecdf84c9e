//! Memory that a call must only read and has changed: tests the blame, even if a later step overwrites it.
use crate::job::Observation;
use crate::judge::test_case::{TestCase, planned_case};
use crate::judge::{Finding, Lane, Status, Verdict};

fn after(planned: &TestCase, change: impl Fn(&TestCase, &mut Observation)) -> Verdict {
    let mut seen = planned.perfect();
    assert_eq!(planned.judge(&[seen.clone()]).status, Status::Pass, "a perfect run");
    change(planned, &mut seen);
    planned.judge(&[seen])
}

fn only(verdict: &Verdict) -> &Finding {
    let [finding] = verdict.findings.as_slice() else { panic!("{:#?}", verdict.findings) };
    finding
}

/// The checkpoints of reads, by buffer and rank.
fn read_copies(planned: &TestCase, buffer: &str, rank: usize) -> Vec<usize> {
    let events = 0..planned.plan.events.len();
    let reads = events.flat_map(|event| planned.forecast.read_checks(event).iter().copied());
    let is_of = |number: &usize| {
        let region = planned.forecast.checkpoints[*number].write.region;
        planned.plan.buffers[region.buf].name == buffer && region.rank == rank
    };
    reads.filter(is_of).collect()
}

const OVERWRITTEN: &str = "world_size = 2\ninputs.x = { each = \"rank + i\", count = 8 }\nsteps = [\n\
    { op = \"all_reduce\", in = \"x\", out = \"y\" },\n{ op = \"wait\" },\n\
    { op = \"map\", expr = \"i\", out = \"x\", count = 8 },\n]\n";

#[test]
fn a_changed_input_is_seen_although_a_later_step_overwrites_it() {
    let planned = planned_case(OVERWRITTEN);
    let [copy] = read_copies(&planned, "x", 1)[..] else { panic!("one copy") };
    for byte in 0..32 {
        let verdict = after(&planned, |_, seen| seen.checkpoints[copy][byte] ^= 1);
        let finding = only(&verdict);
        assert_eq!((finding.lane, finding.rank, finding.element), (Lane::Invariants, Some(1), Some(byte as u64 / 4)));
        assert!(finding.text.starts_with("rank 1: input `x` modified: element"), "{finding:#?}");
        assert!(finding.text.ends_with("; read by step 1 (all_reduce)"), "{finding:#?}");
        assert_eq!(finding.step.as_deref(), Some("step 1 (all_reduce)"));
    }
    let missing = after(&planned, |_, seen| seen.checkpoints[copy].clear());
    assert!(only(&missing).text.contains("no data came back for `x`"), "{missing:#?}");
}

/// Applies even if the input is too large for a copy, and in every round of a loop.
#[test]
fn a_changed_input_beyond_the_room_for_copies_is_seen_by_its_digest() {
    let planned = planned_case(
        "world_size = 2\ninputs.x = { each = \"i % 7\", count = 524288 }\nsteps = [{ op = \"loop\", times = 4, steps = [\n\
         { op = \"all_reduce\", in = \"x\", out = \"y\" },\n{ op = \"wait\" },\n\
         { op = \"map\", expr = \"(i + t) % 5\", out = \"x\", count = 524288 },\n] }]\n",
    );
    let copies = read_copies(&planned, "x", 0);
    assert_eq!(copies.len(), 4, "one for each round");
    let digests = copies.iter().filter(|copy| planned.forecast.checkpoints[**copy].digest);
    for (copy, words) in
        digests.zip(["input `x` modified", "`x` modified after step 1.3 (map, round 0), which wrote it"])
    {
        let verdict = after(&planned, |_, seen| seen.checkpoints[*copy][3] ^= 1);
        let text = &only(&verdict).text;
        assert!(text.starts_with(&format!("rank 0: {words}; of its 2097152 bytes")), "{text}");
        assert!(text.contains("; read by step 1.1 (all_reduce, round "), "{text}");
    }
}

#[test]
fn a_changed_result_that_is_overwritten_is_no_mistake_of_the_step_that_wrote_it() {
    let planned = planned_case(
        "world_size = 2\ninputs.x = { each = \"rank + i\", count = 8 }\nsteps = [\n\
         { op = \"all_gather\", in = \"x\", out = \"g\" },\n{ op = \"reduce_scatter\", in = \"g\", out = \"r\" },\n\
         { op = \"wait\" },\n{ op = \"map\", expr = \"i\", out = \"g\", count = 16 },\n]\n",
    );
    let [copy] = read_copies(&planned, "g", 0)[..] else { panic!("one copy") };
    let verdict = after(&planned, |_, seen| seen.checkpoints[copy][0] ^= 1);
    let finding = only(&verdict);
    assert!(
        finding.text.starts_with("rank 0: `g` modified after step 1 (all_gather), which wrote it: element 0"),
        "{finding:#?}"
    );
    assert_eq!(finding.step.as_deref(), Some("step 2 (reduce_scatter)"));
    // Wrong from the beginning, it is the first step's.
    let written = planned.forecast.checkpoint(0, 0).expect("a copy of what the first step wrote");
    let verdict = after(&planned, |_, seen| {
        seen.checkpoints[copy][0] ^= 1;
        seen.checkpoints[written][0] ^= 1;
    });
    assert_eq!(only(&verdict).step.as_deref(), Some("step 1 (all_gather)"));
}

/// A rounded result is copied after its step, so the step that has changed it is known.
#[test]
fn a_result_that_was_right_after_its_step_was_changed_by_a_reader() {
    let planned = planned_case(
        "world_size = 3\ninputs.x = { each = \"0.1 * (rank + 1)\", count = 4 }\nsteps = [\n\
         { op = \"all_reduce\", in = \"x\", out = \"y\" },\n{ op = \"all_gather\", in = \"y\", out = \"z\" },\n]\n",
    );
    let verdict = after(&planned, |case, seen| case.set_f32(seen, "y", 1, &[9.0]));
    let finding = only(&verdict);
    assert!(finding.text.starts_with("rank 1: `y` modified after step 1 (all_reduce), which wrote it"), "{finding:#?}");
    assert_eq!(finding.step.as_deref(), Some("step 2 (all_gather)"));
}

#[test]
fn steps_that_read_a_wrong_result_later_are_named() {
    let planned = planned_case(
        "world_size = 2\ninputs.x = { each = \"rank + i + 1\", count = 4 }\nsteps = [\n\
         { op = \"all_reduce\", in = \"x\", out = \"y\" },\n{ op = \"all_gather\", in = \"y\", out = \"z\" },\n]\n",
    );
    let zeroed = |case: &TestCase, seen: &mut Observation| {
        for rank in 0..2 {
            case.set_f32(seen, "y", rank, &[0.0]);
        }
    };
    let verdict = after(&planned, zeroed);
    let finding = only(&verdict);
    assert_eq!(
        finding.advice.as_deref(),
        Some("or `y` was right and was changed by step 2 (all_gather), which read it"),
        "{finding:#?}"
    );
    // What follows from it proves that it was wrong when it was read.
    let verdict = after(&planned, |case, seen| {
        zeroed(case, seen);
        for rank in 0..2 {
            case.set_f32(seen, "z", rank, &[0.0, 5.0, 7.0, 9.0, 0.0]);
        }
    });
    let finding = only(&verdict);
    assert_eq!((finding.advice.as_deref(), finding.consequences.len()), (None, 1), "{finding:#?}");
}

/// Each rank's input was changed once, by another round.
#[test]
fn inputs_changed_on_several_ranks_are_no_rounds_of_one_finding() {
    let planned = planned_case(
        "world_size = 3\ninputs.z = { each = \"rank + i + 1\", count = 4 }\nsteps = [\n\
         { op = \"broadcast\", root = \"t\", in = \"z\", out = \"w\", times = 3 },\n]\n",
    );
    let verdict = after(&planned, |case, seen| {
        for rank in 0..3 {
            case.set_f32(seen, "z", rank, &[0.0]);
        }
    });
    let ranks: Vec<_> = verdict.findings.iter().map(|finding| (finding.ranks(), finding.rounds)).collect();
    assert_eq!(ranks, [(vec![0], 1), (vec![1], 1), (vec![2], 1)]);
}

/// Rounds are reported together only if the same ranks are wrong in them.
#[test]
fn no_rank_vanishes_where_rounds_are_told_together() {
    let planned = planned_case(
        "world_size = 3\ninputs.x = { each = \"rank + i\", count = 4 }\nsteps = [\n\
         { op = \"all_reduce\", in = \"x\", out = \"y\", times = 5 },\n]\n",
    );
    let wrong_on = |ranks: &'static [&[usize]]| {
        after(&planned, move |case, seen| {
            for (round, ranks) in ranks.iter().enumerate() {
                for rank in *ranks {
                    let copy = case.forecast.checkpoint(round, *rank).expect("a copy");
                    seen.checkpoints[copy][4 * rank] ^= 1;
                }
            }
        })
    };
    let told = |verdict: &Verdict| {
        let findings = verdict.findings.iter();
        findings.map(|f| (f.ranks(), f.step.clone().unwrap_or_default(), f.rounds)).collect::<Vec<_>>()
    };
    let step = |round: usize| format!("step 1 (all_reduce, round {round})");
    assert_eq!(
        told(&wrong_on(&[&[0], &[2], &[0], &[2]])),
        [(vec![0], step(0), 2), (vec![2], step(1), 2)],
        "other ranks in other rounds"
    );
    assert_eq!(
        told(&wrong_on(&[&[0, 2], &[0, 2], &[0, 2]])),
        [(vec![0], step(0), 3), (vec![2], step(0), 3)],
        "several findings of each round"
    );
}

#[test]
fn a_rank_that_differs_is_told_with_step_and_round() {
    let text = "world_size = 3\ninputs.x = { each = \"0.1 * (rank + 1) * (i + 1)\", count = 64 }\nsteps = [\n\
                { op = \"all_reduce\", in = \"x\", out = \"y\", times = 3 },\n]\n";
    let planned = planned_case(text);
    let verdict = after(&planned, |case, seen| {
        // Another legal rounding: the next number down or up, whichever the judge accepts.
        for round in 0..2 {
            let copy = case.forecast.checkpoint(round, 1).expect("a copy");
            for number in seen.checkpoints[copy].chunks_mut(4).skip(round) {
                let up = f32::from_le_bytes(number.try_into().expect("four bytes")).next_up();
                number.copy_from_slice(&up.to_le_bytes());
            }
        }
    });
    let differing: Vec<_> = verdict
        .findings
        .iter()
        .flat_map(|finding| finding.consequences.iter().chain([&finding.text]))
        .filter(|text| text.contains("differs from") || text.contains("not the same on all ranks"))
        .collect();
    assert!(!differing.is_empty(), "{:#?}", verdict.findings);
    assert!(!verdict.findings.iter().any(|finding| finding.text.contains("ranks 1 and 1")), "{:#?}", verdict.findings);
}
