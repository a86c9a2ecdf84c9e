//! Steps that create, change and end communicators.
use super::{Member, StepPosition, Unroll};
use crate::job::CallKind;
use crate::ops::CommOp;
use crate::plan::comms::Maker;
use crate::plan::eval::among;
use crate::plan::item::{ItemKind, RegistrationPoint};
use crate::plan::types::StepId;
use crate::scenario::{CommCreation, CommDef, Diagnostic, Span, Step, StepComm};
use nccl_sys::ncclResult_t;

impl<'a> Unroll<'a> {
    /// A step that makes communicators.
    pub(super) fn new_comm(
        &mut self,
        step: &Step,
        def: &CommDef,
        id: StepId,
        position: &StepPosition,
    ) -> Result<(), Diagnostic> {
        self.program.comm_steps = true;
        let n = self.program.n;
        let runs = (0..n).map(|world| among(&step.ranks, self.case, world)).collect::<Result<Vec<_>, _>>()?;
        let fails = (0..n).map(|world| self.fails(id, world)).collect();
        let errors = &self.program.steps[id as usize].error;
        let of_arguments = [None, Some(ncclResult_t::InvalidArgument), Some(ncclResult_t::InvalidUsage)];
        let is_refused = |world| errors.iter().any(|(rank, code)| *rank == world && of_arguments.contains(code));
        let refused = (0..n).map(is_refused).collect();
        let by = Maker {
            case: self.case,
            def,
            span: step.span,
            t: position.t,
            runs,
            own_ranks: step.own_ranks,
            fails,
            refused,
        };
        self.note_made(&def.name.value, (0..n).filter(|world| by.runs[*world] && by.fails[*world]));
        let calls = self.program.comms.define(&by)?;
        self.count(calls.len(), step.span)?;
        let abort_of = match &def.creation {
            CommCreation::Shrink { comm, abort: true, .. } => Some(comm),
            _ => None,
        };
        let mut callers: Vec<usize> = Vec::new();
        for (world, kind) in calls {
            let fails = self.fails(id, world) && !matches!(kind, CallKind::GrowId { .. });
            let parent = match &kind {
                CallKind::Split { .. } | CallKind::Shrink { .. } | CallKind::Grow { parent: Some(_), .. } => {
                    Some(step.span)
                }
                _ => None,
            };
            self.check_joins(step, world)?;
            self.check_parent_lives(step, world, parent)?;
            self.push(world, id, step.span, fails, ItemKind::Call(kind));
            if let (Some(comm), false) = (abort_of, fails) {
                self.program.comms.note(&comm.value, world, CommOp::Shrink, step.span);
            }
            callers.push(world);
        }
        self.program.steps[id as usize].error.retain(|(rank, _)| callers.contains(rank));
        self.registration_point_of_new(&def.name.value, &callers);
        Ok(())
    }

    /// Refuses a call that creates a communicator from one that this rank has ended.
    fn check_parent_lives(&mut self, step: &Step, world: usize, at: Option<Span>) -> Result<(), Diagnostic> {
        let (Some(at), StepComm::Comm(name)) = (at, &step.comm) else { return Ok(()) };
        match self.program.comms.ended(&name.value, world) {
            Some(end) => {
                let text = format!("world rank {world} has ended this communicator before");
                Err(Diagnostic::new(at, text).related(end, "ended here"))
            }
            None => Ok(()),
        }
    }

    /// A step that changes or ends its communicator.
    pub(super) fn comm_call(
        &mut self,
        step: &Step,
        op: CommOp,
        (before, id): (StepId, StepId),
        members: &[Member<'a>],
    ) -> Result<(), Diagnostic> {
        self.program.comm_steps = true;
        self.count(members.len(), step.span)?;
        for member in members.iter().filter(|_| matches!(op, CommOp::Finalize | CommOp::Destroy)) {
            self.point(member.world, before, RegistrationPoint::Ending(member.comm));
        }
        for member in members {
            let comm = member.comm as u32;
            let kind = match op {
                CommOp::Finalize => CallKind::Finalize { comm },
                CommOp::Revoke => CallKind::Revoke { comm },
                CommOp::Suspend => CallKind::Suspend { comm },
                CommOp::Resume => CallKind::Resume { comm },
                CommOp::Destroy => CallKind::Destroy { comm },
                _ => CallKind::Abort { comm },
            };
            let fails = self.fails(id, member.world);
            self.push(member.world, id, step.span, fails, ItemKind::Call(kind));
            if op == CommOp::Abort && !fails {
                self.point(member.world, id, RegistrationPoint::Aborted(member.comm));
            }
            if let (StepComm::Comm(name), false) = (&step.comm, fails) {
                self.program.comms.note(&name.value, member.world, op, step.span);
            }
        }
        Ok(())
    }
}
