//! Ranks whose processes end while the others go on: what is left of them, and what comes after.
use crate::support::Home;
use crate::support::processes::Descendants;
use std::io::Read;
use std::process::Stdio;

const DEATH: &str = r#"
world_size = 4
placement = "processes"
inputs.x = { each = "10 ^ rank", count = 2000, dtype = "i32" }
matrix.dead = [0, 1, 2, 3]
steps = [
  { op = "all_reduce", in = "x", out = "before" },
  { op = "wait" },
  { op = "all_reduce", in = "x", out = "lost" },
  { op = "exit", ranks = "rank == dead", status = "SIGKILL" },
  { op = "shrink", new = "rest", without = "rank == dead", abort = true },
  { op = "all_reduce", comm = "rest", in = "x", out = "after" },
]
assert = ["before == 1111", "after == 1111 - 10 ^ dead"]
"#;

const AFTERWARDS: &str = r#"
world_size = 4
placement = "processes"
inputs.x = { each = "rank + i", count = 100 }
steps = [{ op = "all_reduce", in = "x", out = "y" }]
expect.y = { each = "6 + 4 * i" }
"#;

#[test]
fn the_next_cases_pass_and_no_process_is_left() {
    let home = Home::new();
    // Cases of a worker run in the order of their names.
    home.file("scenarios/a_before.toml", AFTERWARDS);
    home.file("scenarios/b_death.toml", DEATH);
    home.file("scenarios/c_afterwards.toml", AFTERWARDS);
    let command = home.command(&["run", "--jobs", "1"]);
    let (mut run, descendants) = Descendants::of(&command, |command| _ = command.stdout(Stdio::piped()));
    let mut text = String::new();
    run.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(run.wait().unwrap().success(), "{text}");
    assert!(text.contains("6 passed, 0 failed, 0 skipped"), "{text}");
    descendants.wait_for_end();
}
