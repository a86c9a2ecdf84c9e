//! One line on the terminal while cases run: finished and remaining work, running cases, and times.
use super::progress_line::ProgressState;
use collspec_suite::report::Event;
use indicatif::{ProgressBar, ProgressState as BarState, ProgressStyle};
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The interval at which the line is redrawn while no case ends, so that its times keep up.
const TICK: Duration = Duration::from_millis(500);
/// Width of a terminal that does not say how wide it is.
const USUAL_WIDTH: usize = 80;

/// A progress line; hidden if standard error is not a terminal.
pub struct ProgressDisplay {
    bar: ProgressBar,
    state: Arc<Mutex<ProgressState>>,
}

impl ProgressDisplay {
    pub fn new() -> Self {
        let bar = ProgressBar::no_length();
        let state = Arc::new(Mutex::new(ProgressState::new(Instant::now())));
        let drawn = state.clone();
        let line = move |_: &BarState, to: &mut dyn Write| {
            // An error here would only leave the line empty.
            let _ = to.write_str(&lock(&drawn).line(terminal_width(), Instant::now()));
        };
        if let Ok(style) = ProgressStyle::with_template("{line}") {
            bar.set_style(style.with_key("line", line));
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Self { bar, state }
    }

    /// Hides the line while `report` writes.
    pub fn suspend<R>(&self, report: impl FnOnce() -> R) -> R {
        self.bar.suspend(report)
    }

    pub fn event(&self, event: &Event) {
        match event {
            Event::Started { cases } => self.begin(*cases, None),
            Event::CaseStarted { case } => {
                lock(&self.state).started(&case.name, Instant::now());
                self.bar.tick();
            }
            Event::CaseDone { case, verdict } => {
                lock(&self.state).ended(&case.name, verdict.status.is_bad());
            }
            Event::FileInvalid { .. } | Event::FileWarned { .. } => {}
            Event::Finished { .. } => self.end(),
        }
    }

    /// Starts again with `number` steps.
    pub fn begin(&self, number: usize, what: Option<&'static str>) {
        lock(&self.state).begin(number, what, Instant::now());
        self.bar.tick();
    }

    /// Counts one step, which has ended.
    pub fn step(&self, name: &str) {
        lock(&self.state).step(name);
        self.bar.tick();
    }

    /// Removes the line from the terminal.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn lock(state: &Mutex<ProgressState>) -> MutexGuard<'_, ProgressState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The current number of columns of the terminal on the standard error.
fn terminal_width() -> usize {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stderr());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|width| *width > 0).unwrap_or(USUAL_WIDTH)
}
