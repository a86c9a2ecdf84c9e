//! Each fault, and what it does.

use super::end::*;
use super::{RETRY, alone, call};
use crate::faults::{Counts, Fault, Kind, begin, end, seen};
use crate::layout::{self, PORT_ACTIVE, PORT_DOWN, PortAttr, event, state, status};
use libc::c_int;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const LATE: Duration = Duration::from_millis(250);

/// The fault strikes at the second message of the card.
fn begin_at_second(kind: Kind) -> Arc<Mutex<Vec<String>>> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let teller = Arc::clone(&told);
    let fault = Fault { kind, nic: None, at: 2, seed: 5 };
    begin(Some(fault), move |words| teller.lock().unwrap().push(words.to_owned()));
    told
}

fn assert_struck(told: &Mutex<Vec<String>>) {
    let told = told.lock().unwrap();
    assert_eq!(told.len(), 1);
    assert_eq!(seen().1.as_ref(), told.first());
    end();
}

fn write(a: &End, b: &End, id: u64, text: &[u8]) -> c_int {
    let at = id as usize * 64;
    a.set(at, text);
    a.post(&Work { id, ..a.request(WRITE, at, text.len(), b.remote(at)) })
}

fn port(end: &End) -> c_int {
    let mut attr = PortAttr::default();
    call!(ibv_query_port: fn(*mut layout::Context, u8, *mut PortAttr) -> c_int; end.context, 1, &raw mut attr);
    attr.state
}

#[test]
fn messages_with_data_are_counted() {
    let _alone = alone();
    let (a, b) = End::pair();
    let lonely = End::new();
    lonely.connect(lonely.number());
    begin(None, |_| ());
    assert_eq!((write(&a, &b, 1, b"12345"), write(&a, &b, 2, b"123")), (0, 0));
    assert_eq!(a.post(&a.request(WRITE, 0, 0, b.remote(0))), 0);
    assert_eq!(a.post(&a.request(READ, 0, 8, b.remote(0))), 0);
    assert_eq!(lonely.post(&lonely.request(WRITE, 0, 8, lonely.remote(64))), 0);
    assert_eq!(seen(), (Counts { messages: 2, bytes: 8 }, None));
    for _ in 0..4 {
        a.sent();
    }
    lonely.sent();
    end();
    assert_eq!(seen(), (Counts::default(), None));
    // A fault of one card does not count the messages of another.
    begin(Some(Fault { kind: Kind::LostWrite, nic: Some(1), at: 1, seed: 0 }), |_| ());
    assert_eq!(write(&a, &b, 3, b"here"), 0);
    a.sent();
    assert_eq!((seen().0.messages, b.bytes(192, 4)), (0, b"here".to_vec()));
    end();
}

#[test]
fn retries_are_exceeded() {
    let _alone = alone();
    let (a, b) = End::pair();
    let told = begin_at_second(Kind::RetryExceeded);
    let start = Instant::now();
    for id in 1..=3 {
        assert_eq!(write(&a, &b, id, b"data"), 0);
    }
    let sent = [a.sent(), a.sent(), a.sent()].map(|wc| (wc.wr_id, wc.status));
    assert_eq!(sent, [(1, 0), (2, status::RETRY_EXC_ERR), (3, status::WR_FLUSH_ERR)]);
    assert!(start.elapsed() >= RETRY);
    assert_eq!((b.bytes(128, 4), b.bytes(192, 4), b.state()), (vec![0; 4], vec![0; 4], state::RTS));
    assert_struck(&told);
}

#[test]
fn a_port_is_down_for_a_while() {
    let _alone = alone();
    for kind in [Kind::PortDown { time: Some(LATE) }, Kind::PortDown { time: Some(3 * RETRY) }] {
        // Ends of two cards, so that only one of them is down.
        let (a, b) = (End::with(Options { nic: 2, ..Options::default() }), End::new());
        a.connect(b.number());
        b.connect(a.number());
        let told = begin_at_second(kind);
        assert_eq!((write(&a, &b, 1, b"before"), write(&a, &b, 2, b"behind")), (0, 0));
        assert_eq!((a.event().event_type, port(&a), port(&b)), (event::PORT_ERR, PORT_DOWN, PORT_ACTIVE));
        let other = End::with(Options { nic: 2, ..Options::default() });
        assert_eq!((other.to_init(), other.to_rtr(b.number())), (0, libc::ETIMEDOUT));
        // Requests of the other side wait too.
        assert_eq!(write(&b, &a, 3, b"back"), 0);
        let is_short = kind == Kind::PortDown { time: Some(LATE) };
        let wanted = if is_short { status::SUCCESS } else { status::RETRY_EXC_ERR };
        assert_eq!([a.sent(), a.sent(), b.sent()].map(|wc| wc.status), [0, wanted, wanted]);
        assert_eq!(b.bytes(128, 6) == b"behind", is_short);
        assert_eq!(a.bytes(192, 4) == b"back", is_short);
        assert_eq!((a.event().event_type, port(&a)), (event::PORT_ACTIVE, PORT_ACTIVE));
        assert_struck(&told);
    }
}

