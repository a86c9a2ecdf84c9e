//! Ranks whose unique id is the address of NCCL_COMM_ID: before they meet, they get the id of this one communicator from its rank 0.
use super::hosts::Arrival;
use crate::failure::Failure;
use crate::transport::bootstrap::{Root, ask};
use crate::transport::id::address;

/// Arrivals with the ids of their communicators.
#[derive(Default)]
pub(super) struct Found {
    /// The arrivals; `None` if all had such ids already.
    pub arrivals: Option<Vec<Arrival>>,
    /// With what each of them that is a rank 0 listens, by its place among them, the first one last.
    pub roots: Vec<(usize, Root)>,
}

/// Finds the communicators of arrivals. If one is not found, the roots of the others come with the reason: ranks that have asked
/// them must be told.
pub(super) fn find(arrivals: &[Arrival]) -> Result<Found, (Failure, Found)> {
    let named = |arrival: &Arrival| matches!(arrival, Arrival::Init { id, .. } if address(id).is_some());
    if !arrivals.iter().any(named) {
        return Ok(Found::default());
    }
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
                ask(there, *n, *rank)
            };
            match given {
                Ok(given) => *id = given,
                Err(failure) => return Err((failure, Found { arrivals: None, roots })),
            }
        }
    }
    roots.reverse();
    Ok(Found { arrivals: Some(arrivals), roots })
}
