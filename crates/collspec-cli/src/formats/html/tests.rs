use super::page::html_text;
use super::*;
use collspec_core::judge::{
    BufferContents, BufferRow, BufferRows, Finding, Lane, Outcome, RowElements, ShownElement, Subject,
};
use collspec_core::scenario::Span;
use collspec_suite::report::InheritedVariables;
use collspec_suite::suite::fixture;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// As `<script>`, `"` and `{{name}}` would be if they were not escaped.
const HOSTILE: &str = "</pre></style><script>alert(1)</script>\"' onload=x {{rows}} {{script}}\u{1b}[8m\u{0}";

fn run(events: Vec<Event>) -> String {
    let rerun = RerunCommand::command_line(Vec::new(), InheritedVariables::default());
    let facts = RunFacts {
        machine: HOSTILE.into(),
        command: HOSTILE.into(),
        environment: vec![(HOSTILE.into(), HOSTILE.into())],
        ..RunFacts::new("soft", "2.30.7")
    };
    let mut reporter = HtmlReporter::new(Vec::new(), facts, rerun);
    reporter.event(&Event::Started { cases: events.len() }).unwrap();
    events.iter().for_each(|event| reporter.event(event).unwrap());
    reporter.event(&Event::Finished { seconds: 1.0 }).unwrap();
    String::from_utf8(reporter.to).unwrap()
}

fn buffers(rows: usize) -> BufferContents {
    let element = |index: u64| ShownElement { index, text: HOSTILE.chars().take(9).collect(), wrong: index == 2 };
    let elements = RowElements::Shown { len: 100, elements: [0, 1, 2, 50].map(element).to_vec() };
    let row = |rank| BufferRow { rank, name: format!("{HOSTILE} (f16)"), elements: elements.clone() };
    let rows = || BufferRows { rows: (0..rows).map(row).collect(), more: 3 };
    BufferContents { before: rows(), after: Some(rows()) }
}

fn failure(name: &str, rows: usize) -> Event {
    let finding = Finding {
        lane: Lane::Exact,
        subject: Subject::Lane,
        rank: Some(0),
        other_ranks: vec![1],
        ranks_with_other_values: vec![2],
        buffer: Some(HOSTILE.into()),
        element: Some(2),
        step: Some(HOSTILE.into()),
        span: Some(Span { start: 0, end: 5 }),
        expected: HOSTILE.into(),
        actual: HOSTILE.into(),
        wrong: 1,
        wrong_elements: 0,
        of: 12_345,
        pattern: Some(HOSTILE.into()),
        text: HOSTILE.into(),
        advice: Some(HOSTILE.into()),
        follows: false,
        consequences: vec![HOSTILE.into()],
        rounds: 1,
    };
    let case = fixture::case(name);
    let file = SourceFile { path: format!("{HOSTILE}.toml"), text: format!("x = 1\n# {HOSTILE}\n").into() };
    let mut case = (*case).clone();
    (case.file, case.description) = (Arc::new(file), Some(HOSTILE.into()));
    let verdict = Verdict {
        reason: Some(HOSTILE.into()),
        findings: vec![finding],
        notes: vec![HOSTILE.into()],
        buffers: Some(buffers(rows)),
        outcome: Some(Outcome::Ok),
        ..fixture::verdict(name, Status::Fail)
    };
    Event::CaseDone { case: Arc::new(case), verdict: Box::new(verdict) }
}

fn pass(name: &str) -> Event {
    let verdict = Box::new(fixture::verdict(name, Status::Pass));
    Event::CaseDone { case: fixture::case(name), verdict }
}

