//! Tests who gets the blame: the library, the file's own expectations, or an earlier step.
use crate::job::{CallKind, Ended, Observation, RankEnd};
use crate::judge::test_case::{TestCase, planned_case};
use crate::judge::{CaseJudge, Details, Finding, ShowBuffers, Status, Verdict};

fn perfect(text: &str) -> Verdict {
    let planned = planned_case(text);
    planned.judge(&[planned.perfect()])
}

fn after(text: &str, change: impl Fn(&TestCase, &mut Observation)) -> Verdict {
    let planned = planned_case(text);
    let mut seen = planned.perfect();
    change(&planned, &mut seen);
    planned.judge(&[seen])
}

fn advice(finding: &Finding) -> &str {
    finding.advice.as_deref().unwrap_or_default()
}

const ROUNDED: &str = "world_size = 3\nop = \"all_reduce\"\n";

/// The text with the `assert` of the advice in place of the line `expect`.
fn with_the_advice(text: &str, finding: &Finding) -> String {
    let line = advice(finding).lines().last().unwrap_or_default().trim();
    let expect = text.lines().find(|line| line.starts_with("expect")).expect("an expectation");
    text.replace(expect, line)
}

#[test]
fn a_wrong_expectation_is_said_to_be_wrong() {
    let verdict = perfect("world_size = 2\nop = \"reduce_scatter\"\ninputs = [[1, 2], [3, 4]]\nexpect = [[4], [7]]\n");
    assert_eq!(verdict.findings[0].text, "rank 1: `out[0]` is 6, expected 7; the only element");
    assert_eq!(
        advice(&verdict.findings[0]),
        "the library's result is what the oracle expects; the expectation is probably wrong"
    );
    assert_eq!(verdict.findings[0].label(), Some("expect"));
}

#[test]
fn the_library_is_blamed_for_its_own_mistakes() {
    let text = "world_size = 2\nop = \"reduce_scatter\"\ninputs = [[1, 2], [3, 4]]\nexpect = [[4], [6]]\n";
    let verdict = after(text, |case, seen| case.set_f32(seen, "out", 1, &[9.0]));
    let [finding] = verdict.findings.as_slice() else { panic!("{:#?}", verdict.findings) };
    assert_eq!(finding.consequences, ["`expect` of `out` fails"]);
    assert_eq!(finding.advice, None);
    // The expectation is wrong as well, and remains a separate finding.
    let both = after(&text.replace("[6]]", "[7]]"), |case, seen| case.set_f32(seen, "out", 1, &[9.0]));
    assert_eq!(both.findings.len(), 2, "{:#?}", both.findings);
    assert!(both.findings.iter().all(|finding| finding.advice.is_none()), "{:#?}", both.findings);
}

#[test]
fn what_is_advised_for_a_rounded_result_passes() {
    for rest in [
        "inputs = { each = \"0.1 * (rank + 1) + i\", count = 8 }\nexpect = { each = \"3 * i + 0.60001\" }\n",
        "inputs = { each = \"0.1 * (rank + 1)\", count = 20 }\nexpect = { each = 0.60001 }\n",
        "inputs = { each = \"-0.1 * (rank + 1)\", count = 20 }\nexpect = { each = -0.60001 }\n",
        "inputs = [[0.1, 1.1], [0.2, 1.2], [0.3, 1.3]]\nexpect = [[0.60001, 3.6], [0.60001, 3.6], [0.60001, 3.6]]\n",
        "inputs = [[0.1, 1.1], [0.2, 1.2], [0.3, 1.3]]\nexpect = [[0.60001, 3.6], [0.6, 3.60001], [0.60001, 3.6]]\n",
        "dtype = \"bf16\"\ninputs = [[0.1, 1.1], [0.2, 1.2], [0.3, 1.3]]\nexpect = { each = [0.62, 3.7] }\n",
    ] {
        let text = format!("{ROUNDED}{rest}");
        let verdict = perfect(&text);
        let finding = verdict.findings.first().unwrap_or_else(|| panic!("passes: {text}"));
        assert!(
            advice(finding).starts_with("the library's result is a legal rounding; for a tolerance"),
            "{finding:#?}"
        );
        let better = with_the_advice(&text, finding);
        assert!(better.contains("assert = [\"close(out"), "{better}");
        let verdict = perfect(&better);
        assert_eq!(verdict.status, Status::Pass, "{better}\n{:#?}", verdict.findings);
    }
}

