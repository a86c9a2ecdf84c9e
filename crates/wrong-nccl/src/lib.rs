//! An NCCL library that is wrong on purpose: it stands between a program and a right library, and changes what passes.
//!
//! [`wrap`] takes the table of a right library and returns a table of the same functions. Each function passes its call on, unless a
//! fault was asked for (`collspecFault`). With a fault, arguments are changed, calls are lost or made twice, inputs are replaced before an
//! operation runs and outputs after it has run, and questions get wrong answers. The right library is not changed and does not know. So a
//! fault here can only be what NCCL's interface shows; faults inside a library are made in its kernels (`collspec audit --nccl`).
//!
//! It works with the software library and with NVIDIA's on software GPUs, whose memory is host memory and whose streams are
//! `gpuless-device`'s. One table can be wrapped in a process.
//!
//! Asked for `trace`, it changes nothing and reports afterwards (`collspecReached`) which faults would have made a difference. Where that
//! depends on values, it reads them in stream order. After a reduction, or the group that it is in, the ranks exchange their contributions in
//! an all_reduce of their own. Some programs hang because of that: one rank calls a reduction and a send in one group, and another rank calls
//! the reduction outside of a group and receives the message afterwards.
mod fault;
mod right;
mod plain;
mod element;
mod memory;
mod streams;
mod call;
mod communicators;
mod groups;
mod placed;
mod numbers;
mod situations;
mod operators;
mod windows;
mod lost;
mod inputs;
mod outputs;
mod sums;
mod arguments;
mod graphs;
mod one_sided;
mod perform;
mod membership;
mod queries;
mod collectives;
mod table;
mod requests;

pub use fault::{Entry, Fault, FaultMode, Injection, Reached};
pub use table::{NoFault, TABLE};

use nccl_sys::Nccl;

/// The functions of `right` with faults on demand; a second table in one process is given back as it is.
pub fn wrap(right: Nccl) -> Nccl {
    let mut wrong = right.clone();
    if !right::set(right) {
        return wrong;
    }
    macro_rules! replace {
        ($($name:ident: $function:path;)*) => {
            $(if wrong.$name.is_some() {
                wrong.$name = Some($function);
            })*
        };
    }
    replace! {
        ncclCommInitRank: membership::init;
        ncclCommInitRankConfig: membership::init_config;
        ncclCommInitRankScalable: membership::init_scalable;
        ncclCommInitAll: membership::init_all;
        ncclCommSplit: membership::split;
        ncclCommShrink: membership::shrink;
        ncclCommGrow: membership::grow;
        ncclCommDestroy: membership::destroy;
        ncclCommAbort: membership::abort;
        ncclCommRevoke: membership::revoke;
        ncclCommResume: membership::resume;
        ncclCommCount: queries::count;
        ncclCommUserRank: queries::user_rank;
        ncclCommCuDevice: queries::device;
        ncclCommGetAsyncError: queries::async_error;
        ncclGetErrorString: queries::error_string;
        ncclGetLastError: queries::last_error;
        ncclGroupStart: groups::group_start;
        ncclGroupEnd: groups::group_end;
        ncclRedOpCreatePreMulSum: operators::create;
        collspecMark: operators::marked;
        ncclMemAlloc: windows::allocate;
        ncclMemFree: windows::free;
        ncclCommRegister: windows::register;
        ncclCommDeregister: windows::deregister;
        ncclCommWindowRegister: windows::register_window;
        ncclCommWindowDeregister: windows::deregister_window;
        ncclWinGetUserPtr: windows::user_pointer;
    }
    collectives::replace(&mut wrong);
    wrong.collspecFault = Some(requests::ask);
    wrong.collspecReached = Some(requests::reached);
    wrong
}
