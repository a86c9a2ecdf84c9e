//! The ending of a run, compared with the file's `outcome`, `reason` and `error`.
use super::deaths::AFTER_A_DEATH;
use super::findings::{FindingCollector, Priority};
use super::fitting_words;
use super::waiting::{first_unfinished, most_telling, says_disagreement};
use super::{Finding, Lane, Outcome, Subject, message, windows};
use crate::job::{CallKind, RankEnd, RankReport};
use crate::job::{Ended, Observation};
use crate::job::{NO_KERNEL_MOVES, NOT_NCCL};
use crate::plan::{Comm, Plan};
use crate::scenario::{ExpectedOutcome, Spanned};
use nccl_sys::ncclResult_t;
use std::collections::{HashMap, HashSet};

/// The outcome of a run.
pub(crate) fn outcome_of(observation: &Observation) -> Outcome {
    match observation.ended {
        Ended::Done => Outcome::Ok,
        Ended::Errored => Outcome::Error,
        Ended::Hung { .. } => Outcome::Hang,
        Ended::Crashed { .. } => Outcome::Crash,
    }
}

/// Compares the ending with `outcome` and `reason`.
pub(crate) fn check(plan: &Plan, observation: &Observation, collector: &mut FindingCollector) {
    collector.count_checked(Lane::Expected, 1);
    if let (true, Some(why)) = (outcome_of(observation) != Outcome::Ok, &plan.undefined) {
        collector.note(format!("foreseen: {why}"));
    }
    if let Some(waits) = waiting_kernels(observation) {
        collector.note(waits.to_owned());
    }
    let default = [ExpectedOutcome::Ok];
    let admissible = plan.case.outcome.as_ref().map_or(&default[..], |o| o.value.as_slice());
    let ending = describe_ending(plan, observation);
    if !admissible.iter().any(|e| is_expected(plan, e, observation)) {
        let names: Vec<String> = admissible.iter().map(expected_name).collect();
        let text = match outcome_of(observation) {
            Outcome::Ok => {
                let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
                format!("the case ended without an error, but `outcome` says {}", quoted.join(" or "))
            }
            _ if plan.case.outcome.is_none() => ending.clone(),
            _ => unexpected_ending(admissible, observation, &ending),
        };
        let wanted = names.join(" or ");
        let mut finding = message::about(Subject::Ending, text, wanted, ending);
        finding.span = plan.case.outcome.as_ref().map(|o| o.span);
        finding.advice = plan.case.outcome.as_ref().and_then(|_| fitting_words::outcome(plan, observation));
        add_location(plan, observation, &mut finding);
        collector.add(Priority::Ending, finding);
        return;
    }
    if let Ended::Hung { waits, .. } = &observation.ended
        && says_disagreement(waits)
    {
        // An expected hang may have another reason than the one it is about.
        collector.note(ending.clone());
    }
    let unsaid =
        |reason: &&Spanned<String>| !reported_texts(observation).iter().any(|text| text.contains(&reason.value));
    if let Some(reason) = plan.case.reason.as_ref().filter(|_| outcome_of(observation) != Outcome::Ok).filter(unsaid) {
        let text = format!("{ending}, but no error text contains \"{}\"", reason.value);
        let mut finding = message::about(Subject::Ending, text, reason.value.clone(), ending);
        finding.span = Some(reason.span);
        finding.advice = reported_texts(observation).into_iter().skip(1).find_map(fitting_words::reason);
        collector.add(Priority::Ending, finding);
    }
}

fn is_expected(plan: &Plan, expected: &ExpectedOutcome, observation: &Observation) -> bool {
    // A map without a value, or a driver without memory, is never the library's error that the file expects.
    let codes = || {
        observation.ranks.iter().filter_map(|r| match r.end {
            RankEnd::Error { code, .. } => Some(code),
            _ => None,
        })
    };
    match expected {
        ExpectedOutcome::Ok => outcome_of(observation) == Outcome::Ok,
        // A file cannot expect creating the world's communicators to hang or crash.
        ExpectedOutcome::Hang => matches!(observation.ended, Ended::Hung { opening: false, .. }),
        ExpectedOutcome::Crash => {
            matches!(observation.ended, Ended::Crashed { opening: false, .. }) && exited_on_purpose(plan, observation)
        }
        ExpectedOutcome::Refused => false,
        ExpectedOutcome::Error(wanted) => {
            outcome_of(observation) == Outcome::Error
                && !codes().any(|c| c == NOT_NCCL)
                && codes().any(|c| wanted.is_none_or(|code| code.0 == c))
        }
    }
}