#[test]
fn a_rounded_result_that_is_far_from_the_expectation_needs_no_tolerance() {
    let verdict = perfect(&format!("{ROUNDED}inputs = [[0.1], [0.2], [0.3]]\nexpect = {{ each = 0.7 }}\n"));
    let words = "a legal rounding of what the oracle expects; the expectation is probably wrong";
    assert!(advice(&verdict.findings[0]).ends_with(words), "{:#?}", verdict.findings);
}

#[test]
fn an_assert_shows_both_sides_with_enough_digits() {
    let text = |assert: &str| format!("{ROUNDED}inputs = [[0.1], [0.2], [0.0]]\nassert = ['{assert}']\n");
    for (assert, words) in [
        ("out == 0.3", "for element 0 (1 of 1 elements): 0.30000001192092896 == 0.3, where out[0] is 0.3 (0x3e99999a)"),
        ("n == 4", "ranks 0 to 2: assert `n == 4` does not hold: 3 == 4, where n is 3"),
        ("1 > 2", "does not hold: 1 > 2"),
        ("close(out, 0.3, 1e-9)", "close(0.30000001192092896, 0.3, 1e-9), where out[0] is 0.3 (0x3e99999a)"),
        ("(n == 3) * (rank < 0)", "does not hold: 0 < 0, where n is 3, rank is 0"),
        ("min(n > 2, n > 5)", "does not hold: 3 > 5, where n is 3"),
        ("n - 3", "does not hold: the value is 0, where n is 3"),
    ] {
        let verdict = perfect(&text(assert));
        let text = &verdict.findings.first().unwrap_or_else(|| panic!("{assert} holds")).text;
        assert!(text.contains(words), "{words}: {text}");
    }
    let by_rank = perfect(&text("rank == 5"));
    let [finding] = by_rank.findings.as_slice() else { panic!("{:#?}", by_rank.findings) };
    assert_eq!(
        finding.text,
        "rank 0: assert `rank == 5` does not hold: 0 == 5, where rank is 0; nor does it on ranks 1 and 2, with other values"
    );
    let blamed = "either the program or the assert is wrong; written last: `out` by step 1 (all_reduce)";
    assert!(advice(&perfect(&text("out == 0.7")).findings[0]).ends_with(blamed));
    assert_eq!(advice(&perfect(&text("n == 4")).findings[0]), "no result is in it: it fails on every run");
}

#[test]
fn an_assert_tells_64_bit_numbers_apart() {
    let text = |wanted: &str| {
        let inputs = "inputs = [[9223372036854775806], [1]]\n";
        format!("op = \"all_reduce\"\nworld_size = 2\ndtype = \"i64\"\n{inputs}assert = [\"out == {wanted}\"]\n")
    };
    assert_eq!(perfect(&text("9223372036854775807")).status, Status::Pass);
    // In f64 the two would be one number.
    let wrong = perfect(&text("9223372036854775806"));
    assert_eq!(wrong.status, Status::Fail);
    assert!(wrong.findings[0].text.contains("9223372036854775807 == 9223372036854775806"), "{:#?}", wrong.findings);
}

#[test]
fn an_exact_comparison_of_near_values_is_answered_with_close() {
    let text = |head: &str, assert: &str| format!("{ROUNDED}{head}assert = [\"{assert}\"]\n");
    for (head, assert, words) in [
        ("inputs = { each = \"0.1\", count = 2 }\n", "out == 0.3", "a legal rounding"),
        ("inputs = { each = \"0.1 * i\", count = 9 }\n", "i * 0.3 == out", "a legal rounding"),
        ("inputs = { each = \"-0.1 * rank\", count = 1 }\n", "out[0] == 0.1 - 0.4", "a legal rounding"),
        ("dtype = \"bf16\"\ninputs = [[0.1], [1.1], [2.1]]\n", "out == 3.3", "a legal rounding"),
        ("dtype = \"f64\"\ninputs = { each = 0.5, count = 1 }\n", "out == 1.5 + 1e-12", "what the oracle expects"),
    ] {
        let (text, verdict) = (text(head, assert), perfect(&text(head, assert)));
        let finding = verdict.findings.first().unwrap_or_else(|| panic!("passes: {text}"));
        let start = format!("the library's result is {words}; `==` compares exactly: write `close(");
        assert!(advice(finding).starts_with(&start), "{finding:#?}");
        let advised = advice(finding).rsplit_once("write `").unwrap().1.trim_end_matches('`');
        let better = perfect(&text.replace(assert, advised));
        assert_eq!(better.status, Status::Pass, "{advised}\n{:#?}", better.findings);
    }
    for (head, assert) in [
        ("inputs = { each = 0.5, count = 1 }\n", "out == 1.6"),
        ("inputs = { each = 0.5, count = 1 }\n", "(out == 1.5000001) * 1"),
        ("dtype = \"i32\"\ninputs = { each = 10000000, count = 1 }\n", "out == 30000001"),
        ("inputs = { each = 0, count = 1 }\n", "out == 1e-30"),
        ("inputs = { each = \"inf\", count = 1 }\n", "out == 1"),
    ] {
        let verdict = perfect(&text(head, assert));
        let blamed = "either the program or the assert is wrong; written last: `out` by step 1 (all_reduce)";
        assert!(advice(&verdict.findings[0]).ends_with(blamed), "{:#?}", verdict.findings);
    }
}

