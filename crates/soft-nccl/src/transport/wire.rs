//! Frames as bytes. A frame is a head of fixed length and a body; what does not decode is refused, never guessed.
use super::id::Id;
use super::{Address, MOST_PROCESSES, Name};
use crate::algo::{Algorithm, Protocol};
use crate::arith::{Combine, Type};
use crate::engine::Connection;
use crate::failure::Failure;
use crate::op::{Kind, Reduction, Signature};
use nccl_sys::{ncclDataType_t, ncclResult_t};

/// Bytes of a head, and of the greeting that opens a connection.
pub(crate) const HEAD: usize = 72;
/// The longest body of a control frame.
const MOST_CONTROL: usize = 16 << 20;
const GREETING: &[u8; 8] = b"csoft\x00\x01\n";

const DATA: u8 = 1;
const CREDIT: u8 = 2;
const CONTROL: u8 = 3;

/// Which channel a frame is about, in words that mean the same in all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// The communicator.
    pub uid: u128,
    pub sequence: u64,
    pub source: usize,
    pub destination: usize,
    pub lane: u8,
    pub signature: Signature,
}

/// What a process tells another.
#[derive(Debug)]
pub(crate) enum Frame {
    /// A chunk.
    Data { way: Way, depth: u64, eager: bool, data: Vec<u8> },
    /// One chunk of this channel was taken.
    Credit(Way),
    /// All that is not traffic of operations.
    Control(Control),
}

/// A rank's wish to meet the others.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wish {
    /// `ncclCommInitRank`.
    Init { id: Id, rank: usize, n: usize, device: i32, buffer: u64 },
    /// `ncclCommSplit`: the communicator, which split of it, and as there.
    Split { uid: u128, number: u64, rank: usize, color: Option<i32>, key: i32, device: i32 },
}

/// A communicator to be: in which process each rank lives.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Table {
    pub forming: u64,
    pub uid: u128,
    pub processes: Vec<Address>,
    /// Process and device of each rank.
    pub ranks: Vec<(usize, i32)>,
    /// Ranks of the process that gets this, each with its token.
    pub yours: Vec<(usize, u64)>,
}

/// Meeting and parting. A token names a waiting rank in the process that joined.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Control {
    Join {
        token: u64,
        wish: Wish,
    },
    /// The split gives this rank no communicator.
    Nothing {
        token: u64,
    },
    Refuse {
        token: u64,
        failure: Failure,
    },
    Table(Table),
    /// The process has made its part of the communicator, or could not.
    Ready {
        forming: u64,
        failure: Option<Failure>,
    },
    /// All have.
    Go {
        uid: u128,
    },
    Fail {
        uid: u128,
        failure: Failure,
    },
    /// A rank of the process has come to a connection.
    Connect {
        uid: u128,
        connection: Connection,
        rank: usize,
    },
    /// The process has no rank in the communicator any more; `failed` if the others cannot do without.
    Leave {
        uid: u128,
        failed: bool,
    },
}

/// The greeting of a connection to the holder of `cookie`.
pub(crate) fn hello(cookie: u128, own: Address) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..8].copy_from_slice(GREETING);
    head[8..24].copy_from_slice(&cookie.to_le_bytes());
    head[24..40].copy_from_slice(&own.name.0.to_le_bytes());
    head[40..56].copy_from_slice(&own.cookie.to_le_bytes());
    head
}

/// Who calls, if the greeting is one and shows the right cookie.
pub(crate) fn greeting(head: &[u8; HEAD], cookie: u128) -> Option<Address> {
    let mut reader = Reader(head);
    let begins = reader.take::<8>()? == *GREETING && reader.u128()? == cookie;
    begins.then_some(Address { name: Name(reader.u128()?), cookie: reader.u128()? })
}

/// A decoded head; the body is still to come.
pub(crate) enum Head {
    Data { way: Way, depth: u64, eager: bool, len: usize },
    Credit(Way),
    Control { len: usize },
}

impl Head {
    pub(crate) fn body(&self) -> usize {
        match self {
            Self::Data { len, .. } | Self::Control { len } => *len,
            Self::Credit(_) => 0,
        }
    }

