//! `--quick`: a selection of the cases that leaves nothing out that occurs once.
use std::collections::BTreeSet;
use std::process::Command;

fn names(arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_collspec"));
    let output = command.args(["run", "--backend", "soft", "--list"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn files(names: &[String]) -> BTreeSet<&str> {
    names.iter().map(|name| name.split('[').next().unwrap_or_default()).collect()
}

#[test]
fn a_quick_selection_has_every_file_and_few_cases() {
    let (all, quick) = (names(&["scenarios"]), names(&["--quick"]));
    assert_eq!(files(&all), files(&quick));
    assert!(quick.len() * 2 < all.len(), "{} of {}", quick.len(), all.len());
    let all: BTreeSet<&String> = all.iter().collect();
    assert!(quick.iter().all(|name| all.contains(name)));
}

#[test]
fn every_value_of_an_axis_is_in_a_quick_selection() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sums.toml");
    let text = "world_size = 2\nop = \"all_reduce\"\ninputs = { each = \"rank\" }\n\
                [matrix]\ndtype = [\"f32\", \"i8\", \"u64\"]\nreduce = [\"sum\", \"max\"]\ncount = [1, 5, 9, 20]\n";
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let (all, quick) = (names(&[path]), names(&[path, "--quick"]));
    assert!(all.len() == 24 && quick.len() <= 9, "each type with each reduction, and with them each count: {quick:?}");
    let values = |names: &[String]| -> BTreeSet<String> {
        names.iter().flat_map(|name| name.split(['[', ',', ']']).map(str::to_owned).collect::<Vec<_>>()).collect()
    };
    assert_eq!(values(&all), values(&quick));
}