const THREE_STEPS: &str = r#"
world_size = 3
inputs.x = { each = "rank + i", count = 2 }
steps = [
  { op = "all_reduce", in = "x", out = "y" },
  { op = "map", expr = "2 * y", out = "z" },
  { op = "all_gather", in = "z", out = "all" },
]
expect.all = { each = [6, 12, 6, 12, 6, 12] }
"#;

#[test]
fn the_same_on_several_ranks_is_one_finding() {
    let verdict = after(THREE_STEPS, |case, seen| {
        for rank in [0, 2] {
            case.set_f32(seen, "all", rank, &[6.0, 13.0]);
        }
        case.set_f32(seen, "all", 1, &[6.0, 14.0]);
    });
    let [finding] = verdict.findings.as_slice() else { panic!("{:#?}", verdict.findings) };
    assert_eq!((finding.ranks(), &finding.ranks_with_other_values), (vec![0, 2], &vec![1]));
    assert!(finding.text.starts_with("ranks 0 and 2: `all[1]` after step 3 (all_gather) is 13, expected 12"));
    assert!(finding.text.ends_with("the same elements are wrong on rank 1, with other values"), "{}", finding.text);
}

#[test]
fn what_follows_from_an_earlier_step_is_told_with_it() {
    let wrong_sum = |case: &TestCase, seen: &mut Observation| {
        for rank in 0..3 {
            case.set_f32(seen, "y", rank, &[4.0]);
            case.set_f32(seen, "z", rank, &[8.0]);
            case.set_f32(seen, "all", rank, &[8.0, 12.0, 8.0, 12.0, 8.0, 12.0]);
        }
    };
    let verdict = after(THREE_STEPS, wrong_sum);
    let [finding] = verdict.findings.as_slice() else { panic!("{:#?}", verdict.findings) };
    assert_eq!((finding.step.as_deref(), finding.ranks()), (Some("step 1 (all_reduce)"), vec![0, 1, 2]));
    assert_eq!(
        finding.consequences,
        [
            "`z` after step 2 (map) is wrong on ranks 0 to 2",
            "`all` after step 3 (all_gather) is wrong on ranks 0 to 2",
            "`expect` of `all` fails"
        ]
    );
    // A step that gets wrong data and makes another mistake with it is a separate finding.
    let verdict = after(THREE_STEPS, |case, seen| {
        wrong_sum(case, seen);
        case.set_f32(seen, "all", 1, &[8.0, 12.0, 7.0]);
    });
    let steps: Vec<_> = verdict.findings.iter().map(|f| (f.step.clone().unwrap_or_default(), f.ranks())).collect();
    let expect = (String::new(), vec![0, 1, 2]);
    let own = [("step 1 (all_reduce)".into(), vec![0, 1, 2]), ("step 3 (all_gather)".into(), vec![1]), expect];
    assert_eq!(steps, own, "with two causes it is not said from which of them the expectation fails");
}

#[test]
fn bits_are_shown_where_they_say_more_than_the_value() {
    let text = "world_size = 2\nop = \"all_gather\"\ninputs = [[1], [nan]]\n";
    let nan = after(text, |case, seen| case.set_f32(seen, "out", 0, &[1.0, f32::from_bits(0x7fc0_0001)]));
    assert!(nan.findings[0].text.contains("nan (0x7fc00001), expected nan (0x7fc00000)"), "{:?}", nan.findings);
    let whole = after(text, |case, seen| case.set_f32(seen, "out", 0, &[2.0]));
    assert!(
        whole.findings[0].text.contains("`out[0]` after step 1 (all_gather) is 2, expected 1;"),
        "{:?}",
        whole.findings
    );
}

