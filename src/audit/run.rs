//! The runs of an audit: every case soundly, then each case under every fault that it meets.
use super::sight::{Lanes, Sight};
use super::{Depth, Error, Settings, Way};
use crate::job::{Call, What};
use crate::job::{Ended, Observation};
use crate::judge::{Flaw, Outcome, Status, Verdict};
use crate::num::DType;
use crate::oracle::Forecast;
use crate::plan::Plan;
use crate::scenario::Case;
use crate::suite::drive::{stream, words_of};
use crate::suite::with_causes;
use crate::suite::{Look, Prepared, Ready, Runner};
use soft_nccl::fault::{Fault, Injection, Reached, Wish};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Bytes of plans that are kept between the sound run and those with faults; what is beyond is planned again.
const KEPT: u64 = 1 << 30;
/// A run under a fault may take so many times as long as without,
const PATIENCE: f64 = 20.0;
/// but at least so many seconds.
const LEAST: f64 = 1.0;

/// Whoever runs cases with faults.
pub trait Bench: Sync {
    /// Plans a case, or says why it does not run.
    fn prepare(&self, case: &Arc<Case>) -> Result<Prepared, String>;

    /// Runs it with this asked of the library, for so many seconds at most if a number is given, and judges it with
    /// `judge`. Only a sound run that fails may be tried again.
    fn run(&self, ready: &Ready, wish: Wish, limit: Option<f64>, judge: &Judging<'_>) -> Result<Seen, String>;
}

/// Who judges a run.
pub type Judging<'a> = dyn Fn(&Plan, &Forecast, &[Observation]) -> Verdict + Sync + 'a;
/// What is said of a run, and what was seen of it.
pub type Seen = (Verdict, Vec<Observation>);

impl Bench for Runner {
    fn prepare(&self, case: &Arc<Case>) -> Result<Prepared, String> {
        Runner::prepare(self, case).map_err(|error| with_causes(&error))
    }

