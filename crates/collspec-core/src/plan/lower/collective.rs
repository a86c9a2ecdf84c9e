//! One rank's part of a collective: its memory, NCCL's count, the factor's bits, and the permitted overlap.
use super::super::eval::ranks;
use super::super::item::{BufferSlice, Factor, FactorNumber, Item, Open};
use super::super::outside::outside;
use super::super::rank_op::{Placed, RankCollective, RankOp, Size};
use super::super::types::{Reduction, Region};
use super::call::Pointers;
use super::{LoweredOp, Lowering, narrow};
use crate::expr::map::value_bits;
use crate::job::Ptr;
use crate::num::{self, DType};
use crate::ops::{Extent, InPlace, UnmetSelection, algorithm_words};
use crate::scenario::{Diagnostic, Span, fit_dtype};
use crate::suggest::nearest;
use std::sync::Arc;

impl Lowering {
    pub(super) fn collective(
        &mut self,
        at: (usize, usize),
        item: &Item,
        c: &RankCollective<Open>,
    ) -> Result<LoweredOp, Diagnostic> {
        let world_rank = at.0;
        let n = self.lowered.unrolled.comms.list[c.comm].members.len();
        let root = usize::try_from(c.root.value).ok().filter(|r| *r < n);
        if root.is_none() && !item.fails {
            let text = format!("root {} is not in the communicator of {}", c.root.value, ranks(n));
            if !self.lenient {
                let list = &self.lowered.unrolled.comms.list;
                return Err(outside(list, c.comm, ("root", c.root.value, c.root.span), None, None));
            }
            self.lowered.undefined.get_or_insert(text);
        }
        let root_or_none = root.unwrap_or(usize::MAX);
        let (reads, writes) =
            (c.op.readers.includes(c.rank, root_or_none), c.op.writers.includes(c.rank, root_or_none));
        let has = |slice: &BufferSlice| self.lowered.placed.buffers[slice.buf].places[world_rank].is_some();
        let send = match &c.send {
            Some(slice) if reads || has(slice) => Some(self.region(slice, world_rank, reads)?),
            _ => None,
        };
        let recv = match &c.recv {
            Some(slice) if writes || has(slice) => Some(self.output(at, slice)?),
            _ => None,
        };
        let Some(known) = c.recv.as_ref().or(c.send.as_ref()) else {
            return Err(Diagnostic::new(item.span, "this step needs `in`"));
        };
        let dtype = self.dtype(known.buf);
        let count = nccl_count(c, send.filter(|_| reads), recv, n);
        if c.in_place {
            self.take(c, world_rank, item.span);
        }
        if reads && writes {
            self.overlap(c, item.span, send, recv, count)?;
        }
        if count > 0 && !item.fails && !self.lenient {
            algorithm_of(c)?;
        }
        let destroyed_operator = matches!(&c.reduction, Some(Reduction::PreMulSum(factor)) if factor.destroyed);
        if destroyed_operator && !item.fails {
            let text = "a call with an operator that was destroyed fails: it needs `error = \"invalid_argument\"`";
            return Err(Diagnostic::new(item.span, text));
        }
        let (reduction, factor) = self.reduction(c, world_rank, dtype)?;
        let mut pointer = |region: Option<Region>, used: bool| match region {
            _ if c.null_pointers && (item.fails || !used || count == 0) => Ptr::Null,
            Some(region) => self.ptr(&region),
            None => self.scrap(world_rank),
        };
        let send_pointer = if c.in_place && !reads && c.op.in_place == InPlace::Same {
            pointer(recv, false) // in place every rank names one buffer
        } else {
            pointer(send, reads)
        };
        let write = pointer(recv, writes);
        let pointers = Pointers { reads: vec![send_pointer], write, factor, destroyed_operator, window: None };
        let op = RankCollective::<Placed> {
            op: c.op,
            comm: c.comm,
            rank: c.rank,
            send: send.filter(|_| reads),
            recv: recv.filter(|_| writes),
            size: Size { count, dtype },
            reduction,
            root: narrow(c.root.value),
            in_place: c.in_place,
            null_pointers: c.null_pointers,
            algorithm: c.algorithm.clone(),
            stream: c.stream,
        };
        let takes_effect = root.is_some() && !item.fails;
        Ok(LoweredOp { op: RankOp::Collective(Arc::new(op)), pointers, takes_effect })
    }

    /// Marks the input of an in-place call whose `in` and `out` have different names as taken: it is overwritten.
    fn take(&mut self, c: &RankCollective<Open>, rank: usize, span: Span) {
        let (Some(i), Some(o)) = (&c.send, &c.recv) else { return };
        let alloc = |s: &BufferSlice| self.lowered.placed.buffers[s.buf].places[rank].map(|p| p.alloc);
        if i.buf != o.buf && alloc(i).is_some() && alloc(i) == alloc(o) {
            self.taken.insert((i.buf, rank), span);
        }
    }

