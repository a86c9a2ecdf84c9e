//! Two processes: this test's program is started again, as another node.

use super::end::*;
use super::{PATIENCE, RETRY, alone, set_up};
use crate::faults::{Fault, Kind, begin, end};
use crate::layout::{completed, event, state, status};
use crate::settings::settings;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A child with one end, which does what it is told.
struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    fn start(variables: &[(&str, &str)]) -> Self {
        set_up();
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "tests::processes::child", "--ignored", "--nocapture", "--test-threads=1"]);
        command.env("GPULESS_VERBS_TEST_FABRIC", &settings().fabric).env("GPULESS_VERBS_TEST_NODE", "b");
        command.envs(variables.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    /// The numbers that the child answers a command with.
    fn ask(&mut self, words: &str) -> Vec<u64> {
        writeln!(self.input, "{words}").unwrap();
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the child has ended at {words}");
            // The test harness writes lines of its own, and the name of the test without an end.
            if let Some((_, answer)) = line.split_once("answer:") {
                return answer.split_whitespace().map(|number| number.parse().unwrap()).collect();
            }
        }
    }

    fn one(&mut self, words: &str) -> u64 {
        let answer = self.ask(words);
        assert_eq!(answer.len(), 1);
        answer[0]
    }

    /// Connects this process's end with the child's; the address and the key of its memory.
    fn connect(&mut self, end: &End) -> (u64, u32) {
        let remote = self.ask("memory");
        let number = self.one("number") as u32;
        assert_eq!(self.one(&format!("connect {}", end.number())), 0);
        end.connect(number);
        (remote[0], remote[1] as u32)
    }

    fn stop(&self) {
        let id = self.child.id().cast_signed();
        // SAFETY: a signal for the test's own child, which has stopped when the second call returns.
        unsafe {
            libc::kill(id, libc::SIGSTOP);
            libc::waitpid(id, std::ptr::null_mut(), libc::WUNTRACED);
        }
    }

    fn go_on(&self) {
        // SAFETY: a signal for the test's own child.
        unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGCONT) };
    }

    fn bytes(&mut self, at: usize, len: usize) -> Vec<u8> {
        self.ask(&format!("bytes {at} {len}")).into_iter().map(|byte| byte as u8).collect()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[test]
#[ignore = "this is the other process of tests"]
fn child() {
    if env::var_os("GPULESS_VERBS_TEST_FABRIC").is_none() {
        return;
    }
    let end = End::with(Options { bytes: 1 << 20, ..Options::default() });
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<u64>().unwrap();
        let place = |index: usize| number(index) as usize;
        let answer = match words[0] {
            "memory" => vec![end.memory as u64, end.key().into()],
            "number" => vec![end.number().into()],
            "connect" => {
                end.connect(number(1) as u32);
                vec![0]
            }
            "reset" => vec![end.to_state(state::RESET) as u64],
            "state" => vec![end.state() as u64],
            "receive" => vec![end.receive(number(1), &[end.piece(place(2), place(3))]) as u64],
            "received" => {
                let wc = end.received();
                vec![
                    wc.wr_id,
                    wc.status as u64,
                    wc.opcode as u64,
                    wc.byte_len.into(),
                    wc.imm_data.into(),
                    wc.src_qp.into(),
                ]
            }
            "event" => vec![end.event().event_type as u64],
            "bytes" => end.bytes(place(1), place(2)).into_iter().map(u64::from).collect(),
            "write" => {
                let work = end.request(WRITE, place(1), place(2), (number(3), number(4) as u32));
                assert_eq!(end.post(&work), 0);
                vec![end.sent().status as u64]
            }
            "torn" => vec![u64::from(sees_torn(&end, number(1)))],
            other => panic!("{other}"),
        };
        let answer: Vec<String> = answer.iter().map(u64::to_string).collect();
        println!("answer:{}", answer.join(" "));
    }
}

