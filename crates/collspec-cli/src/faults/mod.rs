//! Runs cases on software GPUs whose memory, kernels or connections fail, and sees what the library makes of it.
mod changes;
mod results;

pub use changes::{KindChange, RunChange, changes, words};
pub use results::{CaseResults, FaultyRun, Outcome, Results, Skipped, SoundRun, VERSION};

use collspec_core::job::{
    Disturbance, FAULT_IN_LOG, FaultKind, MachineCounts, MachineFault, NOT_NCCL, RankEnd, Struck,
};
use collspec_core::judge::{self, Status, Verdict, judge_pass_or_fail};
use collspec_core::scenario::{Case, EnvValue, EnvVar, ExpectedOutcome, Placement, Spanned};
use collspec_core::stats::Random;
use collspec_run::job::Observation;
use collspec_run::run::Error;
use collspec_suite::suite::{Experiment, Prepared, Ready, Runner, Variation};
use nccl_sys::ncclResult_t;
use std::sync::Arc;

/// The seed of the order of warps: the same in all runs, so that only the fault differs.
const SCHEDULE: u64 = 0;
/// A run with a fault hangs if it takes this many times as long as the one without, and this many seconds more.
const LONGER: f64 = 20.0;
const MARGIN: f64 = 4.0;

/// What to try.
#[derive(Clone, Debug)]
pub struct Request {
    pub kinds: Vec<FaultKind>,
    /// The first seed.
    pub first: u64,
    /// How often each case is run with each kind.
    pub runs: u64,
}

/// Runs a case once without a fault and then with faults. Returns nothing for a case that cannot be tried; reasons go to `skipped`.
///
/// # Errors
///
/// A worker cannot be started.
pub fn try_case(
    case: &Arc<Case>,
    request: &Request,
    runner: &Runner,
    interrupted: &dyn Fn() -> bool,
    skipped: &mut Vec<Skipped>,
) -> Result<Option<CaseResults>, Error> {
    let mut results = CaseResults { case: case.name.clone(), sound: Vec::new(), faulty: Vec::new() };
    for struck in [Struck::Gpus, Struck::Sockets, Struck::Adapters] {
        let kinds: Vec<FaultKind> = request.kinds.iter().copied().filter(|kind| kind.strikes() == struck).collect();
        let mut skip = |kinds: &[FaultKind], reason: &str, fails_without_fault| {
            skipped.extend(kinds.iter().map(|kind| Skipped {
                case: case.name.clone(),
                kind: *kind,
                reason: reason.to_owned(),
                fails_without_fault,
            }));
        };
        if kinds.is_empty() {
            continue;
        }
        let ready = match prepared(case, struck, runner)? {
            Ok(ready) => ready,
            Err(reason) => {
                skip(&kinds, &reason, false);
                continue;
            }
        };
        let (verdict, seen) = run(&ready, runner, Disturbance::None, None)?;
        let Some(seen) = seen.filter(|_| verdict.status == Status::Pass) else {
            let fails = verdict.status == Status::Fail;
            skip(&kinds, &format!("without a fault: {}", verdict.reason.unwrap_or_default()), fails);
            continue;
        };
        let by_rank: Vec<(u32, MachineCounts)> =
            (0..).zip(&seen.ranks).filter_map(|(rank, report)| Some((rank, report.machine.as_ref()?.counts))).collect();
        results.sound.push(SoundRun {
            on_hosts: struck == Struck::Sockets,
            seconds: seen.seconds,
            counts: sum(&by_rank),
        });
        let limit = MARGIN + LONGER * seen.seconds;
        for kind in kinds {
            for seed in (0..request.runs).map(|number| request.first.wrapping_add(number)) {
                if interrupted() {
                    return Ok(Some(results));
                }
                let Some(fault) = choose(kind, seed, &by_rank) else {
                    skip(&[kind], "nothing that it could strike", false);
                    break;
                };
                let (verdict, seen) = run(&ready, runner, Disturbance::Fault(fault), Some(limit))?;
                results.faulty.push(judged(kind, seed, verdict, seen.as_ref()));
            }
        }
    }
    Ok((!results.faulty.is_empty()).then_some(results))
}

