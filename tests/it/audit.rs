//! `collspec audit`, on real workers with real faults.

use crate::support::{Home, SUM, WRONG};
use serde_json::Value;

/// A root that is not 0, and a block for every rank.
const BROADCAST: &str = "world_size = 2\nop = \"broadcast\"\nroot = 1\ninputs = [[1, 2], [3, 4]]\n";
const SWEEP: &str =
    "matrix.world_size = [2, 3]\nop = \"all_reduce\"\ninputs = { each = \"2 ^ rank + i\", count = 5 }\n";

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn entry<'a>(lines: &'a [Value], kind: &str, id: &str) -> &'a Value {
    lines.iter().find(|line| line["kind"] == kind && (line["id"] == id || line["name"] == id)).unwrap()
}

#[test]
fn faults_are_listed_without_a_run() {
    let home = Home::new();
    let run = home.run(&["audit", "--list-faults"]);
    assert!(run.code == 0 && run.out.lines().count() > 700, "{run}");
    assert!(run.out.lines().any(|line| line.starts_with("J10 ") && line.contains("hangs")), "{run}");
    let some = home.run(&["audit", "--list-faults", "--fault", "F14,J01"]);
    let ids: Vec<_> = some.out.lines().map(|line| line.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(ids, ["F14", "J01"], "{some}");
}

#[test]
fn what_is_caught_and_what_is_missed_is_told_fault_by_fault() {
    let home = Home::new();
    home.file("mine/root.toml", BROADCAST);
    home.file("mine/sum.toml", SWEEP);
    let run = home.run(&["audit", "mine", "--fault", "F14,F21,F36,J01,J03", "--scenarios"]);
    assert_eq!(run.code, 1, "{run}");
    let row =
        |id: &str| run.out.lines().find(|line| line.starts_with(id)).unwrap_or_else(|| panic!("{run}")).to_owned();
    let words = |id: &str| row(id).split_whitespace().take(5).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words("F14"), ["F14", "1", "1", "1", "exact"], "{run}");
    assert_eq!(words("F21"), ["F21", "2", "2", "1", "exact"], "{run}");
    assert!(!run.out.lines().any(|line| line.starts_with("F36")), "{run}");
    assert!(run.out.lines().any(|line| line == "MISSED 1 fault that no case meets: F36"), "{run}");
    assert_eq!(words("J03")[..2], ["J03", "MISSED"], "{run}");
    assert!(run.out.contains("catch all that is caught"), "{run}");
    assert!(run.out.lines().any(|line| line.starts_with("root") && line.contains("F14")), "{run}");

    let run = home.run(&["audit", "mine", "--fault", "F14,F21,F36,J01", "--format", "jsonl"]);
    assert_eq!(run.code, 1, "{run}");
    let lines = lines(&run.out);
    assert_eq!(entry(&lines, "fault", "F21")["caught"], 2, "{run}");
    assert_eq!(entry(&lines, "fault", "F36")["missed"], true, "{run}");
    assert!(entry(&lines, "fault", "F36")["shown_by"].is_string(), "{run}");
    assert!(entry(&lines, "fault", "F36")["scenario"].as_str().is_some_and(|text| text.contains("key = ")), "{run}");
    assert!(entry(&lines, "fault", "F21").get("scenario").is_none(), "{run}");
    assert_eq!(entry(&lines, "scenario", "root")["alone"].as_array().unwrap()[0], "F14", "{run}");
    let summary = lines.last().unwrap();
    assert_eq!((&summary["kind"], &summary["cases"]), (&"summary".into(), &3.into()), "{run}");
    assert_eq!(summary["fault_classes"]["caught"], 2, "{run}");
    assert_eq!(summary["runs"], 3, "only what is met is run: {run}");
}

#[test]
fn a_corpus_that_catches_all_that_was_asked_for_ends_with_zero() {
    let home = Home::new();
    home.file("scenarios/root.toml", BROADCAST);
    home.file("scenarios/sum.toml", SWEEP);
    let run = home.run(&["audit", "--fault", "F14,F21"]);
    assert_eq!(run.code, 0, "{run}");
    assert!(run.out.trim_end().lines().last().unwrap().starts_with("2 of 2 fault classes caught"), "{run}");
    let run = home.run(&["audit", "--filter", "sum", "--fault", "F14,F21"]);
    assert_eq!(run.code, 1, "without the broadcast no scenario catches F14: {run}");
}

