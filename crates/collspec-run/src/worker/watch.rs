//! The proof that a run hangs: every thread waits, nothing executes, and a second check finds that nothing moved in between.
//! The check is made when a thread starts to wait or to end and when the device falls idle; never after a fixed time.
use super::session::Run;
use crate::backend::Backend;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

struct Watch {
    backend: &'static Backend,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    run: Option<Arc<Run>>,
    asked: bool,
}

static WATCH: OnceLock<Watch> = OnceLock::new();

/// Starts watching, if the backend can tell whether anything moves. Once per process.
pub fn start(backend: &'static Backend) -> std::io::Result<()> {
    if backend.activity().is_none()
        || WATCH.set(Watch { backend, state: Mutex::default(), wake: Condvar::new() }).is_err()
    {
        return Ok(());
    }
    std::thread::Builder::new().name("watch".into()).spawn(watch)?;
    backend.set_idle_hook(Some(hook));
    Ok(())
}

/// Sets the run to watch, or `None`.
pub fn set(run: Option<Arc<Run>>) {
    if let Some(watch) = WATCH.get() {
        watch.state.lock().unwrap_or_else(PoisonError::into_inner).run = run;
    }
}

extern "C" fn hook() {
    consider();
}

/// Something just started to wait or to be idle: if that looks like a standstill, the watch thread checks closer.
pub fn consider() {
    let Some(watch) = WATCH.get() else { return };
    let mut state = watch.state.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(run) = state.run.clone() else { return };
    if watch.look(&run).is_some() {
        state.asked = true;
        watch.wake.notify_one();
    }
}

fn watch() {
    let Some(watch) = WATCH.get() else { return };
    loop {
        let run = {
            let mut state = watch.state.lock().unwrap_or_else(PoisonError::into_inner);
            while !state.asked {
                state = watch.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.asked = false;
            state.run.clone()
        };
        if let Some(run) = run {
            while let Some(first) = watch.look(&run) {
                if watch.look(&run) == Some(first) {
                    run.stuck(watch.backend.library.waiting_text());
                    break;
                }
            }
        }
    }
}

/// The state seen at one time; equal readings in a row mean that nothing moved from the end of the first to the start of the second.
#[derive(PartialEq, Eq)]
struct Look {
    epoch: u64,
    moves: u64,
    live: usize,
}

impl Watch {
    /// `Some` if everything waits.
    fn look(&self, run: &Run) -> Option<Look> {
        let census = self.backend.activity()?;
        let (at_barrier, moves) = run.barrier.waiting();
        let live = run.live();
        let still = live > 0 && !census.busy && census.blocked + at_barrier >= live;
        still.then_some(Look { epoch: census.epoch, moves, live })
    }
}