#[test]
fn a_wrong_word_about_the_ending_is_answered_with_the_right_one() {
    const STUCK: &str = "world_size = 3\ntimeout = 5\noutcome = \"error\"\ninputs.x = { each = \"rank\", count = 1 }\n\
        comms.part = { groups = [[2, 0]] }\n\
        steps = [{ op = \"all_reduce\", comm = \"part\", ranks = [0], in = \"x\", out = \"y\" }]\n";
    let hung = after(STUCK, |case, seen| {
        let part = case.plan.comms.iter().position(|comm| comm.name.as_deref() == Some("part")).unwrap();
        let waits = format!("communicator #{part}, operation number 1: rank 1 waits; communicator #99: so does rank 7");
        seen.ended = Ended::Hung { proved: true, opening: false, waits };
    });
    assert_eq!(advice(&hung.findings[0]), "the case hung; if that is right, write `outcome = \"hang\"`");
    let text = &hung.findings[0].text;
    assert!(text.starts_with("the case hung, expected an error (stuck: no rank can continue): "), "{text}");
    assert!(text.ends_with("communicator `part`, operation number 1: rank 1 waits; communicator #99: so does rank 7"));
    let sum = |line: &str| format!("{line}\n{ROUNDED}inputs = [[1], [2], [3]]\n");
    let fail = |_: &TestCase, seen: &mut Observation| {
        seen.ended = Ended::Errored;
        let text = "ncclAllReduce: invalid_argument: the root is 9".to_owned();
        seen.ranks[1].end = RankEnd::Error { prelude: false, call: Some(0), code: 4, text };
    };
    let failed = after(&sum("outcome = \"crash\""), fail);
    assert!(advice(&failed.findings[0]).contains("write `outcome = \"invalid_argument\"`"), "{:?}", failed.findings);
    let reason = after(&sum("outcome = \"error\"\nreason = \"count\""), fail);
    assert!(advice(&reason.findings[0]).ends_with("`reason = \"the root is 9\"`"), "{:?}", reason.findings);
    let fine = after(&sum("outcome = \"error\""), |_, _| {});
    assert!(advice(&fine.findings[0]).starts_with("delete `outcome`, or put `error`"), "{:?}", fine.findings);
    // The file does not state an outcome, so there is nothing to correct.
    assert_eq!(after(&sum(""), fail).findings[0].advice, None);
}

#[test]
fn buffers_are_shown_as_they_are() {
    let planned = planned_case(THREE_STEPS);
    let mut seen = planned.perfect();
    planned.set_f32(&mut seen, "z", 1, &[9.0]);
    let mut judge = CaseJudge::new(&planned.plan, &planned.forecast).showing_buffers(ShowBuffers::Always);
    judge.judge_run(seen);
    let text = judge.into_verdict(true).buffers.unwrap().to_string();
    assert!(text.starts_with("before\n  rank 0  x  [0, 1]\n  rank 1  x  [1, 2]\n"), "{text}");
    assert!(text.contains("\nafter\n  rank 0  y    [3, 6]\n"), "{text}");
    assert!(text.contains("\n  rank 1  z    [!9, 12]\n"), "{text}");
    assert!(text.ends_with("\n  (! marks what is wrong)\n"), "{text}");
    let mut judge = CaseJudge::new(&planned.plan, &planned.forecast).showing_buffers(ShowBuffers::Always);
    let mut hung = planned.perfect();
    hung.ended = Ended::Hung { proved: true, opening: false, waits: String::new() };
    hung.images.iter_mut().for_each(Vec::clear);
    judge.judge_run(hung);
    let text = judge.into_verdict(true).buffers.unwrap().to_string();
    assert!(text.contains("rank 2  x  [2, 3]\nafter: not known"), "{text}");
}

