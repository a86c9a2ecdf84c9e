//! A failing case becomes a smaller one that fails in the same way.
use crate::support::{Home, Run, SUM, WRONG};

/// Six steps on 16 ranks with many elements, as a matrix; under a fault some of them are wrong.
const LARGE: &str = r#"
description = "Six steps over many elements."
tags = ["size"]
matrix.dtype = ["f32", "i32"]
matrix.shift = [3, 5]
world_size = 16
env.NCCL_ALGO = "Ring"
inputs.x = { each = "rank + (i + shift) % 7", count = 60000 }
inputs.w = { each = "rank % 3", count = 60000 }
steps = [
  { op = "broadcast", root = 5, in = "w", out = "a" },
  { op = "map", expr = "x + a", out = "b" },
  { op = "all_reduce", in = "b", out = "c" },
  { op = "reduce", root = 3, reduce = "max", in = "c", out = "d" },
  { op = "map", expr = "c - b", out = "e" },
  { op = "all_reduce", reduce = "min", in = "e", out = "f" },
]
assert = ["c >= 0"]
"#;

/// Makes the case smaller into `small.toml`, and gives the text.
fn small(home: &Home, args: &[&str]) -> (Run, String) {
    let run = home.run(&[&["minimize", "--output", "small.toml", "--backend", "soft"], args].concat());
    assert_eq!(run.code, 0, "{run}");
    (run, std::fs::read_to_string(home.path("small.toml")).unwrap())
}

/// The numbers of `3 ranks, 5 elements, 1 step` behind `became `.
fn size(run: &Run) -> [u64; 3] {
    let words = run.err.split("became ").nth(1).unwrap_or_else(|| panic!("{run}"));
    let numbers: Vec<u64> = words
        .split(", ")
        .take(3)
        .map(|part| part.split(' ').next().unwrap().replace(',', "").parse().unwrap())
        .collect();
    numbers.try_into().unwrap()
}

#[test]
#[ignore = "slow"]
fn a_large_case_becomes_a_handful_of_elements_and_the_failing_step() {
    let home = Home::new();
    home.file("large.toml", LARGE);
    let case = ["large.toml", "--case", "large[dtype=f32,shift=5]", "--fault", "F14"];
    let (run, text) = small(&home, &case);
    let [ranks, elements, steps] = size(&run);
    assert!(ranks <= 3 && elements <= 8 && steps == 1, "{run}\n{text}");
    assert!(run.err.contains("16 ranks, 60,000 elements, 6 steps became "), "{run}");
    for gone in ["matrix", "NCCL_ALGO", "tags", "assert", "all_reduce"] {
        assert!(!text.lines().skip(1).any(|line| line.contains(gone)), "{gone} is left: {text}");
    }
    assert!(text.starts_with("# Reduced from large[dtype=f32,shift=5] (large.toml): "), "{text}");
    assert!(run.err.contains("nearest in nccl-tests, with other data: broadcast_perf -b "), "{run}");

    // It is a whole scenario, which fails alone as the case did, and passes without the fault.
    let again = home.run(&["run", "small.toml", "--fault", "F14"]);
    assert!(again.code == 1 && again.out.contains("(broadcast)"), "{again}\n{text}");
    assert_eq!(home.run(&["run", "small.toml"]).code, 0, "{text}");
}

/// A step can only be left out together with the communicator that nothing else uses.
#[test]
fn communicators_that_the_failure_does_not_need_are_left_out() {
    let home = Home::new();
    home.file(
        "parallel.toml",
        "world_size = 4\ncomms.tp = { color = \"rank / 2\" }\ncomms.dp = { color = \"rank % 2\" }\n\
         inputs.x = { each = \"rank + i % 7\", count = 64 }\nsteps = [\n  \
         { op = \"all_reduce\", comm = \"tp\", in = \"x\", out = \"y\" },\n  \
         { op = \"all_reduce\", comm = \"dp\", in = \"x\", out = \"z\" },\n  \
         { op = \"broadcast\", root = 3, in = \"x\", out = \"w\" },\n]\n",
    );
    let (run, text) = small(&home, &["parallel.toml", "--fault", "F14"]);
    assert!(size(&run)[2] == 1 && !text.contains("comm"), "{run}\n{text}");
}

/// The last element of the last rank is wrong: neither can be left out, but the other steps can.
#[test]
fn what_is_left_and_why_is_told() {
    let home = Home::new();
    home.file(
        "last.toml",
        "world_size = 8\ninputs.w = { each = \"i % 5\", count = 5000 }\ninputs.x = { each = \"rank\", count = 5000 }\n\
         steps = [\n  { op = \"all_reduce\", reduce = \"max\", in = \"x\", out = \"y\" },\n  \
         { op = \"broadcast\", root = 5, in = \"w\", out = \"a\" },\n  { op = \"map\", expr = \"x + a\", out = \"b\" },\n]\n\
         expect.a = { each = \"i % 5 + (i == 4999) * (rank == 7)\" }\n",
    );
    let (run, text) = small(&home, &["last.toml"]);
    assert!(run.err.contains("became 8 ranks, 5,000 elements, 1 step in "), "{run}\n{text}");
    for (dimension, least) in [("8 ranks", 7), ("5,000 elements", 12)] {
        let line = format!("collspec: {dimension} are left: ");
        let sentence = run.err.lines().find_map(|l| l.strip_prefix(&line)).unwrap_or_else(|| panic!("{run}"));
        let (number, words) = sentence.split_once(' ').unwrap();
        assert!(number.parse::<u32>().unwrap() >= least && words.starts_with("smaller cases pass"), "{run}");
    }
    assert!(!run.err.contains("steps are left"), "{run}");
}