    fn run(&self, ready: &Ready, wish: Wish, limit: Option<f64>, judge: &Judging<'_>) -> Result<Seen, String> {
        let look = Look { wish, limit, judge };
        let sound = !matches!(wish, Wish::Inject(_));
        let seen = if sound { self.run_twice(ready, &look) } else { self.run_once(ready, &look) };
        seen.map_err(|error| with_causes(&error))
    }
}

/// How far an audit is.
#[derive(Clone, Debug)]
pub enum Step {
    /// So many runs follow: first the sound ones, then, when those are done, the ones with faults.
    Runs {
        /// How many.
        runs: usize,
        /// True if they have faults.
        faulty: bool,
    },
    /// One of them is done.
    Done {
        /// The case.
        case: Arc<Case>,
        /// The fault, if it had one.
        fault: Option<Fault>,
    },
    /// All are done.
    Finished,
}

/// A case that fails without a fault.
#[derive(Clone, Debug)]
pub struct SoundFailure {
    /// The case.
    pub case: Arc<Case>,
    /// What is wrong.
    pub verdict: Box<Verdict>,
}

impl SoundFailure {
    /// True if the case cannot be run as it is written.
    pub fn refused(&self) -> bool {
        self.verdict.outcome == Some(Outcome::Refused)
    }
}

/// A case under a fault that it caught.
#[derive(Clone, Debug)]
pub struct Catch {
    /// Which fault.
    pub fault: Fault,
    /// By what first.
    pub sight: Sight,
    /// All lanes that fail.
    pub lanes: Lanes,
    /// Flaws with which the judge would have let it pass.
    pub hidden: Vec<Flaw>,
}

/// What an audit knows of a case.
#[derive(Clone, Debug)]
pub struct CaseOutcome {
    /// The case.
    pub case: Arc<Case>,
    /// Why it took no part, if so.
    pub skipped: Option<String>,
    /// The faults that it meets.
    pub reached: Vec<Fault>,
    /// Runs under faults.
    pub runs: usize,
    /// What it caught.
    pub caught: Vec<Catch>,
    /// Faults that it meets and was not run under, because enough others have caught them.
    pub left: Vec<Fault>,
    /// Runs of which nothing can be said, and why.
    pub troubles: Vec<(Fault, String)>,
}

/// What a sound run left.
enum Sound {
    Skipped(String),
    Failed(Box<Verdict>),
    Passed(Box<Course>),
}

/// A case on its way.
#[derive(Default)]
struct Course {
    /// The faults that it meets; `None` for a case that could not say.
    reached: Option<Reached>,
    /// Faults to run it under: those that it meets, or else those that it may meet.
    under: Reached,
    /// Seconds of the sound run, if it came to an end of its own.
    seconds: Option<f64>,
    /// Plan and forecast, while there is room for them.
    ready: Option<Box<Ready>>,
}

/// Runs everything.
pub(super) fn run(
    cases: &[Arc<Case>],
    way: &dyn Way,
    bench: &dyn Bench,
    settings: &Settings,
    mut tell: impl FnMut(&Step) -> io::Result<()>,
) -> Result<Vec<CaseOutcome>, Error> {
    tell(&Step::Runs { runs: cases.len(), faulty: false })?;
    let kept = AtomicU64::new(0);
    let mut sound: Vec<Option<Sound>> = cases.iter().map(|_| None).collect();
    stream(
        cases,
        settings.jobs,
        |index, case, send| send((index, contained(|| soundly(case, way, bench, &kept)))),
        |(index, result)| -> io::Result<()> {
            sound[index] = Some(result.unwrap_or_else(|text| Sound::Failed(Box::new(failed(&cases[index], text)))));
            tell(&Step::Done { case: cases[index].clone(), fault: None })
        },
    )?;
    let mut outcomes: Vec<CaseOutcome> = Vec::with_capacity(cases.len());
    let mut courses: Vec<(usize, Course)> = Vec::new();
    let mut failures = Vec::new();
    for (index, (case, sound)) in cases.iter().zip(sound).enumerate() {
        let (reached, troubles, caught) = (Vec::new(), Vec::new(), Vec::new());
        let mut outcome =
            CaseOutcome { case: case.clone(), skipped: None, reached, runs: 0, caught, left: Vec::new(), troubles };
        match sound {
            Some(Sound::Passed(course)) => courses.push((index, *course)),
            Some(Sound::Skipped(reason)) => outcome.skipped = Some(reason),
            Some(Sound::Failed(verdict)) => failures.push(SoundFailure { case: case.clone(), verdict }),
            None => {}
        }
        outcomes.push(outcome);
    }
    if !failures.is_empty() {
        return Err(Error::Unsound(failures));
    }
    let selected: Vec<Fault> = settings.selection.faults().collect();
    let under = |course: &Course| -> Vec<Fault> {
        selected.iter().copied().filter(|fault| has(&course.under, *fault)).collect()
    };
    for (index, course) in &courses {
        if course.reached.is_some() {
            outcomes[*index].reached = under(course);
        }
    }
    courses.retain(|(_, course)| !under(course).is_empty());
    let depth = settings.depth;
    if depth == Depth::Quick {
        spread(&mut courses, cases);
    }
    let runs = courses.iter().map(|(_, course)| under(course).len()).sum();
    tell(&Step::Runs { runs, faulty: true })?;
    // what is counted together stays in one thread, so that the count does not depend on who is faster
    let groups = match depth {
        Depth::Files => by_file(courses, cases),
        Depth::Cases | Depth::Quick => courses.into_iter().map(|course| vec![course]).collect(),
    };
    let overall: BTreeMap<Fault, AtomicUsize> = selected.iter().map(|fault| (*fault, AtomicUsize::new(0))).collect();
    stream(
        &groups,
        settings.jobs,
        |_, group, send| {
            let own: BTreeMap<Fault, AtomicUsize> =
                selected.iter().map(|fault| (*fault, AtomicUsize::new(0))).collect();
            let counts = if depth == Depth::Files { &own } else { &overall };
            for (index, course) in group {
                let mut again = None;
                for fault in under(course) {
                    let run = || faulty(&cases[*index], course, &mut again, fault, way, bench, settings);
                    let enough = counts[&fault].load(Ordering::Relaxed) >= depth.enough();
                    let result = if enough { Ok(Faulty::Left) } else { contained(run) };
                    if matches!(result, Ok(Faulty::Caught(_))) {
                        counts[&fault].fetch_add(1, Ordering::Relaxed);
                    }
                    send((*index, fault, result));
                }
            }
        },
        |(index, fault, result)| -> io::Result<()> {
            let outcome = &mut outcomes[index];
            outcome.runs += usize::from(!matches!(result, Ok(Faulty::Left)));
            let mut meets = || {
                if !outcome.reached.contains(&fault) {
                    outcome.reached.push(fault);
                }
            };
            match result {
                Ok(Faulty::Left) => outcome.left.push(fault),
                Ok(Faulty::Passed { struck: false }) => {}
                Ok(Faulty::Passed { struck: true }) => meets(),
                Ok(Faulty::Caught(caught)) => {
                    meets();
                    outcome.caught.push(caught);
                }
                Err(text) => outcome.troubles.push((fault, text)),
            }
            tell(&Step::Done { case: cases[index].clone(), fault: Some(fault) })
        },
    )?;
    tell(&Step::Finished)?;
    Ok(outcomes)
}

/// The cases of each file together, in their order.
fn by_file(courses: Vec<(usize, Course)>, cases: &[Arc<Case>]) -> Vec<Vec<(usize, Course)>> {
    let mut groups: BTreeMap<&str, Vec<(usize, Course)>> = BTreeMap::new();
    for (index, course) in courses {
        groups.entry(&cases[index].file.path).or_default().push((index, course));
    }
    groups.into_values().collect()
}

/// Puts the first case of every file first, then every second one, and so on: few cases are then of many kinds.
fn spread(courses: &mut [(usize, Course)], cases: &[Arc<Case>]) {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut turns = vec![0; cases.len()];
    for (index, _) in courses.iter() {
        let turn = seen.entry(&cases[*index].file.path).or_default();
        turns[*index] = *turn;
        *turn += 1;
    }
    courses.sort_by_key(|(index, _)| (turns[*index], *index));
}

/// A panic of planning or judging is a defect of ours, and no verdict.
fn contained<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(format!("collspec itself failed, please report it: {}", words_of(&*panic))))
}

