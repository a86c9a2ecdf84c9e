//! What is told of errors: arguments in them are quoted as they were typed, and may have any characters.
use super::exit::Exit;
use super::terminal;
use anstream::adapter::strip_str;
use collspec_core::printable::{printable, printable_lines};
use collspec_suite::suite::with_causes;
use std::borrow::Cow;
use std::ffi::OsString;
use std::io::Write;

/// Tells why a command ended with an error, and gives its exit code.
pub fn tell(error: &anyhow::Error) -> Exit {
    let exit = Exit::of_error(error);
    if exit != Exit::CLOSED_PIPE {
        let text = with_escaped(with_causes(&**error), std::env::args_os());
        let _ = writeln!(terminal::err(), "collspec: {}", printable_lines(&text));
    }
    exit
}

/// The text of an error with these arguments, or parts of them that it quotes as they were typed, escaped and on one line each.
pub fn with_escaped(mut text: String, arguments: impl IntoIterator<Item = OsString>) -> String {
    for argument in arguments {
        let argument = argument.to_string_lossy();
        let parts = argument.split(['=', ',', ' ']).chain(argument.get(2..));
        for part in std::iter::once(&*argument).chain(parts) {
            if let Cow::Owned(escaped) = printable(part) {
                text = text.replace(part, &escaped);
            }
        }
    }
    text
}

/// The argument parser's message without colours, which it also removes from arguments, so that these are escaped first.
pub fn plain(error: &clap::Error, arguments: impl IntoIterator<Item = OsString>) -> String {
    strip_str(&with_escaped(error.render().ansi().to_string(), arguments)).to_string()
}
