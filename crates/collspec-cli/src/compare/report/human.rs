//! A comparison as text: the headline, changes, worse ones before others, then what was compared.
use super::Context;
use super::speed::write_speed;
use super::ways::{by_way, fails_on_both};
use super::work::write_work;
use crate::bench::comparison::SpeedVerdict;
use crate::compare::coverage::coverage;
use crate::compare::words::cases;
use crate::compare::{Change, Comparison, GateVerdict, Meaning, Provenance, Row, SideSummary};
use anstyle::Style;
use collspec_core::printable::one_line;
use collspec_core::printable::thousands;
use collspec_suite::report::Styles;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Number of cases named for each change that is worse, and for other changes for each way in which cases changed.
const NAMED_WORSE: usize = 10;
const NAMED_OTHERS: usize = 3;
/// Number of ways in which cases changed that are shown for each change.
const WAYS: usize = 10;

/// A part of the report: its title, and its lines.
pub(super) struct Part {
    pub(super) title: String,
    style: Style,
    pub(super) text: String,
}

/// Writes the comparison.
///
/// # Errors
///
/// Writing fails.
pub fn write_human(to: &mut dyn Write, context: &Context<'_>, styles: Styles) -> io::Result<()> {
    let comparison = context.comparison;
    let style = match context.decision.overall() {
        GateVerdict::NothingWorse => styles.pass,
        GateVerdict::Worse { .. } => styles.fail,
        GateVerdict::NoVerdict { .. } => styles.skip,
    };
    let headline = context.headline();
    writeln!(to, "{style}{headline}{style:#}")?;
    for reason in context.decision.reasons() {
        writeln!(to, "  {}", one_line(&reason))?;
    }
    writeln!(to)?;
    for (name, of) in [("base", &comparison.base), ("candidate", &comparison.candidate)] {
        writeln!(to, "{name:<9}  {}", side(of))?;
        if let Some(hash) = &of.header.library.sha256 {
            writeln!(to, "           SHA-256 {}", one_line(hash))?;
        }
    }
    writeln!(to, "compared   {}", provenance(comparison))?;
    for Part { title, style, text } in parts(context, styles)? {
        writeln!(to, "\n{style}{title}{style:#}\n{}", text.trim_end_matches('\n'))?;
    }
    writeln!(to, "\n{style}{headline}{style:#}")?;
    match context.decision.advice(comparison) {
        Some(advice) => writeln!(to, "Advice: {}.", one_line(&advice)),
        None => Ok(()),
    }
}

/// The parts below the headline, the changes first and of these the worse ones.
pub(super) fn parts(context: &Context<'_>, styles: Styles) -> io::Result<Vec<Part>> {
    let Context { comparison, every_row, .. } = *context;
    let mut report = Report { to: Vec::new(), parts: Vec::new(), comparison, styles, every_row };
    for (meaning, title, style) in [
        (Meaning::Worse, "Worse", styles.fail),
        (Meaning::Undecided, "Undecided", styles.skip),
        (Meaning::Changed, "Changed", styles.strong),
        (Meaning::Better, "Better", styles.pass),
    ] {
        report.section(meaning, title, style)?;
    }
    report.known_bugs()?;
    if let Some(speed) = &comparison.speed {
        write_speed(&mut report.to, speed)?;
        let style = match &speed.timed.verdict {
            _ if speed.counted_as_worse() > 0 => styles.fail,
            SpeedVerdict::Slower | SpeedVerdict::Mixed | SpeedVerdict::Same => styles.strong,
            SpeedVerdict::Faster => styles.pass,
            SpeedVerdict::NoVerdict(_) => styles.skip,
        };
        report.end_part(format!("Speed: {}", one_line(&speed.in_words())), style);
    }
    if let Some(work) = &comparison.work {
        write_work(&mut report.to, work)?;
        report.end_part(format!("Work: {}", work.in_words()), styles.strong);
    }
    report.accepted();
    report.failing()?;
    report.looked_at()?;
    Ok(report.parts)
}

struct Report<'a> {
    /// The lines of the current part.
    to: Vec<u8>,
    parts: Vec<Part>,
    comparison: &'a Comparison,
    styles: Styles,
    every_row: bool,
}

