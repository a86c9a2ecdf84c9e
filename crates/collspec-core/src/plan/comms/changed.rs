//! Communicators with fewer or more ranks than the one from which they are created: shrink and grow.
use super::super::eval::{Names, among, evaluate, no_value, ranks};
use super::{CommId, Comms, Named};
use crate::expr::Mode;
use crate::job::CallKind;
use crate::scenario::{Case, CommCreation, CommDef, Diagnostic, Placement, Ranks, Span, Spanned};
use std::collections::BTreeSet;

/// The step that creates a communicator from another one.
pub struct ChangedBy<'a> {
    pub case: &'a Case,
    pub def: &'a CommDef,
    pub span: Span,
    /// The round of `times`.
    pub t: Option<u64>,
    /// World ranks that the step's `ranks` admit.
    pub runs: Vec<bool>,
    /// True if the step itself names the communicators.
    pub named: bool,
    /// World ranks whose call is expected to fail.
    pub fails: Vec<bool>,
}

/// Calls that create communicators, each with its world rank.
pub type Calls = Vec<(usize, CallKind)>;

impl Comms {
    /// Defines the communicator that a shrink or grow creates; returns the calls that create it.
    ///
    /// # Errors
    ///
    /// Ranks that the communicator lacks or already has, no rank that leaves or remains, or calls of ranks that must not create
    /// one.
    pub fn change(&mut self, by: &ChangedBy<'_>) -> Result<Calls, Diagnostic> {
        match &by.def.creation {
            CommCreation::Shrink { comm, without, abort } => self.shrink(by, comm, without, *abort),
            CommCreation::Grow { comm, with } => self.grow(by, comm, with),
            CommCreation::Groups(_) | CommCreation::Split { .. } => Ok(Calls::new()),
        }
    }

    fn shrink(
        &mut self,
        by: &ChangedBy<'_>,
        parent: &Spanned<String>,
        without: &Spanned<Ranks>,
        abort: bool,
    ) -> Result<Calls, Diagnostic> {
        let config = self.config(&by.def.config, self.base);
        let of = self.by_name(parent)?.clone();
        let parents: BTreeSet<CommId> = of.of.iter().flatten().map(|(comm, _)| *comm).collect();
        let mut named = Named::new(vec![None; self.n]);
        let mut calls = Calls::new();
        for comm in parents {
            let members = self.list[comm].members.clone();
            let calling = |world: usize| by.runs[world] && !by.fails[world];
            let works = members.iter().any(|world| calling(*world));
            let (out, exclude) = left_out(by, without, &members, works)?;
            let stays = |rank: &usize| !out.contains(rank);
            let remaining: Vec<usize> = (0..members.len()).filter(stays).map(|rank| members[rank]).collect();
            let mut new = None;
            if works {
                if out.is_empty() {
                    let text = "this shrink leaves no rank out, which NCCL refuses";
                    return Err(Diagnostic::new(without.span, text)
                        .help("a shrink that is to fail has `error = \"invalid_argument\"`"));
                }
                if remaining.is_empty() {
                    return Err(Diagnostic::new(without.span, "this shrink leaves no rank in the communicator"));
                }
                new = Some(self.add(Some(&by.def.name.value), remaining.clone(), config, Some(comm)));
            }
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
                } else if leaves && by.named {
                    let text = format!("rank {rank} of the communicator is left out, and calls the shrink itself");
                    return Err(Diagnostic::new(by.span, text).related(without.span, "left out here").help(
                        "only the ranks that remain call it; a call that is to fail has `error = \"invalid_argument\"`",
                    ));
                } else if !leaves {
                    let number = remaining.iter().position(|other| *other == world);
                    named.of[world] = new.zip(number);
                    calls.push((world, call(new)));
                }
            }
        }
        if named.of.iter().any(Option::is_some) {
            self.named.insert(by.def.name.value.clone(), named);
        }
        Ok(calls)
    }

    fn grow(
        &mut self,
        by: &ChangedBy<'_>,
        parent: &Spanned<String>,
        with: &Spanned<Ranks>,
    ) -> Result<Calls, Diagnostic> {
        let config = self.config(&by.def.config, self.base);
        let of = self.by_name(parent)?.clone();
        let parents: BTreeSet<CommId> = of.of.iter().flatten().map(|(comm, _)| *comm).collect();
        let Some(comm) = parents.first().copied().filter(|_| parents.len() == 1) else {
            let text = format!("`{}` is {} communicators, and only one can grow", parent.value, parents.len());
            return Err(Diagnostic::new(parent.span, text).help("give the one that is to grow a separate name"));
        };
        let old = self.list[comm].members.clone();
        let joining: Vec<usize> = match &with.value {
            Ranks::List(list) => list.iter().filter_map(|rank| usize::try_from(rank.value).ok()).collect(),
            ranks => {
                let all = (0..self.n).map(|world| Ok((world, among(ranks, by.case, world)?)));
                let all = all.collect::<Result<Vec<_>, Diagnostic>>()?;
                all.into_iter().filter(|(_, joins)| *joins).map(|(world, _)| world).collect()
            }
        };
        if let Some(twice) = joining.iter().find(|world| old.contains(world)) {
            let text = format!("rank {twice} is in the communicator already");
            return Err(Diagnostic::new(with.span, text).help("`with` are world ranks that are not in it yet"));
        }
        let members: Vec<usize> = old.iter().chain(&joining).copied().collect();
        let calling = |world: &usize| by.runs[*world] && !by.fails[*world];
        let any = members.iter().any(calling);
        if any && joining.is_empty() {
            return Err(Diagnostic::new(with.span, "no rank joins, which NCCL refuses")
                .help("a grow that is to fail has `error = \"invalid_argument\"`"));
        }
        let id = self.grow_ids;
        let new = any.then(|| self.add(Some(&by.def.name.value), members.clone(), config, Some(comm)));
        if let (Some(new), Placement::OneThread) = (new, by.case.placement) {
            self.check_one_thread_grow(by, comm, new, config)?;
        }
        if any {
            self.grow_ids += 1;
        }
        let mut named = Named::new(vec![None; self.n]);
        let mut calls = Calls::new();
        for (rank, world) in members.iter().copied().enumerate().filter(|(_, world)| by.runs[*world]) {
            let new = new.filter(|_| !by.fails[world]);
            let inside = rank < old.len();
            if let (0, Some(_)) = (rank, new) {
                calls.push((world, CallKind::GrowId { comm: comm as u32, id }));
            }
            calls.push((
                world,
                CallKind::Grow {
                    parent: inside.then_some(comm as u32),
                    id,
                    rank: if inside { -1 } else { rank as i32 },
                    n: members.len() as i32,
                    new: new.map(|new| new as u32),
                    config,
                },
            ));
            named.of[world] = new.map(|new| (new, rank));
        }
        if any {
            self.named.insert(by.def.name.value.clone(), named);
        }
        Ok(calls)
    }
}

/// The ranks of a communicator that a shrink leaves out, and the list that the call passes. If the call fails on every rank, the
/// list may name ranks that the communicator does not have.
fn left_out(
    by: &ChangedBy<'_>,
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
