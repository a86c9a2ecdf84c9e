//! Steps of groups, which surround the items of other steps, and the numbers of graphs.
use super::{Member, StepPosition, Unroll};
use crate::job::CallKind;
use crate::plan::item::{Item, ItemKind, Phase};
use crate::plan::order;
use crate::plan::types::StepId;
use crate::scenario::{Diagnostic, Step};

impl<'a> Unroll<'a> {
    pub(super) fn group(
        &mut self,
        step: &Step,
        steps: &'a [Step],
        id: StepId,
        position: &StepPosition,
        members: &[Member<'a>],
    ) -> Result<(), Diagnostic> {
        let starts: Vec<usize> = self.program.items.iter().map(Vec::len).collect();
        let mark = self.program.order.len();
        let outermost = self.open_group(step);
        self.steps(steps, &position.path, position.t)?;
        if outermost {
            self.close_group(id);
        }
        for (world, &from) in starts.iter().enumerate() {
            let calls = |i: &Item| {
                !matches!(
                    i.kind,
                    ItemKind::Call(CallKind::Begin { .. } | CallKind::End { .. } | CallKind::After { .. })
                        | ItemKind::RegistrationPoint(_)
                        | ItemKind::Declare { .. }
                )
            };
            // An empty group is called by every rank that the step is for, any other group by the ranks that have a call in it.
            let opens = steps.is_empty() && members.iter().any(|member| member.world == world);
            if !opens && !self.program.items[world][from..].iter().any(calls) {
                self.program.steps[id as usize].error.retain(|(rank, _)| *rank != world);
                continue;
            }
            // A call that fails makes its whole group fail, so no part of the group affects memory.
            let fails = self.fails(id, world) || self.program.items[world][from..].iter().any(|i| i.fails);
            for item in &mut self.program.items[world][from..] {
                item.fails |= fails;
            }
            // In a group all steps are captured into one graph, or none is.
            let mut phases = self.program.items[world][from..].iter().map(|item| (item.phase, item.span));
            let (phase, _) = phases.next().unwrap_or((Phase::Eager, step.span));
            if let Some((_, other)) = phases.find(|(other, _)| *other != phase).filter(|_| !fails) {
                let text = "the steps of a group are captured into one graph, or none of them is";
                return Err(Diagnostic::new(other, text)
                    .related(step.span, "the group")
                    .help("write `graph` on the group, so that it holds for all its steps; one-sided operations cannot be captured"));
            }
            let item = |kind| Item { step: id, span: step.span, fails, phase, kind: ItemKind::Call(kind) };
            self.program.items[world].insert(from, item(CallKind::GroupStart));
            self.program.items[world].push(item(CallKind::GroupEnd));
            self.count(2, step.span)?;
        }
        self.program.units[id as usize..].fill(id);
        order::restore(&mut self.program.order, mark, &self.program.items, &starts);
        Ok(())
    }

    /// The number of a graph's name.
    pub(super) fn graph(&mut self, name: &str) -> u32 {
        let graphs = &mut self.program.graphs;
        let found = graphs.iter().position(|known| known == name);
        found.unwrap_or_else(|| {
            graphs.push(name.to_owned());
            graphs.len() - 1
        }) as u32
    }
}
