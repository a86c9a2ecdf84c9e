//! Finds the operations that are lost with a rank whose process ends while the others continue: the operations of its communicators
//! that a rank's host has not waited for by then, and later ones. Their results are unknown.
use super::lower::{Index, LoweredProgram};
use super::progress::walk;
use super::rank_op::RankOp;
use super::types::{CommId, StepId};
use crate::job::{Call, CallKind};
use crate::scenario::{Diagnostic, dedupe};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// The deaths of a program.
#[derive(Clone, Debug, Default)]
pub struct Deaths {
    /// The operations whose results are unknown.
    pub lost: HashSet<Index>,
    /// For each death: the ranks that die, and the number of survivors.
    of: BTreeMap<u32, (BTreeSet<usize>, usize)>,
}

/// An operation that a rank has issued.
struct Issued {
    index: usize,
    comm: Option<CommId>,
    stream: usize,
    /// Its number on the stream, from 1.
    number: usize,
}

impl Deaths {
    /// Finds the lost operations.
    ///
    /// # Errors
    ///
    /// Lost operations of kinds for which NCCL documents nothing, and groups that mix lost operations with others.
    pub fn of(lowered: &LoweredProgram) -> Result<Self, Vec<Diagnostic>> {
        let mut deaths = Self::default();
        for (rank, program) in lowered.programs.iter().enumerate() {
            for call in program {
                match &call.kind {
                    CallKind::Exit { death: Some(death), .. } => {
                        _ = deaths.of.entry(*death).or_default().0.insert(rank)
                    }
                    CallKind::AwaitDeath { death, .. } => deaths.of.entry(*death).or_default().1 += 1,
                    _ => {}
                }
            }
        }
        if deaths.of.is_empty() {
            return Ok(deaths);
        }
        let mut diagnostics = Vec::new();
        for rank in 0..lowered.unrolled.n {
            diagnostics.extend(mixed_groups(lowered, rank));
            for index in lost_of(lowered, rank) {
                diagnostics.extend(deaths.check(lowered, (rank, index)).err());
                deaths.lost.insert((rank, index));
            }
        }
        if diagnostics.is_empty() { Ok(deaths) } else { Err(dedupe(diagnostics)) }
    }

    /// True if the operation's results are unknown.
    pub fn is_lost(&self, at: Index) -> bool {
        self.lost.contains(&at)
    }

    /// The operations that these ranks have not waited for when they die, in their order.
    pub fn lost_with(&self, dying: &BTreeSet<usize>) -> Vec<Index> {
        self.lost
            .iter()
            .copied()
            .filter(|(rank, _)| dying.contains(rank))
            .collect::<BTreeSet<Index>>()
            .into_iter()
            .collect()
    }

    /// The ranks that die in a death.
    pub fn dying(&self, death: u32) -> BTreeSet<usize> {
        self.of.get(&death).map(|(dying, _)| dying.clone()).unwrap_or_default()
    }

    /// The number of ranks that must arrive before a death happens: those that die and those that outlive it.
    pub fn expected(&self, death: u32) -> usize {
        self.of.get(&death).map_or(0, |(dying, others)| dying.len() + others)
    }

    fn check(&self, lowered: &LoweredProgram, at: Index) -> Result<(), Diagnostic> {
        let call = &lowered.programs[at.0][at.1];
        let what = match (lowered.op(at), &call.kind) {
            _ if self.of.values().any(|(dying, _)| dying.contains(&at.0)) => return Ok(()),
            (Some(RankOp::OneSided(_)), _) => "a one-sided operation",
            (_, CallKind::Replayed { .. }) => "a graph with an operation",
            _ => return Ok(()),
        };
        let span = lowered.unrolled.steps[call.step as usize].span;
        let text = format!("{what} of a communicator that loses a rank: NCCL leaves open what becomes of it");
        Err(Diagnostic::new(span, text).help("wait for it before the `exit`, and use another communicator after it"))
    }
}

/// The calls of a rank that are lost with other ranks' deaths, or with its own.
fn lost_of(lowered: &LoweredProgram, rank: usize) -> Vec<usize> {
    let mut open: Vec<Issued> = Vec::new();
    let mut dead: BTreeSet<usize> = BTreeSet::new();
    let mut lost = Vec::new();
    walk(lowered, rank, |now| {
        match now.call.kind.effect() {
            CallKind::Wait { .. } => open.retain(|issued| !now.progress.host_has(issued.stream, issued.number)),
            // The rank's end loses all operations that it has not waited for, including maps.
            CallKind::Exit { death: Some(_), .. } => lost.extend(open.iter().map(|issued| issued.index)),
            CallKind::AwaitDeath { ranks, .. } => {
                dead.extend(ranks.iter().map(|rank| *rank as usize));
                lost.extend(open.iter().filter(|i| touches(lowered, i.comm, &dead)).map(|issued| issued.index));
            }
            _ => {}
        }
        if let Some(op) = now.op {
            let (index, comm) = (now.index, op.comm());
            if touches(lowered, comm, &dead) {
                lost.push(index);
            }
            open.push(Issued { index, comm, stream: op.stream() as usize, number: now.number });
        }
    });
    lost
}

