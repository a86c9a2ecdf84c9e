//! Steps that create, change and end communicators.
use super::{Member, StepPosition, Unroll};
use crate::job::CallKind;
use crate::ops::CommOp;
use crate::plan::eval::among;
use crate::plan::item::{ItemKind, RegistrationPoint};
use crate::plan::types::StepId;
use crate::scenario::{CommCreation, CommDef, Diagnostic, Step, StepComm};

impl<'a> Unroll<'a> {
    /// A step that makes a communicator.
    pub(super) fn new_comm(
        &mut self,
        step: &Step,
        def: &CommDef,
        id: StepId,
        position: &StepPosition,
    ) -> Result<(), Diagnostic> {
        self.program.comm_steps = true;
        if let CommCreation::Shrink { .. } | CommCreation::Grow { .. } = def.creation {
            return self.changed_comm(step, def, id, position);
        }
        let failing: Vec<usize> = (0..self.case.world_size.value).filter(|world| self.fails(id, *world)).collect();
        let calls = self.program.comms.define(self.case, def, position.t, &failing)?;
        self.count(calls.len(), step.span)?;
        for (world, kind) in calls {
            let fails = self.fails(id, world);
            if among(&step.ranks, self.case, world)? {
                self.check_joins(step, world)?;
                self.check_parent_lives(step, world, matches!(kind, CallKind::Split { .. }).then_some(step.span))?;
                self.push(world, id, step.span, fails, ItemKind::Call(kind));
            } else {
                self.program.comms.leave_unmade(&def.name.value, world);
            }
        }
        self.registration_point_of_new(&def.name.value);
        Ok(())
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
