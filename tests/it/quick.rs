//! `--quick` and `--smoke`: few cases that reach what all reach, and `collspec select`, which chooses them.
use crate::support::real::newest_real;
use crate::support::{Home, SUM};
use collspec_core::fnv::fnv64;
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

/// A file that has changed since is selected from by other means, which takes longer: `collspec select` writes a new table.
#[test]
fn the_table_has_measured_most_of_the_corpus() {
    let table = include_str!("../../crates/collspec-suite/src/suite/selection.txt");
    let (_, files) = table.split_once("[files]\n").unwrap();
    let (files, cases) = files.split_once("[smoke]\n").unwrap();
    let hash = |file: &str| Some(fnv64(&std::fs::read(format!("scenarios/{file}.toml")).ok()?));
    let known: BTreeSet<&str> = files
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(written, file)| hash(file).is_some_and(|hash| format!("{hash:016x}") == *written))
        .map(|(_, file)| file)
        .collect();
    assert!(known.len() * 10 >= files.lines().count() * 9 && known.len() > 900, "{} files", known.len());
    let all: BTreeSet<String> = names(&["scenarios"]).into_iter().collect();
    let cases: Vec<&str> = cases.lines().filter(|line| !line.starts_with('[')).collect();
    let gone = cases.iter().filter(|name| known.contains(name.split('[').next().unwrap()) && !all.contains(**name));
    assert_eq!(gone.collect::<Vec<_>>(), Vec::<&&str>::new());
}

#[test]
fn a_selection_without_a_case_is_an_error_and_forms_are_selected_by_factors() {
    let home = Home::new();
    let table = include_str!("../../crates/collspec-suite/src/suite/selection.txt");
    let smoke = table.split_once("[smoke]\n").unwrap().1.split_once("[quick]\n").unwrap().0;
    let quick_alone = table.lines().filter_map(|line| line.split_once(' ')).map(|(_, file)| file);
    let in_smoke: BTreeSet<&str> = smoke.lines().map(|line| line.split('[').next().unwrap()).collect();
    let file = quick_alone.clone().find(|file| file.starts_with("negative/") && !in_smoke.contains(file)).unwrap();
    home.file("copied.toml", &std::fs::read_to_string(format!("scenarios/{file}.toml")).unwrap());
    for command in ["run", "explore", "faults"] {
        let run = home.run(&[command, "--smoke", "copied.toml"]);
        assert!(run.code == 2 || (command == "faults" && run.code == 3), "{run}");
        assert!(command == "faults" || run.err.contains("none of them is in the selection of --smoke"), "{run}");
    }
    let both = home.run(&["run", "--smoke", "--quick", "copied.toml"]);
    assert!(both.code == 2 && both.err.contains("cannot be used with"), "{both}");
    let forms = names(&["--quick", "--forms", "all", "scenarios/documented/all_reduce_sum_of_pairs.toml"]);
    for form in ["form=processes", "form=captured"] {
        assert!(forms.iter().any(|name| name.contains(form)), "{forms:?}");
    }
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
    home.file("scenarios/soft.toml", &format!("requires.backend = \"soft\"\n{SUM}"));
    let run = home.run(&["select", "--nccl", library.to_str().unwrap(), "--output", "table"]);
    assert_eq!(run.code, 0, "{run}");
    let table = std::fs::read_to_string(home.path("table")).unwrap();
    let (smoke, rest) = table.split_once("[quick]\n").unwrap();
    let of = |dtype: &str| smoke.lines().filter(|line| line.contains(dtype)).count();
    assert!((1..4).contains(&of("f32")) && (1..4).contains(&of("i8")), "{table}");
    assert_eq!(rest.lines().filter(|line| *line == "soft").count(), 1, "it may run elsewhere: {table}");
    let name = library.to_str().unwrap();
    let twice = home.run(&["select", "--nccl", &format!("{name},{name}")]);
    assert!(twice.code == 2 && twice.err.contains("is named twice"), "{twice}");
    assert!(run.err.contains("instructions of kernels") && run.err.contains("--smoke"), "{run}");
}

#[test]
fn a_selection_needs_a_library_on_software_gpus() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
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