impl Report<'_> {
    fn end_part(&mut self, title: String, style: Style) {
        let text = String::from_utf8_lossy(&std::mem::take(&mut self.to)).into_owned();
        self.parts.push(Part { title, style, text });
    }

    /// Bugs that are known of one of the libraries alone.
    fn known_bugs(&mut self) -> io::Result<()> {
        for bug in &self.comparison.known_bugs {
            writeln!(self.to, "  {}", one_line(&bug.words()))?;
        }
        if !self.to.is_empty() {
            self.end_part("Known bugs of NCCL (docs/real-nccl.md)".to_owned(), self.styles.strong);
        }
        Ok(())
    }

    /// All changes of one meaning that are not accepted.
    fn section(&mut self, meaning: Meaning, title: &str, style: Style) -> io::Result<()> {
        let comparison = self.comparison;
        let library: Vec<_> =
            comparison.library.iter().filter(|change| change.meaning == meaning && change.accepted.is_none()).collect();
        let starts = comparison
            .starts
            .as_ref()
            .filter(|starts| starts.change().meaning() == meaning && starts.accepted.is_none());
        let mut by_change: BTreeMap<Change, Vec<&Row>> = BTreeMap::new();
        for row in comparison.rows.iter().filter(|row| row.change.meaning() == meaning && row.accepted.is_none()) {
            by_change.entry(row.change).or_default().push(row);
        }
        let count = library.len() + usize::from(starts.is_some()) + by_change.values().map(Vec::len).sum::<usize>();
        if count == 0 {
            return Ok(());
        }
        for change in library {
            writeln!(self.to, "  {}", one_line(&change.text))?;
            if self.every_row && !change.names.is_empty() {
                writeln!(self.to, "    {}", one_line(&change.names.join(", ")))?;
            }
        }
        if let Some(starts) = starts {
            writeln!(self.to, "  starts of the library, {}: {}", starts.change(), starts.words())?;
            for reason in &starts.candidate.reasons {
                writeln!(self.to, "    candidate: {}", one_line(reason))?;
            }
        }
        by_change.into_iter().try_for_each(|(change, rows)| self.rows(change, &rows))?;
        self.end_part(format!("{title}: {}", thousands(count as u64)), style);
        Ok(())
    }

    /// The cases with one change.
    fn rows(&mut self, change: Change, rows: &[&Row]) -> io::Result<()> {
        let strong = self.styles.strong;
        writeln!(self.to, "  {strong}{change}{strong:#}: {}", cases(rows.len()))?;
        if about_one_case(change) {
            let named = if self.every_row { rows.len() } else { NAMED_WORSE };
            for row in rows.iter().take(named) {
                writeln!(self.to, "    {}: {}", one_line(&row.case), one_line(&row.detail))?;
            }
            return self.more(rows.len().saturating_sub(named));
        }
        self.ways(rows)
    }

    /// Cases by the way in which they changed, or the reason for which they fail.
    fn ways(&mut self, rows: &[&Row]) -> io::Result<()> {
        let ways = by_way(rows);
        let shown = if self.every_row { ways.len() } else { WAYS };
        for rows in ways.iter().take(shown) {
            let Some(first) = rows.first() else { continue };
            let number = cases(rows.len());
            if fails_on_both(first) && !self.every_row {
                writeln!(self.to, "    {number}: {} (for example {})", one_line(&first.detail), one_line(&first.case))?;
                continue;
            }
            let named = if self.every_row { rows.len() } else { NAMED_OTHERS };
            let names: Vec<_> = rows.iter().take(named).map(|row| name_with_places(row)).collect();
            let more = rows.len().saturating_sub(named);
            let more = if more > 0 { format!(" and {} more", thousands(more as u64)) } else { String::new() };
            writeln!(self.to, "    {}", one_line(&first.detail))?;
            writeln!(self.to, "      {number}: {}{more}", names.join(", "))?;
        }
        self.more(ways.iter().skip(shown).map(|rows| rows.len()).sum())
    }

    fn more(&mut self, left: usize) -> io::Result<()> {
        if left == 0 {
            return Ok(());
        }
        let cases = if left == 1 { "case" } else { "cases" };
        writeln!(self.to, "    and {} more {cases}; --verbose names all", thousands(left as u64))
    }

    fn accepted(&mut self) {
        let rows = self.comparison.rows.iter().filter(|row| row.accepted.is_some()).count();
        let library = self.comparison.library.iter().filter(|change| change.accepted.is_some()).count();
        let Comparison { starts, speed, work, .. } = self.comparison;
        let parts = [
            starts.as_ref().is_some_and(|starts| starts.accepted.is_some()),
            speed.as_ref().is_some_and(|speed| speed.accepted.is_some()),
            work.as_ref().is_some_and(|work| work.accepted.is_some()),
        ];
        let accepted = rows + library + parts.into_iter().filter(|is_accepted| *is_accepted).count();
        if accepted > 0 {
            self.end_part(format!("Accepted by --allow: {}", thousands(accepted as u64)), Style::new());
        }
    }

    /// Cases that fail as before, by reason.
    fn failing(&mut self) -> io::Result<()> {
        let rows: Vec<&Row> = self.comparison.rows.iter().filter(|row| row.change == Change::StillFails).collect();
        if rows.is_empty() {
            return Ok(());
        }
        self.ways(&rows)?;
        self.end_part(format!("Fail on both sides: {}", cases(rows.len())), self.styles.strong);
        Ok(())
    }

    /// Writes what was compared, and why the rest was not.
    fn looked_at(&mut self) -> io::Result<()> {
        let comparison = self.comparison;
        let runs = |side: &SideSummary| match (side.recorded, side.corpus_runs) {
            (true, _) => "recorded".to_owned(),
            (false, 1) => "1 run".to_owned(),
            (false, runs) => format!("{runs} runs"),
        };
        if comparison.not_begun.is_some() {
            return Ok(());
        }
        let title = format!(
            "Compared: {} of {} (base {}, candidate {})",
            thousands(comparison.compared() as u64),
            cases(comparison.rows.len()),
            runs(&comparison.base),
            runs(&comparison.candidate)
        );
        for (change, count) in comparison.counts() {
            writeln!(self.to, "  {:>7}  {change}", thousands(count as u64))?;
        }
        let covered = coverage(&comparison.rows);
        if !covered.is_empty() {
            writeln!(self.to, "They use:")?;
        }
        for covered in covered {
            writeln!(self.to, "  {:<16} {}", one_line(covered.operation), one_line(&covered.words()))?;
        }
        for description in &comparison.imported {
            writeln!(self.to, "  imported: {}", one_line(description))?;
        }
        if let Some(starts) = comparison.starts.as_ref().filter(|starts| starts.change().meaning() == Meaning::Same) {
            writeln!(self.to, "Starts that failed: {}", starts.words())?;
        }
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for row in comparison.rows.iter().filter(|row| row.change.meaning() == Meaning::NotCompared) {
            *reasons.entry(row.detail.as_str()).or_default() += 1;
        }
        let mut reasons: Vec<(&str, usize)> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let shown = if self.every_row { reasons.len() } else { 5 };
        let parts = comparison.missing_parts();
        if !(reasons.is_empty() && parts.is_empty()) {
            writeln!(self.to, "Not compared:")?;
        }
        for part in parts {
            writeln!(self.to, "  {}", one_line(&part))?;
        }
        for (reason, count) in reasons.iter().take(shown) {
            writeln!(self.to, "  {:>7}  {}", thousands(*count as u64), one_line(reason))?;
        }
        if let Some(more) = reasons.len().checked_sub(shown).filter(|more| *more > 0) {
            writeln!(self.to, "           and {more} more reasons; --verbose names all")?;
        }
        self.end_part(title, Style::new());
        Ok(())
    }
}

