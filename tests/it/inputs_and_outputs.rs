//! Files that a command reads or writes: no output is one of the inputs, an error is an exit code, and nothing that is not a regular file
//! is waited for or read without an end.
use crate::support::jobs::LONG;
use crate::support::processes::{Process, children, end_of, wait_until};
use crate::support::{Home, Run, SUM, WRONG};
use rustix::process::Signal;
use std::fs;
use std::process::{Command, Stdio};

/// What one operation of two ranks takes, measured once.
const BENCH: &str = "world_size = 2\nop = \"all_reduce\"\ninputs = [[1, 2], [3, 4]]\n[bench]\nop = \"all_reduce\"\n";
const FAST: [&str; 10] = ["-b", "8", "-e", "8", "-n", "1", "-w", "0", "--samples", "1"];

fn bench(home: &Home, what: &str, more: &[&str]) -> Run {
    home.run(&[&["bench", what], &FAST[..], more].concat())
}

fn compare(home: &Home, base: &str, candidate: &str, more: &[&str]) -> Run {
    let sides = ["compare", "--base", base, "--candidate", candidate, "--no-footprint", "--starts", "0"];
    home.run(&[&sides[..], &["--repeats", "0"], more].concat())
}

fn record(home: &Home, path: &str, more: &[&str]) {
    let run = home.run(&[&["run", "--record", path, "--no-footprint"], more].concat());
    assert!(run.code < 2, "{run}");
}

#[test]
fn no_output_is_an_input() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    home.file("bench.toml", BENCH);
    home.file("allow.toml", "");
    record(&home, "base.jsonl", &[]);
    fs::hard_link(home.path("base.jsonl"), home.path("same")).unwrap();
    let before = |file: &str| fs::read(home.path(file)).unwrap();
    let kept: Vec<_> = ["bench.toml", "allow.toml", "base.jsonl"].map(|file| (file, before(file))).into();
    let refused = |run: Run, file: &str| {
        assert!(run.code == 2 && run.out.is_empty(), "{run}");
        assert!(run.err.contains(&format!("would be written over {file}, which this command reads")), "{run}");
    };
    for option in ["--output", "--plot", "-J"] {
        refused(bench(&home, "bench.toml", &[option, "./bench.toml"]), "bench.toml");
    }
    for (base, candidate) in [("base.jsonl", "soft"), ("soft", "base.jsonl")] {
        refused(compare(&home, base, candidate, &["--output", "base.jsonl"]), "base.jsonl");
        refused(compare(&home, base, candidate, &["--format", "html", "--output", "same"]), "base.jsonl");
    }
    refused(compare(&home, "soft", "soft", &["--allow", "allow.toml", "--output", "allow.toml"]), "allow.toml");
    refused(home.run(&["audit", "--baseline", "allow.toml", "--output", "allow.toml"]), "allow.toml");
    refused(home.run(&["minimize", "bench.toml", "--output", "bench.toml"]), "bench.toml");
    for (file, content) in kept {
        assert_eq!(before(file), content, "{file}");
    }
}

#[test]
fn what_cannot_be_written_is_an_error() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    for option in ["--output", "--plot", "-J"] {
        let run = bench(&home, "all_reduce", &[option, "/dev/full"]);
        assert!(
            run.code == 2 && run.err.contains("cannot write /dev/full: No space left on device"),
            "{option}: {run}"
        );
    }
    for options in [&["--record"][..], &["--format", "html", "--output"], &["--format", "jsonl", "--output"]] {
        let run = home.run(&[&["run"], options, &["/dev/full"]].concat());
        assert!(
            run.code == 2 && run.err.contains("cannot write /dev/full: No space left on device"),
            "{options:?}: {run}"
        );
    }
    let run = compare(&home, "soft", "soft", &["--output", "/dev/full"]);
    assert!(run.code == 2 && run.err.contains("cannot write /dev/full: No space left on device"), "{run}");
    let run = bench(&home, "all_reduce", &["--plot", "one", "-J", "./one"]);
    assert!(run.code == 2 && run.err.contains("two reports would be written to one file"), "{run}");
    assert!(!home.path("one").exists());
}

/// A pipe that nobody writes to, and a link to a file without an end.
fn without_an_end(home: &Home) -> [&'static str; 2] {
    assert!(Command::new("mkfifo").arg(home.path("pipe")).status().unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", home.path("zero")).unwrap();
    ["pipe", "zero"]
}

#[test]
fn only_regular_files_are_read() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    for name in without_an_end(&home) {
        let link = format!("{name}.jsonl");
        std::os::unix::fs::symlink(name, home.path(&link)).unwrap();
        for run in [
            compare(&home, &link, "soft", &[]),
            compare(&home, "soft", "soft", &["--allow", name]),
            home.run(&["audit", "--baseline", name]),
            home.run(&["audit", "--write-baseline", name]),
            home.run(&["minimize", name]),
        ] {
            assert!(run.code >= 2 && run.err.contains("it is not a regular file"), "{run}");
        }
        let run = compare(&home, name, "soft", &[]);
        assert!(run.code == 2 && run.err.contains("it is not a regular file"), "{run}");
        // What is kept between runs is a help, and a run without it is as good.
        let cache = home.path(".cache/collspec/failed");
        fs::create_dir_all(&cache).unwrap();
        assert_eq!(home.run(&["run"]).code, 0);
        home.file("scenarios/wrong.toml", WRONG);
        assert_eq!(home.run(&["run"]).code, 1);
        let kept = fs::read_dir(&cache).unwrap().flatten().map(|entry| entry.path());
        let kept = kept.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).last().unwrap();
        fs::remove_file(&kept).unwrap();
        std::os::unix::fs::symlink(home.path(name), &kept).unwrap();
        let run = home.run(&["run"]);
        assert!(run.code == 1 && run.err.contains("`--failed` will not know"), "{run}");
        let run = home.run(&["run", "--failed"]);
        assert!(run.code == 2 && run.err.contains("it is not a regular file"), "{run}");
        fs::remove_file(&kept).unwrap();
        fs::remove_file(home.path("scenarios/wrong.toml")).unwrap();
    }
}

