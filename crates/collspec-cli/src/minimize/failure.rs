//! The way a case fails.
use collspec_core::judge::{Lane, Outcome, Status, Subject, Verdict, operation_of};
use std::fmt;

/// The way a case fails, which stays the same while it gets smaller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    outcome: Option<Outcome>,
    /// Lane, subject and operation of the first finding.
    finding: Option<(Lane, Subject, Option<String>)>,
}

impl Failure {
    /// The failure in a verdict; `None` if it does not fail, or if the case cannot run.
    pub(super) fn of(verdict: &Verdict) -> Option<Self> {
        if verdict.status != Status::Fail || matches!(verdict.outcome, None | Some(Outcome::Refused)) {
            return None;
        }
        let finding = verdict.findings.first().map(|first| {
            // The step's number changes as others are left out, its round as a loop is dissolved, and a captured step may run
            // without its graph.
            let operation = first.step.as_deref().and_then(operation_of).map(str::to_owned);
            (first.lane, first.subject, operation)
        });
        Some(Self { outcome: verdict.outcome, finding })
    }

    /// The ending alone, if it is not that of a program which has finished.
    pub(super) fn of_ending(verdict: &Verdict) -> Option<Self> {
        let outcome = verdict.outcome.filter(|outcome| !matches!(outcome, Outcome::Ok | Outcome::Refused))?;
        Some(Self { outcome: Some(outcome), finding: None })
    }

    /// The failure of a case that has not been run.
    pub(super) fn unknown() -> Self {
        Self { outcome: None, finding: None }
    }

    /// True if the results are right and only the file's expectations are not met.
    pub(super) fn is_of_expectations(&self) -> bool {
        self.finding.as_ref().is_some_and(|(_, subject, _)| matches!(subject, Subject::Expect | Subject::Assert))
    }

    /// True if the failure is a hang.
    pub(super) fn is_hang(&self) -> bool {
        self.outcome == Some(Outcome::Hang)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = match self.outcome {
            Some(Outcome::Hang) => "it hangs",
            Some(Outcome::Crash) => "it crashes",
            Some(Outcome::Error) => "it ends with an error",
            _ => "a result is wrong",
        };
        f.write_str(outcome)?;
        if let Some((lane, _, operation)) = &self.finding {
            write!(f, " ({}", lane.name())?;
            if let Some(operation) = operation {
                write!(f, ", {operation}")?;
            }
            f.write_str(")")?;
        }
        Ok(())
    }
}
