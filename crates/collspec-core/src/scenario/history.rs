//! `before`: the steps that run first in the processes of a case, turned into a separate case.
use super::case::{Case, CaseContent, CommCreation, CommDef, Step, StepComm};
use std::collections::HashSet;
use std::sync::Arc;

impl Case {
    /// The program of `before`, with its own buffers and communicators; `None` if the file has no `before`. It keeps the case's name.
    pub fn history(&self) -> Option<Self> {
        if self.before.is_empty() {
            return None;
        }
        let content = CaseContent {
            steps: self.before.clone(),
            comms: self.comms_before.clone(),
            before: Vec::new(),
            comms_before: Vec::new(),
            expect: Vec::new(),
            asserts: Vec::new(),
            outcome: None,
            reason: None,
            repeat: 1,
            ..(**self).clone()
        };
        Some(Self { content: Arc::new(content), ..self.clone() })
    }
}

/// The communicators named by the steps, with those that they are split from.
pub(crate) fn used_by(steps: &[Step], comms: &[CommDef]) -> Vec<CommDef> {
    let mut names = HashSet::new();
    add_names(steps, &mut names);
    // A parent comes before its children, so in reverse order it is visited after them.
    for comm in comms.iter().rev() {
        if let CommCreation::Split { comm: parent, .. } = &comm.creation
            && names.contains(&comm.name.value)
        {
            names.insert(parent.value.clone());
        }
    }
    comms.iter().filter(|comm| names.contains(&comm.name.value)).cloned().collect()
}

fn add_names(steps: &[Step], names: &mut HashSet<String>) {
    for step in steps {
        if let StepComm::Comm(name) = &step.comm {
            names.insert(name.value.clone());
        }
        if let Some(CommCreation::Split { comm, .. }) = step.new.as_ref().map(|new| &new.creation) {
            names.insert(comm.value.clone());
        }
        add_names(&step.steps, names);
    }
}
