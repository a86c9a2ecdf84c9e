//! Determines which communicators are non-blocking: only their calls may return that they are in progress.
use super::{CommId, Comms, Maker};
use crate::scenario::{Case, ConfigValue, Diagnostic, EnvValue};

/// The settings that decide if a communicator's calls wait until they are done.
#[derive(Debug)]
pub(super) struct Blocking {
    /// NCCL_COMM_BLOCKING, which takes precedence over every configuration.
    variable: Option<EnvValue>,
    /// For each communicator: true if it is created non-blocking.
    nonblocking: Vec<bool>,
}

fn is_nonblocking(config: &[(String, ConfigValue)]) -> bool {
    config.iter().any(|(field, value)| field == "blocking" && *value == ConfigValue::Int(0))
}

impl Blocking {
    pub(super) fn new(case: &Case) -> Self {
        let variable = case.env.iter().find(|variable| variable.name.value == "NCCL_COMM_BLOCKING");
        Self { variable: variable.map(|variable| variable.value.clone()), nonblocking: Vec::new() }
    }

    /// Adds the next communicator. Without a configuration it is like its parent.
    pub(super) fn add(&mut self, config: Option<&Vec<(String, ConfigValue)>>, parent: Option<CommId>) {
        self.nonblocking.push(self.of(config, parent));
    }

    /// True if a communicator that is made so is non-blocking.
    fn of(&self, config: Option<&Vec<(String, ConfigValue)>>, parent: Option<CommId>) -> bool {
        match (config, parent) {
            (Some(config), _) => is_nonblocking(config),
            (None, Some(parent)) => self.nonblocking[parent],
            (None, None) => false,
        }
    }

    /// The variable's value for a rank.
    fn variable(&self, world: usize) -> Option<bool> {
        let text = match self.variable.as_ref()? {
            EnvValue::All(text) => text,
            EnvValue::PerRank(texts) => texts.get(world)?,
        };
        match text.as_str() {
            "0" => Some(true),
            "1" => Some(false),
            _ => None,
        }
    }
}

impl Comms {
    /// True if a rank's calls on a communicator may return that they are in progress.
    pub fn is_nonblocking(&self, comm: CommId, world: usize) -> bool {
        self.blocking.variable(world).unwrap_or(self.blocking.nonblocking[comm])
    }

    /// Refuses a step that makes a communicator with another `blocking` than the step by which other ranks make it. NCCL allows it,
    /// but here a communicator is blocking or non-blocking on all its ranks.
    ///
    /// # Errors
    ///
    /// The step.
    pub(super) fn check_blocking_agrees(
        &self,
        by: Option<&Maker<'_>>,
        comm: CommId,
        config: Option<u32>,
        parent: Option<CommId>,
    ) -> Result<(), Diagnostic> {
        let Some(by) = by else { return Ok(()) };
        let config = config.and_then(|index| self.configs.get(index as usize));
        if self.blocking.of(config, parent) == self.blocking.nonblocking[comm] {
            return Ok(());
        }
        let text = "other ranks make this communicator by a step with another `blocking`";
        Err(Diagnostic::new(by.span, text).help("give both steps the same `blocking` in `config`"))
    }

    /// For each rank: its non-blocking communicators, in ascending order. Empty if no rank has any.
    pub fn nonblocking(&self, ranks: usize) -> Vec<Vec<u32>> {
        let mut by_rank = vec![Vec::new(); ranks];
        for (number, comm) in (0..).zip(&self.list) {
            for world in comm.members.iter().copied().filter(|world| self.is_nonblocking(number as usize, *world)) {
                by_rank[world].push(number);
            }
        }
        if by_rank.iter().all(Vec::is_empty) { Vec::new() } else { by_rank }
    }

    /// Refuses a grow for which one thread makes all calls, if the ranks that join differ from the communicator that grows.
    ///
    /// # Errors
    ///
    /// One of them is blocking and the other is not, but the calls of one group must be alike.
    pub(super) fn check_one_thread_grow(
        &self,
        by: &Maker<'_>,
        parent: CommId,
        new: CommId,
        config: Option<u32>,
    ) -> Result<(), Diagnostic> {
        // A rank that joins without a configuration gets the defaults, not the configuration of the communicator that grows.
        let config = config.and_then(|index| self.configs.get(index as usize));
        let joined = config.is_some_and(|config| is_nonblocking(config));
        let members = &self.list[new].members;
        let (Some(old), Some(joining)) = (members.first(), members.get(self.list[parent].members.len())) else {
            return Ok(());
        };
        if self.is_nonblocking(parent, *old) == self.blocking.variable(*joining).unwrap_or(joined) {
            return Ok(());
        }
        let text = "the communicator that grows and the ranks that join are not both blocking or both non-blocking, and one \
                    thread makes their calls in one group";
        Err(Diagnostic::new(by.span, text).help(
            "give the `grow` the `blocking` of its communicator in `config`, or let each rank have a thread: `placement = \"threads\"`",
        ))
    }
}