/// The case's name, with the results whose order of summation changed.
fn name_with_places(row: &Row) -> String {
    let name = one_line(&row.case);
    match row.changed_results.as_slice() {
        [] => name.into_owned(),
        [only] => format!("{name} ({})", one_line(&only.place())),
        [first, rest @ ..] => format!("{name} ({} and {} more)", one_line(&first.place()), rest.len()),
    }
}

/// True if the text on the change differs from case to case.
fn about_one_case(change: Change) -> bool {
    !matches!(
        change,
        Change::OtherOrder
            | Change::OtherRounding
            | Change::OtherBits
            | Change::FailsOtherwise
            | Change::OtherErrorCode
            | Change::OtherErrorText
            | Change::NoLongerRuns
            | Change::NowRuns
    )
}

/// The date, the machine and the program.
pub(super) fn provenance(comparison: &Comparison) -> String {
    let Provenance { host, collspec, .. } = &comparison.provenance;
    one_line(&format!("{} on {host}, by collspec {collspec}", comparison.provenance.date())).into_owned()
}

pub(super) fn side(side: &SideSummary) -> String {
    let header = &side.header;
    let library = &header.library;
    if library.version.is_empty() {
        return one_line(&side.name).into_owned();
    }
    let mut words = match &library.path {
        Some(path) => format!("NCCL {} ({path}", library.version),
        None => format!("NCCL's interface in software ({}", library.version),
    };
    words.extend(library.build_id.iter().map(|id| format!(", build id {}", id.get(..12).unwrap_or(id))));
    words.push(')');
    words.extend(header.devices_in_words().into_iter().map(|devices| format!(", {devices}")));
    words.extend(header.machine_in_words().map(|machine| format!(", as {machine}")));
    if side.recorded {
        words.push_str(", recorded");
    }
    one_line(&format!("{}: {words}", side.name)).into_owned()
}
