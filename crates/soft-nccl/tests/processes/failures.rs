//! Processes that end too early, disagree about the communicator, or have no business with it.
use super::common::idle::when_idle;
use super::common::parts::{Orders, Part, say, wait_for_word};
use super::common::{Buffer, World, census, last_error, unique_id, who_waits};
use super::{I32, OK, run};
use crate::nccl;
use nccl_sys::*;
use std::os::linux::net::SocketAddrExt;

const REMOTE: ncclResult_t = ncclResult_t::RemoteError;

/// Works until a peer is gone; then every call ends with an error.
pub fn survive(id: ncclUniqueId, n: usize, ranks: &[usize]) {
    let world = match World::part(id, n, ranks) {
        Ok(world) => world,
        // The victim died before this process heard that all are ready.
        Err(code) => return assert_eq!(code, REMOTE),
    };
    let data: Vec<Buffer> = (0..n).map(|_| Buffer::of(&vec![1i32; 100_000])).collect();
    let first_rounds = Orders::own().map_or(0, |orders| orders.text("rounds").parse().unwrap_or(0));
    let (mut refused, mut round) = (OK, 0);
    while refused == OK {
        if round == first_rounds {
            say("at work");
        }
        round += 1;
        refused = world.group(|r, c, s| {
            let d = data[r].at(0);
            nccl!(ncclAllReduce(d, d, 100_000, I32, ncclRedOp_t::Max, c, s))
        });
        world.synchronize();
    }
    assert_eq!(refused, REMOTE);
    for r in ranks {
        let (comm, mut error) = (world.comms[*r], OK);
        assert_eq!(nccl!(ncclCommGetAsyncError(comm, &mut error)), OK);
        assert_eq!(error, REMOTE);
        let mut child = std::ptr::null_mut();
        assert_eq!(nccl!(ncclCommSplit(comm, 0, 0, &mut child, std::ptr::null_mut())), REMOTE);
        assert_eq!(if r % 2 == 0 { nccl!(ncclCommDestroy(comm)) } else { nccl!(ncclCommAbort(comm)) }, OK);
    }
    assert_eq!(census().pending, 0);
}

/// Gets an error, and ends without giving up its ranks.
pub fn quit(id: ncclUniqueId, n: usize, ranks: &[usize]) {
    let world = World::part(id, n, ranks).expect("init");
    wait_for_word();
    assert_eq!(
        nccl!(ncclSend(0x10 as _, 1, ncclDataType_t(99), 0, world.comms[ranks[0]], world.streams[0].raw())),
        ncclResult_t::InvalidArgument
    );
    std::process::exit(0);
}

#[test]
fn a_killed_process_is_a_remote_error_for_the_others() {
    for round in 0..6 {
        let id = unique_id();
        let parts: [&[usize]; 3] = [&[0, 1], &[2], &[3, 4]];
        // Each round kills its process after more operations.
        let more = format!("rounds={}", 5 * round);
        let mut parts: Vec<Part> = parts.iter().map(|ranks| Part::start("survive", &id, 5, ranks, &more)).collect();
        parts[0].said("at work");
        parts[round % 3].kill();
        drop(parts.remove(round % 3));
        parts.into_iter().for_each(Part::done);
    }
}

#[test]
fn a_process_that_ends_after_an_error_is_one_as_well() {
    let id = unique_id();
    let mut more = [Part::start("survive", &id, 3, &[0], ""), Part::start("survive", &id, 3, &[1], "")];
    let mut quits = Part::start("quit", &id, 3, &[2], "");
    more.iter_mut().for_each(|part| part.said("at work"));
    quits.word();
    quits.done();
    more.into_iter().for_each(Part::done);
}

#[test]
fn a_process_killed_while_others_wait_for_it() {
    // The part waits in its own init for a rank that never comes; rank 0 is in this process.
    // The text covers all tests of this program; no other one has a communicator of 7.
    let id = unique_id();
    let mut part = Part::start("survive", &id, 7, &[1, 2, 3, 4, 5], "");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| World::part(id, 7, &[0]).err());
        when_idle(|| who_waits().contains("a communicator of 7 waits for the ranks 6"));
        assert!(!waits.is_finished());
        assert_eq!(census().busy, 1, "a standstill cannot be proved while another process may still come");
        part.kill();
        assert_eq!(waits.join().unwrap(), Some(REMOTE), "{}", last_error());
    });
    // A rank that comes later gets the same error.
    assert_eq!(World::part(id, 7, &[6]).err(), Some(REMOTE));
    // A message that never comes, and a thread that waits for it in destroy.
    let id = unique_id();
    let mut part = Part::start("eager", &id, 2, &[1], "hold=1");
    let world = World::part(id, 2, &[0]).expect("init");
    let data = Buffer::of(&[5i32]);
    assert_eq!(nccl!(ncclRecv(data.at(0), 1, I32, 1, world.comms[0], world.streams[0].raw())), OK);
    let comm = world.comms[0] as usize;
    std::thread::scope(|scope| {
        let waits = scope.spawn(move || nccl!(ncclCommFinalize(comm as ncclComm_t)));
        when_idle(|| who_waits().contains("in finalize"));
        assert!(!waits.is_finished());
        part.kill();
        assert_eq!(waits.join().unwrap(), REMOTE);
        world.synchronize();
    });
    assert_eq!(data.get::<i32>(), [5]);
    assert_eq!(nccl!(ncclCommDestroy(world.comms[0])), OK);
}

