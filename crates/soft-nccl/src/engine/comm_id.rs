//! Ranks whose unique id is the address of NCCL_COMM_ID: before they meet, they get the id of this one communicator from its rank 0.
use super::background::aborted;
use super::hosts::Arrival;
use super::{ENGINE, State, lock};
use crate::failure::{Failure, Outcome};
use crate::transport::asking::{Stop, ask, given_up};
use crate::transport::bootstrap::Root;
use crate::transport::id::{address, origin};
use std::sync::Arc;

/// Arrivals with the ids of their communicators.
#[derive(Default)]
pub(super) struct Found {
    /// The arrivals; `None` if all had such ids already.
    pub arrivals: Option<Vec<Arrival>>,
    /// The listeners of ranks 0 among them, with their positions, the first one last.
    pub roots: Vec<(usize, Root)>,
    /// The search, which ends when the arrivals have joined or the roots are gone.
    search: Option<u64>,
}

/// A search that has not ended.
pub(super) struct Search {
    /// The handles that its arrivals have been given already.
    handles: Vec<usize>,
    /// Descriptions of what it waits for, for messages.
    pub(super) texts: Vec<String>,
    stop: Arc<Stop>,
}

/// Finds the communicators of arrivals. If one is not found, the roots of the others are returned with the reason: ranks that have
/// asked them must be informed.
pub(super) fn find(arrivals: &[Arrival]) -> Result<Found, (Failure, Found)> {
    let named = |arrival: &Arrival| matches!(arrival, Arrival::Init { id, .. } if address(id).is_some());
    if !arrivals.iter().any(named) {
        return Ok(Found::default());
    }
    let (search, stop) = lock().begin_search(arrivals).map_err(|failure| (failure, Found::default()))?;
    let search = Some(search);
    let (mut arrivals, mut roots) = (arrivals.to_vec(), Vec::new());
    // Ranks of one group may ask a rank 0 of the same group.
    for opens in [true, false] {
        for (index, arrival) in arrivals.iter_mut().enumerate() {
            let Arrival::Init { id, rank, n, .. } = arrival else { continue };
            let Some(there) = address(id).filter(|_| opens == (*rank == 0)) else { continue };
            let given = if opens {
                Root::open(there, *n).map(|root| {
                    let id = root.id;
                    roots.push((index, root));
                    id
                })
            } else {
                ask(there, *n, *rank, &stop)
            };
            match given {
                Ok(given) => *id = given,
                Err(failure) => return Err((failure, Found { arrivals: None, roots, search })),
            }
        }
    }
    roots.reverse();
    Ok(Found { arrivals: Some(arrivals), roots, search })
}

impl State {
    /// Begins a search for the communicators of arrivals, none of which was given up before.
    fn begin_search(&mut self, arrivals: &[Arrival]) -> Outcome<(u64, Arc<Stop>)> {
        if arrivals.iter().any(|arrival| self.is_given_up(arrival)) {
            return Err(given_up());
        }
        let stop = Arc::new(Stop::new()?);
        let texts = arrivals.iter().filter_map(|arrival| match arrival {
            Arrival::Init { id, rank, .. } if *rank > 0 => {
                address(id).map(|there| format!("rank {rank} asks for rank 0 at {there} (NCCL_COMM_ID)"))
            }
            _ => None,
        });
        let handles = arrivals.iter().filter_map(Arrival::reserved).collect();
        let search = Search { handles, texts: texts.collect(), stop: stop.clone() };
        let number = self.number();
        self.searches.insert(number, search);
        self.changed();
        Ok((number, stop))
    }

    /// Ends the search that has found these.
    pub(super) fn end_search(&mut self, found: Found) {
        let search = found.search;
        // Ports are free again when those who wait for the end continue.
        drop(found);
        if search.and_then(|search| self.searches.remove(&search)).is_some() {
            self.changed();
            ENGINE.searched.notify_all();
        }
    }

    /// Gives up the searches for the communicator that is created for a handle.
    pub(super) fn stop_searches(&self, handle: usize) {
        let of = |search: &&Search| search.handles.contains(&handle);
        self.searches.values().filter(of).for_each(|search| search.stop.ring());
    }

    /// True if a search for the communicator that is created for a handle has not ended.
    pub(super) fn is_searched(&self, handle: usize) -> bool {
        self.searches.values().any(|search| search.handles.contains(&handle))
    }

    /// True if the communicator was aborted before its rank joined.
    pub(super) fn is_given_up(&self, arrival: &Arrival) -> bool {
        arrival.reserved().is_some_and(|handle| !self.progress.contains_key(&handle))
    }
    /// Refuses the ranks that have asked these roots, and so cannot learn that their rank 0 will not come.
    pub(super) fn spoil_roots(&mut self, found: Found, failure: &Failure) {
        found.roots.iter().for_each(|(_, root)| self.spoil(root.id, failure.clone()));
        self.end_search(found);
        self.tidy();
    }

    /// Refuses the ranks that have asked a root whose rank 0 has aborted: no other rank 0 can come with this id.
    pub(super) fn spoil_root(&mut self, root: &Root) {
        self.spoil(root.id, Failure::remote("rank 0 has given up the communicator"));
    }

    /// The reason a rank can no longer join, although no error was known before.
    pub(super) fn keeps_from_joining(&self, arrival: &Arrival) -> Option<Failure> {
        if self.is_given_up(arrival) {
            return Some(aborted());
        }
        let Arrival::Init { id, .. } = arrival else { return None };
        let spoiled = self.spoiled.iter().find(|(spoiled, _)| spoiled == id);
        spoiled.map(|(_, failure)| failure.clone()).or_else(|| origin(id).err())
    }
}