/// Looks at a line of equal words until it has the last number: whether its last word was ever newer than another.
fn sees_torn(end: &End, last: u64) -> bool {
    // SAFETY: within the memory, and aligned.
    let word = |index: usize| unsafe { end.memory.cast::<u64>().add(index).read_volatile() };
    let start = Instant::now();
    let mut torn = false;
    while start.elapsed() < PATIENCE {
        let newest = word(15);
        torn |= (0..15).any(|index| word(index) < newest);
        if newest == last {
            break;
        }
    }
    torn
}

#[test]
fn all_operations_between_processes() {
    let _alone = alone();
    let (a, mut b) = (End::new(), Peer::start(&[]));
    let (start, key) = b.connect(&a);
    let number = b.one("number");
    assert_ne!(number >> 14, u64::from(a.number() >> 14));
    for (id, at) in [(1, 0), (2, 100), (3, 200)] {
        assert_eq!(b.one(&format!("receive {id} {at} 100")), 0);
    }
    a.set(0, b"from another process");
    let works = [
        Work { id: 1, flags: 0, ..a.request(WRITE, 0, 20, (start + 1000, key)) },
        Work { id: 2, imm: 22, ..a.request(WRITE_IMM, 0, 4, (start + 1020, key)) },
        Work { id: 3, ..a.request(SEND, 5, 7, (0, 0)) },
        Work { id: 4, imm: 44, flags: 10, ..a.request(SEND_IMM, 13, 7, (0, 0)) },
        Work { id: 5, ..a.request(READ, 64, 24, (start + 1000, key)) },
        Work { id: 6, compare_add: 3, ..a.request(FETCH_ADD, 128, 8, (start + 2000, key)) },
        Work { id: 7, compare_add: 3, swap: 9, ..a.request(COMPARE_SWAP, 136, 8, (start + 2000, key)) },
    ];
    for work in &works {
        assert_eq!(a.post(work), 0);
    }
    for wanted in 2..=7 {
        let wc = a.sent();
        assert_eq!((wc.wr_id, wc.status), (wanted, status::SUCCESS));
    }
    let source = u64::from(a.number());
    let (recv, with_imm) = (completed::RECV as u64, completed::RECV_WITH_IMM as u64);
    assert_eq!(b.ask("received"), [1, 0, with_imm, 4, 22, source]);
    assert_eq!(b.ask("received"), [2, 0, recv, 7, 0, source]);
    assert_eq!(b.ask("received"), [3, 0, recv, 7, 44, source]);
    assert_eq!([b.bytes(100, 7), b.bytes(200, 7)].concat(), b"anotherprocess");
    assert_eq!(a.bytes(64, 24), b"from another processfrom");
    assert_eq!(
        (a.bytes(128, 16), b.bytes(2000, 8)),
        ([[0; 8], 3u64.to_ne_bytes()].concat(), 9u64.to_ne_bytes().to_vec())
    );
    assert_eq!(b.one(&format!("write 1000 20 {} {}", a.memory as u64 + 500, a.key())), 0);
    assert_eq!(a.bytes(500, 20), b"from another process");
    a.assert_quiet();
}

#[test]
fn errors_reach_the_other_process() {
    let _alone = alone();
    let (a, mut b) = (End::new(), Peer::start(&[]));
    let (start, key) = b.connect(&a);
    assert_eq!(b.one("receive 7 0 8"), 0);
    for (id, remote) in [(1, (start, key)), (2, (start, key + 1)), (3, (start, key))] {
        assert_eq!(a.post(&Work { id, ..a.request(WRITE, 0, 8, remote) }), 0);
    }
    let sent = [a.sent(), a.sent(), a.sent()].map(|wc| (wc.wr_id, wc.status));
    assert_eq!(sent, [(1, 0), (2, status::REM_ACCESS_ERR), (3, status::WR_FLUSH_ERR)]);
    assert_eq!((b.one("event"), b.one("state")), (event::QP_ACCESS_ERR as u64, state::ERR as u64));
    assert_eq!(b.ask("received")[..2], [7, status::WR_FLUSH_ERR as u64]);
}

