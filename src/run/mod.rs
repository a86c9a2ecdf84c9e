//! Parent side: worker pool, arena, schedule, watchdog.
pub mod arena;
pub mod event;
pub mod observation;

pub use event::Event;
pub use observation::{Ended, Observation};
