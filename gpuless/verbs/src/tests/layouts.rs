//! The structures are those of the machine's own header, where it has one.

use crate::layout::*;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

/// Lines of a C program that prints a size or an offset, each with the number here.
fn facts() -> Vec<(String, usize)> {
    let size = |name: &str, size| (format!("sizeof(struct ibv_{name})"), size);
    let mut facts = vec![
        size("device", size_of::<Device>()),
        size("context", size_of::<Context>()),
        size("device_attr", size_of::<DeviceAttr>()),
        size("gid_entry", size_of::<GidEntry>()),
        size("pd", size_of::<Pd>()),
        size("mr", size_of::<Mr>()),
        size("comp_channel", size_of::<CompChannel>()),
        size("cq", size_of::<Cq>()),
        size("qp_cap", size_of::<QpCap>()),
        size("qp_init_attr", size_of::<QpInitAttr>()),
        size("qp", size_of::<Qp>()),
        size("ah_attr", size_of::<AhAttr>()),
        size("sge", size_of::<Sge>()),
        size("recv_wr", size_of::<RecvWr>()),
        size("wc", size_of::<Wc>()),
        size("async_event", size_of::<AsyncEvent>()),
        size("ece", size_of::<Ece>()),
    ];
    macro_rules! places {
        ($($type:ident $name:ident: $($here:ident $there:literal),*;)*) => {
            $($(facts.push((
                format!("offsetof(struct ibv_{}, {})", stringify!($name), $there),
                offset_of!($type, $here),
            ));)*)*
        };
    }
    places! {
        Device device: node_type "node_type", name "name", dev_name "dev_name", dev_path "dev_path", ibdev_path "ibdev_path";
        Context context: poll_cq "ops.poll_cq", req_notify_cq "ops.req_notify_cq", post_send "ops.post_send",
            post_recv "ops.post_recv", cmd_fd "cmd_fd", async_fd "async_fd", num_comp_vectors "num_comp_vectors",
            abi_compat "abi_compat";
        DeviceAttr device_attr: node_guid "node_guid", sys_image_guid "sys_image_guid", vendor_id "vendor_id", max_qp "max_qp",
            max_sge "max_sge", max_cqe "max_cqe", atomic_cap "atomic_cap", max_srq "max_srq", max_pkeys "max_pkeys",
            phys_port_cnt "phys_port_cnt";
        PortAttr port_attr: state "state", active_mtu "active_mtu", gid_tbl_len "gid_tbl_len", max_msg_sz "max_msg_sz",
            pkey_tbl_len "pkey_tbl_len", lid "lid", sm_lid "sm_lid", active_width "active_width", active_speed "active_speed",
            phys_state "phys_state", link_layer "link_layer", flags "flags";
        Mr mr: pd "pd", addr "addr", length "length", handle "handle", lkey "lkey", rkey "rkey";
        CompChannel comp_channel: fd "fd";
        Cq cq: channel "channel", cq_context "cq_context", handle "handle", cqe "cqe";
        QpInitAttr qp_init_attr: send_cq "send_cq", recv_cq "recv_cq", srq "srq", cap "cap", qp_type "qp_type",
            sq_sig_all "sq_sig_all";
        Qp qp: qp_context "qp_context", send_cq "send_cq", recv_cq "recv_cq", handle "handle", qp_num "qp_num", state "state",
            qp_type "qp_type";
        QpAttr qp_attr: path_mtu "path_mtu", qkey "qkey", rq_psn "rq_psn", sq_psn "sq_psn", dest_qp_num "dest_qp_num",
            qp_access_flags "qp_access_flags", cap "cap", ah_attr "ah_attr", pkey_index "pkey_index",
            max_rd_atomic "max_rd_atomic", max_dest_rd_atomic "max_dest_rd_atomic", min_rnr_timer "min_rnr_timer",
            port_num "port_num", timeout "timeout", retry_cnt "retry_cnt", rnr_retry "rnr_retry", alt_timeout "alt_timeout";
        AhAttr ah_attr: flow_label "grh.flow_label", dlid "dlid", is_global "is_global", port_num "port_num";
        SendWr send_wr: next "next", sg_list "sg_list", num_sge "num_sge", opcode "opcode", send_flags "send_flags",
            imm_data "imm_data", remote_addr "wr.rdma.remote_addr", rkey_or_compare_add "wr.rdma.rkey",
            rkey_or_compare_add "wr.atomic.compare_add", swap "wr.atomic.swap", atomic_rkey "wr.atomic.rkey";
        Wc wc: status "status", opcode "opcode", vendor_err "vendor_err", byte_len "byte_len", imm_data "imm_data",
            qp_num "qp_num", src_qp "src_qp", wc_flags "wc_flags", slid "slid";
        AsyncEvent async_event: event_type "event_type";
    }
    let numbers = [
        ("IBV_QPS_ERR", state::ERR),
        ("IBV_WC_RNR_RETRY_EXC_ERR", status::RNR_RETRY_EXC_ERR),
        ("IBV_WC_REM_OP_ERR", status::REM_OP_ERR),
        ("IBV_WC_RECV_RDMA_WITH_IMM", completed::RECV_WITH_IMM),
        ("IBV_EVENT_PORT_ERR", event::PORT_ERR),
        ("IBV_EVENT_QP_ACCESS_ERR", event::QP_ACCESS_ERR),
        ("IBV_QP_DEST_QPN", mask::DEST_QPN),
        ("IBV_QP_MIN_RNR_TIMER", mask::MIN_RNR_TIMER),
        ("IBV_SEND_INLINE", send_flags::INLINE),
        ("IBV_QPT_UC", QPT_UC),
    ];
    facts.extend(numbers.map(|(name, number)| (name.to_owned(), number as usize)));
    facts
}

#[test]
fn structures_are_those_of_the_machines_header() {
    if !Path::new("/usr/include/infiniband/verbs.h").exists() {
        return eprintln!("skipped: there is no <infiniband/verbs.h>");
    }
    let facts = facts();
    let checks =
        facts.iter().map(|(text, number)| format!("_Static_assert(({text}) == {number}, \"{text} is {number}\");\n"));
    let program: String =
        std::iter::once(String::from("#include <infiniband/verbs.h>\n#include <stddef.h>\n")).chain(checks).collect();
    let file = std::env::temp_dir().join(format!("gpuless-verbs-layout-{}.c", std::process::id()));
    std::fs::write(&file, program).unwrap();
    let compiler = Command::new("cc").args(["-std=gnu11", "-fsyntax-only"]).arg(&file).output();
    _ = std::fs::remove_file(&file);
    match compiler {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => eprintln!("skipped: cc: {error}"),
    }
    assert!(facts.len() > 100);
}
