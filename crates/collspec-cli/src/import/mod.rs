//! Logs and dumps of other programs become scenarios.
//!
//! Inputs are read as data: nothing in them is run. What a scenario needs and an input does not have is guessed, and every
//! guess is a comment of the scenario.
mod accepted;
pub mod call;
pub mod comms;
mod error;
pub mod flight_recorder;
#[cfg(test)]
mod golden;
mod header;
mod inputs;
mod log_line;
mod merge;
pub mod nccl_log;
pub mod nccl_tests;
pub mod peers;
mod per_rank;
pub mod program;
pub mod source;
mod standstill;
mod steps;
mod text;
mod unpaired;

pub use error::Error;
use text::Text;

/// Most ranks of a scenario.
pub const MAX_RANKS: usize = 1024;
/// Elements of a buffer beyond which a number in an input is not believed.
const MAX_COUNT: u64 = 1 << 48;

/// A scenario that was made from something else.
#[derive(Debug)]
pub struct Imported {
    /// The file.
    pub text: String,
    /// What its reader should know about how it was made; these are comments of the file too.
    pub remarks: Vec<String>,
}

impl Imported {
    /// Adds a remark, which becomes the first one.
    pub fn tell(&mut self, remark: &str) {
        let mut text = Text::default();
        text.remark(remark);
        self.text.insert_str(0, &text.to_string());
        self.remarks.insert(0, remark.to_owned());
    }

    fn tell_refused(&mut self, why: &str) {
        self.tell(&format!("check refuses this: {why}"));
    }
}