/// True if the program has no `exit`, or some rank was at its `exit` when the process ended.
fn exited_on_purpose(plan: &Plan, observation: &Observation) -> bool {
    let is_exit = |call: &crate::job::Call| matches!(call.kind, CallKind::Exit { .. });
    if !plan.programs.iter().flatten().any(is_exit) {
        return true;
    }
    observation.ranks.iter().enumerate().any(|(rank, r)| match r.end {
        RankEnd::Running { call } => plan.programs.get(rank).and_then(|p| p.get(call as usize)).is_some_and(is_exit),
        _ => false,
    })
}

/// Describes an ending that the file's `outcome` does not admit.
fn unexpected_ending(admissible: &[ExpectedOutcome], observation: &Observation, ending: &str) -> String {
    let wanted: Vec<String> = admissible.iter().map(expected_ending).collect();
    let wanted = wanted.join(" or ");
    let (happened, details) = match &observation.ended {
        Ended::Done => ("the case ended without an error", format!(": {ending}")),
        Ended::Errored => ("the case ended with an error", format!(": {ending}")),
        Ended::Hung { .. } => ("the case hung", ending.strip_prefix("hang").unwrap_or(ending).to_owned()),
        Ended::Crashed { .. } => ("the process died", ending.strip_prefix("crash").unwrap_or(ending).to_owned()),
    };
    const OPENING: &str = " while making communicators";
    match details.strip_prefix(OPENING) {
        Some(details) => format!("{happened}{OPENING}, expected {wanted}{details}"),
        None => format!("{happened}, expected {wanted}{details}"),
    }
}

/// An outcome as part of a sentence.
fn expected_ending(expected: &ExpectedOutcome) -> String {
    match expected {
        ExpectedOutcome::Ok => "no error".into(),
        ExpectedOutcome::Error(None) => "an error".into(),
        ExpectedOutcome::Error(Some(code)) => code_name(code.0),
        ExpectedOutcome::Hang => "a hang".into(),
        ExpectedOutcome::Crash => "a crash".into(),
        ExpectedOutcome::Refused => "a refusal".into(),
    }
}

/// The outcome as written in a file.
pub(crate) fn expected_name(expected: &ExpectedOutcome) -> String {
    match expected {
        ExpectedOutcome::Ok => "ok".into(),
        ExpectedOutcome::Error(None) => "error".into(),
        ExpectedOutcome::Error(Some(code)) => code_name(code.0),
        ExpectedOutcome::Hang => "hang".into(),
        ExpectedOutcome::Crash => "crash".into(),
        ExpectedOutcome::Refused => "refused".into(),
    }
}

pub(crate) fn code_name(code: i32) -> String {
    if code == NOT_NCCL {
        return "not NCCL's".into();
    }
    ncclResult_t(code).name().map_or_else(|| format!("code {code}"), str::to_owned)
}

/// All texts of a run: its log, its ending, and the errors of ranks and calls.
fn reported_texts(observation: &Observation) -> Vec<&str> {
    let mut texts = vec![observation.log.as_str()];
    match &observation.ended {
        Ended::Hung { waits, .. } => texts.push(waits),
        Ended::Crashed { how, .. } => texts.push(how),
        Ended::Done | Ended::Errored => {}
    }
    for rank in &observation.ranks {
        if let RankEnd::Error { text, .. } = &rank.end {
            texts.push(text);
        }
        texts.extend(rank.codes.iter().map(|(_, _, text)| text.as_str()));
    }
    texts
}

