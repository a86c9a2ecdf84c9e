//! Requests that must fail, and what is left of their queue pairs.

use super::end::*;
use super::{RETRY, alone, call};
use crate::layout::{Mr, Pd, completed, event, state, status};
use libc::{c_int, c_void};
use std::time::Instant;

/// Posts `work` between others: it completes with `failed`, those behind it are flushed in order, and the peer's receives too if its queue
/// pair fails with it.
fn fails(a: &End, b: &End, work: &Work, failed: c_int, event: Option<c_int>) {
    for id in 0..3 {
        assert_eq!(b.receive(100 + id, &[b.piece(0, 4)]), 0);
    }
    let before = Work { id: 1, ..a.request(WRITE, 0, 8, b.remote(512)) };
    let behind = |id| Work { id, flags: 0, ..a.request(SEND, 0, 4, (0, 0)) };
    let works = [before, Work { id: 2, flags: 0, ..work.clone() }, behind(3), behind(4)];
    for work in &works {
        assert_eq!(a.post(work), 0);
    }
    let sent = [a.sent(), a.sent(), a.sent(), a.sent()].map(|wc| (wc.wr_id, wc.status));
    let flushed = status::WR_FLUSH_ERR;
    assert_eq!(sent, [(1, status::SUCCESS), (2, failed), (3, flushed), (4, flushed)]);
    assert_eq!(a.state(), state::ERR);
    if let Some(event) = event {
        let told = b.event();
        assert_eq!((told.event_type, told.element), (event, b.qp as u64));
        assert_eq!(b.state(), state::ERR);
        let received = [b.received(), b.received(), b.received()].map(|wc| (wc.wr_id, wc.status));
        assert_eq!(received, [100, 101, 102].map(|id| (id, flushed)));
    }
    // What is posted from now on is flushed at once.
    assert_eq!(a.post(&Work { id: 9, ..a.request(WRITE, 0, 8, b.remote(0)) }), 0);
    assert_eq!((a.sent().status, a.receive(10, &[])), (flushed, 0));
    assert_eq!(a.received().status, flushed);
    a.assert_quiet();
    assert!(!a.has_event() && !b.has_event());
}

fn register(end: &End, pd: *mut Pd, access: u32) -> *mut Mr {
    let mr = call!(ibv_reg_mr: fn(*mut Pd, *mut c_void, usize, c_int) -> *mut Mr;
        pd, end.memory.cast(), end.len, access as c_int);
    assert!(!mr.is_null());
    mr
}

fn release(mr: *mut Mr) {
    assert_eq!(call!(ibv_dereg_mr: fn(*mut Mr) -> c_int; mr), 0);
}

#[test]
fn keys_are_checked_at_the_target() {
    let _alone = alone();
    let refused = Some(event::QP_ACCESS_ERR);
    let other = End::new();
    for opcode in [WRITE, READ] {
        for case in 0..5 {
            let (a, b) = End::pair();
            let (start, end) = (b.memory as u64, b.memory as u64 + b.len as u64);
            let remote = match case {
                0 => (start, b.key() + 1),
                1 => (other.memory as u64, other.key()),
                2 => (end - 4, b.key()),
                3 => (start - 1, b.key()),
                _ => (u64::MAX - 3, b.key()),
            };
            fails(&a, &b, &a.request(opcode, 0, 8, remote), status::REM_ACCESS_ERR, refused);
        }
    }
}

#[test]
fn a_region_allows_what_it_was_registered_for() {
    let _alone = alone();
    let cases = [(WRITE, 1 | 4 | 8), (READ, 1 | 2 | 8), (FETCH_ADD, 1 | 2 | 4), (COMPARE_SWAP, 1)];
    for (opcode, access) in cases {
        let (a, b) = End::pair();
        let mr = register(&b, b.pd, access);
        // SAFETY: the region exists.
        let key = unsafe { (*mr).rkey };
        let work = a.request(opcode, 0, 8, (b.memory as u64, key));
        fails(&a, &b, &work, status::REM_ACCESS_ERR, Some(event::QP_ACCESS_ERR));
        release(mr);
    }
    // What others may write, the owner must be allowed to.
    let a = End::new();
    let mr = call!(ibv_reg_mr: fn(*mut Pd, *mut c_void, usize, c_int) -> *mut Mr; a.pd, a.memory.cast(), a.len, 2);
    assert!(mr.is_null());
}

