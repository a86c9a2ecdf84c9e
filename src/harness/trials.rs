//! A suite as libtest trials.
use super::Site;
use super::settings;
use super::snapshot::Snapshots;
use collspec_core::judge::{Outcome, Status};
use collspec_core::printable::{one_line, printable, printable_lines};
use collspec_core::scenario::Case;
use collspec_suite::report::{FormOutcomes, InheritedVariables, RerunCommand, failure};
use collspec_suite::suite::Runner;
use collspec_suite::suite::{CaseSet, InvalidFile, invalid_files, parallel};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The outcomes of the forms of the cases that have run.
pub type SharedOutcomes = Arc<Mutex<FormOutcomes>>;

/// One trial per case, and one that fails per file with diagnostics. Without a runner they can only be listed.
///
/// Cases that are known to be skipped are marked as ignored if the tests are listed or selected by that mark: nextest lists
/// tests first and takes a test that skips itself for passed. A plain run has no marks, because libtest shows no reason with
/// them.
pub fn trials(
    site: &Site,
    suite: CaseSet,
    args: &Arguments,
    runner: Option<Arc<Runner>>,
    all_must_run: bool,
) -> (Vec<Trial>, SharedOutcomes) {
    let ends = SharedOutcomes::default();
    let context = Arc::new(TrialContext {
        rerun: RerunCommand::cargo_test(
            site.package,
            site.target(),
            InheritedVariables::with_others(&settings::to_repeat()),
        ),
        snapshots: Snapshots::new(site.snapshots(), Path::new(site.directory)),
        runner,
        ends: ends.clone(),
        all_must_run,
    });
    let by_mark = args.list || args.ignored || args.include_ignored;
    let faulty = suite.invalid_files.into_iter().map(|faulty| invalid_file_trial(faulty, args));
    let cases = suite.cases.into_iter().map(|case| {
        let context = context.clone();
        let ignored =
            by_mark && !all_must_run && context.runner.as_ref().is_some_and(|runner| runner.skips(&case).is_some());
        Trial::ignorable_test(case.name.clone(), move || context.run(&case)).with_ignored_flag(ignored)
    });
    (faulty.chain(cases).collect(), ends)
}

struct TrialContext {
    rerun: RerunCommand,
    snapshots: Snapshots,
    runner: Option<Arc<Runner>>,
    ends: SharedOutcomes,
    all_must_run: bool,
}

impl TrialContext {
    fn run(&self, case: &Arc<Case>) -> Result<Completion, Failed> {
        let runner = self.runner.as_ref().ok_or("there is no runner")?;
        let verdict = parallel::run_catching_panics(&**runner, case);
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).add(case, &verdict);
        match verdict.status {
            // nextest runs each test by itself, so that here alone all of its skips are seen.
            Status::Skip if self.all_must_run => {
                let reason = verdict.reason.unwrap_or_default();
                Err(format!("skipped, and COLLSPEC_NO_SKIPS or COLLSPEC_AT_LEAST forbid it: {}", one_line(&reason))
                    .into())
            }
            Status::Skip => {
                Ok(Completion::Ignored { reason: verdict.reason.map(|reason| one_line(&reason).into_owned()) })
            }
            Status::Fail | Status::Error => {
                let again = self.rerun.command(case);
                let refused = verdict.outcome == Some(Outcome::Refused);
                Err(match refused.then(|| invalid_files::refusal(case, runner.limits())).flatten() {
                    Some(diagnostics) => format!("{}\n  run it again: {again}", diagnostics.trim_end()).into(),
                    None => failure::failure_message(case, &verdict, &again).into(),
                })
            }
            Status::Pass => {
                // Only right results are compared, or written by INSTA_UPDATE.
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

/// The trial that fails with a file's diagnostics, under the file's name or that of the selected case.
fn invalid_file_trial(faulty: InvalidFile, args: &Arguments) -> Trial {
    let name = match &args.filter {
        Some(name) if args.exact => name.clone(),
        _ => faulty.name.clone(),
    };
    Trial::test(printable(&name), move || Err(faulty.render(false).trim_end().to_owned().into()))
}