#[test]
fn lives_between_processes_do_not_mix() {
    let _alone = alone();
    let (a, mut b) = (End::new(), Peer::start(&[]));
    for life in 1..=100u64 {
        let (start, key) = b.connect(&a);
        a.set(0, &life.to_ne_bytes());
        for _ in 0..10 {
            assert_eq!(a.post(&a.request(WRITE_IMM, 0, 8, (start, key))), 0);
        }
        if life % 2 == 0 {
            assert_eq!(a.to_state(state::RESET), 0);
        }
        assert_eq!((b.one("reset"), a.to_state(state::RESET)), (0, 0));
        let (start, key) = b.connect(&a);
        assert_eq!(b.one(&format!("receive {life} 0 0")), 0);
        a.set(0, &(1000 + life).to_ne_bytes());
        assert_eq!(a.post(&Work { id: life, ..a.request(WRITE_IMM, 0, 8, (start + 64, key)) }), 0);
        assert_eq!((b.ask("received")[..2].to_vec(), a.sent().wr_id), (vec![life, 0], life));
        assert_eq!(b.bytes(64, 8), (1000 + life).to_ne_bytes());
        assert_eq!((a.to_state(state::RESET), b.one("reset")), (0, 0));
    }
}

#[test]
fn lines_are_whole_between_processes() {
    let _alone = alone();
    const TIMES: u64 = 100_000;
    let (a, mut b) = (End::with(Options { depth: 4096, completions: 8192, ..Options::default() }), Peer::start(&[]));
    let (start, key) = b.connect(&a);
    let watcher = std::thread::spawn(move || b.one(&format!("torn {}", u64::MAX)));
    let begin = Instant::now();
    // As often as a busy machine manages in a while. Inline, so that each has its own contents; one of 64 is waited for.
    let times = (1..=TIMES).take_while(|_| begin.elapsed() < Duration::from_secs(2));
    for time in times.chain([u64::MAX]) {
        a.set(0, &time.to_ne_bytes().repeat(16));
        let flags = if time % 64 == 0 || time == u64::MAX { SIGNALED } else { 0 };
        assert_eq!(a.post(&Work { flags: flags | INLINE, ..a.request(WRITE, 0, 128, (start, key)) }), 0);
        if flags != 0 {
            assert_eq!(a.sent().status, 0);
        }
    }
    assert_eq!(watcher.join().unwrap(), 0);
}

#[test]
fn lines_may_be_shuffled_but_none_is_missing() {
    let _alone = alone();
    const LEN: usize = 100_000;
    let (a, mut b) = (
        End::with(Options { bytes: 1 << 20, ..Options::default() }),
        Peer::start(&[("GPULESS_VERBS_TEST_LINE", "128")]),
    );
    let (start, key) = b.connect(&a);
    let content: Vec<u8> = (0..LEN).map(|at| (at % 251) as u8).collect();
    a.set(40, &content);
    let begin = Instant::now();
    assert_eq!(a.post(&a.request(WRITE, 40, LEN, (start + 24, key))), 0);
    assert_eq!(a.sent().status, 0);
    // Slowly: 780 lines, with a pause after every 64.
    assert!(begin.elapsed() > Duration::from_millis(1));
    assert!(b.bytes(24, LEN) == content);
}

#[test]
fn a_process_that_ends_does_not_answer() {
    let _alone = alone();
    let (a, mut b) = (End::new(), Peer::start(&[]));
    let (start, key) = b.connect(&a);
    // Without a receive it waits for one, for ever.
    assert_eq!(a.post(&Work { id: 1, ..a.request(WRITE_IMM, 0, 8, (start, key)) }), 0);
    a.assert_quiet();
    let begin = Instant::now();
    b.child.kill().unwrap();
    assert_eq!(a.sent().status, status::RETRY_EXC_ERR);
    assert!(begin.elapsed() >= RETRY);
    // Its number is free again, and its queue pairs are not those of its successor.
    b.child.wait().unwrap();
    let mut c = Peer::start(&[]);
    let number = c.one("number") as u32;
    let d = End::new();
    c.connect(&d);
    assert_eq!(a.to_state(state::RESET), 0);
    a.connect(number);
    assert_eq!(a.post(&a.request(WRITE, 0, 8, (start, key))), 0);
    assert_eq!(a.sent().status, status::RETRY_EXC_ERR);
}

