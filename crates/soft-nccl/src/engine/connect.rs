//! Connections that are opened at the first call that needs them (COLLSPEC_SOFT_CONNECT=lazy), as in NCCL: the host
//! thread that makes the call waits in it until the ranks at the other end have opened theirs.
//!
//! Collectives share one connection of all ranks, messages have one for each ordered pair; an all_to_all, gather or scatter
//! consists of messages. A new communicator has no connections; one split from another has its own. As in NCCL the pairs of a call
//! are connected first, the nearest ranks first: at each distance the call waits until the ranks at that distance before and after
//! its own have reached it too, and then goes through all distances again. Different communicators do not wait for each other.
use super::background;
use super::batch::ByComm;
use super::comms::Comms;
use super::counts::changed;
use super::hosts::wait;
use super::waiting::Ticket;
use super::{State, lock};
use crate::failure::{Failure, Outcome};
use crate::settings::{Connect, settings};
use crate::transport::Name;
use crate::transport::control::Control;
use crate::transport::terms::Connection;
use std::collections::{BTreeMap, BTreeSet};

/// Limit on the number of windows by which a rank of another process may be ahead of those in this one.
const MOST_WINDOWS_AHEAD: u64 = 1 << 16;

/// Connections that a call reaches at the same time: the communicator, the connection and the call that needs it, for messages.
type Round = Vec<(usize, Connection, String)>;

/// The rounds of one communicator's pairs in order.
fn rounds(pairs: &BTreeMap<usize, Round>) -> Vec<Round> {
    let connected = |round: &Round| {
        let each = round.iter().map(|(comm, connection, text)| match *connection {
            Connection::Pair { source, destination } => {
                (*comm, Connection::ConnectedPair { source, destination }, text.clone())
            }
            other => (*comm, other, text.clone()),
        });
        each.collect()
    };
    pairs.values().cloned().chain(pairs.values().map(connected)).collect()
}

/// Opens the missing connections that these requests need; waits for the ranks that share them.
pub(crate) fn connect(requests: &ByComm) -> Outcome<()> {
    if settings().connect == Connect::Init || lock().comms.missing(requests).is_empty() {
        return Ok(());
    }
    crate::device::host_waits();
    let (mut pairs, mut collectives) = (BTreeMap::<usize, BTreeMap<usize, Round>>::new(), Round::new());
    {
        let state = lock();
        for (comm, connection, text) in state.comms.missing(requests) {
            match connection {
                Connection::Pair { source, destination } => {
                    let n = state.comms.members.get(&comm).map_or(1, |member| member.n);
                    let distance = (destination + n - source) % n;
                    pairs.entry(comm).or_default().entry(distance).or_default().push((comm, connection, text));
                }
                _ => collectives.push((comm, connection, text)),
            }
        }
    }
    let pairs: Vec<Vec<Round>> = pairs.values().map(rounds).collect();
    // The communicators of a call do not wait for each other.
    background::side_by_side(&pairs, |rounds| rounds.iter().try_for_each(come))?;
    if collectives.is_empty() { Ok(()) } else { come(&collectives) }
}

/// Registers at connections, and waits for the other ranks that share them.
fn come(round: &Round) -> Outcome<()> {
    let mut state = lock();
    let mut texts: Vec<&str> = round.iter().map(|(_, _, text)| text.as_str()).collect();
    // One call may need several connections.
    texts.dedup();
    let host = state.hosts.block(round.len(), texts.join("; "));
    for (index, (comm, connection, _)) in round.iter().enumerate() {
        state.come_to(*comm, *connection, Ticket { host, index });
    }
    state.tidy();
    wait(state, host).into_iter().try_for_each(|answer| answer.map(|_| ()))
}

impl Comms {
    /// The connections that requests need and that do not exist yet.
    fn missing(&self, requests: &ByComm) -> Round {
        let (mut missing, mut known) = (Round::new(), BTreeSet::new());
        for (comm, requests) in requests {
            let Some(member) = self.members.get(comm) else { continue };
            for request in requests {
                for connection in Connection::of(&request.spec, member.rank, member.n) {
                    if !self.is_ready(member.shared, connection) && known.insert((*comm, connection)) {
                        let (rank, shared, call) = (member.rank, self.text(member.shared), request.spec.text());
                        let text = format!("rank {rank} is in {call}, its first such call of {shared}, and connects");
                        missing.push((*comm, connection, text));
                    }
                }
            }
        }
        missing
    }

    /// True if a call need not wait for the connection.
    fn is_ready(&self, shared: u64, connection: Connection) -> bool {
        match connection {
            Connection::Pair { source, destination } => {
                self.is_made(shared, Connection::ConnectedPair { source, destination })
            }
            other => self.is_made(shared, other),
        }
    }