    /// Decodes; `None` for what no member sends, such as more than `chunk` bytes of data.
    pub(crate) fn decode(bytes: &[u8; HEAD], chunk: usize) -> Option<Self> {
        let mut reader = Reader(bytes);
        let [kind, flags, lane, operation, algorithm, ty, reduction, protocol] = reader.take::<8>()?;
        let uid = reader.u128()?;
        let sequence = reader.u64()?;
        let (source, destination) = (reader.u32()? as usize, reader.u32()? as usize);
        let count = reader.size()?;
        let root = reader.size()?;
        let depth = reader.u64()?;
        let len = reader.size()?;
        if kind == CONTROL {
            return (len <= MOST_CONTROL).then_some(Self::Control { len });
        }
        let signature = Signature {
            kind: *Kind::ALL.get(usize::from(operation))?,
            algorithm: *ALGORITHMS.get(usize::from(algorithm))?,
            protocol: *PROTOCOLS.get(usize::from(protocol))?,
            count,
            ty: Type::of(ncclDataType_t(i32::from(ty)))?,
            reduction: *REDUCTIONS.get(usize::from(reduction))?,
            root,
        };
        let way = Way { uid, sequence, source, destination, lane, signature };
        match kind {
            DATA if len <= chunk => Some(Self::Data { way, depth, eager: flags == 1, len }),
            CREDIT if len == 0 => Some(Self::Credit(way)),
            _ => None,
        }
    }

    /// Adds the body, which has the length the head asked for.
    pub(crate) fn with(self, body: Vec<u8>) -> Option<Frame> {
        Some(match self {
            Self::Data { way, depth, eager, .. } => Frame::Data { way, depth, eager, data: body },
            Self::Credit(way) => Frame::Credit(way),
            Self::Control { .. } => Frame::Control(Control::decode(&body)?),
        })
    }
}

const ALGORITHMS: [Algorithm; 4] = [Algorithm::Ring, Algorithm::Tree, Algorithm::SingleTree, Algorithm::Direct];
const PROTOCOLS: [Protocol; 3] = [Protocol::Simple, Protocol::Ll128, Protocol::Ll];
const TYPES: [Type; 12] = [
    Type::I8,
    Type::U8,
    Type::I32,
    Type::U32,
    Type::I64,
    Type::U64,
    Type::F16,
    Type::F32,
    Type::F64,
    Type::Bf16,
    Type::E4m3,
    Type::E5m2,
];
const REDUCTIONS: [Option<Reduction>; 7] = [
    None,
    Some(Reduction::Plain(Combine::Sum)),
    Some(Reduction::Plain(Combine::Prod)),
    Some(Reduction::Plain(Combine::Max)),
    Some(Reduction::Plain(Combine::Min)),
    Some(Reduction::Average),
    Some(Reduction::PreMulSum),
];

/// A value's place in a list that has all values.
fn place<T: PartialEq>(all: &[T], value: &T) -> u8 {
    all.iter().position(|one| one == value).unwrap_or(usize::from(u8::MAX)) as u8
}

fn head(kind: u8, eager: bool, way: &Way, depth: u64, len: usize) -> [u8; HEAD] {
    let signature = &way.signature;
    let mut head = [0; HEAD];
    head[..8].copy_from_slice(&[
        kind,
        u8::from(eager),
        way.lane,
        place(&Kind::ALL, &signature.kind),
        place(&ALGORITHMS, &signature.algorithm),
        place(&TYPES, &signature.ty),
        place(&REDUCTIONS, &signature.reduction),
        place(&PROTOCOLS, &signature.protocol),
    ]);
    head[8..24].copy_from_slice(&way.uid.to_le_bytes());
    head[24..32].copy_from_slice(&way.sequence.to_le_bytes());
    head[32..36].copy_from_slice(&(way.source as u32).to_le_bytes());
    head[36..40].copy_from_slice(&(way.destination as u32).to_le_bytes());
    head[40..48].copy_from_slice(&(signature.count as u64).to_le_bytes());
    head[48..56].copy_from_slice(&(signature.root as u64).to_le_bytes());
    head[56..64].copy_from_slice(&depth.to_le_bytes());
    head[64..].copy_from_slice(&(len as u64).to_le_bytes());
    head
}

/// The head of a chunk of `len` bytes.
pub(crate) fn data(way: &Way, depth: u64, eager: bool, len: usize) -> [u8; HEAD] {
    head(DATA, eager, way, depth, len)
}

/// A whole credit.
pub(crate) fn credit(way: &Way) -> [u8; HEAD] {
    head(CREDIT, false, way, 0, 0)
}