#[test]
fn buffers_of_failures_alone_are_shown_if_that_is_wanted() {
    let planned = planned_case(THREE_STEPS);
    let shown = |seen| {
        let judge = CaseJudge::new(&planned.plan, &planned.forecast);
        let mut judge = judge.showing_buffers(ShowBuffers::OfFailures);
        judge.judge_run(seen);
        judge.into_verdict(true).buffers.is_some()
    };
    assert!(!shown(planned.perfect()));
    let mut seen = planned.perfect();
    planned.set_f32(&mut seen, "z", 1, &[9.0]);
    assert!(shown(seen));
}

#[test]
fn a_result_that_follows_from_one_of_two_mistakes_is_under_neither() {
    let text = "world_size = 2\ninputs.x = [[1], [2]]\nsteps = [\n\
        { op = \"all_reduce\", in = \"x\", out = \"a\" },\n{ op = \"all_reduce\", in = \"x\", out = \"b\" },\n\
        { op = \"map\", expr = \"2 * b\", out = \"c\" },\n]\nexpect.b = { each = 3, count = 1 }\n";
    let verdict = after(text, |case, seen| {
        for rank in 0..2 {
            case.set_f32(seen, "a", rank, &[4.0]);
            case.set_f32(seen, "b", rank, &[5.0]);
            case.set_f32(seen, "c", rank, &[10.0]);
        }
    });
    assert!(verdict.findings.iter().all(|finding| finding.consequences.is_empty()), "{:#?}", verdict.findings);
    assert_eq!(verdict.findings.len(), 4, "a, b, c and the expectation: {:#?}", verdict.findings);
}

#[test]
fn other_elements_on_other_ranks_are_other_findings() {
    let text = "world_size = 2\nop = \"all_reduce\"\ninputs = { each = 1, count = 8 }\n";
    let verdict = after(text, |case, seen| {
        case.set_f32(seen, "out", 0, &[9.0, 2.0, 9.0, 2.0, 2.0, 2.0, 2.0, 9.0]);
        case.set_f32(seen, "out", 1, &[9.0, 2.0, 2.0, 9.0, 2.0, 2.0, 2.0, 9.0]);
    });
    let ranks: Vec<_> = verdict.findings.iter().filter(|f| f.step.is_some()).map(|f| f.ranks()).collect();
    assert_eq!(ranks, [[0], [1]], "{:#?}", verdict.findings);
}

#[test]
fn details_change_neither_lanes_nor_findings() {
    let text = "world_size = 5\nop = \"all_reduce\"\ncount = 40\ninputs = { random = { seed = 3 } }\n";
    let planned = planned_case(text);
    let mut near = planned.perfect();
    let mut far = planned.perfect();
    let right = [0, 1].map(|element| planned.get_f32(&mut near, "out", 1, element));
    planned.set_f32(&mut near, "out", 1, &[f32::from_bits(right[0].to_bits() + 5), right[1]]);
    planned.set_f32(&mut far, "out", 1, &[right[0] + 1.0, f32::NAN]);
    for (seen, status) in [(planned.perfect(), Status::Pass), (near, Status::Fail), (far, Status::Fail)] {
        let verdict = |details| {
            let mut judge = CaseJudge::new(&planned.plan, &planned.forecast).with_details(details);
            judge.judge_run(seen.clone());
            judge.into_verdict(true)
        };
        let essence = |verdict: &Verdict| format!("{:#?} {:#?} {:#?}", verdict.status, verdict.lanes, verdict.findings);
        let (none, fingerprint, all) =
            (verdict(Details::None), verdict(Details::Fingerprint), verdict(Details::OrderMaps));
        assert_eq!(none.status, status);
        assert_eq!(essence(&none), essence(&fingerprint));
        assert_eq!(essence(&none), essence(&all));
        assert!(none.fingerprint.is_none() && none.outputs.is_none() && fingerprint.order_maps.is_empty());
        assert!(fingerprint.outputs.is_some() && all.outputs.is_some());
        if status == Status::Pass {
            assert!(
                all.fingerprint.is_some_and(|print| fingerprint.fingerprint == Some(print))
                    && !all.order_maps.is_empty()
            );
        }
    }
}

