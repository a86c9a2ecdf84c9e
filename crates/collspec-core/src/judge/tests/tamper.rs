//! A changed byte anywhere fails the case and is named; so does a changed expectation, checkpoint or code.
use crate::job::Observation;
use crate::judge::test_case::{TestCase, cases, planned_case, try_planned_case};
use crate::judge::{Finding, Lane, Status, Verdict};
use crate::num::DType;
use crate::oracle::memory::Certainty;
use crate::plan::GUARD;
use crate::scenario::load;
use proptest::prelude::*;
use std::sync::Arc;

/// Checks that the verdict has the finding for a changed byte of an image.
fn names_it(planned: &TestCase, verdict: &Verdict, alloc: usize, byte: usize) -> Result<(), String> {
    let spec = &planned.plan.allocs[alloc];
    if verdict.status != Status::Fail {
        return Err(format!("passes with byte {byte} of `{}` on rank {} changed", spec.label, spec.rank));
    }
    let on_rank = |f: &&Finding| f.rank == Some(spec.rank);
    let start = spec.start() as usize;
    let guard = byte < start || byte >= start + spec.payload as usize;
    let found = if guard {
        verdict.findings.iter().filter(on_rank).any(|f| f.lane == Lane::Invariants && f.text.contains("guard band"))
    } else {
        let inside = |f: &Finding| {
            let Some(buffer) = planned.plan.buffers.iter().find(|b| Some(&b.name) == f.buffer.as_ref()) else {
                return false;
            };
            let Some(place) = buffer.places[spec.rank].filter(|p| p.alloc == alloc) else { return false };
            let from = start as u64 + place.offset + f.element.unwrap_or(u64::MAX) * buffer.dtype.size() as u64;
            (from..from + buffer.dtype.size() as u64).contains(&(byte as u64))
        };
        let hidden = spec.scrap || !covered(planned, alloc, byte - start);
        verdict.findings.iter().filter(on_rank).any(|f| hidden || inside(f))
    };
    match found {
        true => Ok(()),
        false => Err(format!(
            "byte {byte} of `{}` on rank {} (payload from {start}) is not named: {:?}",
            spec.label,
            spec.rank,
            verdict.findings.iter().map(|f| &f.text).collect::<Vec<_>>()
        )),
    }
}

/// True if a named buffer covers this byte of the payload.
fn covered(planned: &TestCase, alloc: usize, byte: usize) -> bool {
    planned.plan.buffers.iter().filter(|b| !b.name.starts_with('#')).any(|b| {
        b.places.iter().flatten().any(|p| {
            let from = p.offset as usize;
            p.alloc == alloc && (from..from + p.count as usize * b.dtype.size()).contains(&byte)
        })
    })
}

/// The last byte of the element that a byte of the payload belongs to.
fn exponent(planned: &TestCase, alloc: usize, byte: u64) -> usize {
    let spec = &planned.plan.allocs[alloc];
    let found = planned.plan.buffers.iter().find_map(|buffer| {
        let place = buffer.places[spec.rank].filter(|p| p.alloc == alloc && p.offset <= byte)?;
        let size = buffer.dtype.size() as u64;
        let element = (byte - place.offset) / size;
        (element < place.count).then_some(place.offset + element * size + size - 1)
    });
    found.expect("a buffer") as usize
}

/// Changes a byte of the observation (the last run of several), judges, and puts it back.
fn flip(planned: &TestCase, seen: &mut [Observation], alloc: usize, byte: usize, with: u8) -> Result<(), String> {
    let last = seen.len() - 1;
    seen[last].images[alloc][byte] ^= with;
    let verdict = planned.judge(seen);
    seen[last].images[alloc][byte] ^= with;
    names_it(planned, &verdict, alloc, byte)
}

