//! Communicators with fewer or more ranks than the one from which they are created: shrink and grow.
use super::super::eval::{Names, among, evaluate, no_value, ranks};
use super::meetings::Gathering;
use super::{Calls, CommId, Comms, Maker, Named};
use crate::expr::Mode;
use crate::job::CallKind;
use crate::scenario::{Case, Diagnostic, Placement, Ranks, Spanned};
use std::collections::BTreeSet;

impl Comms {
    pub(super) fn shrink(
        &mut self,
        by: &Maker<'_>,
        parent: &Spanned<String>,
        without: &Spanned<Ranks>,
        abort: bool,
        config: Option<u32>,
    ) -> Result<(Named, Calls), Diagnostic> {
        let of = self.by_name(parent)?.of.clone();
        let parents: BTreeSet<CommId> = of.iter().flatten().map(|(comm, _)| *comm).collect();
        let mut named = self.named_before(Some(by));
        let mut calls = Calls::new();
        for comm in parents {
            let members = self.list[comm].members.clone();
            let works = members.iter().any(|world| by.works(*world));
            let (out, exclude) = left_out(by, without, &members, works)?;
            let stays = |rank: &usize| !out.contains(rank);
            let remaining: Vec<usize> = (0..members.len()).filter(stays).map(|rank| members[rank]).collect();
            // A rank that is left out is refused alone.
            by.check_all_end_alike(remaining.iter().copied())?;
            if works {
                if out.is_empty() {
                    let text = "this shrink leaves no rank out, which NCCL refuses";
                    return Err(Diagnostic::new(without.span, text)
                        .help("a shrink that is to fail has `error = \"invalid_argument\"`"));
                }
                if remaining.is_empty() {
                    return Err(Diagnostic::new(without.span, "this shrink leaves no rank in the communicator"));
                }
            }
            let gathering = Gathering::Shrink { parent: self.meetings.lineage_of(comm), without: out.clone() };
            let gathering = self.meetings.gathering(gathering);
            for (rank, world) in members.iter().copied().enumerate().filter(|(_, world)| by.runs[*world]) {
                let leaves = out.contains(&rank);
                let call = |new: Option<CommId>| CallKind::Shrink {
                    parent: comm as u32,
                    exclude: exclude.clone(),
                    abort,
                    new: new.map(|new| new as u32),
                    config,
                };
                if by.fails[world] {
                    calls.push((world, call(None)));
                } else if leaves && by.own_ranks {
                    let text = format!("rank {rank} of the communicator is left out, and calls the shrink itself");
                    return Err(Diagnostic::new(by.span, text).related(without.span, "left out here").help(
                        "only the ranks that remain call it; a call that is to fail has `error = \"invalid_argument\"`",
                    ));
                } else if !leaves {
                    let number = self.meetings.next(gathering, world);
                    let lineage = self.meetings.lineage(gathering, number, 0);
                    let (new, _) = self.met(Some(lineage), &mut None, |comms| {
                        (comms.add(Some(&by.def.name.value), remaining.clone(), config, Some(comm)), 0)
                    });
                    self.check_blocking_agrees(Some(by), new, config, Some(comm))?;
                    let rank = remaining.iter().position(|other| *other == world);
                    named.set(world, rank.map(|rank| (new, rank)));
                    calls.push((world, call(Some(new))));
                }
            }
        }
        Ok((named, calls))
    }

