//! Ranks whose processes end over the stand-in driver, where a rank's last images are copied beside maps that go on.
use super::{results, run};
use crate::support::Home;
use collspec_run::library::standin;

#[test]
#[ignore = "slow"]
fn ranks_that_end_are_judged_as_in_software() {
    let home = Home::new();
    let folder = format!("{}/scenarios/conformance/deaths", env!("CARGO_MANIFEST_DIR"));
    let nccl = run(&home, 8, &standin::library().unwrap(), &["run", &folder, "--format", "jsonl"]);
    assert_eq!(nccl.code, 0, "{nccl}");
    let passed = results(&nccl).values().filter(|(status, _)| status.starts_with("pass")).count();
    assert!(passed > 30, "{nccl}");
}
