//! What can be typed: paths without a subcommand, selections, shares, and what the help shows.

use crate::support::{Home, Run, SUM, WRONG};
use std::process::Stdio;

/// Points `k=1` to `k=6`; those from 4 on fail.
const SWEEP: &str = "matrix.k = [1, 2, 3, 4, 5, 6]\nworld_size = 2\nop = \"all_reduce\"\n\
    inputs = { each = \"k\", count = 2 }\nassert = [\"out[0] < 7\"]\n";

fn names(run: &Run) -> Vec<&str> {
    assert_eq!(run.code, 0, "{run}");
    run.out.lines().collect()
}

#[test]
fn a_path_alone_means_run() {
    let home = Home::new();
    home.file("mine/sum.toml", SUM);
    for args in [&["mine"][..], &["mine/sum.toml", "--jobs", "1"], &["--filter", "sum", "mine"], &["-j1", "mine"]] {
        let run = home.run(args);
        assert_eq!(run.code, 0, "{run}");
        assert!(run.out.starts_with("1 passed"), "{run}");
    }
    let run = home.run(&["mine/none.toml"]);
    assert_eq!(run.code, 2, "{run}");
    assert!(run.err.contains("mine/none.toml: No such file"), "{run}");
    let run = home.run(&["walk"]);
    assert!(run.err.contains("unrecognized subcommand 'walk'"), "{run}");
}

#[test]
fn it_says_where_scenarios_were_looked_for() {
    let home = Home::new();
    home.file("deep/down/x.txt", "");
    let here = home.path("deep/down").canonicalize().unwrap();
    for args in [&["run"][..], &["check"], &["audit"], &[]] {
        let run = Run::of(home.command(args).current_dir(&here));
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{run}");
        let words = format!("there is no folder scenarios/ in {}", here.display());
        assert!(run.err.contains(&words) && run.err.contains("`collspec run "), "{run}");
    }
    home.file("scenarios/sum.toml", SUM);
    let run = Run::of(home.command(&["run"]).current_dir(&here));
    let above = home.path("scenarios").canonicalize().unwrap();
    assert!(run.err.contains(&format!("`collspec run {}` runs those", above.display())), "{run}");
    let run = home.run(&[]);
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{run}");
    assert!(run.err.starts_with("Collective-communication tests") && run.err.contains("Usage: collspec"), "{run}");
    assert!(run.err.trim_end().ends_with("`collspec run` runs the scenarios in scenarios/"), "{run}");
}

#[test]
fn filters_select_and_leave_out() {
    let home = Home::new();
    for name in ["ring/sum", "ring/max", "tree/sum"] {
        home.file(&format!("scenarios/{name}.toml"), SUM);
    }
    home.file("scenarios/slow.toml", &format!("tags = [\"long\"]\n{SUM}"));
    let listed = |args: &[&str]| home.run(&[&["run", "--list"], args].concat());
    assert_eq!(names(&listed(&[])), ["ring/max", "ring/sum", "tree/sum"]);
    assert_eq!(names(&listed(&["-k", "max", "-k", "tree"])), ["ring/max", "tree/sum"]);
    assert_eq!(names(&listed(&["-k", "not ring"])), ["tree/sum"]);
    assert_eq!(names(&listed(&["-k", "sum", "--filter", "not ring"])), ["tree/sum"]);
    assert_eq!(names(&listed(&["-k", "long"])), ["slow"]);
    assert_eq!(names(&listed(&["--exact", "-k", "ring/sum", "-k", "tree/sum"])), ["ring/sum", "tree/sum"]);
    assert!(listed(&["-k", "not ring"]).err.contains("1 case is tagged `long` and left out"));
    let run = listed(&["-k", "a", "-k", "not a"]);
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{run}");
    assert!(run.err.contains("no case in scenarios is selected by the filters 'a', 'not a'"), "{run}");
    // The other commands know them too.
    assert_eq!(home.run(&["check", "-k", "not ring", "-k", "not slow"]).out.lines().count(), 2);
}

#[test]
fn a_list_runs_nothing_and_has_no_names_of_faulty_files() {
    let home = Home::new();
    home.file("scenarios/wrong.toml", WRONG);
    let run = home.run(&["run", "--list", "--require", "nccl"]);
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "wrong\n", ""), "{run}");
    home.file("scenarios/faulty.toml", "world_size = 2\nopp = \"all_reduce\"\n");
    let run = home.run(&["run", "--list"]);
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{run}");
    assert!(run.err.contains("faulty.toml:2:"), "{run}");
    let run = home.run(&["run", "--list", "--keep-going"]);
    assert_eq!((run.code, run.out.as_str()), (2, "wrong\n"), "{run}");
}

