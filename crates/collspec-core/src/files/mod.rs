//! Files that people name: inputs are opened without waiting and read up to a limit, outputs are whole or an error.
mod input;
mod output;

pub use input::{Refused, open, open_no_link, read, read_text};
pub use output::{Lock, append, create, replace};
