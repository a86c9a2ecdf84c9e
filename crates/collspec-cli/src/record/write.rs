//! Writes a recording while the cases run.
use super::{Closing, Header, MAX_LINE, RecordedCase};
use collspec_suite::report::{Event, Reporter};
use serde::Serialize;
use std::io::{self, Write};

/// Records the events of a run.
pub struct RecordingWriter<W> {
    to: W,
    recorded: usize,
}

impl<W: Write> RecordingWriter<W> {
    /// A recording with this header, which is written at once.
    ///
    /// # Errors
    ///
    /// Writing fails.
    pub fn new(mut to: W, header: &Header) -> io::Result<Self> {
        write_line(&mut to, header)?;
        Ok(Self { to, recorded: 0 })
    }
}

fn write_line(to: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    if text.len() as u64 >= MAX_LINE {
        let words =
            format!("a line of {} bytes is too long for a recording, of which a line may have {MAX_LINE}", text.len());
        return Err(io::Error::other(words));
    }
    to.write_all(&text)?;
    // The recorded part is kept if the program is killed.
    to.flush()
}

impl<W: Write> Reporter for RecordingWriter<W> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::CaseDone { case, verdict } => {
                self.recorded += 1;
                write_line(&mut self.to, &RecordedCase::new(case, verdict))
            }
            Event::Finished { seconds } => {
                write_line(&mut self.to, &Closing { recorded: self.recorded, seconds: *seconds })
            }
            Event::Started { .. }
            | Event::FileInvalid { .. }
            | Event::FileWarned { .. }
            | Event::CaseStarted { .. } => Ok(()),
        }
    }
}
