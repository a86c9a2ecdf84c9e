//! A suite as libtest trials.
use super::Site;
use super::settings;
use super::snapshot::Snapshots;
use crate::judge::{Outcome, Status};
use crate::printable::{one_line, printable, printable_lines};
use crate::report::{Forms, Inherited, Rerun, failure};
use crate::scenario::Case;
use crate::suite::Runner;
use crate::suite::{InvalidFile, Suite, diagnostics, drive};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::sync::{Arc, Mutex, PoisonError};

/// What came of the forms of the cases that have run.
pub type Ends = Arc<Mutex<Forms>>;

/// One trial per case, and one that fails per file with faults. Without a runner they can only be listed.
///
/// What is known to be skipped before it runs is marked as ignored for those who ask by mark: nextest lists tests first, and
/// a test that says so only when it runs has passed in its eyes. A plain run has no marks, because libtest shows no reason
/// with them.
pub fn trials(site: &Site, suite: Suite, args: &Arguments, runner: Option<Arc<Runner>>) -> (Vec<Trial>, Ends) {
    let ends = Ends::default();
    let context = Arc::new(Context {
        rerun: Rerun::cargo_test(site.package, site.target(), Inherited::with(&settings::to_repeat())),
        snapshots: Snapshots::new(site.snapshots()),
        runner,
        ends: ends.clone(),
    });
    let by_mark = args.list || args.ignored || args.include_ignored;
    let faulty = suite.invalid_files.into_iter().map(|faulty| broken(faulty, args));
    let cases = suite.cases.into_iter().map(|case| {
        let context = context.clone();
        let ignored = by_mark && context.runner.as_ref().is_some_and(|runner| runner.skips(&case).is_some());
        Trial::ignorable_test(case.name.clone(), move || context.run(&case)).with_ignored_flag(ignored)
    });
    (faulty.chain(cases).collect(), ends)
}

struct Context {
    rerun: Rerun,
    snapshots: Snapshots,
    runner: Option<Arc<Runner>>,
    ends: Ends,
}

impl Context {
    fn run(&self, case: &Arc<Case>) -> Result<Completion, Failed> {
        let runner = self.runner.as_ref().ok_or("there is no runner")?;
        let verdict = drive::contained(&**runner, case);
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).add(case, &verdict);
        match verdict.status {
            Status::Skip => {
                Ok(Completion::Ignored { reason: verdict.reason.map(|reason| one_line(&reason).into_owned()) })
            }
            Status::Fail => {
                let again = self.rerun.command(case);
                let refused = verdict.outcome == Some(Outcome::Refused);
                Err(match refused.then(|| diagnostics::refusal(case, runner.limits())).flatten() {
                    Some(diagnostics) => format!("{}\n  run it again: {again}", diagnostics.trim_end()).into(),
                    None => failure::message(case, &verdict, &again).into(),
                })
            }
            Status::Pass => {
                // Only what is right is ever compared, or written by INSTA_UPDATE.
                if let Some(text) = &verdict.snapshot {
                    let rerun = || self.rerun.command(case);
                    let compared = self.snapshots.compare(case, text);
                    compared.map_err(|words| format!("{}\n  run it again: {}", printable_lines(&words), rerun()))?;
                }
                Ok(Completion::Completed)
            }
        }
    }
}

/// A file's faults fail under the file's name, or under that of the case asked for, which nobody can make of it.
fn broken(faulty: InvalidFile, args: &Arguments) -> Trial {
    let name = match &args.filter {
        Some(name) if args.exact => name.clone(),
        _ => faulty.name.clone(),
    };
    Trial::test(printable(&name), move || Err(faulty.render(false).trim_end().to_owned().into()))
}
