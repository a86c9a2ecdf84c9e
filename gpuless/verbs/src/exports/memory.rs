//! Protection domains and memory regions.
#![allow(unsafe_code)] // pointers of callers of a C interface

use super::answers::{code, code_of, functions, null};
use crate::device::Context;
use crate::layout;
use crate::qp;
use crate::region::{PDS, Pd, Region, Wanted, next_handle};
use crate::shared::Shared;
use libc::{c_int, c_uint, c_void, size_t};
use std::io;
use std::sync::Arc;

fn register(pd: *const layout::Pd, register: impl FnOnce(&Arc<Pd>) -> io::Result<Arc<Region>>) -> *mut layout::Mr {
    let Some(pd) = PDS.find(pd as usize) else { return null(libc::EINVAL) };
    if pd.context.device.is_dead() {
        return null(libc::EIO);
    }
    match register(&pd) {
        Ok(region) => region.shared.pointer(),
        Err(error) => null(code_of(&error)),
    }
}

functions! {
    fn ibv_alloc_pd(context: *mut layout::Context) -> *mut layout::Pd {
        let Some(context) = Context::find(context) else { return null(libc::EINVAL) };
        if context.device.is_dead() {
            return null(libc::EIO);
        }
        let shared = Shared::new(layout::Pd { context: context.shared.pointer(), handle: next_handle() });
        let pd = Arc::new(Pd { shared, context });
        PDS.insert(pd.shared.address(), Arc::clone(&pd));
        pd.shared.pointer()
    }

    fn ibv_dealloc_pd(pd: *mut layout::Pd) -> c_int {
        let Some(pd) = PDS.find(pd as usize) else { return libc::EINVAL };
        if Region::any(|region| Arc::ptr_eq(&region.pd, &pd)) || qp::BY_ADDRESS.any(|pair| Arc::ptr_eq(&pair.pd, &pd)) {
            return libc::EBUSY;
        }
        PDS.remove(pd.shared.address());
        0
    }

    fn ibv_reg_mr(pd: *mut layout::Pd, address: *mut c_void, len: size_t, access: c_int) -> *mut layout::Mr {
        // SAFETY: the same arguments, with the address for both.
        unsafe { ibv_reg_mr_iova2(pd, address, len, address as u64, access.cast_unsigned()) }
    }

    fn ibv_reg_mr_iova(
        pd: *mut layout::Pd, address: *mut c_void, len: size_t, io_start: u64, access: c_int,
    ) -> *mut layout::Mr {
        // SAFETY: the same arguments.
        unsafe { ibv_reg_mr_iova2(pd, address, len, io_start, access.cast_unsigned()) }
    }

    fn ibv_reg_mr_iova2(
        pd: *mut layout::Pd, address: *mut c_void, len: size_t, io_start: u64, access: c_uint,
    ) -> *mut layout::Mr {
        register(pd, |pd| Region::register(pd, Wanted { start: address as usize, len, io_start, access }))
    }

    fn ibv_reg_dmabuf_mr(
        pd: *mut layout::Pd, offset: u64, len: size_t, io_start: u64, file: c_int, access: c_int,
    ) -> *mut layout::Mr {
        let wanted = Wanted { start: 0, len, io_start, access: access.cast_unsigned() };
        register(pd, |pd| Region::register_file(pd, file, offset, wanted))
    }

    fn ibv_dereg_mr(region: *mut layout::Mr) -> c_int {
        code(Region::deregister(region as usize).ok_or(libc::EINVAL))
    }
}
