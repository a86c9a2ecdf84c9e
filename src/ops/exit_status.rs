//! How the process of a rank ends.
use serde::{Deserialize, Serialize};

/// The end of a process by a step `exit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitStatus {
    /// With this exit status.
    Code(u8),
    /// By this signal.
    Signal(i32),
}

/// The signals by which processes die in practice.
const SIGNALS: [(&str, i32); 7] =
    [("SIGILL", 4), ("SIGABRT", 6), ("SIGBUS", 7), ("SIGFPE", 8), ("SIGKILL", 9), ("SIGSEGV", 11), ("SIGTERM", 15)];

impl ExitStatus {
    /// The end by the signal with this name.
    pub fn by_signal(name: &str) -> Option<Self> {
        SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, number)| Self::Signal(*number))
    }

    /// The names of the signals.
    pub fn signal_names() -> impl Iterator<Item = &'static str> {
        SIGNALS.iter().map(|(name, _)| *name)
    }

    /// As the end of a process is reported: `exit status 3`, `signal 9 (SIGKILL)`.
    pub fn text(self) -> String {
        match self {
            Self::Code(code) => format!("exit status {code}"),
            Self::Signal(signal) => match SIGNALS.iter().find(|(_, number)| *number == signal) {
                Some((name, _)) => format!("signal {signal} ({name})"),
                None => format!("signal {signal}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_have_names_and_texts() {
        assert_eq!(ExitStatus::by_signal("SIGKILL").map(ExitStatus::text).as_deref(), Some("signal 9 (SIGKILL)"));
        assert_eq!(ExitStatus::by_signal("SIGSTOP"), None);
        assert_eq!(ExitStatus::Code(3).text(), "exit status 3");
    }
}
