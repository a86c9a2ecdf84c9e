//! The states of a queue pair, and lives that must not mix.

use super::alone;
use super::end::*;
use crate::layout::{QpAttr, mask, state, status};

#[test]
fn states_follow_each_other_with_their_attributes() {
    let _alone = alone();
    let a = End::new();
    assert_eq!(a.state(), state::RESET);
    assert_eq!(a.post(&a.request(WRITE, 0, 4, (0, 0))), libc::EINVAL);
    assert_eq!(a.receive(1, &[]), libc::EINVAL);
    assert_eq!(a.to_rtr(1), libc::EINVAL);
    assert_eq!(a.to_state(state::INIT), libc::EINVAL);
    assert_eq!(a.to_init(), 0);
    assert_eq!(a.post(&a.request(WRITE, 0, 4, (0, 0))), libc::EINVAL);
    assert_eq!(a.receive(1, &[]), 0);
    assert_eq!((a.to_rts(7), a.to_rtr(0x1234), a.to_init()), (libc::EINVAL, 0, libc::EINVAL));
    assert_eq!(a.post(&a.request(WRITE, 0, 4, (0, 0))), libc::EINVAL);
    assert_eq!(a.to_rts(6), 0);
    let (attr, init) = a.query();
    assert_eq!((attr.qp_state, attr.dest_qp_num, attr.port_num, attr.path_mtu), (state::RTS, 0x1234, 1, 5));
    assert_eq!((attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer), (14, 7, 6, 12));
    assert_eq!((attr.ah_attr.dlid, attr.qp_access_flags as u32, attr.cap.max_send_wr), (7, ALL, 64));
    assert_eq!((init.qp_context as usize, init.send_cq, init.recv_cq), (99, a.send_cq, a.recv_cq));
    // SAFETY: the queue pair exists.
    assert_eq!(unsafe { (*a.qp).state }, state::RTS);
    assert_eq!((a.to_state(state::ERR), a.received().status), (0, status::WR_FLUSH_ERR));
    assert_eq!((a.to_state(state::RTS), a.to_state(state::RESET), a.to_init()), (libc::EINVAL, 0, 0));
    let wrong_port = QpAttr { qp_state: state::INIT, port_num: 2, ..QpAttr::default() };
    assert_eq!(a.modify(wrong_port, mask::STATE | mask::PORT), libc::EINVAL);
}

#[test]
fn a_reset_removes_completions_that_were_not_fetched() {
    let _alone = alone();
    let (a, b) = End::pair();
    assert_eq!(b.receive(1, &[]), 0);
    for id in 1..=3 {
        let opcode = if id == 1 { WRITE_IMM } else { WRITE };
        assert_eq!(a.post(&Work { id, ..a.request(opcode, 0, 8, b.remote(0)) }), 0);
    }
    assert_eq!((a.sent().wr_id, a.sent().wr_id), (1, 2));
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!((a.to_state(state::RESET), b.to_state(state::RESET)), (0, 0));
    a.assert_quiet();
    b.assert_quiet();
}

#[test]
fn requests_wait_until_the_peer_is_ready() {
    let _alone = alone();
    let (a, b) = (End::new(), End::new());
    a.connect(b.number());
    a.set(0, b"patience");
    for at in [0, 100, 200] {
        assert_eq!(a.post(&a.request(WRITE, 0, 8, b.remote(at))), 0);
    }
    a.assert_quiet();
    b.connect(a.number());
    assert_eq!([a.sent(), a.sent(), a.sent()].map(|wc| wc.status), [status::SUCCESS; 3]);
    assert_eq!([b.bytes(0, 8), b.bytes(100, 8), b.bytes(200, 8)].concat(), b"patience".repeat(3));
}

#[test]
fn nothing_of_an_earlier_life_arrives() {
    let _alone = alone();
    let (a, b) = (End::new(), End::new());
    for life in 1..=100u64 {
        a.connect(b.number());
        b.connect(a.number());
        a.set(0, &life.to_ne_bytes());
        // Nobody waits for these: they are under way when both sides are reset.
        for _ in 0..20 {
            assert_eq!(a.post(&Work { id: life, ..a.request(WRITE_IMM, 0, 8, b.remote(8)) }), 0);
            assert_eq!(a.post(&Work { id: life, ..a.request(FETCH_ADD, 64, 8, b.remote(16)) }), 0);
        }
        if life % 2 == 0 {
            assert_eq!(b.receive(life, &[]), 0);
        }
        let (first, second) = if life % 3 == 0 { (&b, &a) } else { (&a, &b) };
        assert_eq!((first.to_state(state::RESET), second.to_state(state::RESET)), (0, 0));
        assert_eq!((a.poll_now(a.send_cq), b.poll_now(b.recv_cq)), (None, None));
        b.set(8, &[0; 16]);
        a.connect(b.number());
        b.connect(a.number());
        // One request of the new life, and nothing else, completes and has an effect.
        a.set(0, &(1000 + life).to_ne_bytes());
        assert_eq!(b.receive(1000 + life, &[]), 0);
        assert_eq!(a.post(&Work { id: 1000 + life, ..a.request(WRITE_IMM, 0, 8, b.remote(24)) }), 0);
        assert_eq!((a.sent().wr_id, b.received().wr_id), (1000 + life, 1000 + life));
        assert_eq!(b.bytes(8, 24), [[0; 8], [0; 8], (1000 + life).to_ne_bytes()].concat());
        assert_eq!((a.to_state(state::RESET), b.to_state(state::RESET)), (0, 0));
    }
    assert!(!a.has_event() && !b.has_event());
}
