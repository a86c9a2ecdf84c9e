//! The XML is read by another reader than its writer, and held to the rules of the usual schema.
use super::*;
use collspec_core::judge::Finding;
use collspec_core::judge::{Lane, Subject};
use collspec_core::scenario::Span;
use collspec_suite::report::InheritedVariables;
use collspec_suite::suite::fixture;
use quick_xml::Reader;
use quick_xml::events::Event as XmlEvent;

/// An element with its attributes, text and children.
#[derive(Debug, Default)]
struct Element {
    name: String,
    attributes: BTreeMap<String, String>,
    text: String,
    children: Vec<Element>,
}

impl Element {
    fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.name == name)
    }

    fn number(&self, name: &str) -> usize {
        self.attribute(name).parse().unwrap()
    }
}

fn parse(text: &str) -> Element {
    let allowed =
        |c: char| matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    assert!(text.chars().all(allowed), "a character that XML lacks");
    let mut reader = Reader::from_str(text);
    let mut open = vec![Element::default()];
    loop {
        let event = reader.read_event().unwrap();
        let empty = matches!(event, XmlEvent::Empty(_));
        match event {
            XmlEvent::Start(tag) | XmlEvent::Empty(tag) => {
                let name = String::from_utf8(tag.name().as_ref().to_vec()).unwrap();
                let attributes = tag.attributes().map(|attribute| {
                    let attribute = attribute.unwrap();
                    let key = String::from_utf8(attribute.key.as_ref().to_vec()).unwrap();
                    (
                        key,
                        quick_xml::escape::unescape(std::str::from_utf8(&attribute.value).unwrap())
                            .unwrap()
                            .into_owned(),
                    )
                });
                let element = Element { name, attributes: attributes.collect(), ..Element::default() };
                open.push(element);
                if !empty {
                    continue;
                }
            }
            XmlEvent::End(_) => {}
            XmlEvent::Text(text) => {
                open.last_mut().unwrap().text.push_str(std::str::from_utf8(&text).unwrap());
                continue;
            }
            XmlEvent::GeneralRef(name) => {
                let name = format!("&{};", std::str::from_utf8(&name).unwrap());
                open.last_mut().unwrap().text.push_str(&quick_xml::escape::unescape(&name).unwrap());
                continue;
            }
            XmlEvent::Eof => break,
            _ => continue,
        }
        let done = open.pop().unwrap();
        open.last_mut().unwrap().children.push(done);
    }
    let mut root = open.pop().unwrap();
    assert!(open.is_empty() && root.children.len() == 1);
    root.children.remove(0)
}

/// The rules of the schema that CI systems share: the places of elements, their required attributes, and right counts.
fn assert_valid(root: &Element) {
    assert_eq!(root.name, "testsuites");
    let number_of =
        |suite: &Element, kind: &str| suite.all("testcase").filter(|case| case.all(kind).count() > 0).count();
    for (count, kind) in [("failures", "failure"), ("errors", "error"), ("skipped", "skipped")] {
        let all: usize = root.all("testsuite").map(|suite| number_of(suite, kind)).sum();
        assert_eq!(root.number(count), all, "{count}");
    }
    assert_eq!(root.number("tests"), root.all("testsuite").map(|suite| suite.number("tests")).sum::<usize>());
    let mut names = std::collections::BTreeSet::new();
    for suite in &root.children {
        assert_eq!(suite.name, "testsuite");
        assert!(!suite.attribute("name").is_empty());
        assert!(suite.attribute("time").parse::<f64>().unwrap() >= 0.0);
        assert_eq!(suite.number("tests"), suite.all("testcase").count());
        for (count, kind) in [("failures", "failure"), ("errors", "error"), ("skipped", "skipped")] {
            assert_eq!(suite.number(count), number_of(suite, kind), "{count}");
        }
        let order: Vec<usize> = suite
            .children
            .iter()
            .map(|child| ["properties", "testcase"].iter().position(|name| *name == child.name).unwrap())
            .collect();
        assert!(order.is_sorted() && order.iter().filter(|place| **place == 0).count() <= 1, "{order:?}");
        for property in suite.all("properties").flat_map(|properties| &properties.children) {
            assert!(!property.attribute("name").is_empty() && property.attributes.contains_key("value"));
        }
        for case in suite.all("testcase") {
            assert!(case.attribute("time").parse::<f64>().unwrap() >= 0.0);
            assert!(!case.attribute("classname").is_empty());
            assert!(names.insert(case.attribute("name").to_owned()), "two cases are called {}", case.attribute("name"));
            assert!(case.children.len() <= 1);
            for child in &case.children {
                assert!(["failure", "error", "skipped"].contains(&child.name.as_str()), "{child:?}");
                assert!(!child.attribute("message").is_empty());
            }
        }
    }
}

/// Characters that XML lacks, that it must escape, and that a terminal obeys.
const HOSTILE: &str = "\u{1b}[8m\u{0}\u{b}\u{fffe}\u{ffff}\u{9b}2J <script>&\"']]>";

