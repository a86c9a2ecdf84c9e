//! Times of points in a stream.
use super::{Halt, Rank};
use crate::backend::TimedEvent;

impl Rank<'_> {
    /// A point in the first stream whose time is known once the stream has passed it.
    pub fn timestamp(&mut self) -> Result<TimedEvent, Halt> {
        let event = self.run.backend.device.timed_event()?;
        self.stream(0)?.record_time(&event)?;
        Ok(event)
    }

    /// Seconds from one point to a later one. The stream has passed both.
    pub fn seconds_between(&self, from: &TimedEvent, to: &TimedEvent) -> Result<f64, Halt> {
        Ok(from.seconds_to(to)?)
    }
}
