//! The queue pairs of this process as the network knows them.

use crate::fabric::frame::Header;
use crate::fabric::link::Link;
use crate::fabric::{self, Fabric, Pairs};
use crate::qp::{requester, responder};
use std::io;
use std::sync::Arc;

struct All;

impl Pairs for All {
    fn wants(&self, header: &Header) -> bool {
        if header.kind.is_request() { responder::wants(header) } else { requester::wants(header) }
    }

    fn request(&self, link: &Arc<Link>, header: &Header, body: Option<&[u8]>) {
        responder::request(link, header, body);
    }

    fn answer(&self, header: &Header, body: Option<&[u8]>) {
        requester::answer(header, body);
    }

    fn go_on(&self, numbers: &[u32]) {
        requester::go_on(numbers);
    }

    fn lost(&self, process: u32) {
        requester::lost(process);
    }
}

/// This process joins the network, unless it has.
///
/// # Errors
///
/// See [`fabric::start`].
pub fn join() -> io::Result<&'static Fabric> {
    fabric::start(&All)
}