/// The operation that fails is captured, in a loop and launched twice; it fails without all that.
#[test]
fn a_failure_that_needs_no_graph_has_none() {
    let home = Home::new();
    home.file(
        "graphs.toml",
        "world_size = 4\ninputs.x = { each = \"rank + i\", count = 60 }\nsteps = [\n  \
         { op = \"map\", expr = \"x + 1\", out = \"y\", graph = \"g\" },\n  \
         { op = \"broadcast\", root = 1, in = \"y\", out = \"z\", graph = \"g\" },\n  \
         { op = \"all_gather\", in = \"x\", out = \"a\", graph = \"h\" },\n  \
         { op = \"loop\", times = 2, steps = [{ op = \"launch\", graph = \"g\" }, { op = \"launch\", graph = \"h\" }] },\n  \
         { op = \"release\", graph = \"g\" },\n]\n",
    );
    let (run, text) = small(&home, &["graphs.toml", "--fault", "F14"]);
    assert!(!text.contains("graph =") && !text.contains("launch") && text.contains("broadcast"), "{run}\n{text}");
    assert_eq!(size(&run)[2], 1, "{run}\n{text}");
    // A failure of graphs keeps one.
    home.file(
        "replayed.toml",
        "world_size = 2\ninputs.x = { each = \"rank + i\", count = 6 }\nsteps = [\n  \
         { op = \"all_reduce\", in = \"x\", out = \"y\", graph = \"g\" },\n  { op = \"launch\", graph = \"g\" },\n  \
         { op = \"map\", expr = \"x + 1\", out = \"x\" },\n  { op = \"launch\", graph = \"g\" },\n]\n",
    );
    let (run, text) = small(&home, &["replayed.toml", "--fault", "F75b"]);
    assert!(text.contains("graph = \"g\"") && text.contains("launch"), "{run}\n{text}");
}

#[test]
fn a_hang_stays_a_hang() {
    let home = Home::new();
    home.file(
        "hang.toml",
        "world_size = 5\noutcome = \"error\"\ninputs.x = { each = \"rank\", count = 100 }\nsteps = [\n  \
         { op = \"all_gather\", in = \"x\", out = \"y\" },\n  { op = \"all_reduce\", in = \"y\", out = \"z\" },\n  \
         { op = \"all_reduce\", ranks = [0, 2, 3, 4], in = \"z\", out = \"r\" },\n]\n",
    );
    let (run, text) = small(&home, &["hang.toml"]);
    let [ranks, elements, steps] = size(&run);
    assert!(ranks == 2 && elements == 1 && steps == 1, "the steps before it are left out: {run}\n{text}");
    assert!(run.err.contains("it hangs"), "{run}");
    let again = home.run(&["run", "small.toml"]);
    assert!(again.code == 1 && again.out.contains("the case hung"), "{again}");
}

#[test]
fn a_form_is_kept() {
    let home = Home::new();
    home.file("sums.toml", "world_size = 4\nmatrix.size = [7, 9]\ninputs = { each = \"rank + i\", count = \"size\" }\nop = \"all_reduce\"\n");
    let (run, text) =
        small(&home, &["sums.toml", "--case", "some/folder/sums[size=9,form=in_place]", "--fault", "F02"]);
    assert!(run.err.contains("--forms in_place --exact --filter 'small[form=in_place]'"), "{run}\n{text}");
    let again = home.run(&["run", "small.toml", "--forms", "in_place", "--filter", "form=in_place", "--fault", "F02"]);
    assert_eq!(again.code, 1, "{again}");
}

#[test]
fn axes_keep_the_order_that_the_file_has() {
    let home = Home::new();
    let text = "world_size = 4\nop = \"all_reduce\"\ninputs = { each = \"rank * k + i + h\", count = 8 }\n\
                [matrix]\nk = [1, 2, 5]\nh = [1, 2.5]\n";
    home.file("two.toml", text);
    let (_, text) = small(&home, &["two.toml", "--case", "two[k=5,h=2.5]", "--fault", "F21"]);
    assert!(text.starts_with("# Reduced from two[k=5,h=2.5] (two.toml): "), "{text}");
}

#[test]
fn without_output_the_scenario_is_printed() {
    let home = Home::new();
    home.file("wrong.toml", WRONG);
    let run = home.run(&["minimize", "wrong.toml"]);
    assert!(run.code == 0 && run.out.contains("world_size = "), "{run}");
    home.file("again.toml", &run.out);
    let again = home.run(&["run", "again.toml"]);
    assert!(again.code == 1 && again.out.contains("  expect: "), "{again}");
}

