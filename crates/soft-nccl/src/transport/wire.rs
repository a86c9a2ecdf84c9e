//! Frames as bytes: the lengths of head and body, the head in postcard, then the raw body. A frame that does not decode is
//! an error, and no length makes its reader allocate memory before the bytes have arrived.
use super::control::Control;
use super::{Address, Name};
use crate::op::Signature;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Bytes in front of a head: its length (4) and that of the body (8), little-endian.
const PREFIX: usize = 12;
/// The beginning of a connection: a name, and the version of everything in this file and of [`Control`].
const MAGIC: [u8; 8] = *b"csoft\x00\x06\n";
/// The first room for a head or a body, however long it claims to be.
const FIRST_ROOM: usize = 1 << 20;

/// The error in a frame.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum WireError {
    #[error("a head of {0} bytes")]
    LongHead(u32),
    #[error("a body of {0} bytes")]
    LongBody(u64),
    #[error("not a head: {0}")]
    Head(#[from] postcard::Error),
    #[error("bytes after the head's end, or a body that its head does not announce")]
    Surplus,
    #[error("a communicator whose ranks do not live in its processes")]
    Table,
}

/// Identifies the channel of a frame in terms that mean the same in all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChannelName {
    /// The communicator's name among processes.
    pub uid: u128,
    pub sequence: u64,
    pub source: usize,
    pub destination: usize,
    pub lane: u8,
    pub signature: Signature,
}

/// The beginning of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hello {
    magic: [u8; 8],
    /// The cookie of the process that is called.
    cookie: [u8; 16],
    name: [u8; 16],
    own_cookie: [u8; 16],
    own_network: Option<SocketAddr>,
}

impl Hello {
    pub(crate) fn new(cookie: u128, own: Address) -> Self {
        let [cookie, name, own_cookie] = [cookie, own.name.0, own.cookie].map(u128::to_le_bytes);
        Self { magic: MAGIC, cookie, name, own_cookie, own_network: own.network }
    }

    /// The calling process, if it speaks this version and shows the right cookie.
    pub(crate) fn caller(&self, cookie: u128) -> Option<Address> {
        let [shown, name, own_cookie] = [self.cookie, self.name, self.own_cookie].map(u128::from_le_bytes);
        let known = self.magic == MAGIC && shown == cookie;
        known.then_some(Address { name: Name(name), cookie: own_cookie, network: self.own_network })
    }
}

/// A frame without the data of a chunk.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Head {
    Hello(Hello),
    /// A chunk, which is the body.
    Data {
        channel: ChannelName,
        depth: u64,
        eager: bool,
    },
    /// A piece of a put, which is the body: communicator, ranks, window, and bytes from its start.
    Put {
        uid: u128,
        source: usize,
        destination: usize,
        window: u64,
        offset: usize,
    },
    /// One chunk of this channel was taken.
    Credit(ChannelName),
    /// Everything that is not traffic of operations.
    Control(Box<Control>),
}

impl Head {
    /// Everything of the frame but its body.
    pub(crate) fn encode(&self, body: usize) -> Result<Vec<u8>, WireError> {
        let mut bytes = postcard::to_extend(self, vec![0; PREFIX])?;
        let head = u32::try_from(bytes.len() - PREFIX).map_err(|_| WireError::LongHead(u32::MAX))?;
        bytes[..4].copy_from_slice(&head.to_le_bytes());
        bytes[4..PREFIX].copy_from_slice(&(body as u64).to_le_bytes());
        Ok(bytes)
    }

    fn decode(bytes: &[u8], body: &[u8]) -> Result<Self, WireError> {
        let (head, rest) = postcard::take_from_bytes::<Self>(bytes)?;
        if !rest.is_empty() || (!body.is_empty() && !matches!(head, Self::Data { .. } | Self::Put { .. })) {
            return Err(WireError::Surplus);
        }
        match &head {
            Self::Control(control) => match &**control {
                Control::Table(table) if !table.is_consistent() => Err(WireError::Table),
                _ => Ok(head),
            },
            _ => Ok(head),
        }
    }
}

/// The longest head and body that a reader accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub head: usize,
    pub body: usize,
}

impl Limits {
    /// The limits for a connection that has not said hello.
    pub(crate) const HELLO: Self = Self { head: 96, body: 0 };

    /// The limits for a member whose chunks have at most this many bytes.
    pub(crate) fn member(chunk: usize) -> Self {
        Self { head: 16 << 20, body: chunk }
    }
}

