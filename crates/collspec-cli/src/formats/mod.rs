//! Reports for other programs: JUnit XML, GitHub's annotations, HTML and Markdown, and the choice between all formats.
pub mod github;
pub mod html;
pub mod junit;
mod markdown;
mod step_summary;

pub use github::{GithubPlaces, GithubReporter};
pub use html::HtmlReporter;
pub use junit::JunitReporter;
pub use markdown::{MAX_COMMENT, MarkdownReporter};

use collspec_core::judge::Outcome;
use collspec_suite::report::{HumanReporter, JsonLinesReporter, Reporter, RerunCommand, RunFacts, Styles};
use collspec_suite::suite::AtLeast;
use std::io::Write;

/// The reports of a run, by the words that `--format` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ReportFormat {
    /// Failures in full, skips by reason, one line at the end.
    Human,
    /// One JSON object per case and line, and a summary.
    Jsonl,
    /// JUnit XML, which CI systems read.
    Junit,
    /// Annotations for GitHub Actions below the text, and the step's summary.
    Github,
    /// One HTML file with everything.
    Html,
    /// Markdown below 65,000 characters, for a comment on a pull request.
    Markdown,
}

/// The parts of a report that do not come from events.
#[derive(Clone, Debug)]
pub struct ReportContext {
    /// The styles of text.
    pub styles: Styles,
    /// The command that runs a case again.
    pub rerun: RerunCommand,
    /// True if every case is named.
    pub verbose: bool,
    /// True if the text includes buffer contents.
    pub show: bool,
    /// The library and the machine.
    pub facts: RunFacts,
    /// Number of the slowest cases that are named.
    pub durations: usize,
    /// The files that GitHub provides for output.
    pub github: GithubPlaces,
    /// What must run for the run to count, if anything.
    pub required: Option<AtLeast>,
}

impl ReportFormat {
    /// True for text formats, which are guarded against control characters for terminals. Other formats escape these themselves.
    pub fn is_text(self) -> bool {
        self == Self::Human
    }

    pub fn reporter(self, to: Box<dyn Write>, context: ReportContext) -> Box<dyn Reporter> {
        let ReportContext { styles, rerun, verbose, show, facts, durations, github, required } = context;
        match self {
            Self::Human => {
                Box::new(HumanReporter::new(to, styles, rerun, verbose).with_buffers(show).with_durations(durations))
            }
            Self::Jsonl => Box::new(JsonLinesReporter::new(to, facts)),
            Self::Junit => Box::new(JunitReporter::new(to, facts, rerun).requiring(required)),
            Self::Github => Box::new(GithubReporter::new(to, facts, rerun, github)),
            Self::Html => Box::new(HtmlReporter::new(to, facts, rerun)),
            Self::Markdown => Box::new(MarkdownReporter::new(to, facts, rerun)),
        }
    }
}

/// The outcome's word in reports.
fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "ok",
        Outcome::Error => "error",
        Outcome::Hang => "hang",
        Outcome::Crash => "crash",
        Outcome::Refused => "refused",
    }
}
