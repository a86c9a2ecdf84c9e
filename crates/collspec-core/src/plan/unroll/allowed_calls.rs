//! The calls still allowed on a communicator.
use super::super::comms::Use;
use super::super::types::StepId;
use super::{Member, Unroll};
use crate::scenario::{Diagnostic, Step, StepComm};

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
}
