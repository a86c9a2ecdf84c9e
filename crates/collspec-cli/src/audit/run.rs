//! The runs of an audit: every case without a fault, then each case with every fault that it reaches.
use super::detected_by::{DetectedBy, LaneSet};
use super::flaw::Flaw;
use super::repair::hides;
use super::{AuditError, AuditSettings, Depth};
use collspec_core::judge::{Outcome, Status, Verdict, judge_pass_or_fail};
use collspec_core::num::DType;
use collspec_core::oracle::Forecast;
use collspec_core::plan::Plan;
use collspec_core::scenario::{Case, Placement};
use collspec_run::job::{Call, CallKind};
use collspec_run::job::{Ended, Observation};
use collspec_suite::suite::parallel::{Lanes, panic_text, stream, stream_with_waiting};
use collspec_suite::suite::with_causes;
use collspec_suite::suite::{Experiment, Prepared, Ready, Runner, Variation, is_small};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use wrong_nccl::{Fault, FaultMode, Injection, Reached};

/// Threads for groups of cases that mostly wait, for each job.
const WAITING_THREADS: usize = 4;
/// Bytes of plans that are kept from the run without a fault for those with faults; other cases are planned again.
const MAX_KEPT_BYTES: u64 = 1 << 30;
/// A run with a fault may take this many times as long as the one without,
const MAX_SLOWDOWN: f64 = 20.0;
/// but at least this many seconds.
const MIN_LIMIT_SECONDS: f64 = 1.0;

/// Runs cases on the library with and without faults.
pub trait CaseRunner: Sync {
    /// Plans a case.
    ///
    /// # Errors
    ///
    /// Why the case cannot be prepared.
    fn prepare(&self, case: &Arc<Case>) -> Result<Prepared, String>;

    /// Runs a case with this wish to the library, for `limit` seconds at most if it is given, and judges it with `judge`.
    /// Only a run without a fault that fails may be tried again.
    ///
    /// # Errors
    ///
    /// Why the case could not be run.
    fn run(
        &self,
        ready: &Ready,
        wish: FaultMode,
        limit: Option<f64>,
        judge: &JudgeFn<'_>,
    ) -> Result<JudgedRuns, String>;
}

/// Judges the observations of a case.
pub type JudgeFn<'a> = dyn Fn(&Plan, &Forecast, &[Observation]) -> Verdict + Sync + 'a;
/// The verdict on a case, and the observations it is from.
pub type JudgedRuns = (Verdict, Vec<Observation>);

impl CaseRunner for Runner {
    fn prepare(&self, case: &Arc<Case>) -> Result<Prepared, String> {
        Runner::prepare(self, case).map_err(|error| with_causes(&error))
    }

    fn run(
        &self,
        ready: &Ready,
        wish: FaultMode,
        limit: Option<f64>,
        judge: &JudgeFn<'_>,
    ) -> Result<JudgedRuns, String> {
        let experiment =
            Experiment { variation: Variation { fault: wish.to_string(), ..self.variation() }, limit, judge };
        let sound = !matches!(wish, FaultMode::Inject(_));
        let judged = if sound { self.run_twice(ready, &experiment) } else { self.run_once(ready, &experiment) };
        judged.map_err(|error| with_causes(&error))
    }
}

/// An event during an audit.
#[derive(Clone, Debug)]
pub enum AuditEvent {
    /// The runs that follow are known: at first those without faults, and after these the ones with faults.
    Planned {
        /// Number of runs to make.
        runs: usize,
        /// True for runs with faults.
        faulty: bool,
    },
    RunDone {
        /// The case that was run.
        case: Arc<Case>,
        /// The fault, if the run had one.
        fault: Option<Fault>,
    },
    /// All runs are done.
    Finished,
}

/// A case that fails on the library without a fault.
#[derive(Clone, Debug)]
pub struct SoundFailure {
    /// The case that failed without a fault.
    pub case: Arc<Case>,
    /// Its failing verdict.
    pub verdict: Box<Verdict>,
}

impl SoundFailure {
    /// True if the case cannot run as written.
    pub fn refused(&self) -> bool {
        self.verdict.outcome == Some(Outcome::Refused)
    }
}

/// A fault that a case caught.
#[derive(Clone, Debug)]
pub struct Catch {
    /// The fault that was caught.
    pub fault: Fault,
    /// The means that detected it first.
    pub detected_by: DetectedBy,
    /// All lanes that fail.
    pub lanes: LaneSet,
    /// Flaws with which the judge passes the case.
    pub hidden_by: Vec<Flaw>,
}

