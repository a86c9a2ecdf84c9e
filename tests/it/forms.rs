//! Forms from file to report: which are made, that all give the same results, and what is reported if they do not.

use crate::support::Home;
use collspec_core::judge::{Status, Verdict};
use collspec_core::plan::{self, Limits};
use collspec_core::scenario::{Case, forms};
use collspec_run::child::Workers;
use collspec_suite::suite::{CaseSet, Forms, Reading, parallel};
use collspec_suite::suite::{RunOptions, Runner};
use serde_json::Value;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Everything a form can change, in one program.
const PROGRAM: &str = r#"
world_size = 5
comms.odd = { color = "rank % 2", key = "-rank" }
inputs.x = { each = "10 * world_rank + i", count = 7 }
inputs.y = { random = { seed = 3 }, count = "2 + rank", dtype = "f16" }
inputs.z = { text = "rank {rank} of {n}" }
steps = [
  { op = "all_reduce", in = "x", out = "sum", name = "s" },
  { op = "all_gather_v", in = "y", out = "ys" },
  { op = "reduce", root = 3, in = "sum", out = "top", reduce = "max" },
  { op = "broadcast", root = 4, in = "z", out = "text", comm = "world" },
  { op = "map", expr = "sum * (world_rank + 1)", out = "m" },
  { op = "loop", times = 2, steps = [
    { op = "send_recv", comm = "odd", to = "(rank + 1) % n", from = "(rank + n - 1) % n", in = "m", out = "r[7 * t : 7 * t + 7]" },
  ] },
  { op = "barrier" },
  { op = "all_reduce", comm = "odd", in = "m", out = "o", reduce = "min" },
]
assert = ["s.rounds > 0", "world_rank >= 0 * sum[0]"]
"#;

fn suite(text: &str, wanted: &str) -> CaseSet {
    let home = Home::new();
    home.file("f.toml", text);
    CaseSet::open_in(&[home.path("f.toml")], &Forms::parse(wanted).unwrap()).unwrap()
}

fn verdicts(suite: &CaseSet) -> Vec<Verdict> {
    let shown: Vec<String> = suite.invalid_files.iter().map(|faulty| faulty.render(false)).collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
    let worker = Workers::Command(env!("CARGO_BIN_EXE_collspec").into());
    let runner =
        Runner::soft(RunOptions { jobs: NonZeroUsize::new(2), workers: worker, ..RunOptions::default() }).unwrap();
    parallel::map(&suite.cases, 2, |case| runner.run_case(case))
}

fn form_of(case: &Arc<Case>) -> &'static str {
    case.form.as_ref().map_or("plain", |derived| derived.form.name)
}

#[test]
fn every_form_of_a_program_comes_out_as_the_file_says() {
    let suite = suite(PROGRAM, "all");
    let verdicts = verdicts(&suite);
    let mut made: Vec<&str> = suite.cases.iter().map(form_of).collect();
    made.sort_unstable();
    let mut all = forms::names();
    all.push("plain");
    all.sort_unstable();
    assert_eq!(made, all);
    let plain = suite.cases.iter().position(|case| case.form.is_none()).map(|at| &verdicts[at]).unwrap();
    for (case, verdict) in suite.cases.iter().zip(&verdicts) {
        let form = form_of(case);
        assert_eq!(verdict.status, Status::Pass, "{form}: {:?}", verdict.reason);
        // off the root of the reduce, `top` then holds the input
        if form != "in_place" {
            assert_eq!(verdict.outputs, plain.outputs, "{form}");
            assert_eq!(verdict.snapshot, plain.snapshot, "{form}");
        }
    }
}

#[test]
fn forms_that_a_file_names_are_made_without_asking() {
    let home = Home::new();
    home.file("s/a.toml", &format!("forms = [\"tree\", \"sub\"]\n{}", crate::support::SUM));
    home.file("s/b.toml", crate::support::SUM);
    let names = |suite: &CaseSet| {
        let mut names: Vec<String> = suite.cases.iter().map(|case| case.name.clone()).collect();
        names.sort();
        names
    };
    let root = home.path("s");
    assert_eq!(names(&CaseSet::open(&[&root]).unwrap()), ["a", "a[form=sub]", "a[form=tree]", "b"]);
    let wanted = Forms::parse("ring").unwrap();
    assert_eq!(names(&CaseSet::open_in(&[&root], &wanted).unwrap()), ["a", "a[form=ring]", "b", "b[form=ring]"]);
    let none = Forms::parse("none").unwrap();
    assert_eq!(names(&CaseSet::open_in(&[&root], &none).unwrap()), ["a", "b"]);
    let exact = |name: &str, forms: &Forms| names(&CaseSet::open_exact(&root, name, &forms.into()).unwrap());
    assert_eq!(exact("a[form=tree]", &Forms::Named), ["a[form=tree]"]);
    assert!(exact("b[form=ring]", &Forms::Named).is_empty());
    assert_eq!(exact("b[form=ring]", &wanted), ["b[form=ring]"]);
}

#[test]
fn a_form_that_no_case_of_its_file_can_take_is_a_fault_with_its_place() {
    let home = Home::new();
    home.file("a.toml", "world_size = 2\nop = \"all_gather\"\nforms = [\"ring\", \"tree\"]\ninputs = [[1], [2]]\n");
    for command in ["run", "check"] {
        let run = home.run(&[command, "a.toml"]);
        assert_eq!(run.code, 2, "{run}");
        assert!(
            run.err.contains("a.toml:3:18") && run.err.contains("no case of this file can take the form `tree`"),
            "{run}"
        );
        assert!(run.err.contains("none of its operations has that algorithm"), "{run}");
    }
    // one that can is enough
    let two = "matrix.op = [\"all_gather\", \"all_reduce\"]\nworld_size = 2\nforms = \"tree\"\ninputs = [[1], [2]]\n";
    home.file("b.toml", two);
    let run = home.run(&["run", "b.toml", "-v"]);
    assert_eq!(run.code, 0, "{run}");
    assert!(run.out.contains("pass b[op=all_reduce,form=tree]") && run.out.contains("3 passed"), "{run}");
}