#[test]
fn a_hang_is_placed_where_the_rank_is_that_came_least_far() {
    let text = "world_size = 3\ninputs.x = [[1], [2], [3]]\nsteps = [\n\
        { op = \"all_reduce\", in = \"x\", out = \"y\" },\n{ op = \"all_gather\", in = \"y\", out = \"z\" } ]\n";
    let collective = |case: &TestCase, rank: usize, wanted: usize| {
        let calls = case.plan.programs[rank].iter();
        let mut places = (0u32..).zip(calls).filter(|(_, call)| matches!(call.kind, CallKind::Collective { .. }));
        RankEnd::Running { call: places.nth(wanted).expect("a collective").0 }
    };
    let place = |ends: &dyn Fn(&TestCase) -> [RankEnd; 3]| {
        let verdict = after(text, |case, seen| {
            seen.ended = Ended::Hung { proved: true, opening: false, waits: String::new() };
            for (report, end) in seen.ranks.iter_mut().zip(ends(case)) {
                report.end = end;
            }
        });
        assert_eq!(verdict.status, Status::Fail);
        let finding = &verdict.findings[0];
        (finding.rank, finding.step.clone())
    };
    let behind_the_last_call =
        |case: &TestCase, rank: usize| RankEnd::Running { call: case.plan.programs[rank].len() as u32 };
    let in_the_second = Some("step 2 (all_gather)".to_owned());
    assert_eq!(
        place(&|case| [collective(case, 0, 1), collective(case, 1, 0), collective(case, 2, 1)]),
        (Some(1), Some("step 1 (all_reduce)".to_owned()))
    );
    assert_eq!(
        place(&|case| [behind_the_last_call(case, 0), collective(case, 1, 1), RankEnd::Done]),
        (Some(1), in_the_second.clone())
    );
    assert_eq!(
        place(&|case| [RankEnd::Done, RankEnd::Opening { call: None }, collective(case, 2, 0)]),
        (Some(1), None)
    );
    let failed = RankEnd::Error { prelude: false, call: None, code: 1, text: "no".into() };
    assert_eq!(place(&|case| [collective(case, 0, 0), collective(case, 1, 1), failed.clone()]), (Some(2), None));
}

/// A layer that returns a value it has not reduced: the assert says what its author wants.
#[test]
fn a_failed_assert_names_the_steps_that_last_wrote_its_buffers() {
    let text = "world_size = 2\ninputs.x = { each = \"10 * rank + i\", count = 8 }\nsteps = [\n\
                { op = \"map\", expr = \"x[i / 2]\", count = 8, out = \"packed\" },\n\
                { op = \"all_reduce\", in = \"packed\", out = \"packed\" },\n\
                { op = \"map\", expr = \"x[i / 2]\", count = 8, out = \"returned\" },\n]\nassert = [\"returned == packed + x * 0\"]\n";
    let words = "either the program or the assert is wrong; written last: `returned` by step 3 (map), `packed` by step 2 (all_reduce)";
    assert!(advice(&perfect(text).findings[0]).ends_with(words), "{:#?}", perfect(text).findings);
}

#[test]
fn a_changed_input_stands_at_the_steps_that_read_it() {
    let text = "world_size = 2\ninputs.a = { each = \"i\", count = 8 }\ninputs.b = { each = \"i\", count = 8 }\nsteps = [\n\
                { op = \"all_gather\", in = \"b\", out = \"c\" },\n\
                { op = \"reduce_scatter\", in = \"a\", out = \"d\" },\n\
                { op = \"all_reduce\", in = \"a\", out = \"e\" },\n]\n";
    let verdict = after(text, |case, seen| case.set_f32(seen, "a", 1, &[9.0]));
    let [finding] = verdict.findings.as_slice() else { panic!("{:#?}", verdict.findings) };
    assert_eq!(finding.step.as_deref(), Some("step 2 (reduce_scatter)"));
    assert!(finding.text.ends_with("; read by step 2 (reduce_scatter) and step 3 (all_reduce)"), "{finding:#?}");
    assert_eq!(finding.span.map(|span| &text[span.start..span.end]), Some("\"reduce_scatter\""));
    // A result that no step reads is reported at its own place.
    let unread = text.replace(
        "{ op = \"reduce_scatter\", in = \"a\", out = \"d\" }",
        "{ op = \"send\", peer = 1, in = \"a\", ranks = [0] }, { op = \"recv\", peer = 0, out = \"d\", ranks = [1] }",
    );
    let unread = unread.replace("in = \"a\", out = \"e\"", "in = \"b\", out = \"e\"");
    let verdict = after(&unread, |case, seen| case.set_f32(seen, "a", 1, &[9.0]));
    let place = verdict.findings[0].span.map(|span| unread[..span.start].lines().count());
    assert_eq!((verdict.findings[0].step.as_deref(), place), (None, Some(2)), "{:#?}", verdict.findings);
}

