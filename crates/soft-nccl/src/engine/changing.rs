//! Communicators that are derived from a live one with fewer or more ranks.
//!
//! Of a shrink only the ranks that remain meet, at the process of the lowest of them, because the others may be gone. Of a grow
//! the old ranks and those that join meet at the process of the old rank 0, which the unique id names.
use super::State;
use super::comms::Comms;
use super::counts::changed;
use super::meetings::{Joining, Meeting, PendingJoin, Place};
use super::waiting::Ticket;
use crate::failure::{Failure, Outcome};
use crate::settings::CommConfig;
use crate::transport::control::{Control, JoinRequest};
use crate::transport::{Address, Name};

/// The answer to ranks whose meeting is at a process that has no part in the communicator any more.
pub(super) fn given_up() -> Failure {
    Failure::remote("the process at which the remaining ranks meet has given up the communicator")
}

impl Comms {
    /// Checks that a rank may leave others out; returns their list in ascending order.
    pub(crate) fn check_shrink(&mut self, comm: nccl_sys::ncclComm_t, list: &[i32]) -> Outcome<Vec<usize>> {
        let member = self.member(comm)?;
        member.accept_shrink()?;
        let (rank, n) = (member.rank, member.n);
        let mut without = Vec::with_capacity(list.len());
        for excluded in list {
            let inside = usize::try_from(*excluded).ok().filter(|excluded| *excluded < n);
            without.push(inside.ok_or_else(|| {
                Failure::argument(format!("the list of excluded ranks has {excluded}, which is not in 0..{n}"))
            })?);
        }
        without.sort_unstable();
        without.dedup();
        if without.contains(&rank) {
            return Err(Failure::argument(format!(
                "rank {rank} is in the list of excluded ranks and calls the shrink"
            )));
        }
        Ok(without)
    }

    /// True if a process that is gone only has ranks of the communicator that a shrink leaves out.
    pub(super) fn shrinks_without(&self, shared: u64, without: Option<&[usize]>, gone: Name) -> bool {
        let (Some(without), Some(spread)) = (without, self.spread(shared)) else {
            return false;
        };
        let places = spread.places.iter().enumerate();
        places.filter(|(_, place)| **place == Some(gone)).all(|(rank, _)| without.contains(&rank))
    }
}

impl State {
    /// A rank of this process remains in a shrink.
    pub(super) fn join_shrink(
        &mut self,
        comm: usize,
        without: &[usize],
        config: CommConfig,
        token: u64,
        ticket: Ticket,
    ) {
        let Some(member) = self.comms.members.get_mut(&comm) else { return };
        let counter = member.shrinks.entry(without.to_vec()).or_default();
        let number = *counter;
        *counter += 1;
        let (shared, rank, n, device) = (member.shared, member.rank, member.n, member.device);
        let lowest = (0..n).find(|rank| !without.contains(rank)).unwrap_or(rank);
        let spread = self.comms.spread(shared);
        let coordinator = spread.and_then(|spread| spread.places.get(lowest).copied().flatten());
        let uid = spread.map_or(0, |spread| spread.uid);
        let gone = spread.is_some_and(|spread| {
            let left =
                |rank: usize| spread.places.get(rank).copied().flatten().is_some_and(|at| spread.left.contains(&at));
            (0..n).any(|rank| !without.contains(&rank) && left(rank))
        });
        let pending = PendingJoin {
            ticket,
            comm: Some(comm),
            meeting: Some(Meeting::Shrink(without.to_vec())),
            config,
            reserved: None,
            coordinator,
        };
        self.meetings.joins.insert(token, pending);
        if gone {
            self.reply(token, Err(Failure::remote("a process with ranks that remain is gone")));
        } else if coordinator.is_some() {
            let request = JoinRequest::Shrink { uid, number, rank, without: without.to_vec(), device };
            self.tell(coordinator, Control::Join { token, request });
        } else {
            let joining = Joining { from: None, token, color: Some(0), key: rank as i32, device };
            self.meet_to_shrink(Place { shared, number, meeting: Meeting::Shrink(without.to_vec()) }, rank, n, joining);
        }
    }

    /// A rank of another process remains in a shrink.
    pub(super) fn join_shrink_from(
        &mut self,
        from: Address,
        uid: u128,
        place: (u64, usize, Vec<usize>),
        joining: Joining,
    ) {
        let (number, rank, without) = place;
        match self.comms.spread_of(uid) {
            Some((shared, spread))
                if spread.places.get(rank) == Some(&Some(from.name))
                    && without.is_sorted_by(|a, b| a < b)
                    && without.last().is_none_or(|last| *last < spread.places.len())
                    && !without.contains(&rank) =>
            {
                let n = spread.places.len();
                self.meet_to_shrink(Place { shared, number, meeting: Meeting::Shrink(without) }, rank, n, joining);
            }
            _ => self.refuse(&joining, given_up()),
        }
    }

    fn meet_to_shrink(&mut self, place: Place, rank: usize, n: usize, joining: Joining) {
        let expected = n - place.meeting.without().unwrap_or_default().len();
        changed();
        if let Some(ranks) = self.meetings.meet_at(place, rank, expected, joining) {
            // A part of a communicator that spans few enough processes does so as well.
            let _ = self.form(&ranks);
        }
    }
}
