//! Messages between processes: when they meet, and afterwards on the connections of parts.
use super::secret::{Nonce, Proof};
use super::variables::Shared;
use crate::backend::cuda::DeviceInfo;
use crate::job::{PROTOCOL, Reply, Request};
use crate::launch::Position;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

/// The first bytes of every connection of this program.
pub const MAGIC: [u8; 8] = *b"collspec";

/// A member's first message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// Always [`MAGIC`].
    pub magic: [u8; 8],
    /// The sender's [`PROTOCOL`].
    pub protocol: u32,
    /// The nonce of the member.
    pub nonce: Nonce,
}

impl Opening {
    /// The greeting of this build.
    pub fn new(nonce: Nonce) -> Self {
        Self { magic: MAGIC, protocol: PROTOCOL, nonce }
    }
}

/// The leader's answer, upon which the member sends its [`Proof`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    /// The sender's [`PROTOCOL`].
    pub protocol: u32,
    /// The nonce of the leader.
    pub nonce: Nonce,
}

/// The leader's answer to a member's proof: its own proof, or `None` if the member does not belong to the job. Only then does the
/// member send the connection's purpose.
pub type Trust = Option<Proof>;

/// The purpose of a connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Purpose {
    /// A process joins the meeting; the connection stays open for orders.
    Join(Box<Introduction>),
    /// The part that the leader has asked for with this number.
    Part(u64),
}

/// The backends and GPUs of a process for running cases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Equipment {
    /// Each backend with the library that cases run on, as a text that is equal only for equal libraries, or the reason it is missing.
    /// A side that runs nothing, such as a recorded run, is `None`.
    pub libraries: Vec<Result<Option<String>, String>>,
    /// The GPUs that it sees, in the driver's order.
    pub gpus: Vec<DeviceInfo>,
}

impl Equipment {
    /// The reason a member cannot run the leader's cases, or `None`. Where the leader does not run anything itself (a recorded run),
    /// members need not have anything.
    pub(super) fn refusal(&self, theirs: &Self, us: &str, them: &str) -> Option<String> {
        let needed = |(ours, _): &(&Result<Option<String>, String>, _)| !matches!(ours, Ok(None));
        let pairs = || self.libraries.iter().zip(&theirs.libraries).filter(needed);
        let lacks = pairs().find_map(|(ours, theirs)| match (ours, theirs) {
            (Ok(_), Err(why)) => Some(format!("{them} cannot run what {us} can: {why}")),
            (Err(why), Ok(_)) => Some(format!("{us} cannot run what {them} can: {why}")),
            // The leader will say why it has nothing to run, and all end.
            (Err(_), Err(_)) | (Ok(_), Ok(_)) => None,
        });
        let differ = self.libraries.len() != theirs.libraries.len()
            || pairs().any(|(ours, theirs)| matches!((ours, theirs), (Ok(ours), Ok(theirs)) if ours != theirs));
        let words = || {
            let (ours, theirs) = (self.words(), theirs.words());
            format!("{us} would run {ours}, {them} {theirs}: all must have the same library")
        };
        lacks.or_else(|| differ.then(words))
    }

    fn words(&self) -> String {
        let one = |library: &Result<Option<String>, String>| match library {
            Ok(Some(words)) | Err(words) => words.clone(),
            Ok(None) => "a recorded run".to_owned(),
        };
        if self.libraries.is_empty() {
            return "nothing".to_owned();
        }
        self.libraries.iter().map(one).collect::<Vec<_>>().join(" and ")
    }
}

/// Equal for equal GPUs: the UUID, because processes may number a GPU differently and two containers on one machine have different
/// names. Where the driver knows no UUID, or devices are private to a process and named alike on every machine, the machine and the number.
pub fn gpu_identity<'a>(host: &'a str, number: usize, gpu: &'a DeviceInfo) -> (&'a str, &'a str, usize) {
    match gpu.uuid.as_str() {
        "" => (host, "", number),
        _ if gpu.private => (host, "", number),
        uuid => ("", uuid, 0),
    }
}

/// The data that a process sends about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Introduction {
    /// Rank of the process in the job.
    pub rank: u32,
    /// Number of processes in the job.
    pub size: u32,
    /// Name of its machine.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// This program: version and a hash of its file.
    pub program: String,
    /// The launcher that started it.
    pub launcher: String,
    /// Its equipment for running cases.
    pub equipment: Equipment,
    /// Variables that must be the same for all.
    pub variables: Shared,
}

impl Introduction {
    /// The introduction of this process.
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
    format!("{} {:016x}", env!("CARGO_PKG_VERSION"), hash_of_file(Path::new("/proc/self/exe")).unwrap_or(0))
}

