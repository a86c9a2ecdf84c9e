use super::*;
use collspec_core::judge::Status;
use collspec_suite::report::InheritedVariables;
use collspec_suite::suite::fixture;
use std::fs;

fn reporter(places: GithubPlaces) -> GithubReporter<Vec<u8>> {
    let rerun = RerunCommand::command_line(Vec::new(), InheritedVariables::default());
    GithubReporter::new(Vec::new(), RunFacts::new("soft", "2.30.7"), rerun, places)
}

fn failed(name: &str, reason: &str) -> Event {
    let verdict = Verdict { reason: Some(reason.into()), ..fixture::verdict(name, Status::Fail) };
    Event::CaseDone { case: fixture::case(name), verdict: Box::new(verdict) }
}

/// The annotations of a run.
fn annotations(events: &[Event], places: GithubPlaces) -> Vec<String> {
    let mut github = reporter(places);
    github.event(&Event::Started { cases: events.len() }).unwrap();
    events.iter().for_each(|event| github.event(event).unwrap());
    github.event(&Event::Finished { seconds: 1.0 }).unwrap();
    let text = String::from_utf8(github.to).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let stop = lines.remove(0);
    let word = stop.strip_prefix("::stop-commands::").unwrap();
    assert!(word.len() > 20);
    assert_eq!(lines.remove(0), format!("::{word}::"));
    lines
}

#[test]
fn cases_of_a_file_with_one_cause_share_an_annotation() {
    let here = GithubPlaces { here: "/w/repo/sub".into(), workspace: Some("/w/repo".into()), step_summary: None };
    let lines = annotations(&[failed("a[n=1]", "it: differs,\n50%"), failed("a[n=2]", "so"), failed("b", "x")], here);
    assert_eq!(
        lines,
        [
            "::error file=sub/scenarios/a.toml,line=1,col=14,title=a[n=1] fails%3A ok::it: differs,%0A50%25%0Aand 1 more case of \
             the file for the same cause",
            "::error file=sub/scenarios/b.toml,line=1,col=14,title=b fails%3A ok::x",
        ]
    );
}

#[test]
fn the_order_in_which_cases_end_changes_nothing() {
    let cases = [("a[n=1]", "one"), ("a[n=2]", "two"), ("b", "three")];
    let report = |order: [usize; 3]| {
        let events = order.map(|i| failed(cases[i].0, cases[i].1));
        (annotations(&events, GithubPlaces::default()), summary(0, &events))
    };
    let (annotations, text) = report([0, 1, 2]);
    assert!(annotations[0].contains("title=a[n=1] fails") && annotations[0].contains("::one%0A"), "{annotations:?}");
    let places = cases.map(|(name, _)| text.find(&format!("<code>{name}</code>")));
    assert!(places.is_sorted() && places[0].is_some(), "{text}");
    for order in [[1, 0, 2], [2, 1, 0], [1, 2, 0]] {
        assert_eq!(report(order), (annotations.clone(), text.clone()));
    }
}

#[test]
fn invalid_files_come_before_cases() {
    let source = SourceFile { path: "scenarios/z.toml".into(), text: "x".into() };
    let diagnostics = vec![Diagnostic::new(Span { start: 0, end: 1 }, "no such key")];
    let invalid = Event::FileInvalid { file: source.into(), name: "z".into(), diagnostics };
    let events = [invalid, failed("zz", "late"), failed("a", "early")];
    let lines = annotations(&events, GithubPlaces::default());
    let files = ["scenarios/z.toml", "scenarios/a.toml", "scenarios/zz.toml"];
    assert!(lines.iter().zip(files).all(|(line, file)| line.contains(file)) && lines.len() == 3, "{lines:?}");
    let text = summary(0, &events);
    let places = ["scenarios/z.toml", "a", "zz"].map(|name| text.find(&format!("<code>{name}</code>")));
    assert!(places.is_sorted() && places[0].is_some(), "{text}");
}

