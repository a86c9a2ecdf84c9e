//! `collspec compare` over the software library: what changed is called by its name, and the exit code answers the question.

use crate::support::{Home, Run, SUM, WRONG};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// Rounds: the sum of four numbers depends on the order in which they are added.
const ROUNDING: &str = "world_size = 4\nop = \"all_reduce\"\n\
    inputs = { each = \"1.0 / (3 * rank + i + 1)\", count = 64 }\ndtype = \"f32\"\n";

fn corpus() -> Home {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    home.file("scenarios/gather.toml", &SUM.replace("all_reduce", "all_gather"));
    home.file("scenarios/rounding.toml", ROUNDING);
    home
}

fn compare(home: &Home, base: &str, candidate: &str, more: &[&str]) -> Run {
    let usual = ["compare", "--base", base, "--candidate", candidate, "--starts", "2"];
    home.run(&[&usual[..], more].concat())
}

/// The change of each case, from the report in JSON lines.
fn changes(run: &Run) -> Vec<(String, String)> {
    let lines = run.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let change = |line: Value| Some((line["case"].as_str()?.to_owned(), line["change"].as_str()?.to_owned()));
    lines.filter_map(change).collect()
}

fn named(changes: &[(&str, &str)]) -> Vec<(String, String)> {
    changes.iter().map(|(case, change)| ((*case).to_owned(), (*change).to_owned())).collect()
}

#[test]
fn a_library_is_no_worse_than_itself() {
    let home = corpus();
    let run = compare(&home, "soft", "soft", &[]);
    assert_eq!(run.code, 0, "{run}");
    assert!(run.out.contains("Compared: 3 of 3 cases (base 2 runs, candidate 2 runs)"), "{run}");
    let headline = "Results on the software model (without NCCL): nothing got worse. Speed: not measured.\n";
    let advice = "Advice: these cases give no reason to stay; speed was not measured (--bench);";
    assert!(run.out.starts_with(headline) && run.out.contains(&format!("{headline}{advice}")), "{run}");
    assert!(run.out.contains("3  same bits"), "{run}");
    assert!(
        run.out.contains("They use:\n  all_reduce       f32, 8 bytes to 256 bytes, 2 to 4 ranks: 2 calls in 2 cases"),
        "{run}"
    );
    assert!(run.out.contains("Starts that failed: base 0 of 2"), "{run}");
}

#[test]
fn a_fault_of_the_candidate_is_worse_and_one_of_the_base_is_fixed() {
    let home = corpus();
    let wrong = compare(&home, "soft", "soft fault=F18", &["--format", "jsonl"]);
    let fixed = compare(&home, "soft fault=F18", "soft", &["--format", "jsonl"]);
    assert_eq!((wrong.code, fixed.code), (1, 0), "{wrong}\n{fixed}");
    let (wrong, fixed) = (changes(&wrong), changes(&fixed));
    assert!(wrong.iter().any(|(_, change)| change == "now-wrong"), "{wrong:?}");
    for ((case, before), (other, after)) in wrong.iter().zip(&fixed) {
        assert_eq!(case, other);
        assert_eq!(before == "now-wrong", after == "fixed", "{case}: {before}, {after}");
    }
}

#[test]
fn another_order_is_no_worse_unless_bits_count() {
    let home = corpus();
    let tree = "soft NCCL_ALGO='Ring;allreduce:Tree'";
    let run = compare(&home, "soft", tree, &["--format", "jsonl"]);
    assert_eq!(run.code, 0, "{run}");
    let changed = changes(&run);
    assert_eq!(changed, named(&[("gather", "same-bits"), ("rounding", "other-order"), ("sum", "same-bits")]), "{run}");
    let reports = ["--format", "github", "--format", "junit", "--output", "junit.xml"];
    let bits = compare(&home, "soft", tree, &[&["--bits"][..], &reports].concat());
    assert_eq!(bits.code, 1, "{bits}");
    assert!(
        bits.out.contains("::error file=scenarios/rounding.toml,title=other order of summation%3A 1 case::"),
        "{bits}"
    );
    let junit = fs::read_to_string(home.path("junit.xml")).unwrap();
    assert!(junit.contains("<failure message=\"other order of summation: "), "{junit}");
    let human = compare(&home, "soft", tree, &[]);
    assert!(human.out.contains("other order of summation: 1 case") && human.out.contains(" -> "), "{human}");
    assert!(human.out.contains("variable NCCL_ALGO: not set -> `Ring;allreduce:Tree`"), "{human}");
}