fn failed(case: &Case, text: String) -> Verdict {
    Verdict { status: Status::Fail, ..crate::judge::skipped(case, text) }
}

fn has(set: &Reached, fault: Fault) -> bool {
    let number = fault.number();
    set.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
}

/// What struck, or would have, in any of the runs of a case; `None` if one could not say.
fn reached(seen: &[Observation]) -> Option<Reached> {
    let join = |mut all: Reached, one: Reached| {
        all.iter_mut().zip(one).for_each(|(word, more)| *word |= more);
        all
    };
    seen.iter().try_fold(Reached::default(), |all, run| Some(join(all, run.reached?)))
}

fn soundly(case: &Arc<Case>, way: &dyn Way, bench: &dyn Bench, kept: &AtomicU64) -> Result<Sound, String> {
    let case = match way.case(case) {
        Ok(case) => case,
        Err(reason) => return Ok(Sound::Skipped(reason)),
    };
    let ready = match bench.prepare(&case)? {
        Prepared::Ready(mut ready) => match way.dress(&mut ready) {
            Ok(()) => ready,
            Err(reason) => return Ok(Sound::Skipped(reason)),
        },
        Prepared::Settled(verdict) => {
            return Ok(match verdict.status {
                // a refusal that the file expects is a pass in which the library has no part
                Status::Pass => {
                    let course = Course { reached: Some(Reached::default()), ..Course::default() };
                    Sound::Passed(Box::new(course))
                }
                Status::Skip => Sound::Skipped(verdict.reason.unwrap_or_default()),
                Status::Fail => Sound::Failed(verdict),
            });
        }
    };
    let judge = |plan: &Plan, forecast: &Forecast, seen: &[Observation]| way.judge(plan, forecast, seen);
    let (verdict, seen) = bench.run(&ready, Wish::Trace, None, &judge)?;
    if verdict.status == Status::Fail && way.errs() {
        return Ok(Sound::Skipped("it objects to a right result".to_owned()));
    }
    if verdict.status == Status::Fail {
        return Ok(Sound::Failed(Box::new(verdict)));
    }
    let reached = reached(&seen);
    let timed_out = seen.iter().any(|run| matches!(run.ended, Ended::Hung { proved: false, .. }));
    let seconds = (!timed_out).then_some(verdict.seconds);
    let size = 3 * ready.forecast.initial.iter().map(|image| image.len() as u64).sum::<u64>();
    let needed = reached.is_none_or(|set| set != Reached::default());
    let fits = needed && kept.fetch_add(size, Ordering::Relaxed) + size <= KEPT;
    let under = reached.unwrap_or_else(|| may_meet(&ready.plan));
    Ok(Sound::Passed(Box::new(Course { reached, under, seconds, ready: fits.then_some(ready) })))
}