#[test]
fn the_process_of_the_id_is_gone() {
    // The id of a socket without a listener, as if the process that made the id had been killed.
    let mut id = unique_id();
    for byte in &mut id.internal[48..52] {
        *byte = !*byte;
    }
    assert_eq!(World::part(id, 2, &[0]).err(), Some(ncclResult_t::SystemError));
    assert!(last_error().contains("cannot be reached"), "{}", last_error());
}

/// Asks for a communicator of `says` ranks, and is refused.
pub fn refused(id: ncclUniqueId, ranks: &[usize], orders: &Orders) {
    let code = World::part(id, orders.number("says"), ranks).err().map_or(0, |code| code.0);
    assert_eq!(code, orders.number::<i32>("code"), "{}", last_error());
    assert!(last_error().contains(orders.text("text")), "{}", last_error());
}

#[test]
fn ranks_that_disagree_are_refused_in_all_processes() {
    let argument = ncclResult_t::InvalidArgument.0;
    let id = unique_id();
    let first = Part::start("refused", &id, 9, &[0], &format!("says=9;code={argument};text=ranks"));
    // No other test has a communicator of 9.
    when_idle(|| who_waits().contains("a communicator of 9 waits for the ranks"));
    let second = Part::start("refused", &id, 9, &[1], &format!("says=4;code={argument};text=ranks"));
    first.done();
    second.done();
    let late = Part::start("refused", &id, 9, &[2], &format!("says=9;code={argument};text=ranks"));
    late.done();
    assert_eq!(World::part(id, 9, &[2]).err(), Some(ncclResult_t::InvalidArgument));

    let usage = ncclResult_t::InvalidUsage.0;
    let twice = |more: [&str; 2], text: &str| {
        let id = unique_id();
        let parts = more.map(|m| Part::start("refused", &id, 3, &[1], &format!("says=3;code={usage};text={text};{m}")));
        parts.into_iter().for_each(Part::done);
    };
    twice(["", ""], "two callers");
    let id = unique_id();
    let parts = [("0", "NCCL_BUFFSIZE=64"), ("1", "NCCL_BUFFSIZE=128")].map(|(rank, more)| {
        let rank = rank.parse().unwrap();
        Part::start("refused", &id, 3, &[rank], &format!("says=3;code={usage};text=NCCL_BUFFSIZE;{more}"))
    });
    parts.into_iter().for_each(Part::done);
}

#[test]
fn sixty_four_processes_and_no_more() {
    let parts: Vec<[usize; 1]> = (0..64).map(|r| [r]).collect();
    run("many", &parts.iter().map(|ranks| &ranks[..]).collect::<Vec<_>>(), "times=2");
    let id = unique_id();
    let more = format!("says=65;code={};text=at most 64 processes", ncclResult_t::InvalidUsage.0);
    let parts: Vec<Part> = (0..65).map(|r| Part::start("refused", &id, 65, &[r], &more)).collect();
    parts.into_iter().for_each(Part::done);
}

#[test]
fn strangers_are_refused() {
    use std::io::{Read, Write};
    let id = unique_id();
    let name = u128::from_le_bytes(std::array::from_fn(|at| id.internal[48 + at] as u8));
    let cookie: [u8; 16] = std::array::from_fn(|at| id.internal[64 + at] as u8);
    let address = std::os::unix::net::SocketAddr::from_abstract_name(format!("collspec-soft-{name:032x}")).unwrap();
    let call = |bytes: &[u8]| {
        let mut stream = std::os::unix::net::UnixStream::connect_addr(&address).expect("connect");
        // It may be refused while we write.
        let _ = stream.write_all(bytes);
        // A connection that is not refused waits here forever.
        assert!(!stream.read(&mut [0]).is_ok_and(|bytes| bytes > 0), "not refused");
    };
    // A frame is the lengths of its head and body, and these.
    let frame = |head: &[u8], body: u64| [&(head.len() as u32).to_le_bytes()[..], &body.to_le_bytes(), head].concat();
    let hello = |cookie: [u8; 16]| frame(&[&[0][..], b"csoft\x00\x06\n", &cookie, &[7; 32], &[0]].concat(), 0);
    call(&[0; 72]);
    call(&[b'x'; 1000]);
    call(&hello([1; 16]));
    call(&frame(&[3, 5, 3], 0));
    // The right cookie, and then a frame of no kind or of none at all, a head and a chunk that are too long, a credit and a
    // control message that say nothing, a second hello.
    let wrong = [
        frame(&[9], 0),
        frame(&[], 0),
        vec![0xff; 12],
        frame(&[], 1 << 63),
        frame(&[2], 0),
        frame(&[3], 0),
        frame(&[3, 0xee], 0),
        hello(cookie),
    ];
    for wrong in wrong {
        call(&[hello(cookie), wrong].concat());
    }
    // None of this disturbs members.
    let part = Part::start("survive", &id, 2, &[1], "");
    let world = World::part(id, 2, &[0]).expect("init");
    drop(part);
    let error = || {
        let mut error = OK;
        assert_eq!(nccl!(ncclCommGetAsyncError(world.comms[0], &mut error)), OK);
        error
    };
    when_idle(|| error() != OK);
    assert_eq!(error(), REMOTE);
    assert_eq!(nccl!(ncclCommDestroy(world.comms[0])), OK);
}
