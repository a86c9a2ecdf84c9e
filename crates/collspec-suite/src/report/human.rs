//! The report as text: failures as they come, skips by reason, and one line at the end.
use super::checked::checked;
use super::slowest_cases::SlowestCases;
use super::{FormOutcomes, Reporter, RerunCommand, Styles, Tally, failure};
use crate::report::Event;
use collspec_core::judge::{Status, Verdict};
use collspec_core::printable::{one_line, printable};
use collspec_core::scenario::Case;
use std::io::{self, Write};

/// Writes the report of a run as text.
pub struct HumanReporter<W> {
    to: W,
    styles: Styles,
    rerun: RerunCommand,
    every_case: bool,
    buffers: bool,
    tally: Tally,
    forms: FormOutcomes,
    slowest: SlowestCases,
    failed: Vec<String>,
}

/// Number of failures up to which their names are not listed at the end.
const HANDFUL: usize = 5;
/// With this many cases that passed, the report says how strictly they were judged.
const MANY: usize = 10;

impl<W: Write> HumanReporter<W> {
    /// A reporter that writes to `to`; with `every_case` it also names the cases that passed or were skipped.
    pub fn new(to: W, styles: Styles, rerun: RerunCommand, every_case: bool) -> Self {
        let (tally, forms, slowest) = (Tally::default(), FormOutcomes::default(), SlowestCases::default());
        Self { to, styles, rerun, every_case, buffers: false, tally, forms, slowest, failed: Vec::new() }
    }

    /// Makes the reporter also list the cases that took longest, at most this many.
    pub fn with_durations(self, most: usize) -> Self {
        Self { slowest: SlowestCases::new(most), ..self }
    }

    /// Makes the reporter also write buffer contents, for cases whose verdict has them.
    pub fn with_buffers(self, buffers: bool) -> Self {
        Self { buffers, ..self }
    }

    fn case_done(&mut self, case: &Case, verdict: &Verdict) -> io::Result<()> {
        let Styles { pass, skip, faint, .. } = self.styles;
        self.tally.add(verdict);
        self.forms.add(case, verdict);
        self.slowest.add(&case.name, verdict.seconds);
        match verdict.status {
            Status::Fail | Status::Error => {
                let text = failure::failure_text(case, verdict, &self.rerun.command(case), &self.styles, self.buffers);
                writeln!(self.to, "{text}\n")?;
                self.failed.push(printable(&case.name).into_owned());
            }
            Status::Pass if self.every_case || (self.buffers && verdict.buffers.is_some()) => {
                let all = duration(verdict.wall_seconds);
                write!(self.to, "{pass}pass{pass:#} {} {faint}in {all}", printable(&case.name))?;
                if verdict.seconds > 0.0 {
                    write!(self.to, ", calls {}", duration(verdict.seconds))?;
                }
                write!(self.to, ": {}", checked(case, verdict))?;
                if let Some(print) = &verdict.fingerprint {
                    write!(self.to, "; {} ({} of {} elements tell)", print.families, print.telling, print.elements)?;
                }
                writeln!(self.to, "{faint:#}")?;
                if let Some(buffers) = verdict.buffers.as_ref().filter(|_| self.buffers) {
                    let mut text = String::new();
                    failure::push_buffers(&mut text, buffers);
                    self.to.write_all(text.as_bytes())?;
                }
            }
            Status::Skip if self.every_case => {
                let reason = one_line(verdict.reason.as_deref().unwrap_or_default());
                writeln!(self.to, "{skip}skip{skip:#} {} {faint}{reason}{faint:#}", printable(&case.name))?;
            }
            Status::Pass | Status::Skip => {}
        }
        self.to.flush()
    }

