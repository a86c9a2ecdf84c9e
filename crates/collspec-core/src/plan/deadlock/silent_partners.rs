//! Calls that connect to a rank that does not answer: its process has ended, or it never makes such a call. NCCL connects two ranks, or
//! those of a communicator, when a call first needs them, on the host and inside the call: it waits for the other side, and nothing else
//! of the rank can end that wait, not even an abort, which the rank does not come to. The simulation of hosts leaves out programs in
//! which processes end or calls are cut short, so this is looked for here.
use super::super::lower::LoweredProgram;
use super::super::rank_op::{RankOp, Route};
use super::super::simulate::{Needs, needs};
use super::super::types::{CommId, Waiting};
use crate::job::CallKind;
use std::collections::{BTreeSet, HashSet};

/// The reason a rank waits for one that has ended.
pub const CONNECTS_TO_THE_SILENT: &str =
    "NCCL connects to a rank in the first call that needs it, and the call waits for its answer";

/// The first call of each rank that connects to a rank that does not answer. The second list has those whose communicators may be
/// connected already: releases before 2.22 connect all ranks of one when it is made.
pub fn connect_to_the_silent(lowered: &LoweredProgram) -> (Vec<Waiting>, Vec<Waiting>) {
    let answers = Answers::of(lowered);
    let (mut sure, mut unsure) = (Vec::new(), Vec::new());
    for (waiting, is_sure) in (0..lowered.unrolled.n).filter_map(|rank| first_call(lowered, &answers, rank)) {
        if is_sure { sure.push(waiting) } else { unsure.push(waiting) }
    }
    (sure, unsure)
}

/// What each rank connects at some time in its program.
#[derive(Default)]
struct Answers {
    routes: HashSet<(Route, usize)>,
    communicators: HashSet<(CommId, usize)>,
}

impl Answers {
    fn of(lowered: &LoweredProgram) -> Self {
        let mut answers = Self::default();
        for (rank, program) in lowered.programs.iter().enumerate() {
            for index in 0..program.len() {
                let Some(op) = lowered.given_op((rank, index)) else { continue };
                match needs(lowered, op) {
                    Needs::Nothing => {}
                    Needs::Routes(routes) => answers.routes.extend(routes.into_iter().map(|route| (route, rank))),
                    Needs::All(comm) => _ = answers.communicators.insert((comm, rank)),
                }
            }
        }
        answers
    }
}

fn first_call(lowered: &LoweredProgram, answers: &Answers, rank: usize) -> Option<(Waiting, bool)> {
    let mut dead: BTreeSet<usize> = BTreeSet::new();
    let mut routes_used: HashSet<Route> = HashSet::new();
    let mut comms_used: HashSet<CommId> = HashSet::new();
    // A communicator that has reported the death refuses calls at once.
    let mut refuses: HashSet<CommId> = HashSet::new();
    for (index, call) in lowered.programs[rank].iter().enumerate() {
        match call.kind.effect() {
            CallKind::AwaitDeath { ranks, .. } => dead.extend(ranks.iter().map(|rank| *rank as usize)),
            CallKind::AwaitError { comm } => _ = refuses.insert(*comm as usize),
            _ => {}
        }
        let Some(op) = lowered.given_op((rank, index)) else { continue };
        let Some(comm) = RankOp::comm(op).filter(|comm| !refuses.contains(comm)) else { continue };
        let members = &lowered.unrolled.comms.list[comm].members;
        let is_live = |other: &usize| *other < lowered.unrolled.n && *other != rank;
        let silent = |other: &usize, comes: bool| is_live(other) && (dead.contains(other) || !comes);
        // The call does not wait, and a thread of the library connects.
        if call.left_in_progress || call.tolerate {
            continue;
        }
        let needs = needs(lowered, op);
        let among_all = matches!(needs, Needs::All(_));
        let on: BTreeSet<usize> = match needs {
            Needs::Nothing => continue,
            Needs::Routes(own) => own
                .into_iter()
                .filter(|route| routes_used.insert(*route))
                .flat_map(|route| [route.from, route.to].map(|end| (route, end)))
                .filter_map(|(route, end)| Some((route, *members.get(end)?)))
                .filter(|(route, other)| silent(other, answers.routes.contains(&(*route, *other))))
                .map(|(_, other)| other)
                .collect(),
            Needs::All(comm) if comms_used.insert(comm) => {
                let others = members.iter().copied();
                others.filter(|other| silent(other, answers.communicators.contains(&(comm, *other)))).collect()
            }
            Needs::All(_) => continue,
        };
        if !on.is_empty() {
            let is_sure = !among_all || on.iter().any(|other| dead.contains(other));
            let on = on.into_iter().collect();
            let waiting = Waiting { rank, step: call.step, what: CONNECTS_TO_THE_SILENT.to_owned(), on };
            return Some((waiting, is_sure));
        }
    }
    None
}
