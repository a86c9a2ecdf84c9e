//! Tests through the C functions, as a program calls them.
#![allow(unsafe_code)] // C functions

mod end;
mod errors;
mod faults;
mod handles;
mod hostile;
mod layouts;
mod lines;
mod operations;
mod processes;
mod programs;
mod states;

use crate::{Arrival, LinkLayer, Nic, Settings, configure, set_arrival};
use std::env;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

/// How long requests of the tests try without an answer.
pub const RETRY: Duration = Duration::from_millis(500);
/// Longer than anything takes.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Calls a function by its name.
macro_rules! call {
    ($name:ident: fn($($type:ty),*) $(-> $result:ty)?; $($argument:expr),*) => {{
        let function = crate::function(stringify!($name)).unwrap();
        // SAFETY: the types of the function in the header, and arguments of the test's own.
        unsafe {
            let function: unsafe extern "C" fn($($type),*) $(-> $result)? = std::mem::transmute(function);
            function($($argument),*)
        }
    }};
}
use call;

/// Five cards; the second is of the other kind, and faults break the last ones. Children of a test are in its network, as other nodes.
pub fn set_up() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let nic = |index: usize, link| Nic {
            name: format!("mlx5_{index}"),
            bus: format!("0000:8{index}:00.0"),
            speed: 400,
            link,
        };
        if let Ok(bytes) = env::var("GPULESS_VERBS_TEST_LINE") {
            set_arrival(Arrival::ShuffledLines { bytes: bytes.parse().unwrap(), seed: 1 });
        }
        let own = format!("test-{}", std::process::id());
        let settings = Settings {
            nics: vec![
                nic(0, LinkLayer::InfiniBand),
                nic(1, LinkLayer::Ethernet),
                nic(2, LinkLayer::InfiniBand),
                nic(3, LinkLayer::InfiniBand),
                nic(4, LinkLayer::InfiniBand),
            ],
            node: env::var("GPULESS_VERBS_TEST_NODE").unwrap_or_else(|_| String::from("a")),
            fabric: env::var("GPULESS_VERBS_TEST_FABRIC").unwrap_or(own),
            retry_time: Some(RETRY),
        };
        configure(settings).unwrap();
    });
}

/// Faults are those of the process: tests with one are alone. Other tests must not send messages that count, so all of them take this.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    set_up();
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
