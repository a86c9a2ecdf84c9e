//! What processes say to each other: when they meet, and afterwards on the connections of parts.
use super::secret::{Nonce, Proof};
use super::variables::Shared;
use crate::backend::cuda::DeviceInfo;
use crate::job::{PROTOCOL, Reply, Request};
use crate::launch::Position;
use serde::{Deserialize, Serialize};

/// How a connection of this program begins.
pub const MAGIC: [u8; 8] = *b"collspec";

/// A member's first message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// The member's.
    pub nonce: Nonce,
}

impl Opening {
    /// Of this build.
    pub fn new(nonce: Nonce) -> Self {
        Self { magic: MAGIC, protocol: PROTOCOL, nonce }
    }
}

/// The leader's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// The leader's.
    pub nonce: Nonce,
    /// That it belongs to the job.
    pub proof: Proof,
}

/// A member's second message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wish {
    /// That it belongs to the job.
    pub proof: Proof,
    /// What the connection is for.
    pub purpose: Purpose,
}

/// What a connection is for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Purpose {
    /// A process comes to the meeting; the connection stays for orders.
    Join(Box<Introduction>),
    /// The part that the leader has asked for with this number.
    Part(u64),
}

/// What a process has to run cases on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Equipment {
    /// The backend and its library, in words that are equal only for equal libraries.
    pub library: String,
    /// The GPUs that it sees, in the driver's order.
    pub gpus: Vec<DeviceInfo>,
}

/// What a process says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Introduction {
    /// Its number.
    pub rank: u32,
    /// How many processes it takes part with.
    pub size: u32,
    /// Its machine.
    pub host: String,
    /// Its process id.
    pub pid: u32,
    /// This program: version and a hash of its file.
    pub program: String,
    /// What has started it.
    pub launcher: String,
    /// What it has to run cases on.
    pub equipment: Equipment,
    /// Variables that must be the same for all.
    pub variables: Shared,
}

impl Introduction {
    /// Of this process.
    pub fn of_this_process(launcher: &str, position: Position, equipment: Equipment) -> Self {
        Self {
            rank: position.rank,
            size: position.size,
            host: host_name(),
            pid: std::process::id(),
            program: program(),
            launcher: launcher.to_owned(),
            equipment,
            variables: super::variables::of_this_process(),
        }
    }

    /// `rank 3 on gpu-1`.
    pub fn name(&self) -> String {
        format!("rank {} on {}", self.rank, self.host)
    }
}

/// The name of this machine, which NCCL_HOSTID replaces as it does for NCCL.
fn host_name() -> String {
    if let Some(name) = std::env::var("NCCL_HOSTID").ok().filter(|name| !name.is_empty()) {
        return name;
    }
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Version and hash of the running program: two builds may have one version.
fn program() -> String {
    let hash = std::fs::read("/proc/self/exe").map_or(0, |bytes| xxhash_rust::xxh3::xxh3_64(&bytes));
    format!("{} {hash:016x}", env!("CARGO_PKG_VERSION"))
}

/// The leader's last message of a greeting.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The process is taken. These variables are set for its workers where it has not set them.
    Welcome(Shared),
    /// It is not, for this reason.
    Refused(String),
}

/// Leader to a member, on the connection on which it joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberOrder {
    /// Connect again, for a part with this number.
    StartPart(u64),
    /// The run is over with this exit status.
    Finished(u8),
}

/// Leader to a part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PartOrder {
    /// Start the process with these variables.
    Start(Vec<(String, String)>),
    /// A request for the process.
    Request(Box<Request>),
    /// The arena must have so many bytes.
    Arena(u64),
    /// Bytes for the arena.
    Put {
        /// Where.
        at: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// The part's step words: answered by [`PartMessage::Words`].
    Words {
        /// Its first rank.
        first: u32,
        /// Behind its last rank.
        end: u32,
    },
    /// Hashes of these bytes of the arena, by block: answered by [`PartMessage::Hashes`].
    Hash {
        /// Where.
        at: u64,
        /// How many.
        len: u64,
    },
    /// These bytes of the arena: answered by [`PartMessage::Bytes`].
    Get {
        /// Where.
        at: u64,
        /// How many.
        len: u64,
    },
    /// The process is to end by itself.
    Close,
    /// The process is killed: answered by [`PartMessage::Ended`].
    Kill,
}

/// A part to the leader.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PartMessage {
    /// A message of the process.
    Reply(Box<Reply>),
    /// What it wrote meanwhile.
    Log(String),
    /// Step words.
    Words(Vec<u64>),
    /// Hashes, by block.
    Hashes(Vec<u128>),
    /// Bytes.
    Bytes(Vec<u8>),
    /// The process could not be started or asked.
    Trouble(String),
    /// It has ended, and how. Nothing follows.
    Ended(String),
}