/// Every round is wrong independently.
#[test]
fn wrong_rounds_of_a_step_are_one_finding() {
    let text = "world_size = 2\ninputs.x = { each = \"rank + i\", count = 4 }\nsteps = [\n\
                { op = \"all_reduce\", in = \"x\", out = \"w\" },\n\
                { op = \"loop\", times = 300, steps = [\n\
                { op = \"map\", expr = \"rank + i + t\", count = 4, out = \"x2\" },\n\
                { op = \"all_reduce\", in = \"x2\", out = \"y\" },\n] }]\n";
    let verdict = after(text, |case, seen| {
        case.set_f32(seen, "w", 0, &[7.0]);
        for (checkpoint, bytes) in case.forecast.checkpoints.iter().zip(&mut seen.checkpoints) {
            if case.plan.buffers[checkpoint.write.region.buf].name == "y" {
                bytes[2] ^= 1;
            }
        }
    });
    let [first, rounds] = verdict.findings.as_slice() else { panic!("{:#?}", verdict.findings) };
    assert_eq!((first.buffer.as_deref(), first.rounds), (Some("w"), 1));
    assert_eq!((rounds.step.as_deref(), rounds.rounds), (Some("step 2.2 (all_reduce, round 0)"), 299));
    assert!(rounds.text.ends_with("; wrong in 299 rounds, of which this is the first"), "{rounds:#?}");
    assert_eq!(verdict.notes, Vec::<String>::new());
}

/// The hosts have issued everything; the library reports unfinished operations by their number on the communicator.
#[test]
fn a_proven_hang_is_placed_at_the_first_collective_that_has_not_ended() {
    let text = "world_size = 2\ninputs.x = { each = \"i\", count = 2 }\nsteps = [\n\
                { op = \"all_reduce\", in = \"x\", out = \"a\" },\n{ op = \"all_gather\", in = \"x\", out = \"b\" },\n\
                { op = \"broadcast\", in = \"x\", out = \"c\", root = 0 },\n]\n";
    let waits = "communicator #0, all_gather of 2 f32 (number 2): rank 0 waits for its stream (1 later call is queued after it)\n\
                 communicator #0, broadcast of 2 f32 (number 3): rank 1 waits for its stream";
    let place = |reused: bool| {
        let verdict = after(text, |case, seen| {
            seen.ended = Ended::Hung { proved: true, opening: false, waits: waits.into() };
            seen.reused = reused;
            for (rank, report) in seen.ranks.iter_mut().enumerate() {
                report.end = RankEnd::Running { call: case.plan.programs[rank].len() as u32 - 1 };
            }
        });
        (verdict.findings[0].ranks(), verdict.findings[0].step.clone().unwrap_or_default())
    };
    assert_eq!(place(false), (vec![0], "step 2 (all_gather)".to_owned()));
    // On communicators of an earlier case the numbers are meaningless.
    assert_eq!(place(true), (vec![0, 1], "step 3 (broadcast)".to_owned()));
}

#[test]
fn a_hang_that_is_expected_is_explained_if_ranks_have_called_other_operations() {
    let text = "world_size = 2\noutcome = \"hang\"\ninputs.x = { each = \"i\", count = 2 }\nsteps = [\n\
                { op = \"all_reduce\", in = \"x\", out = \"a\", ranks = [0] },\n\
                { op = \"all_gather\", in = \"x\", out = \"b\", ranks = [1] },\n]\n";
    let notes = |waits: &str| {
        let verdict = after(text, |_, seen| {
            seen.ended = Ended::Hung { proved: true, opening: false, waits: waits.into() };
            seen.ranks.iter_mut().for_each(|report| report.end = RankEnd::Running { call: 0 });
        });
        assert_eq!(verdict.status, Status::Pass, "{:#?}", verdict.findings);
        verdict.notes.into_iter().filter(|note| !note.starts_with("foreseen")).collect::<Vec<_>>()
    };
    let disagree = "communicator #0, operation number 1: the ranks disagree: rank 0 asked for a; rank 1 asked for b";
    assert!(matches!(&notes(disagree)[..], [note] if note.contains("the ranks disagree: rank 0 asked for a")));
    assert_eq!(notes("communicator #0, all_reduce of 2 f32 (number 1): rank 0 waits for rank 1"), Vec::<String>::new());
}
