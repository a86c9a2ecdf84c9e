//! Every operation between two queue pairs of one process.

use super::end::*;
use super::{alone, call};
use crate::layout::{Context, Cq, Mr, Pd, completed, status};
use libc::{c_int, c_void};
use std::ptr::null_mut;

#[test]
fn writes_arrive_and_complete_in_order() {
    let _alone = alone();
    let (a, b) = End::pair();
    a.set(0, b"hello world");
    assert_eq!(b.receive(5, &[]), 0);
    let plain = Work { id: 1, ..a.request(WRITE, 0, 5, b.remote(100)) };
    let silent = Work { id: 2, flags: 0, ..a.request(WRITE, 5, 6, b.remote(105)) };
    let with_imm = Work { id: 3, imm: 0x1234_5678, ..a.request(WRITE_IMM, 0, 0, b.remote(0)) };
    assert_eq!((a.post(&plain), a.post(&silent), a.post(&with_imm)), (0, 0, 0));
    let received = b.received();
    assert_eq!(b.bytes(100, 11), b"hello world");
    assert_eq!((received.wr_id, received.opcode, received.byte_len), (5, completed::RECV_WITH_IMM, 0));
    assert_eq!((received.imm_data, received.wc_flags, received.src_qp), (0x1234_5678, 2, a.number()));
    let sent = [a.sent(), a.sent()];
    assert_eq!(
        sent.map(|wc| (wc.wr_id, wc.status, wc.opcode, wc.qp_num)),
        [(1, status::SUCCESS, completed::WRITE, a.number()), (3, status::SUCCESS, completed::WRITE, a.number())]
    );
    a.assert_quiet();
}

#[test]
fn sends_fill_the_pieces_of_a_receive() {
    let _alone = alone();
    let (a, b) = End::pair();
    a.set(0, b"abcdefghij");
    assert_eq!(b.receive(1, &[b.piece(0, 3), b.piece(50, 4), b.piece(60, 100)]), 0);
    assert_eq!(b.receive(2, &[b.piece(70, 8)]), 0);
    let gathered = Work { pieces: vec![a.piece(5, 5), a.piece(0, 5)], ..a.request(SEND, 0, 0, (0, 0)) };
    assert_eq!(a.post(&gathered), 0);
    let inline = Work { flags: SIGNALED | INLINE, imm: 9, ..a.request(SEND_IMM, 0, 8, (0, 0)) };
    assert_eq!(a.post(&inline), 0);
    // Inline data was taken when it was posted.
    a.set(0, b"xxxxxxxx");
    let received = [b.received(), b.received()];
    let seen = received.map(|wc| (wc.wr_id, wc.opcode, wc.byte_len, wc.wc_flags, wc.imm_data));
    assert_eq!(seen, [(1, completed::RECV, 10, 0, 0), (2, completed::RECV, 8, 2, 9)]);
    assert_eq!([b.bytes(0, 3), b.bytes(50, 4), b.bytes(60, 3)].concat(), b"fghijabcde");
    assert_eq!(b.bytes(70, 8), b"abcdefgh");
    assert_eq!([a.sent(), a.sent()].map(|wc| (wc.status, wc.opcode)), [(0, completed::SEND); 2]);
}