/// The results of an audit for one case.
#[derive(Clone, Debug)]
pub struct CaseOutcome {
    /// The case that was audited.
    pub case: Arc<Case>,
    /// The reason the case was left out, if it was.
    pub skipped: Option<String>,
    /// Faults that would change something in the case.
    pub reached: Vec<Fault>,
    /// Number of runs with faults.
    pub runs: usize,
    /// The faults that it caught.
    pub caught: Vec<Catch>,
    /// Faults that it reaches but was not run with, because enough other cases have caught them.
    pub not_run: Vec<Fault>,
    /// Faults with which the run had no verdict, and why.
    pub undecided: Vec<(Fault, String)>,
}

/// The result of a run without a fault.
enum SoundRun {
    Skipped(String),
    Failed(Box<Verdict>),
    Passed(Box<AuditedCase>),
}

/// A case that passes without a fault.
#[derive(Default)]
struct AuditedCase {
    /// The faults that it reaches; `None` if the library could not report them.
    reached: Option<Reached>,
    /// Faults to run it with: those that it reaches; or else those that it reached until its time limit, or may reach.
    injected: Reached,
    /// Seconds of the run without a fault, unless it ended by its time limit.
    seconds: Option<f64>,
    /// Time of the run without a fault including all its overhead, such as starting processes.
    whole_time: Duration,
    /// The work of a run according to the plan: the same at any time and on any machine.
    work: u64,
    /// True if judging it takes longer than everything else.
    is_large: bool,
    /// Plan and forecast, if they are kept.
    ready: Option<Box<Ready>>,
}