/// Only the step whose order of summation changed is named, and only its operation is marked on the page.
#[test]
fn another_order_is_told_of_its_step_and_buffer_alone() {
    let home = Home::new();
    let steps = "world_size = 4\ninputs.x = { each = \"1.0 / (3 * rank + i + 1)\", count = 64 }\nsteps = [\n  \
        { op = \"all_gather\", in = \"x\", out = \"y\" },\n  { op = \"all_reduce\", in = \"x\", out = \"z\" },\n]\n";
    home.file("scenarios/two_steps.toml", &steps.replace("count = 64", "count = 64, dtype = \"f32\""));
    let run = compare(
        &home,
        "soft",
        "soft NCCL_ALGO='Ring;allreduce:Tree'",
        &["--no-footprint", "--format", "human", "--format", "html", "--output", "a.html"],
    );
    assert_eq!(run.code, 0, "{run}");
    assert!(run.out.contains("1 case: two_steps (`z` of step 2 (all_reduce))"), "{run}");
    let page = fs::read_to_string(home.path("a.html")).unwrap();
    assert!(page.contains("title=\"all_reduce, f32: other order of summation 1\""), "{page}");
    assert!(page.contains("title=\"all_gather, f32: unchanged 1\""), "{page}");
    assert!(page.contains("<code>z</code> of step 2 (all_reduce): "), "{page}");
}

/// Many cases that fail alike on both sides are one line.
#[test]
fn cases_that_fail_on_both_sides_are_told_by_reason() {
    let home = corpus();
    for number in 0..3 {
        home.file(&format!("scenarios/wrong{number}.toml"), WRONG);
    }
    let run = compare(&home, "soft", "soft", &["--no-footprint"]);
    assert_eq!(run.code, 0, "{run}");
    let (_, failing) = run.out.split_once("\nFail on both sides: 3 cases\n").unwrap_or_else(|| panic!("{run}"));
    let line = failing.lines().next().unwrap();
    assert!(line.starts_with("    3 cases: ") && line.ends_with("(for example wrong0)"), "{run}");
}

/// Every row of speed is in every report, the limits of a file count, and Markdown keeps within what a comment takes.
#[test]
fn rows_of_speed_and_their_limits_are_in_every_report() {
    let home = corpus();
    for number in 0..150 {
        home.file(&format!("scenarios/{}{number}.toml", "long".repeat(50)), SUM);
    }
    let bench = "all_reduce -b 1K -e 4K -f 2 -n 2 -w 1 -g 2 --place out --samples 5";
    home.file("limits.toml", "[all_reduce.float]\n2K = 1e9\n4K = 1e-9\n");
    let reports = ["--verbose", "--format", "human", "--format", "html", "--output", "a.html"];
    let comment = ["--format", "markdown", "--output", "a.md"];
    let measured = ["--no-footprint", "--bench", bench, "--min-busbw", "limits.toml"];
    let run = compare(&home, "soft", "soft fault=F03", &[&reports[..], &comment, &measured].concat());
    assert_eq!(run.code, 1, "{run}");
    let page = fs::read_to_string(home.path("a.html")).unwrap();
    let comment = fs::read_to_string(home.path("a.md")).unwrap();
    for report in [&run.out, &page, &comment] {
        assert!(report.contains(" cases got worse. Speed: "), "{report}");
        assert!(report.contains("below the limit of --min-busbw"), "{report}");
        for bytes in ["1,024", "2,048", "4,096"] {
            assert!(
                report.contains(&format!("all_reduce, sum, float, 2 ranks, out of place, {bytes} bytes")),
                "{report}"
            );
        }
    }
    assert!(
        comment.len() < 65_000 && comment.ends_with("The other reports have the rest.\n"),
        "{} bytes",
        comment.len()
    );
    for (text, words) in [
        ("[all_reduce.float]\n2X = 1\n", "limits.toml:2:1: expected a size"),
        ("[all_reduce.half]\n2K = 1\n", "limits.toml:2:1: --bench measures no row of this operation, type and size"),
    ] {
        home.file("limits.toml", text);
        let run = compare(&home, "soft", "soft", &["--bench", bench, "--min-busbw", "limits.toml"]);
        assert!(run.code == 2 && run.err.contains(words) && run.out.is_empty(), "{run}");
    }
}

