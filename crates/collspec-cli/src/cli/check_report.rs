//! Prints the findings of `collspec check`, as text and as JSON lines.
use collspec_core::printable::{one_line, printable, write_json};
use collspec_suite::report::source_place::line_column;
use collspec_suite::suite::check_case::CheckResult;
use collspec_suite::suite::{CaseSet, InvalidFile, files_in_words};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Instant;

/// The results of the cases of valid files, and the files that are invalid.
pub struct CheckReport<'a> {
    /// The results by the file's path.
    files: BTreeMap<&'a str, Vec<&'a CheckResult>>,
    cases: usize,
    forms: usize,
    invalid: &'a [InvalidFile],
    warned: &'a [InvalidFile],
    begun: Instant,
}

/// A diagnostic as JSON. The fields are part of the interface.
#[derive(Serialize)]
struct DiagnosticLine<'a> {
    kind: &'static str,
    file: &'a str,
    line: usize,
    column: usize,
    message: &'a str,
    help: Option<&'a str>,
    case: Option<&'a str>,
}

/// The last line of JSON. The fields are part of the interface: the numbers are next to `kind` for readers of the lines
/// of `check` alone, and in `summary` as in the last line of other commands.
#[derive(Serialize)]
struct SummaryLine<'a> {
    kind: &'static str,
    #[serde(flatten)]
    numbers: &'a Numbers,
    summary: &'a Numbers,
}

#[derive(Serialize)]
struct Numbers {
    files: usize,
    invalid_files: usize,
    diagnostics: usize,
    warnings: usize,
    cases: usize,
    forms: usize,
    complete: usize,
    may_block: usize,
    cannot_finish: usize,
    undefined: usize,
    refused: usize,
    too_large: usize,
    seconds: f64,
}

impl<'a> CheckReport<'a> {
    /// The report on these cases, with a result for each that has been checked since the checks began.
    pub fn new(suite: &'a CaseSet, results: &'a [Option<CheckResult>], begun: Instant) -> Self {
        let mut report = Self {
            files: BTreeMap::new(),
            cases: 0,
            forms: 0,
            invalid: suite.invalid_files.as_slice(),
            warned: &suite.warnings,
            begun,
        };
        for (case, result) in suite.cases.iter().zip(results) {
            // A file with diagnostics shows these and nothing else.
            let invalid = suite.invalid_files.iter().any(|faulty| faulty.file.path == case.file.path);
            if let Some(result) = result.as_ref().filter(|_| !invalid) {
                report.files.entry(&case.file.path).or_default().push(result);
                report.cases += 1;
                report.forms += usize::from(case.form.is_some());
            }
        }
        report
    }

    /// Writes a line for each valid file.
    ///
    /// # Errors
    ///
    /// Writing fails.
    pub fn write_files(&self, to: &mut dyn Write) -> io::Result<()> {
        for (path, cases) in &self.files {
            writeln!(to, "{}: {}", printable(path), one_line(&file_line(cases)))?;
        }
        to.flush()
    }

    /// The numbers of files, cases and forms in one line.
    pub fn summary(&self) -> String {
        let cases = if self.cases == 1 { "1 case".to_owned() } else { format!("{} cases", self.cases) };
        let forms = if self.forms == 0 { String::new() } else { format!(" ({} in forms)", self.forms) };
        let files = files_in_words(self.files.len() + self.invalid.len());
        match (self.invalid.len(), self.files.len()) {
            (0, _) => format!("{files}, {cases}{forms}: no errors"),
            (_, 0) => format!("{files}: errors in {}", if self.invalid.len() == 1 { "it" } else { "all of them" }),
            (invalid, _) => format!("{files}: errors in {invalid}; {cases}{forms} in the others"),
        }
    }

