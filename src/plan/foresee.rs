//! Plays the program through without data: once with sends that wait for their receives, and if that gets stuck once
//! more with sends that never wait. The order in which things happen is the order in which they are judged.
use super::lower::{LoweredProgram, MemoryEffect, SemColl, SemRed};
use super::types::{CommId, Event, Foresight, Plan, Reduction, StepId, Waiting, Write};
use crate::job::What;
use crate::num::DType;
use crate::scenario::{Case, Diagnostic, ExpectedOutcome, Placement};
use std::collections::{HashMap, VecDeque};

mod simulate;

/// Finishes the plan.
pub fn foresee(low: LoweredProgram) -> Result<Plan, Vec<Diagnostic>> {
    let case = low.p.case.clone();
    if case.placement == Placement::OneThread {
        one_thread(&low)?;
    }
    let mut played = simulate::play(&low, false);
    let mut foresight = Foresight::Completes;
    if !played.waiting.is_empty() {
        let first = circle(std::mem::take(&mut played.waiting));
        played = simulate::play(&low, true);
        foresight = if played.waiting.is_empty() {
            Foresight::MayBlock(first)
        } else {
            Foresight::Stuck(circle(std::mem::take(&mut played.waiting)))
        };
    }
    let mut undefined = low.undefined.clone();
    accept(&case, &low, &foresight, &played, &mut undefined)?;
    let mut comms = low.p.comms;
    let mut prelude = std::mem::take(&mut comms.prelude);
    let mut programs = low.programs;
    prelude.resize(case.total_ranks(), Vec::new());
    programs.resize(case.total_ranks(), Vec::new());
    if comms.world_used {
        let world = comms.world_calls();
        for (calls, first) in prelude.iter_mut().zip(world) {
            calls.splice(0..0, first);
        }
    }
    let call = |what| crate::job::Call { step: 0, tolerate: false, what };
    Ok(Plan {
        n: low.p.n,
        buffers: low.placed.buffers,
        allocs: low.placed.allocs,
        comms: comms.list,
        steps: low.p.steps,
        events: played.events,
        prelude: prelude.into_iter().map(|list| list.into_iter().map(call).collect()).collect(),
        programs,
        configs: comms.configs,
        ids: comms.ids,
        streams: low.p.streams,
        null_stream: low.p.null_stream,
        tags: low.p.tags,
        cost: super::Cost::default(),
        limits: super::Limits::default(),
        foresight,
        constants: low.constants,
        undefined,
        comm_steps: low.p.comm_steps,
        case,
    })
}

/// What the file says of its outcome against what was foreseen.
fn accept(
    case: &Case,
    low: &LoweredProgram,
    foresight: &Foresight,
    played: &simulate::Played,
    undefined: &mut Option<String>,
) -> Result<(), Vec<Diagnostic>> {
    let lenient = super::item::lenient(case);
    let expects = |f: fn(&ExpectedOutcome) -> bool| case.outcome.as_ref().is_some_and(|list| list.value.iter().any(f));
    if low.p.exits {
        undefined.get_or_insert_with(|| "a process ends on purpose".to_owned());
        if !expects(|e| *e == ExpectedOutcome::Crash) {
            let exit = low.programs.iter().flatten().find(|call| call.what == What::Exit);
            let span = exit.map_or(case.span, |call| low.p.steps[call.step as usize].span);
            return Err(vec![
                Diagnostic::new(span, "a process that ends is a crash").help("add `outcome = \"crash\"`"),
            ]);
        }
        return Ok(());
    }
    if let Some(fault) = played.faults.first() {
        if !lenient {
            return Err(super::resolve::dedupe(played.faults.clone()));
        }
        undefined.get_or_insert_with(|| fault.message.clone());
        return Ok(());
    }
    match foresight {
        Foresight::Completes => {
            if expects(|e| *e == ExpectedOutcome::Hang)
                && undefined.is_none()
                && case.outcome.as_ref().is_some_and(|o| o.value.iter().all(|e| *e == ExpectedOutcome::Hang))
            {
                let span = case.outcome.as_ref().map_or(case.span, |o| o.span);
                return Err(vec![
                    Diagnostic::new(span, "nothing in this program can hang: every call meets its partner")
                        .help("remove `outcome`, or look again at who waits for whom"),
                ]);
            }
        }
        Foresight::MayBlock(waiting) => {
            if !lenient {
                let text = "these ranks wait for each other unless the library buffers their sends";
                return Err(vec![stuck(
                    low,
                    waiting,
                    text,
                    "put the calls into one `group`, or say `outcome = [\"hang\", \"ok\"]` to run it all the same",
                )]);
            }
        }
        Foresight::Stuck(waiting) => {
            undefined.get_or_insert_with(|| "it cannot finish".to_owned());
            if !lenient {
                return Err(vec![stuck(
                    low,
                    waiting,
                    "this program cannot finish",
                    "say `outcome = \"hang\"` to run it all the same",
                )]);
            }
        }
    }
    Ok(())
}