/// The contents of memory that no step writes come from the seed, and those of a call that is cut short are any.
#[test]
fn memory_that_no_step_decides_is_no_result() {
    let home = Home::new();
    home.file("scenarios/off_root.toml", "world_size = 2\nop = \"reduce\"\ninputs = [[1], [2]]\n");
    home.file(
        "scenarios/half.toml",
        "world_size = 2\ninputs.x = { each = \"rank + i\", count = 4 }\nsteps = [\n  \
         { op = \"all_reduce\", in = \"x[:2]\", out = \"y[2:4]\" },\n  { op = \"all_gather\", in = \"x\", out = \"z\" },\n]\n",
    );
    home.file(
        "scenarios/aborted.toml",
        "world_size = 3\ninputs.x = { each = \"rank + 1\", count = 4 }\nsteps = [\n  \
         { op = \"all_reduce\", ranks = [0, 1], in = \"x\", out = \"y\" },\n  { op = \"abort\" },\n]\n",
    );
    let seed = compare(&home, "soft", "soft seed=7", &["--format", "jsonl"]);
    let same = named(&[("aborted", "same-bits"), ("half", "same-bits"), ("off_root", "same-bits")]);
    assert_eq!((seed.code, changes(&seed)), (0, same), "{seed}");
    // What steps write is compared beside them.
    let fault = compare(&home, "soft", "soft fault=F18", &["--format", "jsonl"]);
    assert!(changes(&fault).contains(&("half".to_owned(), "now-wrong".to_owned())), "{fault}");
}

#[test]
fn a_file_that_is_no_recording_is_named_before_a_driver_is_looked_for() {
    let home = corpus();
    let report = home.run(&["run", "--format", "jsonl", "--output", "report.jsonl"]);
    assert_eq!(report.code, 0, "{report}");
    for (base, words) in
        [("monday.jsonl", "cannot read monday.jsonl: "), ("report.jsonl", "report.jsonl is not a recording")]
    {
        let run = compare(&home, base, "soft", &[]);
        assert!(run.code == 2 && run.err.contains(words) && !run.err.contains("driver"), "{run}");
    }
    for (library, words) in [("./no.so", "no.so: No such file"), ("9.99.9", "there is no NCCL 9.99.9 on this machine")]
    {
        let run = home.run(&["run", "--nccl", library]);
        assert!(run.code == 3 && run.err.contains(words) && !run.err.contains("driver"), "{run}");
    }
}

#[test]
fn recorded_runs_are_compared_as_libraries_are() {
    let home = corpus();
    let record = |file: &str, options: &[&str]| {
        let run = home.run(&[&["run", "--record", file], options].concat());
        assert!(run.code < 2, "{run}");
    };
    record("base.jsonl", &[]);
    record("wrong.jsonl", &["--fault", "F18"]);
    // Two recordings need no scenarios.
    fs::rename(home.path("scenarios"), home.path("elsewhere")).unwrap();
    let recorded = compare(&home, "base.jsonl", "wrong.jsonl", &["--format", "jsonl"]);
    assert_eq!(recorded.code, 1, "{recorded}");
    let live = compare(&home, "soft", "soft fault=F18", &["--format", "jsonl", "elsewhere"]);
    assert_eq!(changes(&recorded), changes(&live));
    assert_eq!(compare(&home, "base.jsonl", "base.jsonl", &[]).code, 0);
    // A recording and a library.
    let mixed = compare(&home, "base.jsonl", "soft", &["elsewhere"]);
    assert_eq!(mixed.code, 0, "{mixed}");
    assert!(mixed.out.contains("(base recorded, candidate 2 runs)"), "{mixed}");
    // Without its end a recording is no ground for a verdict.
    let text = fs::read_to_string(home.path("base.jsonl")).unwrap();
    let without_end: Vec<&str> = text.lines().filter(|line| !line.contains("\"recorded\":")).collect();
    home.file("cut.jsonl", &(without_end.join("\n") + "\n"));
    let cut = compare(&home, "cut.jsonl", "base.jsonl", &[]);
    assert_eq!(cut.code, 4, "{cut}");
    assert!(cut.out.contains("the recording of the base has no end"), "{cut}");
    let settings = compare(&home, "base.jsonl NCCL_ALGO=Tree", "base.jsonl", &[]);
    assert_eq!(settings.code, 2, "{settings}");
    assert!(settings.err.contains("a recorded run takes no settings"), "{settings}");
}

