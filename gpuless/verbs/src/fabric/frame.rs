//! What processes say to each other: a header of fixed size, and for some the bytes of a message behind it. A peer is a stranger, so
//! everything in a header is checked before it is believed.

use crate::device::MAX_MESSAGE;
use libc::c_int;

/// Bytes of a header.
pub const HEADER: usize = 72;
/// The first bytes of each, with the version of what follows.
const MAGIC: u32 = 0x3142_5647;

/// A message's data may come without an answer, and out of order.
pub mod flag {
    /// Of a queue pair of the kind UC: nobody waits for an answer.
    pub const UNRELIABLE: u8 = 1;
    pub const SOLICITED: u8 = 2;
    /// The message is carried out without its data, which does not follow: it was lost.
    pub const HOLLOW: u8 = 4;
    /// The data of a write once more, outside of the queue pair's order.
    pub const STRAY: u8 = 8;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Write,
    WriteWithImm,
    Send,
    SendWithImm,
    Read,
    CompareSwap,
    FetchAdd,
    /// The request is done; what it has read follows.
    Done,
    /// The request has failed with a status, and with it the queue pair.
    Failed,
    /// Nobody answers at the moment. The requester waits until its time is over, or it is told to go on.
    Refused,
    /// No receive is posted.
    NoReceive,
    /// The request is from before the target's last reset, or could not be kept: it is to be sent again.
    Again,
    /// Requests that were refused may be sent again.
    GoOn,
}

impl Kind {
    const ALL: [Self; 13] = [
        Self::Write,
        Self::WriteWithImm,
        Self::Send,
        Self::SendWithImm,
        Self::Read,
        Self::CompareSwap,
        Self::FetchAdd,
        Self::Done,
        Self::Failed,
        Self::Refused,
        Self::NoReceive,
        Self::Again,
        Self::GoOn,
    ];

    /// The kind of request with an `enum ibv_wr_opcode`.
    pub fn of_opcode(opcode: c_int) -> Option<Self> {
        usize::try_from(opcode).ok().and_then(|opcode| Self::ALL[..7].get(opcode)).copied()
    }

    pub fn is_request(self) -> bool {
        (self as usize) < Self::Done as usize
    }

    pub fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::WriteWithImm)
    }

    pub fn is_send(self) -> bool {
        matches!(self, Self::Send | Self::SendWithImm)
    }

    pub fn is_atomic(self) -> bool {
        matches!(self, Self::CompareSwap | Self::FetchAdd)
    }

    /// True for requests whose answer has data.
    pub fn fetches(self) -> bool {
        self == Self::Read || self.is_atomic()
    }

    pub fn takes_receive(self) -> bool {
        self.is_send() || self == Self::WriteWithImm
    }

    pub fn has_imm(self) -> bool {
        matches!(self, Self::SendWithImm | Self::WriteWithImm)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    pub flags: u8,
    /// Of a failure, as `enum ibv_wc_status`; with [`Kind::NoReceive`] the target's RNR timer.
    pub status: u8,
    /// The queue pair that this is for, and the one that it comes from.
    pub to: u32,
    pub from: u32,
    /// Which life of the requester's queue pair this belongs to: each reset begins a new one.
    pub life: u32,
    pub rkey: u32,
    /// The number of the request in its queue pair's life.
    pub number: u64,
    /// When it was sent, in nanoseconds of the machine's monotonic clock.
    pub sent_at: u64,
    pub address: u64,
    pub compare_add: u64,
    pub swap: u64,
    /// Bytes of the message.
    pub len: u32,
    pub imm: u32,
}

/// The bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a header of this protocol")]
pub struct Malformed;

impl Header {
    /// An answer to a request.
    pub fn answer(&self, kind: Kind) -> Self {
        Self { kind, flags: 0, status: 0, to: self.from, from: self.to, len: 0, ..*self }
    }

    /// The bytes that follow the header.
    pub fn body(&self) -> usize {
        let carries = self.kind.is_write() || self.kind.is_send() || self.kind == Kind::Done;
        if carries && self.flags & flag::HOLLOW == 0 { self.len as usize } else { 0 }
    }

    pub fn is_unreliable(&self) -> bool {
        self.flags & flag::UNRELIABLE != 0
    }

    pub fn is_stray(&self) -> bool {
        self.flags & flag::STRAY != 0
    }

    pub fn write(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let mut rest = &mut bytes[..];
        let mut put = |part: &[u8]| {
            let (to, after) = std::mem::take(&mut rest).split_at_mut(part.len());
            to.copy_from_slice(part);
            rest = after;
        };
        put(&MAGIC.to_le_bytes());
        put(&[self.kind as u8, self.flags, self.status, 0]);
        for word in [self.to, self.from, self.life, self.rkey] {
            put(&word.to_le_bytes());
        }
        for word in [self.number, self.sent_at, self.address, self.compare_add, self.swap] {
            put(&word.to_le_bytes());
        }
        put(&self.len.to_le_bytes());
        put(&self.imm.to_le_bytes());
        bytes
    }

    /// # Errors
    ///
    /// The bytes are no header.
    pub fn read(bytes: &[u8; HEADER]) -> Result<Self, Malformed> {
        let mut rest = &bytes[..];
        let [magic, packed, to, from, life, rkey] = take_u32s(&mut rest);
        let [number, sent_at, address, compare_add, swap] = take_u64s(&mut rest);
        let [len, imm] = take_u32s(&mut rest);
        let [kind, flags, status, _] = packed.to_le_bytes();
        let kind = *Kind::ALL.get(usize::from(kind)).ok_or(Malformed)?;
        if magic != MAGIC || len > MAX_MESSAGE {
            return Err(Malformed);
        }
        Ok(Self { kind, flags, status, to, from, life, rkey, number, sent_at, address, compare_add, swap, len, imm })
    }
}

fn take_u32s<const N: usize>(rest: &mut &[u8]) -> [u32; N] {
    std::array::from_fn(|_| rest.split_off(..4).and_then(|part| part.try_into().ok()).map_or(0, u32::from_le_bytes))
}

fn take_u64s<const N: usize>(rest: &mut &[u8]) -> [u64; N] {
    std::array::from_fn(|_| rest.split_off(..8).and_then(|part| part.try_into().ok()).map_or(0, u64::from_le_bytes))
}
