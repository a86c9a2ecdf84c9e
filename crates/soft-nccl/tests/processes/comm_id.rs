//! Processes that find each other by NCCL_COMM_ID: each calls `ncclGetUniqueId` itself.
use super::common::idle::when_idle;
use super::common::kernel::poll_until;
use super::common::parts::{Orders, Part, say, wait_for_word};
use super::common::{Buffer, World, last_error, unique_id, who_waits};
use super::{I32, OK, SUM};
use crate::nccl;
use nccl_sys::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// An id that no part uses.
const NONE: ncclUniqueId = ncclUniqueId { internal: [0; 128] };

/// An address of this machine at which nobody listens now.
fn free() -> String {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().to_string()
}

fn start(role: &str, address: &str, n: usize, ranks: &[usize], more: &str) -> Part {
    Part::start(role, &NONE, n, ranks, &format!("NCCL_COMM_ID={address};{more}"))
}

/// Makes communicators one after the other, each with an id of its own, and uses them.
pub fn several(n: usize, ranks: &[usize], times: usize) {
    for time in 0..times {
        let world = World::part(unique_id(), n, ranks).unwrap_or_else(|code| panic!("{code:?}: {}", last_error()));
        let data: Vec<Buffer> = (0..n).map(|r| Buffer::of(&[(r + time) as i32; 1000])).collect();
        world.run(|r, c, s| nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), 1000, I32, SUM, c, s)));
        for r in ranks {
            assert_eq!(data[*r].get::<i32>(), vec![(n * (n - 1) / 2 + n * time) as i32; 1000]);
        }
        world.destroy();
    }
}

#[test]
fn processes_that_are_told_an_address_meet_there_again_and_again() {
    for host in ["127.0.0.1", "[::1]", "localhost"] {
        let address = free().replace("127.0.0.1", host);
        // Ranks may come before rank 0 does.
        let parts: [&[usize]; 3] = [&[3], &[1, 2], &[0, 4]];
        let parts = parts.map(|ranks| start("several", &address, 5, ranks, "times=8"));
        parts.into_iter().for_each(Part::done);
    }
}

#[test]
fn so_do_processes_that_have_only_tcp() {
    let address = free();
    let parts = [[1], [0]].map(|ranks| start("several", &address, 2, &ranks, "times=3;COLLSPEC_SOFT_NETWORK=only"));
    parts.into_iter().for_each(Part::done);
}

#[test]
fn one_process_needs_no_other() {
    start("several", &free(), 3, &[0, 1, 2], "times=4").done();
    start("several", &free(), 1, &[0], "times=4").done();
}

/// Calls that must fail with the code and the text of the orders.
pub fn unusable(n: usize, ranks: &[usize], orders: &Orders) {
    let mut id = NONE;
    let code = match nccl!(ncclGetUniqueId(&mut id)) {
        ncclResult_t::Success => World::part(id, n, ranks).err().unwrap_or(OK),
        code => code,
    };
    assert_eq!(code.0, orders.number::<i32>("code"), "{}", last_error());
    assert!(last_error().contains(orders.text("text")), "{}", last_error());
}

fn fails(address: &str, rank: usize, code: ncclResult_t, text: &str) -> Part {
    start(
        "unusable",
        address,
        3,
        &[rank],
        &format!("code={};text={text};NCCL_SOCKET_RETRY_CNT=2;NCCL_SOCKET_RETRY_SLEEP_MSEC=1", code.0),
    )
}

#[test]
fn an_unusable_address_is_told() {
    fails("node1", 0, ncclResult_t::InvalidArgument, "NCCL_COMM_ID=node1: it is none of").done();
    fails("0.0.0.0:1234", 0, ncclResult_t::InvalidArgument, "stands for all addresses of a machine").done();
    fails("192.0.2.1:29500", 0, ncclResult_t::SystemError, "no address of this machine").done();
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    fails(&address, 0, ncclResult_t::SystemError, "the port is taken").done();
    let other = fails(&address, 2, ncclResult_t::RemoteError, "is no rank 0 of the software library");
    let (mut caller, _) = taken.accept().unwrap();
    caller.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    let mut question = [0; 24];
    caller.read_exact(&mut question).unwrap();
    drop(caller);
    other.done();
}

#[test]
fn a_rank_that_finds_no_rank_0_says_where_it_looked() {
    let address = free();
    fails(&address, 1, ncclResult_t::RemoteError, &format!("rank 1 has not found rank 0 at {address}")).done();
}

#[test]
fn ranks_that_disagree_are_refused_with_an_address_too() {
    let refused = |callers: &[(usize, usize)], code: ncclResult_t, text: &str| {
        let (address, orders) = (free(), format!("code={};text={text}", code.0));
        let parts = callers.iter().map(|(n, rank)| start("unusable", &address, *n, &[*rank], &orders));
        parts.collect::<Vec<_>>().into_iter().for_each(Part::done);
    };
    // Rank 2 never comes, so that rank 0 listens until both have asked.
    refused(&[(3, 0), (3, 1), (3, 1)], ncclResult_t::InvalidUsage, "two callers");
    refused(&[(3, 0), (4, 2)], ncclResult_t::InvalidArgument, "ranks");
}

/// Rank 0 gives up a communicator that nobody joins, and makes another one at the same address.
pub fn gives_up(n: usize) {
    let mut config = ncclConfig_t::unset(23007);
    config.blocking = 0;
    let mut comm = std::ptr::null_mut();
    let code = nccl!(ncclCommInitRankConfig(&mut comm, n as i32, unique_id(), 0, &mut config));
    assert!(matches!(code, OK | ncclResult_t::InProgress), "{}", last_error());
    when_idle(|| who_waits().contains("waits for the ranks"));
    assert_eq!(nccl!(ncclCommAbort(comm)), OK);
    say("gave up");
    several(n, &[0], 1);
}

#[test]
fn an_address_is_free_again_when_rank_0_has_given_up() {
    let address = free();
    let mut root = start("gives_up", &address, 2, &[0], "");
    root.said("gave up");
    start("several", &address, 2, &[1], "times=1").done();
    root.done();
}

/// Waits for a word before it joins.
pub fn late(n: usize, ranks: &[usize]) {
    wait_for_word();
    several(n, ranks, 1);
}

#[test]
fn strangers_at_the_address_disturb_nobody() {
    let address = free();
    let mut last = start("late", &address, 3, &[1], "");
    let parts = [[0], [2]].map(|ranks| start("several", &address, 3, &ranks, "times=1"));
    let connect = || {
        let mut stream = None;
        poll_until(|| {
            stream = TcpStream::connect(&address).ok();
            stream.is_some()
        });
        stream.unwrap()
    };
    let mut loud = connect();
    loud.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    // What it sends may not have been read when it is hung up on.
    let _ = loud.read_to_end(&mut bytes);
    assert!(bytes.is_empty(), "a stranger is told nothing");
    let silent = connect();
    let mut slow = connect();
    slow.write_all(b"collspec").unwrap();
    last.word();
    last.done();
    parts.into_iter().for_each(Part::done);
    drop((silent, slow));
}