#[test]
fn a_queue_pair_allows_what_it_was_told_to() {
    let _alone = alone();
    for (opcode, access) in [(WRITE, 1 | 4 | 8), (READ, 1 | 2 | 8), (FETCH_ADD, 1 | 2 | 4)] {
        let (a, b) = (End::new(), End::new());
        a.connect(b.number());
        assert_eq!((b.to_init_with(access), b.to_rtr(a.number()), b.to_rts(7)), (0, 0, 0));
        assert_eq!(a.post(&a.request(opcode, 0, 8, b.remote(8))), 0);
        assert_eq!((a.sent().status, b.event().event_type), (status::REM_ACCESS_ERR, event::QP_ACCESS_ERR));
    }
}

#[test]
fn a_region_that_is_gone_allows_nothing() {
    let _alone = alone();
    let (a, b) = End::pair();
    let mr = register(&b, b.pd, ALL);
    // SAFETY: the region exists.
    let key = unsafe { (*mr).rkey };
    release(mr);
    fails(&a, &b, &a.request(WRITE, 0, 8, (b.memory as u64, key)), status::REM_ACCESS_ERR, Some(event::QP_ACCESS_ERR));
}

#[test]
fn memory_that_is_unmapped_is_an_error_at_both_sides() {
    let _alone = alone();
    for is_target in [true, false] {
        let (a, b) = End::pair();
        let owner = if is_target { &b } else { &a };
        let memory = map(1 << 16);
        let mr = call!(ibv_reg_mr: fn(*mut Pd, *mut c_void, usize, c_int) -> *mut Mr;
            owner.pd, memory.cast(), 1 << 16, ALL as c_int);
        // SAFETY: the region exists; the memory is the test's.
        let key = unsafe { (*mr).rkey };
        // SAFETY: the test's memory.
        unsafe { libc::munmap(memory.cast(), 1 << 16) };
        let mut work = a.request(WRITE, 0, 4096, b.remote(0));
        if is_target {
            work.remote = (memory as u64, key);
            fails(&a, &b, &work, status::REM_ACCESS_ERR, Some(event::QP_ACCESS_ERR));
        } else {
            work.pieces = vec![crate::layout::Sge { addr: memory as u64, length: 4096, lkey: key }];
            fails(&a, &b, &work, status::LOC_PROT_ERR, None);
        }
        release(mr);
    }
}

#[test]
fn atomics_need_an_aligned_word() {
    let _alone = alone();
    let (a, b) = End::pair();
    fails(&a, &b, &a.request(FETCH_ADD, 0, 8, b.remote(4)), status::REM_INV_REQ_ERR, Some(event::QP_REQ_ERR));
    let (a, b) = End::pair();
    fails(&a, &b, &a.request(FETCH_ADD, 0, 4, b.remote(8)), status::LOC_LEN_ERR, None);
}

#[test]
fn local_keys_are_checked_in_the_order_of_the_queue() {
    let _alone = alone();
    let wrong = |a: &End, b: &End| {
        let mut work = a.request(WRITE, 0, 8, b.remote(0));
        work.pieces[0].lkey += 1;
        work
    };
    let (a, b) = End::pair();
    fails(&a, &b, &wrong(&a, &b), status::LOC_PROT_ERR, None);
    let (a, b) = End::pair();
    let outside = Work { pieces: vec![a.piece(a.len - 4, 8)], ..a.request(READ, 0, 0, b.remote(0)) };
    fails(&a, &b, &outside, status::LOC_PROT_ERR, None);
}

