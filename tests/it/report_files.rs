//! Several reports of one run, each in its format and place.
use crate::support::{Home, Run, SUM, WRONG};
use collspec::{ReportLine, Status};
use serde_json::{Value, json};
use std::fs;

/// A file that cannot be used.
const TYPO: &str = "world_size = 2\nop = \"all_reduce\"\nredcue = \"max\"\ninputs = [[1], [2]]\n";

fn read(home: &Home, path: &str) -> String {
    fs::read_to_string(home.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn lines(text: &str) -> Vec<ReportLine> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

#[test]
fn one_run_writes_several_reports() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    home.file("scenarios/wrong.toml", WRONG);
    let reports = "--format jsonl --output run.jsonl --format junit --output junit.xml --format html --output run.html";
    let words: Vec<&str> = ["run"].into_iter().chain(reports.split(' ')).collect();
    let run = home.run(&words);
    assert_eq!(run.code, 1, "{run}");
    assert!(run.out.starts_with("FAIL wrong\n") && run.out.contains("\n1 passed, 1 failed, 0 skipped in "), "{run}");
    assert!(!run.out.contains("before"), "the page shows buffers, the text only if asked: {run}");
    assert_eq!(lines(&read(&home, "run.jsonl")).len(), 3);
    let junit = read(&home, "junit.xml");
    assert!(junit.contains("<testsuites ") && junit.contains("tests=\"2\"") && junit.contains("name=\"wrong (soft)\""));
    let page = read(&home, "run.html");
    assert!(page.contains("<title>1 of 2 cases failed</title>") && page.contains("<h3>Before</h3>"), "{page}");

    // Another report on the standard output takes the text's place.
    let run = home.run(&["run", "--format", "jsonl", "--format", "junit", "--output", "junit.xml"]);
    assert_eq!(lines(&run.out).len(), 3, "{run}");
    // The text in a file is not printed too.
    let run = home.run(&["run", "--format", "human", "--output", "text", "--format", "junit", "--output", "junit.xml"]);
    assert_eq!(run.out, "", "{run}");
    assert!(read(&home, "text").starts_with("FAIL wrong\n"));
}

#[test]
fn two_reports_do_not_share_a_file() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    home.file("there", "");
    std::os::unix::fs::symlink("there", home.path("link")).unwrap();
    for (first, second) in [("a", "a"), ("a", "./a"), ("there", "link"), ("a", "scenarios/../a")] {
        let run = home.run(&["run", "--format", "jsonl", "--output", first, "--format", "junit", "--output", second]);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{run}");
        assert!(run.err.contains("two reports would be written to "), "{run}");
        assert!(!home.path("a").exists(), "nothing is written");
    }
    let null = "/dev/null";
    let run = home.run(&["run", "--format", "jsonl", "--output", null, "--format", "junit", "--output", null]);
    assert_eq!(run.code, 0, "{run}");
    let run = home.run(&["run", "--format", "jsonl", "--format", "junit", "--output", "scenarios/sum.toml"]);
    assert_eq!(run.code, 2, "{run}");
    assert!(run.err.contains("the report would be written over scenarios/sum.toml"), "{run}");
}

/// Nobody is to take the failures of a library that is wrong on purpose for those of a library.
#[test]
fn every_report_says_that_a_fault_was_asked_for() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    let formats = ["jsonl", "junit", "html", "markdown"];
    let asked: Vec<String> =
        formats.iter().flat_map(|f| ["--format", f, "--output", &format!("to.{f}")].map(str::to_owned)).collect();
    let run = |fault: &str| {
        let mut args = vec!["run", "sum.toml", "--fault", fault];
        args.extend(asked.iter().map(String::as_str));
        home.run(&args)
    };
    let struck = run("F21");
    assert!(struck.code == 1 && struck.err.contains("the fault F21 changed something in 1 of 1 cases"), "{struck}");
    for format in formats {
        let text = fs::read_to_string(home.path(&format!("to.{format}"))).unwrap();
        assert!(text.contains("F21"), "{format}: {text}");
    }
    let missed = run("F84");
    assert!(missed.code == 0 && missed.err.contains("the fault F84 changed something in 0 of 1 cases"), "{missed}");
}

#[test]
fn every_line_of_json_reads_back() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    home.file("scenarios/typo.toml", TYPO);
    home.file("scenarios/wrong.toml", &format!("# The first line.\n{WRONG}"));
    home.file("scenarios/skipped.toml", &format!("requires = {{ gpus = 64 }}\n{SUM}"));
    home.file(
        "scenarios/steps.toml",
        "world_size = 4\nforms = [\"sub\"]\ninputs.x = { each = \"rank + i\", count = 41 }\nsteps = [\n  \
         { op = \"all_reduce\", in = \"x\", out = \"y\" },\n]\n",
    );
    let run = home.run(&["run", "--keep-going", "--format", "jsonl", "--fault", "F02"]);
    assert_eq!(run.code, 2, "{run}");
    let read = lines(&run.out);
    for (line, text) in read.iter().zip(run.out.lines()) {
        let (back, text): (Value, Value) = (serde_json::to_value(line).unwrap(), serde_json::from_str(text).unwrap());
        assert_eq!(back, text);
    }
    let ReportLine::InvalidFile(invalid) = &read[0] else { panic!("{run}") };
    assert_eq!((invalid.file.as_str(), invalid.name.as_str()), ("scenarios/typo.toml", "typo"));
    let diagnostic = &invalid.diagnostics[0];
    assert_eq!((diagnostic.line, diagnostic.column), (3, 1));
    assert!(
        diagnostic.message.contains("redcue") && diagnostic.help.as_ref().is_some_and(|help| help.contains("reduce"))
    );

    let Some(ReportLine::Summary(summary)) = read.last() else { panic!("{run}") };
    let counts = (summary.pass + summary.fail, summary.skip, summary.invalid_files, summary.not_run);
    assert_eq!((counts, summary.backend.as_str(), summary.library.as_str()), ((4, 1, 1, 0), "soft", "2.32.3"));
    assert!(summary.seconds > 0.0);

    let case = |name: &str| {
        let named = read.iter().find_map(|line| match line {
            ReportLine::Case(case) if case.case == name => Some(case),
            _ => None,
        });
        named.unwrap_or_else(|| panic!("{name} is not in {run}"))
    };
    let wrong = case("wrong");
    assert_eq!((wrong.file.as_str(), wrong.line, wrong.status), ("scenarios/wrong.toml", 2, Status::Fail));
    let steps = case("steps");
    assert_eq!((steps.status, steps.findings.len()), (Status::Fail, 1), "{steps:?}");
    let finding = &steps.findings[0];
    let place = finding.place.map(|place| (place.line, place.column));
    assert_eq!((finding.rank, finding.ranks.as_slice(), place), (Some(0), [0, 1, 2, 3].as_slice(), Some((5, 10))));
    assert_eq!((finding.buffer.as_deref(), finding.step.as_deref()), (Some("y"), Some("step 1 (all_reduce)")));
    assert!(
        finding.wrong > 0 && finding.of > 0 && !finding.expected.is_empty() && !finding.actual.is_empty(),
        "{finding:?}"
    );
    assert_eq!(case("steps[form=sub]").form.as_deref(), Some("sub"));
}