#[test]
fn a_corpus_must_pass_before_it_is_audited() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    home.file("scenarios/wrong.toml", WRONG);
    let run = home.run(&["audit"]);
    assert_eq!(run.code, 1, "{run}");
    assert_eq!(run.out, "", "{run}");
    assert!(
        run.err.contains("FAIL wrong") && run.err.contains("`wrong` fails on the library without a fault"),
        "{run}"
    );

    home.file("scenarios/wrong.toml", "world_size = 2\nop = \"all_reduce\"\ninputs = { each = \"x\", count = 2 }\n");
    let run = home.run(&["audit"]);
    assert_eq!(run.code, 2, "{run}");
    assert!(run.err.contains("wrong.toml:3:"), "{run}");

    let run = home.run(&["audit", "--fault", "F99"]);
    assert_eq!(run.code, 2, "{run}");
    assert!(run.err.contains("there is no fault `F99`"), "{run}");
}

#[test]
fn what_no_case_meets_is_one_line_and_the_advice_can_be_pasted() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    let run = home.run(&["audit", "--fault", "F14,F30c,F36,F36b,F41"]);
    assert_eq!(run.code, 1, "{run}");
    let never: Vec<&str> = run.out.lines().filter(|line| line.contains("that no case meets")).collect();
    assert_eq!(never, ["MISSED 40 faults that no case meets: F14, F30c, F36, F36b, F41"], "{run}");
    assert_eq!(run.out.lines().filter(|line| line.contains("MISSED")).count(), 1, "{run}");
    assert!(run.out.contains("more scenarios would catch the others: `--fault ID` shows"), "{run}");

    let run = home.run(&["audit", "--fault", "F36"]);
    let (_, advice) = run.out.split_once("A scenario for F36 ").unwrap();
    let (_, rest) = advice.split_once("\n\n").unwrap();
    let (scenario, _) = rest.split_once("\n\n").unwrap();
    home.file("scenarios/pasted.toml", scenario);
    let run = home.run(&["audit", "--fault", "F36"]);
    assert_eq!(run.code, 0, "{run}");
}

#[test]
fn an_audit_is_held_to_a_recorded_one() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SWEEP);
    let audit = |more: &[&str]| home.run(&[&["audit", "--fault", "F14,F21,F36"], more].concat());
    assert_eq!(audit(&[]).code, 1);
    let run = audit(&["--write-baseline", "audit.txt"]);
    assert_eq!(run.code, 0, "recording is no failure: {run}");
    let recorded = || std::fs::read_to_string(home.path("audit.txt")).unwrap();
    assert!(recorded().ends_with("\nF14 missed\nF21 caught\nF36 missed\n"), "{}", recorded());
    assert_eq!(audit(&["--baseline", "audit.txt"]).code, 0);
    home.file("scenarios/root.toml", BROADCAST);
    let run = audit(&["--baseline", "audit.txt"]);
    assert!(run.code == 0 && run.err.contains("caught, and missed in audit.txt: F14; `--write-baseline`"), "{run}");
    assert_eq!(audit(&["--baseline", "audit.txt", "--write-baseline", "audit.txt"]).code, 0);
    assert!(recorded().contains("F14 caught\n"), "{}", recorded());
    std::fs::remove_file(home.path("scenarios/root.toml")).unwrap();
    let run = audit(&["--baseline", "audit.txt"]);
    assert!(run.code == 1 && run.err.contains("missed, and not missed in audit.txt: F14"), "{run}");
    // What is not looked for stays in the record.
    assert_eq!(home.run(&["audit", "--fault", "F14", "--write-baseline", "audit.txt"]).code, 0);
    assert!(recorded().ends_with("\nF14 missed\nF21 caught\nF36 missed\n"), "{}", recorded());

    home.file("audit.txt", "F14 caught\nF21 mised\n");
    let run = audit(&["--baseline", "audit.txt"]);
    assert!(run.code == 2 && run.err.contains("audit.txt: line 2: expected a fault and"), "{run}");
    let run = audit(&["--write-baseline", "scenarios/sum.toml"]);
    assert!(run.code == 2 && run.err.contains("would be written over scenarios/sum.toml"), "{run}");
}

#[test]
fn an_audit_can_ask_for_a_number_of_faults() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SWEEP);
    let audit = |least: &str| home.run(&["audit", "--fault", "F14,F20,F21,F36", "--at-least", least]);
    for (least, code) in [("2", 0), ("3", 1), ("50%", 0), ("51%", 1)] {
        let run = audit(least);
        assert_eq!(run.code, code, "{least}: {run}");
        let words = format!("2 of 4 faults are caught, which is less than `--at-least {least}`");
        assert_eq!(run.err.contains(&words), code == 1, "{run}");
    }
    assert_eq!(audit("many").code, 2);
}
