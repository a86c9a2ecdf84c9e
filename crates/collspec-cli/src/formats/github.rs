//! The report for GitHub Actions: annotations of the files on the standard output, and a summary of the step in Markdown.
use super::step_summary::StepSummary;
use crate::output_files;
use collspec_core::judge::Verdict;
use collspec_core::printable::{one_line, printable_lines};
use collspec_core::scenario::{self, Case, Diagnostic, SourceFile, Span};
use collspec_suite::report::Event;
use collspec_suite::report::failure::failure_message;
use collspec_suite::report::source_place::line_column;
use collspec_suite::report::{Reporter, RerunCommand, RunFacts, Tally};
use std::env;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

/// Number of annotations. GitHub shows ten errors of a step, and is silent about the others.
pub(crate) const MAX_ANNOTATIONS: usize = 10;
/// Bytes of a step's summary; GitHub takes all of it or nothing.
const MAX_SUMMARY: u64 = 1024 << 10;

/// The files and folders of a run of GitHub Actions.
#[derive(Clone, Debug, Default)]
pub struct GithubPlaces {
    /// The current working folder.
    pub here: PathBuf,
    /// The repository's folder, to which annotations are relative.
    pub workspace: Option<PathBuf>,
    /// The file to which the step's summary is appended.
    pub step_summary: Option<PathBuf>,
}

impl GithubPlaces {
    /// Those of this process.
    pub fn here() -> Self {
        let folder = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Self {
            here: env::current_dir().unwrap_or_default(),
            workspace: folder("GITHUB_WORKSPACE"),
            step_summary: folder("GITHUB_STEP_SUMMARY"),
        }
    }

    /// The path as GitHub names it: relative to the repository if it is inside, else as written.
    pub(crate) fn relative(&self, path: &str) -> String {
        let mut whole = PathBuf::new();
        for part in self.here.join(path).components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => _ = whole.pop(),
                part => whole.push(part),
            }
        }
        let folders = [self.workspace.as_ref(), Some(&self.here)];
        let inside = folders.into_iter().flatten().find_map(|folder| whole.strip_prefix(folder).ok());
        inside.map_or_else(|| path.to_owned(), |path: &Path| path.display().to_string())
    }
}

/// Writes annotations and the step's summary when a run ends. GitHub does not obey commands between the run's beginning and its end
/// on the same output, whatever files and libraries have printed there.
pub struct GithubReporter<W> {
    to: W,
    places: GithubPlaces,
    rerun: RerunCommand,
    /// The word that ends the part that GitHub does not obey.
    resume: String,
    causes: Vec<Cause>,
    tally: Tally,
    cases: usize,
    invalid_files: usize,
    summary: StepSummary,
}

/// Failures of a file with one cause: one annotation.
struct Cause {
    /// The property that the failures share.
    key: String,
    /// The first of them by name, since cases end in another order with every run.
    first: Annotated,
    /// Number of cases with it.
    cases: usize,
}

/// A failure with its place. Invalid files come first, then cases by name.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Annotated {
    /// The case's name; `None` for an invalid file.
    case: Option<String>,
    file: String,
    line: usize,
    column: usize,
    title: String,
    text: String,
}

impl<W: Write> GithubReporter<W> {
    /// A reporter that writes the annotations to `to`.
    pub fn new(to: W, facts: RunFacts, rerun: RerunCommand, places: GithubPlaces) -> Self {
        let resume = format!("collspec-{:016x}{:016x}", RandomState::new().hash_one(0), RandomState::new().hash_one(1));
        let summary = StepSummary::new(facts);
        let (causes, tally) = (Vec::new(), Tally::default());
        Self { to, places, rerun, resume, causes, tally, cases: 0, invalid_files: 0, summary }
    }

    fn add(&mut self, key: String, failure: Annotated) {
        match self.causes.iter_mut().find(|known| (&known.first.file, &known.key) == (&failure.file, &key)) {
            Some(known) => {
                known.cases += 1;
                if failure < known.first {
                    known.first = failure;
                }
            }
            None => self.causes.push(Cause { key, first: failure, cases: 1 }),
        }
    }

    fn case_done(&mut self, case: &Case, verdict: &Verdict) {
        self.tally.add(verdict);
        if !verdict.status.is_bad() {
            return;
        }
        let first = verdict.findings.first();
        let what = first.map(|finding| {
            let label = finding.label().unwrap_or("assert");
            finding.step.as_ref().map_or_else(|| label.to_owned(), |step| format!("{label}, {step}"))
        });
        let outcome = verdict.outcome.map_or("no result", super::outcome_name);
        let place: Option<Span> = verdict.findings.iter().find_map(|finding| finding.span);
        let (line, column) = line_column(&case.file, place.unwrap_or(case.span));
        let reason = verdict.reason.clone().unwrap_or_else(|| "failed".to_owned());
        let what = what.unwrap_or_else(|| outcome.to_owned());
        let title = format!("{} fails: {what}", case.name);
        let (name, file) = (Some(case.name.clone()), case.file.path.clone());
        self.add(format!("{outcome} {what}"), Annotated { case: name, file, line, column, title, text: reason });
        let text = failure_message(case, verdict, &self.rerun.command(case));
        self.summary.failed_case(&case.name, verdict.reason.as_deref().unwrap_or("failed"), &text);
    }