/// Operations grouped by the length of their inputs, which every number of ranks allows.
fn scenario() -> impl Strategy<Value = String> {
    let ops = prop_oneof![
        Just("all_reduce"),
        Just("reduce"),
        Just("broadcast"),
        Just("all_gather"),
        Just("gather"),
        Just("reduce_scatter"),
        Just("scatter"),
        Just("all_to_all"),
    ];
    let reduce = prop_oneof![Just("sum"), Just("prod"), Just("min"), Just("max"), Just("avg")];
    let dtype = prop::sample::select(&DType::ALL[..]);
    (ops, reduce, dtype, 1usize..6, 0usize..9, any::<bool>(), 0usize..5, any::<prop::sample::Index>()).prop_map(
        |(op, reduce, dtype, n, k, in_place, offset, root)| {
            let blocks = matches!(op, "reduce_scatter" | "scatter" | "all_to_all");
            let count = if blocks { k * n } else { k };
            let reduces = matches!(op, "all_reduce" | "reduce" | "reduce_scatter");
            let mut text = format!("world_size = {n}\nop = \"{op}\"\n");
            if reduces {
                text += &format!("reduce = \"{reduce}\"\n");
            }
            if matches!(op, "reduce" | "broadcast" | "gather" | "scatter") {
                text += &format!("root = {}\n", root.index(n));
            }
            if op != "all_to_all" {
                text += &format!("in_place = {in_place}\n");
            }
            // One value per rank and place, exact in every type and order: powers of two and their sums.
            let each = if reduces { "2 ^ (rank % 2) * (i % 2 + 1)" } else { "(7 * rank + i) % 13" };
            let dtype = dtype.name();
            text + &format!(
                "inputs = {{ each = \"{each}\", count = {count}, dtype = \"{dtype}\", offset = {offset} }}\n"
            )
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]
    #[test]
    fn any_byte_of_any_image(text in scenario(), picks in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1u8..), 6)) {
        let Ok(planned) = try_planned_case(&cases(&text)[0]) else {
            return Err(TestCaseError::reject("refused"));
        };
        let mut seen = vec![planned.perfect()];
        let verdict = planned.judge(&seen);
        prop_assert_eq!(verdict.status, Status::Pass, "{}: {:#?}", text, verdict.findings);
        for (alloc, place, with) in picks {
            let alloc = alloc.index(planned.plan.allocs.len());
            let spec = &planned.plan.allocs[alloc];
            // Half of the changes hit the payload or the bytes around it, half any byte.
            let near = spec.start() as usize - 8..(spec.start() + spec.payload) as usize + 8;
            let byte = if with % 2 == 0 { near.start + place.index(near.len()) } else { place.index(spec.image() as usize) };
            let payload = byte >= spec.start() as usize && byte < (spec.start() + spec.payload) as usize;
            let soft = payload && planned.forecast.final_memory[alloc].runs_in((byte as u64 - spec.start())..(byte as u64 - spec.start() + 1))
                .any(|(_, run)| run.certainty != Certainty::Known && run.certainty != Certainty::Unwritten);
            if soft {
                continue;
            }
            if let Err(why) = flip(&planned, &mut seen, alloc, byte, with) {
                return Err(TestCaseError::fail(format!("{text}{why}")));
            }
        }
    }
}

#[test]
fn every_case_of_the_corpus_notices() {
    let mut unnoticed = Vec::new();
    let (mut flips, mut soft) = (0, 0);
    for scenario in super::corpus::files() {
        let Ok(found) = load(&scenario.path, &scenario.name, 1 << 20) else { continue };
        for case in found.into_iter().map(Arc::new) {
            let Ok(planned) = try_planned_case(&case) else { continue };
            // Without an engine nothing hangs, fails or takes time; runs that do not pass are another test's.
            let mut seen = vec![planned.perfect(); case.repeat as usize];
            if planned.plan.undefined.is_some() || planned.judge(&seen).status != Status::Pass {
                continue;
            }
            let large = planned.plan.allocs.iter().map(|a| a.image()).sum::<u64>() > 1 << 20;
            let (from, some) = (flips % 3, if large { 1 } else { 4 });
            for (alloc, spec) in planned.plan.allocs.iter().enumerate().skip(from).take(some) {
                // A place in every payload and in every guard, a different one each time.
                let mut places = vec![
                    (flips * 31) % spec.start() as usize,
                    (spec.image() - GUARD) as usize + flips % GUARD as usize,
                ];
                if spec.payload > 0 {
                    let at = (flips * 7) as u64 % spec.payload;
                    let certainty =
                        planned.forecast.final_memory[alloc].runs_in(at..at + 1).map(|(_, run)| run.certainty).max();
                    if matches!(certainty, Some(Certainty::Known | Certainty::Unwritten)) {
                        places.push((spec.start() + at) as usize);
                    } else if certainty == Some(Certainty::Ambiguous) {
                        // The greatest bit of the exponent: no order and no rounding makes that difference.
                        let byte = exponent(&planned, alloc, at) + spec.start() as usize;
                        if let Err(why) = flip(&planned, &mut seen, alloc, byte, 0x40) {
                            unnoticed.push(format!("{}: {why}", case.name));
                        }
                        flips += 1;
                        soft += 1;
                    }
                }
                for byte in places {
                    flips += 1;
                    if let Err(why) = flip(&planned, &mut seen, alloc, byte, 1 << (flips % 8)) {
                        unnoticed.push(format!("{}: {why}", case.name));
                    }
                }
            }
        }
    }
    assert!(unnoticed.is_empty(), "{} of {flips}:\n{}", unnoticed.len(), unnoticed.join("\n"));
    assert!(flips > 1000 && soft > 5, "{flips} {soft}");
}