#[test]
fn a_port_is_down_for_good() {
    let _alone = alone();
    // The card is one that no other test uses.
    let (a, b) = (End::with(Options { nic: 3, ..Options::default() }), End::new());
    a.connect(b.number());
    b.connect(a.number());
    let told = begin_at_second(Kind::PortDown { time: None });
    assert_eq!((write(&a, &b, 1, b"x"), write(&a, &b, 2, b"x")), (0, 0));
    assert_eq!([a.sent(), a.sent()].map(|wc| wc.status), [0, status::RETRY_EXC_ERR]);
    assert_eq!((a.event().event_type, port(&a), a.has_event()), (event::PORT_ERR, PORT_DOWN, false));
    assert_struck(&told);
}

#[test]
fn a_queue_pair_fails() {
    let _alone = alone();
    let (a, b) = End::pair();
    let told = begin_at_second(Kind::QueuePairFatal);
    assert_eq!((write(&a, &b, 1, b"x"), a.sent().status, write(&a, &b, 2, b"x")), (0, 0, 0));
    let event = a.event();
    assert_eq!((event.event_type, event.element), (event::QP_FATAL, a.qp as u64));
    assert_eq!((a.sent().status, a.state(), b.state()), (status::WR_FLUSH_ERR, state::ERR, state::RTS));
    assert_struck(&told);
}

#[test]
fn a_completion_queue_fails() {
    let _alone = alone();
    let (a, b) = End::pair();
    let told = begin_at_second(Kind::CompletionQueueError);
    assert_eq!((write(&a, &b, 1, b"x"), a.sent().status, write(&a, &b, 2, b"arrives")), (0, 0, 0));
    let event = a.event();
    assert_eq!((event.event_type, event.element), (event::CQ_ERR, a.send_cq as u64));
    a.assert_quiet();
    assert_eq!(b.bytes(128, 7), b"arrives");
    assert_struck(&told);
}

#[test]
fn a_card_fails() {
    let _alone = alone();
    // The card is one that no other test uses.
    let with = Options { nic: 4, ..Options::default() };
    let (a, other, b) = (End::with(with), End::with(with), End::new());
    a.connect(b.number());
    b.connect(a.number());
    other.connect(other.number());
    let told = begin_at_second(Kind::DeviceFatal);
    assert_eq!((write(&a, &b, 1, b"x"), a.sent().status, write(&a, &b, 2, b"x")), (0, 0, 0));
    assert_eq!(a.event().event_type, event::DEVICE_FATAL);
    assert_eq!(other.event().event_type, event::DEVICE_FATAL);
    std::thread::sleep(LATE);
    assert_eq!((a.state(), other.state()), (state::ERR, state::ERR));
    assert_eq!((other.to_state(state::RESET), other.to_init()), (0, libc::EIO));
    let pd = call!(ibv_alloc_pd: fn(*mut layout::Context) -> *mut layout::Pd; a.context);
    assert!(pd.is_null());
    assert_struck(&told);
}

#[test]
fn a_message_is_sent_late() {
    let _alone = alone();
    let (a, b) = End::pair();
    let told = begin_at_second(Kind::LateSend { time: LATE });
    let start = Instant::now();
    for id in 1..=3 {
        assert_eq!(write(&a, &b, id, b"data"), 0);
    }
    assert_eq!(a.sent().wr_id, 1);
    let is_early = b.bytes(128, 4) == b"data" || b.bytes(192, 4) == b"data";
    assert!(!is_early || start.elapsed() >= LATE);
    assert_eq!([a.sent(), a.sent()].map(|wc| (wc.wr_id, wc.status)), [(2, 0), (3, 0)]);
    assert!(start.elapsed() >= LATE);
    assert_eq!((b.bytes(128, 4), b.bytes(192, 4)), (b"data".to_vec(), b"data".to_vec()));
    assert_struck(&told);
}

