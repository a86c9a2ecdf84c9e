//! Communicators that ranks of a live one derive from it: splits and shrinks.
//!
//! The ranks meet at the process of the lowest of them: of a shrink only those that remain, because the others may be gone.
use super::State;
use super::comms::Comms;
use super::counts::changed;
use super::meetings::{Joining, PendingJoin, Place, given_up};
use super::waiting::Ticket;
use crate::failure::{Failure, Outcome};
use crate::settings::CommConfig;
use crate::transport::Name;
use crate::transport::control::{Control, JoinRequest};
use crate::transport::terms::Meeting;
use std::collections::BTreeMap;

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
    pub(super) fn shrinks_without(&self, shared: u64, meeting: &Meeting, gone: Name) -> bool {
        let (Meeting::Shrink(without), Some(spread)) = (meeting, self.spread(shared)) else { return false };
        let places = spread.places.iter().enumerate();
        places.filter(|(_, place)| **place == Some(gone)).all(|(rank, _)| without.contains(&rank))
    }
}

impl State {
    /// A rank of this process takes part in a split or a shrink.
    pub(super) fn derive(
        &mut self,
        comm: usize,
        meeting: Meeting,
        config: CommConfig,
        joining: Joining,
        ticket: Ticket,
    ) {
        let Some(member) = self.comms.members.get_mut(&comm) else { return };
        let number = member.number(&meeting);
        let (shared, rank, n, device) = (member.shared, member.rank, member.n, member.device);
        let spread = self.comms.spread(shared);
        let uid = spread.map_or(0, |spread| spread.uid);
        let mut remain = (0..n).filter(|rank| !meeting.without().contains(rank));
        let coordinator = spread.and_then(|spread| spread.place(remain.clone().next()?));
        let left = |rank| {
            spread.is_some_and(|spread| spread.place(rank).is_some_and(|process| spread.left.contains(&process)))
        };
        // A split needs only the process at which its ranks meet. If the process of another rank is gone, the ranks that come wait for it.
        let gone = if meeting == Meeting::Split { remain.next().is_some_and(left) } else { remain.any(left) };
        let Joining { token, color, key, .. } = joining;
        let of = Some(meeting.clone());
        let pending = PendingJoin { ticket, comm: Some(comm), meeting: of, config, reserved: None, coordinator };
        self.meetings.joins.insert(token, pending);
        if gone {
            self.reply(token, Err(given_up()));
        } else if coordinator.is_some() {
            let request = JoinRequest::Derive { uid, number, meeting, rank, color, key, device };
            self.tell(coordinator, Control::Join { token, request });
        } else {
            let n = n - meeting.without().len();
            self.meet_at(Place { shared, number, meeting }, rank, n, Joining { device, ..joining });
        }
    }

    /// A rank of another process takes part in a split or a shrink.
    pub(super) fn derive_from(&mut self, uid: u128, (number, meeting): (u64, Meeting), rank: usize, joining: Joining) {
        let from = joining.from.map(|from| from.name);
        match self.comms.spread_of(uid) {
            Some((shared, spread)) if spread.place(rank) == from && meeting.derives(rank, spread.places.len()) => {
                let n = spread.places.len() - meeting.without().len();
                self.meet_at(Place { shared, number, meeting }, rank, n, joining);
            }
            _ => self.refuse(&joining, given_up()),
        }
    }

    /// A rank arrives at a meeting of `n`; with the last one their communicators are formed.
    pub(super) fn meet_at(&mut self, place: Place, rank: usize, n: usize, joining: Joining) {
        changed();
        let Some(ranks) = self.meetings.meet_at(place, rank, n, joining) else { return };
        // One communicator per colour, its ranks in the order of their keys and, where these are equal, of their old ranks.
        let mut colors: BTreeMap<i32, Vec<Joining>> = BTreeMap::new();
        for joining in ranks {
            match (joining.color, joining.from) {
                (Some(color), _) => colors.entry(color).or_default().push(joining),
                (None, None) => self.reply(joining.token, Ok(None)),
                (None, Some(from)) => self.tell(Some(from.name), Control::Nothing { token: joining.token }),
            }
        }
        for mut ranks in colors.into_values() {
            ranks.sort_by_key(|joining| joining.key);
            // One that cannot be formed has refused its ranks.
            let _ = self.form(&ranks);
        }
    }
}
