//! Ranks in several processes: this program starts itself again as `part`, with a role.
// Ranks are numbers here, as in C.
#![allow(clippy::needless_range_loop)]
mod common;
use common::kernel::{resident_bytes, stand_still, switches};
use common::parts::{LIMIT, Orders, Part, say, wait_for_word, within};
use common::*;
use nccl_sys::*;
use std::os::linux::net::SocketAddrExt;
use std::time::{Duration, Instant};

const OK: ncclResult_t = ncclResult_t::Success;
const REMOTE: ncclResult_t = ncclResult_t::RemoteError;
const I32: ncclDataType_t = ncclDataType_t::Int32;
const SUM: ncclRedOp_t = ncclRedOp_t::Sum;

fn unique_id() -> ncclUniqueId {
    let mut id = ncclUniqueId { internal: [0; 128] };
    assert_eq!(nccl!(ncclGetUniqueId(&mut id)), OK);
    id
}

/// What parts do. Started as a plain test it does nothing.
#[test]
fn part() {
    let Some(orders) = Orders::own() else { return };
    let (n, ranks, id) = (orders.number("n"), orders.ranks(), orders.id());
    match orders.text("role") {
        "suite" => whole_suite(id, n, &ranks, &orders),
        "split" => splits(id, n, &ranks),
        "big" => big(id, n, &ranks),
        "many" => many(id, n, &ranks, orders.number("times")),
        "survive" => survive(id, n, &ranks),
        "quit" => {
            let world = World::part(id, n, &ranks).expect("init");
            wait_for_word();
            assert_eq!(
                nccl!(ncclSend(0x10 as _, 1, ncclDataType_t(99), 0, world.comms[ranks[0]], world.streams[0].raw())),
                ncclResult_t::InvalidArgument
            );
            // An error, and the program ends without giving up its ranks.
            std::process::exit(0);
        }
        "refused" => {
            let n = orders.number("says");
            let code = World::part(id, n, &ranks).err().map_or(0, |code| code.0);
            assert_eq!(code, orders.number::<i32>("code"), "{}", last_error());
            assert!(last_error().contains(orders.text("text")), "{}", last_error());
        }
        "mismatch" => mismatch(id, n, &ranks),
        "left" => left(id, n, &ranks),
        "eager" => eager(id, &ranks),
        "send_first" => send_first(id, &ranks),
        "hoard" => hoard(id, &ranks),
        "speed" => speed(id, n, &ranks),
        role => panic!("no role {role}"),
    }
}

/// Runs a role in several processes, none of which is this one: it only made the id.
fn run(role: &str, parts: &[&[usize]], more: &str) {
    let n = parts.iter().map(|ranks| ranks.len()).sum();
    let id = unique_id();
    let parts: Vec<Part> = parts.iter().map(|ranks| Part::start(role, &id, n, ranks, more)).collect();
    parts.into_iter().for_each(Part::done);
}

fn whole_suite(id: ncclUniqueId, n: usize, ranks: &[usize], orders: &Orders) {
    let world = World::part(id, n, ranks).expect("init");
    let counts: Vec<usize> = orders.text("counts").split(',').map(|c| c.parse().unwrap()).collect();
    let dtypes: &[i32] = if orders.text("types") == "all" { &suite::DTYPES } else { &[0, 7] };
    suite::every_operation_on(&world, &counts, dtypes);
    world.mark(7);
    let data: Vec<Buffer> = (0..n).map(|r| Buffer::of(&[r as i32])).collect();
    world.run(|r, c, s| nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), 1, I32, SUM, c, s)));
    if orders.text("NCCL_ALGO").is_empty() {
        for traffic in world.traffic(7) {
            // A single element travels with one part of the ring; the empty parts travel all the same.
            assert_eq!(traffic.rounds, 2 * (n as u64 - 1), "rounds are those of one process");
            assert!(traffic.sent <= 2 && traffic.received <= 2);
        }
    }
    world.destroy();
}

