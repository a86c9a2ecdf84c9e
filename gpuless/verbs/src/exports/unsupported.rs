//! Functions for what is not here: shared receive queues, address handles, multicast, import of other processes' objects and extended
//! interfaces. They exist so that a program gets an answer, and not the function of another libibverbs that would follow its pointers.
#![allow(unsafe_code)] // pointers of callers of a C interface

use super::answers::{functions, null, set_errno};
use libc::{c_int, c_void};

functions! {
    fn ibv_create_srq(_pd: *mut c_void, _init: *mut c_void) -> *mut c_void {
        null(libc::EOPNOTSUPP)
    }

    fn ibv_modify_srq(_srq: *mut c_void, _attr: *mut c_void, _mask: c_int) -> c_int {
        libc::EOPNOTSUPP
    }

    fn ibv_query_srq(_srq: *mut c_void, _attr: *mut c_void) -> c_int {
        libc::EOPNOTSUPP
    }

    fn ibv_destroy_srq(_srq: *mut c_void) -> c_int {
        libc::EOPNOTSUPP
    }

    fn ibv_create_ah(_pd: *mut c_void, _attr: *mut c_void) -> *mut c_void {
        null(libc::EOPNOTSUPP)
    }

    fn ibv_init_ah_from_wc(_context: *mut c_void, _port: u8, _wc: *mut c_void, _grh: *mut c_void, _attr: *mut c_void) -> c_int {
        libc::EOPNOTSUPP
    }

    fn ibv_create_ah_from_wc(_pd: *mut c_void, _wc: *mut c_void, _grh: *mut c_void, _port: u8) -> *mut c_void {
        null(libc::EOPNOTSUPP)
    }

    fn ibv_destroy_ah(_ah: *mut c_void) -> c_int {
        libc::EOPNOTSUPP
    }

    fn ibv_attach_mcast(_pair: *mut c_void, _gid: *const c_void, _lid: u16) -> c_int {
        libc::EOPNOTSUPP
    }

    fn ibv_detach_mcast(_pair: *mut c_void, _gid: *const c_void, _lid: u16) -> c_int {
        libc::EOPNOTSUPP
    }

    fn ibv_rereg_mr(
        _region: *mut c_void, _flags: c_int, _pd: *mut c_void, _address: *mut c_void, _len: usize, _access: c_int,
    ) -> c_int {
        // IBV_REREG_MR_ERR_INPUT: the region stays as it was.
        set_errno(libc::EOPNOTSUPP);
        -1
    }

    fn ibv_qp_to_qp_ex(_pair: *mut c_void) -> *mut c_void {
        null(libc::EOPNOTSUPP)
    }

    fn ibv_import_device(_file: c_int) -> *mut c_void {
        null(libc::EOPNOTSUPP)
    }

    fn ibv_import_pd(_context: *mut c_void, _handle: u32) -> *mut c_void {
        null(libc::EOPNOTSUPP)
    }

    fn ibv_import_mr(_pd: *mut c_void, _handle: u32) -> *mut c_void {
        null(libc::EOPNOTSUPP)
    }

    fn ibv_resolve_eth_l2_from_gid(_context: *mut c_void, _attr: *mut c_void, _mac: *mut u8, _vlan: *mut u16) -> c_int {
        libc::EOPNOTSUPP
    }
}
