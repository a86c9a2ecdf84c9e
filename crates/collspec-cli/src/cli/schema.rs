//! `collspec schema`.
use super::exit::Exit;
use super::terminal;
use crate::schema::schema;
use clap::Args as ClapArgs;
use std::io::Write;

/// Print the scenario language as a JSON Schema (draft-07), from which editors complete and check scenarios.
///
/// `collspec new` writes it beside a scenario, whose first line, `#:schema ./.scenario-schema.json`, is what editors with a TOML extension
/// such as Even Better TOML (taplo) or Tombi need. The schema knows keys and types; `collspec check` knows the rest.
#[derive(Debug, ClapArgs)]
pub struct SchemaArgs {}

pub fn print(SchemaArgs {}: &SchemaArgs) -> anyhow::Result<Exit> {
    let mut out = terminal::out();
    writeln!(out, "{:#}", schema())?;
    out.flush()?;
    Ok(Exit::ALL_PASSED)
}
