//! When and where a comparison was made, and by which program.
use serde::{Deserialize, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};

/// The time and the place of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The time at which it began, in seconds since 1970 (UTC).
    pub started: u64,
    /// The name of the machine.
    pub host: String,
    /// The version of the program, with its commit if that was known when it was built.
    pub collspec: String,
}

impl Provenance {
    /// Here and now.
    pub fn here() -> Self {
        let version = env!("CARGO_PKG_VERSION");
        Self {
            started: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            // Whoever builds the program sets the variable: a build in a folder of another repository would find the wrong commit.
            collspec: option_env!("COLLSPEC_COMMIT")
                .filter(|commit| !commit.is_empty())
                .map_or_else(|| version.to_owned(), |commit| format!("{version} (commit {commit})")),
        }
    }

    /// The date as text: `2026-11-26 12:30 UTC`.
    pub fn date(&self) -> String {
        let date = i64::try_from(self.started).ok().and_then(|started| chrono::DateTime::from_timestamp(started, 0));
        date.map_or_else(|| "unknown".to_owned(), |date| date.format("%Y-%m-%d %H:%M UTC").to_string())
    }
}