/// What the kernels of a real library wait for, if software GPUs have proved that the run hangs.
fn waiting_kernels(observation: &Observation) -> Option<&str> {
    match &observation.ended {
        Ended::Hung { waits, .. } => Some(waits.as_str()).filter(|waits| waits.starts_with(NO_KERNEL_MOVES)),
        _ => None,
    }
}

/// The ending in one line.
fn describe_ending(plan: &Plan, observation: &Observation) -> String {
    let opening = |opening: bool| if opening { " while making communicators" } else { "" };
    match &observation.ended {
        Ended::Done => "ok".into(),
        Ended::Errored => {
            let error = observation.ranks.iter().enumerate().find_map(|(rank, r)| match &r.end {
                RankEnd::Error { prelude, call, code, text } => {
                    let place =
                        if *prelude { " while making communicators".into() } else { step_suffix(plan, rank, *call) };
                    let code = code_name(*code);
                    // The library's own words begin with the function and the code.
                    let said = text.split_once(&format!(": {code}: "));
                    let text = said.map_or(text.clone(), |(function, rest)| format!("{function}: {rest}"));
                    Some(format!("rank {rank}{place}: {code} ({text})"))
                }
                _ => None,
            });
            error.unwrap_or_else(|| "a rank failed".into())
        }
        Ended::Hung { proved, opening: o, waits } => {
            let how = if *proved { "stuck: no rank can continue" } else { "not finished within the time limit" };
            let mut places: Vec<(String, Vec<usize>)> = Vec::new();
            for (rank, report) in observation.ranks.iter().enumerate() {
                let place = match report.end {
                    RankEnd::Running { call } => Some(step_suffix(plan, rank, Some(call))),
                    RankEnd::Opening { call } => opening_position(plan, rank, call).map(|place| format!(" {place}")),
                    _ => None,
                };
                let Some(place) = place else { continue };
                match places.iter_mut().find(|(known, _)| *known == place) {
                    Some((_, ranks)) => ranks.push(rank),
                    None => places.push((place, vec![rank])),
                }
            }
            let at: Vec<String> =
                places.iter().map(|(place, ranks)| message::ranks_text(ranks) + place).take(8).collect();
            let detail = match waiting_kernels(observation) {
                Some(waits) => {
                    let ranks = waits.lines().skip(1).filter(|line| !line.starts_with(' '));
                    [at.join(", ")].into_iter().chain(ranks.map(str::to_owned)).collect::<Vec<_>>().join("; ")
                }
                None if waits.is_empty() => at.join(", "),
                None => with_comm_names(plan, &most_telling(waits)),
            };
            let detail = if detail.is_empty() { detail } else { format!(": {detail}") };
            format!("hang{} ({how}){detail}", opening(*o))
        }
        Ended::Crashed { how, opening: o } => format!("crash{}: {how}", opening(*o)),
    }
}

/// The software library's text with communicators' names in place of their numbers.
fn with_comm_names(plan: &Plan, waits: &str) -> String {
    const MARK: &str = "communicator #";
    let names = CommNames::of(plan);
    let mut parts = waits.split(MARK);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, rest) = part.split_at(digits);
        match number.parse().ok().and_then(|number: usize| plan.comms.get(number)) {
            Some(comm) => text.push_str(&names.text(comm)),
            None => text.extend([MARK, number]),
        }
        text.push_str(rest);
    }
    text
}

/// The names of a plan's communicators; several may share one.
pub(crate) struct CommNames<'a> {
    shared: HashSet<&'a str>,
}

impl<'a> CommNames<'a> {
    pub(crate) fn of(plan: &'a Plan) -> Self {
        let mut known = HashSet::new();
        let names = plan.comms.iter().filter_map(|comm| comm.name.as_deref());
        Self { shared: names.filter(|name| !known.insert(*name)).collect() }
    }

    /// A communicator's name in the file, with its ranks if several share the name or it is unnamed.
    pub(crate) fn text(&self, comm: &Comm) -> String {
        let mut ranks = comm.members.clone();
        ranks.sort_unstable();
        let ranks = message::ranks_text(&ranks);
        match &comm.name {
            Some(name) if self.shared.contains(name.as_str()) => format!("communicator `{name}` of {ranks}"),
            Some(name) => format!("communicator `{name}`"),
            None => format!("the communicator of {ranks}"),
        }
    }
}