    fn is_made(&self, shared: u64, connection: Connection) -> bool {
        self.shared.get(&shared).is_some_and(|there| {
            let come = there.connections.get(&connection);
            come.is_some_and(|come| match connection {
                Connection::Pair { source, destination } | Connection::ConnectedPair { source, destination } => {
                    come.contains(&source) && come.contains(&destination)
                }
                _ => come.len() >= there.ranks,
            })
        })
    }

    /// A line for every connection that ranks wait for.
    pub(super) fn unconnected(&self) -> Vec<String> {
        let wanted =
            self.members.values().flat_map(|m| m.connects.iter().map(|(_, connection)| (m.shared, *connection)));
        let lines = wanted.filter_map(|(shared, connection)| {
            let there = self.shared.get(&shared)?;
            let come = there.connections.get(&connection)?;
            let missing = (0..there.ranks).filter(|rank| connection.needs(*rank, there.ranks) && !come.contains(rank));
            let missing: Vec<String> = missing.map(|rank| rank.to_string()).collect();
            let what = match connection {
                Connection::Collectives => "its first collective".to_owned(),
                Connection::Window { number } => format!("its window number {}", number + 1),
                Connection::Pair { source, destination } | Connection::ConnectedPair { source, destination } => {
                    format!("a message from rank {source} to rank {destination}")
                }
            };
            Some(format!(
                "{} connects for {what}: the call of the ranks {} is missing",
                self.text(shared),
                missing.join(", ")
            ))
        });
        lines.collect()
    }
}

impl State {
    /// Records that a rank of this process has reached a connection, and that a thread of it waits for the other ranks.
    pub(super) fn come_to(&mut self, comm: usize, connection: Connection, ticket: Ticket) {
        let Some(member) = self.comms.members.get_mut(&comm) else {
            return self.hosts.answer(ticket, Err(Failure::usage("the communicator was destroyed meanwhile")));
        };
        member.connects.push((ticket, connection));
        let (shared, rank) = (member.shared, member.rank);
        if let Some(spread) = self.comms.shared.get(&shared).and_then(|there| there.spread.as_ref()) {
            let uid = spread.uid;
            let concerned = |name: &&Name| {
                let places = spread.places.iter().enumerate();
                let mut theirs = places.filter(|(_, place)| **place == Some(**name));
                !spread.left.contains(*name) && theirs.any(|(rank, _)| connection.needs(rank, spread.places.len()))
            };
            for name in spread.peers.iter().filter(concerned).copied().collect::<Vec<_>>() {
                self.tell(Some(name), Control::Connect { uid, connection, rank });
            }
        }
        self.has_come(shared, connection, rank);
    }

    /// Records that a rank of another process has reached a connection.
    pub(super) fn receive_connect(&mut self, from: Option<Name>, uid: u128, connection: Connection, rank: usize) {
        let Some(shared) = self.comms.uids.get(&uid).copied() else { return };
        let Some(there) = self.comms.shared.get(&shared) else { return };
        let sound = match connection {
            Connection::Collectives => true,
            // A rank asks for its next window when all ranks have created the one before, or for several at once.
            Connection::Window { number } => {
                let own =
                    self.comms.members.values().filter(|member| member.shared == shared).map(|member| member.windows);
                number <= own.max().unwrap_or(0).saturating_add(MOST_WINDOWS_AHEAD)
            }
            Connection::Pair { source, destination } | Connection::ConnectedPair { source, destination } => {
                source.max(destination) < there.ranks
            }
        };
        if sound && from.is_some() && there.place(rank) == from && connection.needs(rank, there.ranks) {
            self.has_come(shared, connection, rank);
        }
    }

    fn has_come(&mut self, shared: u64, connection: Connection, rank: usize) {
        let Some(there) = self.comms.shared.get_mut(&shared) else { return };
        there.connections.entry(connection).or_default().insert(rank);
        changed();
        if !self.comms.is_made(shared, connection) {
            return;
        }
        let mut tickets = Vec::new();
        for member in self.comms.members.values_mut().filter(|member| member.shared == shared) {
            let (made, waiting) = member.connects.drain(..).partition(|(_, wanted)| *wanted == connection);
            member.connects = waiting;
            let made: Vec<(Ticket, Connection)> = made;
            tickets.extend(made.into_iter().map(|(ticket, _)| ticket));
        }
        if let (Connection::Window { .. }, Some(there)) = (connection, self.comms.shared.get_mut(&shared)) {
            // No rank will ask for this connection again.
            there.connections.remove(&connection);
        }
        for ticket in tickets {
            self.hosts.answer(ticket, Ok(None));
        }
    }
}