impl Control {
    /// Head and body.
    pub(crate) fn encode(&self) -> ([u8; HEAD], Vec<u8>) {
        let mut to = Writer(Vec::new());
        match self {
            Self::Join { token, wish } => {
                to.u8(0);
                to.u64(*token);
                to.wish(wish);
            }
            Self::Nothing { token } => {
                to.u8(1);
                to.u64(*token);
            }
            Self::Refuse { token, failure } => {
                to.u8(2);
                to.u64(*token);
                to.failure(failure);
            }
            Self::Table(table) => {
                to.u8(3);
                to.table(table);
            }
            Self::Ready { forming, failure } => {
                to.u8(4);
                to.u64(*forming);
                to.u8(u8::from(failure.is_some()));
                if let Some(failure) = failure {
                    to.failure(failure);
                }
            }
            Self::Go { uid } => {
                to.u8(5);
                to.u128(*uid);
            }
            Self::Fail { uid, failure } => {
                to.u8(6);
                to.u128(*uid);
                to.failure(failure);
            }
            Self::Connect { uid, connection, rank } => {
                to.u8(8);
                to.u128(*uid);
                to.u64(*rank as u64);
                match connection {
                    Connection::Collectives => to.u8(0),
                    Connection::Pair { source, destination } => {
                        to.u8(1);
                        to.u64(*source as u64);
                        to.u64(*destination as u64);
                    }
                }
            }
            Self::Leave { uid, failed } => {
                to.u8(7);
                to.u128(*uid);
                to.u8(u8::from(*failed));
            }
        }
        let mut head = [0; HEAD];
        head[0] = CONTROL;
        head[64..].copy_from_slice(&(to.0.len() as u64).to_le_bytes());
        (head, to.0)
    }

