//! Tests that every kind of change is distinguished from every other.
use super::*;
use crate::record::RecordedCase;
use collspec_core::judge::Status;
use collspec_core::judge::{BufferHashes, ContentHash, ObservedResults};
use collspec_core::oracle::order_map::{Explanation, OrderMap, OrderRun, Pattern};
use collspec_suite::suite::fixture;

/// A run that passed with these bytes as its result.
fn pass(bytes: &[u8]) -> RecordedCase {
    let mut run = RecordedCase::new(&fixture::case("a"), &fixture::verdict("a", Status::Pass));
    let buffers = vec![BufferHashes { buffer: "out".into(), ranks: vec![Some(ContentHash::of(bytes)); 2] }];
    run.results = Some(ObservedResults { buffers, ..ObservedResults::default() });
    run
}

fn fail(outcome: Outcome, reason: &str) -> RecordedCase {
    let mut run = RecordedCase::new(&fixture::case("a"), &fixture::verdict("a", Status::Fail));
    (run.outcome, run.reason) = (Some(outcome), Some(reason.to_owned()));
    run
}

fn skip(reason: &str) -> RecordedCase {
    let mut run = RecordedCase::new(&fixture::case("a"), &fixture::verdict("a", Status::Skip));
    (run.outcome, run.reason) = (None, Some(reason.to_owned()));
    run
}

fn with_error(code: &str, text: &str) -> RecordedCase {
    let mut run = pass(b"1");
    let step = Some("step 1 (all_reduce)".to_owned());
    let error = CallError { rank: 0, step, code: code.into(), text: text.into() };
    run.results.as_mut().unwrap().errors.push(error);
    run
}

/// A run whose result was summed in this order.
fn summed(bytes: &[u8], order: &str, computing: &str) -> RecordedCase {
    let explanation = Explanation { order: order.into(), additions: order.into(), computing: computing.into() };
    let run =
        OrderRun { start: 0, elements: 8, earliest_start: 0, latest_start: 0, explanation: 0, others: Vec::new() };
    let map = OrderMap {
        name: order.into(),
        pattern: Pattern::OneOrder,
        elements: 8,
        telling: 8,
        explanations: vec![explanation],
        runs: vec![run],
        run_count: 1,
        hash: "0".into(),
    };
    let order = ResultOrder { step: "step 1 (all_reduce)".into(), buffer: "out".into(), ranks: vec![0, 1], map };
    RecordedCase { orders: vec![order], ..pass(bytes) }
}

fn change(base: &[RecordedCase], candidate: &[RecordedCase]) -> Change {
    classify(&base.iter().collect::<Vec<_>>(), &candidate.iter().collect::<Vec<_>>()).change
}

fn detail(base: &[RecordedCase], candidate: &[RecordedCase]) -> String {
    classify(&base.iter().collect::<Vec<_>>(), &candidate.iter().collect::<Vec<_>>()).detail
}

fn times(run: RecordedCase, number: usize) -> Vec<RecordedCase> {
    vec![run; number]
}

#[test]
fn equal_results_are_the_same_bits() {
    assert_eq!(change(&times(pass(b"1"), 2), &times(pass(b"1"), 2)), Change::SameBits);
}

#[test]
fn a_failure_in_every_run_is_told_by_its_ending() {
    for (outcome, wanted) in [
        (Outcome::Ok, Change::NowWrong),
        (Outcome::Error, Change::NowFails),
        (Outcome::Hang, Change::NowHangs),
        (Outcome::Crash, Change::NowCrashes),
    ] {
        let (good, bad) = (times(pass(b"1"), 2), times(fail(outcome, "why"), 2));
        assert_eq!(change(&good, &bad), wanted);
        assert_eq!(detail(&good, &bad), "why");
        assert_eq!(change(&bad, &good), Change::Fixed);
        assert_eq!(change(&bad, &bad), Change::StillFails);
    }
    let (wrong, hang) = (times(fail(Outcome::Ok, "wrong"), 2), times(fail(Outcome::Hang, "stuck"), 2));
    assert_eq!(change(&wrong, &hang), Change::FailsOtherwise);
    // Of several endings the worst is named.
    assert_eq!(change(&times(pass(b"1"), 2), &[fail(Outcome::Ok, "a"), fail(Outcome::Hang, "b")]), Change::NowHangs);
}