fn stuck(low: &LoweredProgram, waiting: &[Waiting], text: &str, help: &str) -> Diagnostic {
    let place = |w: &Waiting| low.p.steps[w.step as usize].span;
    let lines = sentences(waiting, |w| low.p.steps[w.step as usize].label.clone());
    let span = waiting.first().map_or(low.p.case.span, place);
    let mut d = Diagnostic::new(span, format!("{text}: {}", lines.join("; "))).help(help);
    let mut told = vec![span];
    for w in waiting.iter().skip(1) {
        if !told.contains(&place(w)) {
            told.push(place(w));
            d = d.related(place(w), format!("rank {} waits here", w.rank));
        }
    }
    d
}

/// `ranks 0, 1 at step 1 (all_reduce) wait for rank 2 (...)`: those who wait alike are told together.
pub fn sentences(waiting: &[Waiting], label: impl Fn(&Waiting) -> String) -> Vec<String> {
    let mut alike: Vec<(&Waiting, Vec<usize>)> = Vec::new();
    for w in waiting {
        match alike.iter_mut().find(|(a, _)| (a.step, &a.what, &a.on) == (w.step, &w.what, &w.on)) {
            Some((_, ranks)) => ranks.push(w.rank),
            None => alike.push((w, vec![w.rank])),
        }
    }
    let verb = |ranks: &[usize]| if ranks.len() == 1 { "waits" } else { "wait" };
    alike
        .iter()
        .map(|(w, ranks)| format!("{} at {} {} for {} ({})", some(ranks), label(w), verb(ranks), some(&w.on), w.what))
        .collect()
}

/// `rank 1`, `ranks 1, 2`, `ranks 1, 2, 3, 4, ...`.
fn some(ranks: &[usize]) -> String {
    let list: Vec<String> = ranks.iter().take(4).map(ToString::to_string).collect();
    let more = if ranks.len() > 4 { ", ..." } else { "" };
    match ranks.len() {
        0 => "nobody".to_owned(),
        1 => format!("rank {}", list[0]),
        _ => format!("ranks {}{more}", list.join(", ")),
    }
}

/// The circle among those who wait, if there is one; else the first few.
fn circle(waiting: Vec<Waiting>) -> Vec<Waiting> {
    let by_rank: HashMap<usize, &Waiting> = waiting.iter().map(|w| (w.rank, w)).collect();
    for start in &waiting {
        let mut path: Vec<&Waiting> = Vec::new();
        let mut at = start;
        loop {
            if let Some(i) = path.iter().position(|w| w.rank == at.rank) {
                return path[i..].iter().map(|w| (*w).clone()).collect();
            }
            path.push(at);
            match at.on.iter().find_map(|r| by_rank.get(r)) {
                Some(next) => at = next,
                None => break,
            }
        }
    }
    waiting.into_iter().take(8).collect()
}

/// One thread that drives all ranks does a step at a time, so every step must find its partners within itself.
fn one_thread(low: &LoweredProgram) -> Result<(), Vec<Diagnostic>> {
    let mut posts: HashMap<(CommId, usize, usize), VecDeque<StepId>> = HashMap::new();
    let mut lands: HashMap<(CommId, usize, usize), VecDeque<StepId>> = HashMap::new();
    for (calls, sems) in low.programs.iter().zip(&low.sems) {
        for (call, sem) in calls.iter().zip(sems) {
            let unit = low.p.units[call.step as usize];
            match sem {
                Some(MemoryEffect::Post { comm, me, peer, .. }) => {
                    posts.entry((*comm, *me, *peer)).or_default().push_back(unit)
                }
                Some(MemoryEffect::Land { comm, me, peer, .. }) => {
                    lands.entry((*comm, *peer, *me)).or_default().push_back(unit)
                }
                _ => {}
            }
        }
    }
    for (pair, sends) in &posts {
        let recvs = lands.get(pair);
        for (i, unit) in sends.iter().enumerate() {
            if recvs.and_then(|r| r.get(i)) != Some(unit) {
                let text = "with `placement = \"one_thread\"` a send must meet its receive within one step";
                return Err(vec![
                    Diagnostic::new(low.p.steps[*unit as usize].span, text)
                        .help("put both into one `group`, or use a `send_recv`"),
                ]);
            }
        }
    }
    Ok(())
}

