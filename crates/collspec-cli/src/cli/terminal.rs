//! The standard output and error. They pass on text, line breaks and this program's colours, the colours only to a terminal
//! that shows them.
use anstream::{AutoStream, ColorChoice};
use collspec_core::printable::PrintableWriter;
use std::fs::File;
use std::io::{self, Stderr, Stdout, Write};
use std::sync::{Mutex, PoisonError};

/// A writer to the standard output that escapes control characters.
pub fn out() -> PrintableWriter<AutoStream<Stdout>> {
    PrintableWriter::new(AutoStream::auto(io::stdout()), true)
}

/// A writer to the standard error that escapes control characters.
pub fn err() -> PrintableWriter<impl Write> {
    PrintableWriter::new(Messages(AutoStream::auto(io::stderr())), true)
}

/// The file that gets a copy of the messages, without colours.
static COPY: Mutex<Option<AutoStream<File>>> = Mutex::new(None);

/// Copies everything that this process writes to [`err`] from now on to a file.
pub fn copy_messages(file: File) {
    *COPY.lock().unwrap_or_else(PoisonError::into_inner) = Some(AutoStream::never(file));
}

/// The standard error and its copy.
struct Messages(AutoStream<Stderr>);

impl Write for Messages {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(copy) = COPY.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            // The message itself counts for more than its copy.
            let _ = copy.write_all(bytes);
        }
        self.0.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// True if the standard output shows colours.
pub fn shows_colours() -> bool {
    AutoStream::choice(&io::stdout()) != ColorChoice::Never
}
