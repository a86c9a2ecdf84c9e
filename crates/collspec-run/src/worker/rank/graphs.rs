//! Captures, and launches of captured graphs.
use super::{Halt, Rank, garbled, staged};
use crate::backend::Staging;
use crate::job::CallKind;
use crate::worker::session::Run;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The data that the maps of a rank's graphs use as long as the graphs exist.
#[derive(Default)]
pub struct GraphMaps {
    staging: Option<Staging>,
    reporter: Reporter,
}

impl GraphMaps {
    /// Host memory that is kept from one run to the next.
    pub(super) fn staging(&mut self) -> Option<&mut Staging> {
        self.staging.as_mut()
    }
}

/// The run to which a map reports that it has no value: a captured map outlives the run that captured it.
#[derive(Clone, Default)]
pub(super) struct Reporter(Arc<Mutex<Weak<Run>>>);

impl Reporter {
    pub(super) fn map_failed(&self, rank: usize, call: u32, error: String) {
        let run = self.0.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        if let Some(run) = run {
            run.map_failed(rank, call, error);
        }
    }

    fn set(&self, run: &Arc<Run>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(run);
    }
}

impl Rank<'_> {
    /// Allocates the memory that the maps of graphs need.
    pub(super) fn prepare_graphs(&mut self) -> Result<(), Halt> {
        let captured = self.job().programs[self.rank].iter().filter_map(|call| match &call.kind {
            CallKind::Captured { call, .. } => Some(staged(call)),
            _ => None,
        });
        let mut captured = captured.peekable();
        if captured.peek().is_some() {
            let bytes = captured.fold(0, u64::saturating_add);
            self.state.graph_maps.staging = Some(self.run.backend.device.staging(bytes, 0)?);
        }
        Ok(())
    }

    /// The means by which a map reports that an element has no value.
    pub(super) fn reporter(&self, captured: bool) -> Reporter {
        let reporter = if captured { self.state.graph_maps.reporter.clone() } else { Reporter::default() };
        reporter.set(self.run);
        reporter
    }

    /// A call about graphs. A captured graph stays for all runs of a job.
    pub(super) fn graph_call(&mut self, index: u32, kind: &CallKind) -> Result<(), Halt> {
        match kind {
            CallKind::BeginCapture { graph, .. } | CallKind::EndCapture { graph, .. }
                if self.state.graphs.contains_key(graph) =>
            {
                Ok(())
            }
            CallKind::BeginCapture { stream, .. } => Ok(self.stream(*stream)?.begin_capture()?),
            CallKind::EndCapture { graph, stream } => {
                let made = self.stream(*stream)?.end_capture()?;
                self.state.graphs.insert(*graph, made);
                Ok(())
            }
            CallKind::Captured { graph, .. } if self.state.graphs.contains_key(graph) => Ok(()),
            CallKind::Captured { call, .. } => match &**call {
                CallKind::Map { .. } => self.map(index, call, true),
                call => {
                    self.touch(call);
                    self.perform(index, call)
                }
            },
            CallKind::Launch { graph, stream } => {
                self.state.graph_maps.reporter.set(self.run);
                let graph = self.state.graphs.get(graph).ok_or_else(|| garbled("graph"))?;
                Ok(graph.launch(self.stream(*stream)?)?)
            }
            CallKind::Release { graph } => {
                self.state.graphs.remove(graph);
                Ok(())
            }
            _ => Err(garbled("call")),
        }
    }
}