#[test]
fn reads_and_atomics_fetch_what_was_there() {
    let _alone = alone();
    let (a, b) = End::pair();
    b.set(8, &10u64.to_ne_bytes());
    b.set(16, b"to be read");
    let read = Work { id: 1, pieces: vec![a.piece(0, 4), a.piece(32, 6)], ..a.request(READ, 0, 0, b.remote(16)) };
    let add = Work { id: 2, compare_add: 5, ..a.request(FETCH_ADD, 64, 8, b.remote(8)) };
    let swap = Work { id: 3, compare_add: 15, swap: 77, ..a.request(COMPARE_SWAP, 72, 8, b.remote(8)) };
    let missed = Work { id: 4, compare_add: 15, swap: 1, ..a.request(COMPARE_SWAP, 80, 8, b.remote(8)) };
    for work in [&read, &add, &swap, &missed] {
        assert_eq!(a.post(work), 0);
    }
    let sent = [a.sent(), a.sent(), a.sent(), a.sent()];
    let seen = sent.map(|wc| (wc.wr_id, wc.status, wc.opcode, wc.byte_len));
    let wanted = [
        (1, 0, completed::READ, 10),
        (2, 0, completed::FETCH_ADD, 8),
        (3, 0, completed::COMPARE_SWAP, 8),
        (4, 0, completed::COMPARE_SWAP, 8),
    ];
    assert_eq!(seen, wanted);
    assert_eq!([a.bytes(0, 4), a.bytes(32, 6)].concat(), b"to be read");
    let word = |end: &End, at| u64::from_ne_bytes(end.bytes(at, 8).try_into().unwrap());
    assert_eq!([word(&a, 64), word(&a, 72), word(&a, 80), word(&b, 8)], [10, 15, 77, 77]);
}

#[test]
fn a_queue_pair_can_be_connected_to_itself() {
    let _alone = alone();
    let a = End::new();
    a.connect(a.number());
    a.set(0, b"itself");
    assert_eq!(a.post(&a.request(WRITE, 0, 6, a.remote(64))), 0);
    assert_eq!(a.post(&a.request(READ, 128, 6, a.remote(64))), 0);
    assert_eq!([a.sent(), a.sent()].map(|wc| wc.opcode), [completed::WRITE, completed::READ]);
    assert_eq!(a.bytes(128, 6), b"itself");
}

#[test]
fn unreliable_queue_pairs_lose_what_nobody_takes() {
    let _alone = alone();
    let (a, b) = End::pair_with(Options { is_reliable: false, ..Options::default() });
    a.set(0, b"uc");
    assert_eq!(a.post(&a.request(SEND_IMM, 0, 2, (0, 0))), 0);
    assert_eq!(a.sent().status, status::SUCCESS);
    b.assert_quiet();
    assert_eq!(b.receive(1, &[b.piece(0, 8)]), 0);
    assert_eq!(a.post(&Work { imm: 3, ..a.request(SEND_IMM, 0, 2, (0, 0)) }), 0);
    assert_eq!((b.received().imm_data, b.bytes(0, 2)), (3, b"uc".to_vec()));
    assert_eq!(a.post(&a.request(READ, 0, 2, b.remote(0))), libc::EINVAL);
}

#[test]
fn messages_larger_than_sockets_hold_pass_in_both_directions_at_once() {
    let _alone = alone();
    const LEN: usize = 12 << 20;
    let (a, b) = End::pair_with(Options { bytes: 2 * LEN, ..Options::default() });
    let content: Vec<u8> = (0..LEN as u32 / 4).flat_map(|word| word.wrapping_mul(0x9e37_79b9).to_ne_bytes()).collect();
    for end in [&a, &b] {
        end.set(0, &content);
    }
    for _ in 0..2 {
        assert_eq!(a.post(&a.request(READ, LEN, LEN, b.remote(0))), 0);
        assert_eq!(b.post(&b.request(READ, LEN, LEN, a.remote(0))), 0);
        assert_eq!(a.post(&a.request(WRITE, 0, LEN, b.remote(0))), 0);
        assert_eq!(b.post(&b.request(WRITE, 0, LEN, a.remote(0))), 0);
    }
    for end in [&a, &b, &a, &b, &a, &b, &a, &b] {
        assert_eq!(end.sent().status, status::SUCCESS);
    }
    assert!(a.bytes(LEN, LEN) == content && b.bytes(LEN, LEN) == content);
}

