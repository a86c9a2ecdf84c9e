//! `collspec gate`: a comparison that leaves every report in a folder, for CI.
use super::args::{AloneArgs, Args, Command};
use super::coverage_args::CoverageArgs;
use super::errors::tell;
use super::exit::Exit;
use super::report_args::ReportRequest;
use super::{compare, nccl, output, reports, terminal};
use crate::compare::report::{Context as ReportedComparison, write};
use crate::compare::{Comparison, FirstFailures, SideRequest};
use crate::formats::{GithubPlaces, ReportFormat};
use anyhow::Context;
use clap::{Args as ClapArgs, Parser, ValueEnum};
use collspec_core::printable::bounded;
use collspec_suite::suite::AtLeast;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The reports and their files.
const REPORTS: [(ReportFormat, &str); 5] = [
    (ReportFormat::Human, "report.txt"),
    (ReportFormat::Jsonl, "report.jsonl"),
    (ReportFormat::Junit, "junit.xml"),
    (ReportFormat::Html, "report.html"),
    (ReportFormat::Markdown, "report.md"),
];
/// The copy of the standard error.
const MESSAGES: &str = "messages.txt";
/// The file of accepted changes that is used if it exists.
const ALLOW: &str = "upgrade-gate.toml";

/// Compare two NCCL libraries and leave every report in a folder, for CI.
///
/// BASE and CANDIDATE are those of `collspec compare`; a version that this machine lacks is fetched. The folder gets report.txt,
/// report.jsonl, junit.xml, report.html, report.md (for a comment on a pull request) and messages.txt (the standard error), also if the
/// comparison cannot begin. In GitHub Actions, annotations and the summary of the step are written too.
///
/// Exit codes are those of `collspec compare`: 0 nothing got worse; 1 something did; 2 the files or the command line are wrong;
/// 3 a library is missing and cannot be fetched; 4 no verdict; 130 interrupted.
#[derive(Debug, ClapArgs)]
pub struct GateArgs {
    /// The library in use, or a recorded run of it.
    #[arg(value_name = "BASE")]
    pub base: String,

    /// The library to move to, or a recorded run of it.
    #[arg(value_name = "CANDIDATE")]
    pub candidate: String,

    /// Scenario files, or folders of them. [default: scenarios]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    /// Take collspec's own scenarios, or a part of them, as for `collspec run`.
    #[arg(long, value_name = "PART", num_args = 0..=1, default_missing_value = "", conflicts_with = "paths")]
    pub corpus: Option<String>,

    /// The folder of the reports. Reports of an earlier comparison in it are removed.
    #[arg(long, value_name = "DIR", default_value = "upgrade-gate")]
    pub reports: PathBuf,

    /// A file of accepted changes [default: upgrade-gate.toml, if there is one].
    #[arg(long, value_name = "FILE")]
    pub allow: Option<PathBuf>,

    #[command(flatten)]
    pub coverage: CoverageArgs,

    #[command(flatten)]
    pub alone: AloneArgs,

    /// Further options of `collspec compare`, such as `--bench "all_reduce -b 1K -e 64M -f 4"`.
    #[arg(last = true, value_name = "OPTION")]
    pub options: Vec<OsString>,
}

pub fn gate(args: &GateArgs) -> anyhow::Result<Exit> {
    let cannot = || format!("cannot write to {}", args.reports.display());
    fs::create_dir_all(&args.reports).with_context(cannot)?;
    let file = |name: &str| args.reports.join(name);
    let files: Vec<PathBuf> = REPORTS.iter().map(|(_, name)| *name).chain([MESSAGES]).map(file).collect();
    // Before any of them is removed.
    output::check("report", &files, named_files(args))?;
    // What an earlier comparison left says nothing about this one, and a link there could lead to any file.
    for file in &files {
        match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error).with_context(cannot),
            _ => {}
        }
    }
    terminal::copy_messages(File::create_new(file(MESSAGES)).with_context(cannot)?);
    let exit = compare_as_asked(args).unwrap_or_else(|error| tell(&error));
    if !file("report.txt").exists() {
        let messages = fs::read_to_string(file(MESSAGES)).unwrap_or_default();
        let lines: Vec<&str> = messages.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let reason = format!("exit code {} before there was a report: {}", exit.code(), bounded(&lines.join("; ")));
        report_nothing(args, reason)?;
    }
    Ok(exit)
}