/// Runs all cases, at first without a fault and then with faults.
pub(super) fn run_all(
    cases: &[Arc<Case>],
    runner: &dyn CaseRunner,
    settings: &AuditSettings,
    mut report_event: impl FnMut(&AuditEvent) -> io::Result<()>,
) -> Result<Vec<CaseOutcome>, AuditError> {
    report_event(&AuditEvent::Planned { runs: cases.len(), faulty: false })?;
    let kept = AtomicU64::new(0);
    let mut sound: Vec<Option<SoundRun>> = cases.iter().map(|_| None).collect();
    stream(
        cases,
        settings.jobs,
        |index, case, send| {
            send((index, catch_panic(|| run_without_fault(case, runner, &kept))));
        },
        |(index, result)| -> io::Result<()> {
            sound[index] =
                Some(result.unwrap_or_else(|text| SoundRun::Failed(Box::new(failed_verdict(&cases[index], text)))));
            report_event(&AuditEvent::RunDone { case: cases[index].clone(), fault: None })
        },
    )?;
    let mut outcomes: Vec<CaseOutcome> = Vec::with_capacity(cases.len());
    let mut audited_cases: Vec<(usize, AuditedCase)> = Vec::new();
    let (mut failures, mut not_run) = (Vec::new(), Vec::new());
    for (index, (case, sound)) in cases.iter().zip(sound).enumerate() {
        let (reached, troubles, caught) = (Vec::new(), Vec::new(), Vec::new());
        let mut outcome = CaseOutcome {
            case: case.clone(),
            skipped: None,
            reached,
            runs: 0,
            caught,
            not_run: Vec::new(),
            undecided: troubles,
        };
        match sound {
            Some(SoundRun::Passed(audited)) => audited_cases.push((index, *audited)),
            Some(SoundRun::Skipped(reason)) => outcome.skipped = Some(reason),
            // A case that cannot be run here, such as one whose results are too large to be kept, is left out with the reason.
            Some(SoundRun::Failed(verdict)) if verdict.status == Status::Error => {
                outcome.skipped.clone_from(&verdict.reason);
                not_run.push(SoundFailure { case: case.clone(), verdict });
            }
            Some(SoundRun::Failed(verdict)) => failures.push(SoundFailure { case: case.clone(), verdict }),
            None => {}
        }
        outcomes.push(outcome);
    }
    // If none can be run, that is what there is to tell.
    if audited_cases.is_empty() {
        failures.append(&mut not_run);
    }
    if !failures.is_empty() {
        return Err(AuditError::FailsWithoutFault(failures));
    }
    let selected: Vec<Fault> = settings.selection.faults().collect();
    let under = |audited: &AuditedCase| -> Vec<Fault> {
        selected.iter().copied().filter(|fault| contains(&audited.injected, *fault)).collect()
    };
    for (index, audited) in &audited_cases {
        if audited.reached.is_some() {
            outcomes[*index].reached = under(audited);
        }
    }
    audited_cases.retain(|(_, audited)| !under(audited).is_empty());
    let depth = settings.depth;
    if depth == Depth::Quick {
        interleave_files(&mut audited_cases, cases);
    }
    let runs = audited_cases.iter().map(|(_, audited)| under(audited).len()).sum();
    report_event(&AuditEvent::Planned { runs, faulty: true })?;
    // Only a time limit ends a hang between processes, so the cases of several are waited for most of the time.
    let waits = |group: &Group| group.cases.iter().any(|(index, _)| cases[*index].placement == Placement::Processes);
    let mut waiting = 0;
    let groups = match depth {
        Depth::Files => {
            // A run that fails is judged once more by each judge with a flaw.
            let judges = 1 + settings.selection.flaws().count();
            let longest = |(_, audited): &(usize, AuditedCase)| {
                let times = under(audited).len() * if audited.is_large { judges } else { 1 };
                audited.whole_time.saturating_mul(times.try_into().unwrap_or(u32::MAX))
            };
            let files = group_by_file(audited_cases, cases);
            let files = files.into_iter().map(|file| (file.iter().map(longest).sum(), file)).collect();
            let mut groups = split_longest(files, settings.jobs);
            groups.sort_by_key(|group| !waits(group));
            waiting = groups.partition_point(waits);
            groups
        }
        Depth::Cases | Depth::Quick => audited_cases.into_iter().map(|audited| Group::of(vec![audited])).collect(),
    };
    let overall: BTreeMap<Fault, AtomicUsize> = selected.iter().map(|fault| (*fault, AtomicUsize::new(0))).collect();
    stream_with_waiting(
        &groups,
        Lanes { jobs: settings.jobs, waiting, waiting_threads: settings.jobs.saturating_mul(WAITING_THREADS) },
        |_, group, send| {
            let own: BTreeMap<Fault, AtomicUsize> =
                selected.iter().map(|fault| (*fault, AtomicUsize::new(0))).collect();
            let counts = if depth == Depth::Files { &own } else { &overall };
            for (index, audited) in group.cases.iter() {
                let mut repeated = Repeated::default();
                for fault in under(audited).into_iter().filter(|fault| group.has(*fault)) {
                    let run = || run_with_fault(&cases[*index], audited, &mut repeated, fault, runner, settings);
                    let enough = counts[&fault].load(Ordering::Relaxed) >= depth.max_catches();
                    let result = if enough { Ok(FaultyRun::NotRun) } else { catch_panic(run) };
                    if matches!(result, Ok(FaultyRun::Caught(_))) {
                        counts[&fault].fetch_add(1, Ordering::Relaxed);
                    }
                    send((*index, fault, result));
                }
            }
        },
        |(index, fault, result)| -> io::Result<()> {
            let outcome = &mut outcomes[index];
            outcome.runs += usize::from(!matches!(result, Ok(FaultyRun::NotRun)));
            let mut meets = || {
                if !outcome.reached.contains(&fault) {
                    outcome.reached.push(fault);
                }
            };
            match result {
                Ok(FaultyRun::NotRun) => outcome.not_run.push(fault),
                Ok(FaultyRun::Passed { reached: false }) => {}
                Ok(FaultyRun::Passed { reached: true }) => meets(),
                Ok(FaultyRun::Caught(caught)) => {
                    meets();
                    outcome.caught.push(caught);
                }
                Err(text) => outcome.undecided.push((fault, text)),
            }
            report_event(&AuditEvent::RunDone { case: cases[index].clone(), fault: Some(fault) })
        },
    )?;
    // Parts of a group deliver their results in any order.
    for outcome in &mut outcomes {
        outcome.reached.sort_by_key(|fault| fault.number());
        outcome.caught.sort_by_key(|caught| caught.fault.number());
        outcome.not_run.sort_by_key(|fault| fault.number());
        outcome.undecided.sort_by_key(|(fault, _)| fault.number());
    }
    report_event(&AuditEvent::Finished)?;
    Ok(outcomes)
}

/// Cases that are counted together, with the faults that one thread runs them with. All runs with a fault are on one thread, so that
/// the count does not depend on timing.
struct Group {
    cases: Arc<[(usize, AuditedCase)]>,
    part: usize,
    parts: usize,
}

impl Group {
    /// A group with all faults.
    fn of(cases: Vec<(usize, AuditedCase)>) -> Self {
        Self { cases: cases.into(), part: 0, parts: 1 }
    }

    fn has(&self, fault: Fault) -> bool {
        fault.number() % self.parts == self.part
    }
}

/// Number of parts of all groups for each job, if all were equally long.
const PARTS_PER_JOB: u32 = 16;

