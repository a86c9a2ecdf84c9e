//! Ranks that wait for ranks in other processes: how far they get before, and how they stop waiting.
use super::common::idle::when_idle;
use super::common::kernel::{fall_asleep, poll_until, resident_bytes, sockets, switches};
use super::common::parts::{Orders, Part, say, wait_for_word};
use super::common::{Buffer, World, census, last_error, unique_id, who_waits};
use super::{I32, OK, SUM, run};
use crate::nccl;
use nccl_sys::*;

/// A second communicator of the two ranks of a world, one of which is in this process.
struct Second {
    world: World,
    rank: usize,
}

impl Second {
    fn new(first: &World, rank: usize) -> Self {
        let mut comms = vec![std::ptr::null_mut(); 2];
        let comm = &mut comms[rank];
        assert_eq!(nccl!(ncclCommSplit(first.comms[rank], 0, rank as i32, comm, std::ptr::null_mut())), OK);
        Self { world: World::of(comms, &[rank]), rank }
    }

    /// Exchanges an element with the other rank. Messages between two processes keep their order, so all that was sent here
    /// before the other rank's call has come and had its effect.
    fn exchange(&self) {
        let data = Buffer::of(&[1i32]);
        self.world.run(|_, c, s| nccl!(ncclAllReduce(data.at(0), data.at(0), 1, I32, SUM, c, s)));
        assert_eq!(data.get::<i32>(), [2], "{}", last_error());
    }

    fn abort(self) {
        assert_eq!(nccl!(ncclCommAbort(self.world.comms[self.rank])), OK);
    }
}

/// An all_reduce in which each rank passes another count: it moves no data, and an abort ends it.
pub fn mismatch(id: ncclUniqueId, n: usize, ranks: &[usize]) {
    let world = World::part(id, n, ranks).expect("init");
    let r = ranks[0];
    let second = Second::new(&world, r);
    let data = Buffer::of(&[7i32, 7, 7, 7]);
    let (c, s) = (world.comms[r], &world.streams[r]);
    assert_eq!(nccl!(ncclAllReduce(data.at(0), data.at(0), 1 + r, I32, SUM, c, s.raw())), OK);
    when_idle(|| who_waits().contains(&format!("rank {r} waits for a message from rank {}", 1 - r)));
    second.exchange();
    assert!(!s.query());
    assert_eq!(census().busy, 1);
    assert_eq!(data.get::<i32>(), [7; 4]);
    say("waits");
    wait_for_word();
    assert_eq!(nccl!(ncclCommAbort(c)), OK);
    second.abort();
    s.synchronize();
    assert_eq!(census().pending, 0);
}

#[test]
fn different_counts_never_mix() {
    let id = unique_id();
    let mut parts = [0, 1].map(|rank| Part::start("mismatch", &id, 2, &[rank], ""));
    parts.iter_mut().for_each(|part| part.said("waits"));
    parts.iter_mut().for_each(Part::word);
    parts.into_iter().for_each(Part::done);
}

/// Two ranks that both send first: possible only with an allowance. With `hold`, rank 1 waits for the word, and with
/// `exchange` it exchanges an element on a second communicator before.
pub fn eager(id: ncclUniqueId, ranks: &[usize]) {
    let world = World::part(id, 2, ranks).expect("init");
    let r = ranks[0];
    let asked = |key: &str| Orders::own().is_some_and(|orders| orders.text(key) == "1");
    let second = asked("exchange").then(|| Second::new(&world, r));
    if let Some(second) = &second {
        second.exchange();
    }
    if asked("hold") {
        say("holds");
        wait_for_word();
    }
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
    let mut receiver = Part::start("eager", &id, 2, &[1], "hold=1;exchange=1;COLLSPEC_SOFT_EAGER=64");
    let mut sender = Part::start("send_first", &id, 2, &[0], "");
    receiver.said("holds");
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
    let second = Second::new(&world, 0);
    let data = Buffer::of(&[0i32, 7, -1, -1]);
    let (c, s) = (world.comms[0], &world.streams[0]);
    assert_eq!(nccl!(ncclSend(data.at(0), 2, I32, 1, c, s.raw())), OK);
    when_idle(|| who_waits().contains("rank 0 waits for rank 1 to take its last message"));
    second.exchange();
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
    parts.iter_mut().for_each(|part| part.said("waits"));
    let [mut left, mut aborts] = parts;
    aborts.word();
    aborts.done();
    left.word();
    left.done();
}

