//! Processes of one job on several machines: how they meet over TCP, and how the one that judges reaches the others.
//!
//! One process leads: it reads scenarios, plans, judges and reports. The others are members: each starts parts of workers when the
//! leader asks for them. For every part the member opens one more connection to the leader, so that only the leader listens, on one
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

/// How long the processes of a job may take to meet, unless an option says otherwise.
pub const MEETING_LIMIT: Duration = Duration::from_secs(120);

/// What may hold the port that cannot be had.
fn of_this_job(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            " (where several processes of a job run on one machine, each needs its local rank: COLLSPEC_LOCAL_RANK, \
             counted from 0)"
        }
        _ => "",
    }
}

/// Why processes do not meet.
#[derive(Debug, thiserror::Error)]
pub enum MeetingError {
    /// The launcher gives no address.
    #[error("{0}")]
    NoPlace(String),
    /// No port can be had.
    #[error("cannot listen on {hosts}, ports {first} to {last}{}", of_this_job(source))]
    NoPort {
        /// Names or addresses.
        hosts: String,
        /// Of the ports that were tried.
        first: u16,
        /// Of the ports that were tried.
        last: u16,
        /// Why not the last one.
        source: io::Error,
    },
    /// Not all have come.
    #[error("{} of {size} processes have not come within {} s: {}", .missing.len(), .limit.as_secs_f64(), ranks_in_words(.missing))]
    Missing {
        /// Their ranks.
        missing: Vec<u32>,
        /// How many processes there should be.
        size: u32,
        /// How long the leader has waited.
        limit: Duration,
    },
    /// No leader answers.
    #[error("no process of the job answers on {hosts}, ports {first} to {last}, within {} s: {why}", .limit.as_secs_f64())]
    NoLeader {
        /// Names or addresses.
        hosts: String,
        /// Of the ports that were tried.
        first: u16,
        /// Of the ports that were tried.
        last: u16,
        /// How long this process has tried.
        limit: Duration,
        /// What happened last.
        why: String,
    },
    /// The leader does not take this process.
    #[error("the leading process refuses this one: {0}")]
    Refused(String),
    /// Two processes differ in what must be the same for all.
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