/// Assembles the frames of a connection from the bytes that arrive.
#[derive(Default)]
pub(crate) struct Assembler {
    prefix: Vec<u8>,
    /// The lengths of head and body, once the prefix is complete.
    lengths: Option<(usize, usize)>,
    head: Vec<u8>,
    body: Vec<u8>,
}

impl Assembler {
    /// Takes bytes up to the end of a frame; `None` if they end before.
    pub(crate) fn take(&mut self, bytes: &mut &[u8], limits: Limits) -> Result<Option<(Head, Vec<u8>)>, WireError> {
        let (head, body) = match self.lengths {
            Some(lengths) => lengths,
            None => {
                fill(&mut self.prefix, PREFIX, bytes);
                let Some((head, body)) = self.prefix.split_first_chunk::<4>() else { return Ok(None) };
                let Some(body) = body.first_chunk::<8>() else { return Ok(None) };
                let (head, body) = (u32::from_le_bytes(*head), u64::from_le_bytes(*body));
                let within = |len: u64, limit| usize::try_from(len).ok().filter(|len| *len <= limit);
                let lengths = (
                    within(head.into(), limits.head).ok_or(WireError::LongHead(head))?,
                    within(body, limits.body).ok_or(WireError::LongBody(body))?,
                );
                *self.lengths.insert(lengths)
            }
        };
        fill(&mut self.head, head, bytes);
        fill(&mut self.body, body, bytes);
        if self.head.len() < head || self.body.len() < body {
            return Ok(None);
        }
        self.lengths = None;
        self.prefix.clear();
        let body = std::mem::take(&mut self.body);
        let decoded = Head::decode(&self.head, &body);
        self.head.clear();
        Ok(Some((decoded?, body)))
    }
}

/// Moves bytes to `part` until it has `len` of them.
fn fill(part: &mut Vec<u8>, len: usize, bytes: &mut &[u8]) {
    if part.is_empty() {
        part.reserve(len.min(FIRST_ROOM));
    }
    let (first, rest) = bytes.split_at(bytes.len().min(len - part.len()));
    part.extend_from_slice(first);
    *bytes = rest;
}

#[cfg(test)]
mod tests {
    use super::super::MOST_PROCESSES;
    use super::super::control::{self, Table};
    use super::*;
    use crate::algo::{Algorithm, Protocol};
    use crate::arith::Type;
    use crate::op::{Kind, Reduction};

    fn channel() -> ChannelName {
        let signature = Signature {
            kind: Kind::Reduce,
            algorithm: Algorithm::SingleTree,
            protocol: Protocol::Ll,
            count: 77,
            ty: Type::E5m2,
            reduction: Some(Reduction::PreMulSum),
            root: 3,
        };
        ChannelName { uid: 1 << 100, sequence: 9, source: 4, destination: 5, lane: 2, signature }
    }

    fn own() -> Address {
        Address { name: Name(1), cookie: 2, network: None }
    }

    /// Every kind of frame, with its body.
    fn frames() -> Vec<(Head, Vec<u8>)> {
        let mut frames = vec![
            (Head::Hello(Hello::new(5, own())), Vec::new()),
            (Head::Data { channel: channel(), depth: 12, eager: true }, vec![7; 40]),
            (Head::Data { channel: channel(), depth: 0, eager: false }, Vec::new()),
            (Head::Credit(channel()), Vec::new()),
            (Head::Put { uid: 1 << 99, source: 3, destination: 1, window: 7, offset: 1 << 40 }, vec![9; 30]),
        ];
        frames.extend(
            control::tests::controls().into_iter().map(|control| (Head::Control(Box::new(control)), Vec::new())),
        );
        frames
    }

    fn bytes((head, body): &(Head, Vec<u8>)) -> Vec<u8> {
        [head.encode(body.len()).unwrap(), body.clone()].concat()
    }

    /// The only frame of these bytes.
    fn decode(mut bytes: &[u8], limits: Limits) -> Result<Option<(Head, Vec<u8>)>, WireError> {
        Assembler::default().take(&mut bytes, limits)
    }

    #[test]
    fn frames_come_back_however_their_bytes_are_cut() {
        let sent = frames();
        let all: Vec<u8> = sent.iter().flat_map(bytes).collect();
        for part in [1, 2, 7, 64, all.len()] {
            let (mut assembler, mut came) = (Assembler::default(), Vec::new());
            for mut bytes in all.chunks(part) {
                while let Some(frame) = assembler.take(&mut bytes, Limits::member(40)).unwrap() {
                    came.push(frame);
                }
                assert!(bytes.is_empty());
            }
            assert_eq!(came, sent, "in parts of {part}");
        }
    }

