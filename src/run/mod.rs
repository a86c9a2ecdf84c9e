//! Parent side: worker pool, arena, schedule, watchdog.
pub mod event;
pub mod arena;
pub mod observation;

pub use event::Event;
pub use observation::{Ended, Observation};
