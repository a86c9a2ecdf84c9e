//! The runs of all cases on one side.
use super::comparison::{FailedRun, SideSummary};
use super::execute::Observer;
use super::side::Side;
use crate::record::RecordedCase;
use collspec_core::judge::Verdict;
use collspec_core::scenario::Case;
use collspec_suite::report::{Event, Reporter};
use collspec_suite::suite::{CaseSet, ChosenBackend, Error, RunOptions, Runner};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Number of cases whose failure is kept in full.
const MAX_FAILURES: usize = 1_000;

/// The runs of all cases on one side.
pub(super) struct Runs<'a> {
    pub(super) side: &'a Side,
    /// The runs by case name, each case's in the order in which they were made.
    pub(super) by_case: BTreeMap<String, Vec<RecordedCase>>,
    corpus_runs: usize,
    name: String,
    pub(super) failures: BTreeMap<String, FailedRun>,
}

/// Collects the cases of a run.
struct Collector<'a> {
    failures: &'a mut BTreeMap<String, FailedRun>,
    to: &'a mut BTreeMap<String, Vec<RecordedCase>>,
    observer: &'a mut dyn Observer,
}

/// Keeps the first failure of each case in full, up to a number of cases.
fn keep_failure(failures: &mut BTreeMap<String, FailedRun>, case: &Arc<Case>, verdict: &Verdict) {
    if verdict.status.is_bad() && failures.len() < MAX_FAILURES {
        failures.entry(verdict.case.clone()).or_insert_with(|| (case.clone(), Box::new(verdict.clone())));
    }
}

impl Reporter for Collector<'_> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        if let Event::CaseDone { case, verdict } = event {
            self.to.entry(verdict.case.clone()).or_default().push(RecordedCase::new(case, verdict));
            keep_failure(self.failures, case, verdict);
        }
        self.observer.event(event);
        if self.observer.is_interrupted() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        Ok(())
    }
}

impl<'a> Runs<'a> {
    pub(super) fn new((name, side): (&str, &'a Side)) -> Self {
        let mut by_case: BTreeMap<String, Vec<RecordedCase>> = BTreeMap::new();
        let mut corpus_runs = 0;
        if let Side::Recorded(recording) = side {
            corpus_runs = 1;
            for case in &recording.cases {
                by_case.entry(case.case.clone()).or_default().push(case.clone());
            }
        }
        Self { side, by_case, corpus_runs, name: name.to_owned(), failures: BTreeMap::new() }
    }

    /// The library, unless the side is a recording.
    fn library(&self) -> Option<(&'a ChosenBackend, &'a RunOptions)> {
        match self.side {
            Side::Live { chosen, options, .. } => Some((chosen, options)),
            Side::Recorded(_) => None,
        }
    }

    pub(super) fn run_corpus(
        &mut self,
        cases: &CaseSet,
        words: &str,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let Some((chosen, options)) = self.library() else { return Ok(()) };
        if observer.is_interrupted() {
            return Ok(());
        }
        observer.run(words);
        let mut collector = Collector { failures: &mut self.failures, to: &mut self.by_case, observer };
        match cases.run(options.clone(), chosen.clone(), &mut collector) {
            Ok(_) => self.corpus_runs += 1,
            // The cases that have run so far count, but not as a run.
            Err(Error::Report(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Runs a case in new processes; `None` for a recording.
    pub(super) fn run_apart(&mut self, case: &Arc<Case>) -> Result<Option<RecordedCase>, Error> {
        let Some((chosen, options)) = self.library() else { return Ok(None) };
        let runner = Runner::new(options.clone(), chosen.clone())?;
        let verdict = runner.run_case(case);
        let record = RecordedCase::new(case, &verdict);
        keep_failure(&mut self.failures, case, &verdict);
        Ok(Some(record))
    }

    /// Runs a case in new processes and adds the run to the case's runs; does nothing for a recording.
    pub(super) fn run_anew(&mut self, case: &Arc<Case>) -> Result<(), Error> {
        let Some(record) = self.run_apart(case)? else { return Ok(()) };
        self.by_case.entry(case.name.clone()).or_default().push(record);
        Ok(())
    }

    /// The reason the side does not have a run of a case that the other side has.
    pub(super) fn lacks(&self, side: &str) -> String {
        if self.side.is_live() {
            format!("not run on the {side}: the comparison was interrupted")
        } else {
            format!("the {side}'s recording does not have this case")
        }
    }

    pub(super) fn of(&self, case: &str) -> Vec<&RecordedCase> {
        self.by_case.get(case).map(|runs| runs.iter().collect()).unwrap_or_default()
    }

    pub(super) fn summary(&self) -> SideSummary {
        let cut_short = matches!(self.side, Side::Recorded(recording) if recording.closing.is_none());
        SideSummary {
            name: self.name.clone(),
            header: self.side.header(),
            recorded: !self.side.is_live(),
            corpus_runs: self.corpus_runs,
            cut_short,
        }
    }
}