    fn finished(&mut self, seconds: f64) -> io::Result<()> {
        let Styles { pass, fail, skip, faint, .. } = self.styles;
        for words in self.forms.disagreements() {
            writeln!(self.to, "{fail}forms disagree{fail:#} {}", printable(&words))?;
        }
        for (reason, count) in &self.tally.skips {
            writeln!(self.to, "{skip}skipped{skip:#} {count}: {}", one_line(reason))?;
        }
        for (not_looked_at, cases) in self.tally.not_looked_at.values() {
            let cases = if *cases == 1 { "1 case".to_owned() } else { format!("{cases} cases") };
            writeln!(self.to, "{skip}not judged{skip:#} in {cases}: {not_looked_at}")?;
        }
        for (name, seconds) in self.slowest.cases() {
            writeln!(self.to, "{faint}slow{faint:#} {:>9} {}", duration(seconds), printable(name))?;
        }
        if self.failed.len() > HANDFUL {
            writeln!(self.to, "{fail}failed{fail:#}")?;
            self.failed.sort_unstable();
            for name in &self.failed {
                writeln!(self.to, "  {name}")?;
            }
        }
        if self.tally.pass >= MANY {
            writeln!(self.to, "{faint}judged{faint:#} {}", self.tally.strictness.in_words())?;
        }
        let failed = if self.tally.fail > 0 { fail } else { faint };
        write!(
            self.to,
            "{pass}{} passed{pass:#}, {failed}{} failed{failed:#}, {} skipped",
            self.tally.pass,
            self.tally.fail,
            self.tally.skip()
        )?;
        if self.tally.errors > 0 {
            write!(self.to, ", {fail}{} not run{fail:#}", self.tally.errors)?;
        }
        writeln!(self.to, " in {}", duration(seconds))?;
        self.to.flush()
    }
}

impl<W: Write> Reporter for HumanReporter<W> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::CaseDone { case, verdict } => self.case_done(case, verdict),
            Event::Finished { seconds } => self.finished(*seconds),
            Event::Started { .. }
            | Event::FileInvalid { .. }
            | Event::FileWarned { .. }
            | Event::CaseStarted { .. } => Ok(()),
        }
    }
}