const ROUNDS: &str = r#"
world_size = 2
inputs.x = { each = "rank + i", count = 4 }
steps = [
  { op = "all_reduce", in = "x", out = "y" },
  { op = "all_gather", in = "y", out = "z" },
]
expect.y = [[1, 3, 5, 7], [1, 3, 5, 7]]
"#;

#[test]
fn a_changed_number_in_expect() {
    let verdict = |text: &str| {
        let planned = planned_case(text);
        planned.judge(&[planned.perfect()])
    };
    assert_eq!(verdict(ROUNDS).status, Status::Pass);
    let changed = verdict(&ROUNDS.replace("[1, 3, 5, 7]]", "[1, 3, 6, 7]]"));
    assert_eq!(changed.status, Status::Fail);
    let finding = &changed.findings[0];
    assert_eq!((finding.lane, finding.rank, finding.element), (Lane::Expected, Some(1), Some(2)));
    assert!(finding.expected == "6" && finding.actual == "5", "{finding:?}");
    assert!(finding.advice.as_ref().is_some_and(|advice| advice.contains("is probably wrong")), "{finding:?}");
    assert!(finding.span.is_some());
}

/// Three ranks whose sum depends on the order, used again.
const INEXACT: &str = r#"
world_size = 3
inputs.x = [[1e8], [1], [-1e8]]
steps = [
  { op = "all_reduce", in = "x", out = "y" },
  { op = "all_gather", in = "y", out = "z" },
  { op = "map", expr = "2 * y", out = "y" },
]
"#;

#[test]
fn inexact_results_that_are_used_again_are_observed() {
    let planned = planned_case(INEXACT);
    assert_eq!(planned.forecast.checkpoints.len(), 3, "after `y` is written, on each rank");
    let right = planned.perfect();
    assert_eq!(planned.judge(std::slice::from_ref(&right)).status, Status::Pass);
    // 0 and 1 are both right; later results must fit the observed one.
    let canonical = f32::from_le_bytes(right.checkpoints[0][..4].try_into().expect("four bytes"));
    let other: f32 = if canonical == 0.0 { 1.0 } else { 0.0 };
    let mut seen = right.clone();
    seen.checkpoints.fill(other.to_le_bytes().to_vec());
    for rank in 0..3 {
        planned.set_f32(&mut seen, "z", rank, &[other; 3]);
        planned.set_f32(&mut seen, "y", rank, &[2.0 * other]);
    }
    let verdict = planned.judge(std::slice::from_ref(&seen));
    assert_eq!(verdict.status, Status::Pass, "{:#?}", verdict.findings);
    // An observation with contradictory parts.
    let mut mixed = seen.clone();
    mixed.checkpoints = right.checkpoints.clone();
    assert_eq!(planned.judge(&[mixed]).status, Status::Fail);
    // No order of additions gives 3.
    let mut wrong = seen;
    wrong.checkpoints.fill(3f32.to_le_bytes().to_vec());
    for rank in 0..3 {
        planned.set_f32(&mut wrong, "z", rank, &[3.0; 3]);
        planned.set_f32(&mut wrong, "y", rank, &[6.0]);
    }
    let verdict = planned.judge(&[wrong]);
    assert_eq!(verdict.findings.iter().map(Finding::ranks).collect::<Vec<_>>(), [[0, 1, 2]], "{:#?}", verdict.findings);
    assert!(verdict.findings.iter().all(|f| f.lane == Lane::Admissible && f.buffer.as_deref() == Some("y")));
}

