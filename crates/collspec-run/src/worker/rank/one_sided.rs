//! One-sided calls of a rank.
use super::{Halt, Rank, garbled};
use crate::backend::PutCall;
use crate::job::{CallKind, Signal};

/// The first version whose one-sided operations connect by themselves.
const CONNECTS_BY_ITSELF: i32 = 23100;

impl Rank<'_> {
    pub(super) fn one_sided(&mut self, kind: &CallKind) -> Result<(), Halt> {
        let library = &self.run.backend.library;
        let done = match kind {
            CallKind::Put { ptr, count, dtype, peer, window, offset, signal, comm, stream } => {
                let find = |id: u32| self.state.registered.iter().rfind(|registered| registered.id == id);
                let window = window.map(|id| find(id).ok_or_else(|| garbled("window"))).transpose()?;
                let call = PutCall {
                    ptr: self.pointer(*ptr)?,
                    count: *count,
                    dtype: *dtype,
                    peer: *peer,
                    window: window.map(|registered| &registered.slot),
                    offset: *offset,
                    signal: *signal,
                    comm: self.comm(*comm)?.get(),
                    stream: self.stream(*stream)?,
                };
                library.put(&call)
            }
            CallKind::Signal { peer, signal, comm, stream } => {
                library.signal(*peer, *signal, self.comm(*comm)?.get(), self.stream(*stream)?)
            }
            CallKind::WaitSignal { peers, signal, comm, stream } => {
                library.wait_signal(peers, *signal, self.comm(*comm)?.get(), self.stream(*stream)?)
            }
            _ => Ok(()),
        };
        self.settled(done)
    }

    /// A signal to the rank itself where the library needs a first call of every rank.
    pub(super) fn first_signal(&mut self, kind: &CallKind, comm: u32, stream: u32) -> Result<(), Halt> {
        let library = &self.run.backend.library;
        if library.version() >= CONNECTS_BY_ITSELF {
            return Ok(());
        }
        let members = self.job().comms.get(comm as usize).ok_or_else(|| garbled("communicator"))?;
        let own = members.iter().position(|member| *member as usize == self.rank);
        let own = own.and_then(|own| i32::try_from(own).ok()).ok_or_else(|| garbled("communicator"))?;
        let signal = Signal { index: 0, context: 0, call_flags: 0 };
        let done = library.signal(own, signal, self.comm(comm)?.get(), self.stream(stream)?);
        self.settled(done)?;
        // The first call is over, so its communicator is recorded again for the second one.
        self.touch(kind);
        let done = library.wait_signal(&[(own, 1)], signal, self.comm(comm)?.get(), self.stream(stream)?);
        self.settled(done)
    }
}