#[test]
fn every_case_is_in_exactly_one_share() {
    let home = Home::new();
    home.file("scenarios/sweep.toml", SWEEP);
    home.file("scenarios/sum.toml", SUM);
    let all = home.run(&["run", "--list"]);
    let mut seen = Vec::new();
    for share in ["1/3", "2/3", "3/3"] {
        let part = home.run(&["run", "--list", "--shard", share]);
        let part: Vec<String> = names(&part).into_iter().map(str::to_owned).collect();
        assert!((2..=3).contains(&part.len()), "{part:?}");
        seen.extend(part);
    }
    seen.sort();
    assert_eq!(seen, names(&all));
    let run = home.run(&["run", "-k", "sum", "--shard", "2/2"]);
    assert_eq!(run.code, 0, "a share may be empty: {run}");
    assert!(run.err.contains("none of the selected cases is in the share 2/2"), "{run}");
    assert_eq!(home.run(&["run", "--shard", "3/2"]).code, 2);
}

#[test]
fn after_a_failure_no_other_case_starts_if_that_is_wanted() {
    let home = Home::new();
    home.file("scenarios/sweep.toml", SWEEP);
    let run = home.run(&["run", "--fail-fast", "--jobs", "1"]);
    assert_eq!(run.code, 1, "{run}");
    assert!(run.out.contains("3 passed, 1 failed, 0 skipped"), "{run}");
    assert!(run.err.contains("2 cases were not run after the first failure (--fail-fast)"), "{run}");
}

#[test]
fn what_failed_can_be_run_again_alone() {
    let home = Home::new();
    home.file("scenarios/a/sweep.toml", SWEEP);
    home.file("scenarios/sum.toml", SUM);
    let run = home.run(&["run", "--failed"]);
    assert_eq!(run.code, 2, "{run}");
    assert!(run.err.contains("no selected case failed when it last ran from this folder"), "{run}");
    assert_eq!(home.run(&["run"]).code, 1);
    let failed = ["a/sweep[k=4]", "a/sweep[k=5]", "a/sweep[k=6]"];
    assert_eq!(names(&home.run(&["run", "--failed", "--list"])), failed);
    // They are the same cases under another name.
    assert_eq!(names(&home.run(&["run", "scenarios/a", "--failed", "--list"])).len(), 3);
    // What passes is forgotten, what did not run is not.
    home.file("scenarios/a/sweep.toml", &SWEEP.replace("< 7", "< 11"));
    let run = home.run(&["run", "--failed"]);
    assert!(run.out.contains("2 passed, 1 failed"), "{run}");
    assert_eq!(names(&home.run(&["run", "--failed", "--list"])), ["a/sweep[k=6]"]);
    assert_eq!(home.run(&["run", "-k", "sum"]).code, 0);
    assert_eq!(names(&home.run(&["run", "--failed", "--list"])), ["a/sweep[k=6]"]);
    home.file("scenarios/a/sweep.toml", &SWEEP.replace("< 7", "< 20"));
    assert_eq!(home.run(&["run", "--failed"]).code, 0);
    assert_eq!(home.run(&["run", "--failed"]).code, 2);
    // Nothing is left behind, and nothing lies beside the scenarios.
    assert_eq!(std::fs::read_dir(home.path(".cache/collspec/failed")).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(home.path("scenarios")).unwrap().count(), 2);
}

#[test]
fn what_failed_is_found_again_where_there_is_no_folder_of_scenarios() {
    let home = Home::new();
    home.file("sweep.toml", SWEEP);
    assert_eq!(home.run(&["run", "sweep.toml"]).code, 1);
    assert_eq!(names(&home.run(&["run", "--failed", "--list"])).len(), 3);
    let run = home.run(&["run", "--failed"]);
    assert!(run.code == 1 && run.out.contains("0 passed, 3 failed"), "{run}");
}