    #[test]
    fn lengths_are_bounded_before_any_byte_has_come() {
        let chunk = bytes(&frames()[1]);
        assert_eq!(decode(&chunk, Limits::member(39)), Err(WireError::LongBody(40)));
        assert!(decode(&chunk, Limits { head: 8, body: 40 }).is_err_and(|e| matches!(e, WireError::LongHead(_))));
        for (head, body) in [(u32::MAX, 0), (0, u64::MAX), (1 << 25, 0), (0, 41)] {
            let prefix = [&u32::to_le_bytes(head)[..], &u64::to_le_bytes(body)].concat();
            assert!(decode(&prefix, Limits::member(40)).is_err(), "{head} {body}");
        }
        // A permitted length reserves room only as bytes arrive.
        let mut assembler = Assembler::default();
        let prefix = [&u32::to_le_bytes(1)[..], &u64::to_le_bytes(1 << 40)].concat();
        assert_eq!(assembler.take(&mut &prefix[..], Limits::member(1 << 40)), Ok(None));
        assert!(assembler.body.capacity() <= FIRST_ROOM);
    }

    #[test]
    fn damaged_heads_are_errors() {
        for (head, body) in frames() {
            let whole = head.encode(body.len()).unwrap().split_off(PREFIX);
            assert_eq!(Head::decode(&whole, &body).as_ref(), Ok(&head));
            for len in 0..whole.len() {
                assert!(Head::decode(&whole[..len], &body).is_err(), "{head:?} cut at {len}");
            }
            assert_eq!(Head::decode(&[&whole[..], &[0]].concat(), &body), Err(WireError::Surplus));
            // Any other byte decodes or is an error, and never panics or allocates for a list that did not arrive.
            for at in 0..whole.len() {
                for byte in [0, 0x7f, 0xff] {
                    let mut damaged = whole.clone();
                    damaged[at] = byte;
                    let _ = Head::decode(&damaged, &body);
                }
            }
        }
        let credit = Head::Credit(channel()).encode(0).unwrap().split_off(PREFIX);
        assert_eq!(Head::decode(&credit, &[1]), Err(WireError::Surplus));
    }

    #[test]
    fn a_table_names_only_its_own_processes_and_ranks() {
        let table = |processes, ranks: &[usize], yours: &[(usize, u64)]| {
            let processes = vec![own(); processes];
            let ranks = ranks.iter().map(|process| (*process, 5)).collect();
            let table = Table { forming: 1, uid: 2, processes, ranks, yours: yours.to_vec() };
            let bytes = Head::Control(Box::new(Control::Table(table))).encode(0).unwrap().split_off(PREFIX);
            Head::decode(&bytes, &[]).map(drop)
        };
        assert_eq!(table(1, &[0], &[(0, 6)]), Ok(()));
        for (processes, ranks, yours) in [(0, &[][..], 0), (MOST_PROCESSES + 1, &[0], 0), (1, &[1], 0), (1, &[0], 1)] {
            assert_eq!(table(processes, ranks, &[(yours, 6)]), Err(WireError::Table), "{processes} {ranks:?} {yours}");
        }
    }

    #[test]
    fn only_this_version_with_the_right_cookie_is_greeted() {
        let far = Address { network: Some(([u16::MAX; 8], u16::MAX).into()), ..own() };
        assert!(Head::Hello(Hello::new(u128::MAX, far)).encode(0).unwrap().len() - PREFIX <= Limits::HELLO.head);
        let hello = Hello::new(5, own());
        // tests/processes/failures.rs writes these bytes by hand, and would else test only that another version is refused.
        let bytes = [&[0][..], b"csoft\x00\x06\n", &[5], &[0; 15], &[1], &[0; 15], &[2], &[0; 15], &[0]].concat();
        assert_eq!(Head::Hello(hello).encode(0).unwrap().split_off(PREFIX), bytes);
        assert!(Head::Hello(hello).encode(0).unwrap().len() - PREFIX <= Limits::HELLO.head);
        assert_eq!(hello.caller(5), Some(own()));
        assert_eq!(hello.caller(6), None);
        let mut older = hello;
        older.magic[6] = 1;
        assert_eq!(older.caller(5), None);
    }
}
