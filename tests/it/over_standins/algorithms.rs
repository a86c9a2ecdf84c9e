//! Algorithms that steps ask for, on a library that has calls with a configuration and on one that lacks them.
use super::{command, run, without};
use crate::support::{Home, Run};
use collspec_run::library::standin;

fn file(steps: &str, more: &str) -> String {
    format!("world_size = 5\ninputs.x = {{ each = \"rank + i\", count = 10 }}\nsteps = [\n{steps}\n]\n{more}")
}

#[test]
fn a_library_without_configured_calls_is_asked_by_variables_or_the_case_is_skipped() {
    let home = Home::new();
    let new = standin::library().unwrap();
    let old = without(&home, "old", &["ncclAllReduceConfig", "ncclAllGatherConfig"]);
    let sum = |algorithm: &str, name: &str| {
        format!(
            "{{ op = \"all_reduce\", in = \"x\", out = \"{name}\", name = \"of_{name}\", algorithm = \"{algorithm}\" }},\n"
        )
    };
    // Each message of the ring waits for the one before it; the tree has shorter chains.
    home.file("tree.toml", &file(&sum("tree_simple", "y"), "assert = [\"of_y.rounds < 8\"]\n"));
    home.file("ring.toml", &file(&sum("ring", "y"), "assert = [\"of_y.rounds == 8\"]\n"));
    let both = "assert = [\"of_y.rounds == 8\", \"of_z.rounds < 8\"]\n";
    home.file("both.toml", &file(&(sum("ring", "y") + &sum("tree", "z")), both));
    let refused =
        "{ op = \"all_gather\", in = \"x\", out = \"w\", algorithm = \"tree\", error = \"invalid_argument\" },";
    home.file("refused.toml", &file(refused, ""));
    for path in ["tree.toml", "ring.toml", "both.toml", "refused.toml"] {
        let told = run(&home, 5, &new, &["run", path]);
        assert!(told.code == 0 && told.out.contains("1 passed"), "{path}: {told}");
    }
    for path in ["tree.toml", "ring.toml"] {
        let told = run(&home, 5, &old, &["run", path]);
        assert!(told.code == 0 && told.out.contains("1 passed"), "{path}: {told}");
    }
    let why = "needs ncclAllReduceConfig (since NCCL 2.31), because its steps do not all ask for the same algorithm";
    let skipped = run(&home, 5, &old, &["run", "both.toml"]);
    assert!(skipped.code == 0 && skipped.out.contains(why), "{skipped}");
    let skipped = run(&home, 5, &old, &["run", "refused.toml"]);
    assert!(skipped.out.contains("because a step expects that the call is refused for its algorithm"), "{skipped}");
    let forced = Run::of(command(&home, 5, &new, &["run", "both.toml"]).env("NCCL_ALGO", "Tree"));
    assert!(forced.code == 0 && forced.out.contains("NCCL_ALGO is set outside of the file"), "{forced}");
}

#[test]
fn what_only_a_gpu_has_is_skipped_on_the_software_library() {
    let home = Home::new();
    home.file("switch.toml", &file("{ op = \"all_reduce\", in = \"x\", out = \"y\", algorithm = \"nvls\" },", ""));
    let skipped = run(&home, 5, &standin::library().unwrap(), &["run", "switch.toml"]);
    assert!(skipped.code == 0 && skipped.out.contains("needs the algorithm nvls"), "{skipped}");
}