#[test]
fn the_slowest_cases_are_named() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    home.file(
        "scenarios/slow.toml",
        "world_size = 2\ninputs.x = [[1], [2]]\nsteps = [\n  { op = \"sleep\", seconds = 0.2 },\n  \
         { op = \"all_reduce\", in = \"x\", out = \"y\" },\n]\n",
    );
    let run = home.run(&["run", "--durations", "1"]);
    let lines: Vec<&str> = run.out.lines().collect();
    let [slowest, summary] = lines[..] else { panic!("{run}") };
    assert!(slowest.starts_with("slow ") && slowest.ends_with(" s slow") && summary.starts_with("2 passed"), "{run}");
}

#[test]
fn a_faulty_file_does_not_stop_the_others_if_that_is_wanted() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    home.file("scenarios/wrong.toml", WRONG);
    home.file("scenarios/typo.toml", "world_size = 2\nopp = \"all_reduce\"\n");
    home.file("scenarios/plan.toml", "world_size = 2\nop = \"broadcast\"\nroot = 5\ninputs = [[1], [2]]\n");
    let run = home.run(&["run", "--keep-going"]);
    assert_eq!(run.code, 2, "{run}");
    assert!(run.out.contains("1 passed, 1 failed, 0 skipped"), "{run}");
    for words in ["typo.toml:2:", "plan.toml:3:", "errors in 2 files; their cases were not run"] {
        assert!(run.err.contains(words), "{words:?} is not in {run}");
    }
    for name in ["sum", "wrong"] {
        std::fs::remove_file(home.path(&format!("scenarios/{name}.toml"))).unwrap();
    }
    let run = home.run(&["run", "--keep-going"]);
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{run}");
    assert!(run.err.contains("errors in 2 files; nothing was run"), "{run}");
}

#[test]
fn files_of_several_paths_have_names_of_their_own() {
    let home = Home::new();
    for file in ["a/x.toml", "b/x.toml", "b/y.toml", "p/a/x.toml", "c/z.toml"] {
        home.file(file, SUM);
    }
    let listed = |paths: &[&str]| home.run(&[&["run", "--list"], paths].concat());
    assert_eq!(names(&listed(&["a/x.toml", "b/x.toml"])), ["a/x", "b/x"]);
    assert_eq!(names(&listed(&["a", "b", "c"])), ["a/x", "b/x", "b/y", "z"]);
    let deep = listed(&["a", "p/a"]);
    let deep = names(&deep);
    assert!(deep.len() == 2 && deep[0].ends_with("/a/x") && deep[1] == "p/a/x", "{deep:?}");
    assert_eq!(names(&listed(&["a", "./a", "a/x.toml"])), ["x"], "one file is one case");
    let run = home.run(&["a/x.toml", "b/x.toml"]);
    assert!(run.out.starts_with("2 passed"), "{run}");
}

#[test]
fn a_misspelt_variable_is_warned_of() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    let mut command = home.command(&["run"]);
    command.env("COLLSPEC_BACKND", "soft").env("COLLSPEC_SEED", "1").env("COLLSPEC_SOFT_SEED", "1");
    let run = Run::of(&mut command);
    assert_eq!(run.code, 0, "{run}");
    let warnings: Vec<&str> = run.err.lines().filter(|line| line.contains("means nothing")).collect();
    assert_eq!(
        warnings,
        ["collspec: the variable COLLSPEC_BACKND means nothing to collspec; did you mean COLLSPEC_BACKEND?"]
    );
}

#[test]
fn the_help_keeps_to_the_width_of_the_terminal() {
    let home = Home::new();
    for (columns, most) in [("60", 60), ("200", 120)] {
        for args in [&["run", "--help"][..], &["audit", "--help"], &["--help"]] {
            let run = Run::of(home.command(args).env("COLUMNS", columns).stdin(Stdio::null()));
            assert_eq!(run.code, 0, "{run}");
            let longest = run.out.lines().max_by_key(|line| line.chars().count()).unwrap_or_default();
            assert!(longest.chars().count() <= most, "{longest}");
        }
    }
    let run = home.run(&["run", "--help"]);
    for heading in ["Which cases:", "What runs them:", "How they run:", "The software library:", "Limits:", "Report:"] {
        assert!(run.out.contains(heading), "{heading}: {run}");
    }
    assert!(run.out.contains("[alias: --memory]") || run.out.contains("[aliases: --memory]"), "{run}");
}

#[test]
fn memory_is_the_short_name_of_its_limit() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    let run = home.run(&["run", "--memory", "10"]);
    assert_eq!(run.code, 2, "{run}");
    assert!(run.err.contains("more than the limit of 10 bytes") && run.err.contains("`--max-memory "), "{run}");
}
