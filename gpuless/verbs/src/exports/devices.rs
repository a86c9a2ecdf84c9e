//! Devices, contexts, ports and events.
#![allow(unsafe_code)] // pointers of callers of a C interface

use super::answers::{code, code_of, functions, minus_one, null, put};
use super::pairs;
use crate::device::{self, CONTEXTS, Context, Device, MAX_MESSAGE, devices};
use crate::layout::{
    self, AsyncEvent, DeviceAttr, Gid, GidEntry, LINK_ETHERNET, LINK_INFINIBAND, PORT_ACTIVE, PORT_DOWN, PortAttr,
};
use crate::qp::network;
use crate::settings::LinkLayer;
use crate::{fabric, names};
use libc::{c_char, c_int, c_void, size_t, ssize_t};
use std::sync::Arc;

const EVERYTHING: u16 = 0xffff;

fn context(context: *const layout::Context) -> Result<Arc<Context>, c_int> {
    Context::find(context).ok_or(libc::EINVAL)
}

fn port_of(context: *const layout::Context, port: u32) -> Result<&'static Device, c_int> {
    let device = self::context(context)?.device;
    if device.is_dead() {
        return Err(libc::EIO);
    }
    (port == 1).then_some(device).ok_or(libc::EINVAL)
}

/// Stored by a `u32` or by `enum ibv_gid_type`.
fn entry(device: &Device, index: usize) -> Option<GidEntry> {
    let gid_index = u32::try_from(index).ok()?;
    device.gid(index).map(|gid| GidEntry {
        gid,
        gid_index,
        port_num: 1,
        gid_type: device.gid_type(index),
        ndev_ifindex: 0,
    })
}

/// # Safety
///
/// There is room for a `GidEntry` at the place.
unsafe fn put_entry(place: *mut c_void, entry: GidEntry, size: size_t) -> Result<(), c_int> {
    if size < size_of::<GidEntry>() {
        return Err(libc::EINVAL);
    }
    // SAFETY: as the caller says.
    unsafe { put(place.cast(), entry) }
}

fn attributes(device: &Device) -> DeviceAttr {
    let mut fw_ver = [0; 64];
    for (to, from) in fw_ver.iter_mut().zip(b"28.42.1000") {
        *to = from.cast_signed();
    }
    DeviceAttr {
        fw_ver,
        node_guid: device.guid.to_be(),
        sys_image_guid: device.guid.to_be(),
        max_mr_size: u64::MAX,
        page_size_cap: !0xfff,
        vendor_id: 0x2c9,
        vendor_part_id: 4129,
        hw_ver: 0,
        max_qp: 1 << fabric::PAIR_BITS,
        max_qp_wr: 32768,
        device_cap_flags: 0,
        max_sge: 30,
        max_sge_rd: 30,
        max_cq: 1 << 24,
        max_cqe: (1 << 22) - 1,
        max_mr: 1 << 24,
        max_pd: 1 << 23,
        max_qp_rd_atom: 16,
        max_ee_rd_atom: 0,
        max_res_rd_atom: 1 << 18,
        max_qp_init_rd_atom: 16,
        max_ee_init_rd_atom: 0,
        atomic_cap: 1, // IBV_ATOMIC_HCA
        _unused_limits: [0; 11],
        max_srq: 0,
        max_srq_wr: 0,
        max_srq_sge: 0,
        max_pkeys: 1,
        local_ca_ack_delay: 16,
        phys_port_cnt: 1,
    }
}

