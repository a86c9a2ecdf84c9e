//! `--quick` and `--smoke`: few cases that reach what all reach, and `collspec select`, which chooses them.
use crate::support::Home;
use crate::support::real::newest_real;
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
fn the_smallest_selection_is_a_part_of_the_quick_one() {
    let (quick, smoke) = (names(&["--quick"]), names(&["--smoke"]));
    let quick: BTreeSet<&String> = quick.iter().collect();
    assert!(smoke.len() > 500 && smoke.len() < quick.len(), "{} of {}", smoke.len(), quick.len());
    assert!(smoke.iter().all(|name| quick.contains(name)));
}

#[test]
fn a_folder_of_the_corpus_has_the_same_selection_as_the_corpus() {
    let corpus = names(&["--quick"]);
    let in_folder = corpus.iter().filter_map(|name| name.strip_prefix("conformance/graphs/"));
    assert_eq!(names(&["--quick", "scenarios/conformance/graphs"]), in_folder.collect::<Vec<_>>());
}

/// A case that was renamed or removed leaves its name in the table: `collspec select` writes a new one.
#[test]
fn every_case_of_the_table_is_in_the_corpus() {
    let all: BTreeSet<String> = names(&["scenarios"]).into_iter().collect();
    let table = include_str!("../../crates/collspec-suite/src/suite/selection.txt");
    let names: Vec<&str> = table.lines().filter(|line| !line.starts_with(['#', '['])).collect();
    assert!(names.len() > 1_000);
    let gone: Vec<&&str> = names.iter().filter(|name| !all.contains(**name)).collect();
    assert_eq!(gone, Vec::<&&str>::new());
}

/// With COLLSPEC_TEST_NCCL_LIBRARIES: cases are chosen by what they reach in a real library.
#[test]
fn cases_that_reach_nothing_new_are_left_out() {
    let Some(library) = newest_real() else { return };
    let home = Home::new();
    home.file(
        "scenarios/sums.toml",
        "world_size = 2\nop = \"all_reduce\"\ninputs = { each = \"(rank + i) % m\", count = 3000 }\n\
         [matrix]\ndtype = [\"f32\", \"i8\"]\nm = [1, 2, 3, 4, 5, 6, 7, 8]\n",
    );
    home.file("scenarios/soft.toml", "requires.backend = \"soft\"\nop = \"all_reduce\"\ninputs = [[1], [2]]\n");
    let run = home.run(&["select", "--nccl", library.to_str().unwrap(), "--output", "table"]);
    assert_eq!(run.code, 0, "{run}");
    let table = std::fs::read_to_string(home.path("table")).unwrap();
    let (smoke, rest) = table.split_once("[quick]\n").unwrap();
    let of = |dtype: &str| smoke.lines().filter(|line| line.contains(dtype)).count();
    assert!((1..4).contains(&of("f32")) && (1..4).contains(&of("i8")), "{table}");
    assert_eq!(rest.lines().filter(|line| *line == "soft").count(), 1, "it may run elsewhere: {table}");
    assert!(run.err.contains("instructions of kernels") && run.err.contains("--smoke"), "{run}");
}

#[test]
fn a_selection_needs_a_library_on_software_gpus() {
    let home = Home::new();
    home.file("scenarios/sum.toml", "op = \"all_reduce\"\ninputs = [[1], [2]]\n");
    let run = home.run(&["select"]);
    assert!(run.code == 2 && run.err.contains("--nccl"), "{run}");
    let run = home.run(&["select", "--nccl", "nowhere.so", "--output", "table"]);
    assert!(run.code == 3 && run.err.contains("nowhere.so"), "{run}");
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