#[test]
fn a_stopped_process_answers_when_it_goes_on() {
    let _alone = alone();
    let (a, mut b) = (End::new(), Peer::start(&[]));
    let (start, key) = b.connect(&a);
    b.stop();
    assert_eq!(a.post(&a.request(WRITE, 0, 8, (start, key))), 0);
    std::thread::sleep(2 * RETRY);
    a.assert_quiet();
    b.go_on();
    assert_eq!(a.sent().status, status::SUCCESS);
}

#[test]
fn an_answer_to_an_earlier_life_answers_nothing() {
    let _alone = alone();
    let (a, mut b) = (End::new(), Peer::start(&[]));
    let (start, key) = b.connect(&a);
    let number = b.one("number") as u32;
    b.stop();
    assert_eq!(a.post(&a.request(WRITE, 0, 8, (start, key))), 0);
    assert_eq!(a.to_state(state::RESET), 0);
    a.connect(number);
    assert_eq!(a.post(&a.request(SEND, 0, 8, (0, 0))), 0);
    b.go_on();
    // Both are the first of their life. The peer carries out the first, and knows nothing of a second life.
    assert_eq!(a.sent().status, status::RETRY_EXC_ERR);
}

#[test]
fn a_process_can_be_separated_from_all_others() {
    let _alone = alone();
    let (a, mut b) = (End::new(), Peer::start(&[]));
    let (start, key) = b.connect(&a);
    let (c, d) = End::pair();
    begin(Some(Fault { kind: Kind::Unreachable, nic: None, at: 2, seed: 0 }), |_| ());
    assert_eq!((a.post(&a.request(WRITE, 0, 8, (start, key))), a.sent().status), (0, 0));
    assert_eq!(a.post(&a.request(WRITE, 0, 8, (start, key))), 0);
    // The other side is not answered either, while this process still reaches itself.
    let theirs = b.one(&format!("write 0 8 {} {}", a.memory as u64, a.key()));
    assert_eq!((a.sent().status, theirs), (status::RETRY_EXC_ERR, status::RETRY_EXC_ERR as u64));
    assert_eq!((c.post(&c.request(WRITE, 0, 8, d.remote(0))), c.sent().status), (0, 0));
    end();
}

#[test]
fn a_forked_child_does_not_keep_its_parent_in_the_network() {
    let _alone = alone();
    let (a, mut b) = (End::new(), Peer::start(&[]));
    let (start, key) = b.connect(&a);
    assert_eq!((a.post(&a.request(WRITE, 0, 8, (start, key))), a.sent().status), (0, 0));
    // SAFETY: the child calls only what may be called after a fork of several threads.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above. It ends when the test's program does, at the latest.
        unsafe {
            libc::sleep(5);
            libc::_exit(0)
        };
    }
    // All sockets of the tests' program are the library's, except those that it may have been started with.
    let sockets = |process: i32| {
        let files = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().map(|file| file.unwrap().path());
        let own = files.filter(|path| path.file_name().unwrap().to_str().unwrap().parse::<i32>().unwrap() > 2);
        let links = own.filter_map(|path| std::fs::read_link(path).ok());
        links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
    };
    assert!(sockets(std::process::id().cast_signed()) >= 2);
    let begin = Instant::now();
    while sockets(child) > 0 && begin.elapsed() < PATIENCE / 10 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(sockets(child), 0);
    // SAFETY: the test's own child.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
}
