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

/// Names that a message has room for.
const NAMED: usize = 4;

/// `rank 3 on b`, `rank 3 on b and rank 4 on b`; of many the first few and their number.
pub fn names_in_words(names: &[String]) -> String {
    match names {
        [] => "nobody".to_owned(),
        [one] => one.clone(),
        _ if names.len() > NAMED => {
            let (named, more) = names.split_at(NAMED);
            format!("{} and {} {}", named.join(", "), more.len(), if more.len() == 1 { "other" } else { "others" })
        }
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// `rank 3`, `ranks 3, 4, 9`.
fn ranks_in_words(ranks: &[u32]) -> String {
    const SHOWN: usize = 16;
    let shown: Vec<String> = ranks.iter().take(SHOWN).map(u32::to_string).collect();
    let more = if ranks.len() > SHOWN { format!(" and {} more", ranks.len() - SHOWN) } else { String::new() };
    format!("{} {}{more}", if ranks.len() == 1 { "rank" } else { "ranks" }, shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_are_a_few_and_a_number() {
        let named =
            |count: u32| names_in_words(&(0..count).map(|rank| format!("rank {rank} on b")).collect::<Vec<_>>());
        assert_eq!(named(1), "rank 0 on b");
        assert_eq!(named(2), "rank 0 on b and rank 1 on b");
        assert_eq!(named(4), "rank 0 on b, rank 1 on b, rank 2 on b and rank 3 on b");
        assert_eq!(named(5), "rank 0 on b, rank 1 on b, rank 2 on b, rank 3 on b and 1 other");
        assert_eq!(named(70), "rank 0 on b, rank 1 on b, rank 2 on b, rank 3 on b and 66 others");
    }
}