#[test]
fn every_operation_and_type_in_two_processes_of_three_ranks() {
    run("suite", &[&[0, 2, 4], &[1, 3, 5]], "counts=1,37;types=all;NCCL_BUFFSIZE=128");
}

#[test]
fn every_operation_with_a_process_per_rank() {
    run("suite", &[&[0], &[1], &[2], &[3]], "counts=0,1,37;types=few");
}

#[test]
fn every_operation_by_trees() {
    run(
        "suite",
        &[&[0, 1], &[2], &[3, 4, 5]],
        "counts=37;types=few;NCCL_ALGO=Tree,Ring;NCCL_BUFFSIZE=64;COLLSPEC_SOFT_SEED=5",
    );
    run("suite", &[&[3], &[0], &[1, 2, 4]], "counts=37;types=few;NCCL_ALGO=SingleTree,Ring;NCCL_BUFFSIZE=64");
}

#[test]
fn the_test_itself_can_have_ranks() {
    let id = unique_id();
    let other = Part::start("suite", &id, 4, &[1, 2], "counts=5;types=few");
    let orders_world = World::part(id, 4, &[0, 3]).expect("init");
    suite::every_operation_on(&orders_world, &[5], &[0, 7]);
    let data: Vec<Buffer> = (0..4).map(|r| Buffer::of(&[r])).collect();
    orders_world.run(|r, c, s| nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), 1, I32, SUM, c, s)));
    assert_eq!(data[3].get::<i32>(), [6]);
    orders_world.destroy();
    other.done();
}

fn big(id: ncclUniqueId, n: usize, ranks: &[usize]) {
    let world = World::part(id, n, ranks).expect("init");
    let count = 2 << 20;
    let data: Vec<Buffer> = (0..n)
        .map(|r| {
            Buffer::of(
                &(0..if ranks.contains(&r) { count } else { 0 }).map(|i| i as i32 ^ r as i32).collect::<Vec<_>>(),
            )
        })
        .collect();
    world.run(|r, c, s| nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), count, I32, SUM, c, s)));
    for r in ranks {
        let got = data[*r].get::<i32>();
        let wrong = (0..count).find(|i| got[*i] != (0..n as i32).map(|r| *i as i32 ^ r).sum::<i32>());
        assert_eq!(wrong, None, "rank {r}");
    }
    // All pairs at once, in both directions.
    let each = count / n;
    let out: Vec<Buffer> = (0..n).map(|_| Buffer::of(&vec![0i32; count])).collect();
    world.run(|r, c, s| nccl!(ncclAlltoAll(data[r].at(0), out[r].at(0), each, I32, c, s)));
    for r in ranks {
        let (all, got) = (data[*r].get::<i32>(), out[*r].get::<i32>());
        for from in 0..n {
            assert!(got[from * each..(from + 1) * each] == all[r * each..(r + 1) * each]);
        }
    }
    world.destroy();
}

#[test]
fn megabytes_through_large_and_tiny_buffers() {
    run("big", &[&[0, 1], &[2, 3]], "");
    run("big", &[&[0], &[1], &[2]], "NCCL_BUFFSIZE=4096");
}