/// Receives from a rank that aborts instead of sending.
pub fn left(id: ncclUniqueId, n: usize, ranks: &[usize]) {
    let world = World::part(id, n, ranks).expect("init");
    let second = Second::new(&world, 0);
    let data = Buffer::of(&[1i32]);
    assert_eq!(nccl!(ncclRecv(data.at(0), 1, I32, 1, world.comms[0], world.streams[0].raw())), OK);
    second.exchange();
    say("waits");
    wait_for_word();
    // The links to and from the other process go when its end was noticed.
    poll_until(|| sockets() <= 1);
    let mut error = ncclResult_t::RemoteError;
    assert_eq!(nccl!(ncclCommGetAsyncError(world.comms[0], &mut error)), OK);
    assert_eq!(error, OK);
    assert!(!world.streams[0].query());
    assert_eq!(nccl!(ncclCommAbort(world.comms[0])), OK);
    second.abort();
    world.synchronize();
}

/// Elements of a message that is larger than the buffers between two processes.
const HOARD: usize = 16 << 20;

/// Rank 0 sends, and rank 1 receives when it gets the word.
pub fn hoard(id: ncclUniqueId, ranks: &[usize]) {
    let world = World::part(id, 2, ranks).expect("init");
    let r = ranks[0];
    let second = Second::new(&world, r);
    let data = Buffer::of(&vec![r as i32 + 1; HOARD]);
    let (c, s) = (world.comms[r], &world.streams[r]);
    second.exchange();
    say("ready");
    wait_for_word();
    if r == 0 {
        assert_eq!(nccl!(ncclSend(data.at(0), HOARD, I32, 1, c, s.raw())), OK);
        when_idle(|| who_waits().contains("rank 0 waits for rank 1 to take what is under way"));
    }
    second.exchange();
    if r == 0 {
        assert!(!s.query());
        // No more than the buffer between the two holds.
        let sent = 4 * world.traffic(0)[0].sent;
        assert!((1..=512 << 10).contains(&sent), "{sent} bytes were sent ahead");
    }
    say("waits");
    wait_for_word();
    if r == 1 {
        assert_eq!(nccl!(ncclRecv(data.at(0), HOARD, I32, 0, c, s.raw())), OK);
    }
    s.synchronize();
    assert!(data.get::<i32>().iter().all(|value| *value == 1));
    second.world.destroy();
    world.destroy();
}

/// A sender without a receiver waits, without spinning: the bytes on their way stay few in both processes.
#[test]
fn a_sender_does_not_run_far_ahead() {
    let id = unique_id();
    let mut parts = [0, 1].map(|rank| Part::start("hoard", &id, 2, &[rank], ""));
    parts.iter_mut().for_each(|part| part.said("ready"));
    let pids = [parts[0].id(), parts[1].id()];
    let before = pids.map(resident_bytes);
    parts.iter_mut().for_each(Part::word);
    parts.iter_mut().for_each(|part| part.said("waits"));
    for (pid, before) in pids.into_iter().zip(before) {
        let more = resident_bytes(pid).saturating_sub(before);
        assert!(more < 8 << 20, "{more} bytes of {} are held", 4 * HOARD);
    }
    fall_asleep(&pids);
    let asleep = pids.map(switches);
    // A blocked thread is never given the processor, however long this takes.
    let meanwhile = World::new(2);
    let data = Buffer::of(&[1i32]);
    for _ in 0..2000 {
        meanwhile.run(|_, c, s| nccl!(ncclBroadcast(data.at(0), data.at(0), 1, I32, 0, c, s)));
    }
    meanwhile.destroy();
    assert_eq!(pids.map(switches), asleep, "context switches of threads that wait");
    parts.iter_mut().for_each(Part::word);
    parts.into_iter().for_each(Part::done);
}
