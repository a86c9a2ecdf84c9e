//! The ways in which the process of a rank ends.
use serde::{Deserialize, Serialize};

/// The end of a process by a step `exit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitStatus {
    /// The process exits with this status.
    Code(u8),
    /// The process is killed by this signal.
    Signal(i32),
}

/// The signals that end a process unless it handles them.
const SIGNALS: [(&str, i32); 15] = [
    ("SIGHUP", 1),
    ("SIGINT", 2),
    ("SIGQUIT", 3),
    ("SIGILL", 4),
    ("SIGTRAP", 5),
    ("SIGABRT", 6),
    ("SIGBUS", 7),
    ("SIGFPE", 8),
    ("SIGKILL", 9),
    ("SIGSEGV", 11),
    ("SIGPIPE", 13),
    ("SIGTERM", 15),
    ("SIGXCPU", 24),
    ("SIGXFSZ", 25),
    ("SIGSYS", 31),
];

/// Those by which a scenario may end a process: processes die by them in practice, and they end a worker.
const USABLE: [i32; 7] = [4, 6, 7, 8, 9, 11, 15];

impl ExitStatus {
    /// The end by the signal with this name.
    pub fn by_signal(name: &str) -> Option<Self> {
        usable().find(|(known, _)| *known == name).map(|(_, number)| Self::Signal(number))
    }

    /// The names of the signals by which a scenario may end a process.
    pub fn signal_names() -> impl Iterator<Item = &'static str> {
        usable().map(|(name, _)| name)
    }

    /// The text with which the end of a process is reported: `exit status 3`, `signal 9 (SIGKILL)`.
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

fn usable() -> impl Iterator<Item = (&'static str, i32)> {
    SIGNALS.into_iter().filter(|(_, number)| USABLE.contains(number))
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
