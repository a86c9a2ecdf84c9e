//! Graphs over the stand-in driver: captures and launches go through the driver's own functions.
use super::{results, run};
use crate::support::Home;
use collspec_run::library::standin;

#[test]
#[ignore = "slow"]
fn graphs_give_the_same_outputs_as_in_software() {
    let home = Home::new();
    let folder = format!("{}/scenarios/conformance/graphs", env!("CARGO_MANIFEST_DIR"));
    let soft = home.run(&["run", &folder, "--backend", "soft", "--format", "jsonl"]);
    let nccl = run(&home, 8, &standin::library().unwrap(), &["run", &folder, "--format", "jsonl"]);
    assert_eq!((soft.code, nccl.code), (0, 0), "{nccl}");
    let (soft, nccl) = (results(&soft), results(&nccl));
    assert!(soft.len() > 100, "{} cases", soft.len());
    assert!(nccl.values().all(|(status, _)| status.starts_with("pass")), "{nccl:?}");
    assert_eq!(nccl, soft);
}

/// The end of a communicator waits for its graphs, and the report of the hang says so.
#[test]
#[ignore = "slow"]
fn a_communicator_that_is_ended_before_its_graph_hangs_and_says_why() {
    let home = Home::new();
    let text = r#"world_size = 2
outcome = ["error", "crash"]
inputs.x = { each = "rank", count = 1 }
steps = [
  { op = "init", new = "c", groups = [[0, 1]] },
  { op = "all_reduce", comm = "c", in = "x", out = "y", graph = "g" },
  { op = "launch", graph = "g" },
  { op = "destroy", comm = "c" },
]
"#;
    home.file("scenarios/early.toml", text);
    for args in [vec!["run"], vec!["run", "--placement", "processes", "--timeout", "3"]] {
        let soft = home.run(&args);
        assert!(soft.code == 1 && soft.out.contains("the case hung"), "{soft}");
        if args.len() == 1 {
            assert!(soft.out.contains("waits until the graphs that have captured it are released"), "{soft}");
        }
    }
}