fn port(device: &Device) -> PortAttr {
    let (active_width, active_speed) = device.width_and_speed();
    let is_up = device.is_up();
    let is_ethernet = device.nic.link == LinkLayer::Ethernet;
    PortAttr {
        state: if is_up { PORT_ACTIVE } else { PORT_DOWN },
        max_mtu: 5, // IBV_MTU_4096
        active_mtu: 5,
        gid_tbl_len: c_int::try_from(device.gids()).unwrap_or(0),
        max_msg_sz: MAX_MESSAGE,
        pkey_tbl_len: 1,
        lid: device.lid(),
        sm_lid: u16::from(!is_ethernet),
        max_vl_num: 4,
        subnet_timeout: 18,
        active_width,
        active_speed,
        phys_state: if is_up { 5 } else { 3 }, // LinkUp, Disabled
        link_layer: if is_ethernet { LINK_ETHERNET } else { LINK_INFINIBAND },
        ..PortAttr::default()
    }
}

functions! {
    fn ibv_get_device_list(count: *mut c_int) -> *mut *mut layout::Device {
        let devices = devices();
        // SAFETY: memory for the pointers and the null behind them, which `ibv_free_device_list` frees.
        let list: *mut *mut layout::Device = unsafe { libc::calloc(devices.len() + 1, size_of::<*mut c_void>()) }.cast();
        if list.is_null() {
            return null(libc::ENOMEM);
        }
        for (index, device) in devices.iter().enumerate() {
            // SAFETY: within this memory.
            unsafe { list.add(index).write(device.shared.pointer()) };
        }
        if !count.is_null() {
            // SAFETY: the caller's place for the number.
            unsafe { count.write(c_int::try_from(devices.len()).unwrap_or(c_int::MAX)) };
        }
        list
    }

    fn ibv_free_device_list(list: *mut *mut layout::Device) {
        // SAFETY: from `ibv_get_device_list`, or null.
        unsafe { libc::free(list.cast()) };
    }

    fn ibv_get_device_name(device: *mut layout::Device) -> *const c_char {
        match device::at(device) {
            // SAFETY: devices live as long as the process, and their names end with zero.
            Some(device) => unsafe { (&raw const (*device.shared.pointer()).name).cast() },
            None => null::<c_char>(libc::EINVAL).cast_const(),
        }
    }

    fn ibv_get_device_guid(device: *mut layout::Device) -> u64 {
        device::at(device).map_or(0, |device| device.guid.to_be())
    }

    fn ibv_get_device_index(device: *mut layout::Device) -> c_int {
        device::at(device).and_then(|device| c_int::try_from(device.index).ok()).unwrap_or(-1)
    }

    fn ibv_open_device(device: *mut layout::Device) -> *mut layout::Context {
        let Some(device) = device::at(device) else { return null(libc::ENODEV) };
        if let Err(error) = network::join() {
            return null(code_of(&error));
        }
        match Context::open(device, pairs::fill) {
            Ok(context) => context.shared.pointer(),
            Err(error) => null(code_of(&error)),
        }
    }

    fn ibv_close_device(closed: *mut layout::Context) -> c_int {
        // What was made of it lives on until it is destroyed: some programs close the context first.
        code(CONTEXTS.remove(closed as usize).map(|_| ()).ok_or(libc::EINVAL))
    }

    fn ibv_get_async_event(from: *mut layout::Context, event: *mut AsyncEvent) -> c_int {
        match context(from).and_then(|context| context.next_event().map_err(|error| code_of(&error))) {
            // SAFETY: the caller's place for it.
            Ok(next) => unsafe { put(event, next) }.map_or_else(minus_one, |()| 0),
            Err(error) => minus_one(error),
        }
    }

    fn ibv_ack_async_event(_event: *mut AsyncEvent) {}

    fn ibv_query_device(of: *mut layout::Context, attr: *mut DeviceAttr) -> c_int {
        // SAFETY: the caller's place for it.
        code(context(of).and_then(|context| unsafe { put(attr, attributes(context.device)) }))
    }

    fn ibv_query_port(of: *mut layout::Context, number: u8, attr: *mut PortAttr) -> c_int {
        // SAFETY: the caller's place for at least as much.
        code(port_of(of, number.into()).and_then(|device| unsafe { put(attr, port(device)) }))
    }

    /// In units of 100 Mb/s.
    fn ibv_query_port_speed(of: *mut layout::Context, number: u32, speed: *mut u64) -> c_int {
        // SAFETY: the caller's place for it.
        code(port_of(of, number).and_then(|device| unsafe { put(speed, u64::from(device.nic.speed) * 10) }))
    }

    fn ibv_query_gid(of: *mut layout::Context, number: u8, index: c_int, gid: *mut Gid) -> c_int {
        let found = port_of(of, number.into()).and_then(|device| {
            usize::try_from(index).ok().and_then(|index| device.gid(index)).ok_or(libc::EINVAL)
        });
        // SAFETY: the caller's place for it.
        found.and_then(|found| unsafe { put(gid, found) }).map_or_else(minus_one, |()| 0)
    }

    fn _ibv_query_gid_ex(
        of: *mut layout::Context, number: u32, index: u32, place: *mut c_void, flags: u32, size: size_t,
    ) -> c_int {
        let found = port_of(of, number).and_then(|device| {
            if flags != 0 {
                return Err(libc::EOPNOTSUPP);
            }
            entry(device, index as usize).ok_or(libc::ENODATA)
        });
        // SAFETY: the caller's place for an entry of that size.
        code(found.and_then(|found| unsafe { put_entry(place, found, size) }))
    }

    fn _ibv_query_gid_table(
        of: *mut layout::Context, places: *mut c_void, most: size_t, flags: u32, size: size_t,
    ) -> ssize_t {
        let device = match port_of(of, 1) {
            Ok(_) if flags != 0 => return -(libc::EOPNOTSUPP as ssize_t),
            Ok(device) => device,
            Err(error) => return -(error as ssize_t),
        };
        let entries = (0..device.gids().min(most)).filter_map(|index| Some((index, entry(device, index)?)));
        let mut count = 0;
        for (index, entry) in entries {
            // SAFETY: the caller's places, `most` of that size.
            if let Err(error) = unsafe { put_entry(places.wrapping_byte_add(index * size), entry, size) } {
                return -(error as ssize_t);
            }
            count += 1;
        }
        count
    }

    fn ibv_query_gid_type(of: *mut layout::Context, number: u8, index: u32, place: *mut u32) -> c_int {
        let found = port_of(of, number.into()).and_then(|device| entry(device, index as usize).ok_or(libc::EINVAL));
        // The kernel's own numbers: InfiniBand and RoCE 1 are one.
        // SAFETY: the caller's place for it.
        found.and_then(|found| unsafe { put(place, found.gid_type.saturating_sub(1)) }).map_or_else(minus_one, |()| 0)
    }

    fn ibv_query_pkey(of: *mut layout::Context, number: u8, index: c_int, key: *mut u16) -> c_int {
        let found = port_of(of, number.into()).and(if index == 0 { Ok(EVERYTHING) } else { Err(libc::EINVAL) });
        // SAFETY: the caller's place for it.
        found.and_then(|found| unsafe { put(key, found) }).map_or_else(minus_one, |()| 0)
    }

    fn ibv_get_pkey_index(of: *mut layout::Context, number: u8, key: u16) -> c_int {
        match port_of(of, number.into()) {
            Ok(_) if key == EVERYTHING => 0,
            Ok(_) => minus_one(libc::ENOENT),
            Err(error) => minus_one(error),
        }
    }

    fn ibv_fork_init() -> c_int {
        0
    }

    /// `IBV_FORK_UNNEEDED`: no page is pinned.
    fn ibv_is_fork_initialized() -> c_int {
        2
    }

    fn ibv_node_type_str(number: c_int) -> *const c_char {
        names::node_type(number).as_ptr()
    }

    fn ibv_port_state_str(number: c_int) -> *const c_char {
        names::port_state(number).as_ptr()
    }

    fn ibv_event_type_str(number: c_int) -> *const c_char {
        names::event(number).as_ptr()
    }

    fn ibv_wc_status_str(number: c_int) -> *const c_char {
        names::status(number).as_ptr()
    }
}
