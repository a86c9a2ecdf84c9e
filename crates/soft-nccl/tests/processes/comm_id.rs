//! Processes that find each other by NCCL_COMM_ID: each calls `ncclGetUniqueId` itself.
use super::common::idle::when_idle;
use super::common::kernel::poll_until;
use super::common::parts::{Orders, Part, say, wait_for_word};
use super::common::{Buffer, World, last_error, unique_id, who_waits};
use super::{I32, OK, SUM};
use crate::nccl;
use nccl_sys::*;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

/// An id that no part uses.
const NONE: ncclUniqueId = ncclUniqueId { internal: [0; 128] };

/// An address of this machine at which no process is listening.
fn free() -> String {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().to_string()
}

/// The message of a rank that received a wrong answer.
const NO_ROOT: &str = "is not rank 0 of the software library";

fn start(role: &str, address: &str, n: usize, ranks: &[usize], more: &str) -> Part {
    Part::start(role, &NONE, n, ranks, &format!("NCCL_COMM_ID={address};{more}"))
}

/// Makes several communicators, one after the other, and uses each. Every communicator gets a unique id from its own call.
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
    fails("node1", 0, ncclResult_t::InvalidArgument, "NCCL_COMM_ID=node1: it is not one of").done();
    fails("0.0.0.0:1234", 0, ncclResult_t::InvalidArgument, "stands for all addresses of a machine").done();
    fails("192.0.2.1:29500", 0, ncclResult_t::SystemError, "not an address of this machine").done();
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    fails(&address, 0, ncclResult_t::SystemError, "the port is taken").done();
    let other = fails(&address, 2, ncclResult_t::RemoteError, NO_ROOT);
    let (mut caller, _) = taken.accept().unwrap();
    caller.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    let mut question = [0; 24];
    caller.read_exact(&mut question).unwrap();
    drop(caller);
    other.done();
}

/// Answers the question of one rank with these bytes.
fn answer(listener: &TcpListener, bytes: &[u8]) {
    let (mut caller, _) = listener.accept().unwrap();
    let mut question = [0; 24];
    caller.read_exact(&mut question).unwrap();
    caller.write_all(bytes).unwrap();
}

#[test]
fn ids_that_name_no_other_process_are_no_answers() {
    let stranger = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = stranger.local_addr().unwrap();
    let ask = |id: &dyn Fn(u32) -> Vec<u8>| {
        let code = ncclResult_t::RemoteError;
        let one = fails(&address.to_string(), 1, code, NO_ROOT);
        answer(&stranger, &id(one.id()));
        one.done();
    };
    let begun = |pid: u32| [&b"collspec-soft-id"[..], &pid.to_le_bytes(), &[0; 108]].concat();
    ask(&|_| {
        let mut only_address = begun(0);
        only_address[36..40].copy_from_slice(&[127, 0, 0, 1]);
        only_address[109..111].copy_from_slice(&address.port().to_le_bytes());
        only_address[111] = 4;
        only_address
    });
    // Of a process without an endpoint, and of the one that asks.
    ask(&|pid| begun(pid + 1));
    ask(&begun);
    ask(&|_| [begun(1), vec![0]].concat());
}

#[test]
fn a_part_of_an_answer_is_none_and_is_asked_for_again() {
    let stranger = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = stranger.local_addr().unwrap().to_string();
    let orders = format!("code={};text={NO_ROOT}", ncclResult_t::RemoteError.0);
    let one = start("unusable", &address, 2, &[1], &orders);
    answer(&stranger, b"");
    answer(&stranger, b"collspec-soft-id and no more");
    answer(&stranger, b"collspec-hard-id");
    one.done();
}

#[test]
fn a_process_without_an_endpoint_says_why() {
    let text = "cannot be reached by others: NCCL_SOCKET_IFNAME names none of the interfaces";
    let orders = format!("code={};text={text};NCCL_SOCKET_IFNAME=nosuch", ncclResult_t::SystemError.0);
    for rank in [0, 1] {
        start("unusable", &free(), 2, &[rank], &orders).done();
    }
    start("several", &free(), 1, &[0], "times=1;NCCL_SOCKET_IFNAME=nosuch").done();
}