/// Groups from these files, whose longest possible times are known: the longest first, and these in parts with some of the
/// faults each, so that no thread is left alone with a long one at the end.
fn split_longest(mut files: Vec<(Duration, Vec<(usize, AuditedCase)>)>, jobs: usize) -> Vec<Group> {
    files.sort_by_key(|(longest, _)| Reverse(*longest));
    let all: Duration = files.iter().map(|(longest, _)| *longest).sum();
    let jobs = jobs.max(1);
    let of_a_part = all / PARTS_PER_JOB / u32::try_from(jobs).unwrap_or(u32::MAX);
    let in_parts = |(longest, cases): (Duration, Vec<(usize, AuditedCase)>)| {
        let parts = (1..jobs).find(|parts| longest <= of_a_part * *parts as u32).unwrap_or(jobs);
        let cases: Arc<[_]> = cases.into();
        (0..parts).map(move |part| Group { cases: cases.clone(), part, parts })
    };
    files.into_iter().flat_map(in_parts).collect()
}

/// Groups the cases by file. The cheapest of a file come first: faults that they catch need not be run in the others.
fn group_by_file(audited_cases: Vec<(usize, AuditedCase)>, cases: &[Arc<Case>]) -> Vec<Vec<(usize, AuditedCase)>> {
    let mut groups: BTreeMap<&str, Vec<(usize, AuditedCase)>> = BTreeMap::new();
    for (index, audited) in audited_cases {
        groups.entry(&cases[index].file.path).or_default().push((index, audited));
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.iter_mut().for_each(|group| group.sort_by_key(|(index, audited)| (audited.work, *index)));
    groups
}

/// Orders the cases so that the first cases of all files come first, then the second ones, and so on: the first cases are
/// then of many kinds. Large ones come last, when they need to be run only with faults that few others catch.
fn interleave_files(audited_cases: &mut [(usize, AuditedCase)], cases: &[Arc<Case>]) {
    let mut turn_by_file: BTreeMap<&str, usize> = BTreeMap::new();
    let mut turns = vec![0; cases.len()];
    for (index, _) in audited_cases.iter() {
        let turn = turn_by_file.entry(&cases[*index].file.path).or_default();
        turns[*index] = *turn;
        *turn += 1;
    }
    audited_cases.sort_by_key(|(index, audited)| (audited.is_large, turns[*index], *index));
}

/// Turns a panic of planning or judging, which is a defect of this program, into an error.
fn catch_panic<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(format!("collspec itself failed, please report it: {}", panic_text(&*panic))))
}

fn failed_verdict(case: &Case, text: String) -> Verdict {
    Verdict { status: Status::Error, ..collspec_core::judge::skipped(case, text) }
}

fn contains(set: &Reached, fault: Fault) -> bool {
    let number = fault.number();
    set.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
}

/// The faults that any run of a case reached; `None` if the library could not report them for one run.
fn reached_in_any_run(observations: &[Observation]) -> Option<Reached> {
    joined(observations.iter().map(|run| run.reached.as_deref()))
}

/// The faults that any run of a case reached until its end or its time limit; `None` if the library could not report them for one
/// run.
fn reached_until_limits(observations: &[Observation]) -> Option<Reached> {
    joined(observations.iter().map(|run| run.reached.as_deref().or(run.reached_until_limit.as_deref())))
}

fn joined<'a>(mut runs: impl Iterator<Item = Option<&'a [u64]>>) -> Option<Reached> {
    let join = |mut all: Reached, one: &[u64]| {
        all.iter_mut().zip(one).for_each(|(word, more)| *word |= more);
        all
    };
    runs.try_fold(Reached::default(), |all, run| Some(join(all, run?)))
}

/// The verdict of a judge without a flaw.
fn judge(plan: &Plan, forecast: &Forecast, observations: &[Observation]) -> Verdict {
    judge_pass_or_fail(plan, forecast, observations)
}

