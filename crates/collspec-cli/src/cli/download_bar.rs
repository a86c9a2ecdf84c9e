//! Shows the progress of a download in a line on the terminal; on other outputs nothing is shown.
use crate::fetch::DownloadProgress;
use indicatif::{ProgressBar, ProgressStyle};

/// The line; hidden if standard error is not a terminal.
pub struct DownloadBar(ProgressBar);

impl DownloadBar {
    pub fn new() -> Self {
        Self(ProgressBar::no_length())
    }

    /// Shows the progress, with a bar once the size is known.
    pub fn show(&self, progress: DownloadProgress) {
        let template = match progress.of {
            Some(of) => {
                self.0.set_length(of);
                "[{bar:30}] {decimal_bytes} of {decimal_total_bytes}, {eta} left"
            }
            None => "{decimal_bytes} in {elapsed}",
        };
        // With an invalid template the line would only keep its default style.
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.0.set_style(style.progress_chars("= "));
        }
        self.0.set_position(progress.bytes);
    }

    /// Removes the line from the terminal.
    pub fn end(&self) {
        self.0.finish_and_clear();
    }
}
