//! A CUDA-like device on the host: memory, asynchronous streams, events. Work runs in stream order on a small fixed
//! number of executor threads; host threads wait by blocking. [`activity`] and [`set_idle_hook`] let a watcher prove that
//! nothing can move any more.
#![deny(unsafe_code)]

mod current;
mod device;
mod event;
mod executor;
mod lazy;
pub mod memory;
mod pool;
mod stream;

pub use current::{current, set_current};
pub use device::{Activity, activity, set_idle_hook, wake_hosts};
pub use event::Event;
pub use lazy::{begin_held, set_lazy};
pub use memory::OutOfMemory;
pub use stream::{Done, Stream};
