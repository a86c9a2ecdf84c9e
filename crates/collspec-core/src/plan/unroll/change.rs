//! Steps that change communicators: the calls still allowed on one, and the steps shrink and grow.
use super::super::comms::{ChangedBy, Use};
use super::super::eval::among;
use super::super::item::ItemKind;
use super::super::types::StepId;
use super::{Member, StepPosition, Unroll};
use crate::job::CallKind;
use crate::ops::CommOp;
use crate::scenario::{CommCreation, CommDef, Diagnostic, Span, Step, StepComm};

impl<'a> Unroll<'a> {
    /// Refuses a call on a communicator whose state no longer allows it, unless the step says that it fails and NCCL documents
    /// the error.
    ///
    /// # Errors
    ///
    /// The diagnostic names the call, and the step that restricts it.
    pub(super) fn check_standing(&mut self, step: &Step, id: StepId, members: &[Member<'a>]) -> Result<(), Diagnostic> {
        members.iter().try_for_each(|member| self.check_loss(step, id, member))?;
        let StepComm::Comm(name) = &step.comm else { return Ok(()) };
        for member in members {
            let world = member.world;
            let Some(standing) = self.program.comms.standing(&name.value, world) else { continue };
            let (text, since, help) = match standing.allows(&step.op.kind) {
                Use::Fine => continue,
                Use::Fails { .. } if self.fails(id, world) || self.program.lenient() => continue,
                Use::Fails { why, code, since } => {
                    let text = format!("on rank {} this communicator {why}", member.names.rank);
                    (text, since, format!("a step that is to fail has `error = \"{code}\"`"))
                }
                Use::Undefined { why, since, help } => (why.to_owned(), since, help.to_owned()),
            };
            let d = Diagnostic::new(step.span, text).help(help);
            return Err(match since {
                Some(since) => d.related(since, "here"),
                None => d,
            });
        }
        Ok(())
    }

    /// The calls of a shrink or grow.
    ///
    /// # Errors
    ///
    /// See [`super::super::comms::Comms::change`].
    pub(super) fn changed_comm(
        &mut self,
        step: &Step,
        def: &CommDef,
        id: StepId,
        position: &StepPosition,
    ) -> Result<(), Diagnostic> {
        let n = self.program.n;
        let runs = (0..n).map(|world| among(&step.ranks, self.case, world)).collect::<Result<Vec<_>, _>>()?;
        let fails = (0..n).map(|world| self.fails(id, world)).collect();
        let by = ChangedBy { case: self.case, def, span: step.span, t: position.t, runs, named: step.own_ranks, fails };
        let calls = self.program.comms.change(&by)?;
        self.count(calls.len(), step.span)?;
        let abort_of = match &def.creation {
            CommCreation::Shrink { comm, abort: true, .. } => Some(comm),
            _ => None,
        };
        for (world, kind) in calls {
            let fails = self.fails(id, world);
            let parent = match &kind {
                CallKind::Shrink { .. } | CallKind::Grow { parent: Some(_), .. } => Some(step.span),
                _ => None,
            };
            self.check_joins(step, world)?;
            self.check_parent_lives(step, world, parent)?;
            self.push(world, id, step.span, fails, ItemKind::Call(kind));
            if let (Some(comm), false) = (abort_of, fails) {
                self.program.comms.note(&comm.value, world, CommOp::Shrink, step.span);
            }
        }
        self.registration_point_of_new(&def.name.value);
        Ok(())
    }

    /// Refuses a call that creates a communicator from one that this rank has ended.
    pub(super) fn check_parent_lives(&mut self, step: &Step, world: usize, at: Option<Span>) -> Result<(), Diagnostic> {
        let (Some(at), StepComm::Comm(name)) = (at, &step.comm) else { return Ok(()) };
        match self.program.comms.ended(&name.value, world) {
            Some(end) => {
                let text = format!("world rank {world} has ended this communicator before");
                Err(Diagnostic::new(at, text).related(end, "ended here"))
            }
            None => Ok(()),
        }
    }
}
