//! Registered memory: by one rank separately, and as windows, which all ranks of a communicator create together.
use super::counts::handle;
use super::hosts::wait;
use super::waiting::Ticket;
use super::{State, lock};
use crate::failure::{Failure, Outcome};
use crate::op::Spec;
use crate::settings::settings;
use crate::transport::terms::Connection;
use nccl_sys::ncclComm_t;
use std::collections::HashMap;

/// Memory that is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub base: usize,
    pub len: usize,
}

impl Memory {
    /// True if these bytes lie in it.
    pub fn holds(&self, address: usize, len: usize) -> bool {
        let offset = address.checked_sub(self.base);
        offset.is_some_and(|offset| offset <= self.len && len <= self.len - offset)
    }
}

/// A rank's part of a window.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    /// The number of the rank's communicator.
    pub comm: usize,
    pub memory: Memory,
    /// Every rank uses the same offsets, and one-sided operations may use it.
    pub symmetric: bool,
    /// The window's number among those of the communicator.
    pub number: u64,
}

/// All registered memory of this process.
#[derive(Default)]
pub(crate) struct Registered {
    /// The communicator of each buffer registration, by its handle. Windows are kept elsewhere.
    local: HashMap<usize, usize>,
    windows: HashMap<usize, Window>,
    /// The parts of windows that other ranks can reach: by communicator, rank and the window's number.
    parts: HashMap<(u64, usize, u64), Memory>,
}

impl Registered {
    /// A rank's part of a window.
    pub(super) fn part(&self, shared: u64, rank: usize, number: u64) -> Option<Memory> {
        self.parts.get(&(shared, rank, number)).copied()
    }

    /// The address that a put within this process writes; `None` if the window does not exist, or the data does not fit into it.
    pub(super) fn target(&self, shared: u64, spec: &Spec) -> Option<usize> {
        let bytes = spec.count.checked_mul(spec.ty.size())?;
        let part = self.part(shared, spec.peer, spec.signal.window)?;
        let address = part.base.checked_add(spec.signal.offset)?;
        part.holds(address, bytes).then_some(address)
    }

    /// Ends a registration of a rank.
    fn end_local(&mut self, comm: usize, handle: usize) -> Outcome<()> {
        if self.local.get(&handle) != Some(&comm) {
            return Err(Failure::argument("no registration of this communicator has this handle"));
        }
        self.local.remove(&handle);
        Ok(())
    }

    /// True if bytes lie in a symmetric window of the rank's communicator.
    pub(crate) fn in_window(&self, comm: ncclComm_t, address: usize, len: usize) -> bool {
        let its = self.windows.values().filter(|window| window.comm == comm as usize && window.symmetric);
        its.into_iter().any(|window| window.memory.holds(address, len))
    }

    /// Forgets the registrations of a rank with a communicator that ends.
    pub(super) fn forget(&mut self, comm: usize, shared: u64, rank: usize) {
        self.local.retain(|_, of| *of != comm);
        self.windows.retain(|_, window| window.comm != comm);
        self.parts.retain(|(of, whose, _), _| (*of, *whose) != (shared, rank));
    }
}

/// A window that a rank asks for.
#[derive(Clone, Copy)]
pub(crate) struct WindowRequest {
    pub comm: usize,
    pub memory: Memory,
    pub symmetric: bool,
}

/// Creates windows, each with all ranks of its communicator; returns a handle for each, or `None` where windows are unavailable.
pub(crate) fn register_windows(requests: &[WindowRequest]) -> Outcome<Vec<Option<usize>>> {
    crate::device::host_waits();
    let mut state = lock();
    for request in requests {
        state.comms.member(request.comm as ncclComm_t)?.accept_work()?;
    }
    if !settings().windows {
        return Ok(vec![None; requests.len()]);
    }
    let mut texts = Vec::with_capacity(requests.len());
    let mut made = Vec::with_capacity(requests.len());
    for request in requests {
        let member = state.comms.member(request.comm as ncclComm_t)?;
        let (shared, rank, number) = (member.shared, member.rank, member.windows);
        member.windows += 1;
        texts.push(format!("rank {rank} waits for the other ranks of {} to make a window", state.comms.text(shared)));
        state.registered.parts.insert((shared, rank, number), request.memory);
        made.push((shared, rank, number));
    }
    let host = state.hosts.block(requests.len(), texts.join("; "));
    for (index, (request, (_, _, number))) in requests.iter().zip(&made).enumerate() {
        state.come_to(request.comm, Connection::Window { number: *number }, Ticket { host, index });
    }
    state.tidy();
    let answers = wait(state, host);
    let mut state = lock();
    if let Some(failure) = answers.into_iter().find_map(Result::err) {
        for place in &made {
            state.registered.parts.remove(place);
        }
        return Err(failure);
    }
    let handles = requests.iter().zip(made).map(|(request, (_, _, number))| {
        let WindowRequest { comm, memory, symmetric } = *request;
        let handle = handle();
        state.registered.windows.insert(handle, Window { comm, memory, symmetric, number });
        Some(handle)
    });
    Ok(handles.collect())
}

impl State {
    /// Registers memory of one rank; answers the handle.
    pub(crate) fn register(&mut self, comm: ncclComm_t) -> Outcome<usize> {
        self.comms.member(comm)?.accept_work()?;
        let handle = handle();
        self.registered.local.insert(handle, comm as usize);
        Ok(handle)
    }

    /// Ends a registration.
    pub(crate) fn deregister(&mut self, comm: ncclComm_t, handle: usize) -> Outcome<()> {
        self.comms.member(comm)?;
        self.registered.end_local(comm as usize, handle)
    }

    /// A rank's part of a window.
    pub(crate) fn window(&mut self, comm: ncclComm_t, handle: usize) -> Outcome<Window> {
        self.comms.member(comm)?;
        let window = self.registered.windows.get(&handle).filter(|window| window.comm == comm as usize).copied();
        window.ok_or_else(|| Failure::argument("no window of this communicator has this handle"))
    }

    /// Ends a window on one rank.
    pub(crate) fn deregister_window(&mut self, comm: ncclComm_t, handle: usize) -> Outcome<()> {
        let window = self.window(comm, handle)?;
        let member = self.comms.member(comm)?;
        let place = (member.shared, member.rank, window.number);
        self.registered.windows.remove(&handle);
        self.registered.parts.remove(&place);
        Ok(())
    }
}
