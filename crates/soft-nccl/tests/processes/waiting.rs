//! Ranks that wait for ranks in other processes: how far they get before, and how they stop waiting.
use super::common::kernel::{resident_bytes, stand_still, switches};
use super::common::parts::{Orders, Part, say, wait_for_word};
use super::common::{Buffer, World, census, unique_id};
use super::{I32, OK, SUM, run};
use crate::nccl;
use nccl_sys::*;
use std::time::Duration;

/// An all_reduce in which each rank passes another count: it moves no data, and an abort ends it. The test gives its word when
/// no thread of either process runs any more.
pub fn mismatch(id: ncclUniqueId, n: usize, ranks: &[usize]) {
    let world = World::part(id, n, ranks).expect("init");
    let r = ranks[0];
    let data = Buffer::of(&[7i32, 7, 7, 7]);
    let (c, s) = (world.comms[r], &world.streams[r]);
    assert_eq!(nccl!(ncclAllReduce(data.at(0), data.at(0), 1 + r, I32, SUM, c, s.raw())), OK);
    say("asked");
    wait_for_word();
    assert!(!s.query());
    assert_eq!(census().busy, 1);
    assert_eq!(data.get::<i32>(), [7; 4]);
    assert_eq!(nccl!(ncclCommAbort(c)), OK);
    s.synchronize();
    assert_eq!(census().pending, 0);
}

#[test]
fn different_counts_never_mix() {
    let id = unique_id();
    let mut parts = [0, 1].map(|rank| Part::start("mismatch", &id, 2, &[rank], ""));
    all_stand_still(&mut parts, "asked");
    parts.iter_mut().for_each(Part::word);
    parts.into_iter().for_each(Part::done);
}

/// Waits until all parts have said this and none of their threads runs any more.
fn all_stand_still(parts: &mut [Part], word: &str) {
    parts.iter_mut().for_each(|part| part.said(word));
    stand_still(&parts.iter().map(Part::id).collect::<Vec<_>>());
}

/// Two ranks that both send first: possible with an allowance only. With `hold`, rank 1 does nothing until told.
pub fn eager(id: ncclUniqueId, ranks: &[usize]) {
    let world = World::part(id, 2, ranks).expect("init");
    if Orders::own().is_some_and(|orders| orders.text("hold") == "1") {
        say("holds");
        wait_for_word();
    }
    let r = ranks[0];
    let (c, s, other) = (world.comms[r], &world.streams[r], 1 - r as i32);
    let data = Buffer::of(&[r as i32, 7, -1, -1]);
    for _ in 0..20 {
        assert_eq!(nccl!(ncclSend(data.at(0), 2, I32, other, c, s.raw())), OK);
        s.synchronize();
        assert_eq!(nccl!(ncclRecv(data.at(8), 2, I32, other, c, s.raw())), OK);
        s.synchronize();
        assert_eq!(data.get::<i32>(), [r as i32, 7, other, 7]);
    }
    world.destroy();
}

#[test]
fn eager_sends_end_unreceived_and_others_do_not() {
    run("eager", &[&[0], &[1]], "COLLSPEC_SOFT_EAGER=64;NCCL_BUFFSIZE=32");
    // A receiver with an allowance, and a sender without one.
    let id = unique_id();
    let mut receiver = Part::start("eager", &id, 2, &[1], "hold=1;COLLSPEC_SOFT_EAGER=64");
    let mut sender = Part::start("send_first", &id, 2, &[0], "");
    receiver.said("holds");
    sender.said("sent");
    stand_still(&[receiver.id(), sender.id()]);
    sender.word();
    sender.said("waits");
    receiver.word();
    sender.said("received");
    receiver.kill();
    sender.word();
    sender.done();
}

