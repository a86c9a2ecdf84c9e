//! Ranks whose processes end while the others continue: who has ended, and what the others may still do.
use super::super::item::ItemKind;
use super::super::types::{CommId, StepId};
use super::{Member, Unroll};
use crate::job::CallKind;
use crate::ops::{CommOp, ExitStatus, Kind};
use crate::scenario::{Diagnostic, ExpectedOutcome, Placement, Span, Step, StepComm};
use nccl_sys::ncclResult_t;
use std::collections::BTreeSet;

/// The ranks that have ended so far.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// For each world rank: the step with which its process ends.
    at: Vec<Option<Span>>,
    /// Number of deaths so far.
    deaths: u32,
    /// World ranks, with communicators whose error they have seen.
    noticed: BTreeSet<(usize, CommId)>,
    /// False if it is known that no step uses the communicator of the world, so that it is not created.
    world_is_made: bool,
    /// True if a rank waits for an error of the world.
    world_is_awaited: bool,
}

/// The communicator of all ranks.
const WORLD: CommId = 0;

impl Ended {
    pub(super) fn new(n: usize, world_is_made: bool) -> Self {
        Self { at: vec![None; n], world_is_made, ..Self::default() }
    }

    /// The step with which a rank's process ended.
    pub(super) fn at(&self, world: usize) -> Option<Span> {
        self.at.get(world).copied().flatten()
    }
}

impl<'a> Unroll<'a> {
    /// True if a process may end without ending the case.
    pub(super) fn outlives_exits(&self) -> bool {
        let crash = |outcome: &ExpectedOutcome| *outcome == ExpectedOutcome::Crash;
        self.case.placement == Placement::Processes
            && !self.case.outcome.as_ref().is_some_and(|list| list.value.iter().any(crash))
    }