    fn file_invalid(&mut self, file: &SourceFile, name: &str, diagnostics: &[Diagnostic]) {
        self.invalid_files += 1;
        let first = diagnostics.first();
        let (line, column) = line_column(file, first.map_or(Span::default(), |diagnostic| diagnostic.span));
        let mut text = first.map_or_else(|| "the file has errors".to_owned(), |diagnostic| diagnostic.message.clone());
        if let Some(help) = first.and_then(|diagnostic| diagnostic.help.as_ref()) {
            text.push_str(&format!("\n{help}"));
        }
        if diagnostics.len() > 1 {
            text.push_str(&format!("\nand {} more in this file", diagnostics.len() - 1));
        }
        let title = format!("{name} has errors and was not run");
        self.summary.invalid_file(&file.path, &title, &scenario::render(file, diagnostics, false));
        let file = file.path.clone();
        self.add("invalid".to_owned(), Annotated { case: None, file, line, column, title, text });
    }

    fn finished(&mut self, seconds: f64) -> io::Result<()> {
        writeln!(self.to, "::{}::", self.resume)?;
        self.causes.sort_by(|a, b| a.first.cmp(&b.first));
        let (shown, left) = match self.causes.len() {
            all if all <= MAX_ANNOTATIONS => (all, 0),
            all => (MAX_ANNOTATIONS - 1, all - (MAX_ANNOTATIONS - 1)),
        };
        for cause in self.causes.iter().take(shown) {
            let Cause { first: Annotated { file, line, column, title, text, .. }, cases, .. } = cause;
            let file = property(&one_line(&self.places.relative(file)));
            let more = match cases - 1 {
                0 => String::new(),
                1 => "\nand 1 more case of the file for the same cause".to_owned(),
                more => format!("\nand {more} more cases of the file for the same cause"),
            };
            let (title, message) = (property(&one_line(title)), message(&printable_lines(&format!("{text}{more}"))));
            writeln!(self.to, "::error file={file},line={line},col={column},title={title}::{message}")?;
        }
        if left > 0 {
            let cases: usize = self.causes.iter().skip(shown).map(|cause| cause.cases).sum();
            let cases = if cases == left { String::new() } else { format!(", in {cases} cases") };
            let words = format!("{left} more causes of failures are in the log and in the summary{cases}");
            writeln!(self.to, "::error title=collspec::{words}")?;
        }
        self.to.flush()?;
        self.write_summary(seconds)
    }

    /// Appends the summary to the step's, within the remaining room.
    fn write_summary(&mut self, seconds: f64) -> io::Result<()> {
        let not_run = self.cases.saturating_sub(self.tally.settled());
        append_summary(&self.places, |room| {
            Ok(self.summary.text(&self.tally, not_run, self.invalid_files, seconds, room))
        })
    }
}

/// Appends a text of limited length to the step's summary, if there is one; the length is passed to `text`.
pub(crate) fn append_summary(places: &GithubPlaces, text: impl FnOnce(usize) -> io::Result<String>) -> io::Result<()> {
    let Some(path) = &places.step_summary else { return Ok(()) };
    let cannot = |error: io::Error| {
        let words = format!("the step's summary (GITHUB_STEP_SUMMARY) cannot be written: {}: {error}", path.display());
        io::Error::new(error.kind(), words)
    };
    let mut file = output_files::append(path).map_err(cannot)?;
    let there = file.metadata().map_err(cannot)?.len();
    let text = text(MAX_SUMMARY.saturating_sub(there.saturating_add(1)) as usize)?;
    file.write_all(text.as_bytes()).map_err(cannot)
}

impl<W: Write> Reporter for GithubReporter<W> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::Started { cases } => {
                self.cases = *cases;
                writeln!(self.to, "::stop-commands::{}", self.resume)?;
                self.to.flush()?;
            }
            Event::CaseStarted { .. } | Event::FileWarned { .. } => {}
            Event::FileInvalid { file, name, diagnostics } => self.file_invalid(file, name, diagnostics),
            Event::CaseDone { case, verdict } => self.case_done(case, verdict),
            Event::Finished { seconds } => self.finished(*seconds)?,
        }
        Ok(())
    }
}

/// A message as a workflow command has it.
pub(crate) fn message(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property as a workflow command has it.
pub(crate) fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests;
