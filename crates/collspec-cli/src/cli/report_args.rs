//! The options `--format` and `--output`, of which there can be several pairs.
use super::args::REPORT;
use crate::formats::ReportFormat;
use clap::builder::EnumValueParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, value_parser};
use std::path::PathBuf;

const FORMAT: &str = "format";
const OUTPUT: &str = "output";

/// The reports that were asked for, in the order in which they were typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportArgs(pub Vec<ReportRequest>);

/// A report, and the file that it goes to; `None` is the standard output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportRequest {
    pub format: ReportFormat,
    pub output: Option<PathBuf>,
}

/// A word of the command line.
#[derive(Debug)]
enum Typed {
    Format(ReportFormat),
    Output(PathBuf),
}

impl ReportArgs {
    /// True if a report in this format was asked for.
    pub fn has(&self, format: ReportFormat) -> bool {
        self.0.iter().any(|request| request.format == format)
    }

    /// The text goes to the standard output too, unless it has a file or another format takes its place. GitHub's
    /// annotations stand below the text.
    pub fn text_on_standard_output(&self) -> bool {
        let takes_it = |request: &&ReportRequest| {
            request.format == ReportFormat::Human
                || (request.output.is_none() && request.format != ReportFormat::Github)
        };
        !self.0.iter().any(|request| takes_it(&request))
            || self.0.contains(&ReportRequest { format: ReportFormat::Human, output: None })
    }

    /// The pairs of these words. An output belongs to the format before it; alone it is that of the text.
    fn of(typed: Vec<Typed>) -> Result<Self, String> {
        let formats = typed.iter().filter(|word| matches!(word, Typed::Format(_))).count();
        let mut requests: Vec<ReportRequest> = Vec::new();
        let mut before_formats: Option<PathBuf> = None;
        for word in typed {
            match (word, requests.last_mut()) {
                (Typed::Format(format), _) => requests.push(ReportRequest { format, output: before_formats.take() }),
                (Typed::Output(path), Some(ReportRequest { output: output @ None, .. })) => *output = Some(path),
                (Typed::Output(path), None) if formats < 2 && before_formats.is_none() => before_formats = Some(path),
                (Typed::Output(path), _) => {
                    let path = path.display();
                    return Err(format!("which report goes to {path}? write its --format directly before --output"));
                }
            }
        }
        requests.extend(before_formats.map(|path| ReportRequest { format: ReportFormat::Human, output: Some(path) }));
        requests.iter_mut().for_each(|request| _ = request.output.take_if(|path| path.as_os_str() == "-"));
        let on_standard_output = |request: &&ReportRequest| request.output.is_none();
        let taken = requests.iter().filter(on_standard_output).filter(|one| one.format != ReportFormat::Github);
        let github = requests.contains(&ReportRequest { format: ReportFormat::Github, output: None });
        let taken: Vec<ReportFormat> = taken.map(|request| request.format).collect();
        match taken.as_slice() {
            [] => {}
            [ReportFormat::Human] => {}
            [_] if !github => {}
            _ => {
                return Err(
                    "only one report can go to the standard output: write --output FILE after the --format of \
                            each of the others"
                        .to_owned(),
                );
            }
        }
        Ok(Self(requests))
    }
}

impl FromArgMatches for ReportArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let places = |name| matches.indices_of(name).into_iter().flatten();
        let formats = matches.get_many(FORMAT).into_iter().flatten().map(|format| Typed::Format(*format));
        let outputs = matches.get_many(OUTPUT).into_iter().flatten().map(|path: &PathBuf| Typed::Output(path.clone()));
        let mut typed: Vec<(usize, Typed)> = places(FORMAT).zip(formats).chain(places(OUTPUT).zip(outputs)).collect();
        typed.sort_by_key(|(place, _)| *place);
        let typed = typed.into_iter().map(|(_, word)| word).collect();
        Self::of(typed).map_err(|why| Error::raw(ErrorKind::ArgumentConflict, format!("{why}\n")))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ReportArgs {
    fn augment_args(command: Command) -> Command {
        let format = Arg::new(FORMAT)
            .long(FORMAT)
            .value_name("FORMAT")
            .action(ArgAction::Append)
            .value_parser(EnumValueParser::<ReportFormat>::new())
            .help_heading(REPORT)
            .help("The format of a report. Can be given several times, each with its own --output")
            .long_help(
                "The format of a report. Can be given several times, each with its own --output: `--format jsonl \
                 --output run.jsonl --format junit --output junit.xml`.\n\nThe text is printed as well, unless it has a file or \
                 another report goes to standard output.",
            );
        let output = Arg::new(OUTPUT)
            .long(OUTPUT)
            .value_name("FILE")
            .action(ArgAction::Append)
            .value_parser(value_parser!(PathBuf))
            .help_heading(REPORT)
            .help(
                "Write the report of the preceding --format to this file instead of standard output; without --format, \
                 the text. It cannot be a scenario file of the run",
            );
        command.arg(format).arg(output)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{Args, Command};
    use clap::Parser;

    /// Formats with their files, and whether the text goes to the standard output.
    type Parsed = (Vec<(ReportFormat, Option<String>)>, bool);

    fn parsed(words: &str) -> Result<Parsed, String> {
        let words = ["collspec", "run"].into_iter().chain(words.split_whitespace());
        let args = Args::try_parse_from(words).map_err(|error| error.to_string())?;
        let Command::Run(run) = args.command else { unreachable!("the words begin with `run`") };
        let pair = |request: &ReportRequest| (request.format, request.output.as_ref().map(|o| o.display().to_string()));
        Ok((run.report.0.iter().map(pair).collect(), run.report.text_on_standard_output()))
    }

    #[test]
    fn pairs_stand_in_the_order_typed() {
        use ReportFormat::*;
        let file = |name: &str| Some(name.to_owned());
        let reports = |words| parsed(words).unwrap();
        assert_eq!(reports(""), (vec![], true));
        assert_eq!(reports("--output a"), (vec![(Human, file("a"))], false));
        assert_eq!(reports("--format jsonl"), (vec![(Jsonl, None)], false));
        assert_eq!(reports("--output a --format jsonl"), (vec![(Jsonl, file("a"))], true));
        assert_eq!(reports("--format human"), (vec![(Human, None)], true));
        let three = reports("--format jsonl --output a x.toml --format junit --output b --format human");
        assert_eq!(three, (vec![(Jsonl, file("a")), (Junit, file("b")), (Human, None)], true));
        let github = reports("--format html --output a --format github");
        assert_eq!(github, (vec![(Html, file("a")), (Github, None)], true));
        assert!(reports("--format github --format human").1);
        assert_eq!(reports("--format junit --format jsonl --output a").0, [(Junit, None), (Jsonl, file("a"))]);
    }

    #[test]
    fn what_has_no_clear_place_is_refused() {
        for words in [
            "--format jsonl --format junit",
            "--format github --format junit",
            "--format human --format human",
            "--format jsonl --output a --format junit --format human",
        ] {
            let error = parsed(words).unwrap_err();
            assert!(error.contains("only one report can go to the standard output"), "{words}: {error}");
        }
        for words in [
            "--output a --output b",
            "--format jsonl --output a --output b",
            "--output a --format jsonl --format junit",
        ] {
            assert!(parsed(words).unwrap_err().contains("write its --format directly before"), "{words}");
        }
    }
}
