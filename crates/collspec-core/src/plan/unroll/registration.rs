//! The places of a program at which buffers with the key `register` are registered, and its steps that register memory. Which
//! buffers each communicator uses is known only when the whole program is.
use super::super::item::{ItemKind, RegistrationPoint};
use super::super::types::{PlanStep, StepId};
use super::Unroll;
use crate::ops::{CommOp, Kind};
use crate::scenario::{RegisterByRank, RegisterKind, Span, Step};

impl Unroll<'_> {
    /// A step of the plan, not of the file, for registrations.
    fn begin_registration(&mut self, label: &str) -> StepId {
        let id = self.program.steps.len() as StepId;
        let span = self.registration_span();
        self.program.steps.push(PlanStep { span, label: label.to_owned(), error: Vec::new(), error_span: None });
        self.program.units.push(id);
        id
    }

    /// The place where the file first says `register`.
    fn registration_span(&self) -> Span {
        let registers = |register: &&RegisterByRank| register.kinds.iter().any(|kind| *kind != RegisterKind::None);
        let own = self.case.inputs.iter().filter_map(|def| def.register.as_ref()).find(registers);
        own.or(self.case.register.as_ref()).map_or(self.case.span, |register| register.span)
    }

    /// The step of the plan in front of a step of the file that ends a communicator, for memory that must be deregistered first.
    pub(super) fn registration_step(&mut self, step: &Step) -> StepId {
        let ends = matches!(step.op.kind, Kind::Comm(CommOp::Finalize | CommOp::Destroy));
        if ends && self.registers { self.begin_registration("the deregistration before this step") } else { 0 }
    }

    /// A place on every rank.
    pub(super) fn registration_point(&mut self, point: RegistrationPoint) {
        if self.registers {
            let first = point == RegistrationPoint::First;
            let step = self.begin_registration(if first { "the registration" } else { "the deregistration" });
            (0..self.program.n).for_each(|world| self.point(world, step, point));
            if first {
                self.first_signals();
            }
        }
    }

    /// The place at which ranks make the first signal of communicators with new windows.
    pub(super) fn first_signals(&mut self) {
        if self.signals {
            let step = self.begin_registration("the first signal");
            (0..self.program.n).for_each(|world| self.point(world, step, RegistrationPoint::Signals));
        }
    }

    /// Adds a registration point after the step by which these ranks made the communicators of a name.
    pub(super) fn registration_point_of_new(&mut self, name: &str, callers: &[usize]) {
        if !self.registers {
            return;
        }
        let step = self.begin_registration(&format!("the registration with `{name}`"));
        let made = self.program.comms.of_name(name);
        for world in callers {
            if let Some((comm, _)) = made.get(*world).copied().flatten() {
                self.point(*world, step, RegistrationPoint::Made(comm));
            }
        }
        self.first_signals();
    }

    pub(super) fn point(&mut self, world: usize, step: StepId, point: RegistrationPoint) {
        if self.registers {
            let span = self.registration_span();
            self.push(world, step, span, false, ItemKind::RegistrationPoint(point));
        }
    }
}
