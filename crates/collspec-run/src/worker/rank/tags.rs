//! The figures of named steps: their time, and the traffic of their communicators.
use super::{Halt, Rank};
use crate::backend::{CommHandle, CommSlot};
use crate::job::{Figure, Traffic};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A named step that is being timed or counted.
pub(super) struct Tag {
    tag: u32,
    began: Option<Instant>,
    nanos: Arc<AtomicU64>,
    comms: Vec<u32>,
}

/// Stops the clock of a named step.
pub(super) type StopClock = Box<dyn FnOnce() + Send>;

impl Rank<'_> {
    pub(super) fn begin(&mut self, tag: u32, comm: Option<u32>) -> Result<(), Halt> {
        let handle = comm.map(|c| self.comm(c).map(CommSlot::get)).transpose()?;
        let first = self.run.first_tag;
        if let Some(handle) = handle {
            self.run.backend.library.count_traffic_under(handle, first.wrapping_add(tag));
        }
        let at = match self.tags.iter().position(|t| t.tag == tag) {
            Some(at) => at,
            None => {
                self.tags.push(Tag { tag, began: None, nanos: Arc::default(), comms: Vec::new() });
                self.tags.len() - 1
            }
        };
        let entry = &mut self.tags[at];
        entry.comms.extend(comm.filter(|c| !entry.comms.contains(c)));
        entry.began = Some(Instant::now());
        Ok(())
    }

    pub(super) fn end_tag(&mut self, tag: u32, stream: Option<u32>) -> Result<(), Halt> {
        let Some(entry) = self.tags.iter_mut().find(|t| t.tag == tag) else { return Ok(()) };
        let Some(began) = entry.began.take() else { return Ok(()) };
        for comm in &entry.comms {
            if let Some(slot) = self.state.comms.get(*comm as usize) {
                self.run.backend.library.count_traffic_under(slot.get(), 0);
            }
        }
        let nanos = entry.nanos.clone();
        let stop = move || _ = nanos.fetch_add(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
        match stream {
            // operations of an open group are not on the stream yet
            Some(stream) if self.depth > 0 => self.clocks.push((stream, Box::new(stop))),
            Some(stream) => self.stream(stream)?.host_fn(Box::new(stop))?,
            None => stop(),
        }
        Ok(())
    }

    pub(super) fn figure(&self, tag: &Tag) -> Figure {
        let number = self.run.first_tag.wrapping_add(tag.tag);
        let mut sum: Option<Traffic> = None;
        for comm in &tag.comms {
            let Some(handle) =
                self.state.comms.get(*comm as usize).map(CommSlot::get).filter(|h| *h != CommHandle::NULL)
            else {
                sum = None; // ended meanwhile: part of the figure is lost, so there is none
                break;
            };
            let Some(t) = self.run.backend.library.traffic(handle, number) else { break };
            let s = sum.get_or_insert_default();
            s.rounds += t.rounds;
            s.sent += t.sent;
            s.received += t.received;
            s.inner += t.inner;
        }
        Figure { tag: tag.tag, seconds: tag.nanos.load(Ordering::Relaxed) as f64 * 1e-9, traffic: sum }
    }
}
