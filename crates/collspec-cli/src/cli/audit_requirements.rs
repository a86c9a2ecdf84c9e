//! The requirements on an audit: `--baseline`, `--write-baseline` and `--at-least`.
use super::args::AuditArgs;
use super::exit::Exit;
use super::{output, terminal};
use crate::audit::report::advice::ids_by_family;
use crate::audit::{AtLeast, AuditReport, Baseline};
use anyhow::Context;
use collspec_core::files;
use collspec_core::printable::printable;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Bytes of the largest recorded audit that is read.
const MAX_BASELINE: u64 = 4 << 20;

/// The requirements of a command line.
pub struct Requirements {
    baseline: Option<(PathBuf, Baseline)>,
    /// The file to write, and its current content.
    record: Option<(PathBuf, Option<Baseline>)>,
    at_least: Option<AtLeast>,
}

impl Requirements {
    /// Reads the files, before starting an audit that takes long.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or is not a recorded audit.
    pub fn read(args: &AuditArgs) -> anyhow::Result<Self> {
        let named = |path: &PathBuf| Ok::<_, anyhow::Error>((path.clone(), read(path)?));
        let record = |path: &PathBuf| match fs::metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok((path.clone(), None)),
            _ => Ok::<_, anyhow::Error>((path.clone(), Some(read(path)?))),
        };
        Ok(Self {
            baseline: args.baseline.as_ref().map(named).transpose()?,
            record: args.write_baseline.as_ref().map(record).transpose()?,
            at_least: args.at_least,
        })
    }

    /// The exit code for a report. Unmet requirements are printed, and the record is written.
    ///
    /// # Errors
    ///
    /// The record cannot be written.
    pub fn check(&self, report: &AuditReport) -> anyhow::Result<Exit> {
        let mut exit = Exit::ALL_PASSED;
        let mut to = terminal::err();
        if let Some((path, baseline)) = &self.baseline {
            let shown = path.display().to_string();
            let shown = printable(&shown);
            let (misses, catches) = (baseline.new_misses(report), baseline.new_catches(report));
            if !misses.is_empty() {
                writeln!(to, "collspec: missed, and not missed in {shown}: {}", ids_by_family(&misses))?;
                exit = Exit::SOME_FAILED;
            }
            if !catches.is_empty() {
                let cure = "`--write-baseline` records it";
                writeln!(to, "collspec: caught, and missed in {shown}: {}; {cure}", ids_by_family(&catches))?;
            }
        }
        let (caught, all) = report.faults();
        if let Some(least) = self.at_least.filter(|least| !least.admits(caught, all)) {
            writeln!(to, "collspec: {caught} of {all} faults are caught, which is less than `--at-least {least}`")?;
            exit = Exit::SOME_FAILED;
        }
        if let Some((path, before)) = &self.record {
            let record = Baseline::record(report, before.as_ref());
            output::replace(path, record.to_string().as_bytes())?;
        }
        Ok(exit)
    }
}

fn read(path: &Path) -> anyhow::Result<Baseline> {
    let text = files::read_text(path, MAX_BASELINE).with_context(|| format!("cannot read {}", path.display()))?;
    text.parse().with_context(|| format!("{}", path.display()))
}