fn splits(id: ncclUniqueId, n: usize, ranks: &[usize]) {
    let world = World::part(id, n, ranks).expect("init");
    let split = |color: &dyn Fn(usize) -> i32| {
        let mut children = vec![std::ptr::null_mut(); n];
        assert_eq!(nccl!(ncclGroupStart()), OK);
        for r in ranks {
            let key = -(*r as i32);
            assert_eq!(
                nccl!(ncclCommSplit(world.comms[*r], color(*r), key, &mut children[*r], std::ptr::null_mut())),
                OK
            );
        }
        assert_eq!(nccl!(ncclGroupEnd()), OK, "{}", last_error());
        children
    };
    // Odd and even, backwards; then neighbours; then all but rank 0, which gets none; then each alone.
    let colors: [&dyn Fn(usize) -> i32; 4] =
        [&|r| (r % 2) as i32, &|r| (r / 2) as i32, &|r| if r == 0 { NCCL_SPLIT_NOCOLOR } else { 0 }, &|r| r as i32];
    for color in colors {
        let children = split(color);
        let data: Vec<Buffer> = (0..n).map(|r| Buffer::of(&[r as i32])).collect();
        assert_eq!(nccl!(ncclGroupStart()), OK);
        for r in ranks.iter().filter(|r| !children[**r].is_null()) {
            let (d, s) = (data[*r].at(0), world.streams[*r].raw());
            assert_eq!(nccl!(ncclAllReduce(d, d, 1, I32, SUM, children[*r], s)), OK);
        }
        assert_eq!(nccl!(ncclGroupEnd()), OK);
        world.synchronize();
        for r in ranks.iter().copied() {
            let family: Vec<usize> = (0..n).filter(|other| color(*other) == color(r)).collect();
            assert_eq!(children[r].is_null(), color(r) == NCCL_SPLIT_NOCOLOR);
            if children[r].is_null() {
                continue;
            }
            assert_eq!(data[r].get::<i32>(), [family.iter().sum::<usize>() as i32]);
            let mut rank = -1;
            assert_eq!(nccl!(ncclCommUserRank(children[r], &mut rank)), OK);
            assert_eq!(rank as usize, family.iter().filter(|other| **other > r).count());
            assert_eq!(nccl!(ncclCommFinalize(children[r])), OK);
            assert_eq!(nccl!(ncclCommDestroy(children[r])), OK);
        }
    }
    world.destroy();
}

#[test]
fn communicators_split_between_processes() {
    run("split", &[&[0, 1, 5], &[2, 3, 4]], "");
    run("split", &[&[3], &[0], &[2], &[1]], "");
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("proc").count()
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("proc").count()
}

/// One communicator after the other, made from ids that rank 0 hands on through the first; then all is as before.
fn many(id: ncclUniqueId, n: usize, ranks: &[usize], times: usize) {
    let first = World::part(id, n, ranks).expect("init");
    let mut counts = (0, 0);
    for time in 0..times {
        let ids: Vec<Buffer> =
            (0..n).map(|r| Buffer::of(&if r == 0 { unique_id().internal } else { [0; 128] })).collect();
        first.run(|r, c, s| nccl!(ncclBcast(ids[r].at(0), 128, ncclDataType_t::Int8, 0, c, s)));
        let id = ncclUniqueId { internal: ids[ranks[0]].get().try_into().unwrap() };
        let world = World::part(id, n, ranks).expect("init");
        let data: Vec<Buffer> = (0..n).map(|r| Buffer::of(&[r as i32])).collect();
        world.run(|r, c, s| nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), 1, I32, SUM, c, s)));
        assert_eq!(data[ranks[0]].get::<i32>(), [(n * (n - 1) / 2) as i32]);
        if time % 2 == 0 {
            world.destroy();
        } else {
            ranks.iter().for_each(|r| assert_eq!(nccl!(ncclCommAbort(world.comms[*r])), OK));
        }
        if time == 0 {
            counts = (descriptors(), threads());
        }
    }
    assert_eq!(threads(), counts.1);
    assert!(descriptors() <= counts.0, "{} descriptors, {} before", descriptors(), counts.0);
    first.destroy();
    // Links go with the last communicator: what stays is the listener and what wakes its thread, and nothing of others.
    let sockets = || {
        let links =
            std::fs::read_dir("/proc/self/fd").expect("proc").filter_map(|e| std::fs::read_link(e.ok()?.path()).ok());
        links.filter(|to| to.to_string_lossy().starts_with("socket:")).count()
    };
    within("the links are closed", || sockets() <= 1);
    assert_eq!(sockets(), 1, "only the listener is left");
}

#[test]
fn fifty_communicators_leave_nothing_behind() {
    run("many", &[&[0, 3], &[1], &[2]], "times=50");
}