#[test]
fn files_are_whole_after_an_early_end() {
    let home = Home::new();
    for name in ["a", "b", "c"] {
        home.file(&format!("scenarios/{name}.toml"), WRONG);
    }
    let reports = ["--format", "junit", "--output", "junit.xml", "--format", "html", "--output", "run.html"];
    let jsonl = ["--format", "jsonl", "--output", "run.jsonl"];
    let run = home.run(&[&["run", "--jobs", "1", "--fail-fast"], &reports[..], &jsonl].concat());
    assert_eq!(run.code, 1, "{run}");
    let read_lines = lines(&read(&home, "run.jsonl"));
    let Some(ReportLine::Summary(summary)) = read_lines.last() else { panic!("{run}") };
    assert_eq!((summary.fail, summary.not_run), (1, 2));
    assert!(read(&home, "junit.xml").trim_end().ends_with("</testsuites>"));
    assert!(read(&home, "run.html").trim_end().ends_with("</html>") && read(&home, "run.html").contains("2 not run"));

    // Nothing runs because of a file: the reports for programs say so.
    home.file("scenarios/typo.toml", TYPO);
    let run = home.run(&[&["run"], &reports[..], &jsonl].concat());
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{run}");
    let read_lines = lines(&read(&home, "run.jsonl"));
    assert!(matches!(&read_lines[..], [ReportLine::InvalidFile(_), ReportLine::Summary(_)]), "{read_lines:?}");
    let junit = read(&home, "junit.xml");
    assert!(junit.contains("errors=\"1\"") && junit.contains("redcue"), "{junit}");
    assert!(read(&home, "run.html").contains("1 invalid files"));
}

#[test]
fn github_gets_annotations_and_a_summary() {
    let home = Home::new();
    home.file("repository/sub/scenarios/sum.toml", SUM);
    home.file("repository/sub/scenarios/wrong.toml", &format!("{WRONG}matrix.dtype = [\"f32\", \"i32\"]\n"));
    home.file("summary.md", "before\n");
    let mut command = home.command(&["run", "--format", "github"]);
    command.current_dir(home.path("repository/sub"));
    command.env("GITHUB_WORKSPACE", home.path("repository")).env("GITHUB_STEP_SUMMARY", home.path("summary.md"));
    let run = Run::of(&mut command);
    assert_eq!(run.code, 1, "{run}");
    let all: Vec<&str> = run.out.lines().collect();
    let word = all[0].strip_prefix("::stop-commands::").unwrap();
    let end = all.iter().position(|line| *line == format!("::{word}::")).unwrap();
    assert!(all[1..end].iter().any(|line| line.starts_with("1 passed, 2 failed")), "the text is printed: {run}");
    let [annotation] = &all[end + 1..] else { panic!("{run}") };
    let begin = "::error file=sub/scenarios/wrong.toml,line=4,col=23,title=wrong[dtype=f32] fails%3A expect::rank 1";
    assert!(annotation.starts_with(begin), "{run}");
    assert!(annotation.ends_with("%0Aand 1 more case of the file for the same cause"), "{run}");
    let summary = read(&home, "summary.md");
    assert!(summary.starts_with("before\n## collspec: failed\n"), "{summary}");
    assert!(
        summary.contains("| 1 | 2 | 0 | 0 | 0 |") && summary.contains("<code>wrong[dtype=i32]</code>"),
        "{summary}"
    );

    // Without the option nothing is guessed.
    let mut command = home.command(&["run", "repository/sub/scenarios"]);
    command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", home.path("summary.md"));
    let run = Run::of(&mut command);
    assert!(!run.out.contains("::error") && !run.out.contains("::stop"), "{run}");
    assert_eq!(read(&home, "summary.md"), summary);
}

#[test]
fn the_last_line_of_check_is_a_summary_too() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    home.file("scenarios/typo.toml", TYPO);
    let run = home.run(&["check", "--format", "jsonl"]);
    let last: Value = serde_json::from_str(run.out.lines().last().unwrap()).unwrap();
    assert_eq!((&last["summary"]["invalid_files"], &last["invalid_files"]), (&json!(1), &json!(1)), "{run}");
    assert!(last["summary"]["seconds"].as_f64().is_some_and(|seconds| seconds >= 0.0), "{run}");
}
