//! Faults of numbers: of each family one member, shown as the other faults are; and all members, which the scenarios of
//! numbers must catch.
use super::ending::example;
use super::shown::assert_all_are_shown;
use collspec_cli::audit::examples::numbers::EXAMPLES;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;
use wrong_nccl::{Entry, Fault, TABLE};

fn family(id: &str) -> Option<&str> {
    TABLE.iter().find(|entry| entry.id == id).and_then(|entry| entry.family).map(|(family, _)| family)
}

/// The members of families that are of numbers: those that strike in one type.
fn members() -> impl Iterator<Item = &'static Entry> {
    Fault::all().filter(|fault| fault.only_type().is_some()).map(Fault::entry)
}

#[test]
#[ignore = "slow"]
fn one_of_each_family_is_noticed_where_it_strikes_and_only_there() {
    assert_all_are_shown(EXAMPLES);
}

#[test]
fn no_family_is_left_out() {
    let mut all: Vec<&str> = members().filter_map(|entry| entry.family).map(|(family, _)| family).collect();
    all.dedup();
    let shown: Vec<&str> = EXAMPLES.iter().filter_map(|(id, _)| family(id)).collect();
    assert_eq!(shown, all);
}

/// Also: each member is caught by the very scenario that the audit's advice gives for it.
#[test]
#[ignore = "slow"]
fn the_scenarios_of_numbers_catch_every_member() {
    let families: BTreeSet<&str> = members().filter_map(|entry| entry.family).map(|(family, _)| family).collect();
    let families = families.into_iter().collect::<Vec<_>>().join(",");
    let numbers = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/conformance/numbers");
    let mut audit = Command::new(env!("CARGO_BIN_EXE_collspec"));
    audit.args(["audit", numbers, "--format", "jsonl", "--fault", &families]);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("NCCL_") || name.starts_with("COLLSPEC_") {
            audit.env_remove(name);
        }
    }
    let run = audit.output().unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let missed: Vec<&str> =
        lines.iter().filter(|line| line["missed"] == true).filter_map(|line| line["id"].as_str()).collect();
    assert!(run.status.success() && missed.is_empty(), "{missed:?}\n{}", String::from_utf8_lossy(&run.stderr));

    let files: Vec<(String, &Value)> = lines
        .iter()
        .filter(|line| line["kind"] == "scenario")
        .map(|line| (std::fs::read_to_string(line["path"].as_str().unwrap()).unwrap(), &line["catches"]))
        .collect();
    let in_one_line = |id: &str| EXAMPLES.iter().any(|(example, _)| *example == id);
    let members = members().map(|entry| entry.id);
    for member in members.filter(|id| !in_one_line(id)) {
        let advice = example(member);
        let catches = files.iter().find(|(text, _)| text.trim_end() == advice.trim_end()).map(|(_, catches)| catches);
        let catches = catches.and_then(|catches| catches.as_array());
        assert!(catches.is_some_and(|ids| ids.iter().any(|id| id == member)), "{member}: {advice}");
    }
}