/// A send without an allowance: it ends only when its receive has been called.
pub fn send_first(id: ncclUniqueId, ranks: &[usize]) {
    let world = World::part(id, 2, ranks).expect("init");
    let data = Buffer::of(&[0i32, 7, -1, -1]);
    let (c, s) = (world.comms[0], &world.streams[0]);
    assert_eq!(nccl!(ncclSend(data.at(0), 2, I32, 1, c, s.raw())), OK);
    say("sent");
    wait_for_word();
    assert!(!s.query(), "without an allowance a send meets its receiver");
    say("waits");
    s.synchronize();
    assert_eq!(nccl!(ncclRecv(data.at(8), 2, I32, 1, c, s.raw())), OK);
    s.synchronize();
    assert_eq!(data.get::<i32>(), [0, 7, 1, 7]);
    say("received");
    wait_for_word();
    assert_eq!(nccl!(ncclCommAbort(c)), OK);
}

#[test]
fn an_aborted_rank_is_silence_and_its_peers_can_abort() {
    let id = unique_id();
    let mut parts = [Part::start("left", &id, 2, &[0], ""), Part::start("mismatch", &id, 2, &[1], "")];
    parts.iter_mut().for_each(|part| part.said("asked"));
    let [mut left, mut aborts] = parts;
    aborts.word();
    aborts.done();
    stand_still(&[left.id()]);
    left.word();
    left.done();
}

/// Receives from a rank that aborts instead of sending.
pub fn left(id: ncclUniqueId, n: usize, ranks: &[usize]) {
    let world = World::part(id, n, ranks).expect("init");
    let data = Buffer::of(&[1i32]);
    assert_eq!(nccl!(ncclRecv(data.at(0), 1, I32, 1, world.comms[0], world.streams[0].raw())), OK);
    say("asked");
    wait_for_word();
    let mut error = ncclResult_t::RemoteError;
    assert_eq!(nccl!(ncclCommGetAsyncError(world.comms[0], &mut error)), OK);
    assert_eq!(error, OK);
    assert!(!world.streams[0].query());
    assert_eq!(nccl!(ncclCommAbort(world.comms[0])), OK);
    world.synchronize();
}

/// Elements of a message that is larger than the buffers between two processes.
const HOARD: usize = 16 << 20;

/// Rank 0 sends, and rank 1 receives when it is told.
pub fn hoard(id: ncclUniqueId, ranks: &[usize]) {
    let world = World::part(id, 2, ranks).expect("init");
    let r = ranks[0];
    let data = Buffer::of(&vec![r as i32 + 1; HOARD]);
    let (c, s) = (world.comms[r], &world.streams[r]);
    say("ready");
    wait_for_word();
    if r == 0 {
        assert_eq!(nccl!(ncclSend(data.at(0), HOARD, I32, 1, c, s.raw())), OK);
        say("sent");
        wait_for_word();
        assert!(!s.query());
        say("waits");
    } else {
        assert_eq!(nccl!(ncclRecv(data.at(0), HOARD, I32, 0, c, s.raw())), OK);
    }
    s.synchronize();
    assert!(data.get::<i32>().iter().all(|value| *value == 1));
    world.destroy();
}

/// A sender without a receiver waits, without spinning: the bytes on their way stay few in both processes.
#[test]
fn a_sender_does_not_run_far_ahead() {
    let id = unique_id();
    let mut parts = [0, 1].map(|rank| Part::start("hoard", &id, 2, &[rank], ""));
    all_stand_still(&mut parts, "ready");
    let pids = [parts[0].id(), parts[1].id()];
    let before = pids.map(resident_bytes);
    parts[0].word();
    parts[0].said("sent");
    stand_still(&pids);
    for (pid, before) in pids.into_iter().zip(before) {
        let more = resident_bytes(pid).saturating_sub(before);
        assert!(more < 8 << 20, "{more} bytes of {} are held", 4 * HOARD);
    }
    // A blocked thread is never given the processor, however long this sleep takes.
    let asleep = pids.map(switches);
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(pids.map(switches), asleep, "context switches of threads that wait");
    parts[0].word();
    parts[0].said("waits");
    parts[1].word();
    parts.into_iter().for_each(Part::done);
}