/// The step of a call, as in ` at step 3 (all_reduce)`; empty if there is no such step.
fn step_suffix(plan: &Plan, rank: usize, call: Option<u32>) -> String {
    let step = step_of_call(plan, rank, call);
    step.and_then(|s| plan.steps.get(s as usize)).map(|s| format!(" at {}", s.label)).unwrap_or_default()
}

/// The rank's position while the case is opened; `None` if it waits for the others.
fn opening_position(plan: &Plan, rank: usize, call: Option<u32>) -> Option<String> {
    let prelude = plan.prelude.get(rank)?;
    let Some(call) = call.map(|call| call as usize) else { return Some("before its first call".into()) };
    let name = |comm: u32| {
        let name = plan.comms.get(comm as usize).and_then(|comm| comm.name.as_deref());
        name.map_or("a communicator".into(), |name| format!("communicator `{name}`"))
    };
    match prelude.get(call).map(|call| &call.kind) {
        Some(CallKind::Init { comm, ids: Some(_), .. }) => {
            Some(format!("in ncclCommInitRankScalable of {}", name(*comm)))
        }
        Some(CallKind::Init { comm, config: None, .. }) => Some(format!("in ncclCommInitRank of {}", name(*comm))),
        Some(CallKind::Init { comm, .. }) => Some(format!("in ncclCommInitRankConfig of {}", name(*comm))),
        Some(CallKind::Split { parent, .. }) => Some(format!("in ncclCommSplit of {}", name(*parent))),
        Some(_) => Some(format!("at call {} that makes communicators", call + 1)),
        None if call == prelude.len() => Some("while its buffers are made and filled".into()),
        None => None,
    }
}

pub(crate) fn step_of_call(plan: &Plan, rank: usize, call: Option<u32>) -> Option<u32> {
    plan.programs.get(rank)?.get(call? as usize).map(|c| c.step)
}

fn add_location(plan: &Plan, observation: &Observation, finding: &mut Finding) {
    let ends = || observation.ranks.iter().map(|report| &report.end).enumerate();
    let failed = ends().find_map(|(rank, end)| match end {
        RankEnd::Error { call, .. } => Some((rank, *call)),
        _ => None,
    });
    let waited = match &observation.ended {
        Ended::Hung { waits, .. } if !observation.reused => first_unfinished(plan, waits),
        _ => HashMap::new(),
    };
    // The rank with the least progress holds up the others; one that is past its last call has the most.
    let unfinished = || {
        ends().filter_map(|(rank, end)| match end {
            RankEnd::Opening { call } => opening_position(plan, rank, *call).map(|_| (None, (rank, None))),
            RankEnd::Running { call } => {
                let call = Some(waited.get(&rank).map_or(*call, |first| *call.min(first)));
                Some((Some(step_of_call(plan, rank, call).unwrap_or(u32::MAX)), (rank, call)))
            }
            _ => None,
        })
    };
    let least = unfinished().min_by_key(|(step, _)| *step);
    let Some((rank, call)) = failed.or(least.map(|(_, place)| place)) else { return };
    finding.rank = Some(rank);
    if let (None, Some((least, _))) = (failed, least) {
        let alike = unfinished().filter(|(step, (other, _))| *step == least && *other != rank);
        finding.other_ranks = alike.map(|(_, (other, _))| other).collect();
    }
    if let Some(step) = step_of_call(plan, rank, call).and_then(|s| plan.steps.get(s as usize)) {
        finding.step = Some(step.label.clone());
        finding.span = finding.span.or(Some(step.span));
    }
}

