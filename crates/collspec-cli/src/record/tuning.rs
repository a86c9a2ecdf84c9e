//! Asks a library what it decides on the machine that software GPUs are given, for a run's header.
use crate::tuning::{Calls, NAMES_OPERATIONS, Request, Tuning, ask, nodes_of};
use collspec_run::run::Backend;
use collspec_suite::suite::{ChosenBackend, RunOptions};
use std::time::Duration;

/// Limit on the time that the library is asked.
const LIMIT: Duration = Duration::from_secs(60);
/// Limit on the ranks: more of them take minutes.
const MOST_RANKS: usize = 64;

/// The decisions, or why there are none; `None` where no machine was named, or the library does not tell them.
pub fn tuning(chosen: &ChosenBackend, options: &RunOptions) -> Option<Result<Box<Tuning>, String>> {
    let (Backend::Nccl { library, .. }, Some(machine)) = (&chosen.backend, chosen.machine.as_deref()) else {
        return None;
    };
    machine.software.as_ref()?.profile.as_ref()?;
    let ranks = machine.gpus.devices.len() * machine.node_names().len().max(1);
    if machine.probed.version < NAMES_OPERATIONS || ranks > MOST_RANKS {
        return None;
    }
    let nodes = nodes_of(chosen, options, library, machine, ranks, &Calls::usual())?;
    let request = Request { library: chosen.describe(), nodes, limit: LIMIT, workers: options.workers.clone() };
    Some(ask(&request).map(Box::new).map_err(|error| format!("{:#}", anyhow::Error::new(error))))
}