    fn decode(body: &[u8]) -> Option<Self> {
        let mut from = Reader(body);
        let control = match from.u8()? {
            0 => Self::Join { token: from.u64()?, wish: from.wish()? },
            1 => Self::Nothing { token: from.u64()? },
            2 => Self::Refuse { token: from.u64()?, failure: from.failure()? },
            3 => Self::Table(from.table()?),
            4 => {
                let forming = from.u64()?;
                let failure = if from.u8()? == 1 { Some(from.failure()?) } else { None };
                Self::Ready { forming, failure }
            }
            5 => Self::Go { uid: from.u128()? },
            6 => Self::Fail { uid: from.u128()?, failure: from.failure()? },
            7 => Self::Leave { uid: from.u128()?, failed: from.u8()? == 1 },
            8 => {
                let (uid, rank) = (from.u128()?, from.size()?);
                let connection = match from.u8()? {
                    0 => Connection::Collectives,
                    1 => Connection::Pair { source: from.size()?, destination: from.size()? },
                    _ => return None,
                };
                Self::Connect { uid, connection, rank }
            }
            _ => return None,
        };
        from.0.is_empty().then_some(control)
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    fn i32(&mut self, value: i32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u128(&mut self, value: u128) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn failure(&mut self, failure: &Failure) {
        self.i32(failure.code.0);
        self.u64(failure.text.len() as u64);
        self.0.extend_from_slice(failure.text.as_bytes());
    }

    fn wish(&mut self, wish: &Wish) {
        match wish {
            Wish::Init { id, rank, n, device, buffer } => {
                self.u8(0);
                self.0.extend_from_slice(id);
                self.u64(*rank as u64);
                self.u64(*n as u64);
                self.i32(*device);
                self.u64(*buffer);
            }
            Wish::Split { uid, number, rank, color, key, device } => {
                self.u8(1);
                self.u128(*uid);
                self.u64(*number);
                self.u64(*rank as u64);
                self.u8(u8::from(color.is_some()));
                self.i32(color.unwrap_or(0));
                self.i32(*key);
                self.i32(*device);
            }
        }
    }

    fn table(&mut self, table: &Table) {
        self.u64(table.forming);
        self.u128(table.uid);
        self.u64(table.processes.len() as u64);
        for process in &table.processes {
            self.u128(process.name.0);
            self.u128(process.cookie);
        }
        self.u64(table.ranks.len() as u64);
        for (process, device) in &table.ranks {
            self.u8(*process as u8);
            self.i32(*device);
        }
        self.u64(table.yours.len() as u64);
        for (rank, token) in &table.yours {
            self.u64(*rank as u64);
            self.u64(*token);
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn i32(&mut self) -> Option<i32> {
        self.take().map(i32::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn u128(&mut self) -> Option<u128> {
        self.take().map(u128::from_le_bytes)
    }

    fn size(&mut self) -> Option<usize> {
        usize::try_from(self.u64()?).ok()
    }

    /// A list; its room is made as its entries come, so a false length costs nothing.
    fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let len = self.size()?;
        let mut list = Vec::new();
        for _ in 0..len {
            list.push(one(self)?);
        }
        Some(list)
    }

    fn failure(&mut self) -> Option<Failure> {
        let code = ncclResult_t(self.i32()?);
        let len = self.size()?;
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(Failure { code, text: String::from_utf8_lossy(text).into_owned() })
    }

    fn wish(&mut self) -> Option<Wish> {
        Some(match self.u8()? {
            0 => Wish::Init {
                id: self.take()?,
                rank: self.size()?,
                n: self.size()?,
                device: self.i32()?,
                buffer: self.u64()?,
            },
            1 => {
                let (uid, number, rank) = (self.u128()?, self.u64()?, self.size()?);
                let (some, color) = (self.u8()? == 1, self.i32()?);
                Wish::Split { uid, number, rank, color: some.then_some(color), key: self.i32()?, device: self.i32()? }
            }
            _ => return None,
        })
    }

    /// A table whose ranks live in its processes.
    fn table(&mut self) -> Option<Table> {
        let table = Table {
            forming: self.u64()?,
            uid: self.u128()?,
            processes: self.list(|from| Some(Address { name: Name(from.u128()?), cookie: from.u128()? }))?,
            ranks: self.list(|from| Some((usize::from(from.u8()?), from.i32()?)))?,
            yours: self.list(|from| Some((from.size()?, from.u64()?)))?,
        };
        let processes = table.processes.len();
        let whole = (1..=MOST_PROCESSES).contains(&processes)
            && table.ranks.iter().all(|(process, _)| *process < processes)
            && table.yours.iter().all(|(rank, _)| *rank < table.ranks.len());
        whole.then_some(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way() -> Way {
        let signature = Signature {
            kind: Kind::Reduce,
            algorithm: Algorithm::SingleTree,
            protocol: Protocol::Ll,
            count: 77,
            ty: Type::E5m2,
            reduction: Some(Reduction::PreMulSum),
            root: 3,
        };
        Way { uid: 1 << 100, sequence: 9, source: 4, destination: 5, lane: 2, signature }
    }

    fn controls() -> Vec<Control> {
        let failure = Failure::usage("no");
        let address = Address { name: Name(7), cookie: 8 };
        let init = Wish::Init { id: [3; 128], rank: 1, n: 2, device: -1, buffer: 5 };
        let split = Wish::Split { uid: 4, number: 1, rank: 2, color: None, key: -3, device: 0 };
        let table = Table { forming: 1, uid: 2, processes: vec![address], ranks: vec![(0, 5)], yours: vec![(0, 6)] };
        vec![
            Control::Join { token: 1, wish: init },
            Control::Join { token: 1, wish: split },
            Control::Nothing { token: 4 },
            Control::Refuse { token: 4, failure: failure.clone() },
            Control::Table(table),
            Control::Ready { forming: 1, failure: None },
            Control::Ready { forming: 1, failure: Some(failure.clone()) },
            Control::Go { uid: 3 },
            Control::Fail { uid: 3, failure },
            Control::Leave { uid: 3, failed: true },
            Control::Connect { uid: 3, connection: Connection::Collectives, rank: 9 },
            Control::Connect { uid: 3, connection: Connection::Pair { source: 9, destination: 1 }, rank: 1 },
        ]
    }

    #[test]
    fn frames_come_back_as_they_went() {
        match Head::decode(&data(&way(), 12, true, 40), 40) {
            Some(Head::Data { way: back, depth: 12, eager: true, len: 40 }) => assert_eq!(back, way()),
            _ => panic!("not the chunk"),
        }
        assert!(matches!(Head::decode(&credit(&way()), 40), Some(Head::Credit(back)) if back == way()));
        for control in controls() {
            let (head, body) = control.encode();
            let head = Head::decode(&head, 0).expect("a head");
            assert_eq!(head.body(), body.len());
            assert!(matches!(head.with(body), Some(Frame::Control(back)) if back == control));
        }
    }

    #[test]
    fn what_is_damaged_is_refused() {
        assert!(Head::decode(&data(&way(), 1, false, 41), 40).is_none(), "more than a chunk");
        for at in [0, 3, 4, 5, 6] {
            let mut bytes = data(&way(), 1, false, 4);
            bytes[at] = 200;
            assert!(Head::decode(&bytes, 40).is_none(), "byte {at}");
        }
        for control in controls() {
            let (_, body) = control.encode();
            for len in 0..body.len() {
                assert!(Control::decode(&body[..len]).is_none(), "{control:?} cut at {len}");
            }
            // Any other byte decodes or not, but never panics or takes memory that did not come.
            for at in 0..body.len() {
                let mut body = body.clone();
                body[at] = 0xff;
                let _ = Control::decode(&body);
            }
        }
        let mut greeted = hello(5, Address { name: Name(1), cookie: 2 });
        assert_eq!(greeting(&greeted, 5), Some(Address { name: Name(1), cookie: 2 }));
        assert_eq!(greeting(&greeted, 6), None);
        greeted[0] = 0;
        assert_eq!(greeting(&greeted, 5), None);
    }
}