/// Seconds with a unit that leaves few digits.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 0.9995e-6 => format!("{:.0} ns", s * 1e9),
        s if s < 0.9995e-3 => format!("{:.0} us", s * 1e6),
        s if s < 0.0995 => format!("{:.1} ms", s * 1e3),
        s if s < 99.5 => format!("{s:.2} s"),
        s => format!("{:.0} min {:.0} s", (s / 60.0).floor(), s % 60.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::InheritedVariables;
    use crate::suite::fixture;
    use collspec_core::judge::{BufferContents, BufferRow, BufferRows, RowElements, ShownElement};
    use collspec_core::oracle::NotLookedAt;

    fn report(every_case: bool, styles: Styles, verdicts: Vec<Verdict>) -> String {
        let rerun = RerunCommand::command_line(Vec::new(), InheritedVariables::default());
        let mut human = HumanReporter::new(Vec::new(), styles, rerun, every_case);
        for verdict in verdicts {
            let case = fixture::case(&verdict.case);
            human.event(&Event::CaseDone { case, verdict: Box::new(verdict) }).unwrap();
        }
        human.event(&Event::Finished { seconds: 1.234 }).unwrap();
        String::from_utf8(human.to).unwrap()
    }

    fn skip(name: &str, reason: &str) -> Verdict {
        Verdict { reason: Some(reason.into()), outcome: None, ..fixture::verdict(name, Status::Skip) }
    }

    #[test]
    fn a_green_run_is_one_line() {
        let text = report(false, Styles::plain(), vec![fixture::verdict("a", Status::Pass)]);
        assert_eq!(text, "1 passed, 0 failed, 0 skipped in 1.23 s\n");
    }

    #[test]
    fn a_case_that_could_not_be_run_is_no_failure() {
        let reason = Some("cannot lock the GPUs".into());
        let text = report(false, Styles::plain(), vec![Verdict { reason, ..fixture::verdict("a", Status::Error) }]);
        assert!(text.starts_with("NOT RUN a\n"), "{text}");
        assert!(text.ends_with("\n0 passed, 0 failed, 0 skipped, 1 not run in 1.23 s\n"), "{text}");
    }

    #[test]
    fn skips_are_counted_by_reason() {
        let verdicts = vec![skip("a", "needs 2 GPUs"), skip("b", "needs 2 GPUs"), skip("c", "needs nodes")];
        assert_eq!(
            report(false, Styles::plain(), verdicts),
            "skipped 2: needs 2 GPUs\nskipped 1: needs nodes\n0 passed, 0 failed, 3 skipped in 1.23 s\n"
        );
    }

    #[test]
    fn what_could_not_be_looked_at_is_told_with_passes_too() {
        let rest = |results, bytes| NotLookedAt { results, bytes, why: "a launch overwrites them".into() };
        let pass = |name: &str, rest| Verdict { not_looked_at: Some(rest), ..fixture::verdict(name, Status::Pass) };
        let verdicts = vec![pass("a", rest(2, 32)), pass("b", rest(1, 8)), fixture::verdict("c", Status::Pass)];
        assert_eq!(
            report(false, Styles::plain(), verdicts),
            "not judged in 2 cases: 3 results (40 bytes) were not looked at: a launch overwrites them\n\
             3 passed, 0 failed, 0 skipped in 1.23 s\n"
        );
    }

    #[test]
    fn every_case_is_named_when_asked() {
        let verdicts = vec![fixture::verdict("a", Status::Pass), skip("c", "needs nodes")];
        let text = report(true, Styles::plain(), verdicts);
        assert!(
            text.starts_with("pass a in 0 ns: no results to judge; guards and inputs are intact\nskip c needs nodes\n"),
            "{text}"
        );
    }

    #[test]
    fn many_failures_end_with_a_list_of_their_names() {
        let failed = |count: usize| (0..count).map(|i| fixture::verdict(&format!("c{i}"), Status::Fail)).collect();
        assert!(!report(false, Styles::plain(), failed(5)).contains("\nfailed\n"));
        let text = report(false, Styles::plain(), failed(6));
        assert!(
            text.ends_with("\n\nfailed\n  c0\n  c1\n  c2\n  c3\n  c4\n  c5\n0 passed, 6 failed, 0 skipped in 1.23 s\n"),
            "{text}"
        );
    }

    #[test]
    fn buffers_are_shown_with_passes_and_failures() {
        let elements =
            RowElements::Shown { len: 1, elements: vec![ShownElement { index: 0, text: "1".into(), wrong: false }] };
        let row = BufferRow { rank: 0, name: "in".into(), elements };
        let buffers = Some(BufferContents { before: BufferRows { rows: vec![row], more: 0 }, after: None });
        let pass = Verdict { buffers: buffers.clone(), ..fixture::verdict("a", Status::Pass) };
        let fail = Verdict { buffers, reason: Some("it differs".into()), ..fixture::verdict("b", Status::Fail) };
        for (wanted, number) in [(true, 2), (false, 0)] {
            let rerun = RerunCommand::command_line(Vec::new(), InheritedVariables::default());
            let mut human = HumanReporter::new(Vec::new(), Styles::plain(), rerun, false).with_buffers(wanted);
            for verdict in [pass.clone(), fail.clone()] {
                human.event(&Event::CaseDone { case: fixture::case("a"), verdict: Box::new(verdict) }).unwrap();
            }
            let text = String::from_utf8(human.to).unwrap();
            assert_eq!(text.matches("\n  before\n    rank 0  in  [1]\n").count(), number, "{text}");
        }
    }

    #[test]
    fn the_slowest_cases_are_named_with_their_times() {
        let rerun = RerunCommand::command_line(Vec::new(), InheritedVariables::default());
        let mut human = HumanReporter::new(Vec::new(), Styles::plain(), rerun, false).with_durations(2);
        for (name, seconds) in [("a", 0.001), ("b", 2.0), ("c", 0.01)] {
            let verdict = Box::new(Verdict { seconds, ..fixture::verdict(name, Status::Pass) });
            human.event(&Event::CaseDone { case: fixture::case(name), verdict }).unwrap();
        }
        human.event(&Event::Finished { seconds: 3.0 }).unwrap();
        let text = String::from_utf8(human.to).unwrap();
        assert_eq!(text, "slow    2.00 s b\nslow   10.0 ms c\n3 passed, 0 failed, 0 skipped in 3.00 s\n");
    }

    #[test]
    fn colours_change_nothing_but_the_looks() {
        let failed = || vec![Verdict { reason: Some("it differs".into()), ..fixture::verdict("a", Status::Fail) }];
        let coloured = report(false, Styles::coloured(), failed());
        assert!(coloured.contains("\u{1b}["));
        let stripped = anstream::adapter::strip_str(&coloured).to_string();
        assert_eq!(stripped, report(false, Styles::plain(), failed()));
        assert!(stripped.contains("run it again: collspec run scenarios/a.toml\n"));
    }

    #[test]
    fn durations_keep_few_digits() {
        assert_eq!(
            [0.0, 4e-8, 9.996e-7, 12e-6, 0.0004, 0.00123, 0.0123, 0.5, 30.0, 125.0].map(duration),
            ["0 ns", "40 ns", "1 us", "12 us", "400 us", "1.2 ms", "12.3 ms", "0.50 s", "30.00 s", "2 min 5 s"]
        );
    }
}