fn run_without_fault(case: &Arc<Case>, runner: &dyn CaseRunner, kept: &AtomicU64) -> Result<SoundRun, String> {
    let ready = match runner.prepare(case)? {
        Prepared::Ready(ready) => ready,
        Prepared::Settled(verdict) => {
            return Ok(match verdict.status {
                // A refusal that the file expects is a pass without any call of the library.
                Status::Pass => {
                    let audited = AuditedCase { reached: Some(Reached::default()), ..AuditedCase::default() };
                    SoundRun::Passed(Box::new(audited))
                }
                Status::Skip => SoundRun::Skipped(verdict.reason.unwrap_or_default()),
                Status::Fail | Status::Error => SoundRun::Failed(verdict),
            });
        }
    };
    let begun = Instant::now();
    let (verdict, observations) = runner.run(&ready, FaultMode::Trace, None, &judge)?;
    let whole_time = begun.elapsed();
    if verdict.status.is_bad() {
        return Ok(SoundRun::Failed(Box::new(verdict)));
    }
    let reached = reached_in_any_run(&observations);
    let timed_out = observations.iter().any(|run| matches!(run.ended, Ended::Hung { proved: false, .. }));
    let seconds = (!timed_out).then_some(verdict.seconds);
    let size = 3 * ready.forecast.initial.iter().map(|image| image.len() as u64).sum::<u64>();
    let needed = reached.is_none_or(|set| set != Reached::default());
    let fits = needed && kept.fetch_add(size, Ordering::Relaxed) + size <= MAX_KEPT_BYTES;
    let under = reached_until_limits(&observations).unwrap_or_else(|| may_reach(&ready.plan));
    let (work, is_large) = (ready.plan.cost.work, !is_small(&ready.plan));
    let ready = fits.then_some(ready);
    Ok(SoundRun::Passed(Box::new(AuditedCase { reached, injected: under, seconds, whole_time, work, is_large, ready })))
}

/// The faults that a program may reach by its element types. This is for cases whose processes are killed, which cannot
/// report the faults, and whose runs take long.
fn may_reach(plan: &Plan) -> Reached {
    let dtype = |call: &Call| match call.kind.inner() {
        CallKind::Collective { dtype, .. } | CallKind::Send { dtype, .. } | CallKind::Recv { dtype, .. } => {
            Some(*dtype)
        }
        _ => None,
    };
    let dtypes: BTreeSet<&str> = plan.programs.iter().flatten().filter_map(dtype).map(DType::name).collect();
    let mut set = Reached::default();
    for fault in Fault::all().filter(|fault| fault.only_type().is_none_or(|name| dtypes.contains(name))) {
        if let Some(word) = set.get_mut(fault.number() / 64) {
            *word |= 1 << (fault.number() % 64);
        }
    }
    set
}

/// The result of a run with a fault.
enum FaultyRun {
    /// Enough other cases have caught the fault.
    NotRun,
    Passed {
        reached: bool,
    },
    Caught(Catch),
}

/// What the runs of one case with its faults share, if it is needed.
#[derive(Default)]
struct Repeated {
    /// The case, planned again.
    ready: Option<Box<Ready>>,
    /// The observations of another run without a fault.
    sound: Option<Vec<Observation>>,
}

fn run_with_fault(
    case: &Arc<Case>,
    audited: &AuditedCase,
    repeated: &mut Repeated,
    fault: Fault,
    runner: &dyn CaseRunner,
    settings: &AuditSettings,
) -> Result<FaultyRun, String> {
    let Repeated { ready: again, sound } = repeated;
    let ready = match (&audited.ready, &again) {
        (Some(ready), _) | (None, Some(ready)) => ready,
        (None, None) => match runner.prepare(case)? {
            Prepared::Ready(ready) => again.insert(ready),
            Prepared::Settled(verdict) => return Err(verdict.reason.unwrap_or_else(|| "it does not run".into())),
        },
    };
    let limit = audited.seconds.map(|seconds| (MAX_SLOWDOWN * seconds).max(MIN_LIMIT_SECONDS));
    let wish = FaultMode::Inject(Injection { fault, rank: None });
    let (verdict, observations) = runner.run(ready, wish, limit, &judge)?;
    if verdict.status == Status::Error {
        return Err(verdict.reason.unwrap_or_else(|| "it does not run".into()));
    }
    if verdict.status != Status::Fail {
        return Ok(FaultyRun::Passed {
            reached: reached_in_any_run(&observations).is_some_and(|set| contains(&set, fault)),
        });
    }
    let (plan, forecast) = (&ready.plan, &ready.forecast);
    let flaws: Vec<Flaw> = settings.selection.flaws().filter(|flaw| flaw.may_hide(plan, &verdict)).collect();
    if !flaws.is_empty() && sound.is_none() {
        let (right, seen) = runner.run(ready, FaultMode::Sound, None, &judge)?;
        *sound = (right.status == Status::Pass).then_some(seen);
    }
    let hides = |flaw: &Flaw| sound.as_ref().is_some_and(|sound| hides(*flaw, plan, forecast, sound, &observations));
    let hidden = flaws.into_iter().filter(hides).collect();
    Ok(FaultyRun::Caught(Catch {
        fault,
        detected_by: DetectedBy::from_verdict(&verdict),
        lanes: LaneSet::failed_in(&verdict),
        hidden_by: hidden,
    }))
}
