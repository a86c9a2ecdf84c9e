//! A CUDA-like device on the host: memory, asynchronous streams, events, captured graphs. Work runs in stream order on a small fixed
//! number of executor threads and on host threads that wait for it, which block when there is nothing to do. [`activity`] and [`set_idle_hook`] let a watcher prove that
//! nothing can move any more.
#![deny(unsafe_code)]

mod current;
mod drive;
mod identity;
pub mod refusals;
pub mod memory;
pub mod virtual_memory;
pub mod arena;
mod device;
mod executor;
mod lazy;
mod event;
mod capture;
mod pool;
mod graph;
mod stream;
mod point;

pub use capture::{CaptureError, CaptureMode, CaptureStatus};
pub use current::{current, set_current};
pub use device::{Activity, activity, set_idle_hook, wake_hosts};
pub use drive::{Helper, is_driving, set_helper};
pub use event::Event;
pub use graph::{Graph, GraphExec, HostNode, LaunchNode, NodeKind, Start};
pub use identity::uuid;
pub use lazy::{begin_held, set_lazy, set_patient};
pub use memory::OutOfMemory;
pub use point::CapturePoint;
pub use stream::{Done, Stream};