    /// Send and receive side, which are both used, may share memory only as NCCL documents it.
    fn overlap(
        &self,
        c: &RankCollective<Open>,
        span: Span,
        send: Option<Region>,
        recv: Option<Region>,
        count: u64,
    ) -> Result<(), Diagnostic> {
        let (Some(send), Some(recv)) = (send, recv) else { return Ok(()) };
        let bytes = |region: Region| {
            let buffer = &self.lowered.placed.buffers[region.buf];
            let size = buffer.dtype.size() as u64;
            buffer.places[region.rank].map(|p| (p.alloc, p.offset + region.start * size, region.len * size, size))
        };
        let (Some((send_alloc, read, read_len, size)), Some((recv_alloc, written, written_len, _))) =
            (bytes(send), bytes(recv))
        else {
            return Ok(());
        };
        let apart = read >= written + written_len || written >= read + read_len;
        if send_alloc != recv_alloc || read_len == 0 || written_len == 0 || apart {
            return Ok(());
        }
        let block = c.rank as u64 * count * size;
        let allowed = match c.op.in_place {
            InPlace::Same => read == written,
            InPlace::SendInRecv => read == written + block,
            InPlace::RecvInSend => written == read + block,
            InPlace::Never => false,
        };
        if allowed {
            return Ok(());
        }
        let text = format!("`in` and `out` overlap on rank {}, and not as this operation runs in place", send.rank);
        Err(Diagnostic::new(span, text).help("give `out` a separate buffer"))
    }

    /// The reduction with the factor's bits, and the factor's place in device memory if NCCL reads it there.
    fn reduction(
        &mut self,
        c: &RankCollective<Open>,
        world_rank: usize,
        dtype: DType,
    ) -> Result<(Option<Reduction<u64>>, Option<Ptr>), Diagnostic> {
        Ok(match &c.reduction {
            None => (None, None),
            Some(Reduction::Builtin(op)) => (Some(Reduction::Builtin(*op)), None),
            Some(Reduction::PreMulSum(factor)) => {
                let bits = factor_bits(factor, dtype)
                    .map_err(|why| Diagnostic::new(factor.span, format!("the factor of rank {}: {why}", c.rank)))?;
                let device = factor.device.then(|| self.factor(world_rank, dtype, bits));
                (Some(Reduction::PreMulSum(bits)), device)
            }
        })
    }
}

/// Refuses a call that must fail because no library can provide the algorithm that it requests. A call without elements does not
/// check the selection.
fn algorithm_of(c: &RankCollective<Open>) -> Result<(), Diagnostic> {
    let Some(algorithm) = c.algorithm.as_ref().filter(|algorithm| algorithm.choice.force) else { return Ok(()) };
    let Err(unmet) = algorithm.choice.admitted(c.op.call) else { return Ok(()) };
    let text = format!("`algorithm = \"{}\"` cannot be met: {unmet}", algorithm.choice.selection);
    let help = match &unmet {
        UnmetSelection::Unknown(word) => {
            nearest(word, algorithm_words()).map(|near| format!("did you mean `{}`? ", near.to_ascii_lowercase()))
        }
        UnmetSelection::Empty(_) | UnmetSelection::NotServed(..) => None,
    };
    let help = help.unwrap_or_default()
        + "NCCL's call returns invalid_argument: write `error = \"invalid_argument\"` if that is meant, or \
           `algorithm = { prefer = ... }` to let the library choose then";
    Err(Diagnostic::new(algorithm.span, text).help(help))
}

/// NCCL's count argument, from whichever side the rank has.
fn nccl_count(c: &RankCollective<Open>, send: Option<Region>, recv: Option<Region>, n: usize) -> u64 {
    let per = |extent: Extent, len: u64| if extent == Extent::PerRank { len / n as u64 } else { len };
    match (send, recv) {
        (Some(region), _) => per(c.op.send, region.len),
        (None, Some(region)) => per(c.op.recv, region.len),
        (None, None) => 0,
    }
}

/// The bits of a factor in the type: a written number is converted like an element, a computed one wrapped or rounded.
fn factor_bits(factor: &Factor, dtype: DType) -> Result<u64, String> {
    match factor.number {
        FactorNumber::Written(value) => fit_dtype(value, dtype).map(|value| num::element_bits(dtype, &value)),
        FactorNumber::Computed { real, .. } if dtype.is_float() => value_bits(dtype, real).map_err(|e| e.to_string()),
        FactorNumber::Computed { whole, .. } => {
            let value = whole.ok_or("it has no value in whole numbers")?;
            value_bits(dtype, value).map_err(|e| e.to_string())
        }
    }
}
