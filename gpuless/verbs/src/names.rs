//! Words for the numbers of the interface.

use libc::c_int;
use std::ffi::CStr;

fn word(words: &[&'static CStr], number: c_int) -> &'static CStr {
    usize::try_from(number).ok().and_then(|number| words.get(number)).copied().unwrap_or(c"unknown")
}

pub fn event(number: c_int) -> &'static CStr {
    word(
        &[
            c"CQ error",
            c"local work queue catastrophic error",
            c"invalid request local work queue error",
            c"local access violation work queue error",
            c"communication established",
            c"send queue drained",
            c"path migrated",
            c"path migration request error",
            c"local catastrophic error",
            c"port active",
            c"port error",
            c"LID change",
            c"P_Key change",
            c"SM change",
            c"SRQ catastrophic error",
            c"SRQ limit reached",
            c"last WQE reached",
            c"client reregistration",
            c"GID table change",
            c"WQ fatal",
        ],
        number,
    )
}

pub fn status(number: c_int) -> &'static CStr {
    word(
        &[
            c"success",
            c"local length error",
            c"local QP operation error",
            c"local EE context operation error",
            c"local protection error",
            c"Work Request Flushed Error",
            c"memory management operation error",
            c"bad response error",
            c"local access error",
            c"remote invalid request error",
            c"remote access error",
            c"remote operation error",
            c"transport retry counter exceeded",
            c"RNR retry counter exceeded",
            c"local RDD violation error",
            c"remote invalid RD request",
            c"aborted error",
            c"invalid EE context number",
            c"invalid EE context state",
            c"fatal error",
            c"response timeout error",
            c"general error",
            c"TM error",
            c"TM software rendezvous",
        ],
        number,
    )
}

pub fn node_type(number: c_int) -> &'static CStr {
    match number {
        1 => c"InfiniBand channel adapter",
        2 => c"InfiniBand switch",
        3 => c"InfiniBand router",
        4 => c"iWARP NIC",
        _ => c"unknown",
    }
}

pub fn port_state(number: c_int) -> &'static CStr {
    let words = [c"no state change (NOP)", c"down", c"init", c"armed", c"active", c"active defer"];
    word(&words, number)
}