#[test]
#[ignore = "slow"]
fn accepted_changes_need_a_reason_and_must_happen() {
    let home = corpus();
    let faulty = "soft fault=F18";
    let written = compare(&home, "soft", faulty, &["--write-allow", "accepted.toml"]);
    assert_eq!(written.code, 1, "{written}");
    let again = compare(&home, "soft", faulty, &["--write-allow", "accepted.toml"]);
    assert!(again.code == 2 && again.err.contains("accepted.toml exists"), "{again}");
    let empty = compare(&home, "soft", faulty, &["--allow", "accepted.toml"]);
    assert!(empty.code == 2 && empty.err.contains("accepted.toml:4:1: write into `reason`"), "{empty}");
    let text = fs::read_to_string(home.path("accepted.toml")).unwrap();
    home.file("accepted.toml", &text.replace("reason = \"\"", "reason = \"a known bug\""));
    let accepted = compare(&home, "soft", faulty, &["--allow", "accepted.toml"]);
    assert_eq!(accepted.code, 0, "{accepted}");
    assert!(accepted.out.contains("Accepted by --allow: "), "{accepted}");
    let stale = compare(&home, "soft", "soft", &["--allow", "accepted.toml"]);
    assert!(stale.code == 2 && stale.err.contains("no change matches this entry"), "{stale}");
    let pattern = "[[accept]]\ncase = \"*\"\nchange = \"now-wrong\"\nreason = \"known\"\n";
    home.file("all.toml", pattern);
    assert_eq!(compare(&home, "soft", faulty, &["--allow", "all.toml"]).code, 0);
    for (text, words) in [
        ("[[accept]]\ncase = \"a\"\nreason = \"x\"\n", "bad.toml:1:1: say which `change`"),
        ("[[accept]]\ncase = \"a\"\nchange = \"now-wrog\"\nreason = \"x\"\n", "did you mean `now-wrong`?"),
        ("[[accept]]\nchange = \"now-wrong\"\nreason = \"x\"\n", "say which `case`"),
        ("[[accept]]\ncase = 3\n", "bad.toml:2:8: invalid type"),
        ("accept", "bad.toml:1:"),
    ] {
        home.file("bad.toml", text);
        let run = compare(&home, "soft", "soft", &["--allow", "bad.toml"]);
        assert!(run.code == 2 && run.err.contains(words), "{text}\n{run}");
        assert_eq!(run.out, "", "nothing runs");
    }
}

/// The exit code is explained by every report in the folder.
#[test]
fn a_gate_reports_an_accepted_change_that_did_not_happen() {
    let home = corpus();
    home.file("upgrade-gate.toml", "[[accept]]\ncase = \"s*\"\nchange = \"now-wrong\"\nreason = \"known\"\n");
    let run = home.run(&["gate", "soft", "soft", "--", "--no-footprint", "--starts", "0"]);
    assert_eq!(run.code, 2, "{run}");
    for name in ["messages.txt", "report.txt", "report.jsonl", "junit.xml", "report.html", "report.md"] {
        let report = fs::read_to_string(home.path(&format!("upgrade-gate/{name}"))).unwrap();
        assert!(report.contains("upgrade-gate.toml:1:1: no change matches this entry"), "{name}: {report}");
        assert!(name != "junit.xml" || report.contains("<error "), "{report}");
    }
    let odd = home.run(&["gate", "soft", "soft", "--", "--bnech"]);
    assert_eq!(
        odd.err,
        "collspec: unexpected argument '--bnech' found\n\n  tip: a similar argument exists: '--bench'\n"
    );
}

