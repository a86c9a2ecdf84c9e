//! What the library reads from its surroundings, once per process.
use crate::algo::{Algorithms, Protocol, Protocols};
use crate::arith::Manner;
use std::str::FromStr;
use std::sync::OnceLock;

/// Slots of a channel: how many chunks a sender may be ahead of its receiver.
pub(crate) const SLOTS: usize = 8;
const DEFAULT_BUFFER: usize = 512 * 1024;

/// When the ranks of a communicator connect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connect {
    /// When the communicator is made.
    #[default]
    Init,
    /// At the first call that needs the connection, on the host, which waits there for the other ranks' first call.
    Lazy,
}

impl Connect {
    /// The word that selects it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Lazy => "lazy",
        }
    }
}

impl FromStr for Connect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "init" => Ok(Self::Init),
            "lazy" => Ok(Self::Lazy),
            other => Err(format!("`{}` is neither init nor lazy", other.escape_debug())),
        }
    }
}

/// Everything that can be set from outside.
#[derive(Clone, Debug)]
pub struct Settings {
    /// NCCL_ALGO: which algorithms may run. Unset means ring wherever an operation has a choice.
    pub algorithms: Algorithms,
    /// NCCL_PROTO: which protocols may be spoken. Unset means the simple one.
    pub protocols: Protocols,
    /// NCCL_BUFFSIZE: bytes a channel holds, over all its slots.
    pub buffer_bytes: usize,
    /// NCCL_MIN_NCHANNELS and NCCL_MAX_NCHANNELS: channels of an operation at most, 1 to 64. Unset, a ring has one, and a double
    /// tree has one for each tree. All ranks must have the same number.
    pub channels: Option<usize>,
    /// NCCL_CHECK_POINTERS: pointers must lie in memory of the software device.
    pub check_pointers: bool,
    /// COLLSPEC_SOFT_SEED: shuffles the order of ready tasks; absent, they run first come, first served.
    pub seed: Option<u64>,
    /// COLLSPEC_SOFT_EAGER: bytes per ordered pair of ranks that sends may leave unreceived.
    pub eager_bytes: usize,
    /// COLLSPEC_SOFT_ARITHMETIC: compute in another correct way.
    pub manner: Manner,
    /// COLLSPEC_SOFT_CONNECT: when ranks connect.
    pub connect: Connect,
    /// COLLSPEC_SOFT_FAULT: be wrong in this way. An error in it makes every communicator fail.
    pub injection: Option<String>,
    /// The error in COLLSPEC_SOFT_ARITHMETIC or _CONNECT, if there is one; every communicator then fails.
    pub error: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            algorithms: Algorithms::default(),
            protocols: Protocols::default(),
            buffer_bytes: DEFAULT_BUFFER,
            channels: None,
            check_pointers: false,
            seed: None,
            eager_bytes: 0,
            manner: Manner::default(),
            connect: Connect::Init,
            injection: None,
            error: None,
        }
    }
}

impl Settings {
    /// Reads the environment through `get`; a number that is none counts as unset, as in NCCL.
    pub fn from(get: impl Fn(&str) -> Option<String>) -> Self {
        let number = |name: &str| get(name).and_then(|text| text.trim().parse::<u64>().ok());
        let standard = Self::default();
        let word = |name: &str| get(name).filter(|text| !text.trim().is_empty());
        let connect = word("COLLSPEC_SOFT_CONNECT").map_or(Ok(Connect::Init), |text| text.parse());
        let manner = word("COLLSPEC_SOFT_ARITHMETIC").map_or(Ok(Manner::default()), |text| text.parse::<Manner>());
        let manner_error = manner.as_ref().err().map(|error| format!("COLLSPEC_SOFT_ARITHMETIC: {error}"));
        let connect_error = connect.as_ref().err().map(|error| format!("COLLSPEC_SOFT_CONNECT: {error}"));
        Self {
            algorithms: get("NCCL_ALGO").map_or(standard.algorithms, |text| Algorithms::parse(&text)),
            protocols: get("NCCL_PROTO").map_or(standard.protocols, |text| Protocols::parse(&text)),
            buffer_bytes: number("NCCL_BUFFSIZE")
                .map_or(standard.buffer_bytes, |n| usize::try_from(n).unwrap_or(usize::MAX)),
            channels: channels(number("NCCL_MIN_NCHANNELS"), number("NCCL_MAX_NCHANNELS")),
            check_pointers: number("NCCL_CHECK_POINTERS").is_some_and(|n| n != 0),
            seed: number("COLLSPEC_SOFT_SEED"),
            eager_bytes: number("COLLSPEC_SOFT_EAGER").map_or(0, |n| usize::try_from(n).unwrap_or(usize::MAX)),
            manner: manner.unwrap_or_default(),
            connect: connect.unwrap_or_default(),
            injection: word("COLLSPEC_SOFT_FAULT"),
            error: manner_error.or(connect_error),
        }
    }

    /// Elements of `size` bytes in one chunk.
    pub(crate) fn chunk_elements(&self, protocol: Protocol, size: usize) -> usize {
        (protocol.data(self.buffer_bytes / SLOTS) / size.max(1)).max(1)
    }
}

/// Most channels that NCCL makes.
const MAX_CHANNELS: u64 = 64;

/// The number of channels within these bounds. More channels do not make software faster, so it is the lower bound, and an upper
/// bound alone matters only if it leaves no second channel to a double tree.
fn channels(min: Option<u64>, max: Option<u64>) -> Option<usize> {
    let max = max.unwrap_or(MAX_CHANNELS).clamp(1, MAX_CHANNELS);
    let number = match min {
        Some(min) => Some(min.clamp(1, max)),
        None => (max == 1).then_some(1),
    };
    number.map(|number| number as usize)
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// The settings of this process were read before.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the library's settings are fixed already: they are read once per process")]
pub struct AlreadyRead;

/// Fixes the settings instead of reading the environment; only before the library's first use.
///
/// # Errors
/// The settings were fixed or read before.
pub fn set_settings_for_process(settings: Settings) -> Result<(), AlreadyRead> {
    SETTINGS.set(settings).map_err(|_| AlreadyRead)
}

pub(crate) fn settings() -> &'static Settings {
    SETTINGS.get_or_init(|| Settings::from(|name| std::env::var(name).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_between_their_bounds() {
        assert_eq!(channels(None, None), None);
        assert_eq!(channels(Some(4), None), Some(4));
        assert_eq!(channels(Some(4), Some(2)), Some(2));
        assert_eq!(channels(Some(0), None), Some(1));
        assert_eq!(channels(Some(1000), None), Some(64));
        assert_eq!(channels(None, Some(1)), Some(1));
        assert_eq!(channels(None, Some(16)), None);
    }
}
