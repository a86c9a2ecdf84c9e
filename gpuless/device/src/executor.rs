//! Runs ready streams: on threads of the device, or on host threads that wait for it.
use crate::device::{Locked, call_hook, lock, wait_for_work};
use crate::drive;
use crate::stream::{Done, Item, Stream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// Never a thread per stream: a thousand ranks have thousands of streams.
const THREADS: usize = 2;
/// Items of one stream in a row while others are ready.
const TURN: usize = 64;

/// Starts the threads when there is work for the first time.
pub(crate) fn ensure() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let started = (0..THREADS)
            .filter(|i| std::thread::Builder::new().name(format!("gpuless-device {i}")).spawn(run).is_ok())
            .count();
        if started == 0 {
            // a device that never executes anything would look like a hang of the program under test
            eprintln!("gpuless-device: cannot start an executor thread");
            std::process::abort();
        }
    });
}

fn run() {
    let mut state = lock();
    loop {
        let Some(stream) = state.ready.pop_front() else {
            state = wait_for_work(state);
            continue;
        };
        state = turn(state, &stream);
        if !state.busy() {
            drop(state);
            drop(stream);
            call_hook();
            state = lock();
        }
    }
}

/// Runs a ready stream for its turn; the lock is released while its items run.
pub(crate) fn turn(mut state: Locked, stream: &Stream) -> Locked {
    state.executing += 1;
    for turn in 0.. {
        let Some(item) = stream.take(&mut state) else { break };
        let long = item.may_take_long();
        if long {
            state.wake_executor();
        }
        drop(state);
        if long {
            drive::wake_hosts();
            drive::hand_over();
        } else if turn > 0 && turn % TURN == 0 {
            // A series of many short items takes long.
            drive::wake_hosts();
        }
        let launched = matches!(item, Item::Launch(_));
        // a panic has been reported by the panic hook; the thread, and the stream, must continue
        let _ = catch_unwind(AssertUnwindSafe(|| match item {
            Item::Copy(copy) => copy.run(),
            Item::Host(f) => {
                let _pause = drive::Pause::begin();
                f();
            }
            Item::Launch(start) => start(Done::new(stream.clone())),
            Item::Record(_) | Item::Wait(_) => {}
        }));
        state = lock();
        if launched {
            break; // the stream belongs to its `Done` now
        }
        stream.finished(&mut state);
        if turn >= TURN && !state.ready.is_empty() {
            stream.go_on(&mut state);
            break;
        }
    }
    state.executing -= 1;
    state.epoch += 1;
    state
}