#[test]
fn unknown_forms_are_refused_on_the_command_line() {
    let home = Home::new();
    home.file("a.toml", crate::support::SUM);
    let run = home.run(&["run", "a.toml", "--forms", "tree,rnig"]);
    assert_eq!(run.code, 2, "{run}");
    assert!(run.err.contains("did you mean ring?") && run.err.contains("misaligned"), "{run}");
}

#[test]
fn lines_carry_the_form_and_forms_that_disagree_are_told() {
    let home = Home::new();
    // the forms of algorithms drop the assertion about rounds; all other forms find that it is wrong
    let text = "world_size = 2\ninputs.x = [[1, 2], [3, 4]]\nsteps = [{ op = \"all_reduce\", in = \"x\", out = \"y\", name = \"s\" }]\nassert = [\"s.rounds == 99\"]\n";
    home.file("a.toml", text);
    let run = home.run(&["run", "a.toml", "--forms", "tree,sub"]);
    assert_eq!(run.code, 1, "{run}");
    assert!(run.out.contains("forms disagree a: form tree passes, plain and form sub fail\n"), "{run}");
    assert!(run.out.contains("collspec run a.toml --forms sub --exact --filter 'a[form=sub]'"), "{run}");
    let run = home.run(&["run", "a.toml", "--forms", "tree,sub", "--format", "jsonl"]);
    let mut lines: Vec<Value> = run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.pop().is_some_and(|last| last["summary"].is_object()));
    let mut verdicts: Vec<(String, Value, Value)> = lines
        .iter()
        .map(|l| (l["case"].as_str().unwrap().to_owned(), l["form"].clone(), l["status"].clone()))
        .collect();
    verdicts.sort_by(|a, b| a.0.cmp(&b.0));
    let [fail, pass] = ["fail", "pass"].map(Value::from);
    let wanted = [
        ("a".to_owned(), Value::Null, fail.clone()),
        ("a[form=sub]".to_owned(), "sub".into(), fail),
        ("a[form=tree]".to_owned(), "tree".into(), pass),
    ];
    assert_eq!(verdicts, wanted);
    // all wrong alike: nothing to tell
    home.file("b.toml", crate::support::WRONG);
    let run = home.run(&["run", "b.toml", "--forms", "tree,sub"]);
    assert!(run.code == 1 && !run.out.contains("disagree"), "{run}");
}

#[test]
fn a_library_that_is_wrong_in_one_form_alone_is_told_by_it() {
    let home = Home::new();
    home.file("a.toml", "world_size = 4\nop = \"all_reduce\"\ninputs = { each = \"rank + i\", count = 65 }\n");
    for (fault, form, others) in [("F19b", "in_place", "misaligned, ring"), ("F05", "misaligned", "in_place, ring")] {
        let run =
            home.run(&["run", "a.toml", "--backend", "soft", "--forms", "ring,in_place,misaligned", "--fault", fault]);
        let disagreement = format!("forms disagree a: plain and forms {others} pass, form {form} fails\n");
        assert!(run.code == 1 && run.out.contains(&disagreement), "{run}");
    }
}

const SHARED: &str = "world_size = 4\ninputs.x = { each = \"rank + i\", count = 48, dtype = \"f64\" }\nsteps = [\n\
    { op = \"reduce_scatter\", in = \"x\", out = \"y\" },\n\
    { op = \"reduce_scatter\", in = \"x\", out = \"w\", in_place = true },\n\
    { op = \"all_gather\", in = \"y\", out = \"z\" } ]\n";

/// The second step writes into the memory that the first one reads, under another name.
#[test]
fn steps_that_share_memory_are_not_grouped() {
    let suite = suite(SHARED, "grouped");
    let groups = suite.cases.iter().find(|case| case.form.is_some()).unwrap();
    assert_eq!(groups.steps.iter().map(|step| step.inner().len()).collect::<Vec<_>>(), [1, 2]);
    for verdict in verdicts(&suite) {
        assert_eq!(verdict.status, Status::Pass, "{:?}", verdict.findings);
    }
}

/// The form needs more memory than the case.
#[test]
fn a_form_that_cannot_be_planned_leaves_the_case_alone() {
    let text = "world_size = 1\nop = \"all_reduce\"\ndtype = \"i8\"\ninputs = { each = 1, count = 4000 }\n";
    let home = Home::new();
    home.file("f.toml", text);
    let forms = Forms::parse("misaligned").unwrap();
    let plain = CaseSet::open(&[home.path("f.toml")]).unwrap();
    let cost = plan::plan(&plain.cases[0], &Limits::default()).unwrap().cost;
    let limits = Limits { memory: cost.memory, ..Limits::default() };
    let mut suite =
        CaseSet::open_with(&[home.path("f.toml")], &Reading { forms, limits, ..Reading::default() }).unwrap();
    assert_eq!(suite.cases.len(), 1, "only the form costs more than the limit");
    suite.plan(1);
    let shown: Vec<String> = suite.invalid_files.iter().map(|faulty| faulty.render(false)).collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
}
