//! A comparison as JUnit XML: a test case for each case, which fails if the candidate is worse.
use super::Context;
use crate::compare::{GateVerdict, Meaning};
use crate::formats::junit::xml;
use collspec_core::printable::{one_line, printable_lines};
use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Writes the comparison as JUnit XML.
///
/// # Errors
///
/// Writing fails.
pub fn write_junit(to: &mut dyn Write, context: &Context<'_>) -> io::Result<()> {
    let comparison = context.comparison;
    let sides = format!("{} -> {}", comparison.base.name, comparison.candidate.name);
    let mut suites: BTreeMap<&str, Vec<TestCase>> = BTreeMap::new();
    let mut add = |file, name: &str, status: TestCaseStatus| {
        let path: &str = file;
        // Of two test cases with one name GitLab counts only the first.
        let mut test = TestCase::new(xml(&one_line(&format!("{name} ({sides})"))), status);
        let shown = xml(&one_line(path));
        test.set_classname(shown.as_str());
        test.extra.insert("file".into(), shown.as_str().into());
        suites.entry(path).or_default().push(test);
    };
    for row in &comparison.rows {
        let text = format!("{}: {}", row.change, row.detail);
        add(&row.file, &row.case, status(row.change.meaning(), row.accepted.is_some(), &text));
    }
    for change in &comparison.library {
        add("the library", &change.subject, status(change.meaning, change.accepted.is_some(), &change.text));
    }
    if let Some(starts) = &comparison.starts {
        let text = format!("{}: {}", starts.change(), starts.words());
        add("the library", "starts", status(starts.change().meaning(), false, &text));
    }
    if let GateVerdict::NoVerdict { reasons } = context.verdict {
        add(
            "the library",
            "verdict",
            non_success(NonSuccessKind::Error, &format!("no verdict: {}", reasons.join("; "))),
        );
    }
    let mut report = Report::new("collspec compare");
    for (file, tests) in suites {
        let mut suite = TestSuite::new(xml(&one_line(file)));
        for (name, side) in [("base", &comparison.base), ("candidate", &comparison.candidate)] {
            suite.add_property(Property::new(name, xml(&super::human::side(side))));
        }
        tests.into_iter().for_each(|test| _ = suite.add_test_case(test));
        report.add_test_suite(suite);
    }
    report.serialize(to).map_err(io::Error::other)
}

fn status(meaning: Meaning, accepted: bool, text: &str) -> TestCaseStatus {
    match meaning {
        Meaning::NotCompared => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(xml(&one_line(text)));
            status
        }
        Meaning::Worse if !accepted => non_success(NonSuccessKind::Failure, text),
        Meaning::Undecided if !accepted => non_success(NonSuccessKind::Error, text),
        _ => TestCaseStatus::success(),
    }
}

fn non_success(kind: NonSuccessKind, text: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_message(xml(&one_line(text)));
    status.set_description(xml(&printable_lines(text)));
    status
}
