//! Processes of one job on several machines: how they meet over TCP, and how the one that judges reaches the others.
//!
//! One process leads: it reads scenarios, plans, judges and reports. The others are members: each starts parts of workers when the
//! leader requests them. For every part the member opens one more connection to the leader, so that only the leader listens, on one
//! port.
mod door;
mod greeting;
mod join;
mod lead;
mod leader;
mod member;
mod secret;
mod socket;
mod traffic;
mod variables;

pub use greeting::{Equipment, MemberOrder, PartMessage, PartOrder, Place, gpu_identity, hash_of_file};
pub use join::{Joined, join};
pub use lead::{Listener, lead};
pub use leader::{Among, Cluster, Site};
pub use member::{ComingPart, Lost, Member};
pub use socket::Connection;
pub use traffic::Counted;
pub use variables::is_harmless;

use std::io;
use std::time::Duration;

/// The time in which the processes of a job must meet, unless an option sets another.
pub const MEETING_LIMIT: Duration = Duration::from_secs(120);

/// The likely owner of a port that is unavailable.
fn of_this_job(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            " (where several processes of a job run on one machine, each needs its local rank: COLLSPEC_LOCAL_RANK, \
             counted from 0)"
        }
        _ => "",
    }
}

/// The reason processes do not meet.
#[derive(Debug, thiserror::Error)]
pub enum MeetingError {
    /// The launcher gives no address.
    #[error("{0}")]
    NoPlace(String),
    /// No port is available.
    #[error("cannot listen on {hosts}, ports {first} to {last}{}", of_this_job(source))]
    NoPort {
        /// The names or addresses that were tried.
        hosts: String,
        /// The first port that was tried.
        first: u16,
        /// The last port that was tried.
        last: u16,
        /// The error on the last port.
        source: io::Error,
    },
    /// Not all processes have arrived.
    #[error("{} of {size} processes have not come within {} s: {}", .missing.len(), .limit.as_secs_f64(), ranks_in_words(.missing))]
    Missing {
        /// The ranks of the missing processes.
        missing: Vec<u32>,
        /// The expected number of processes.
        size: u32,
        /// The time for which the leader has waited.
        limit: Duration,
    },
    /// The leader does not answer.
    #[error("no process of the job answers on {hosts}, ports {first} to {last}, within {} s: {why}", .limit.as_secs_f64())]
    NoLeader {
        /// The names or addresses that were tried.
        hosts: String,
        /// The first port that was tried.
        first: u16,
        /// The last port that was tried.
        last: u16,
        /// The time for which this process has tried.
        limit: Duration,
        /// The error of the last attempt.
        why: String,
    },
    /// The leader does not take this process.
    #[error("the leading process refuses this one: {0}")]
    Refused(String),
    /// Two processes differ in something that must be the same for all.
    #[error("{0}")]
    Mixed(String),
    /// The operating system has no socket or thread.
    #[error("no socket or thread for the meeting")]
    Resources(#[source] io::Error),
}

/// `rank 3`, `ranks 3, 4, 9`.
fn ranks_in_words(ranks: &[u32]) -> String {
    const SHOWN: usize = 16;
    let shown: Vec<String> = ranks.iter().take(SHOWN).map(u32::to_string).collect();
    let more = if ranks.len() > SHOWN { format!(" and {} more", ranks.len() - SHOWN) } else { String::new() };
    format!("{} {}{more}", if ranks.len() == 1 { "rank" } else { "ranks" }, shown.join(", "))
}