    /// Writes an object for each diagnostic, and one with the numbers.
    ///
    /// # Errors
    ///
    /// Writing fails.
    pub fn write_json_lines(&self, to: &mut dyn Write) -> io::Result<()> {
        for faulty in self.warned.iter().chain(self.invalid) {
            for diagnostic in &faulty.diagnostics {
                let (line, column) = line_column(&faulty.file, diagnostic.span);
                let value = DiagnosticLine {
                    kind: if diagnostic.warns { "warning" } else { "diagnostic" },
                    file: &faulty.file.path,
                    line,
                    column,
                    message: &diagnostic.message,
                    help: diagnostic.help.as_deref(),
                    case: diagnostic.case.as_deref(),
                };
                write_json(to, &value)?;
                to.write_all(b"\n")?;
            }
        }
        let all = || self.files.values().flatten();
        let count = |kind: fn(&CheckResult) -> bool| all().filter(|result| kind(result)).count();
        let numbers = Numbers {
            files: self.files.len() + self.invalid.len(),
            invalid_files: self.invalid.len(),
            diagnostics: self.invalid.iter().map(|faulty| faulty.diagnostics.len()).sum(),
            warnings: self.warned.iter().map(|faulty| faulty.diagnostics.len()).sum(),
            cases: self.cases,
            forms: self.forms,
            complete: count(|result| matches!(result, CheckResult::Completes)),
            may_block: count(|result| matches!(result, CheckResult::MayBlock(_))),
            cannot_finish: count(|result| matches!(result, CheckResult::Stuck(_))),
            undefined: count(|result| matches!(result, CheckResult::Undefined(_))),
            refused: count(|result| matches!(result, CheckResult::Refused)),
            too_large: count(|result| matches!(result, CheckResult::TooLarge(_))),
            seconds: self.begun.elapsed().as_secs_f64(),
        };
        write_json(to, &SummaryLine { kind: "summary", numbers: &numbers, summary: &numbers })?;
        to.write_all(b"\n")?;
        to.flush()
    }
}

/// The summary of a file's cases in one line: their number and predicted outcomes, with the first reason of every kind.
fn file_line(cases: &[&CheckResult]) -> String {
    let count = |words: &str, number: usize| (number > 0).then(|| format!("{number} {words}"));
    let of = |kind: fn(&CheckResult) -> Option<&str>| {
        let mut words = cases.iter().copied().filter_map(kind);
        let first = words.next();
        (first.map_or(0, |_| 1) + words.count(), first.unwrap_or_default().to_owned())
    };
    let completes = cases.iter().filter(|case| matches!(case, CheckResult::Completes)).count();
    let refused = cases.iter().filter(|case| matches!(case, CheckResult::Refused)).count();
    let (may_block, circle) = of(|case| if let CheckResult::MayBlock(words) = case { Some(words) } else { None });
    let (stuck, end) = of(|case| if let CheckResult::Stuck(words) = case { Some(words) } else { None });
    let (undefined, misuse) = of(|case| if let CheckResult::Undefined(words) = case { Some(words) } else { None });
    let (large, why) = of(|case| if let CheckResult::TooLarge(words) = case { Some(words) } else { None });

    let number = if cases.len() == 1 { "1 case".to_owned() } else { format!("{} cases", cases.len()) };
    if cases.len() == 1
        || [completes, refused, may_block, stuck, undefined, large].iter().filter(|kinds| **kinds > 0).count() == 1
    {
        let words = match cases.first() {
            None => "nothing selected".to_owned(),
            Some(CheckResult::Completes) => "completes".to_owned(),
            Some(CheckResult::Refused) => "refused, as expected".to_owned(),
            Some(CheckResult::MayBlock(words)) => format!("may block: {words}"),
            Some(CheckResult::Stuck(words)) => format!("cannot finish: {words}"),
            Some(CheckResult::Undefined(words)) => format!("how it ends is not defined: {words}"),
            Some(CheckResult::TooLarge(words)) => format!("planned without expected results: {words}"),
        };
        return format!("{number}, {words}");
    }
    let parts = [
        count("complete", completes),
        count("refused, as expected", refused),
        count("may block", may_block).map(|words| format!("{words}: {circle}")),
        count("cannot finish", stuck).map(|words| format!("{words}: {end}")),
        count("end in a way that is not defined", undefined).map(|words| format!("{words}: {misuse}")),
        count("planned without expected results", large).map(|words| format!("{words}: {why}")),
    ];
    format!("{number}; {}", parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_summed_up_in_a_line() {
        use CheckResult::*;
        let line = |cases: &[CheckResult]| file_line(&cases.iter().collect::<Vec<_>>());
        assert_eq!(line(&[Completes]), "1 case, completes");
        assert_eq!(line(&[Completes, Completes]), "2 cases, completes");
        assert_eq!(line(&[Refused]), "1 case, refused, as expected");
        assert_eq!(line(&[MayBlock("rank 0 waits".into())]), "1 case, may block: rank 0 waits");
        let mixed = [Completes, Stuck("a".into()), Stuck("b".into()), Refused];
        assert_eq!(line(&mixed), "4 cases; 1 complete; 1 refused, as expected; 2 cannot finish: a");
    }
}
