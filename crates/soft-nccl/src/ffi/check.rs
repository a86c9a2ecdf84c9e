//! Arguments, checked with NCCL's codes before anything is enqueued.
#![allow(unsafe_code)] // a configuration of the caller is read

use crate::arith::Type;
use crate::engine::MOST_SIGNALS;
use crate::engine::Member;
use crate::failure::{Failure, Outcome};
use crate::op::{PreMul, Reduction};
use crate::settings::{CommConfig, OneSided, settings};
use crate::{arith::Combine, op::Kind};
use nccl_sys::{NCCL_CONFIG_MAGIC, NCCL_CONFIG_UNDEF_INT, ncclConfig_t, ncclDataType_t, ncclRedOp_t};
use std::ffi::{c_int, c_uint};
use std::mem::offset_of;

pub(super) fn rank(rank: c_int, n: usize, what: &str) -> Outcome<usize> {
    usize::try_from(rank)
        .ok()
        .filter(|rank| *rank < n)
        .ok_or_else(|| Failure::argument(format!("{what} is {rank}, not in 0..{n}")))
}

pub(super) fn dtype(dtype: ncclDataType_t) -> Outcome<Type> {
    Type::of(dtype).ok_or_else(|| Failure::argument(format!("{} is not a data type", dtype.0)))
}

/// The reduction and the rank's pre-multiplier.
pub(super) fn reduction(member: &Member, op: ncclRedOp_t, ty: Type) -> Outcome<(Reduction, PreMul)> {
    let plain = |combine| Ok((Reduction::Plain(combine), PreMul::None));
    match op {
        ncclRedOp_t::Sum => plain(Combine::Sum),
        ncclRedOp_t::Prod => plain(Combine::Prod),
        ncclRedOp_t::Max => plain(Combine::Max),
        ncclRedOp_t::Min => plain(Combine::Min),
        ncclRedOp_t::Avg => Ok((Reduction::Average, ty.reciprocal(member.n).map_or(PreMul::None, PreMul::Value))),
        ncclRedOp_t(number) => {
            let unknown = || Failure::argument(format!("reduction {number} is unknown to this communicator"));
            let op = member.user_op(number).ok_or_else(unknown)?;
            if op.ty != ty {
                let (made, used) = (op.ty.name(), ty.name());
                return Err(Failure::argument(format!(
                    "reduction {number} was made for {made} and is used with {used}"
                )));
            }
            Ok((Reduction::PreMulSum, op.premul))
        }
    }
}

/// Bytes of a buffer of `blocks` times `count` elements.
pub(super) fn bytes(count: usize, blocks: usize, ty: Type) -> Outcome<usize> {
    count
        .checked_mul(blocks)
        .and_then(|elements| elements.checked_mul(ty.size()))
        .filter(|bytes| isize::try_from(*bytes).is_ok())
        .ok_or_else(|| Failure::argument(format!("{blocks} times {count} elements do not fit in memory")))
}

/// A buffer that the call will read or write.
pub(super) fn buffer(address: usize, bytes: usize, what: &str, kind: Kind) -> Outcome<()> {
    if bytes == 0 {
        return Ok(());
    }
    if address == 0 {
        return Err(Failure::argument(format!("the {what} buffer of {} is null", kind.name())));
    }
    if settings().check_pointers && !crate::device::contains(address, bytes) {
        return Err(Failure::argument(format!("the {what} buffer of {} is not device memory all along", kind.name())));
    }
    Ok(())
}

/// A configuration: its head, and those fields that lie inside the size it names. Returns the fields that affect operations, unless
/// the pointer is null.
///
/// # Safety
/// `config` is null, or points to the number of readable bytes that its first field says.
pub(super) unsafe fn config(config: *const ncclConfig_t) -> Outcome<Option<CommConfig>> {
    if config.is_null() {
        return Ok(None);
    }
    const HEAD: usize = offset_of!(ncclConfig_t, blocking);
    // SAFETY: every caller provides the first field.
    let size = unsafe { config.cast::<usize>().read_unaligned() };
    let mut own = ncclConfig_t::unset(0);
    if size < HEAD {
        return Err(Failure::argument(format!("a configuration of {size} bytes lacks its head")));
    }
    // The head first: without its magic word the size means nothing.
    let magic_at = offset_of!(ncclConfig_t, magic);
    // SAFETY: inside the size that the structure names.
    let magic = unsafe { config.byte_add(magic_at).cast::<c_uint>().read_unaligned() };
    if magic != NCCL_CONFIG_MAGIC {
        return Err(Failure::argument("the configuration was not initialised with NCCL_CONFIG_INITIALIZER"));
    }
    let known = size.min(size_of::<ncclConfig_t>());
    // SAFETY: `known` bytes are readable there and writable here; every bit pattern is a valid configuration.
    unsafe { std::ptr::copy_nonoverlapping(config.cast::<u8>(), (&raw mut own).cast::<u8>(), known) };
    fields(&own)?;
    let one_sided = OneSided {
        contexts: u32::try_from(own.num_rma_ctx).ok(),
        signals: u32::try_from(own.num_rma_sig).ok(),
        eager: (own.rma_eager_init != NCCL_CONFIG_UNDEF_INT).then_some(own.rma_eager_init == 1),
    };
    let min_ctas = usize::try_from(own.min_ctas).ok();
    Ok(Some(CommConfig { min_ctas, one_sided, nonblocking: own.blocking == 0 }.in_environment()))
}

fn fields(config: &ncclConfig_t) -> Outcome<()> {
    let within = |value: c_int, low: c_int, high: c_int, name: &str| {
        if value == NCCL_CONFIG_UNDEF_INT || (low..=high).contains(&value) {
            return Ok(());
        }
        Err(Failure::argument(format!("the configuration's {name} is {value}, not in {low}..={high}")))
    };
    within(config.blocking, 0, 1, "blocking")?;
    within(config.cga_cluster_size, 0, 8, "cgaClusterSize")?;
    within(config.min_ctas, 1, c_int::MAX, "minCTAs")?;
    within(config.max_ctas, 1, c_int::MAX, "maxCTAs")?;
    within(config.split_share, 0, 1, "splitShare")?;
    within(config.num_rma_ctx, 1, MOST_SIGNALS, "numRmaCtx")?;
    within(config.num_rma_sig, 1, MOST_SIGNALS, "numRmaSig")?;
    within(config.rma_eager_init, 0, 1, "rmaEagerInit")?;
    let set = |value: c_int| value != NCCL_CONFIG_UNDEF_INT;
    if set(config.min_ctas) && set(config.max_ctas) && config.min_ctas > config.max_ctas {
        return Err(Failure::argument("the configuration's minCTAs is greater than its maxCTAs"));
    }
    Ok(())
}
