//! Calls that a step leaves in progress: which ones may be, and the state of their communicators afterwards.
use super::super::item::Phase;
use super::super::types::StepId;
use super::{Member, Unroll};
use crate::ops::{CommOp, Kind};
use crate::scenario::{Diagnostic, Placement, Step, StepComm, StepKind};
use nccl_sys::ncclResult_t;

const IN_PROGRESS: Option<ncclResult_t> = Some(ncclResult_t::InProgress);

/// The end of a rank's call as stated by a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallEnd {
    Works,
    Fails,
    LeftInProgress,
}

fn end(code: Option<ncclResult_t>) -> CallEnd {
    match code {
        Some(ncclResult_t::Success) => CallEnd::Works,
        IN_PROGRESS => CallEnd::LeftInProgress,
        _ => CallEnd::Fails,
    }
}

/// The communicator on which a step's call can be left in progress.
fn communicator(step: &Step) -> Option<&str> {
    match (&step.kind, &step.comm) {
        (StepKind::NewComm(new), _) if new.creation.parent().is_none() => Some(&new.name.value),
        (StepKind::Collective(_) | StepKind::Send { .. } | StepKind::Recv { .. }, StepComm::Comm(name))
        | (StepKind::Comm(CommOp::Finalize | CommOp::Revoke), StepComm::Comm(name)) => Some(&name.value),
        _ => None,
    }
}

impl<'a> Unroll<'a> {
    /// Refuses a call that cannot answer that it is in progress, or cannot be left so.
    ///
    /// # Errors
    ///
    /// The step's `error`.
    pub(super) fn check_left_in_progress(&mut self, step: &Step, id: StepId) -> Result<(), Diagnostic> {
        let planned = &self.program.steps[id as usize];
        if !planned.error.iter().any(|(_, code)| *code == IN_PROGRESS) {
            return Ok(());
        }
        let (text, help) = if communicator(step).is_none() {
            (
                format!("`{}` cannot be left in progress", step.op.name),
                "the steps that can are init, finalize, revoke, send, recv and collectives with `comm`",
            )
        } else if self.group.is_some() {
            (
                "a call in a group is not begun before the group ends, so it cannot answer `in_progress`".to_owned(),
                "move the step out of the group",
            )
        } else if matches!(self.phase, Phase::Captured(_)) {
            (
                "a captured call does not run, so it cannot be left in progress".to_owned(),
                "leave `graph` out of this step",
            )
        } else {
            return Ok(());
        };
        Err(Diagnostic::new(planned.error_span.unwrap_or(step.span), text).help(help))
    }

    /// Notes the calls that should answer that they are in progress and that nothing waits for.
    ///
    /// # Errors
    ///
    /// A call on a blocking communicator.
    pub(super) fn note_in_progress(
        &mut self,
        step: &Step,
        id: StepId,
        members: &[Member<'a>],
    ) -> Result<(), Diagnostic> {
        let planned = &self.program.steps[id as usize];
        let left: Vec<usize> =
            planned.error.iter().filter(|(_, code)| *code == IN_PROGRESS).map(|(world, _)| *world).collect();
        let Some(name) = communicator(step).filter(|_| !left.is_empty()) else { return Ok(()) };
        let made = self.program.comms.of_name(name);
        for world in left {
            let comm = match step.op.kind {
                Kind::Comm(CommOp::Init) => made.get(world).copied().flatten().map(|(comm, _)| comm),
                _ => members.iter().find(|member| member.world == world).map(|member| member.comm),
            };
            if comm.is_some_and(|comm| !self.program.comms.is_nonblocking(comm, world)) {
                let at = self.program.steps[id as usize].error_span.unwrap_or(step.span);
                let text = format!("`{name}` is blocking, so a call on it never answers `in_progress`");
                return Err(Diagnostic::new(at, text)
                    .help("make the communicator with `config = { blocking = 0 }`, or leave `error` out"));
            }
            let makes = matches!(step.op.kind, Kind::Comm(CommOp::Init));
            self.program.comms.leave_in_progress(name, world, step.span, makes);
        }
        Ok(())
    }

    /// Refuses a step in which some ranks' calls fail and others succeed, where one thread makes all of them in one group: the group
    /// fails as a whole.
    ///
    /// # Errors
    ///
    /// The step's `error`.
    pub(super) fn check_errors_of_one_thread(&self, step: &Step, id: StepId) -> Result<(), Diagnostic> {
        // The calls of these are made rank by rank.
        let single = matches!(step.op.kind, Kind::Comm(CommOp::Revoke | CommOp::Suspend | CommOp::Resume));
        if single || self.case.placement != Placement::OneThread {
            return Ok(());
        }
        let planned = &self.program.steps[id as usize];
        let mut ends = planned.error.iter().map(|(_, code)| end(*code));
        let Some(first) = ends.next() else { return Ok(()) };
        if ends.all(|other| other == first) {
            return Ok(());
        }
        let text =
            "with `placement = \"one_thread\"` a step is one group over all ranks, which works or fails as a whole";
        Err(Diagnostic::new(planned.error_span.unwrap_or(step.span), text)
            .help("give all ranks of the step an error, or none; or name those that are to fail with `ranks`"))
    }
}