#[test]
fn more_than_a_connection_keeps_waits_in_the_queues() {
    let _alone = alone();
    const LEN: usize = 1 << 20;
    let options = Options { bytes: 2 * LEN, ..Options::default() };
    let (a, b) = End::pair_with(options);
    let (c, d) = End::pair_with(options);
    for number in 0..64u64 {
        for (from, to) in [(&a, &b), (&b, &a), (&c, &d)] {
            let opcode = if number % 3 == 2 { READ } else { WRITE };
            assert_eq!(from.post(&Work { id: number, ..from.request(opcode, 0, LEN, to.remote(LEN)) }), 0);
        }
    }
    for number in 0..64 {
        for end in [&a, &b, &c] {
            let wc = end.sent();
            assert_eq!((wc.wr_id, wc.status), (number, status::SUCCESS));
        }
    }
}

#[test]
fn memory_of_a_file_is_registered_by_its_descriptor() {
    let _alone = alone();
    let (a, b) = End::pair();
    // SAFETY: a new file.
    let file = unsafe { libc::memfd_create(c"gpu".as_ptr(), libc::MFD_CLOEXEC) };
    // SAFETY: only numbers.
    assert_eq!(unsafe { libc::ftruncate(file, 3 << 12) }, 0);
    let register = |file: c_int, offset: u64, len: usize| {
        call!(ibv_reg_dmabuf_mr: fn(*mut Pd, u64, usize, u64, c_int, c_int) -> *mut Mr;
            b.pd, offset, len, 0x7000_0000, file, ALL as c_int)
    };
    assert!(register(-1, 0, 8).is_null());
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EBADF));
    assert!(register(file, 2 << 12, 2 << 12).is_null());
    let mr = register(file, 5000, 6000);
    assert!(!mr.is_null());
    a.set(0, b"by descriptor");
    // SAFETY: the region exists.
    let key = unsafe { (*mr).rkey };
    assert_eq!(a.post(&a.request(WRITE, 0, 13, (0x7000_0000 + 10, key))), 0);
    assert_eq!(a.sent().status, status::SUCCESS);
    let mut there = [0; 13];
    // SAFETY: this frame's bytes.
    assert_eq!(unsafe { libc::pread(file, there.as_mut_ptr().cast(), 13, 5010) }, 13);
    assert_eq!(&there, b"by descriptor");
    // A file that has become shorter is no reason to end the process.
    // SAFETY: only numbers.
    assert_eq!(unsafe { libc::ftruncate(file, 0) }, 0);
    assert_eq!(a.post(&a.request(WRITE, 0, 13, (0x7000_0000, key))), 0);
    assert_eq!(a.sent().status, status::REM_ACCESS_ERR);
    assert_eq!(call!(ibv_dereg_mr: fn(*mut Mr) -> c_int; mr), 0);
    // SAFETY: the test's own.
    unsafe { libc::close(file) };
}

#[test]
fn a_channel_tells_of_one_completion() {
    let _alone = alone();
    let (a, b) = End::pair();
    let arm = || {
        // SAFETY: the function of the context.
        unsafe {
            let function: unsafe extern "C" fn(*mut Cq, c_int) -> c_int =
                std::mem::transmute((*b.context).req_notify_cq);
            function(b.recv_cq, 0)
        }
    };
    // SAFETY: the channel exists; the descriptor is set not to block.
    unsafe { libc::fcntl((*b.channel).fd, libc::F_SETFL, libc::O_NONBLOCK) };
    let next = || {
        let (mut cq, mut user) = (null_mut(), null_mut());
        let answer = call!(ibv_get_cq_event: fn(*mut super::end::Channel, *mut *mut Cq, *mut *mut c_void) -> c_int;
            b.channel, &raw mut cq, &raw mut user);
        (answer == 0).then_some((cq, user as usize))
    };
    let send = || {
        assert_eq!(b.receive(1, &[]), 0);
        assert_eq!(a.post(&a.request(WRITE_IMM, 0, 0, b.remote(0))), 0);
        a.sent();
        assert_eq!(b.received().status, status::SUCCESS);
    };
    send();
    assert_eq!(next(), None);
    assert_eq!(arm(), 0);
    send();
    send();
    assert_eq!((next(), next()), (Some((b.recv_cq, 77)), None));
    call!(ibv_ack_cq_events: fn(*mut Cq, u32); b.recv_cq, 1);
    let _: *mut Context = b.context;
}
