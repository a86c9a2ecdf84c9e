//! A call that puts work on a stream, as the program made it or as a fault has changed it.
#![allow(unsafe_code)] // functions of the right library are called

use crate::element::Type;
use crate::right::right;
use nccl_sys::*;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};

/// The operation of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    AllReduce,
    Reduce,
    Broadcast,
    AllGather,
    ReduceScatter,
    AlltoAll,
    Gather,
    Scatter,
    Send,
    Recv,
    Put,
    Signal,
    Wait,
}

impl Kind {
    /// The scenario language's word.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::Reduce => "reduce",
            Self::Broadcast => "broadcast",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::AlltoAll => "all_to_all",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Send => "send",
            Self::Recv => "recv",
            Self::Put => "put",
            Self::Signal => "signal",
            Self::Wait => "wait_signal",
        }
    }

    pub(crate) fn is_collective(self) -> bool {
        !self.is_message() && !self.is_one_sided()
    }

    pub(crate) fn is_message(self) -> bool {
        matches!(self, Self::Send | Self::Recv)
    }

    pub(crate) fn is_one_sided(self) -> bool {
        matches!(self, Self::Put | Self::Signal | Self::Wait)
    }

    pub(crate) fn reduces(self) -> bool {
        matches!(self, Self::AllReduce | Self::Reduce | Self::ReduceScatter)
    }

    pub(crate) fn has_root(self) -> bool {
        matches!(self, Self::Reduce | Self::Broadcast | Self::Gather | Self::Scatter)
    }

    /// Blocks of `count` elements that a rank reads, and those that it writes.
    fn blocks(self, is_root: bool, n: usize) -> (usize, usize) {
        let root = usize::from(is_root);
        match self {
            Self::AllReduce => (1, 1),
            Self::Reduce => (1, root),
            Self::Broadcast => (root, 1),
            Self::AllGather => (1, n),
            Self::ReduceScatter => (n, 1),
            Self::AlltoAll => (n, n),
            Self::Gather => (1, root * n),
            Self::Scatter => (root * n, 1),
            Self::Send | Self::Put => (1, 0),
            Self::Recv => (0, 1),
            Self::Signal | Self::Wait => (0, 0),
        }
    }
}

/// The arguments that only one-sided calls have.
#[derive(Clone, Debug, Default)]
pub(crate) struct OneSided {
    pub window: usize,
    pub offset: usize,
    pub signal: c_int,
    pub context: c_int,
    pub flags: c_uint,
    pub waits: Vec<ncclWaitSignalDesc_t>,
}

/// A call. Pointers and handles are addresses: they are passed on, and followed only where the right library would follow them.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub kind: Kind,
    pub send: usize,
    pub recv: usize,
    pub count: usize,
    pub dtype: ncclDataType_t,
    /// The reduction; a sum where there is none.
    pub op: ncclRedOp_t,
    /// The root or the peer; 0 where there is none.
    pub root: c_int,
    pub comm: usize,
    pub stream: usize,
    /// The address of a configuration of this call.
    pub config: Option<usize>,
    pub one_sided: OneSided,
}

/// Addresses with lengths in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub send: (usize, usize),
    pub recv: (usize, usize),
}

impl Extent {
    /// True if the input lies in the output, or the other way round.
    pub(crate) fn overlaps(&self) -> bool {
        let ((a, a_len), (b, b_len)) = (self.send, self.recv);
        a_len > 0 && b_len > 0 && a < b.saturating_add(b_len) && b < a.saturating_add(a_len)
    }
}

impl Call {
    /// The element type; `None` for a number that is not NCCL's.
    pub(crate) fn ty(&self) -> Option<Type> {
        Type::of(self.dtype)
    }

    /// Bytes of an element.
    pub(crate) fn size(&self) -> usize {
        self.ty().map_or(1, Type::size)
    }

    pub(crate) fn is_root(&self, rank: usize) -> bool {
        usize::try_from(self.root).is_ok_and(|root| root == rank)
    }

    /// The memory that the call reads and writes on this rank.
    pub(crate) fn extent(&self, rank: usize, n: usize) -> Extent {
        let (read, written) = self.kind.blocks(self.is_root(rank), n);
        let bytes = |blocks: usize| blocks.saturating_mul(self.count).saturating_mul(self.size());
        Extent { send: (self.send, bytes(read)), recv: (self.recv, bytes(written)) }
    }

    /// Calls the right library.
    pub(crate) fn issue(&self) -> ncclResult_t {
        let (send, recv) = (with_exposed_provenance::<c_void>(self.send), with_exposed_provenance_mut(self.recv));
        let comm: ncclComm_t = with_exposed_provenance_mut(self.comm);
        let stream: cudaStream_t = with_exposed_provenance_mut(self.stream);
        let Self { count, dtype, op, root, one_sided, .. } = self;
        let (count, dtype, op, root) = (*count, *dtype, *op, *root);
        let table = right();
        macro_rules! call {
            ($name:ident($($arg:expr),*)) => {
                match table.$name {
                    // SAFETY: the arguments are the program's, which keeps to NCCL's contract, or this library's own memory.
                    Some(f) => unsafe { f($($arg),*) },
                    None => ncclResult_t::InternalError,
                }
            };
        }
        macro_rules! collective {
            (@ $function:ident () $($config:expr)?) => { call!($function(send, recv, count, dtype, comm, stream $(, $config)?)) };
            (@ $function:ident (reduction) $($config:expr)?) => { call!($function(send, recv, count, dtype, op, comm, stream $(, $config)?)) };
            (@ $function:ident (root) $($config:expr)?) => { call!($function(send, recv, count, dtype, root, comm, stream $(, $config)?)) };
            (@ $function:ident (reduction, root) $($config:expr)?) => { call!($function(send, recv, count, dtype, op, root, comm, stream $(, $config)?)) };
            ($($variant:ident $function:ident $with_config:ident $takes:tt $written:ident;)*) => {
                match (self.kind, self.config) {
                    $(
                        (Kind::$variant, None) => collective!(@ $function $takes),
                        (Kind::$variant, Some(config)) => collective!(@ $with_config $takes with_exposed_provenance(config)),
                    )*
                    (Kind::Send, _) => call!(ncclSend(send, count, dtype, root, comm, stream)),
                    (Kind::Recv, _) => call!(ncclRecv(recv, count, dtype, root, comm, stream)),
                    (Kind::Put, _) => {
                        let OneSided { window, offset, signal, context, flags, .. } = *one_sided;
                        let window = with_exposed_provenance_mut(window);
                        call!(ncclPutSignal(send, count, dtype, root, window, offset, signal, context, flags, comm, stream))
                    }
                    (Kind::Signal, _) => {
                        let OneSided { signal, context, flags, .. } = *one_sided;
                        call!(ncclSignal(root, signal, context, flags, comm, stream))
                    }
                    (Kind::Wait, _) => {
                        let mut waits = one_sided.waits.clone();
                        let count = c_int::try_from(waits.len()).unwrap_or(c_int::MAX);
                        call!(ncclWaitSignal(count, waits.as_mut_ptr(), comm, stream))
                    }
                }
            };
        }
        collectives!(collective)
    }
}