fn report(cases: Vec<(&str, Verdict)>, invalid: bool) -> Element {
    let facts = RunFacts {
        machine: HOSTILE.into(),
        environment: vec![("NCCL_ALGO".into(), HOSTILE.into())],
        ..RunFacts::new("nccl", "2.30.7")
    };
    let rerun = RerunCommand::command_line(Vec::new(), InheritedVariables::default());
    let mut reporter = JunitReporter::new(Vec::new(), facts, rerun);
    reporter.event(&Event::Started { cases: cases.len() }).unwrap();
    if invalid {
        let file = SourceFile { path: format!("bad {HOSTILE}.toml"), text: "x = 1\n".into() };
        let diagnostics = vec![Diagnostic::new(Span { start: 0, end: 1 }, HOSTILE)];
        let event = Event::FileInvalid { file: file.into(), name: "bad".into(), diagnostics };
        reporter.event(&event).unwrap();
    }
    for (name, verdict) in cases {
        reporter.event(&Event::CaseDone { case: fixture::case(name), verdict: Box::new(verdict) }).unwrap();
    }
    reporter.event(&Event::Finished { seconds: 1.5 }).unwrap();
    let root = parse(std::str::from_utf8(&reporter.to).unwrap());
    assert_valid(&root);
    root
}

fn failed(name: &str, reason: &str) -> Verdict {
    let finding = Finding {
        lane: Lane::Exact,
        subject: Subject::Lane,
        rank: None,
        other_ranks: Vec::new(),
        ranks_with_other_values: Vec::new(),
        buffer: None,
        element: None,
        step: None,
        span: None,
        expected: String::new(),
        actual: String::new(),
        wrong: 0,
        wrong_elements: 0,
        of: 0,
        pattern: None,
        text: HOSTILE.to_owned(),
        advice: None,
        follows: false,
        consequences: Vec::new(),
        rounds: 1,
    };
    Verdict { reason: Some(reason.into()), findings: vec![finding], ..fixture::verdict(name, Status::Fail) }
}

#[test]
fn suites_are_files_and_names_tell_form_and_library() {
    let skipped = Verdict { reason: Some("needs 64 GPUs".into()), ..fixture::verdict("b[form=tree]", Status::Skip) };
    let cases = vec![
        ("a[n=1]", Verdict { wall_seconds: 0.25, ..fixture::verdict("a[n=1]", Status::Pass) }),
        ("a[n=2]", failed("a[n=2]", "rank 1 differs")),
        ("b[form=tree]", skipped),
    ];
    let root = report(cases, false);
    let suites: Vec<&str> = root.children.iter().map(|suite| suite.attribute("name")).collect();
    assert_eq!(suites, ["scenarios/a.toml", "scenarios/b.toml"]);
    let names: Vec<&str> = root.children.iter().flat_map(|s| s.all("testcase")).map(|c| c.attribute("name")).collect();
    assert_eq!(names, ["a[n=1] (nccl 2.30.7)", "a[n=2] (nccl 2.30.7)", "b[form=tree] (nccl 2.30.7)"]);
    let case = root.children[0].all("testcase").nth(1).unwrap();
    assert_eq!((case.attribute("classname"), case.attribute("file")), ("scenarios/a.toml", "scenarios/a.toml"));
    let failure = &case.children[0];
    assert_eq!((failure.attribute("message"), failure.attribute("type")), ("rank 1 differs", "exact"));
    assert!(
        failure.text.contains("rank 1 differs") && failure.text.contains("run it again: collspec run"),
        "{failure:?}"
    );
    let skip = &root.children[1].all("testcase").next().unwrap().children[0];
    assert_eq!((skip.name.as_str(), skip.attribute("message")), ("skipped", "needs 64 GPUs"));
    let properties: Vec<_> = root.children[0].all("properties").flat_map(|p| &p.children).collect();
    let value = |name: &str| properties.iter().find(|p| p.attribute("name") == name).unwrap().attribute("value");
    assert_eq!((value("backend"), value("library")), ("nccl", "2.30.7"));
}

#[test]
fn what_xml_lacks_is_shown_escaped() {
    let root = report(vec![("a", failed("a", HOSTILE))], true);
    let failure = &root.children.iter().find(|s| s.attribute("name") == "scenarios/a.toml").unwrap();
    let failure = &failure.all("testcase").next().unwrap().children[0];
    let shown = "\\u{1b}[8m\\u{0}\\u{b}\\u{fffe}\\u{ffff}\\u{9b}2J <script>&\"']]>";
    assert_eq!(failure.attribute("message"), shown);
    assert!(failure.text.contains(shown), "{failure:?}");
}

#[test]
fn an_invalid_file_is_an_error() {
    let root = report(Vec::new(), true);
    let case = root.children[0].all("testcase").next().unwrap();
    assert_eq!(case.children[0].name, "error");
    assert!(case.children[0].text.contains("toml:1:1"), "{case:?}");
}

#[test]
fn a_refused_case_is_an_error_and_a_hang_is_called_so() {
    let end = |name: &str, outcome| Verdict { outcome: Some(outcome), ..failed(name, "it ended") };
    let root = report(vec![("a", end("a", Outcome::Refused)), ("b", end("b", Outcome::Hang))], false);
    let child = |suite: usize| &root.children[suite].all("testcase").next().unwrap().children[0];
    assert_eq!((child(0).name.as_str(), child(0).attribute("type")), ("error", "refused"));
    assert_eq!((child(1).name.as_str(), child(1).attribute("type")), ("failure", "hang"));
}