#[test]
fn what_comes_and_goes_is_a_rate_and_needs_enough_runs() {
    let runs = |failed: usize, passed: usize| {
        [times(fail(Outcome::Hang, "stuck"), failed), times(pass(b"1"), passed)].concat()
    };
    assert_eq!(change(&runs(0, 30), &runs(3, 27)), Change::Undecided);
    assert_eq!(change(&runs(0, 120), &runs(12, 108)), Change::FailsMoreOften);
    assert_eq!(change(&runs(12, 108), &runs(0, 120)), Change::FailsLessOften);
    assert_eq!(change(&runs(10, 20), &runs(10, 20)), Change::ComesAndGoes);
    assert_eq!(change(&runs(3, 27), &runs(0, 30)), Change::ComesAndGoes);
    // A base that always fails does not hide a candidate that sometimes does.
    assert_eq!(change(&runs(30, 0), &runs(10, 20)), Change::FailsLessOften);
    let text = detail(&runs(0, 30), &runs(3, 27));
    assert_eq!(text, "hangs: base 0 of 30: 0 %, at most 11.6 %; candidate 3 of 30: 10 % (2.1 % to 26.5 %); stuck");
}

#[test]
fn results_that_differ_from_run_to_run_are_no_other_order() {
    let runs = |usual: usize, others: usize| [times(pass(b"1"), usual), times(pass(b"2"), others)].concat();
    assert_eq!(change(&runs(30, 0), &runs(20, 10)), Change::NowUnstable);
    assert_eq!(change(&runs(20, 10), &runs(30, 0)), Change::NowStable);
    assert_eq!(change(&runs(20, 10), &runs(22, 8)), Change::Unstable);
    // One run is not enough to say that the base would not have done the same.
    assert_eq!(change(&runs(2, 0), &runs(1, 1)), Change::PerhapsUnstable);
    assert_eq!(change(&runs(1, 1), &runs(2, 0)), Change::Unstable);
    // Neither side has a result of the other.
    assert_eq!(change(&runs(20, 10), &times(pass(b"3"), 30)), Change::NowStable);
    assert_eq!(change(&runs(29, 1), &times(pass(b"3"), 30)), Change::OtherBits);
    let text = detail(&runs(30, 0), &runs(20, 10));
    let wanted =
        "base 1 different results, other than the usual one in 0 of 30: 0 %, at most 11.6 %; candidate 2 different";
    assert!(text.starts_with(wanted), "{text}");
}

#[test]
fn other_results_are_named_by_their_order_maps() {
    let ring = summed(b"1", "chain 0,1,2,3", "each step");
    let tree = summed(b"2", "chain 3,2,1,0", "each step");
    let wide = summed(b"3", "chain 0,1,2,3", "once in f32");
    let with = |run: &RecordedCase| times(run.clone(), 2);
    assert_eq!(change(&with(&ring), &with(&tree)), Change::OtherOrder);
    assert_eq!(detail(&with(&ring), &with(&tree)), "chain 0,1,2,3 -> chain 3,2,1,0");
    // Only the result whose order changed is named.
    let with_another = |run: &RecordedCase| {
        let mut run = run.clone();
        let mut other = ring.orders[0].clone();
        (other.step, other.buffer) = ("step 2 (reduce)".into(), "z".into());
        run.orders.push(other);
        run
    };
    let classified = classify(&[&with_another(&ring)], &[&with_another(&tree)]);
    let named: Vec<String> = classified.changed_results.iter().map(ChangedResult::place).collect();
    assert_eq!(named, ["`out` of step 1 (all_reduce)"]);
    assert_eq!(classified.changed_results[0].operation(), Some("all_reduce"));
    assert_eq!(change(&with(&ring), &with(&wide)), Change::OtherRounding);
    assert_eq!(change(&with(&ring), &times(pass(b"9"), 2)), Change::OtherBits);
    let mut unexplained = summed(b"4", "not explained", "");
    unexplained.orders[0].map.pattern = Pattern::NotExplained;
    assert_eq!(change(&with(&ring), &with(&unexplained)), Change::OtherBits);
    // The same map of other bits: a difference that order maps do not cover.
    assert_eq!(change(&with(&ring), &with(&summed(b"5", "chain 0,1,2,3", "each step"))), Change::OtherBits);
}