/// Works until a peer is gone; then everything ends with an error, soon.
fn survive(id: ncclUniqueId, n: usize, ranks: &[usize]) {
    let world = match World::part(id, n, ranks) {
        Ok(world) => world,
        // The victim died before this process was told that all are ready.
        Err(code) => return assert_eq!(code, REMOTE),
    };
    let data: Vec<Buffer> = (0..n).map(|_| Buffer::of(&vec![1i32; 100_000])).collect();
    let first_rounds = Orders::own().map_or(0, |orders| orders.text("rounds").parse().unwrap_or(0));
    let start = Instant::now();
    let (mut refused, mut round) = (OK, 0);
    while refused == OK {
        assert!(start.elapsed() < LIMIT, "never an error");
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

#[test]
fn a_killed_process_is_a_remote_error_for_the_others() {
    for round in 0..6 {
        let id = unique_id();
        let parts: [&[usize]; 3] = [&[0, 1], &[2], &[3, 4]];
        // later and later in their work
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
    // The part waits in its own init for a rank that never comes; rank 0 is here.
    // No other test has 7 ranks: all of them are in this text.
    let id = unique_id();
    let mut part = Part::start("survive", &id, 7, &[1, 2, 3, 4, 5], "");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| World::part(id, 7, &[0]).err());
        within("six have come", || who_waits().contains("a communicator of 7 waits for the ranks 6"));
        assert!(!waits.is_finished());
        assert_eq!(census().busy, 1, "nobody can say that another process will never come");
        part.kill();
        assert_eq!(waits.join().unwrap(), Some(REMOTE), "{}", last_error());
    });
    // Whoever comes late hears of it.
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
        within("finalize waits", || who_waits().contains("in finalize"));
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
    // A part's id that nobody listens to any more: as if its maker had been killed.
    let mut id = unique_id();
    for byte in &mut id.internal[48..52] {
        *byte = !*byte;
    }
    assert_eq!(World::part(id, 2, &[0]).err(), Some(ncclResult_t::SystemError));
    assert!(last_error().contains("cannot be reached"), "{}", last_error());
}