    /// Handles a step `exit` that the other ranks outlive.
    ///
    /// # Errors
    ///
    /// No rank is left, or the case has to run again.
    pub(super) fn deaths(
        &mut self,
        step: &Step,
        status: ExitStatus,
        id: StepId,
        members: &[Member<'a>],
    ) -> Result<(), Diagnostic> {
        if members.is_empty() {
            return Ok(());
        }
        let n = self.program.n;
        let dying: Vec<usize> = members.iter().map(|member| member.world).collect();
        let outlives = |world: &usize| self.ended.at(*world).is_none() && !dying.contains(world);
        let others: Vec<usize> = (0..n).filter(outlives).collect();
        if others.is_empty() {
            let text = "no rank is left, so the case ends as a crash";
            return Err(Diagnostic::new(step.span, text).help("add `outcome = \"crash\"`, or name some `ranks`"));
        }
        if self.case.repeat > 1 {
            let text = "a rank whose process has ended cannot run again";
            return Err(Diagnostic::new(step.span, text).help("leave out `repeat`"));
        }
        self.count(n, step.span)?;
        let death = self.ended.deaths;
        self.ended.deaths += 1;
        for world in &dying {
            let call = CallKind::Exit { status, death: Some(death) };
            self.push(*world, id, step.span, false, ItemKind::Call(call));
            self.ended.at[*world] = Some(step.span);
        }
        let ranks: Vec<u32> = dying.iter().map(|rank| *rank as u32).collect();
        for world in others {
            let call = CallKind::AwaitDeath { death, ranks: ranks.clone() };
            self.push(world, id, step.span, false, ItemKind::Call(call));
        }
        // Communicators that have lost a rank cannot serve another case.
        self.program.comm_steps = true;
        Ok(())
    }

    /// The first rank of a communicator whose process has ended, and the place of its end.
    fn loss(&self, comm: CommId) -> Option<(usize, Span)> {
        let members = &self.program.comms.list.get(comm)?.members;
        members.iter().find_map(|world| Some((*world, self.ended.at(*world)?)))
    }

    /// True if the process of a rank of the communicator has ended.
    pub(super) fn has_lost_a_rank(&self, comm: CommId) -> bool {
        self.loss(comm).is_some()
    }

    /// Refuses a list of ranks that names one whose process has ended.
    pub(super) fn check_listed(&self, rank: usize, at: Span) -> Result<(), Diagnostic> {
        match self.ended.at(rank) {
            Some(end) => Err(Diagnostic::new(at, format!("the process of rank {rank} has ended before"))
                .related(end, "ended here")
                .help("leave the rank out: without `ranks` a step is for those that are left")),
            None => Ok(()),
        }
    }

    /// Refuses a communicator that needs a rank whose process has ended.
    pub(super) fn check_joins(&self, step: &Step, world: usize) -> Result<(), Diagnostic> {
        let Some(end) = self.ended.at(world) else { return Ok(()) };
        let text = format!("this needs rank {world}, whose process has ended before");
        let help = match step.op.kind {
            Kind::Comm(CommOp::Shrink) => "name the rank in `without`",
            _ => "`shrink` makes a communicator of the ranks that are left",
        };
        Err(Diagnostic::new(step.span, text).related(end, "ended here").help(help))
    }

    /// Refuses a call on a communicator that has lost a rank, unless the result of such a call is known.
    pub(super) fn check_loss(&self, step: &Step, id: StepId, member: &Member<'a>) -> Result<(), Diagnostic> {
        let Some((lost, end)) = self.loss(member.comm) else { return Ok(()) };
        let world = member.world;
        let refuse = |text: String, help: &str| {
            Err(Diagnostic::new(step.span, text).related(end, "its process ends here").help(help))
        };
        let aborted = match &step.comm {
            StepComm::Comm(name) => self.program.comms.standing(&name.value, world).is_some_and(|s| s.is_aborted()),
            StepComm::Groups(_) => false,
        };
        match step.op.kind {
            Kind::Map | Kind::Host(_) | Kind::Group | Kind::Loop | Kind::Graph(_) => Ok(()),
            Kind::Comm(CommOp::Init) => Ok(()),
            _ if self.leaves_in_progress(id, world) => refuse(
                format!(
                    "this communicator has lost rank {lost}, so it is not known whether this call stays in progress"
                ),
                "leave out `error`: without it the call may fail or not",
            ),
            Kind::Comm(CommOp::Shrink | CommOp::Revoke | CommOp::Abort) => Ok(()),
            Kind::Comm(CommOp::Destroy) if aborted => Ok(()),
            Kind::Comm(_) | Kind::OneSided(_) | Kind::Registration(_) => refuse(
                format!("this communicator has lost rank {lost}: NCCL leaves open what `{}` does then", step.op.name),
                "it can be shrunk, revoked or aborted, and destroyed after a `shrink` with `abort`",
            ),
            _ if self.fails(id, world)
                && !self.ended.noticed.contains(&(world, member.comm))
                && !self.program.lenient() =>
            {
                refuse(
                    format!(
                        "whether this call fails depends on whether rank {world} has noticed the end of rank {lost}"
                    ),
                    "put `{ op = \"wait\", error = \"remote_error\" }` before it, or leave out `error`: without it the call may fail or not",
                )
            }
            _ => Ok(()),
        }
    }

    /// The calls of a `wait` that is expected to return an error, one for each communicator that must report it.
    ///
    /// # Errors
    ///
    /// No communicator of the rank has lost a rank, or the error is one that no communicator reports then.
    pub(super) fn await_errors(&mut self, step: &Step, id: StepId, world: usize) -> Result<(), Diagnostic> {
        let at = step.error.as_ref().map_or(step.span, |error| error.span);
        let errors = &self.program.steps[id as usize].error;
        let code = errors.iter().find(|(rank, _)| *rank == world).and_then(|(_, code)| *code);
        if code.is_some_and(|code| code != ncclResult_t::RemoteError) {
            let text =
                "a communicator that has lost a rank reports `remote_error`, so a `wait` cannot end with this error";
            return Err(Diagnostic::new(at, text).help("write `error = \"remote_error\"`, or `error = \"any\"`"));
        }
        let in_use = self.program.comms.in_use(world);
        let exists = |comm: &CommId| *comm != WORLD || self.ended.world_is_made;
        let comms: Vec<CommId> = in_use.into_iter().filter(|comm| self.loss(*comm).is_some() && exists(comm)).collect();
        if comms.is_empty() {
            let text = format!(
                "rank {world} has no communicator in use that has lost a rank, so there is no error to wait for"
            );
            let help = "with `placement = \"processes\"` a step `exit` ends ranks whose end the others can notice";
            return Err(Diagnostic::new(at, text).help(help));
        }
        self.count(comms.len(), step.span)?;
        for comm in comms {
            self.ended.noticed.insert((world, comm));
            self.ended.world_is_awaited |= comm == WORLD;
            let call = CallKind::AwaitError { comm: comm as u32 };
            self.push(world, id, step.span, true, ItemKind::Call(call));
        }
        Ok(())
    }

    /// True if ranks wait for an error of the world, and it is not created because no step uses it.
    pub(super) fn awaits_a_world_that_is_not_made(&self) -> bool {
        self.ended.world_is_awaited && !self.program.comms.world_used
    }
}
