//! The standard output and error. They pass text, line breaks and this program's own colours on, the colours only to a
//! terminal that shows them.
use crate::printable::Guarded;
use anstream::AutoStream;
use std::io::{self, Stderr, Stdout};

/// The standard output.
pub fn out() -> Guarded<AutoStream<Stdout>> {
    Guarded::new(AutoStream::auto(io::stdout()), true)
}

/// The standard error.
pub fn err() -> Guarded<AutoStream<Stderr>> {
    Guarded::new(AutoStream::auto(io::stderr()), true)
}