/// Prepares a case to run once, where it can be struck. If it cannot be tried, the result is the reason.
fn prepared(case: &Arc<Case>, struck: Struck, runner: &Runner) -> Result<Result<Box<Ready>, String>, Error> {
    if case.outcome.as_ref().is_some_and(|outcome| outcome.value.iter().any(|end| *end != ExpectedOutcome::Ok)) {
        return Ok(Err("its file expects an error, a hang or a crash".into()));
    }
    let mut once = (**case).clone();
    once.repeat = 1;
    if struck == Struck::Adapters {
        let machine = runner.machine();
        let cluster = machine.and_then(|machine| machine.software.as_ref());
        let has_adapters = cluster.and_then(|cluster| cluster.profile.as_ref()).is_some_and(|of| !of.nics.is_empty());
        if !has_adapters || cluster.is_none_or(|cluster| cluster.nodes.len() < 2) {
            return Ok(Err("it needs nodes with network adapters, such as `--machine dgx-h100 --nodes 2`".into()));
        }
        // An adapter repeats a message for half a minute as NCCL asks it to: these attempts take half a second.
        set(&mut once, "NCCL_IB_TIMEOUT", EnvValue::All("14".into()));
    }
    if struck == Struck::Sockets {
        // Where there are adapters, too.
        set(&mut once, "NCCL_NET", EnvValue::All("Socket".into()));
        let ranks = once.total_ranks();
        if once.placement == Placement::OneThread || !(2..=Placement::MAX_PROCESSES).contains(&ranks) {
            return Ok(Err("its ranks cannot be on different hosts".into()));
        }
        let hosts = (0..ranks).map(|rank| format!("collspec-host-{rank}")).collect();
        set(&mut once, "NCCL_HOSTID", EnvValue::PerRank(hosts));
        set(&mut once, "NCCL_SOCKET_IFNAME", EnvValue::All("lo".into()));
        once.placement = Placement::Processes;
    }
    Ok(match runner.prepare(&Arc::new(once))? {
        Prepared::Ready(ready) => Ok(ready),
        Prepared::Settled(verdict) => Err(verdict.reason.unwrap_or_default()),
    })
}

/// Sets a variable of a case.
fn set(case: &mut Case, name: &str, value: EnvValue) {
    let name = Spanned { span: case.span, value: name.to_owned() };
    case.env.retain(|known| known.name.value != name.value);
    case.env.push(EnvVar { name, value });
}

fn run(
    ready: &Ready,
    runner: &Runner,
    disturbance: Disturbance,
    limit: Option<f64>,
) -> Result<(Verdict, Option<Observation>), Error> {
    let experiment = Experiment {
        variation: Variation { seed: Some(SCHEDULE), disturbance: Some(disturbance), ..runner.variation() },
        limit,
        judge: &|plan, forecast, seen| judge_pass_or_fail(plan, forecast, seen),
    };
    let (verdict, seen) = runner.run_once(ready, &experiment)?;
    Ok((verdict, seen.into_iter().next()))
}

fn sum(by_rank: &[(u32, MachineCounts)]) -> MachineCounts {
    by_rank.iter().fold(MachineCounts::default(), |sum, (_, counts)| MachineCounts {
        stores: sum.stores + counts.stores,
        stores_to_nccl: sum.stores_to_nccl + counts.stores_to_nccl,
        stores_to_user: sum.stores_to_user + counts.stores_to_user,
        received: sum.received + counts.received,
        messages: sum.messages + counts.messages,
    })
}

/// The fault of a seed: each moment of every process is as likely. `None` if there is none.
fn choose(kind: FaultKind, seed: u64, by_rank: &[(u32, MachineCounts)]) -> Option<MachineFault> {
    let moments = |counts: &MachineCounts| kind.moments(counts);
    let all: u64 = by_rank.iter().map(|(_, counts)| moments(counts)).sum();
    let mut random = Random::new(seed);
    let mut moment = random.below(usize::try_from(all).unwrap_or(usize::MAX)) as u64;
    for (rank, counts) in by_rank {
        if moment < moments(counts) {
            return Some(MachineFault { kind, rank: *rank, moment, seed: random.bits() });
        }
        moment -= moments(counts);
    }
    None
}

fn judged(kind: FaultKind, seed: u64, verdict: Verdict, seen: Option<&Observation>) -> FaultyRun {
    let outcome = match (verdict.status, verdict.outcome) {
        (Status::Pass, _) => Outcome::Right,
        (_, Some(judge::Outcome::Error)) => Outcome::Error,
        (_, Some(judge::Outcome::Hang)) => Outcome::Hang,
        (_, Some(judge::Outcome::Crash)) => Outcome::Crash,
        _ => Outcome::Wrong,
    };
    let code = seen.into_iter().flat_map(|seen| &seen.ranks).find_map(|rank| match rank.end {
        RankEnd::Error { code, .. } if code == NOT_NCCL => Some("not_nccl".to_owned()),
        RankEnd::Error { code, .. } => Some(format!("{:?}", ncclResult_t(code))),
        _ => None,
    });
    let reported = seen.into_iter().flat_map(|seen| &seen.ranks).find_map(|rank| rank.machine.as_ref()?.fault.clone());
    // A process that hangs or has crashed has reported nothing, but its log is there by then.
    let log = seen.map(|seen| seen.log.as_str()).unwrap_or_default();
    let logged = log.lines().find_map(|line| line.split_once(FAULT_IN_LOG)).map(|(_, did)| did.to_owned());
    FaultyRun {
        kind,
        seed,
        outcome,
        code: code.filter(|_| outcome == Outcome::Error),
        fault: reported.or(logged).unwrap_or_default(),
        reason: verdict.reason.unwrap_or_default(),
    }
}
