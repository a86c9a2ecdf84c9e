//! `collspec new`.
use super::exit::Exit;
use super::{output, terminal};
use crate::output_files;
use crate::schema::schema;
use crate::templates::{self, FROM_TORCH, OPERATIONS, PATTERNS, Template};
use anyhow::{Context, bail};
use clap::Args as ClapArgs;
use collspec_core::files::{self, Refused};
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Write a scenario to start from: an operation, or a pattern such as fsdp, moe or pipeline.
///
/// The scenario passes as it is, and its comments say what to change. Without NAME, the command asks for one in a terminal.
/// Beside it, .scenario-schema.json tells editors which keys and values there are; scenarios in other folders can name it in their
/// first line, too. A file of that name that is not collspec's, or a link, is left as it is.
///
/// Exit codes: 0 the scenario was written; 2 the command line is wrong, or the file exists.
#[derive(Debug, ClapArgs)]
pub struct NewArgs {
    /// The operation or pattern; `--list` shows all.
    #[arg(value_name = "NAME")]
    pub name: Option<String>,

    /// List the operations and patterns.
    #[arg(long, conflicts_with_all = ["name", "output"])]
    pub list: bool,

    /// Write to this file instead of NAME.toml, or with `-` to standard output. A file that exists is not overwritten.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Most bytes of a schema that is there already.
const MAX_SCHEMA: u64 = 4 << 20;
/// Most bytes of an answer that are read.
const MAX_ANSWER: u64 = 1024;

pub fn new(args: &NewArgs) -> anyhow::Result<Exit> {
    if args.list {
        let mut out = terminal::out();
        list(&mut out)?;
        out.flush()?;
        return Ok(Exit::ALL_PASSED);
    }
    let name = match &args.name {
        Some(name) => name.clone(),
        None if io::stdin().is_terminal() && io::stderr().is_terminal() => ask()?,
        None => bail!("which scenario? `collspec new --list` shows all names"),
    };
    let template = templates::find(&name).map_err(|near| {
        let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        anyhow::anyhow!("no operation or pattern is called `{name}`{near} (`collspec new --list` shows all)")
    })?;
    if args.output.is_some() && output::file(&args.output).is_none() {
        let mut out = terminal::out();
        out.write_all(template.text.as_bytes())?;
        out.flush()?;
        return Ok(Exit::ALL_PASSED);
    }
    let path = args.output.clone().unwrap_or_else(|| format!("{}.toml", template.name).into());
    let cannot = |path: &Path| format!("cannot write {}", path.display());
    write_new(&path, template).with_context(|| cannot(&path))?;
    let beside = path.with_file_name(SCHEMA);
    let with_schema = write_schema(&beside).with_context(|| cannot(&beside))?;
    let quoted = collspec_suite::report::shell::quote_if_needed(&path.to_string_lossy());
    let schema = if with_schema {
        format!("and {SCHEMA} for editors")
    } else {
        format!("but not over {SCHEMA}, which is not collspec's")
    };
    writeln!(terminal::err(), "collspec: wrote {quoted}, {schema}; run it with `collspec run {quoted}`")?;
    Ok(Exit::ALL_PASSED)
}

/// The schema's file, which the scenarios of a folder share.
const SCHEMA: &str = ".scenario-schema.json";

fn write_new(path: &Path, template: &Template) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => io::Error::new(error.kind(), "there is such a file; --output names another"),
        _ => error,
    })?;
    write!(file, "#:schema ./{SCHEMA}\n{}", template.text)
}

/// Writes the schema, also over that of an earlier version. False if something else has its name: a file that was not named is not
/// replaced, nor is one to which a link leads.
fn write_schema(path: &Path) -> io::Result<bool> {
    let schema = schema();
    let is_ours = match files::open_no_link(path) {
        Err(Refused::Io(error)) if error.kind() == io::ErrorKind::NotFound => true,
        Err(_) => false,
        Ok(file) => {
            let known = files::read(file, MAX_SCHEMA).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
            known.is_some_and(|known| known["title"] == schema["title"])
        }
    };
    if is_ours {
        output_files::replace(path, format!("{schema:#}\n").as_bytes())?;
    }
    Ok(is_ours)
}

fn list(to: &mut dyn Write) -> io::Result<()> {
    let width = templates::all().map(|template| template.name.len()).max().unwrap_or(0);
    for (heading, some) in [("Operations:", OPERATIONS), ("Patterns:", PATTERNS), ("", FROM_TORCH)] {
        if !heading.is_empty() {
            writeln!(to, "{heading}")?;
        }
        for template in some {
            // The description begins with the name, or with what the name stands for.
            writeln!(to, "  {:width$}  {}", template.name, template.description())?;
        }
    }
    Ok(())
}

/// Asks for a name in the terminal.
fn ask() -> anyhow::Result<String> {
    let mut to = terminal::err();
    list(&mut to)?;
    write!(to, "\nWhich one? ")?;
    to.flush()?;
    let mut answer = String::new();
    io::Read::take(io::stdin().lock(), MAX_ANSWER).read_line(&mut answer)?;
    let answer = answer.trim();
    if answer.is_empty() {
        bail!("nothing was written");
    }
    Ok(answer.to_owned())
}