/// A run that passed, because its scenario admits that it ends so.
fn ended(outcome: Outcome) -> RecordedCase {
    let results = pass(b"1").results.filter(|_| outcome == Outcome::Ok);
    RecordedCase { outcome: Some(outcome), results, ..pass(b"1") }
}

#[test]
fn another_ending_is_a_change_even_if_the_scenario_admits_it() {
    let all = |outcome: Outcome| times(ended(outcome), 2);
    for (outcome, wanted) in
        [(Outcome::Hang, Change::NowHangs), (Outcome::Crash, Change::NowCrashes), (Outcome::Error, Change::NowFails)]
    {
        assert_eq!(change(&all(Outcome::Ok), &all(outcome)), wanted);
        assert_eq!(change(&all(outcome), &all(Outcome::Ok)), Change::OtherEnding);
        assert_eq!(change(&all(outcome), &all(outcome)), Change::SameBehaviour);
    }
    let mixed = |hangs: usize, ok: usize| [times(ended(Outcome::Hang), hangs), times(ended(Outcome::Ok), ok)].concat();
    assert_eq!(change(&mixed(0, 120), &mixed(12, 108)), Change::FailsMoreOften);
    assert_eq!(change(&mixed(0, 30), &mixed(3, 27)), Change::Undecided);
    assert_eq!(change(&mixed(10, 20), &mixed(12, 18)), Change::SameBits);
}

#[test]
fn results_of_one_side_alone_are_no_sameness() {
    let without = RecordedCase { results: None, ..pass(b"1") };
    assert_eq!(change(&times(pass(b"1"), 2), &times(without.clone(), 2)), Change::NotComparable);
    assert_eq!(change(&times(without.clone(), 2), &times(without, 2)), Change::SameBehaviour);
}

#[test]
fn a_skip_is_no_pass() {
    let (ran, skipped) = (times(pass(b"1"), 2), times(skip("needs 8 GPUs"), 2));
    assert_eq!(change(&skipped, &skipped), Change::Skipped);
    assert_eq!(change(&ran, &skipped), Change::NoLongerRuns);
    assert_eq!(change(&skipped, &ran), Change::NowRuns);
    assert_eq!(detail(&ran, &skipped), "needs 8 GPUs");
    assert!(
        !Change::Skipped.was_compared() && !Change::NoLongerRuns.was_compared() && Change::StillFails.was_compared()
    );
}

#[test]
fn error_codes_and_texts_are_compared() {
    let error = |code: &str, text: &str| times(with_error(code, text), 2);
    let usual = error("invalid_argument", "rank 3 of 8 at 0x7f12");
    assert_eq!(change(&usual, &error("invalid_usage", "rank 3 of 8 at 0x7f12")), Change::OtherErrorCode);
    assert_eq!(change(&usual, &error("invalid_argument", "no such root")), Change::OtherErrorText);
    // Numbers and addresses differ from run to run.
    assert_eq!(change(&usual, &error("invalid_argument", "rank 5 of 8 at 0x7e99")), Change::SameBits);
    assert_eq!(change(&usual, &times(pass(b"1"), 2)), Change::OtherErrorCode);
    let text = detail(&usual, &error("invalid_usage", ""));
    assert_eq!(text, "step 1 (all_reduce): invalid_argument -> step 1 (all_reduce): invalid_usage");
}

#[test]
fn results_of_another_file_are_not_compared_but_verdicts_are() {
    let other = |mut run: RecordedCase| {
        run.text = Some(ContentHash::of(b"another text"));
        vec![run]
    };
    let ours = vec![pass(b"1")];
    assert_eq!(change(&ours, &other(pass(b"2"))), Change::NotComparable);
    assert_eq!(change(&ours, &other(pass(b"1"))), Change::SameBits);
    assert_eq!(change(&ours, &other(fail(Outcome::Ok, "why"))), Change::NowWrong);
}