#[test]
fn a_pipe_without_a_reader_is_not_waited_for() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    without_an_end(&home);
    for option in [&["--no-footprint", "--record"][..], &["--output"]] {
        let run = home.run(&[&["run"], option, &["pipe"]].concat());
        assert!(run.code == 2 && run.err.contains("cannot write pipe: nobody reads this pipe"), "{run}");
    }
    for (summary, code) in [("pipe", 2), ("zero", 0)] {
        let mut command = home.command(&["run", "--format", "github"]);
        let run = Run::of(command.env("GITHUB_STEP_SUMMARY", home.path(summary)));
        assert_eq!(run.code, code, "{run}");
        assert_eq!(run.err.contains("GITHUB_STEP_SUMMARY"), code == 2, "{run}");
    }
}

#[test]
fn a_file_is_recorded_by_one_run_at_a_time() {
    let home = Home::new();
    home.file("long.toml", LONG);
    home.file("sum.toml", SUM);
    let mut first = home.command(&["run", "long.toml", "--record", "run.jsonl", "--no-footprint"]);
    let mut first = first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the first run has a worker", || !children(first.id()).is_empty());
    let header = fs::read(home.path("run.jsonl")).unwrap();
    assert!(header.starts_with(b"{\"collspec_recording\""));
    let second = home.run(&["run", "sum.toml", "--record", "run.jsonl", "--no-footprint"]);
    let words = "cannot write run.jsonl: another process of collspec is writing this file";
    assert!(second.code == 2 && second.err.contains(words), "{second}");
    assert_eq!(fs::read(home.path("run.jsonl")).unwrap(), header);
    Process::find(first.id().cast_signed()).unwrap().signal(Signal::KILL);
    end_of(&mut first);
    record(&home, "run.jsonl", &["sum.toml"]);
}

#[test]
fn what_github_reads_has_no_marks_of_direction() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    record(&home, "base.jsonl", &[]);
    record(&home, "new.jsonl", &["--fault", "F02"]);
    for file in ["base.jsonl", "new.jsonl"] {
        let text = fs::read_to_string(home.path(file)).unwrap();
        let turned = text.replace("\"scenarios/sum.toml\"", "\"scenarios/\u{202e}sum\u{2066}.toml\"");
        assert_ne!(turned, text);
        home.file(file, &turned);
    }
    let run = compare(&home, "base.jsonl", "new.jsonl", &["--format", "github"]);
    assert!(run.code == 1 && run.out.contains("::error file=scenarios/\\u{202e}sum\\u{2066}.toml,"), "{run}");
    assert!(!run.out.contains(['\u{202e}', '\u{2066}']), "{run}");
}

#[test]
fn a_file_whose_name_cannot_be_one_does_not_stop_the_others() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    home.file("scenarios/a\nb\u{1b}[31m.toml", SUM);
    home.file("scenarios/in\u{202e}side/sum.toml", SUM);
    let formats = ["human", "jsonl", "junit", "html"];
    let reports = formats.map(|format| ["--format", format, "--output", format]).concat();
    let run = home.run(&[&["run", "--keep-going"], &reports[..]].concat());
    assert_eq!(run.code, 2, "{run}");
    for format in formats {
        let text = fs::read_to_string(home.path(format)).unwrap();
        // The text is about cases; the standard error has the files.
        let named = format == "human" || text.contains("path must be UTF-8 without control characters");
        assert!(named, "{format}: {text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{format}: {text}");
    }
    assert!(run.err.contains("a scenario's path must be UTF-8 without control characters"), "{run}");
    assert!(fs::read_to_string(home.path("human")).unwrap().contains("1 passed"), "{run}");
    let run = home.run(&["run"]);
    assert!(run.code == 2 && run.err.contains("errors in 2 files") && !run.out.contains("passed"), "{run}");
}

#[test]
fn a_long_list_of_accepted_changes_is_applied_and_its_faults_are_counted() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    record(&home, "base.jsonl", &[]);
    record(&home, "new.jsonl", &["--fault", "F02"]);
    let entry = |case: &str| format!("[[accept]]\ncase = \"{case}\"\nchange = \"now-wrong\"\nreason = \"known\"\n");
    let compare = |text: &str| {
        home.file("allow.toml", text);
        compare(&home, "base.jsonl", "new.jsonl", &["--allow", "allow.toml"])
    };
    for pattern in ["sum", "s*m"] {
        assert_eq!(compare(&entry(pattern)).code, 0, "{pattern}");
    }
    let stale = entry("sum").replace("now-wrong", "now-hangs").repeat(30_000);
    let run = compare(&(stale + &entry("sum")));
    assert!(run.code == 2 && run.err.contains("allow.toml:77:1: no change matches this entry"), "{run}");
    assert!(!run.err.contains("allow.toml:81:1") && run.err.contains("\nand 29980 more\n"), "{run}");
    let patterns: String = (0..1001).map(|number| entry(&format!("{number}*"))).collect();
    let run = compare(&patterns);
    assert!(run.code == 2 && run.err.contains("allow.toml:4001:1: more than 1000 entries have *"), "{run}");
}
