//! PTX on a CPU.
//!
//! The crate is built in rooms, and data goes through them in one direction:
//!
//! | room | from | to |
//! |---|---|---|
//! | [`text`] | bytes of a unit | tokens, and an index of the names that it defines |
//! | [`module`] | the tokens of a declaration or a body | variables, functions and instructions as they are written |
//! | [`link`] | units | a program, in which names mean the same in all units |
//! | [`code`] | instructions as they are written | typed ones |
//! | [`run`] | a program on a device | launches of its kernels |
//! | [`num`] | | arithmetic, bit for bit as the ISA defines it |
//!
//! Text is not trusted: any bytes give a [`Error`] with its unit, line and column, and never more memory than a small
//! multiple of the text. Nothing in a function's body is read before the function is needed.
#![deny(unsafe_code)]

mod error;
pub mod num;
pub mod text;
pub mod module;
pub mod code;
pub mod link;
pub mod run;

pub use error::{Error, Place};
