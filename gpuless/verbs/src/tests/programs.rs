//! Random programs of posts and polls, against a model that knows only what the specification says: memory changes request by request, and
//! each queue's completions come in its order.

use super::alone;
use super::end::*;
use crate::layout::{completed, state, status};
use crate::memory::Random;
use libc::c_int;
use std::collections::VecDeque;

/// Memory of both ends: what requests read locally; what they write and read at the peer; what they fetch into; what receives are put into.
const SOURCE: usize = 0;
const TARGET: usize = 1024;
const FETCHED: usize = 2048;
const INBOX: usize = 3072;
const SPAN: usize = 1024;
const MEMORY: usize = 4096;
/// Completions of a request and a receive, as far as the model knows them.
type Completion = (u64, c_int, c_int, u32, u32);

/// A side of the model: it sends to the other.
struct Side {
    memory: Vec<u8>,
    posted: VecDeque<(u64, usize, usize)>,
    /// Requests that wait for a receive of the peer, with what they were posted with.
    waiting: VecDeque<Request>,
    sent: Vec<Completion>,
    received: Vec<Completion>,
    failed: bool,
}

#[derive(Clone)]
struct Request {
    id: u64,
    opcode: c_int,
    is_signaled: bool,
    data: Vec<u8>,
    /// Local places that fetched bytes go to.
    places: Vec<(usize, usize)>,
    at: usize,
    imm: u32,
    compare_add: u64,
    swap: u64,
    wrong: Option<Wrong>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    RemoteKey,
    LocalKey,
}

impl Side {
    fn new(random: &mut Random) -> Self {
        let memory = (0..MEMORY).map(|_| random.next() as u8).collect();
        let (posted, waiting) = (VecDeque::new(), VecDeque::new());
        Self { memory, posted, waiting, sent: Vec::new(), received: Vec::new(), failed: false }
    }
}

fn opcode_of(opcode: c_int) -> c_int {
    match opcode {
        WRITE | WRITE_IMM => completed::WRITE,
        SEND | SEND_IMM => completed::SEND,
        READ => completed::READ,
        COMPARE_SWAP => completed::COMPARE_SWAP,
        _ => completed::FETCH_ADD,
    }
}

fn fail(side: &mut Side) {
    side.failed = true;
    for (id, ..) in std::mem::take(&mut side.posted) {
        side.received.push((id, status::WR_FLUSH_ERR, completed::RECV, 0, 0));
    }
}

/// Carries out what can be carried out: everything up to a request without a receive.
fn run(from: &mut Side, to: &mut Side) {
    while let Some(request) = from.waiting.front().cloned() {
        let opcode = opcode_of(request.opcode);
        if from.failed {
            from.sent.push((request.id, status::WR_FLUSH_ERR, opcode, 0, 0));
            from.waiting.pop_front();
            continue;
        }
        if let Some(wrong) = request.wrong {
            let failed = if wrong == Wrong::LocalKey { status::LOC_PROT_ERR } else { status::REM_ACCESS_ERR };
            from.sent.push((request.id, failed, opcode, 0, 0));
            from.waiting.pop_front();
            fail(from);
            if wrong == Wrong::RemoteKey {
                fail(to);
            }
            continue;
        }
        let len = request.data.len();
        let takes_receive = matches!(request.opcode, WRITE_IMM | SEND | SEND_IMM);
        let receive = if takes_receive { to.posted.front().copied() } else { None };
        if takes_receive && receive.is_none() {
            return;
        }
        let mut fetched = Vec::new();
        let word = |memory: &[u8]| u64::from_ne_bytes(memory[request.at..request.at + 8].try_into().unwrap());
        match request.opcode {
            WRITE | WRITE_IMM => to.memory[request.at..request.at + len].copy_from_slice(&request.data),
            READ => {
                let whole: usize = request.places.iter().map(|place| place.1).sum();
                fetched = to.memory[request.at..request.at + whole].to_vec();
            }
            FETCH_ADD | COMPARE_SWAP => {
                let old = word(&to.memory);
                fetched = old.to_ne_bytes().to_vec();
                let new = match request.opcode {
                    FETCH_ADD => old.wrapping_add(request.compare_add),
                    _ if old == request.compare_add => request.swap,
                    _ => old,
                };
                to.memory[request.at..request.at + 8].copy_from_slice(&new.to_ne_bytes());
            }
            _ => {}
        }
        let mut rest = &fetched[..];
        for (at, len) in &request.places {
            from.memory[*at..at + len].copy_from_slice(&rest[..*len]);
            rest = &rest[*len..];
        }
        if let Some((id, at, room)) = receive {
            to.posted.pop_front();
            let is_send = request.opcode != WRITE_IMM;
            if is_send && len > room {
                to.received.push((id, status::LOC_LEN_ERR, completed::RECV, 0, 0));
                from.sent.push((request.id, status::REM_INV_REQ_ERR, opcode, 0, 0));
                from.waiting.pop_front();
                fail(from);
                fail(to);
                continue;
            }
            if is_send {
                to.memory[at..at + len].copy_from_slice(&request.data);
            }
            let received = if is_send { completed::RECV } else { completed::RECV_WITH_IMM };
            to.received.push((id, status::SUCCESS, received, len as u32, request.imm));
        }
        if request.is_signaled {
            let bytes = if fetched.is_empty() { len } else { fetched.len() };
            from.sent.push((request.id, status::SUCCESS, opcode, bytes as u32, 0));
        }
        from.waiting.pop_front();
    }
}

