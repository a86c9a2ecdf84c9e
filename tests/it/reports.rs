//! What the command's report says of passes and failures.
use crate::support::{Home, Run, SUM, WRONG};

/// A program whose first step goes wrong under a fault, and whose later steps are handed what it wrote.
const STEPS: &str = r#"
world_size = 4
inputs.x = { each = "rank + i", count = 40 }
steps = [
  { op = "all_reduce", in = "x", out = "y" },
  { op = "map", expr = "2 * y", out = "z" },
  { op = "all_gather", in = "z", out = "all" },
]
expect.y = { each = "6 + 4 * i" }
"#;

fn has(run: &Run, words: &[&str]) {
    for words in words {
        assert!(run.out.contains(words), "{words:?} is not in {run}");
    }
}

#[test]
fn a_pass_says_what_was_checked_if_asked() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    home.file(
        "scenarios/tenth.toml",
        &SUM.replace("[3, 4]", "[0.1, 4]").replace("= 2\nop", "= 2\nassert = ['out > 0']\nop"),
    );
    home.file(
        "scenarios/rounds.toml",
        "world_size = 3\nop = \"all_reduce\"\ninputs = { each = \"0.1 * (rank + i)\", count = 5 }\n",
    );
    home.file("scenarios/hangs.toml", "world_size = 2\noutcome = \"hang\"\ninputs.x = { each = 1, count = 1 }\nsteps = [{ op = \"all_reduce\", ranks = [0], in = \"x\", out = \"y\" }]\n");
    let run = home.run(&["run", "--verbose"]);
    assert_eq!(run.code, 0, "{run}");
    has(
        &run,
        &[
            ": 4 elements judged exactly, on 2 ranks\n",
            ", and `assert` of the file\n",
            "by admissible orders, on 3 ranks; ",
            ": hung, as expected\n",
        ],
    );
    assert!(!run.out.contains(" 0.0 ms"), "{run}");
    let line = run.out.lines().find(|line| line.starts_with("pass sum in ")).unwrap_or_else(|| panic!("{run}"));
    assert!(line.contains(", calls "), "{run}");
    assert!(!home.run(&["run"]).out.contains("pass "), "{run}");
}

#[test]
fn buffers_are_shown_of_passes_and_failures() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    home.file("scenarios/wrong.toml", WRONG);
    let run = home.run(&["run", "--show"]);
    assert_eq!(run.code, 1, "{run}");
    let rows = "  before\n    rank 0  in  [1, 2]\n    rank 1  in  [3, 4]\n  after\n    rank 0  out  [4, 6]\n    rank 1  out  [4, 6]\n";
    assert_eq!(run.out.matches(rows).count(), 2, "{run}");
    home.file("steps/steps.toml", STEPS);
    let run = home.run(&["run", "steps", "--show", "--fault", "F12"]);
    has(
        &run,
        &[
            "    rank 0  x  [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ..., [36] 36, 37, 38, 39] 40 elements\n",
            "[!",
            "(! marks what is wrong)\n",
        ],
    );
}

#[test]
fn what_a_fault_does_to_all_ranks_is_one_finding() {
    let home = Home::new();
    home.file("steps/steps.toml", STEPS);
    let run = home.run(&["run", "steps", "--fault", "F12"]);
    assert_eq!(run.code, 1, "{run}");
    has(&run, &["exact: ranks 0 to 3, all[0] is wrong after step 3 (all_gather)\n    expected 12\n"]);
    assert_eq!(run.out.matches(" is wrong after ").count(), 1, "{run}");
}

#[test]
fn many_failures_end_with_their_names() {
    let home = Home::new();
    for number in 1..=6 {
        home.file(&format!("scenarios/w{number}.toml"), WRONG);
    }
    let run = home.run(&["run", "--jobs", "1"]);
    has(&run, &["\n\nfailed\n  w1\n  w2\n  w3\n  w4\n  w5\n  w6\n0 passed, 6 failed"]);
}

#[test]
fn a_communicator_that_hangs_is_called_by_its_name_in_the_file() {
    let home = Home::new();
    let text = "world_size = 4\ncomms.pairs = { groups = [[0, 1], [3, 2]] }\noutcome = [\"error\"]\ninputs.x = { each = 1, count = 1 }\n\
        steps = [{ op = \"all_reduce\", comm = \"pairs\", ranks = [0, 2, 3], in = \"x\", out = \"y\" }]\n";
    home.file("scenarios/stuck.toml", text);
    let world = text.replace("comm = \"pairs\", ", "").replace("comms.pairs = { groups = [[0, 1], [3, 2]] }\n", "");
    home.file("scenarios/world.toml", &world);
    let run = home.run(&["run"]);
    assert_eq!(run.code, 1, "{run}");
    for words in
        ["communicator `pairs` of ranks 0 and 1, operation number 1", "communicator `world`, operation number 1"]
    {
        let line = format!("  ending: the case hung, expected an error (stuck: no rank can continue): {words}");
        has(&run, &[&line, "write `outcome = \"hang\"`"]);
    }
    assert!(!run.out.contains("communicator #"), "{run}");
}
