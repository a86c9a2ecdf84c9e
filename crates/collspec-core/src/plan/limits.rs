//! How much a plan may ask for, and how a user raises that.

/// The limits on the resources of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Limit on the bytes of buffers in all their copies, and of the data that goes with them.
    pub memory: u64,
    /// Limit on the operations of expressions, oracle and judge; see [`cost`](super::cost).
    pub work: u64,
    /// Limit on the operations of all cases of a file in total.
    pub file_work: u64,
    /// Limit on the number of ranks.
    pub ranks: usize,
    /// Limit on the calls of all ranks in total, with loops unrolled.
    pub calls: usize,
    /// Limit on the bytes of a scenario file.
    pub file: u64,
    /// The way the limits are set, for messages that say how to raise them.
    pub set_by: SetBy,
}

/// The way limits are set, for messages about a case that exceeds one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetBy {
    /// By options of the command.
    #[default]
    Options,
    /// By variables of `cargo test`.
    Variables,
    /// By `Options::with` in a program that uses this crate.
    Program,
}

impl SetBy {
    /// The text that raises a limit when it is added; `max-work` is the limit on operations.
    pub fn raise(self, limit: &str, value: impl std::fmt::Display) -> String {
        match self {
            Self::Options => format!("`{} {value}`", self.name(limit)),
            Self::Variables => format!("`{}={value}`", self.name(limit)),
            Self::Program => format!("`Options::with(\"{limit}\", \"{value}\")`"),
        }
    }

    /// The name of the option or variable that sets a limit.
    pub fn name(self, limit: &str) -> String {
        match self {
            Self::Options => format!("--{limit}"),
            Self::Program => format!("Options::with(\"{limit}\", ...)"),
            Self::Variables => format!("COLLSPEC_{}", limit.replace('-', "_").to_uppercase()),
        }
    }
}

impl Limits {
    /// Parses bytes as written in options and variables: `1048576`, `512MiB`, `16GiB`.
    ///
    /// # Errors
    ///
    /// The text describes the expected form.
    pub fn bytes(text: &str) -> Result<u64, String> {
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let unit = match text[digits.len()..].trim_start() {
            "" | "B" => 1,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            "TiB" => 1 << 40,
            _ => 0,
        };
        let value = digits.parse::<u64>().ok().and_then(|v| v.checked_mul(unit));
        value
            .filter(|v| *v > 0)
            .ok_or_else(|| "expected a number of bytes greater than 0, for example 16GiB or 512MiB".to_owned())
    }

    /// Parses operations as written in options and variables.
    ///
    /// # Errors
    ///
    /// The text describes the expected form.
    pub fn operations(text: &str) -> Result<u64, String> {
        let value = text.replace(['_', ','], "").parse::<u64>().ok();
        value
            .filter(|v| *v > 0)
            .ok_or_else(|| "expected a number of operations greater than 0, for example 4000000000".to_owned())
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 16 << 30,
            work: 4_000_000_000,
            file_work: 20_000_000_000,
            ranks: 1024,
            calls: 200_000,
            file: crate::scenario::MAX_BYTES,
            set_by: SetBy::Options,
        }
    }
}