#[test]
fn nothing_foreign_becomes_part_of_the_page() {
    let file = SourceFile { path: HOSTILE.into(), text: HOSTILE.into() };
    let diagnostics = vec![Diagnostic::new(Span { start: 0, end: 1 }, HOSTILE)];
    let invalid = Event::FileInvalid { file: Arc::new(file), name: HOSTILE.into(), diagnostics };
    let skip = Verdict { reason: Some(HOSTILE.into()), ..fixture::verdict("s", Status::Skip) };
    let skip = Event::CaseDone { case: fixture::case("s"), verdict: Box::new(skip) };
    let page = run(vec![invalid, failure(HOSTILE, 2), skip, pass("b")]);
    for tag in ["<script", "</script", "<style", "</style", "</html>"] {
        assert_eq!(page.matches(tag).count(), 1, "{tag}");
    }
    let mut attributes = 0;
    for (at, _) in page.match_indices(" onload=x") {
        // A command quotes it for a shell.
        let before = page[..at].trim_end_matches(['\'', '\\']);
        assert!(before.ends_with("&quot;"), "{}", &before[before.len() - 40..]);
        attributes += 1;
    }
    assert!(attributes > 20, "{attributes}");
    assert!(!page.contains('\u{1b}') && !page.contains('\u{0}'));
    assert!(page.matches("{{rows}} {{script}}").count() > 20, "the words in braces stay as they are");
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
}

#[test]
fn nothing_comes_from_elsewhere() {
    let page = run(vec![failure("a", 2), pass("b")]);
    for words in ["http:", "https:", "src=", "url(", "@import", "<link"] {
        assert!(!page.contains(words), "{words}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn the_page_names_the_hash_of_its_script() {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut base64 = String::new();
    for bytes in Sha256::digest(include_str!("filter.js")).chunks(3) {
        let bits = bytes.iter().enumerate().fold(0u32, |bits, (at, byte)| bits | u32::from(*byte) << (16 - 8 * at));
        let digits = (0..4).map(|at| char::from(DIGITS[(bits >> (18 - 6 * at)) as usize & 63]));
        base64.extend(digits.take(bytes.len() + 1));
        base64.extend(std::iter::repeat_n('=', 3 - bytes.len()));
    }
    assert_eq!(page::SCRIPT_HASH, base64, "the script has changed: this is its hash");
    assert!(run(vec![pass("a")]).contains(&format!("script-src 'sha256-{base64}'")));
}

#[test]
fn wrong_elements_are_marked_in_place() {
    let page = run(vec![failure("a", 2)]);
    let shown = html_text("</pre></");
    assert!(page.contains(&format!(", <b>{shown}")), "{page}");
    assert!(page.contains("…, <span class=\"faint\">[50]</span> ") && page.contains("100 elements"));
    assert!(page.contains("<dt>wrong</dt><dd>1 of 12,345 elements"));
    assert!(page.contains("1 of 1 cases failed"));
    assert!(page.contains(
        r##"<td class="b"><a href="#c0" data-o="all_reduce" data-t="f32" title="all_reduce, f32: failed 1">1/1</a>"##
    ));
}

#[test]
fn three_thousand_cases_stay_below_five_megabytes() {
    let name = |i: usize| format!("conformance/collectives/all_reduce[dtype=bf16,count=1000,algorithm=tree,n={i}]");
    let all_fail = run((0..3000).map(|i| failure(&name(i), 256)).collect());
    assert!(all_fail.len() < 5_000_000, "{} bytes", all_fail.len());
    assert_eq!(all_fail.matches(r#"<details class="case">"#).count(), 3000);
    let few_fail = run((0..3000).map(|i| if i < 20 { failure(&name(i), 256) } else { pass(&name(i)) }).collect());
    assert!(few_fail.len() < 2_000_000, "{} bytes", few_fail.len());
    assert!(few_fail.contains("20 of 3,000 cases failed"));
}

#[test]
fn operations_and_types_are_those_of_the_file() {
    let text = "world_size = 2\ninputs.x = { each = 1, count = 2, dtype = \"f16\" }\nsteps = [\n  { op = \"group\", steps = [{ op = \"all_reduce\", in = \"x\", out = \"y\" }] },\n  { op = \"map\", expr = \"2 * y\", out = \"z\" },\n]\n";
    let file = Arc::new(SourceFile { path: "a.toml".into(), text: text.into() });
    let case = &scenario::parse(&file, "a").unwrap()[0];
    assert_eq!(calls(case, &[]), [("all_reduce", "f16")]);
}