/// Compares the calls' result codes with the steps' `error`.
pub(crate) fn check_codes(plan: &Plan, observation: &Observation, collector: &mut FindingCollector) {
    for (rank, report) in observation.ranks.iter().enumerate() {
        let by_step = codes_by_step(plan, rank, report);
        for (number, step) in plan.steps.iter().enumerate() {
            for (_, wanted) in step.error.iter().filter(|(r, _)| *r == rank) {
                collector.count_checked(Lane::Expected, 1);
                let codes = by_step.get(&(number as u32)).map_or(&[][..], Vec::as_slice);
                let right = match wanted {
                    Some(ncclResult_t::Success) => codes.is_empty(),
                    // The call returns its communicator's state, and the work that it began may be over by then.
                    Some(ncclResult_t::InProgress) if codes.is_empty() => !makes_a_communicator(plan, rank, number),
                    // Each communicator of a `wait` reports its own error.
                    Some(code) if awaits_errors(plan, rank, number) => {
                        !codes.is_empty() && codes.iter().all(|found| *found == code.0)
                    }
                    Some(code) => codes.contains(&code.0),
                    None => !codes.is_empty(),
                };
                let unseen = codes.is_empty() && windows::made_none(plan, rank, report, number as u32);
                if !right && !unseen {
                    let wanted = wanted.map_or("an error".into(), |c| code_name(c.0));
                    let actual = match codes {
                        [] => "ok".into(),
                        some => some.iter().map(|c| code_name(*c)).collect::<Vec<_>>().join(", "),
                    };
                    report_code(plan, rank, number, wanted, actual, collector);
                }
            }
        }
        let may_fail = plan.may_fail(rank);
        for (call, code, _) in &report.codes {
            if may_fail.contains(call) && AFTER_A_DEATH.iter().any(|admitted| admitted.0 == *code) {
                continue;
            }
            let number = step_of_call(plan, rank, Some(*call)).map(|s| s as usize);
            let expected =
                number.and_then(|n| plan.steps.get(n)).is_some_and(|s| s.error.iter().any(|(r, _)| *r == rank));
            if !expected {
                report_code(plan, rank, number.unwrap_or(usize::MAX), "ok".into(), code_name(*code), collector);
            }
        }
    }
}

/// True if a step waits for errors of communicators.
fn awaits_errors(plan: &Plan, rank: usize, step: usize) -> bool {
    let calls = plan.programs.get(rank).map_or(&[][..], Vec::as_slice);
    let mut calls = calls.iter().filter(|call| call.step as usize == step);
    calls.any(|call| matches!(call.kind, CallKind::AwaitError { .. }))
}

/// True if a step creates communicators, which does not end before the other ranks have arrived.
fn makes_a_communicator(plan: &Plan, rank: usize, step: usize) -> bool {
    let calls = plan.programs.get(rank).map_or(&[][..], Vec::as_slice);
    calls.iter().any(|call| call.step as usize == step && matches!(call.kind, CallKind::Init { .. }))
}

/// Error codes of a rank's calls, by step. In a group the code comes from its end.
fn codes_by_step(plan: &Plan, rank: usize, report: &RankReport) -> HashMap<u32, Vec<i32>> {
    let mut codes: HashMap<u32, Vec<i32>> = HashMap::new();
    let Some(program) = plan.programs.get(rank) else { return codes };
    for (call, code, _) in report.codes.iter().filter(|(_, code, _)| *code != 0) {
        if let Some(call) = program.get(*call as usize).filter(|call| !is_bookkeeping(&call.kind)) {
            codes.entry(call.step).or_default().push(*code);
        }
    }
    codes
}

fn is_bookkeeping(what: &CallKind) -> bool {
    matches!(what, CallKind::Begin { .. } | CallKind::End { .. } | CallKind::Checkpoint { .. })
}

fn report_code(
    plan: &Plan,
    rank: usize,
    step: usize,
    expected: String,
    actual: String,
    collector: &mut FindingCollector,
) {
    let step = plan.steps.get(step);
    let label = step.map_or("a call", |s| s.label.as_str());
    let text = format!("rank {rank}: {label} returned {actual}, expected {expected}");
    let advice = step.and_then(|_| fitting_words::error(&expected, &actual));
    let mut finding = Finding { advice, ..message::about(Subject::Error, text, expected, actual) };
    finding.rank = Some(rank);
    finding.step = step.map(|s| s.label.clone());
    finding.span = step.map(|s| s.error_span.unwrap_or(s.span));
    collector.add(Priority::Ending, finding);
}