/// A hash of a file, which is read piece by piece: a process for each rank would take as much memory as the file has bytes.
///
/// # Errors
///
/// The file cannot be read.
pub fn hash_of_file(path: &Path) -> io::Result<u64> {
    let mut hash = Xxh3::new();
    io::copy(&mut File::open(path)?, &mut hash)?;
    Ok(hash.digest())
}

/// The leader's last message of a greeting.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The process is accepted. These variables are set for its workers unless it has set them itself.
    Welcome(Shared),
    /// It is not, for this reason.
    Refused(String),
}

/// Leader to a member, on the connection on which it joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberOrder {
    /// Connect again, for a part with this number.
    StartPart(u64),
    /// The leader is still there.
    GoOn,
    /// The run is over with this exit status.
    Finished(u8),
}

/// A place in the arena: its first byte, and how many there are.
pub type Place = (u64, u64);

/// Leader to a part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PartOrder {
    /// Start the process with these variables.
    Start(Vec<(String, String)>),
    /// A request for the process.
    Request(Box<Request>),
    /// Makes the arena at least this many bytes large.
    Arena(u64),
    /// Bytes for the arena.
    Put {
        /// Offset in the arena.
        at: u64,
        /// The bytes to write.
        bytes: Vec<u8>,
    },
    /// The pattern of a key for the arena, which takes fewer bytes than its result.
    Pattern {
        /// Offset in the arena.
        at: u64,
        /// Number of bytes.
        len: u64,
        /// Key of the pattern.
        key: u64,
    },
    /// Bytes of the arena once more in another place.
    Copy {
        /// Offset from which to copy.
        from: u64,
        /// Offset to copy to.
        at: u64,
        /// Number of bytes.
        len: u64,
    },
    /// The part's step words: answered by [`PartMessage::Words`].
    Words {
        /// Number of its first rank.
        first: u32,
        /// One past its last rank.
        end: u32,
    },
    /// One hash of all these bytes of the arena, one place after the other: answered by [`PartMessage::Hashes`].
    Digest(Vec<Place>),
    /// The hash of each of these places: answered by [`PartMessage::Hashes`].
    Hash(Vec<Place>),
    /// The bytes of these places, one after the other: answered by [`PartMessage::Bytes`].
    Get(Vec<Place>),
    /// Asks the process to end on its own.
    Close,
    /// The process is killed: answered by [`PartMessage::Ended`].
    Kill,
}

/// A part to the leader.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PartMessage {
    /// A message of the process.
    Reply(Box<Reply>),
    /// Output of the process since the last message.
    Log(String),
    /// The step words of its ranks.
    Words(Vec<u64>),
    /// Hashes, in the order in which they were asked for.
    Hashes(Vec<u128>),
    /// Bytes of the arena.
    Bytes(Vec<u8>),
    /// The process could not be started or asked.
    Trouble(String),
    /// It has ended, and how. Nothing follows.
    Ended(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_must_have_what_the_leader_runs_and_no_more() {
        let equipment = |libraries: &[Result<Option<&str>, &str>]| {
            let owned = libraries.iter().map(|one| one.map(|words| words.map(str::to_owned)).map_err(str::to_owned));
            Equipment { libraries: owned.collect(), gpus: Vec::new() }
        };
        let refusal = |ours, theirs| equipment(ours).refusal(&equipment(theirs), "a", "b");
        assert_eq!(refusal(&[Ok(Some("soft"))], &[Ok(Some("soft"))]), None);
        assert_eq!(refusal(&[Ok(None), Ok(Some("soft"))], &[Err("no such file"), Ok(Some("soft"))]), None);
        assert_eq!(refusal(&[Ok(None)], &[Ok(Some("a library at that path"))]), None);
        assert_eq!(refusal(&[Err("none")], &[Err("none")]), None, "the leader says it");
        let differ = |words: &str| Some(format!("{words}: all must have the same library"));
        assert_eq!(refusal(&[Ok(Some("x"))], &[Ok(Some("y"))]), differ("a would run x, b y"));
        assert_eq!(refusal(&[Ok(Some("x"))], &[Ok(None)]), differ("a would run x, b a recorded run"));
        assert_eq!(
            refusal(&[Ok(Some("x"))], &[Ok(Some("x")), Ok(None)]),
            differ("a would run x, b x and a recorded run")
        );
        assert_eq!(refusal(&[Ok(Some("x"))], &[Err("/x: no file")]).unwrap(), "b cannot run what a can: /x: no file");
        assert_eq!(refusal(&[Err("/x: no file")], &[Ok(Some("x"))]).unwrap(), "a cannot run what b can: /x: no file");
    }
}