#[test]
fn a_rank_that_differs_from_the_others() {
    let text = INEXACT.split("  { op = \"all_gather\"").next().map(|t| format!("{t}]\n")).expect("text");
    let planned = planned_case(&text);
    assert!(planned.forecast.checkpoints.is_empty(), "the final image serves");
    let mut seen = planned.perfect();
    let canonical = planned.get_f32(&mut seen, "y", 0, 0);
    planned.set_f32(&mut seen, "y", 2, &[if canonical == 0.0 { 1.0 } else { 0.0 }]);
    let verdict = planned.judge(&[seen]);
    assert_eq!(verdict.status, Status::Fail);
    let finding = &verdict.findings[0];
    assert_eq!((finding.lane, finding.rank), (Lane::Invariants, Some(2)));
    assert!(finding.text.contains("differs from rank 0's"), "{}", finding.text);
}

#[test]
fn ranks_may_have_either_zero_where_both_are_right() {
    let text = |inputs: &str| {
        format!(
            "world_size = 3\nop = \"all_reduce\"\nreduce = \"max\"\ninputs = {{ each = {inputs}, count = 1, dtype = \"f32\" }}\n"
        )
    };
    for (inputs, right) in [("\"if(rank == 0, 0.0, -0.0)\"", Status::Pass), ("0.0", Status::Fail)] {
        let planned = planned_case(&text(inputs));
        for zeros in [[0.0, -0.0, 0.0], [-0.0, 0.0, 0.0]] {
            let mut seen = planned.perfect();
            (0..3).for_each(|rank| planned.set_f32(&mut seen, "out", rank, &[zeros[rank]]));
            assert_eq!(planned.judge(&[seen]).status, right, "{inputs} {zeros:?}");
        }
    }
}

#[test]
fn a_checkpoint_that_is_missing_or_changed() {
    let planned = planned_case(INEXACT);
    let mut missing = planned.perfect();
    missing.checkpoints[1].clear();
    assert_eq!(planned.judge(&[missing]).status, Status::Fail);
    for byte in 0..4 {
        let mut changed = planned.perfect();
        changed.checkpoints[1][byte] ^= 0x40;
        assert_eq!(planned.judge(&[changed]).status, Status::Fail, "byte {byte}");
    }
}

#[test]
fn a_result_that_is_overwritten_is_judged_all_the_same() {
    let planned = planned_case(
        "world_size = 2\ninputs.x = { each = \"rank + i\", count = 4 }\nsteps = [\n\
         { op = \"all_reduce\", in = \"x\", out = \"y\", times = 2 },\n\
         { op = \"map\", expr = \"min(y, 0)\", out = \"z\" },\n\
         { op = \"map\", expr = \"7\", count = 4, out = \"y\" },\n]\n",
    );
    assert_eq!(planned.forecast.checkpoints.len(), 4, "both rounds on both ranks");
    let right = planned.perfect();
    assert_eq!(planned.judge(std::slice::from_ref(&right)).status, Status::Pass);
    for number in 0..4 {
        for byte in 0..16 {
            let mut wrong = right.clone();
            wrong.checkpoints[number][byte] ^= 1;
            let verdict = planned.judge(&[wrong]);
            assert_eq!(verdict.status, Status::Fail, "copy {number}, byte {byte}");
            let finding = &verdict.findings[0];
            assert_eq!((finding.lane, finding.buffer.as_deref()), (Lane::Exact, Some("y")));
            assert_eq!(finding.element, Some(byte as u64 / 4));
        }
        let mut missing = right.clone();
        missing.checkpoints[number].clear();
        assert_eq!(planned.judge(&[missing]).status, Status::Fail);
    }
}

