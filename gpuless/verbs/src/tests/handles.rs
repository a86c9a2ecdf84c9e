//! Pointers that were freed or never given out, and what else a program asks about its devices.

use super::end::*;
use super::{alone, call};
use crate::layout::*;
use crate::{LIBRARIES, files, function};
use libc::{c_char, c_int, c_void};
use std::ffi::CStr;
use std::ptr::null_mut;

#[test]
fn what_is_no_object_is_refused_and_not_followed() {
    let _alone = alone();
    // It is first, so that it does not get the addresses of those that are gone.
    let live = End::new();
    let old = {
        let a = End::new();
        (a.context, a.pd, a.mr, a.send_cq, a.qp, a.channel)
    };
    assert_eq!(call!(ibv_destroy_qp: fn(*mut Qp) -> c_int; old.4), libc::EINVAL);
    assert_eq!(call!(ibv_destroy_cq: fn(*mut Cq) -> c_int; old.3), libc::EINVAL);
    assert_eq!(call!(ibv_dereg_mr: fn(*mut Mr) -> c_int; old.2), libc::EINVAL);
    assert_eq!(call!(ibv_dealloc_pd: fn(*mut Pd) -> c_int; old.1), libc::EINVAL);
    assert_eq!(call!(ibv_destroy_comp_channel: fn(*mut CompChannel) -> c_int; old.5), libc::EINVAL);
    assert_eq!(call!(ibv_close_device: fn(*mut Context) -> c_int; old.0), libc::EINVAL);
    for pd in [old.1, null_mut(), 24 as *mut Pd] {
        assert!(call!(ibv_reg_mr: fn(*mut Pd, *mut c_void, usize, c_int) -> *mut Mr; pd, null_mut(), 0, 1).is_null());
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINVAL));
    }
    let mut attr = QpAttr::default();
    assert_eq!(call!(ibv_modify_qp: fn(*mut Qp, *mut QpAttr, c_int) -> c_int; old.4, &raw mut attr, 0), libc::EINVAL);
    let mut bad = null_mut();
    // SAFETY: the functions of the context, with a pointer that names nothing.
    unsafe {
        let post: unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int =
            std::mem::transmute((*live.context).post_send);
        assert_eq!(post(16 as *mut Qp, null_mut(), &raw mut bad), libc::EINVAL);
        let poll: unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int = std::mem::transmute((*live.context).poll_cq);
        assert_eq!(poll(old.3, 1, null_mut()), -libc::EINVAL);
    }
}

#[test]
fn objects_in_use_stay() {
    let _alone = alone();
    let a = End::new();
    assert_eq!(call!(ibv_destroy_cq: fn(*mut Cq) -> c_int; a.send_cq), libc::EBUSY);
    assert_eq!(call!(ibv_dealloc_pd: fn(*mut Pd) -> c_int; a.pd), libc::EBUSY);
    assert_eq!(call!(ibv_destroy_comp_channel: fn(*mut CompChannel) -> c_int; a.channel), libc::EBUSY);
}