#[test]
fn what_cannot_be_made_smaller_is_told() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    home.file("typo.toml", "world_size = 2\nop = \"all_reduce\"\nredcue = \"max\"\ninputs = [[1], [2]]\n");
    home.file("two.toml", &format!("matrix.dtype = [\"f32\", \"i32\"]\n{WRONG}"));
    let run = home.run(&["minimize", "sum.toml", "--repeats", "3"]);
    assert!(run.code == 1 && run.err.contains("sum does not fail: it passes in 3 runs"), "{run}");
    for (args, words) in [
        (&["typo.toml"][..], "typo.toml has errors"),
        (&["two.toml"], "two.toml has 2 cases: name one with --case"),
        (&["two.toml", "--case", "three"], "two.toml has no case called three"),
        (&["none.toml"], "cannot read none.toml"),
        (&["sum.toml", "--output", "sum.toml"], "the scenario would be written over sum.toml"),
    ] {
        let run = home.run(&[&["minimize"], args].concat());
        assert!(run.code == 2 && run.err.contains(words), "{run}");
    }
    assert_eq!(std::fs::read_to_string(home.path("sum.toml")).unwrap(), SUM);
}

/// One element is expected to be another: what is expected must not be changed until something else fails.
#[test]
fn what_a_file_expects_stays_as_it_is() {
    let home = Home::new();
    home.file(
        "expected.toml",
        "world_size = 8\ninputs.a = { each = \"rank + i\", count = 500 }\n\
         steps = [\n  { op = \"all_reduce\", in = \"a\", out = \"b\" },\n]\n\
         expect.b = { each = \"n * (n - 1) / 2 + n * i + (i == 37)\" }\n",
    );
    let (run, text) = small(&home, &["expected.toml"]);
    assert!(text.contains("n * (n - 1) / 2 + n * i + (i == 37)") && text.contains("rank + i"), "{run}\n{text}");
    let [ranks, elements, _] = size(&run);
    assert!(ranks <= 2 && (38..=64).contains(&elements), "{run}\n{text}");
    assert!(run.err.contains("expect") || run.err.contains("expected"), "{run}");
}

/// What `check` refuses for a mismatch stays a mismatch, and what its file expects to hang stays so.
#[test]
fn hangs_and_mismatches_become_smaller() {
    let home = Home::new();
    let mismatch = "world_size = 4\ninputs.x = { each = \"rank + i\", count = 100 }\nsteps = [\n  \
                    { op = \"broadcast\", root = 1, in = \"x\", out = \"a\" },\n  \
                    { op = \"all_reduce\", in = \"x\", out = \"b\", ranks = [0, 1] },\n  \
                    { op = \"all_gather\", in = \"x\", out = \"c\", ranks = [2, 3] },\n  \
                    { op = \"all_reduce\", in = \"x\", out = \"d\" },\n]\n";
    home.file("mismatch.toml", mismatch);
    let (run, text) = small(&home, &["mismatch.toml"]);
    assert!(size(&run)[0] == 2 && size(&run)[2] == 2 && run.err.contains("it hangs"), "{run}\n{text}");
    let refused = home.run(&["check", "small.toml"]);
    assert!(
        refused.code == 2 && refused.err.contains("every rank of a communicator must make the same call"),
        "{refused}"
    );

    let hang = "world_size = 4\noutcome = \"hang\"\ninputs.x = { each = \"rank + i\", count = 100 }\nsteps = [\n  \
                { op = \"broadcast\", root = 1, in = \"x\", out = \"a\" },\n  \
                { op = \"all_reduce\", in = \"x\", out = \"b\", ranks = [0, 1, 2] },\n]\n";
    home.file("hang.toml", hang);
    let (run, text) = small(&home, &["hang.toml"]);
    assert!(size(&run)[0] == 2 && size(&run)[2] == 1 && text.contains("outcome = \"hang\""), "{run}\n{text}");
    assert_eq!(home.run(&["run", "small.toml"]).code, 0, "{text}");
}

/// Of a communicator's groups those go that have no rank left.
#[test]
fn groups_without_ranks_are_left_out() {
    let home = Home::new();
    let case = "world_size = 4\noutcome = [\"hang\", \"ok\"]\ncomms.a = { groups = [[0, 1], [2, 3]] }\n\
                inputs.x = { each = \"rank + i\", count = 8 }\nsteps = [\n  \
                { op = \"all_reduce\", in = \"x\", out = \"y\", comm = \"a\" },\n  \
                { op = \"recv\", ranks = [0], comm = \"a\", peer = 1, out = \"q\", count = 4, dtype = \"f32\" },\n]\n";
    home.file("groups.toml", case);
    let (run, text) = small(&home, &["groups.toml"]);
    assert!(size(&run)[0] == 2 && text.contains("[[0, 1]]"), "{run}\n{text}");
}
