//! Growing a communicator: the old ranks come by their handles, new ones by a unique id that one of the old ranks obtained. All meet at
//! the process of the old rank 0, which the id names.
use super::State;
use super::comms::Comms;
use super::meetings::{Joining, PendingJoin, Place, given_up};
use super::waiting::Ticket;
use crate::failure::{Failure, Outcome};
use crate::settings::CommConfig;
use crate::transport::control::{Control, JoinRequest};
use crate::transport::id::{growth, of_growth, origin};
use crate::transport::terms::{Growth, Meeting};
use crate::transport::{Address, Id, Name};
use nccl_sys::ncclComm_t;

/// A rank that joins.
pub(super) struct NewRank {
    pub id: Id,
    pub rank: usize,
    pub n: usize,
    pub device: i32,
    pub config: CommConfig,
    pub reserved: Option<usize>,
}

impl Comms {
    /// The communicator that grows, in this process.
    fn growing(&self, growth: Growth) -> Option<u64> {
        if growth.spread {
            return self.uids.get(&growth.uid).copied();
        }
        let shared = u64::try_from(growth.uid).ok()?;
        self.shared.contains_key(&shared).then_some(shared)
    }
}

impl State {
    /// The unique id for the ranks that join at the communicator's next growth.
    pub(crate) fn id_of_growth(&mut self, comm: ncclComm_t) -> Outcome<Id> {
        let member = self.comms.member(comm)?;
        member.accept_work()?;
        let number = member.meetings.get(&Meeting::Grow).copied().unwrap_or_default();
        let shared = member.shared;
        let spread = self.comms.spread(shared);
        let uid = spread.map_or(u128::from(shared), |spread| spread.uid);
        let home = spread.and_then(|spread| spread.home);
        Ok(of_growth(Growth { uid, spread: spread.is_some(), number }, home))
    }

    /// An old rank of this process takes part.
    pub(super) fn join_grow(&mut self, comm: usize, n: usize, config: CommConfig, token: u64, ticket: Ticket) {
        let Some(member) = self.comms.members.get_mut(&comm) else { return };
        let number = member.number(&Meeting::Grow);
        let (shared, rank, device) = (member.shared, member.rank, member.device);
        let spread = self.comms.spread(shared);
        let coordinator = spread.and_then(|spread| spread.home).map(|home| home.name);
        let uid = spread.map_or(u128::from(shared), |spread| spread.uid);
        let growth = Growth { uid, spread: spread.is_some(), number };
        let gone = spread.is_some_and(|spread| coordinator.is_some_and(|name| spread.left.contains(&name)));
        let pending =
            PendingJoin { ticket, comm: Some(comm), meeting: Some(Meeting::Grow), config, reserved: None, coordinator };
        self.meetings.joins.insert(token, pending);
        if gone {
            self.reply(token, Err(given_up()));
        } else if coordinator.is_some() {
            self.tell(coordinator, Control::Join { token, request: JoinRequest::Grow { growth, rank, n, device } });
        } else {
            let joining = Joining { from: None, token, color: Some(0), key: rank as i32, device };
            self.meet_to_grow(growth, rank, n, joining);
        }
    }

    /// A rank of this process joins.
    pub(super) fn join_grown(&mut self, new: &NewRank, token: u64, ticket: Ticket) {
        let NewRank { id, rank, n, device, config, reserved } = *new;
        let coordinator: Option<Address> = origin(&id).ok().flatten();
        let name: Option<Name> = coordinator.map(|there| there.name);
        self.meetings
            .joins
            .insert(token, PendingJoin { ticket, comm: None, meeting: None, config, reserved, coordinator: name });
        let growth = match growth(&id) {
            Ok(growth) => growth,
            Err(failure) => return self.reply(token, Err(failure)),
        };
        let Some(there) = coordinator else {
            let joining = Joining { from: None, token, color: Some(0), key: rank as i32, device };
            return self.meet_to_grow(growth, rank, n, joining);
        };
        match self.links.connect(there) {
            Ok(()) => self.tell(name, Control::Join { token, request: JoinRequest::Grow { growth, rank, n, device } }),
            Err(error) => {
                let text = format!("the process of the communicator that grows cannot be reached: {error}");
                self.reply(token, Err(Failure::system(text)));
            }
        }
    }

    /// A rank of another process takes part.
    pub(super) fn join_grow_from(&mut self, from: Address, growth: Growth, rank: usize, n: usize, joining: Joining) {
        let place = |state: &Self| {
            let shared = state.comms.growing(growth)?;
            state.comms.shared.get(&shared)?.place(rank)
        };
        let old =
            self.comms.growing(growth).and_then(|shared| self.comms.shared.get(&shared)).map_or(0, |there| there.ranks);
        if rank < old && place(self) != Some(from.name) {
            return self.refuse(&joining, Failure::argument(format!("rank {rank} lives in another process")));
        }
        self.meet_to_grow(growth, rank, n, joining);
    }

    fn meet_to_grow(&mut self, growth: Growth, rank: usize, n: usize, joining: Joining) {
        let Some(shared) = self.comms.growing(growth) else { return self.refuse(&joining, given_up()) };
        let old = self.comms.shared.get(&shared).map_or(0, |there| there.ranks);
        if n <= old || rank >= n {
            let text = format!("rank {rank} of {n} cannot be in a communicator that grows from {old} ranks");
            return self.refuse(&joining, Failure::argument(text));
        }
        let place = Place { shared, number: growth.number, meeting: Meeting::Grow };
        if let Some(there) = self.meetings.splits.get(&place)
            && (there.n != n || there.arrived.contains_key(&rank))
        {
            let first = there.n;
            let text = format!(
                "rank {rank} says that the communicator grows to {n} ranks; another rank {rank} came, or others said {first}"
            );
            return self.refuse(&joining, Failure::argument(text));
        }
        self.meet_at(place, rank, n, joining);
    }
}
