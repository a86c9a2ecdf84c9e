//! A progress bar on the terminal while cases run.
use crate::judge::Status;
use crate::printable::printable;
use crate::report::Event;
use indicatif::{ProgressBar, ProgressStyle};

/// A progress bar; hidden if the standard error is no terminal.
pub struct ProgressDisplay {
    bar: ProgressBar,
    failed: usize,
}

impl ProgressDisplay {
    pub fn new() -> Self {
        let bar = ProgressBar::no_length();
        if let Ok(style) = ProgressStyle::with_template("{bar:32} {pos}/{len} {msg}") {
            bar.set_style(style);
        }
        Self { bar, failed: 0 }
    }

    /// Hides the bar while `report` writes.
    pub fn suspend<R>(&self, report: impl FnOnce() -> R) -> R {
        self.bar.suspend(report)
    }

    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Started { cases } => self.bar.set_length(*cases as u64),
            Event::CaseStarted { case } => self.message(&case.name),
            Event::CaseDone { verdict, .. } => {
                self.failed += usize::from(verdict.status == Status::Fail);
                self.bar.inc(1);
            }
            Event::Finished { .. } => self.bar.finish_and_clear(),
        }
    }

    /// Starts the bar anew for `number` steps.
    pub fn begin(&self, number: usize, what: &'static str) {
        self.bar.set_position(0);
        self.bar.set_length(number as u64);
        self.bar.set_message(what);
    }

    /// Counts one step.
    pub fn step(&self, name: String) {
        self.bar.inc(1);
        self.bar.set_message(printable(&name).into_owned());
    }

    /// Removes the bar.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn message(&self, name: &str) {
        let name = printable(name);
        match self.failed {
            0 => self.bar.set_message(name.into_owned()),
            failed => self.bar.set_message(format!("{failed} failed, {name}")),
        }
    }
}
