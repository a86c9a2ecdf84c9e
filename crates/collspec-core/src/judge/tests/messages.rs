//! Texts of findings on wrong results and endings; snapshots and outputs.
use crate::job::{Ended, Observation};
use crate::job::{NO_KERNEL_MOVES, RankEnd};
use crate::judge::test_case::{TestCase, cases, planned_case, traffic, try_planned_case};
use crate::judge::{Outcome, Status, judge_refusal, missing_refusal, skipped};

const ADD: &str = r#"
description = "Sums."
world_size = 3
op = "all_reduce"
inputs = [[1, 2, 3, 4, 5, 6], [10, 20, 30, 40, 50, 60], [100, 200, 300, 400, 500, 600]]
"#;

/// The text of the first finding after a change on rank 1's `out`.
fn said(planned: &TestCase, change: impl Fn(&TestCase, &mut Observation)) -> String {
    let mut seen = planned.perfect();
    change(planned, &mut seen);
    let verdict = planned.judge(&[seen]);
    assert_eq!(verdict.status, Status::Fail);
    assert_eq!(verdict.reason.as_ref(), Some(&verdict.findings[0].text));
    verdict.findings[0].text.clone()
}

#[test]
fn patterns_of_sums() {
    let planned = planned_case(ADD);
    let row = |values: [f32; 6]| said(&planned, |b, seen| b.set_f32(seen, "out", 1, &values));
    let missing = row([11.0, 22.0, 33.0, 44.0, 55.0, 66.0]);
    assert!(missing.contains("rank 1: `out[0]` after step 1 (all_reduce) is 11, expected 111"), "{missing}");
    assert!(missing.contains("all 6 elements wrong: the contribution of rank 2 is missing"), "{missing}");
    let doubled = row([112.0, 224.0, 336.0, 448.0, 560.0, 672.0]);
    assert!(
        doubled.contains("all 6 elements wrong: the contribution of rank 0 counts twice")
            || doubled.contains("rank 0 counts"),
        "{doubled}"
    );
    let own = row([10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
    assert!(own.contains("they equal the rank's own input"), "{own}");
    let tail = row([111.0, 222.0, 333.0, 444.0, 1.0, 2.0]);
    assert!(tail.contains("2 of 6 elements wrong: the tail, the last 2 elements"), "{tail}");
    let strided = row([111.0, 1.0, 333.0, 1.0, 555.0, 1.0]);
    assert!(strided.contains("3 of 6 elements wrong: every second element from 1 to 5"), "{strided}");
    let block = row([111.0, 1.0, 1.0, 444.0, 555.0, 666.0]);
    assert!(block.contains("a block, elements 1 to 2"), "{block}");
    let poison = said(&planned, |b, seen| {
        let place = b.plan.buffers.iter().find(|b| b.name == "out").and_then(|o| o.places[1]).expect("out");
        seen.images[place.alloc] = b.forecast.initial[place.alloc].to_vec();
    });
    assert!(poison.contains("nothing was written"), "{poison}");
}

#[test]
fn patterns_of_movement() {
    let planned = planned_case("world_size = 3\nop = \"all_gather\"\ninputs = [[1, 2], [3, 4], [5, 6]]\n");
    let row = |values: [f32; 6]| said(&planned, |b, seen| b.set_f32(seen, "out", 1, &values));
    let rotated = row([3.0, 4.0, 5.0, 6.0, 1.0, 2.0]);
    assert!(rotated.contains("the ranks' blocks are rotated by 1"), "{rotated}");
    let swapped = row([3.0, 4.0, 1.0, 2.0, 5.0, 6.0]);
    assert!(swapped.contains("the ranks' blocks stand in the order 1 0 2"), "{swapped}");
    let copied = row([1.0, 2.0, 1.0, 2.0, 5.0, 6.0]);
    assert!(copied.contains("block 1 holds the data of rank 0"), "{copied}");
}

#[test]
fn a_block_of_another_rank() {
    let planned = planned_case("world_size = 2\nop = \"reduce_scatter\"\ninputs = [[1, 2, 3, 4], [3, 5, 3, 2]]\n");
    let text = said(&planned, |b, seen| b.set_f32(seen, "out", 1, &[4.0, 7.0]));
    assert!(text.contains("all 2 elements wrong: the rank holds the block of rank 0"), "{text}");
}

#[test]
fn one_value_proves_no_cause() {
    let text =
        |file: &str, out: &str, value: f32| said(&planned_case(file), |b, seen| b.set_f32(seen, out, 1, &[value]));
    let block = text("world_size = 2\nop = \"reduce_scatter\"\ninputs = [[1, 2], [3, 5]]\n", "out", 4.0);
    assert!(block.contains("the only element: they equal the block of rank 0"), "{block}");
    let sum = "world_size = 3\nop = \"all_reduce\"\ninputs = [[1], [10], [100]]\n";
    assert!(text(sum, "out", 11.0).ends_with("the only element: as if the contribution of rank 2 were missing"));
    assert!(text(sum, "out", 112.0).ends_with("the only element: as if the contribution of rank 0 counted twice"));
    let steps = "{ op = \"map\", expr = \"x + 7\", out = \"y\" }, { op = \"all_reduce\", in = \"x\", out = \"y\" }";
    let stale = text(&format!("world_size = 2\ninputs.x = [[1], [2]]\nsteps = [{steps}]\n"), "y", 9.0);
    assert!(stale.ends_with("the only element: they equal the values from before this step"), "{stale}");
    // Where zeros are right the poison is -1, which a library may have written.
    let zeros = "world_size = 2\nop = \"all_reduce\"\ndtype = \"i32\"\ninputs = [[0], [0]]\n";
    let poison = said(&planned_case(zeros), |b, seen| b.element(seen, "out", 1, 0).fill(0xff));
    assert!(poison.ends_with("the only element: they hold the poison they started with"), "{poison}");
}

#[test]
fn no_rank_is_named_where_several_explain_the_values() {
    let equal = planned_case("world_size = 3\nop = \"all_reduce\"\ninputs = { each = \"i + 1\", count = 3 }\n");
    let text = said(&equal, |b, seen| b.set_f32(seen, "out", 1, &[2.0, 4.0, 6.0]));
    assert!(text.ends_with("all 3 elements wrong"), "{text}");
    let gathered = "world_size = 4\nop = \"all_gather\"\ninputs = [[1, 2], [3, 4], [1, 2], [3, 4]]\n";
    let row = |values: &[f32]| said(&planned_case(gathered), |b, seen| b.set_f32(seen, "out", 1, values));
    let rotated = row(&[3.0, 4.0, 1.0, 2.0, 3.0, 4.0, 1.0, 2.0]);
    assert!(rotated.ends_with("all 8 elements wrong"), "{rotated}");
    let copied = row(&[1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 3.0, 4.0]);
    assert!(copied.ends_with("2 of 8 elements wrong: a block, elements 2 to 3"), "{copied}");
}

#[test]
fn a_pattern_is_said_only_of_ranks_on_which_it_was_found() {
    let in_place = |inputs: &str, value: f32| {
        let planned = planned_case(&format!(
            "world_size = 3\ninputs.x = {inputs}\nsteps = [{{ op = \"all_reduce\", in = \"x\", out = \"x\" }}]\n"
        ));
        let mut seen = planned.perfect();
        for rank in 0..3 {
            planned.set_f32(&mut seen, "x", rank, &[value, value + 1.0]);
        }
        planned.judge(&[seen]).findings
    };
    // Only rank 0 still has its old values, and by chance: all ranks have the same values.
    for inputs in ["[[0, 1], [3, 7], [5, 11]]", "[[3, 7], [0, 1], [5, 11]]", "[[3, 7], [5, 11], [0, 1]]"] {
        let findings = in_place(inputs, 0.0);
        let [finding] = findings.as_slice() else { panic!("{findings:#?}") };
        assert_eq!(finding.pattern, None);
        assert_eq!(
            finding.text,
            "ranks 0 to 2: `x[0]` after step 1 (all_reduce) is 0, expected 8; all 2 elements wrong"
        );
    }
    // The same with many ranks, and where it holds for all.
    let many = planned_case(
        "world_size = 40\ninputs.x = { each = \"i\", count = 3 }\nsteps = [{ op = \"map\", expr = \"x + 1\", out = \"y\" }, { op = \"all_reduce\", in = \"x\", out = \"y\" }]\n",
    );
    let verdict = |odd: Option<usize>| {
        let mut seen = many.perfect();
        for rank in 0..40 {
            many.set_f32(&mut seen, "y", rank, &[1.0, 2.0, if odd == Some(rank) { 9.0 } else { 3.0 }]);
        }
        many.judge(&[seen]).findings
    };
    let all = verdict(None);
    let [finding] = all.as_slice() else { panic!("{all:#?}") };
    assert!(
        finding.text.starts_with("ranks 0 to 39")
            && finding.text.ends_with("stale: they still hold the values from before this step")
    );
    let but_one = verdict(Some(37));
    let [finding] = but_one.as_slice() else { panic!("{but_one:#?}") };
    assert!(
        finding.text.starts_with("ranks 0 to 39") && finding.text.ends_with("all 3 elements wrong"),
        "{finding:#?}"
    );
}

#[test]
fn stale_data() {
    let planned = planned_case(
        "world_size = 2\ninputs.x = { each = \"rank + i\", count = 2 }\nsteps = [{ op = \"map\", expr = \"x + 7\", out = \"y\" }, { op = \"all_reduce\", in = \"x\", out = \"y\" }]\n",
    );
    let text = said(&planned, |b, seen| b.set_f32(seen, "y", 0, &[7.0, 8.0]));
    assert!(text.contains("stale: they still hold the values from before this step"), "{text}");
}

/// Three equal steps; the first and the last write `y`.
#[test]
fn a_mistake_that_is_made_again_is_not_stale_data() {
    let step = |out: &str| format!("{{ op = \"all_reduce\", in = \"x\", out = \"{out}\", reduce = \"avg\" }}");
    let planned = planned_case(&format!(
        "world_size = 3\ninputs.x = {{ each = \"2 ^ rank * (i + 1)\", count = 4 }}\nsteps = [{}, {}, {}]\n",
        step("y"),
        step("z"),
        step("y")
    ));
    let patterns = |first: &[f32], last: &[f32]| {
        let mut seen = planned.perfect();
        for rank in 0..3 {
            planned.set_f32(&mut seen, "y", rank, last);
        }
        let bytes: Vec<u8> = first.iter().flat_map(|value| value.to_le_bytes()).collect();
        seen.checkpoints.iter_mut().for_each(|copy| copy.clone_from(&bytes));
        planned.judge(&[seen]).findings.into_iter().map(|finding| finding.pattern).collect::<Vec<_>>()
    };
    let wrong = [3.5, 7.0, 10.5, 14.0];
    assert_eq!(patterns(&wrong, &wrong), [None, Some("they equal the values from before this step".to_owned())]);
    // A cause that explains both is reported for both.
    let own = planned_case(
        "world_size = 2\ninputs.x = { each = \"rank + i + 1\", count = 4 }\nsteps = [\n\
         { op = \"broadcast\", in = \"x\", out = \"y\", root = 0 },\n{ op = \"all_reduce\", in = \"x\", out = \"y\" },\n]\n",
    );
    // Rank 0 has its own input in `y` before, and after a step that forgets the other rank.
    let text = said(&own, |b, seen| b.set_f32(seen, "y", 0, &[1.0, 2.0, 3.0, 4.0]));
    assert!(text.ends_with("they equal the values from before this step"), "{text}");
}

#[test]
fn guards_and_inputs() {
    let planned = planned_case(ADD);
    let input = said(&planned, |b, seen| b.set_f32(seen, "in", 2, &[101.0]));
    assert!(input.starts_with("rank 2: input `in` modified: element 0 is 101"), "{input}");
    let guard = said(&planned, |b, seen| {
        let place = b.plan.buffers.iter().find(|b| b.name == "in").and_then(|o| o.places[2]).expect("in");
        let end = (b.plan.allocs[place.alloc].start() + b.plan.allocs[place.alloc].payload) as usize;
        seen.images[place.alloc][end + 3] ^= 1;
    });
    assert!(guard.starts_with("rank 2: guard band after `in` overwritten at byte +3"), "{guard}");
    let before = said(&planned, |b, seen| {
        let place = b.plan.buffers.iter().find(|b| b.name == "in").and_then(|o| o.places[0]).expect("in");
        seen.images[place.alloc][b.plan.allocs[place.alloc].start() as usize - 1] ^= 1;
    });
    assert!(before.starts_with("rank 0: guard band before `in` overwritten at byte -1"), "{before}");
}

#[test]
fn endings() {
    let ending = |text: &str, change: &dyn Fn(&mut Observation)| {
        let planned = planned_case(text);
        let mut seen = planned.perfect();
        change(&mut seen);
        planned.judge(&[seen])
    };
    let fail = |seen: &mut Observation| {
        seen.ended = Ended::Errored;
        seen.images.iter_mut().for_each(Vec::clear);
        let text = "all_reduce: invalid argument: bad root".to_owned();
        seen.ranks[1].end = RankEnd::Error { prelude: false, call: Some(0), code: 4, text };
    };
    let verdict = ending(ADD, &fail);
    assert_eq!((verdict.status, verdict.outcome), (Status::Fail, Some(Outcome::Error)));
    assert!(
        verdict.findings[0].text.contains("rank 1 at step 1 (all_reduce): invalid_argument"),
        "{:?}",
        verdict.findings
    );
    for (line, status) in [
        ("outcome = \"error\"", Status::Pass),
        ("outcome = \"invalid_argument\"\nreason = \"bad root\"", Status::Pass),
        ("outcome = [\"ok\", \"error\"]", Status::Pass),
        ("outcome = \"invalid_usage\"", Status::Fail),
        ("outcome = \"invalid_argument\"\nreason = \"bad count\"", Status::Fail),
        ("outcome = \"crash\"", Status::Fail),
    ] {
        let verdict = ending(&format!("{line}\n{ADD}"), &fail);
        assert_eq!(verdict.status, status, "{line}: {:?}", verdict.findings);
    }
    let die = |seen: &mut Observation| {
        seen.ended = Ended::Crashed { how: "signal 11 (SIGSEGV)".into(), opening: false };
        seen.ranks.clear();
    };
    assert!(ending(ADD, &die).findings[0].text.contains("signal 11"));
    assert_eq!(ending(&format!("outcome = \"crash\"\n{ADD}"), &die).status, Status::Pass);
    let hang = |seen: &mut Observation| {
        seen.ended = Ended::Hung { proved: true, opening: false, waits: "rank 0 waits for rank 1".into() };
    };
    let verdict = ending(ADD, &hang);
    assert_eq!(verdict.outcome, Some(Outcome::Hang));
    assert!(verdict.findings[0].text.contains("rank 0 waits for rank 1"), "{:?}", verdict.findings);
    // On software GPUs: the ranks on the line, and the positions in a note.
    let waits = format!(
        "{NO_KERNEL_MOVES}\n  rank 0: a kernel\n    a warp polls\nrank 0 waits for rank 1\nrank 1 runs no kernel"
    );
    let hang = |seen: &mut Observation| {
        seen.ended = Ended::Hung { proved: true, opening: false, waits: waits.clone() };
    };
    let verdict = ending(ADD, &hang);
    let text = &verdict.findings[0].text;
    assert!(text.ends_with("; rank 0 waits for rank 1; rank 1 runs no kernel"), "{text}");
    assert!(verdict.notes.contains(&waits), "{:?}", verdict.notes);
    // A run that finishes although an error is expected.
    let verdict = ending(&format!("outcome = \"error\"\n{ADD}"), &|_| {});
    assert_eq!(verdict.status, Status::Fail);
    assert!(
        verdict.findings[0].text.contains("ended without an error, but `outcome` says `error`"),
        "{:?}",
        verdict.findings
    );
}

#[test]
fn codes_of_steps() {
    let text = r#"
world_size = 2
inputs.x = { each = "rank + i", count = 2 }
steps = [
  { op = "broadcast", root = 5, in = "x", out = "y", error = "invalid_argument" },
  { op = "all_reduce", in = "x", out = "z" },
]
"#;
    let planned = planned_case(text);
    let right = planned.perfect();
    assert!(!right.ranks[0].codes.is_empty());
    let verdict = planned.judge(std::slice::from_ref(&right));
    assert_eq!(verdict.status, Status::Pass, "{:#?}", verdict.findings);
    let mut none = right.clone();
    none.ranks[1].codes.clear();
    let verdict = planned.judge(&[none]);
    assert!(verdict.findings[0].text.contains("returned ok, expected invalid_argument"), "{:?}", verdict.findings);
    assert_eq!(verdict.findings[0].rank, Some(1));
    let mut other = right.clone();
    other.ranks[0].codes[0].1 = 5;
    assert_eq!(planned.judge(&[other]).status, Status::Fail);
    let mut more = right;
    let last = planned.plan.programs[0].len() as u32 - 1;
    more.ranks[0].codes.push((last, 3, "surprise".into()));
    assert_eq!(planned.judge(&[more]).status, Status::Fail);
}

#[test]
fn assertions() {
    let text = |assert: &str| {
        let name = if assert.contains("sum.") { ", name = \"sum\"" } else { "" };
        format!(
            "world_size = 2\ninputs.x = {{ each = \"rank + i\", count = 3 }}\nsteps = [{{ op = \"all_reduce\", in = \"x\", out = \"y\"{name} }}]\nassert = ['{assert}']\n"
        )
    };
    let verdict = |assert: &str, rounds| {
        let planned = planned_case(&text(assert));
        let mut seen = planned.perfect();
        for figure in seen.ranks.iter_mut().flat_map(|r| &mut r.figures) {
            figure.traffic = rounds;
        }
        planned.judge(&[seen])
    };
    for right in ["y == 2 * i + 1", "y[2] == 5", "same(y, y)", "sum.seconds < 1", "abs(y - 2 * x) <= 1"] {
        let verdict = verdict(right, None);
        assert_eq!(verdict.status, Status::Pass, "{right}: {:#?}", verdict.findings);
        assert!(verdict.notes.is_empty(), "{:?}", verdict.notes);
    }
    for wrong in ["y < 5", "same(x, y)", "y[y] == 0", "sum.seconds > 1", "y[0] / 0 != y[0] / 0", "0"] {
        let verdict = verdict(wrong, None);
        assert_eq!(verdict.status, Status::Fail, "{wrong}");
        assert!(verdict.findings[0].text.contains(wrong), "{:?}", verdict.findings);
    }
    let said = &verdict("y < 5", None).findings[0].text;
    assert!(said.contains("does not hold for element 2 (1 of 3 elements): 5 < 5, where y[2] is 5"), "{said}");
    assert_eq!(verdict("sum.rounds == 2", traffic(2, 4)).status, Status::Pass);
    assert_eq!(verdict("sum.sent == 2", traffic(2, 4)).status, Status::Fail);
    let unseen = verdict("sum.rounds == 2", None);
    assert_eq!(unseen.status, Status::Pass);
    assert!(unseen.notes[0].contains("not checked"), "{:?}", unseen.notes);
}

/// A snapshot becomes a file that people read in a terminal.
#[test]
fn a_description_is_escaped_in_the_snapshot() {
    let text = "description = \"one\\u001b[8m\\ntwo\"\nworld_size = 1\nop = \"all_reduce\"\ninputs = [[1]]\n";
    let planned = planned_case(text);
    let snapshot = planned.judge(&[planned.perfect()]).snapshot.unwrap();
    assert!(snapshot.starts_with("one\\u{1b}[8m\ntwo\n\n"), "{snapshot:?}");
}

#[test]
fn refusals() {
    let text = "world_size = 4\nop = \"reduce_scatter\"\ninputs = { each = \"rank\", count = 2 }\n";
    let with = |more: &str| {
        let case = &cases(&format!("{more}\n{text}"))[0];
        let diagnostics = try_planned_case(case).err().expect("refused");
        judge_refusal(case, &diagnostics)
    };
    assert_eq!(with("outcome = \"refused\"\nreason = \"not a multiple of 4\"").status, Status::Pass);
    assert_eq!(with("outcome = \"refused\"").outcome, Some(Outcome::Refused));
    assert_eq!(with("outcome = \"refused\"\nreason = \"no such reason\"").status, Status::Fail);
    let plain = with("");
    assert_eq!(plain.status, Status::Fail);
    assert!(plain.findings[0].span.is_some());
    let fine = &cases(&format!("outcome = \"refused\"\n{ADD}"))[0];
    assert_eq!(missing_refusal(fine).expect("a verdict").status, Status::Fail);
    assert!(missing_refusal(&cases(ADD)[0]).is_none());
    assert_eq!(skipped(fine, "no GPU").status, Status::Skip);
}

#[test]
fn forecasts_refuse_what_cannot_be() {
    let refusal = |text: &str| {
        let case = &cases(text)[0];
        try_planned_case(case).err().expect("refused")[0].message.clone()
    };
    let outside = "world_size = 2\ninputs.x = { each = \"i\", count = 3 }\nsteps = [{ op = \"map\", expr = \"x[i + 1]\", out = \"y\" }]\n";
    assert!(refusal(outside).contains("`x[3]` is outside the buffer, which has 3 elements"), "{}", refusal(outside));
    let zero = "world_size = 2\ninputs.x = { each = \"i\", count = 3, dtype = \"i32\" }\nsteps = [{ op = \"map\", expr = \"1 / x\", out = \"y\" }]\n";
    assert!(refusal(zero).contains("division of 1 by zero"), "{}", refusal(zero));
    let unwritten = "world_size = 2\ninputs.x = { count = 3 }\nop = \"all_reduce\"\n".replace("inputs.x", "inputs");
    assert!(refusal(&unwritten).contains("no step has written it"), "{}", refusal(&unwritten));
}

#[test]
fn a_mistake_of_several_ranks_is_told_once() {
    let told = |text: &str| {
        let found = try_planned_case(&cases(text)[0]).err().expect("refused");
        found.into_iter().map(|diagnostic| diagnostic.message).collect::<Vec<_>>()
    };
    let with = |expr: &str| {
        let inputs = "inputs.x = { each = \"7\", count = 4, dtype = \"i32\" }";
        format!("world_size = 3\n{inputs}\nsteps = [{{ op = \"map\", expr = \"{expr}\", out = \"y\" }}]\n")
    };
    let outside = "`x[i + 5]` for element 0: `x[5]` is outside the buffer, which has 4 elements";
    assert_eq!(told(&with("x[i + 5]")), [format!("ranks 0, 1, 2: {outside}")]);
    // What differs stays apart, and a rank without the mistake is not named.
    let zero = |rank: u32, at: i32| format!("rank {rank}: `x / (i - rank)` for element {at}: division of 7 by zero");
    assert_eq!(told(&with("x / (i - rank)")), [zero(0, 0), zero(1, 1), zero(2, 2)]);
    let some = "`x / max(1 - rank, 0)` for element 0: division of 7 by zero";
    assert_eq!(told(&with("x / max(1 - rank, 0)")), [format!("ranks 1, 2: {some}")]);
    let input = with("x").replace("each = \"7\"", "each = \"1 / (rank - rank)\"");
    assert_eq!(told(&input).len(), 1, "{:?}", told(&input));
}

#[test]
fn snapshots() {
    let planned = planned_case(
        "description = \"Two.\"\nworld_size = 3\ninputs.x = [[1e8], [1], [-1e8]]\nsteps = [{ op = \"reduce\", in = \"x\", out = \"sum\" }, { op = \"broadcast\", root = 1, in = \"x\", out = \"one\" }]\n",
    );
    let mut seen = planned.perfect();
    let text = planned.judge(std::slice::from_ref(&seen)).snapshot.expect("a snapshot");
    let canonical = planned.get_f32(&mut seen, "sum", 0, 0);
    let expected = format!(
        "Two.\n\nbefore\n  rank 0  x  [100000000]\n  rank 1  x  [1]\n  rank 2  x  [-100000000]\nafter\n  rank 0  sum  [~{canonical}]\n  rank 0  one  [1]\n  rank 1  sum  untouched\n  rank 1  one  [1]\n  rank 2  sum  untouched\n  rank 2  one  [1]\n"
    );
    assert_eq!(text, expected);
    // Another right value does not matter; a wrong one is shown unchanged.
    planned.set_f32(&mut seen, "sum", 0, &[1.0 - canonical]);
    let verdict = planned.judge(std::slice::from_ref(&seen));
    assert_eq!((verdict.status, verdict.snapshot.as_ref()), (Status::Pass, Some(&expected)));
    planned.set_f32(&mut seen, "sum", 0, &[3.0]);
    planned.set_f32(&mut seen, "one", 2, &[4.0]);
    let wrong = planned.judge(&[seen]).snapshot.expect("a snapshot");
    assert_eq!(wrong, expected.replace(&format!("~{canonical}"), "3").replace("rank 2  one  [1]", "rank 2  one  [4]"));
}

#[test]
fn outputs_for_machines() {
    let json = |text: &str| {
        let planned = planned_case(text);
        let verdict = planned.judge(&[planned.perfect()]);
        assert_eq!(verdict.status, Status::Pass, "{:#?}", verdict.findings);
        serde_json::to_string(&verdict.outputs).expect("json")
    };
    assert_eq!(
        json("world_size = 2\nop = \"reduce_scatter\"\ninputs = [[1, 2], [3, 4]]\n"),
        r#"[["out",[[4.0],[6.0]]]]"#
    );
    assert_eq!(
        json("world_size = 2\nop = \"reduce\"\nroot = 1\ninputs = [[1], [0.25]]\n"),
        r#"[["out",[null,[1.25]]]]"#
    );
    // The exact value of the bits as a double: 0.1 in bf16 is more than a tenth.
    let exact = "world_size = 1\nop = \"all_reduce\"\ninputs = { each = 0.1, count = 1, dtype = \"bf16\" }\n";
    assert_eq!(json(exact), r#"[["out",[[0.10009765625]]]]"#);
    let special = "world_size = 2\nop = \"broadcast\"\ninputs = [[nan, inf, -0.0], []]\n";
    assert_eq!(json(special), r#"[["out",[["nan","inf",-0.0],["nan","inf",-0.0]]]]"#);
    let large =
        "world_size = 1\nop = \"all_reduce\"\ninputs = { each = [\"18446744073709551615\"], dtype = \"u64\" }\n";
    assert_eq!(json(large), r#"[["out",[[18446744073709551615]]]]"#);
    assert_eq!(json("world_size = 1\nop = \"all_reduce\"\ninputs = { each = 1, count = 4097 }\n"), "null");
}