/// Refuses groups after a death that mix operations of communicators that have lost a rank with operations of others: NCCL may
/// fail such a group as a whole, so it is unknown whether the others are done.
fn mixed_groups(lowered: &LoweredProgram, rank: usize) -> Vec<Diagnostic> {
    let mut dead: BTreeMap<usize, StepId> = BTreeMap::new();
    let mut group = GroupBehindDeath::default();
    let mut diagnostics = Vec::new();
    for (index, call) in lowered.programs[rank].iter().enumerate() {
        if let CallKind::AwaitDeath { ranks, .. } = call.kind.effect() {
            dead.extend(ranks.iter().map(|rank| (*rank as usize, call.step)));
        }
        let end = lowered.ends[rank][index];
        let Some(comm) = lowered.op((rank, index)).and_then(RankOp::comm) else { continue };
        if dead.is_empty() || end as usize == index {
            continue;
        }
        if group.end != end {
            group = GroupBehindDeath { end, ..GroupBehindDeath::default() };
        }
        let known = group.lost.is_some() && group.other.is_some();
        let members = lowered.unrolled.comms.list.get(comm).map(|comm| comm.members.as_slice()).unwrap_or_default();
        match members.iter().find_map(|member| Some((*member, *dead.get(member)?))) {
            Some((member, exit)) => _ = group.lost.get_or_insert((call.step, member, exit)),
            None => _ = group.other.get_or_insert(call.step),
        }
        if let (Some((lost, member, exit)), Some(other), false) = (group.lost, group.other, known) {
            let span = |step: StepId| lowered.unrolled.steps[step as usize].span;
            let text = format!(
                "a group after the end of rank {member} holds operations of communicators with and without it: NCCL may fail the \
                 whole group, so nothing is known of any of them"
            );
            diagnostics.push(
                Diagnostic::new(span(other), text)
                    .related(span(lost), format!("on a communicator with rank {member}"))
                    .related(span(exit), "its process ends here")
                    .help("end the group between them"),
            );
        }
    }
    diagnostics
}

/// The operations in a group after a death.
#[derive(Default)]
struct GroupBehindDeath {
    /// The call that ends the group.
    end: u32,
    /// The first operation on a communicator that has lost a rank, that rank, and the step with which it has ended.
    lost: Option<(StepId, usize, StepId)>,
    /// The first operation on another communicator.
    other: Option<StepId>,
}

fn touches(lowered: &LoweredProgram, comm: Option<CommId>, dead: &BTreeSet<usize>) -> bool {
    let members = comm.and_then(|comm| lowered.unrolled.comms.list.get(comm)).map(|comm| &comm.members);
    members.is_some_and(|members| members.iter().any(|member| dead.contains(member)))
}

/// The calls of a program that may return an error because a rank of their communicator has died: data operations after the
/// death, and the ends of groups of them.
pub fn may_fail(program: &[Call], members: impl Fn(u32) -> Vec<usize>) -> BTreeSet<u32> {
    let mut dead: BTreeSet<usize> = BTreeSet::new();
    let mut calls = BTreeSet::new();
    let mut group = (0u32, false);
    for (index, call) in program.iter().enumerate() {
        let fails = match call.kind.inner() {
            CallKind::AwaitDeath { ranks, .. } => {
                dead.extend(ranks.iter().map(|rank| *rank as usize));
                false
            }
            _ if dead.is_empty() => false,
            CallKind::Collective { comm, .. } | CallKind::Send { comm, .. } | CallKind::Recv { comm, .. } => {
                members(*comm).iter().any(|member| dead.contains(member))
            }
            CallKind::GroupStart => {
                group.0 += 1;
                false
            }
            CallKind::GroupEnd => {
                group.0 = group.0.saturating_sub(1);
                let fails = group.1;
                group.1 &= group.0 > 0;
                fails
            }
            _ => false,
        };
        group.1 |= fails && group.0 > 0;
        if fails {
            calls.insert(index as u32);
        }
    }
    calls
}