#[test]
fn devices_say_what_the_settings_say() {
    let _alone = alone();
    let contexts = [open(0), open(1)];
    let ports = contexts.map(|context| {
        let mut port = PortAttr::default();
        assert_eq!(call!(ibv_query_port: fn(*mut Context, u8, *mut PortAttr) -> c_int; context, 1, &raw mut port), 0);
        port
    });
    assert_eq!(ports.map(|port| (port.link_layer, port.gid_tbl_len, port.lid != 0)), [(1, 1, true), (2, 4, false)]);
    assert_eq!(ports.map(|port| (port.state, port.active_width, port.active_speed)), [(PORT_ACTIVE, 2, 128); 2]);
    let guids = contexts.map(|context| {
        // SAFETY: numbers, which the call fills in.
        let mut attr: DeviceAttr = unsafe { std::mem::zeroed() };
        assert_eq!(call!(ibv_query_device: fn(*mut Context, *mut DeviceAttr) -> c_int; context, &raw mut attr), 0);
        attr.sys_image_guid
    });
    assert_ne!(guids[0], guids[1]);
    let gid = |context, index| {
        let mut gid = [0; 16];
        let answer =
            call!(ibv_query_gid: fn(*mut Context, u8, c_int, *mut Gid) -> c_int; context, 1, index, &raw mut gid);
        (answer == 0).then_some(gid)
    };
    assert_eq!(gid(contexts[0], 0).map(|gid| gid[8..].to_vec()), Some(guids[0].to_ne_bytes().to_vec()));
    assert_eq!((gid(contexts[0], 1), gid(contexts[1], 4)), (None, None));
    assert_eq!(gid(contexts[1], 3).map(|gid| gid[10..13].to_vec()), Some(vec![0xff, 0xff, 10]));
    let mut speed = 0;
    assert_eq!(
        call!(ibv_query_port_speed: fn(*mut Context, u32, *mut u64) -> c_int; contexts[0], 1, &raw mut speed),
        0
    );
    assert_eq!(speed, 4000);
    assert_eq!(
        call!(ibv_query_port: fn(*mut Context, u8, *mut PortAttr) -> c_int; contexts[0], 2, null_mut()),
        libc::EINVAL
    );
    for context in contexts {
        assert_eq!(call!(ibv_close_device: fn(*mut Context) -> c_int; context), 0);
    }
}

#[test]
fn files_of_cards_are_answered_and_no_others() {
    let _alone = alone();
    let path = files::real_path(b"/sys/class/infiniband/mlx5_1/device").unwrap();
    assert!(path.ends_with("/0000:81:00.0"));
    assert_eq!(files::real_path(format!("{path}/subsystem").as_bytes()).as_deref(), Some("/sys/bus/pci"));
    assert_eq!(files::real_path(b"/sys/class/infiniband/mlx5_9/device"), None);
    assert_eq!(files::real_path(b"/etc/passwd"), None);
    assert!(files::is_there(b"/sys/module/nvidia_peermem/version") && !files::is_there(b"/sys/module/x"));
    let kind = |index: usize| {
        files::contents(format!("/sys/class/infiniband/mlx5_1/ports/1/gid_attrs/types/{index}").as_bytes())
    };
    let kinds = [kind(2), kind(3), kind(4)];
    assert_eq!(kinds, [Some(b"IB/RoCE v1\n".to_vec()), Some(b"RoCE v2\n".to_vec()), None]);
    assert_eq!(files::contents(b"\xff/sys"), None);
}

#[test]
fn connection_establishment_accepts_what_it_offers() {
    let _alone = alone();
    let a = End::new();
    let mut ece = Ece::default();
    assert_eq!(call!(ibv_query_ece: fn(*mut Qp, *mut Ece) -> c_int; a.qp, &raw mut ece), 0);
    assert_ne!(ece.vendor_id, 0);
    assert_eq!(call!(ibv_set_ece: fn(*mut Qp, *mut Ece) -> c_int; a.qp, &raw mut ece), 0);
    ece.vendor_id = 1;
    assert_eq!(call!(ibv_set_ece: fn(*mut Qp, *mut Ece) -> c_int; a.qp, &raw mut ece), libc::EINVAL);
}

#[test]
fn every_function_that_nccl_asks_for_is_there() {
    let wanted = "get_device_list free_device_list get_device_name open_device close_device get_async_event ack_async_event \
        query_device query_port query_gid query_qp alloc_pd dealloc_pd reg_mr dereg_mr create_cq destroy_cq create_qp modify_qp \
        destroy_qp fork_init event_type_str query_pkey reg_mr_iova2 reg_dmabuf_mr query_ece set_ece query_port_speed";
    for name in wanted.split_whitespace() {
        assert!(function(&format!("ibv_{name}")).is_some(), "{name}");
    }
    assert!(function("ibv_nothing").is_none() && LIBRARIES.contains(&"libibverbs.so.1"));
    for (number, word) in [(12, "transport retry counter exceeded"), (999, "unknown"), (-1, "unknown")] {
        let text = call!(ibv_wc_status_str: fn(c_int) -> *const c_char; number);
        // SAFETY: a text of the library's.
        assert_eq!(unsafe { CStr::from_ptr(text) }.to_str(), Ok(word));
    }
}