/// The faults that a program may meet, as far as its element types say: of a case whose processes are killed nothing more
/// is known, and each of its runs takes as long as it waits for them.
fn may_meet(plan: &Plan) -> Reached {
    let dtype = |call: &Call| match call.what {
        What::Collective { dtype, .. } | What::Send { dtype, .. } | What::Recv { dtype, .. } => Some(dtype),
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

/// What came of a run under a fault.
enum Faulty {
    /// It was not run: enough others have caught the fault.
    Left,
    Passed {
        struck: bool,
    },
    Caught(Catch),
}

fn faulty(
    case: &Arc<Case>,
    course: &Course,
    again: &mut Option<Box<Ready>>,
    fault: Fault,
    way: &dyn Way,
    bench: &dyn Bench,
    settings: &Settings,
) -> Result<Faulty, String> {
    let ready = match (&course.ready, &again) {
        (Some(ready), _) | (None, Some(ready)) => ready,
        (None, None) => {
            let case = way.case(case)?;
            match bench.prepare(&case)? {
                Prepared::Ready(mut ready) => {
                    way.dress(&mut ready)?;
                    again.insert(ready)
                }
                Prepared::Settled(verdict) => return Err(verdict.reason.unwrap_or_else(|| "it does not run".into())),
            }
        }
    };
    let limit = course.seconds.map(|seconds| (PATIENCE * seconds).max(LEAST));
    let wish = Wish::Inject(Injection { fault, rank: None, algorithm: None });
    let judge = |plan: &Plan, forecast: &Forecast, seen: &[Observation]| way.judge(plan, forecast, seen);
    let (verdict, seen) = bench.run(ready, wish, limit, &judge)?;
    if verdict.status != Status::Fail {
        return Ok(Faulty::Passed { struck: reached(&seen).is_some_and(|set| has(&set, fault)) });
    }
    let hides = |flaw: &Flaw| {
        flaw.may_hide(&ready.plan, &verdict)
            && way.judge_with(&ready.plan, &ready.forecast, &seen, *flaw).is_some_and(|v| v.status == Status::Pass)
    };
    let hidden = settings.selection.flaws().filter(hides).collect();
    Ok(Faulty::Caught(Catch { fault, sight: Sight::of(&verdict), lanes: Lanes::failed(&verdict), hidden }))
}
