//! A comparison as text: changes first, worse ones before others, then what was compared, and the verdict.
use super::speed::write_speed;
use super::work::write_work;
use crate::compare::{Change, Comparison, GateVerdict, Meaning, Row, SideSummary};
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

/// Writes the comparison. With `every_row`, all cases are named.
///
/// # Errors
///
/// Writing fails.
pub fn write_human(
    to: &mut dyn Write,
    comparison: &Comparison,
    verdict: &GateVerdict,
    styles: Styles,
    every_row: bool,
) -> io::Result<()> {
    let mut report = Report { to, comparison, styles, every_row };
    report.verdict(verdict)?;
    writeln!(report.to)?;
    report.head()?;
    for (meaning, title, style) in [
        (Meaning::Worse, "Worse", styles.fail),
        (Meaning::Undecided, "Undecided", styles.skip),
        (Meaning::Changed, "Changed", styles.strong),
        (Meaning::Better, "Better", styles.pass),
    ] {
        report.section(meaning, title, style)?;
    }
    report.accepted()?;
    report.looked_at()?;
    if let Some(speed) = &comparison.speed {
        write_speed(report.to, speed, styles)?;
    }
    if let Some(work) = &comparison.work {
        write_work(report.to, work, styles)?;
    }
    writeln!(report.to)?;
    report.verdict(verdict)
}

struct Report<'a> {
    to: &'a mut dyn Write,
    comparison: &'a Comparison,
    styles: Styles,
    every_row: bool,
}

impl Report<'_> {
    fn head(&mut self) -> io::Result<()> {
        writeln!(self.to, "base       {}", side(&self.comparison.base))?;
        writeln!(self.to, "candidate  {}", side(&self.comparison.candidate))
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
        writeln!(self.to, "\n{style}{title}: {}{style:#}", thousands(count as u64))?;
        for change in library {
            writeln!(self.to, "  {}", one_line(&change.text))?;
        }
        if let Some(starts) = starts {
            writeln!(self.to, "  starts of the library, {}: {}", starts.change(), starts.words())?;
            for reason in &starts.candidate.reasons {
                writeln!(self.to, "    candidate: {}", one_line(reason))?;
            }
        }
        by_change.into_iter().try_for_each(|(change, rows)| self.rows(change, &rows))
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
        let mut ways: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
        rows.iter().for_each(|row| ways.entry(row.detail.as_str()).or_default().push(row));
        let mut ways: Vec<(&str, Vec<&Row>)> = ways.into_iter().collect();
        ways.sort_by_key(|(_, rows)| std::cmp::Reverse(rows.len()));
        let shown = if self.every_row { ways.len() } else { WAYS };
        for (detail, rows) in ways.iter().take(shown) {
            let named = if self.every_row { rows.len() } else { NAMED_OTHERS };
            let names: Vec<_> = rows.iter().take(named).map(|row| one_line(&row.case)).collect();
            let more = rows.len().saturating_sub(named);
            let more = if more > 0 { format!(" and {} more", thousands(more as u64)) } else { String::new() };
            writeln!(self.to, "    {}", one_line(detail))?;
            writeln!(self.to, "      {}: {}{more}", cases(rows.len()), names.join(", "))?;
        }
        self.more(ways.iter().skip(shown).map(|(_, rows)| rows.len()).sum())
    }

    fn more(&mut self, left: usize) -> io::Result<()> {
        if left == 0 {
            return Ok(());
        }
        let cases = if left == 1 { "case" } else { "cases" };
        writeln!(self.to, "    and {} more {cases}; --verbose names all", thousands(left as u64))
    }

    fn accepted(&mut self) -> io::Result<()> {
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
            writeln!(self.to, "\nAccepted by --allow: {}", thousands(accepted as u64))?;
        }
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
        writeln!(
            self.to,
            "\nCompared: {} of {} (base {}, candidate {})",
            thousands(comparison.compared() as u64),
            cases(comparison.rows.len()),
            runs(&comparison.base),
            runs(&comparison.candidate)
        )?;
        for (change, count) in comparison.counts() {
            writeln!(self.to, "  {:>7}  {change}", thousands(count as u64))?;
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
        Ok(())
    }

    fn verdict(&mut self, verdict: &GateVerdict) -> io::Result<()> {
        let Styles { pass, fail, skip, .. } = self.styles;
        let compared = cases(self.comparison.compared());
        match verdict {
            GateVerdict::NothingWorse => writeln!(self.to, "{pass}Nothing got worse{pass:#} in {compared}."),
            GateVerdict::Worse { changes: 1 } => writeln!(self.to, "{fail}Worse{fail:#}: 1 change in {compared}."),
            GateVerdict::Worse { changes } => {
                writeln!(self.to, "{fail}Worse{fail:#}: {} changes in {compared}.", thousands(*changes as u64))
            }
            GateVerdict::NoVerdict { reasons } => {
                writeln!(self.to, "{skip}No verdict{skip:#}:")?;
                reasons.iter().try_for_each(|reason| writeln!(self.to, "  {}", one_line(reason)))
            }
        }
    }
}

/// True if the text on the change differs from case to case.
fn about_one_case(change: Change) -> bool {
    !matches!(
        change,
        Change::OtherOrder
            | Change::OtherRounding
            | Change::OtherBits
            | Change::OtherErrorCode
            | Change::OtherErrorText
            | Change::NoLongerRuns
            | Change::NowRuns
    )
}

pub(super) fn cases(count: usize) -> String {
    if count == 1 { "1 case".to_owned() } else { format!("{} cases", thousands(count as u64)) }
}

pub(super) fn side(side: &SideSummary) -> String {
    let header = &side.header;
    let library = &header.library;
    let mut words = match &library.path {
        Some(path) => format!("NCCL {} ({path}", library.version),
        None => format!("NCCL's interface in software ({}", library.version),
    };
    words.extend(library.build_id.iter().map(|id| format!(", build id {}", id.get(..12).unwrap_or(id))));
    words.push(')');
    let devices: BTreeMap<&str, usize> = header.devices.iter().fold(BTreeMap::new(), |mut counts, device| {
        *counts.entry(device.name.as_str()).or_default() += 1;
        counts
    });
    words.extend(devices.into_iter().map(|(name, count)| format!(", {count} x {name}")));
    if side.recorded {
        words.push_str(", recorded");
    }
    one_line(&format!("{}: {words}", side.name)).into_owned()
}
