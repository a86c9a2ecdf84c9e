//! The report on single files: what of the operations that they use they would notice.
use super::table::write_undecided;
use crate::audit::examples::scenario_for;
use crate::audit::{AuditReport, FaultOrFlaw, ItemRow};
use collspec_core::ops::Kind;
use collspec_core::printable::one_line;
use collspec_core::scenario::{self, Case, CommCreation, CommDef, SourceFile, all_steps};
use collspec_suite::report::Styles;
use collspec_suite::report::human::duration;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::Arc;

/// Number of faults, or families of them, that are described.
const MAX_DESCRIBED: usize = 10;

/// The faults that a library can have in the operations of some files.
pub struct OwnReport<'a> {
    report: &'a AuditReport,
    operations: BTreeSet<&'static str>,
    noticed: Vec<&'a ItemRow>,
    /// Faults that calls of the files meet, and that no case notices.
    passed_over: Vec<&'a ItemRow>,
    /// Faults that other calls of the same operations would meet.
    not_met: Vec<&'a ItemRow>,
}

impl<'a> OwnReport<'a> {
    /// What concerns these cases; `None` if none of them ran, or they use no operation of the library.
    pub fn of(report: &'a AuditReport, cases: &[Arc<Case>]) -> Option<Self> {
        let operations: BTreeSet<&str> = cases.iter().flat_map(|case| operations(case)).collect();
        if operations.is_empty() || report.cases == 0 {
            return None;
        }
        let faults = report.items.iter().filter(|row| matches!(row.item, FaultOrFlaw::Fault(_)));
        let (noticed, missed): (Vec<_>, Vec<_>) = faults.partition(|row| !row.missed());
        let (passed_over, not_met): (Vec<_>, Vec<_>) = missed.into_iter().partition(|row| row.reached > 0);
        let not_met = not_met.into_iter().filter(|row| can_be_made_with(row.item, &operations)).collect();
        Some(Self { report, operations, noticed, passed_over, not_met })
    }

    /// True if a fault of their operations goes unnoticed, or that cannot be said.
    pub fn has_misses(&self) -> bool {
        !(self.passed_over.is_empty() && self.not_met.is_empty() && self.report.undecided.is_empty())
    }

    /// Writes what the files notice, and what they do not although a scenario with the same operations would.
    ///
    /// # Errors
    ///
    /// Writing fails.
    pub fn write(&self, to: &mut dyn Write, seconds: f64, styles: &Styles) -> io::Result<()> {
        let Styles { pass, fail, skip, strong, faint, .. } = styles;
        let all = self.noticed.len() + self.passed_over.len() + self.not_met.len();
        let style = if self.has_misses() { strong } else { pass };
        let operations = self.operations.iter().copied().collect::<Vec<_>>().join(", ");
        writeln!(
            to,
            "{style}Noticed: {} of the {all} faults that this audit knows of {}{style:#} (runs with faults: {}, in {})",
            self.noticed.len(),
            one_line(&operations),
            self.report.runs,
            duration(seconds)
        )?;
        describe(to, &self.noticed, styles)?;
        for (reason, count) in &self.report.skipped {
            writeln!(to, "{skip}skipped{skip:#} {count}: {}", one_line(reason))?;
        }
        write_undecided(to, self.report, styles)?;
        if !self.passed_over.is_empty() {
            writeln!(to, "\n{fail}The calls meet these faults, and every case passes:{fail:#}")?;
            describe(to, &self.passed_over, styles)?;
        }
        if !self.not_met.is_empty() {
            writeln!(to, "\nOther sizes, types, values or ranks of the same operations would meet these:")?;
            describe(to, &self.not_met, styles)?;
        }
        if self.has_misses() {
            let more = "`--fault ID` shows a scenario for one, and `--scenarios` the whole table";
            writeln!(to, "\n{faint}{more}{faint:#}")?;
        }
        to.flush()
    }
}

/// A line for each of the first faults, of which those of a family share one; and what would show those that were missed.
fn describe(to: &mut dyn Write, rows: &[&ItemRow], styles: &Styles) -> io::Result<()> {
    let Styles { faint, .. } = styles;
    let families: Vec<&[&ItemRow]> =
        rows.chunk_by(|a, b| a.item.family().is_some() && a.item.family() == b.item.family()).collect();
    for family in families.iter().take(MAX_DESCRIBED) {
        let Some(first) = family.first() else { continue };
        let (id, text) = first.item.family().unwrap_or((first.item.id(), first.item.text()));
        write!(to, "  {id:<5} {text}")?;
        if first.missed() {
            write!(to, "; {faint}what would show it:{faint:#} {}", first.item.shown_by())?;
        }
        writeln!(to)?;
    }
    match families.len().saturating_sub(MAX_DESCRIBED) {
        0 => Ok(()),
        more => writeln!(to, "  and {more} more"),
    }
}

/// True if the scenario that catches the fault has no operations but these.
fn can_be_made_with(item: FaultOrFlaw, used: &BTreeSet<&str>) -> bool {
    let Some(text) = scenario_for(item) else { return false };
    let file = Arc::new(SourceFile { path: "example.toml".into(), text: text.into() });
    let Ok(cases) = scenario::parse(&file, "example") else { return false };
    cases.iter().flat_map(operations).all(|operation| used.contains(operation))
}

/// The words of all its steps, without those that only hold or compute others, and of the way in which its communicators are made.
fn operations(case: &Case) -> Vec<&'static str> {
    let is_of_library = |kind: &Kind| !matches!(kind, Kind::Group | Kind::Loop | Kind::Map | Kind::Host(_));
    let steps = all_steps(&case.steps).chain(all_steps(&case.before)).map(|step| step.op);
    let makes = |comm: &CommDef| match comm.creation {
        CommCreation::Groups(_) => "init",
        CommCreation::Split { .. } => "split",
        CommCreation::Shrink { .. } => "shrink",
        CommCreation::Grow { .. } => "grow",
    };
    steps.filter(|op| is_of_library(&op.kind)).map(|op| op.name).chain(case.comms.iter().map(makes)).collect()
}