#[test]
fn two_ranks_0_of_one_group_are_refused_and_leave_the_port_free() {
    let address = free();
    let orders = format!("code={};text=the port is taken", ncclResult_t::SystemError.0);
    start("unusable", &address, 2, &[0, 0], &orders).done();
    TcpListener::bind(&address).unwrap();
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

/// A non-blocking communicator that is being made.
fn begin(n: usize, rank: usize) -> ncclComm_t {
    let mut config = ncclConfig_t::unset(23007);
    config.blocking = 0;
    let mut comm = std::ptr::null_mut();
    let code = nccl!(ncclCommInitRankConfig(&mut comm, n as i32, unique_id(), rank as i32, &mut config));
    assert!(matches!(code, OK | ncclResult_t::InProgress), "{}", last_error());
    comm
}

/// Rank 0 aborts a communicator that no other rank has joined, and makes another one at the same address.
pub fn gives_up(n: usize, orders: &Orders) {
    let comm = begin(n, 0);
    let missing = format!("waits for the ranks {}", orders.text("missing"));
    when_idle(|| who_waits().contains(&missing));
    assert_eq!(nccl!(ncclCommAbort(comm)), OK);
    say("gave up");
    several(n, &[0], 1);
}

/// Rank 0 does this, and then makes a communicator with rank 1 at the same address. Rank 1 begins when rank 0 has aborted the last one:
/// before that it might be given the id of a communicator that rank 0 aborts.
fn assert_leaves_the_address_free(what: &str, orders: &str) {
    let address = free();
    let mut root = start(what, &address, 2, &[0], orders);
    root.said("gave up");
    start("several", &address, 2, &[1], "times=1").done();
    root.done();
}

#[test]
fn an_address_is_free_again_when_rank_0_has_given_up() {
    assert_leaves_the_address_free("gives_up", "missing=1");
}

#[test]
fn ranks_that_have_asked_a_rank_0_that_is_aborted_are_refused() {
    let address = free();
    let mut root = start("gives_up", &address, 3, &[0], "missing=2");
    let orders = format!("code={};text=rank 0 has given up the communicator", ncclResult_t::RemoteError.0);
    start("unusable", &address, 3, &[1], &orders).done();
    root.said("gave up");
    start("several", &address, 3, &[1, 2], "times=1").done();
    root.done();
}

/// A rank gives up a communicator while it asks for rank 0, and joins another one later.
pub fn aborts_asking(n: usize, ranks: &[usize], orders: &Orders) {
    let comm = begin(n, ranks[0]);
    let asks = format!("rank {} asks for rank 0 at {}", ranks[0], orders.text("NCCL_COMM_ID"));
    poll_until(|| who_waits().contains(&asks));
    if orders.text("asked") == "yes" {
        say("asks");
        wait_for_word();
    }
    assert_eq!(nccl!(ncclCommAbort(comm)), OK);
    assert!(!who_waits().contains("asks for rank 0"), "the search is over: {}", who_waits());
    say("gave up");
    wait_for_word();
    if orders.text("times").is_empty() { unusable(n, ranks, orders) } else { several(n, ranks, 1) }
}

#[test]
fn a_rank_that_is_aborted_no_longer_asks_for_rank_0() {
    let address = free();
    let mut one = start("aborts_asking", &address, 2, &[1], "asked=no;times=1");
    one.said("gave up");
    one.word();
    // If the first search went on, it could join in the place of the second one.
    start("several", &address, 2, &[0], "times=1").done();
    one.done();
}

#[test]
fn so_is_one_whose_question_gets_no_answer() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let orders = format!("asked=yes;code={};text={NO_ROOT}", ncclResult_t::RemoteError.0);
    let mut one = start("aborts_asking", &address, 2, &[1], &orders);
    one.said("asks");
    let (mut caller, _) = silent.accept().unwrap();
    let mut question = [0; 24];
    caller.read_exact(&mut question).unwrap();
    one.word();
    one.said("gave up");
    assert_eq!(caller.read(&mut question).unwrap(), 0, "it has hung up");
    one.word();
    answer(&silent, b"nobody");
    one.done();
    silent.set_nonblocking(true).unwrap();
    assert_eq!(silent.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "nobody else asks");
}

/// Rank 0 aborts communicators at any stage of their creation, and creates another one at the same address.
pub fn aborts_at_once(n: usize, times: usize) {
    for _ in 0..times {
        let comm = begin(n, 0);
        assert_eq!(nccl!(ncclCommAbort(comm)), OK);
    }
    say("gave up");
    several(n, &[0], 1);
}

#[test]
fn an_aborted_rank_0_leaves_the_port_free() {
    assert_leaves_the_address_free("aborts_at_once", "times=200");
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
    // Data that it sends may not have been read when the connection is closed.
    let _ = loud.read_to_end(&mut bytes);
    assert!(bytes.is_empty(), "a stranger is told nothing");
    let silent = connect();
    let mut slow = connect();
    slow.write_all(b"collspec").unwrap();
    // More than are kept: the first ones are hung up on.
    let many: Vec<TcpStream> = (0..300).map(|_| connect()).collect();
    for mut cut in [silent, slow] {
        assert!(!matches!(cut.read(&mut [0]), Ok(1..)), "it is told nothing");
    }
    last.word();
    last.done();
    parts.into_iter().for_each(Part::done);
    drop(many);
}