#[test]
fn a_message_must_fit_into_its_receive() {
    let _alone = alone();
    let (a, b) = End::pair();
    assert_eq!((b.receive(1, &[b.piece(0, 4)]), b.receive(2, &[])), (0, 0));
    assert_eq!(a.post(&a.request(SEND, 0, 5, (0, 0))), 0);
    assert_eq!(a.sent().status, status::REM_INV_REQ_ERR);
    assert_eq!([b.received(), b.received()].map(|wc| (wc.wr_id, wc.status)), [(1, status::LOC_LEN_ERR), (2, 5)]);
    let (a, b) = End::pair();
    let mut piece = b.piece(0, 8);
    piece.lkey += 1;
    assert_eq!(b.receive(1, &[piece]), 0);
    assert_eq!(a.post(&a.request(SEND, 0, 5, (0, 0))), 0);
    assert_eq!((a.sent().status, b.received().status), (status::REM_OP_ERR, status::LOC_PROT_ERR));
}

#[test]
fn a_message_waits_for_a_receive_as_long_as_it_may() {
    let _alone = alone();
    let (a, b) = End::pair();
    a.set(0, b"late");
    for _ in 0..3 {
        assert_eq!(a.post(&a.request(SEND, 0, 4, (0, 0))), 0);
    }
    std::thread::sleep(2 * RETRY);
    a.assert_quiet();
    for _ in 0..3 {
        assert_eq!(b.receive(1, &[b.piece(0, 4)]), 0);
        assert_eq!((b.received().status, a.sent().status), (status::SUCCESS, status::SUCCESS));
    }
    let (a, b) = (End::new(), End::new());
    assert_eq!((a.to_init(), a.to_rtr(b.number()), a.to_rts(2)), (0, 0, 0));
    b.connect(a.number());
    assert_eq!(a.post(&a.request(SEND, 0, 4, (0, 0))), 0);
    assert_eq!(a.sent().status, status::RNR_RETRY_EXC_ERR);
    assert_eq!(b.state(), state::RTS);
}

#[test]
fn nobody_answers_for_a_queue_pair_that_is_gone() {
    let _alone = alone();
    let (a, b) = End::pair();
    drop(b);
    let start = Instant::now();
    assert_eq!(a.post(&a.request(WRITE, 0, 8, (0, 0))), 0);
    assert_eq!(a.sent().status, status::RETRY_EXC_ERR);
    assert!(start.elapsed() >= RETRY);
    // Nor for a process that is not there.
    let a = End::new();
    a.connect(1023 << 14 | 100);
    assert_eq!(a.post(&a.request(WRITE, 0, 8, (0, 0))), 0);
    assert_eq!(a.sent().status, status::RETRY_EXC_ERR);
}

#[test]
fn queues_are_as_long_as_a_power_of_two() {
    let _alone = alone();
    let (a, b) = End::pair_with(Options { depth: 10, ..Options::default() });
    assert_eq!(a.query().0.cap.max_send_wr, 16);
    for _ in 0..16 {
        assert_eq!(a.post(&a.request(SEND, 0, 4, (0, 0))), 0);
        assert_eq!(a.receive(1, &[]), 0);
    }
    assert_eq!(a.post(&a.request(SEND, 0, 4, (0, 0))), libc::ENOMEM);
    assert_eq!(a.receive(1, &[]), libc::ENOMEM);
    assert_eq!(b.receive(1, &[b.piece(0, 4)]), 0);
    assert_eq!(a.sent().opcode, completed::SEND);
    assert_eq!(a.post(&a.request(SEND, 0, 4, (0, 0))), 0);
}

#[test]
fn a_full_completion_queue_is_an_event() {
    let _alone = alone();
    let (a, b) = End::pair_with(Options { completions: 3, ..Options::default() });
    for id in 0..5 {
        assert_eq!(a.post(&Work { id, ..a.request(WRITE, 0, 4, b.remote(0)) }), 0);
    }
    let told = a.event();
    assert_eq!((told.event_type, told.element), (event::CQ_ERR, a.send_cq as u64));
    assert_eq!([a.sent(), a.sent(), a.sent()].map(|wc| wc.wr_id), [0, 1, 2]);
    a.assert_quiet();
}