/// What a complete collective means; `Err` says in which way the ranks' calls differ.
fn collective(low: &LoweredProgram, parts: &[(usize, usize)]) -> Result<Event, Diagnostic> {
    let part = |at: &(usize, usize)| match &low.sems[at.0][at.1] {
        Some(MemoryEffect::Collective(c)) => Some((low.programs[at.0][at.1].step, c)),
        _ => None,
    };
    let all: Vec<(StepId, &SemColl)> = parts.iter().filter_map(part).map(|(s, c)| (s, &**c)).collect();
    let Some((step, first)) = all.first().copied() else {
        return Err(Diagnostic::new(low.p.case.span, "a collective nobody calls"));
    };
    for (other, c) in &all {
        let (a, b) = (describe(first), describe(c));
        if a != b {
            let text = format!(
                "rank {} calls {a}, but rank {} calls {b}: every rank of a communicator must make the same call",
                first.me, c.me
            );
            return Err(Diagnostic::new(low.p.steps[*other as usize].span, text)
                .related(low.p.steps[step as usize].span, "the other call"));
        }
    }
    let mut reduce = first.red.map(|red| match red {
        SemRed::Builtin(op) => Reduction::Builtin(op),
        SemRed::PreMulSum(_) => Reduction::PreMulSum(vec![0; all.len()]),
    });
    let (mut send, mut recv) = (vec![None; all.len()], vec![None; all.len()]);
    for ((_, c), at) in all.iter().zip(parts) {
        send[c.me] = c.send;
        recv[c.me] = c.recv.map(|region| Write { region, after: low.ends[at.0][at.1], stream: c.stream });
        if let (Some(Reduction::PreMulSum(bits)), Some(SemRed::PreMulSum(v))) = (&mut reduce, c.red) {
            bits[c.me] = v;
        }
    }
    Ok(Event::Collective {
        step,
        op: first.op,
        comm: first.comm,
        k: first.k,
        dtype: first.dtype,
        reduce,
        root: first.root,
        send,
        recv,
    })
}

/// What must be the same on all ranks.
fn describe(c: &SemColl) -> String {
    let red = match c.red {
        None => String::new(),
        Some(SemRed::Builtin(op)) => format!(" {}", op.name().unwrap_or("?")),
        Some(SemRed::PreMulSum(_)) => " premul_sum".to_owned(),
    };
    let root = if c.op.rooted { format!(" with root {}", c.root) } else { String::new() };
    format!("{:?}{red} of {} {}{root}", c.op.call, c.k, c.dtype.name())
}

/// Whether a send and its receive agree.
fn message(low: &LoweredProgram, from: (usize, usize), to: (usize, usize)) -> Result<(), Diagnostic> {
    let side = |at: (usize, usize)| -> Option<(u64, DType)> {
        match &low.sems[at.0][at.1] {
            Some(MemoryEffect::Post { from, dtype, .. }) => Some((from.len, *dtype)),
            Some(MemoryEffect::Land { to, dtype, .. }) => Some((to.len, *dtype)),
            _ => None,
        }
    };
    let (Some((sent, a)), Some((wanted, b))) = (side(from), side(to)) else { return Ok(()) };
    let spot = |at: (usize, usize)| low.p.steps[low.programs[at.0][at.1].step as usize].span;
    let grouped = |at: (usize, usize)| low.ends[at.0][at.1] as usize != at.1;
    if from.0 == to.0 && !(grouped(from) && low.ends[from.0][from.1] == low.ends[to.0][to.1]) {
        let text = format!("rank {} sends to itself, which NCCL allows only with the recv in the same group", from.0);
        return Err(Diagnostic::new(spot(from), text)
            .related(spot(to), "the recv")
            .help("put both into one `group`, or use a `send_recv`"));
    }
    if (sent, a) == (wanted, b) {
        return Ok(());
    }
    let text = format!("rank {} sends {sent} {}, but rank {} receives {wanted} {}", from.0, a.name(), to.0, b.name());
    Err(Diagnostic::new(spot(to), text).related(spot(from), "the send"))
}

/// True if a call blocks its host until every member has made it.
fn host_blocking(what: &What) -> bool {
    matches!(what, What::Init { .. } | What::Split { .. })
}
