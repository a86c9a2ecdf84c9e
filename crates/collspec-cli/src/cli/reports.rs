//! The reports of a run, and the place that each is written to.
use super::args::RunArgs;
use super::output;
use super::report_args::{ReportArgs, ReportRequest};
use super::terminal;
use crate::formats::{GithubPlaces, ReportContext, ReportFormat};
use collspec_core::printable::PrintableWriter;
use collspec_suite::report::{Event, InheritedVariables, Reporter, RerunCommand, RunFacts, Styles, shell};
use collspec_suite::suite::{AtLeast, ChosenBackend, RunOptions};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

/// Several reports, which get every event each.
pub struct Reports(Vec<Box<dyn Reporter>>);

impl Reports {
    /// Opens the requested reports and creates their files. Without `text`, only machine-readable ones.
    ///
    /// # Errors
    ///
    /// A file cannot be written.
    pub fn open(args: &RunArgs, options: &RunOptions, chosen: &ChosenBackend, text: bool) -> anyhow::Result<Self> {
        let mut requests = requests(&args.report);
        requests.retain(|request| text || !request.format.is_text());
        let rerun = RerunCommand::command_line(options.to_repeat(), InheritedVariables::here());
        let facts = facts(options, chosen);
        let reporter = |request: &ReportRequest| -> anyhow::Result<Box<dyn Reporter>> {
            let (to, styles) = open(request)?;
            let context = ReportContext {
                styles,
                rerun: rerun.clone(),
                verbose: args.verbose,
                show: args.show,
                facts: facts.clone(),
                durations: args.durations,
                github: GithubPlaces::here(),
                required: required(options),
            };
            Ok(request.format.reporter(to, context))
        };
        Ok(Self(requests.iter().map(reporter).collect::<anyhow::Result<_>>()?))
    }
}

/// What must run for the run to count. A backend is not required in order to run nothing on it.
pub fn required(options: &RunOptions) -> Option<AtLeast> {
    options.at_least.or(options.backend.require.map(|_| AtLeast::Cases(1)))
}

/// The facts about the library, the machine and the command for reports.
fn facts(options: &RunOptions, chosen: &ChosenBackend) -> RunFacts {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| shell::quote_if_needed(&word.to_string_lossy())).collect();
    RunFacts {
        backend: chosen.backend.name().to_owned(),
        library: chosen.library_version(),
        machine: chosen.describe(),
        fault: options.variation.fault.clone(),
        environment: InheritedVariables::here().pairs().to_vec(),
        command: format!("collspec {}", words.join(" ")),
    }
}

/// Opens the file or the standard output for a report, and gives the styles of text for it.
///
/// # Errors
///
/// The file cannot be written.
pub fn open(request: &ReportRequest) -> anyhow::Result<(Box<dyn Write>, Styles)> {
    let text = request.format.is_text();
    Ok(match &request.output {
        None if text => (Box::new(terminal::out()), Styles::coloured()),
        None => (Box::new(BufWriter::new(io::stdout())), Styles::plain()),
        Some(path) => {
            let file = BufWriter::new(output::create_file(path)?);
            (if text { Box::new(PrintableWriter::new(file, false)) } else { Box::new(file) }, Styles::plain())
        }
    })
}

impl Reporter for Reports {
    /// Passes the event to every report, also if one of them fails.
    fn event(&mut self, event: &Event) -> io::Result<()> {
        let results: Vec<io::Result<()>> = self.0.iter_mut().map(|report| report.event(event)).collect();
        results.into_iter().collect()
    }
}

/// The requested reports, and the text that is always included.
pub fn requests(args: &ReportArgs) -> Vec<ReportRequest> {
    let mut requests = args.0.clone();
    if args.text_on_standard_output() && !args.has(ReportFormat::Human) {
        requests.push(ReportRequest { format: ReportFormat::Human, output: None });
    }
    // Annotations come after the text.
    requests.sort_by_key(|request| request.format == ReportFormat::Github);
    requests
}

/// Writes a report that is complete now: a file gets all of it or stays unchanged.
///
/// # Errors
///
/// `write` fails, or the file cannot be written.
pub fn write_whole(
    request: &ReportRequest,
    write: impl FnOnce(&mut dyn Write, Styles) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let Some(path) = &request.output else {
        let (mut to, styles) = open(request)?;
        write(&mut to, styles)?;
        return Ok(to.flush()?);
    };
    let mut content = Vec::new();
    if request.format.is_text() {
        write(&mut PrintableWriter::new(&mut content, false), Styles::plain())?;
    } else {
        write(&mut content, Styles::plain())?;
    }
    output::replace(path, &content)
}

/// The files of the reports, with that of the step's summary if one of them writes it.
pub fn files(requests: &[ReportRequest]) -> Vec<PathBuf> {
    let github = requests.iter().any(|request| request.format == ReportFormat::Github);
    let summary = GithubPlaces::here().step_summary.filter(|_| github);
    requests.iter().filter_map(|request| request.output.clone()).chain(summary).collect()
}