/// A request for both: the model's, and the library's.
fn make(random: &mut Random, id: u64, end: &End, memory: &[u8], peer: &End, may_fail: bool) -> (Request, Work) {
    let opcode = random.below(7) as c_int;
    let is_atomic = opcode >= COMPARE_SWAP;
    let fetches = opcode >= READ;
    let base = if fetches { FETCHED } else { SOURCE };
    let count = if is_atomic { 1 } else { random.below(4) };
    let mut places: Vec<(usize, usize)> = Vec::new();
    for index in 0..count {
        // Pieces of one request do not overlap: into which of them a byte goes last is not specified.
        let len = if is_atomic { 8 } else { random.below(60) };
        let at = base + index * SPAN / 4 + random.below(SPAN / 4 - 60);
        places.push((if is_atomic { at / 8 * 8 } else { at }, len));
    }
    let whole: usize = places.iter().map(|place| place.1).sum();
    let at = TARGET + random.below(SPAN - whole.max(8));
    let at = if is_atomic { at / 8 * 8 } else { at };
    let is_signaled = random.below(3) > 0;
    let is_inline = !fetches && random.below(3) == 0;
    let wrong = match random.below(20) {
        0 if may_fail && (opcode < SEND || fetches) && whole > 0 => Some(Wrong::RemoteKey),
        1 if may_fail && !is_inline && whole > 0 => Some(Wrong::LocalKey),
        _ => None,
    };
    let (compare_add, swap) = (random.below(2) as u64, random.next());
    let has_imm = matches!(opcode, WRITE_IMM | SEND_IMM);
    let imm = random.next() as u32;
    let mut pieces: Vec<_> = places.iter().map(|(at, len)| end.piece(*at, *len)).collect();
    if wrong == Some(Wrong::LocalKey)
        && let Some(piece) = pieces.iter_mut().find(|piece| piece.length > 0)
    {
        piece.lkey += 1;
    }
    let (start, key) = peer.remote(at);
    let work = Work {
        id,
        opcode,
        flags: if is_signaled { SIGNALED } else { 0 } | if is_inline { INLINE } else { 0 },
        pieces,
        remote: (start, key + u32::from(wrong == Some(Wrong::RemoteKey))),
        imm,
        compare_add,
        swap,
    };
    let data =
        if fetches { Vec::new() } else { places.iter().flat_map(|(at, len)| memory[*at..at + len].to_vec()).collect() };
    let places = if fetches { places } else { Vec::new() };
    let imm = if has_imm { imm } else { 0 };
    (Request { id, opcode, is_signaled, data, places, at, imm, compare_add, swap, wrong }, work)
}

