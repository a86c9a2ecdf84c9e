//! NCCL_COMM_ID in this program's environment, and as a variable of a scenario.
use crate::support::{Home, Run, SUM};
use std::net::TcpListener;

/// Two communicators that are made at the same time, with different unique ids.
const PAIRS: &str = r#"world_size = 4
comms.pairs = { groups = [[0, 1], [3, 2]] }
inputs.x = [[1], [2], [3], [4]]
steps = [{ op = "all_reduce", comm = "pairs", in = "x", out = "y" }]
expect.y = [[3], [3], [7], [7]]
"#;
/// Communicators one after the other.
const IN_A_ROW: &str = r#"world_size = 3
inputs.x = [[1], [2], [3]]
steps = [
  { op = "all_reduce", in = "x", out = "y" },
  { op = "init", new = "others", groups = [[2, 0, 1]] },
  { op = "all_gather", comm = "others", in = "x", out = "z" },
]
expect.y = [[6], [6], [6]]
expect.z = [[3, 1, 2], [3, 1, 2], [3, 1, 2]]
"#;

fn address() -> String {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().to_string()
}

#[test]
fn the_variable_of_this_program_reaches_no_rank_and_that_is_told() {
    let home = Home::new();
    home.file("cases/pairs.toml", PAIRS);
    home.file("cases/row.toml", IN_A_ROW);
    home.file("cases/sum.toml", &format!("placement = \"processes\"\n{SUM}"));
    // Nobody could listen there, and an address of this machine would be taken by the first of several communicators.
    for address in ["192.0.2.1:29500".to_owned(), address()] {
        let run = Run::of(home.command(&["run", "cases", "--jobs", "3"]).env("NCCL_COMM_ID", &address));
        assert_eq!(run.code, 0, "{run}");
        assert!(run.err.contains("NCCL_COMM_ID is set and does not reach the ranks"), "{run}");
        assert!(!run.err.contains(&address), "it is not among the variables with which the library runs: {run}");
    }
}

#[test]
fn a_scenario_that_sets_it_runs_with_it() {
    let home = Home::new();
    let allowed = ["run", "row.toml", "--allow-env", "NCCL_COMM_ID"];
    for placement in ["threads", "processes", "one_thread"] {
        let variables = format!("env.NCCL_COMM_ID = \"{}\"\nplacement = \"{placement}\"\n", address());
        home.file("row.toml", &format!("{variables}{IN_A_ROW}"));
        let run = home.run(&allowed);
        assert_eq!(run.code, 0, "{placement}: {run}");
    }
}
