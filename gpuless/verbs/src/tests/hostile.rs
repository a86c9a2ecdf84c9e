//! Whoever knows the network's name can connect, and say anything.

use super::alone;
use super::end::*;
use crate::fabric::frame::{HEADER, Header, Kind};
use crate::fabric::{self, PAIR_BITS};
use crate::memory::Random;
use crate::qp::network;
use crate::settings::settings;
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

fn connect() -> UnixStream {
    let name = format!("gpuless-verbs/{}/{}", settings().fabric, network::join().unwrap().process);
    let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

fn header(kind: Kind, to: u32, from: u32) -> Header {
    Header {
        kind,
        flags: 0,
        status: 0,
        to,
        from,
        life: 0,
        rkey: 0,
        number: 1,
        sent_at: fabric::clock(),
        address: 0,
        compare_add: 0,
        swap: 0,
        len: 0,
        imm: 0,
    }
}

/// The library still works.
fn assert_works() {
    let (a, b) = End::pair();
    a.set(0, b"works");
    assert_eq!(a.post(&a.request(WRITE, 0, 5, b.remote(0))), 0);
    assert_eq!((a.sent().status, b.bytes(0, 5)), (0, b"works".to_vec()));
}

#[test]
fn bytes_that_are_no_header_end_the_connection() {
    let _alone = alone();
    let mut random = Random(11);
    for len in [1, HEADER - 1, HEADER, HEADER + 1, 5000, 1 << 20] {
        let mut stream = connect();
        let bytes: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        // The other side may close before it has everything.
        _ = stream.write_all(&bytes);
        if len >= HEADER {
            let mut rest = Vec::new();
            let ended = stream.read_to_end(&mut rest);
            assert!(
                rest.is_empty()
                    && ended.map_or_else(|error| error.kind() == std::io::ErrorKind::ConnectionReset, |_| true)
            );
        }
    }
    assert_works();
}

#[test]
fn headers_with_any_contents_change_nothing() {
    let _alone = alone();
    let (a, b) = End::pair();
    let (before_a, before_b) = (a.bytes(0, a.len), b.bytes(0, b.len));
    let mut random = Random(12);
    for _ in 0..300 {
        let mut stream = connect();
        for _ in 0..20 {
            let kind = [
                Kind::Write,
                Kind::WriteWithImm,
                Kind::Send,
                Kind::Read,
                Kind::CompareSwap,
                Kind::FetchAdd,
                Kind::Done,
                Kind::Failed,
                Kind::GoOn,
            ][random.below(9)];
            let to = [a.number(), b.number(), random.next() as u32][random.below(3)];
            let frame = Header {
                flags: random.next() as u8,
                number: random.next() % 4,
                sent_at: random.next(),
                rkey: random.next() as u32,
                address: random.next(),
                len: random.next() as u32 % 1000,
                ..header(kind, to, random.next() as u32)
            };
            let mut bytes = frame.write().to_vec();
            bytes.resize(HEADER + random.below(1000), 7);
            if stream.write_all(&bytes).is_err() {
                break;
            }
        }
    }
    std::thread::sleep(Duration::from_millis(50));
    assert!(a.bytes(0, a.len) == before_a && b.bytes(0, b.len) == before_b);
    assert_works();
}

#[test]
fn a_length_alone_allocates_nothing() {
    let _alone = alone();
    let (a, b) = End::pair();
    let pages = || {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').next().unwrap().parse::<usize>().unwrap()
    };
    let before = pages();
    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut stream = connect();
        let long = Header { len: 1 << 30, ..header(Kind::Write, b.number(), a.number()) };
        stream.write_all(&long.write()).unwrap();
        stream.write_all(&[0; 100]).unwrap();
        streams.push(stream);
    }
    let mut too_long = connect();
    let frame = Header { len: (1 << 30) + 1, ..header(Kind::Write, b.number(), a.number()) };
    too_long.write_all(&frame.write()).unwrap();
    assert_eq!(too_long.read(&mut [0]).unwrap_or(0), 0);
    assert!(pages() < before + (256 << 20) / 4096);
    assert_works();
}

#[test]
fn requests_for_nobody_are_refused() {
    let _alone = alone();
    let mut stream = connect();
    let process = network::join().unwrap().process;
    stream.write_all(&header(Kind::Read, process << PAIR_BITS | 1, 5).write()).unwrap();
    let mut bytes = [0; HEADER];
    stream.read_exact(&mut bytes).unwrap();
    let answer = Header::read(&bytes).unwrap();
    assert_eq!((answer.kind, answer.to, answer.number), (Kind::Refused, 5, 1));
    // An answer where requests belong ends the connection.
    stream.write_all(&header(Kind::Done, 1, 1).write()).unwrap();
    assert_eq!(stream.read(&mut bytes).unwrap_or(0), 0);
}

#[test]
fn headers_are_read_as_they_were_written() {
    let mut random = Random(13);
    for _ in 0..1000 {
        let frame = Header {
            address: random.next(),
            swap: random.next(),
            len: random.next() as u32 >> 2,
            ..header(Kind::Send, 3, 4)
        };
        assert_eq!(Header::read(&frame.write()), Ok(frame));
    }
}
