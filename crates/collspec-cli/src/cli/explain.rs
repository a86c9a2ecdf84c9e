//! `collspec explain`.
use super::exit::Exit;
use super::explain_args::{ExplainArgs, ExplainFormat};
use super::{output, run, terminal};
use crate::explain::{self, Explanation, html, rounds};
use anstream::StripStream;
use collspec_core::printable::{PrintableWriter, one_line};
use collspec_core::scenario::Case;
use collspec_suite::suite::{CaseSet, invalid_files};
use std::io::{self, Write};
use std::sync::Arc;

/// Number of other cases that are named.
const MOST_NAMES: usize = 12;

pub fn explain(args: &ExplainArgs) -> anyhow::Result<Exit> {
    run::warn_of_variables()?;
    output::check("explanation", output::file(&args.output).as_slice(), [args.file.clone()])?;
    let mut suite = CaseSet::open_with(&[&args.file], &args.reading())?;
    if !suite.invalid_files.is_empty() {
        run::show_diagnostics(&suite)?;
        return Ok(Exit::WRONG_INPUT);
    }
    let case = chosen(args, &suite.cases)?;
    let explanation = match explanation(args, &case, &suite) {
        Ok(explanation) => explanation,
        Err(Failure::Diagnostics(diagnostics)) => {
            invalid_files::add(&mut suite.invalid_files, &case, diagnostics);
            run::show_diagnostics(&suite)?;
            return Ok(Exit::WRONG_INPUT);
        }
        Err(Failure::Rounds(error)) => return Err(error.into()),
    };
    write(args, &explanation)?;
    name_others(args, &case, &suite)?;
    Ok(Exit::ALL_PASSED)
}

/// The case that is meant: the first, or the one with the name, which folders may precede as in a report.
fn chosen(args: &ExplainArgs, cases: &[Arc<Case>]) -> anyhow::Result<Arc<Case>> {
    let file = args.file.display();
    let Some(name) = &args.case else {
        return cases.first().cloned().ok_or_else(|| anyhow::anyhow!("{file} has no cases"));
    };
    let case = cases.iter().find(|case| case.name == *name || name.ends_with(&format!("/{}", case.name)));
    case.cloned().ok_or_else(|| {
        anyhow::anyhow!("{file} has no case called {name}; `collspec run {file} --list` names its cases")
    })
}

enum Failure {
    Diagnostics(Vec<collspec_core::scenario::Diagnostic>),
    Rounds(rounds::Error),
}

fn explanation(args: &ExplainArgs, case: &Arc<Case>, suite: &CaseSet) -> Result<Explanation, Failure> {
    let case = match &args.algorithm {
        Some(algorithm) => Arc::new(rounds::with_algorithm(case, algorithm).map_err(Failure::Rounds)?),
        None => case.clone(),
    };
    let Some(plan) = invalid_files::plan(suite.plans(), &case, &suite.limits).map_err(Failure::Diagnostics)? else {
        return Ok(explain::refused(&case));
    };
    let mut explanation = match explain::explain(&case, &plan) {
        Ok(explanation) => explanation,
        Err(diagnostics) => {
            invalid_files::unless_expected(&case, diagnostics).map_err(Failure::Diagnostics)?;
            return Ok(explain::refused(&case));
        }
    };
    if args.rounds {
        rounds::add(&mut explanation, &case, suite.limits).map_err(Failure::Rounds)?;
    }
    Ok(explanation)
}

fn write(args: &ExplainArgs, explanation: &Explanation) -> anyhow::Result<()> {
    let drawn = match args.format {
        ExplainFormat::Svg => Some(explain::image(explanation)),
        ExplainFormat::Html => Some(html::page(explanation)),
        ExplainFormat::Text => None,
    };
    match (output::file(&args.output), drawn) {
        (Some(path), Some(drawn)) => output::replace(path, drawn.as_bytes()),
        (Some(path), None) => {
            let mut text = Vec::new();
            let mut plain = PrintableWriter::new(StripStream::new(&mut text), true);
            explain::terminal::write(&mut plain, explanation, false)?;
            drop(plain);
            output::replace(path, &text)
        }
        (None, drawn) => {
            let mut out = terminal::out();
            match drawn {
                Some(drawn) => out.write_all(drawn.as_bytes())?,
                None => explain::terminal::write(&mut out, explanation, terminal::shows_colours())?,
            }
            Ok(out.flush()?)
        }
    }
}

/// Names the file's other cases, on the standard error.
fn name_others(args: &ExplainArgs, case: &Case, suite: &CaseSet) -> io::Result<()> {
    let others: Vec<&str> =
        suite.cases.iter().map(|other| other.name.as_str()).filter(|name| *name != case.name).collect();
    if args.case.is_some() || others.is_empty() {
        return Ok(());
    }
    let mut to = terminal::err();
    writeln!(to, "\ncollspec: this is the first of {} cases; the others, for --case:", others.len() + 1)?;
    for name in others.iter().take(MOST_NAMES) {
        writeln!(to, "  {}", one_line(name))?;
    }
    if others.len() > MOST_NAMES {
        let file = args.file.display().to_string();
        writeln!(to, "  and {} more (`collspec run {} --list`)", others.len() - MOST_NAMES, one_line(&file))?;
    }
    Ok(())
}