/// A file that the comparison reads may lie in the folder of the reports under the name of one, and a link leads to any file.
#[test]
fn a_gate_removes_no_file_that_it_reads() {
    let home = corpus();
    home.file("upgrade-gate/report.jsonl", "recorded");
    home.file("upgrade-gate/messages.txt", "[[accept]]\n");
    for arguments in [
        &["gate", "upgrade-gate/report.jsonl", "soft"][..],
        &["gate", "soft", "upgrade-gate/report.jsonl"],
        &["gate", "soft", "soft", "--allow", "upgrade-gate/messages.txt"],
        &["gate", "soft", "soft", "--", "--min-busbw", "upgrade-gate/messages.txt"],
        &["gate", "soft", "soft", "--", "--min-busbw=upgrade-gate/messages.txt"],
    ] {
        let refused = home.run(arguments);
        assert!(refused.code == 2 && refused.err.contains("which this command reads"), "{arguments:?}\n{refused}");
        assert_eq!(fs::read_to_string(home.path("upgrade-gate/report.jsonl")).unwrap(), "recorded");
        assert_eq!(fs::read_to_string(home.path("upgrade-gate/messages.txt")).unwrap(), "[[accept]]\n");
    }
    home.file("mine", "kept");
    fs::remove_file(home.path("upgrade-gate/messages.txt")).unwrap();
    std::os::unix::fs::symlink("../mine", home.path("upgrade-gate/messages.txt")).unwrap();
    let run = home.run(&["gate", "soft", "soft", "--", "--no-footprint", "--starts", "0"]);
    assert_eq!((run.code, fs::read_to_string(home.path("mine")).unwrap().as_str()), (0, "kept"), "{run}");
}

#[test]
fn too_little_is_no_verdict() {
    let home = corpus();
    let few = compare(&home, "soft", "soft", &["--at-least", "4"]);
    assert_eq!(few.code, 4, "{few}");
    assert!(few.out.contains("too little was compared: on both sides, 3 of 3 cases ran, and 4 were required"), "{few}");
    let home = Home::new();
    home.file("scenarios/gpus.toml", &format!("requires = {{ gpus = 64 }}\n{SUM}"));
    let none = compare(&home, "soft", "soft", &[]);
    assert_eq!(none.code, 4, "{none}");
    assert!(none.out.contains("on both sides, 0 of 1 cases ran"), "{none}");
    let home = Home::new();
    home.file("scenarios/wrong.toml", WRONG);
    let failing = compare(&home, "soft", "soft", &[]);
    assert_eq!(failing.code, 4, "{failing}");
    assert!(failing.out.contains("the base itself fails 1 of the 1 cases"), "{failing}");
}

#[test]
fn a_side_that_is_not_there_is_an_error() {
    let home = corpus();
    let missing = compare(&home, "soft", "/no/such/libnccl.so.2", &[]);
    assert_eq!(missing.code, 3, "{missing}");
    for odd in ["/dev/zero", "/dev"] {
        let device = compare(&home, odd, "soft", &[]);
        assert!(device.code == 2 && device.err.contains("it is not a regular file"), "{device}");
    }
    let odd = compare(&home, "soft", "soft tree", &[]);
    assert!(odd.code == 2 && odd.err.contains("`tree` is not a setting"), "{odd}");
    home.file("newer.jsonl", "{\"collspec_recording\":999}\n");
    let newer = compare(&home, "soft", "newer.jsonl", &[]);
    assert!(newer.code == 2 && newer.err.contains("a recording of format 999"), "{newer}");
    home.file("scenarios/faulty.toml", "world_size = 0\n");
    let faulty = compare(&home, "soft", "soft", &[]);
    assert!(faulty.code == 2 && faulty.err.contains("faulty.toml:1:"), "{faulty}");
}