#[test]
fn a_completion_comes_late() {
    let _alone = alone();
    let (a, b) = End::pair();
    let told = begin_at_second(Kind::LateCompletion { time: LATE });
    let start = Instant::now();
    for id in 1..=3 {
        assert_eq!(write(&a, &b, id, b"data"), 0);
    }
    assert_eq!(a.sent().wr_id, 1);
    std::thread::sleep(LATE / 10);
    let early = a.poll_now(a.send_cq);
    assert!(early.is_none() || start.elapsed() >= LATE);
    assert_eq!((b.bytes(128, 4), b.bytes(192, 4)), (b"data".to_vec(), b"data".to_vec()));
    let late = [early.unwrap_or_else(|| a.sent()), a.sent()];
    assert_eq!(late.map(|wc| (wc.wr_id, wc.status)), [(2, 0), (3, 0)]);
    assert!(start.elapsed() >= LATE);
    assert_struck(&told);
}

#[test]
fn data_is_lost() {
    let _alone = alone();
    let (a, b) = End::pair();
    let told = begin_at_second(Kind::LostWrite);
    assert_eq!(b.receive(1, &[]), 0);
    assert_eq!(write(&a, &b, 1, b"data"), 0);
    a.set(64, b"more");
    assert_eq!(a.post(&Work { imm: 4, ..a.request(WRITE_IMM, 64, 4, b.remote(128)) }), 0);
    assert_eq!([a.sent(), a.sent()].map(|wc| wc.status), [0, 0]);
    assert_eq!((b.received().imm_data, b.bytes(64, 4), b.bytes(128, 4)), (4, b"data".to_vec(), vec![0; 4]));
    assert_struck(&told);
}

#[test]
fn a_bit_flips() {
    let _alone = alone();
    let (a, b) = End::pair();
    let told = begin_at_second(Kind::FlippedBit);
    assert_eq!((write(&a, &b, 1, b"data"), write(&a, &b, 2, &[0; 32])), (0, 0));
    assert_eq!([a.sent(), a.sent()].map(|wc| wc.status), [0, 0]);
    let ones: u32 = b.bytes(128, 32).iter().map(|byte| byte.count_ones()).sum();
    assert_eq!((ones, b.bytes(64, 4), a.bytes(128, 32)), (1, b"data".to_vec(), vec![0; 32]));
    assert_struck(&told);
}

#[test]
fn a_write_arrives_twice() {
    let _alone = alone();
    let (a, b) = End::pair();
    let told = begin_at_second(Kind::RepeatedWrite { after: LATE });
    assert_eq!((write(&a, &b, 1, b"data"), write(&a, &b, 2, b"older")), (0, 0));
    assert_eq!([a.sent(), a.sent()].map(|wc| wc.status), [0, 0]);
    assert_eq!((write(&a, &b, 2, b"newer"), a.sent().status), (0, 0));
    assert_eq!(b.bytes(128, 5), b"newer");
    std::thread::sleep(2 * LATE);
    assert_eq!(b.bytes(128, 5), b"older");
    a.assert_quiet();
    assert_struck(&told);
}

#[test]
fn a_write_is_overtaken() {
    let _alone = alone();
    let (a, b) = End::pair();
    let told = begin_at_second(Kind::ReorderedWrites);
    assert_eq!(write(&a, &b, 1, b"data"), 0);
    assert_eq!((write(&a, &b, 2, b"older"), write(&a, &b, 2, b"newer")), (0, 0));
    assert_eq!([a.sent(), a.sent(), a.sent()].map(|wc| wc.status), [0; 3]);
    std::thread::sleep(LATE);
    assert_eq!(b.bytes(128, 5), b"older");
    assert_struck(&told);
    // Without another message it arrives all the same.
    let told = begin_at_second(Kind::ReorderedWrites);
    assert_eq!((write(&a, &b, 3, b"data"), write(&a, &b, 4, b"alone")), (0, 0));
    assert_eq!([a.sent(), a.sent()].map(|wc| wc.status), [0; 2]);
    std::thread::sleep(LATE);
    assert_eq!(b.bytes(256, 5), b"alone");
    assert_struck(&told);
}

#[test]
fn a_card_is_slow() {
    let _alone = alone();
    let (a, b) = End::pair();
    let told = begin_at_second(Kind::SlowNic { bytes_per_second: 100_000 });
    let start = Instant::now();
    for id in 1..=4 {
        assert_eq!(a.post(&Work { id, ..a.request(WRITE, 0, 10_000, b.remote(0)) }), 0);
    }
    for id in 1..=4 {
        assert_eq!(a.sent().wr_id, id);
    }
    // The second is sent at once, and each of the others after the one in front of it.
    assert!(start.elapsed() >= Duration::from_millis(200));
    assert_struck(&told);
    let start = Instant::now();
    assert_eq!(a.post(&a.request(WRITE, 0, 60_000, b.remote(0))), 0);
    a.sent();
    assert!(start.elapsed() < Duration::from_millis(500));
}