    pub(super) fn grow(
        &mut self,
        by: &Maker<'_>,
        parent: &Spanned<String>,
        with: &Spanned<Ranks>,
        config: Option<u32>,
    ) -> Result<(Named, Calls), Diagnostic> {
        let of = self.by_name(parent)?.of.clone();
        let parents: BTreeSet<CommId> = of.iter().flatten().map(|(comm, _)| *comm).collect();
        let Some(comm) = parents.first().copied().filter(|_| parents.len() == 1) else {
            let text = format!("`{}` is {} communicators, and only one can grow", parent.value, parents.len());
            return Err(Diagnostic::new(parent.span, text).help("give the one that is to grow a separate name"));
        };
        let old = self.list[comm].members.clone();
        let joining = self.joining(by.case, with)?;
        if let Some(twice) = joining.iter().find(|world| old.contains(world)) {
            let text = format!("rank {twice} is in the communicator already");
            return Err(Diagnostic::new(with.span, text).help("`with` are world ranks that are not in it yet"));
        }
        let members: Vec<usize> = old.iter().chain(&joining).copied().collect();
        if joining.is_empty() && members.iter().any(|world| by.works(*world)) {
            return Err(Diagnostic::new(with.span, "no rank joins, which NCCL refuses")
                .help("a grow that is to fail has `error = \"invalid_argument\"`"));
        }
        by.check_all_end_alike(members.iter().copied())?;
        // NCCL's old ranks count the call, and wait for the id, before they look at the configuration: a call that is refused needs an id
        // too, and all of them, or the next split or grow finds that they have counted differently.
        let fails = !joining.is_empty() && members.iter().any(|world| by.runs[*world] && by.fails[*world]);
        let unmade_id = fails.then(|| self.id_of_growth());
        if let Some(world) = old.iter().find(|world| fails && !by.runs[**world]) {
            let text = format!("this grow is to fail, and rank {world} of its communicator does not make it");
            return Err(Diagnostic::new(by.span, text).help(
                "NCCL's ranks exchange a unique id before they look at the arguments: let all of them make the call",
            ));
        }
        let gathering = Gathering::Grow { parent: self.meetings.lineage_of(comm), with: joining };
        let gathering = self.meetings.gathering(gathering);
        let mut named = self.named_before(Some(by));
        let mut calls = Calls::new();
        for (rank, world) in members.iter().copied().enumerate().filter(|(_, world)| by.runs[*world]) {
            let inside = rank < old.len();
            let mut made = None;
            if by.works(world) {
                let number = self.meetings.next(gathering, world);
                let lineage = self.meetings.lineage(gathering, number, 0);
                let (new, id) = self.met(Some(lineage), &mut None, |comms| {
                    let id = comms.id_of_growth();
                    (comms.add(Some(&by.def.name.value), members.clone(), config, Some(comm)), id)
                });
                if by.case.placement == Placement::OneThread {
                    self.check_one_thread_grow(by, comm, new, config)?;
                }
                made = Some((new, id));
                named.set(world, Some((new, rank)));
            }
            let id = made.map(|(_, id)| id).or(unmade_id);
            if let Some(id) = id.filter(|_| rank == 0) {
                calls.push((world, CallKind::GrowId { comm: comm as u32, id }));
            }
            calls.push((
                world,
                CallKind::Grow {
                    parent: inside.then_some(comm as u32),
                    id: id.unwrap_or(self.grow_ids),
                    rank: if inside { -1 } else { rank as i32 },
                    n: members.len() as i32,
                    new: made.map(|(new, _)| new as u32),
                    config,
                },
            ));
        }
        Ok((named, calls))
    }

    /// The world ranks that join a communicator which grows, in the order of their new numbers.
    ///
    /// # Errors
    ///
    /// An expression without a value.
    pub fn joining(&self, case: &Case, with: &Spanned<Ranks>) -> Result<Vec<usize>, Diagnostic> {
        if let Ranks::List(list) = &with.value {
            return Ok(list.iter().filter_map(|rank| usize::try_from(rank.value).ok()).collect());
        }
        let mut joining = Vec::new();
        for world in 0..self.n {
            if among(&with.value, case, world)? {
                joining.push(world);
            }
        }
        Ok(joining)
    }

    fn id_of_growth(&mut self) -> u32 {
        self.grow_ids += 1;
        self.grow_ids - 1
    }
}

/// The ranks of a communicator that a shrink leaves out, and the list that the call passes. If the call fails on every rank, the
/// list may name ranks that the communicator does not have.
fn left_out(
    by: &Maker<'_>,
    without: &Spanned<Ranks>,
    members: &[usize],
    works: bool,
) -> Result<(Vec<usize>, Vec<i32>), Diagnostic> {
    let n = members.len();
    let mut out = Vec::new();
    let mut absent = Vec::new();
    match &without.value {
        Ranks::List(list) => {
            for rank in list {
                let inside = usize::try_from(rank.value).ok().filter(|rank| *rank < n);
                if let (None, false, Ok(number)) = (inside, works, i32::try_from(rank.value)) {
                    absent.push(number);
                    continue;
                }
                let left = inside.ok_or_else(|| {
                    let text = format!("rank {} is not in the communicator of {}", rank.value, ranks(n));
                    Diagnostic::new(rank.span, text).help("`without` has ranks of `comm`, not of the world")
                })?;
                if !out.contains(&left) {
                    out.push(left);
                }
            }
        }
        Ranks::Expr(expr) => {
            for (rank, world_rank) in members.iter().copied().enumerate() {
                let world = Names::world(by.case, world_rank);
                let names = Names { rank, n, t: by.t, ..world };
                let value = evaluate(&expr.value, expr.span, &names, Mode::Whole)?;
                if value.to_bool().map_err(|e| no_value(&expr.value, expr.span, &names, &e))? {
                    out.push(rank);
                }
            }
        }
        Ranks::All => {}
    }
    let exclude = out.iter().map(|rank| *rank as i32).chain(absent).collect();
    Ok((out, exclude))
}