/// What is wrong with the command line is told before anything runs, and in the words of this command.
#[test]
fn mistakes_of_the_command_line_are_told_at_once() {
    let home = corpus();
    for (more, words) in [
        (&["--bench", "all_reduce -b"][..], "collspec: --bench: a value is required for '--minbytes <SIZE>'"),
        (&["--bench", "all_reduce --lines 3"], "collspec: --bench: unexpected argument '--lines' found"),
        (&["--bench", "all_reduce --help"], "collspec: --bench: expected what is measured"),
        (&["-k", "nothing"], "`collspec run --list` with these paths and without a filter names the cases"),
        (&["--write-allow", "none/allow.toml"], "cannot write none/allow.toml: none: No such file or directory"),
        (&["--format", "html", "--output", "none/a.html"], "cannot write none/a.html: none: No such file or directory"),
    ] {
        let run = compare(&home, "soft", "soft", more);
        assert!(run.code == 2 && run.err.contains(words), "{more:?}: {run}");
        let again = ["error:", "Usage:", "run 1 of"].iter().find(|words| run.err.contains(**words));
        assert_eq!(again, None, "{more:?}: {run}");
    }
    for args in [
        &["minimize", "scenarios/sum.toml", "--output", "none/a.toml"][..],
        &["bench", "all_reduce", "--plot", "none/a.svg"],
        &["audit", "scenarios", "--write-baseline", "none/a.json"],
    ] {
        let run = home.run(args);
        assert!(run.code == 2 && run.err.contains(": none: No such file or directory"), "{args:?}: {run}");
    }
}

#[test]
fn what_has_no_effect_and_what_a_recording_lacks_is_told() {
    let home = corpus();
    let recorded = home.run(&["run", "--backend", "soft", "--record", "base.jsonl", "--no-footprint"]);
    assert_eq!(recorded.code, 0, "{recorded}");
    let run = compare(&home, "base.jsonl", "base.jsonl", &["-k", "sum", "--timeout", "3"]);
    assert!(run.err.contains("collspec: --filter, --timeout have no effect: both sides are recorded runs"), "{run}");
    assert!(run.out.contains("the candidate's recording has no footprint (it was made with --no-footprint)"), "{run}");
    assert!(run.out.contains("what fails in some starts only: both sides are recorded runs"), "{run}");
    let run = compare(&home, "base.jsonl", "soft ranks-per-gpu=2 seed=3", &[]);
    assert!(run.err.contains("collspec: candidate: ranks-per-gpu=2 has no effect: "), "{run}");
    assert!(!run.err.contains("seed=3 has no effect"), "{run}");
    assert!(run.out.contains("Not compared:\n  what the library costs a process: the base's recording"), "{run}");
}

/// After SIGINT the report has what was compared until then, and claims no more.
#[test]
fn an_interrupt_leaves_what_was_compared() {
    let home = corpus();
    home.file("scenarios/slow.toml", "world_size = 1\nsteps = [{ op = \"sleep\", seconds = 1.0 }]\n");
    let now_wrong = "[[accept]]\ncase = \"*\"\nchange = \"now-wrong\"\nreason = \"known\"\n";
    home.file("accepted.toml", now_wrong);
    let usual = ["compare", "--base", "soft", "--candidate", "soft", "--no-footprint"];
    let args = [&usual[..], &["--runs", "1000000", "--allow", "accepted.toml"]].concat();
    let mut child = home.command(&args).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    lines.find(|line| line.as_ref().unwrap().contains("run 2 of")).unwrap().unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(130), "{text}\n{rest:?}");
    let headline = "Results on the software model (without NCCL): no verdict, because the comparison was interrupted. Speed: not measured.\n";
    assert!(text.starts_with(&format!("{headline}  the comparison was interrupted\n")), "{text}");
    assert!(text.contains("Compared: 4 of 4 cases (base 1 run, candidate 1 run)"), "{text}");
    assert!(!rest.iter().any(|line| line.contains("no change matches this entry")), "{rest:?}");
    assert!(
        rest.iter().any(|line| line.contains("interrupted; the report has what was compared until then")),
        "{rest:?}"
    );
}