#[test]
fn ranks_that_disagree_are_refused_in_all_processes() {
    let argument = ncclResult_t::InvalidArgument.0;
    let id = unique_id();
    let first = Part::start("refused", &id, 9, &[0], &format!("says=9;code={argument};text=ranks"));
    // No other test has 9 ranks.
    within("the first has come", || who_waits().contains("a communicator of 9 waits for the ranks"));
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
fn sixteen_processes_and_no_more() {
    let parts: Vec<[usize; 1]> = (0..16).map(|r| [r]).collect();
    run("many", &parts.iter().map(|ranks| &ranks[..]).collect::<Vec<_>>(), "times=2");
    let id = unique_id();
    let more = format!("says=17;code={};text=at most 16 processes", ncclResult_t::InvalidUsage.0);
    let parts: Vec<Part> = (0..17).map(|r| Part::start("refused", &id, 17, &[r], &more)).collect();
    parts.into_iter().for_each(Part::done);
}

/// Ranks that ask for different counts never mix; abort ends it. The word comes when nothing moves any more.
fn mismatch(id: ncclUniqueId, n: usize, ranks: &[usize]) {
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

/// Waits until all parts have said this, and nothing moves in them any more.
fn all_stand_still(parts: &mut [Part], word: &str) {
    parts.iter_mut().for_each(|part| part.said(word));
    stand_still(&parts.iter().map(Part::id).collect::<Vec<_>>());
}

/// Two ranks that both send first: possible with an allowance only. With `hold`, rank 1 does nothing until told.
fn eager(id: ncclUniqueId, ranks: &[usize]) {
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

/// A send that meets its receiver only when that is let go.
fn send_first(id: ncclUniqueId, ranks: &[usize]) {
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

/// Waits for a rank that aborts meanwhile.
fn left(id: ncclUniqueId, n: usize, ranks: &[usize]) {
    let world = World::part(id, n, ranks).expect("init");
    let data = Buffer::of(&[1i32]);
    assert_eq!(nccl!(ncclRecv(data.at(0), 1, I32, 1, world.comms[0], world.streams[0].raw())), OK);
    say("asked");
    wait_for_word();
    let mut error = REMOTE;
    assert_eq!(nccl!(ncclCommGetAsyncError(world.comms[0], &mut error)), OK);
    assert_eq!(error, OK);
    assert!(!world.streams[0].query());
    assert_eq!(nccl!(ncclCommAbort(world.comms[0])), OK);
    world.synchronize();
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
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        // It may be refused while we write.
        let _ = stream.write_all(bytes);
        let end = stream.read(&mut [0]);
        let timed_out = |e: &std::io::Error| e.kind() == std::io::ErrorKind::WouldBlock;
        assert!(!end.as_ref().is_err_and(timed_out) && !end.is_ok_and(|bytes| bytes > 0), "not refused");
    };
    call(&[0; 72]);
    call(&[b'x'; 1000]);
    let mut hello = Vec::from(b"csoft\x00\x01\n");
    hello.extend([1; 64]);
    call(&hello);
    // The right cookie, and then a frame of no kind, a chunk of 2^63 bytes, a control frame that says nothing.
    for (kind, len) in [(9u8, 0u64), (1, 1 << 63), (3, 1 << 40), (3, 1)] {
        let mut bytes = Vec::from(b"csoft\x00\x01\n");
        bytes.extend(cookie);
        bytes.extend([7; 48]);
        let mut head = [0; 72];
        head[0] = kind;
        head[64..].copy_from_slice(&len.to_le_bytes());
        bytes.extend(head);
        bytes.extend([0xee; 1]);
        call(&bytes);
    }
    // Nothing of this disturbs members.
    let part = Part::start("survive", &id, 2, &[1], "");
    let world = World::part(id, 2, &[0]).expect("init");
    drop(part);
    let error = || {
        let mut error = OK;
        assert_eq!(nccl!(ncclCommGetAsyncError(world.comms[0], &mut error)), OK);
        error
    };
    within("its end is noticed", || error() != OK);
    assert_eq!(error(), REMOTE);
    assert_eq!(nccl!(ncclCommDestroy(world.comms[0])), OK);
}

/// Elements of a message that is larger than what may be under way.
const HOARD: usize = 16 << 20;

/// Rank 0 sends, and rank 1 receives when it is told.
fn hoard(id: ncclUniqueId, ranks: &[usize]) {
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

/// A sender is only so far ahead, and waits without spinning: what is under way stays small, on both sides, until the receiver comes.
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
        assert!(more < 8 << 20, "{more} bytes of {} lie about", 4 * HOARD);
    }
    // However long it takes: who is blocked does not get the processor.
    let asleep = pids.map(switches);
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(pids.map(switches), asleep, "context switches of threads that wait");
    parts[0].word();
    parts[0].said("waits");
    parts[1].word();
    parts.into_iter().for_each(Part::done);
}

fn speed(id: ncclUniqueId, n: usize, ranks: &[usize]) {
    measure(&World::part(id, n, ranks).expect("init"), ranks[0] == 0, "processes");
}

fn measure(world: &World, says: bool, what: &str) {
    let n = world.n();
    let count = 4 << 20;
    let data: Vec<Buffer> = (0..n).map(|_| Buffer::of(&vec![1i32; count])).collect();
    let max = ncclRedOp_t::Max;
    for (count, times) in [(1usize, 2000u32), (4 << 20, 10)] {
        let start = Instant::now();
        for _ in 0..times {
            world.run(|r, c, s| nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), count, I32, max, c, s)));
        }
        if says {
            let each = start.elapsed() / times;
            eprintln!("{what}: all_reduce of {} bytes on {n} ranks: {each:?}", 4 * count);
        }
    }
}

#[test]
#[ignore = "a measurement: run it in a release build with --ignored --nocapture"]
fn how_fast() {
    for n in [2, 4] {
        measure(&World::new(n), true, "threads");
        let ranks: Vec<[usize; 1]> = (0..n).map(|r| [r]).collect();
        run("speed", &ranks.iter().map(|r| &r[..]).collect::<Vec<_>>(), "");
    }
}