/// Ten rounds of 1 MiB on two ranks: 4 MiB of copies, then digests.
#[test]
fn overwritten_results_beyond_the_room_for_copies_are_judged_by_their_digests() {
    let planned = planned_case(
        "world_size = 2\ninputs.x = { each = \"0\", count = 262144 }\nsteps = [{ op = \"loop\", times = 10, steps = [\n\
         { op = \"map\", expr = \"(rank + i + t) % 512\", count = 262144, out = \"x\" },\n\
         { op = \"all_reduce\", in = \"x\", out = \"y\" },\n] }]\n",
    );
    let checkpoints = &planned.forecast.checkpoints;
    let reads = (0..planned.plan.events.len()).flat_map(|event| planned.forecast.read_checks(event));
    let written = checkpoints.len() - reads.count();
    let digests: Vec<usize> = (0..written).filter(|number| checkpoints[*number].digest).collect();
    assert_eq!((written, digests.len()), (36, 32), "x and y of nine rounds on both ranks, four of them copied");
    assert_eq!(planned.forecast.not_looked_at, None);
    let right = planned.perfect();
    assert_eq!(planned.judge(std::slice::from_ref(&right)).status, Status::Pass);
    for number in digests {
        let mut wrong = right.clone();
        wrong.checkpoints[number][7] ^= 1;
        let verdict = planned.judge(&[wrong]);
        let finding = &verdict.findings[0];
        assert_eq!((finding.lane, finding.rank), (Lane::Exact, Some(checkpoints[number].write.region.rank)));
        assert!(finding.text.contains("of its 1048576 bytes, which a later step overwrites, only a digest was kept"));
        let mut missing = right.clone();
        missing.checkpoints[number].clear();
        assert_eq!(planned.judge(&[missing]).status, Status::Fail);
    }
    // A round's result that is still that of the round before is known byte for byte.
    let of_y = |number: &usize| planned.plan.buffers[checkpoints[*number].write.region.buf].name == "y";
    let rank_1: Vec<usize> =
        (0..36).filter(of_y).filter(|number| checkpoints[*number].write.region.rank == 1).collect();
    let mut stale = right.clone();
    stale.checkpoints[rank_1[6]] = right.checkpoints[rank_1[5]].clone();
    let text = &planned.judge(&[stale]).findings[0].text;
    assert!(
        text.starts_with("rank 1: `y[0]` after step 1.2 (all_reduce, round 6) is 11, expected 13; all 262144"),
        "{text}"
    );
    assert!(text.ends_with("stale: they still hold the values from before this step"), "{text}");
}

/// Results that a graph overwrites in the launch that made them cannot be copied; the verdict says so.
#[test]
fn results_of_which_nothing_can_be_kept_are_counted() {
    let planned = planned_case(
        "world_size = 2\ninputs.x = { each = \"rank + i\", count = 4 }\nsteps = [\n\
         { op = \"all_reduce\", in = \"x\", out = \"y\", graph = \"g\" },\n\
         { op = \"broadcast\", in = \"x\", out = \"y\", root = 0, graph = \"g\" },\n\
         { op = \"launch\", graph = \"g\" },\n]\n",
    );
    let verdict = planned.judge(&[planned.perfect()]);
    let said = "2 results (32 bytes) were not looked at: later steps of the same launch overwrite them";
    assert_eq!((verdict.status, verdict.notes.as_slice()), (Status::Pass, [said.to_owned()].as_slice()));
    assert_eq!(verdict.not_looked_at.map(|rest| (rest.results, rest.bytes)), Some((2, 32)));
}

#[test]
fn runs_that_differ() {
    let text = INEXACT.split("  { op = \"all_gather\"").next().map(|t| format!("repeat = 2\n{t}]\n")).expect("text");
    let planned = planned_case(&text);
    let (first, mut second) = (planned.perfect(), planned.perfect());
    assert_eq!(planned.judge(&[first.clone(), second.clone()]).status, Status::Pass);
    assert_eq!(planned.judge(std::slice::from_ref(&first)).status, Status::Fail, "one run of two");
    let canonical = planned.get_f32(&mut second, "y", 0, 0);
    for rank in 0..3 {
        planned.set_f32(&mut second, "y", rank, &[if canonical == 0.0 { 1.0 } else { 0.0 }]);
    }
    let verdict = planned.judge(&[first, second]);
    assert_eq!(verdict.status, Status::Fail);
    assert!(verdict.findings[0].text.contains("run 2 of 2 differs from run 1"), "{:#?}", verdict.findings);
}

#[test]
fn runs_may_differ_where_contents_are_undefined() {
    let text = "world_size = 2\nrepeat = 2\ncomms.a = { groups = [[0, 1]] }\ninputs.x = { each = \"rank + 1\", count = 2 }\n\
        steps = [\n{ op = \"all_gather\", in = \"x\", out = \"kept\" },\n\
        { op = \"all_gather\", comm = \"a\", in = \"x\", out = \"lost\" },\n{ op = \"abort\", comm = \"a\" },\n]\n";
    let planned = planned_case(text);
    let (first, second) = (planned.perfect(), planned.perfect());
    for (buffer, status) in [("lost", Status::Pass), ("kept", Status::Fail)] {
        let mut second = second.clone();
        planned.set_f32(&mut second, buffer, 1, &[9.0]);
        assert_eq!(planned.judge(&[first.clone(), second]).status, status, "{buffer}");
    }
}