/// Everything in the command line that may be a file which the comparison reads.
fn named_files(args: &GateArgs) -> impl Iterator<Item = PathBuf> {
    let sides = [&args.base, &args.candidate].into_iter().map(PathBuf::from);
    let options = args.options.iter().flat_map(|word| {
        let value = word.to_str().and_then(|word| word.split_once('=')).map(|(_, value)| value.into());
        [Some(PathBuf::from(word)), value].into_iter().flatten()
    });
    sides.chain(args.allow.clone()).chain(options).chain(args.paths.clone()).chain(output::of_paths(&args.paths))
}

fn compare_as_asked(args: &GateArgs) -> anyhow::Result<Exit> {
    let hint = "`collspec compare --help` tells what there is";
    let words = words(args);
    let parsed = Args::try_parse_from(&words).map_err(|error| anyhow::anyhow!(compare::reason(error, hint, words)))?;
    let Command::Compare(compare) = parsed.command else { anyhow::bail!("expected options of `collspec compare`") };
    for version in [&compare.base, &compare.candidate].into_iter().filter_map(SideRequest::version) {
        if !nccl::has_version(version)
            && let Some(exit) = nccl::fetch_version(version)?
        {
            return Ok(exit);
        }
    }
    compare::compare_libraries(&compare)
}

/// The command line of the comparison.
fn words(args: &GateArgs) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["collspec", "compare", "--launcher", "none", "--base"].map(Into::into).into();
    words.extend([args.base.clone().into(), "--candidate".into(), args.candidate.clone().into()]);
    // Before any option that may take one of them as its value. What follows `--` is a program.
    let is_option_like = |path: &Path| path.as_os_str().as_encoded_bytes().starts_with(b"-");
    let plain = |path: &PathBuf| if is_option_like(path) { Path::new(".").join(path) } else { path.clone() };
    words.extend(args.paths.iter().map(|path| plain(path).into_os_string()));
    let text_too = [ReportRequest { format: ReportFormat::Human, output: None }];
    for ReportRequest { format, output } in text_too.into_iter().chain(requests(&args.reports)) {
        words.extend(["--format".into(), name(format).into()]);
        words.extend(output.into_iter().flat_map(|file| ["--output".into(), file.into_os_string()]));
    }
    let accepted = args.allow.clone().or_else(|| {
        let names_one = |word: &OsString| word == "--allow" || word.to_string_lossy().starts_with("--allow=");
        let usual = PathBuf::from(ALLOW);
        (usual.exists() && !args.options.iter().any(names_one)).then_some(usual)
    });
    words.extend(accepted.into_iter().flat_map(|file| ["--allow".into(), file.into_os_string()]));
    words.extend(args.corpus.iter().map(|part| format!("--corpus={part}").into()));
    words.extend(args.coverage.at_least().map(|at_least| format!("--at-least={}", at_least.as_option()).into()));
    words.extend(args.options.iter().cloned());
    words
}

/// The reports in files, and those that GitHub shows if this is one of its machines.
fn requests(folder: &Path) -> Vec<ReportRequest> {
    let mut requests: Vec<ReportRequest> = REPORTS
        .iter()
        .map(|(format, name)| ReportRequest { format: *format, output: Some(folder.join(name)) })
        .collect();
    if std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| !value.is_empty()) {
        requests.push(ReportRequest { format: ReportFormat::Github, output: None });
    }
    requests
}

/// The word for a format on the command line.
fn name(format: ReportFormat) -> String {
    format.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// The reports of a comparison that did not begin.
fn report_nothing(args: &GateArgs, reason: String) -> anyhow::Result<()> {
    let comparison = Comparison::not_begun(&args.base, &args.candidate, reason);
    let decision = comparison.decision(AtLeast::Cases(1), false);
    let failures = FirstFailures::default();
    let context = ReportedComparison {
        comparison: &comparison,
        decision: &decision,
        failures: &failures,
        every_row: false,
        github: GithubPlaces::here(),
    };
    let text = ReportRequest { format: ReportFormat::Human, output: None };
    for request in std::iter::once(text).chain(requests(&args.reports)) {
        reports::write_whole(&request, |mut to, styles| Ok(write(request.format, &mut to, styles, &context)?))?;
    }
    Ok(())
}
