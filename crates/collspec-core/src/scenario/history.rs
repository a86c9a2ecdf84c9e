//! `before`: the steps that run first in the processes of a case, turned into a separate case.
use super::case::{Case, CaseContent, CommDef, Step, StepComm, all_steps};
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
    let mut names: HashSet<&str> = all_steps(steps)
        .filter_map(|step| match &step.comm {
            StepComm::Comm(name) => Some(name.value.as_str()),
            StepComm::Groups(_) => None,
        })
        .collect();
    // A parent comes before its children, so in reverse order it is visited after them.
    for comm in comms.iter().rev() {
        if names.contains(comm.name.value.as_str()) {
            names.extend(comm.creation.parent());
        }
    }
    comms.iter().filter(|comm| names.contains(comm.name.value.as_str())).cloned().collect()
}