/// Runs the program of a seed. Err: in what the library differs from the model.
fn program(seed: u64, ends: &[End; 2]) -> Result<(), String> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut sides = [Side::new(&mut random), Side::new(&mut random)];
    for (side, end) in sides.iter().zip(ends) {
        assert_eq!(end.to_state(state::RESET), 0);
        end.set(0, &side.memory);
    }
    ends[0].connect(ends[1].number());
    ends[1].connect(ends[0].number());
    // A failure ends both directions at a moment that only time decides, so programs with failures have one direction.
    let may_fail = random.below(2) == 0;
    let mut seen: [[Vec<Completion>; 2]; 2] = Default::default();
    let mut inbox = 0;
    let steps = 4 + random.below(24);
    for step in 0..steps as u64 {
        let from = if may_fail { 0 } else { random.below(2) };
        match random.below(5) {
            0 | 1 => {
                let id = 1000 + step;
                let (request, work) =
                    make(&mut random, id, &ends[from], &sides[from].memory, &ends[1 - from], may_fail);
                assert_eq!(ends[from].post(&work), 0);
                sides[from].waiting.push_back(request);
            }
            2 | 3 => {
                let room = if may_fail { 20 + random.below(170) } else { 190 };
                let at = INBOX + inbox;
                inbox = (inbox + 8) % (SPAN - 200);
                assert_eq!(ends[1 - from].receive(step, &[ends[1 - from].piece(at, room)]), 0);
                if sides[1 - from].failed {
                    sides[1 - from].received.push((step, status::WR_FLUSH_ERR, completed::RECV, 0, 0));
                } else {
                    sides[1 - from].posted.push_back((step, at, room));
                }
            }
            _ => poll(&ends[from], &mut seen[from]),
        }
        let [one, two] = &mut sides;
        run(one, two);
        run(two, one);
    }
    // What still waits for a receive gets one.
    for from in 0..2 {
        while !sides[from].waiting.is_empty() {
            assert_eq!(ends[1 - from].receive(9999, &[ends[1 - from].piece(INBOX, 190)]), 0);
            sides[1 - from].posted.push_back((9999, INBOX, 190));
            let [one, two] = &mut sides;
            run(one, two);
            run(two, one);
        }
    }
    settle(ends, &sides, &mut seen)?;
    for (index, (side, end)) in sides.iter().zip(ends).enumerate() {
        if let Some(at) = (0..MEMORY).find(|at| end.bytes(*at, 1)[0] != side.memory[*at]) {
            return Err(format!("memory of side {index} at {at}"));
        }
    }
    Ok(())
}

fn poll(end: &End, seen: &mut [Vec<Completion>; 2]) {
    for (cq, seen) in [end.send_cq, end.recv_cq].into_iter().zip(seen) {
        while let Some(wc) = end.poll_now(cq) {
            let imm = if wc.wc_flags & 2 != 0 { wc.imm_data } else { 0 };
            seen.push((wc.wr_id, wc.status, wc.opcode, wc.byte_len, imm));
        }
    }
}

/// Waits until every completion of the model has come, and an exchange behind them shows that none follows.
fn settle(ends: &[End; 2], sides: &[Side; 2], seen: &mut [[Vec<Completion>; 2]; 2]) -> Result<(), String> {
    let start = std::time::Instant::now();
    loop {
        let mut is_done = true;
        for index in 0..2 {
            poll(&ends[index], &mut seen[index]);
            let wanted = [&sides[index].sent, &sides[index].received];
            for (seen, wanted) in seen[index].iter().zip(wanted) {
                let common = seen.len().min(wanted.len());
                if seen[..common] != wanted[..common] || seen.len() > wanted.len() {
                    return Err(format!("completions of side {index}: {seen:?} instead of {wanted:?}"));
                }
                is_done &= seen.len() == wanted.len();
            }
        }
        if is_done {
            break;
        }
        if start.elapsed() > super::PATIENCE {
            let wanted = [&sides[0].sent, &sides[0].received, &sides[1].sent, &sides[1].received];
            return Err(format!("completions are missing: {seen:?} instead of {wanted:?}"));
        }
        std::thread::sleep(std::time::Duration::from_micros(20));
    }
    let has_failed = sides.iter().any(|side| side.failed);
    for (from, end) in ends.iter().enumerate().filter(|_| !has_failed) {
        // Behind this one everything unsignaled is done, too.
        assert_eq!(end.post(&Work { id: 7, ..end.request(WRITE, 0, 0, (0, 0)) }), 0);
        let last = end.sent();
        if (last.wr_id, last.status) != (7, 0) {
            return Err(format!("side {from} completes {last:?} behind its last request"));
        }
    }
    Ok(())
}

fn programs(count: u64) {
    let _alone = alone();
    let ends = [End::new(), End::new()];
    for seed in 1..=count {
        if let Err(difference) = program(seed, &ends) {
            panic!("program {seed}: {difference}");
        }
    }
}

#[test]
fn random_programs_do_what_a_model_says() {
    programs(500);
}

#[test]
#[ignore = "10,000 programs take about half a minute"]
fn many_random_programs_do_what_a_model_says() {
    programs(10_000);
}
