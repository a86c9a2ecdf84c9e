//! Parent side: worker pool, arena, schedule, watchdog.
pub mod arena;
pub mod observation;

pub use observation::{Ended, Observation};
