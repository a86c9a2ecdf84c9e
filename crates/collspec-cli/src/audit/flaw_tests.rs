//! A judge with a flaw passes exactly the errors that the flaw hides.
use super::flaw::Flaw;
use super::repair::hides;
use collspec_core::judge::test_case::{TestCase, planned_case};
use collspec_core::judge::{Status, judge_pass_or_fail};
use collspec_core::oracle::Checkpoint;
use collspec_run::job::{Ended, Observation};

const SUM: &str = "world_size = 2\nop = \"all_reduce\"\ninputs = { each = \"i + 2 ^ rank\", count = 2000 }\n";

/// A run with an error that only this flaw does not notice: `text` is a case, and `tamper` changes its
/// faultless run.
fn only_with(flaw: Flaw, text: &str, tamper: impl Fn(&TestCase, &mut Observation)) {
    only_with_any(&[flaw], text, tamper);
}

fn only_with_any(flaws: &[Flaw], text: &str, tamper: impl Fn(&TestCase, &mut Observation)) {
    let planned = planned_case(text);
    let mut seen = planned.perfect();
    let sound = seen.clone();
    let passes = |seen: &Observation, flaw: Option<Flaw>| {
        let (plan, forecast) = (&planned.plan, &planned.forecast);
        let (sound, seen) = (std::slice::from_ref(&sound), std::slice::from_ref(seen));
        let verdict = judge_pass_or_fail(plan, forecast, seen);
        let pass = flaw.map(|flaw| hides(flaw, plan, forecast, sound, seen));
        (pass.unwrap_or(verdict.status == Status::Pass), verdict)
    };
    for flaw in Flaw::all().map(Some).chain([None]) {
        let (pass, verdict) = passes(&seen, flaw);
        assert!(pass, "{flaw:?} fails a faultless run: {:?}", verdict.reason);
    }
    tamper(&planned, &mut seen);
    let (pass, sound) = passes(&seen, None);
    assert!(!pass, "a sound judge passes it");
    for other in Flaw::all() {
        let (pass, verdict) = passes(&seen, Some(other));
        assert_eq!(pass, flaws.contains(&other), "{other:?}, where {flaws:?} are meant: {:?}", verdict.reason);
        assert!(!pass || other.may_hide(&planned.plan, &sound), "{other:?} says that it cannot hide this");
    }
}

fn out(planned: &TestCase, seen: &mut Observation, rank: usize, values: &[(usize, f32)]) {
    for (index, value) in values {
        planned.element(seen, "out", rank, *index).copy_from_slice(&value.to_le_bytes());
    }
}

#[test]
fn only_rank_0() {
    only_with(Flaw::OnlyRank0, SUM, |planned, seen| out(planned, seen, 1, &[(0, 9.0), (4, 7.0)]));
}

#[test]
fn only_the_beginning() {
    only_with(Flaw::OnlyBeginning, SUM, |planned, seen| {
        (0..2).for_each(|rank| out(planned, seen, rank, &[(1024, 9.0)]));
    });
}

#[test]
fn nan_is_anything() {
    only_with(Flaw::NanEqualsAnything, SUM, |planned, seen| {
        (0..2).for_each(|rank| out(planned, seen, rank, &[(0, f32::NAN)]))
    });
}

#[test]
fn the_allowance_of_f16() {
    only_with(Flaw::F16Tolerance, SUM, |planned, seen| {
        (0..2).for_each(|rank| out(planned, seen, rank, &[(1000, 2003.0 + 1.5)]));
    });
}

#[test]
fn no_guards() {
    only_with(Flaw::NoGuards, SUM, |planned, seen| {
        let alloc = planned.plan.allocs.iter().position(|a| a.rank == 0).expect("an allocation");
        let last = seen.images[alloc].len() - 1;
        seen.images[alloc][last] ^= 1;
    });
}

#[test]
fn no_inputs() {
    only_with(Flaw::NoInputs, SUM, |planned, seen| {
        planned.element(seen, "in", 0, 0).copy_from_slice(&99f32.to_le_bytes());
    });
}

#[test]
fn no_same_bits() {
    let text = "world_size = 4\nop = \"all_reduce\"\ninputs = [[1e8], [1], [-1e8], [1]]\n";
    // every order has one of 0, 1 and 2, so each alone is right; and it takes two ranks to see a difference
    only_with_any(&[Flaw::NoSameBits, Flaw::OnlyRank0], text, |planned, seen| {
        let other = planned.get_f32(seen, "out", 0, 0) == 0.0;
        out(planned, seen, 0, &[(0, if other { 1.0 } else { 0.0 })]);
    });
}

/// Also where the result is overwritten later.
#[test]
fn no_same_bits_in_between() {
    let text = "world_size = 4\ninputs.x = [[1e8], [1], [-1e8], [1]]\n\
        steps = [ { op = \"all_reduce\", in = \"x\", out = \"out\" }, { op = \"broadcast\", in = \"x\", out = \"out\" } ]\n";
    only_with_any(&[Flaw::NoSameBits, Flaw::OnlyRank0, Flaw::OnlyLast], text, |planned, seen| {
        let is_of_rank_0 = |copy: &Checkpoint| copy.event == 0 && copy.write.region.rank == 0;
        let at = planned.forecast.checkpoints.iter().position(is_of_rank_0).expect("a copy");
        let other = if seen.checkpoints[at][..4] == [0; 4] { 1f32 } else { 0.0 };
        seen.checkpoints[at][..4].copy_from_slice(&other.to_le_bytes());
    });
}

#[test]
fn no_order() {
    let text = "world_size = 2\nop = \"all_gather\"\ninputs = { each = \"1 + i + 4 * rank\", count = 4 }\n";
    only_with(Flaw::NoOrder, text, |planned, seen| {
        for rank in 0..2 {
            planned.set_f32(seen, "out", rank, &[5.0, 6.0, 7.0, 8.0, 1.0, 2.0, 3.0, 4.0]);
        }
    });
}

#[test]
fn only_the_last_under_a_name() {
    let text = "world_size = 2\ninputs.x = { each = \"1 + rank\", count = 2 }\ninputs.y = { each = \"3 + rank\", count = 2 }\n\
        steps = [ { op = \"all_reduce\", in = \"x\", out = \"out\" }, { op = \"all_reduce\", in = \"y\", out = \"out\" } ]\n";
    only_with(Flaw::OnlyLast, text, |_, seen| seen.checkpoints[0][3] ^= 1);
}

#[test]
fn one_element_of_a_pack() {
    only_with(Flaw::OnePerPack, SUM, |planned, seen| (0..2).for_each(|rank| out(planned, seen, rank, &[(5, 99.0)])));
}

#[test]
fn no_ending() {
    only_with(Flaw::NoOutcome, SUM, |_, seen| {
        seen.ended = Ended::Hung { proved: true, opening: false, waits: String::new() };
    });
}
