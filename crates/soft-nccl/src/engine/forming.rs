//! Forming communicators whose ranks have met, by the process at which they met.
//!
//! If all ranks are in this process, it creates the communicators at once. Otherwise it sends the table of all ranks to every process
//! that has a part, waits until each has created its part and its links, and then lets all continue; or, if one cannot, refuses all.
use super::State;
use super::counts::number;
use super::meetings::{Forming, Joining};
use super::member::Spread;
use crate::failure::{Failure, Outcome};
use crate::transport::control::{Control, Table};
use crate::transport::{Address, MOST_PROCESSES, Name, endpoint, known};
use std::collections::BTreeSet;

impl State {
    /// Begins a communicator of these ranks, in this order; if that cannot be, they are refused and the reason is given.
    pub(super) fn form(&mut self, ranks: &[Joining]) -> Outcome<()> {
        if ranks.iter().all(|joining| joining.from.is_none()) {
            let devices: Vec<i32> = ranks.iter().map(|joining| joining.device).collect();
            let handles = self.comms.create(&devices);
            for (joining, handle) in ranks.iter().zip(handles) {
                self.reply(joining.token, Ok(Some(handle)));
            }
            return Ok(());
        }
        let mut processes: Vec<Option<Address>> = Vec::new();
        let places: Vec<usize> = ranks
            .iter()
            .map(|joining| {
                processes.iter().position(|process| *process == joining.from).unwrap_or_else(|| {
                    processes.push(joining.from);
                    processes.len() - 1
                })
            })
            .collect();
        let refusal = match known() {
            _ if processes.len() > MOST_PROCESSES => Failure::usage(format!(
                "a communicator of the software library spans at most {MOST_PROCESSES} processes, not {}",
                processes.len()
            )),
            None => Failure::internal("ranks of other processes came without a socket"),
            Some(own) => {
                self.send_tables(ranks, &processes, &places, own.address);
                return Ok(());
            }
        };
        for joining in ranks {
            self.refuse(joining, refusal.clone());
        }
        Err(refusal)
    }

    fn send_tables(&mut self, ranks: &[Joining], processes: &[Option<Address>], places: &[usize], own: Address) {
        let forming = number();
        let uid = own.name.0.wrapping_add(u128::from(forming));
        let names: Vec<Option<Name>> = processes.iter().map(|process| process.map(|there| there.name)).collect();
        let missing = names.iter().copied().collect();
        self.meetings.formings.insert(forming, Forming { uid, processes: names.clone(), missing });
        for (at, to) in names.into_iter().enumerate() {
            let yours = ranks.iter().zip(places).enumerate().filter(|(_, (_, place))| **place == at);
            let table = Table {
                forming,
                uid,
                processes: processes.iter().map(|process| process.unwrap_or(own)).collect(),
                ranks: ranks.iter().zip(places).map(|(joining, place)| (*place, joining.device)).collect(),
                yours: yours.map(|(rank, (joining, _))| (rank, joining.token)).collect(),
            };
            self.tell(to, Control::Table(table));
        }
    }

    /// Creates this process's part of a communicator, and its links to the others.
    pub(super) fn on_table(&mut self, coordinator: Option<Name>, table: &Table) {
        let Ok(own) = endpoint().map(|endpoint| endpoint.address) else { return };
        let mut failure = None;
        let mut peers = Vec::new();
        for process in table.processes.iter().filter(|process| **process != own) {
            peers.push(process.name);
            if let Err(error) = self.links.connect(*process) {
                failure.get_or_insert(Failure::remote(format!("another process cannot be reached: {error}")));
            }
        }
        let place = |(process, _): &(usize, i32)| {
            table.processes.get(*process).filter(|process| **process != own).map(|process| process.name)
        };
        let places: Vec<Option<Name>> = table.ranks.iter().map(place).collect();
        let devices: Vec<i32> = table.ranks.iter().map(|(_, device)| *device).collect();
        let ranks: Vec<usize> =
            table.yours.iter().map(|(rank, _)| *rank).filter(|rank| *rank < devices.len()).collect();
        let alone = peers.is_empty();
        let home = table.ranks.first().and_then(|(process, _)| table.processes.get(*process)).copied();
        let home = home.filter(|process| *process != own);
        let spread =
            Spread { uid: table.uid, places, peers, home, left: BTreeSet::new(), waiting: Vec::new(), failed: false };
        let (shared, handles) = self.comms.create_part(&devices, &ranks, Some(spread));
        let waiting = table.yours.iter().zip(handles).map(|((_, token), handle)| (*token, handle)).collect();
        if let Some(spread) = self.comms.spread_mut(shared) {
            spread.waiting = waiting;
        }
        self.tell(coordinator, Control::Ready { forming: table.forming, failure });
        if alone {
            // Ranks of one process need no socket any more.
            self.on_go(table.uid);
            self.comms.uids.remove(&table.uid);
            if let Some(shared) = self.comms.shared.get_mut(&shared) {
                shared.spread = None;
            }
        }
    }

    /// A process has created its part, or has failed to.
    pub(super) fn on_ready(&mut self, from: Option<Name>, forming: u64, failure: Option<Failure>) {
        let Some(there) = self.meetings.formings.get_mut(&forming) else { return };
        let control = match failure {
            Some(failure) => Control::Fail { uid: there.uid, failure },
            None => {
                there.missing.remove(&from);
                if !there.missing.is_empty() {
                    return;
                }
                Control::Go { uid: there.uid }
            }
        };
        if let Some(there) = self.meetings.formings.remove(&forming) {
            for process in there.processes {
                self.tell(process, control.clone());
            }
        }
        self.links.sweep_later();
    }

    /// All parts have arrived: the ranks get their handles.
    pub(super) fn on_go(&mut self, uid: u128) {
        for (token, handle) in self.comms.take_waiting(uid) {
            if self.meetings.joins.contains_key(&token) {
                self.reply(token, Ok(Some(handle)));
            } else {
                // The rank aborted the communicator that it wanted to split.
                self.remove_member(handle);
            }
        }
    }

    /// A communicator cannot be created.
    pub(super) fn on_fail(&mut self, uid: u128, failure: &Failure) {
        if let Some(spread) =
            self.comms.uids.get(&uid).and_then(|shared| self.comms.shared.get_mut(shared)?.spread.as_mut())
        {
            spread.failed = true;
        }
        for (token, handle) in self.comms.take_waiting(uid) {
            self.reply(token, Err(failure.clone()));
            self.remove_member(handle);
        }
    }
}
