//! The standard output and error. They pass on text, line breaks and this program's colours, the colours only to a terminal
//! that shows them.
use anstream::{AutoStream, ColorChoice};
use collspec_core::printable::PrintableWriter;
use std::io::{self, Stderr, Stdout};

/// A writer to the standard output that escapes control characters.
pub fn out() -> PrintableWriter<AutoStream<Stdout>> {
    PrintableWriter::new(AutoStream::auto(io::stdout()), true)
}

/// A writer to the standard error that escapes control characters.
pub fn err() -> PrintableWriter<AutoStream<Stderr>> {
    PrintableWriter::new(AutoStream::auto(io::stderr()), true)
}

/// True if the standard output shows colours.
pub fn shows_colours() -> bool {
    AutoStream::choice(&io::stdout()) != ColorChoice::Never
}