#[test]
fn there_are_ten_annotations_at_most_and_the_last_says_how_many_more() {
    let fails = |number: usize| -> Vec<Event> { (0..number).map(|i| failed(&format!("c{i}"), "it differs")).collect() };
    assert_eq!(annotations(&fails(10), GithubPlaces::default()).len(), 10);
    let lines = annotations(&fails(25), GithubPlaces::default());
    assert_eq!(lines.len(), 10);
    assert_eq!(lines[9], "::error title=collspec::16 more causes of failures are in the log and in the summary");
}

#[test]
fn nothing_foreign_ends_a_command_or_begins_one() {
    let hostile = "x\r\n::add-mask::y%0A::error::z\u{1b}[8m,:";
    let mut file = annotations(&[failed("a", hostile)], GithubPlaces::default());
    let source = SourceFile { path: "b,c:%\n.toml".into(), text: "x".into() };
    let diagnostics = vec![Diagnostic::new(Span { start: 0, end: 1 }, hostile)];
    let invalid = Event::FileInvalid { file: source.into(), name: "b".into(), diagnostics };
    file.extend(annotations(&[invalid], GithubPlaces::default()));
    assert_eq!(file.len(), 2, "{file:?}");
    assert!(file.iter().all(|line| line.starts_with("::error file=") && !line.contains('\u{1b}')), "{file:?}");
    assert!(file[0].contains("::x%0A::add-mask::y%250A::error::z"), "{file:?}");
    assert!(file[1].starts_with("::error file=b%2Cc%3A%25\\n.toml,line=1"), "{file:?}");
}

#[test]
fn paths_are_relative_to_the_repository() {
    let places = GithubPlaces { here: "/w/repo/sub".into(), workspace: Some("/w/repo".into()), step_summary: None };
    assert_eq!(places.relative("./a.toml"), "sub/a.toml");
    assert_eq!(places.relative("../x/a.toml"), "x/a.toml");
    assert_eq!(places.relative("/w/repo/a.toml"), "a.toml");
    assert_eq!(places.relative("/elsewhere/a.toml"), "/elsewhere/a.toml");
    let without = GithubPlaces { workspace: None, ..places };
    assert_eq!(without.relative("/w/repo/sub/a.toml"), "a.toml");
}

/// The text that a run appends to a step's summary that already has `before` bytes.
fn summary(before: usize, events: &[Event]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("summary.md");
    fs::write(&path, "-".repeat(before)).unwrap();
    annotations(events, GithubPlaces { step_summary: Some(path.clone()), ..GithubPlaces::default() });
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.len() <= 1024 << 10, "{} bytes", text.len());
    text[before..].to_owned()
}

#[test]
fn the_summary_has_counts_and_then_failures() {
    let skip = Verdict { reason: Some("needs <64> GPUs".into()), ..fixture::verdict("s", Status::Skip) };
    let events = [
        failed("a|<script>", "it `differs` <b>"),
        Event::CaseDone { case: fixture::case("s"), verdict: Box::new(skip) },
    ];
    let text = summary(0, &events);
    assert!(text.starts_with("## collspec: failed\n"), "{text}");
    assert!(text.contains("\n| 0 | 1 | 1 | 0 | 0 | 1.00 s |\n"), "{text}");
    assert!(text.contains("<summary><code>a|&lt;script&gt;</code>: it `differs` &lt;b&gt;</summary>"), "{text}");
    assert!(text.contains("1: needs &lt;64&gt; GPUs") && !text.contains("<script>"), "{text}");
    assert!(summary(0, &[]).starts_with("## collspec: passed\n"));
}

#[test]
fn the_summary_fits_into_what_the_step_has_left() {
    let long = "it differs\n".repeat(2000);
    let events: Vec<Event> = (0..100).map(|i| failed(&format!("c{i}"), &long)).collect();
    for before in [0, 500 << 10, 1000 << 10] {
        let text = summary(before, &events);
        assert!(text.contains(" are left out here, because GitHub takes no more text"), "{}", text.len());
    }
    assert_eq!(summary(1024 << 10, &events), "");
}
