//! Settings that the library reads from its environment, once per process.
use crate::algo::{Algorithms, Protocols};
use crate::arith::Manner;
use std::str::FromStr;
use std::sync::OnceLock;

/// Slots of a channel: how many chunks a sender may be ahead of its receiver.
pub(crate) const SLOTS: usize = 8;
const DEFAULT_BUFFER: usize = 512 * 1024;

/// The time at which the ranks of a communicator connect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connect {
    /// When the communicator is created.
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
    /// NCCL_ALGO: the algorithms that may run. Unset means ring wherever an operation has a choice.
    pub algorithms: Algorithms,
    /// NCCL_PROTO: which protocols may be spoken. Unset means the simple one.
    pub protocols: Protocols,
    /// NCCL_BUFFSIZE: bytes a channel holds, over all its slots.
    pub buffer_bytes: usize,
    /// NCCL_MIN_NCHANNELS: the number of channels that an operation is dealt out to, 1 to 64. Unset, a ring has one, and a double tree
    /// has one for each tree. All ranks must have the same number.
    pub min_channels: Option<usize>,
    /// NCCL_MIN_CTAS, likewise, if it is larger; it takes precedence over a communicator's configuration.
    pub min_ctas: Option<usize>,
    /// NCCL_COMM_BLOCKING, which takes precedence over a communicator's configuration: whether calls wait until they are done.
    pub blocking: Option<bool>,
    /// NCCL_CHECK_POINTERS: pointers must lie in memory of the software device.
    pub check_pointers: bool,
    /// COLLSPEC_SOFT_SEED: shuffles the order of ready tasks; absent, they run first come, first served.
    pub seed: Option<u64>,
    /// COLLSPEC_SOFT_EAGER: bytes per ordered pair of ranks that sends may leave unreceived.
    pub eager_bytes: usize,
    /// COLLSPEC_SOFT_ARITHMETIC: compute in another correct way.
    pub manner: Manner,
    /// NCCL_WIN_ENABLE and NCCL_P2P_DISABLE: whether there are windows. Without, registering one succeeds with a null window.
    pub windows: bool,
    /// COLLSPEC_SOFT_CONNECT: when ranks connect.
    pub connect: Connect,
    /// COLLSPEC_SOFT_NETWORK: whether processes on other machines can take part.
    pub network: Network,
    /// COLLSPEC_SOFT_TRACE: the file to which every message between ranks is appended.
    pub trace: Option<String>,
    /// The error in COLLSPEC_SOFT_ARITHMETIC, _CONNECT or _NETWORK, if there is one; every communicator then fails.
    pub error: Option<String>,
}

/// The way processes reach each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// By sockets of the machine.
    #[default]
    Machine,
    /// By sockets within a machine, and by TCP between machines.
    Machines,
    /// Always by TCP.
    Only,
}

impl Network {
    fn parse(text: &str) -> Result<Self, String> {
        match text.trim() {
            "0" => Ok(Self::Machine),
            "1" => Ok(Self::Machines),
            "only" => Ok(Self::Only),
            _ => Err(format!("COLLSPEC_SOFT_NETWORK={text:?} is not one of 0, 1 and only")),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            algorithms: Algorithms::default(),
            protocols: Protocols::default(),
            buffer_bytes: DEFAULT_BUFFER,
            min_channels: None,
            min_ctas: None,
            blocking: None,
            check_pointers: false,
            seed: None,
            eager_bytes: 0,
            manner: Manner::default(),
            windows: true,
            connect: Connect::Init,
            network: Network::Machine,
            trace: None,
            error: None,
        }
    }
}

impl Settings {
    /// Reads the environment through `get`; a malformed number counts as unset, as in NCCL.
    pub fn from(get: impl Fn(&str) -> Option<String>) -> Self {
        let number = |name: &str| get(name).and_then(|text| text.trim().parse::<u64>().ok());
        let standard = Self::default();
        let word = |name: &str| get(name).filter(|text| !text.trim().is_empty());
        let connect = word("COLLSPEC_SOFT_CONNECT").map_or(Ok(Connect::Init), |text| text.parse());
        let manner = word("COLLSPEC_SOFT_ARITHMETIC").map_or(Ok(Manner::default()), |text| text.parse::<Manner>());
        let manner_error = manner.as_ref().err().map(|error| format!("COLLSPEC_SOFT_ARITHMETIC: {error}"));
        let connect_error = connect.as_ref().err().map(|error| format!("COLLSPEC_SOFT_CONNECT: {error}"));
        let network = word("COLLSPEC_SOFT_NETWORK").map_or(Ok(Network::Machine), |text| Network::parse(&text));
        let network_error = network.as_ref().err().cloned();
        let size = |name: &str| number(name).map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        Self {
            algorithms: get("NCCL_ALGO").map_or(standard.algorithms, |text| Algorithms::parse(&text)),
            protocols: get("NCCL_PROTO").map_or(standard.protocols, |text| Protocols::parse(&text)),
            buffer_bytes: size("NCCL_BUFFSIZE").unwrap_or(standard.buffer_bytes),
            min_channels: size("NCCL_MIN_NCHANNELS").filter(|n| *n > 0),
            min_ctas: size("NCCL_MIN_CTAS").filter(|n| *n > 0),
            blocking: number("NCCL_COMM_BLOCKING").filter(|n| *n < 2).map(|n| n == 1),
            check_pointers: number("NCCL_CHECK_POINTERS").is_some_and(|n| n != 0),
            seed: number("COLLSPEC_SOFT_SEED"),
            eager_bytes: number("COLLSPEC_SOFT_EAGER").map_or(0, |n| usize::try_from(n).unwrap_or(usize::MAX)),
            manner: manner.unwrap_or_default(),
            windows: number("NCCL_WIN_ENABLE") != Some(0) && number("NCCL_P2P_DISABLE").is_none_or(|n| n == 0),
            connect: connect.unwrap_or_default(),
            network: network.unwrap_or_default(),
            trace: word("COLLSPEC_SOFT_TRACE"),
            error: manner_error.or(connect_error).or(network_error),
        }
    }

    /// Elements of `size` bytes in one chunk.
    pub(crate) fn chunk_elements(&self, size: usize) -> usize {
        (self.buffer_bytes / SLOTS / size.max(1)).max(1)
    }

    /// Most bytes that a message of an operation has.
    pub(crate) fn largest_message(&self) -> usize {
        (self.buffer_bytes / SLOTS).max(size_of::<u64>())
    }

    /// The number of channels that an operation is dealt out to, if anything asks for more than one. More of them do not make software faster.
    pub(crate) fn channels(&self, config: CommConfig) -> Option<usize> {
        self.min_channels.max(self.min_ctas.or(config.min_ctas)).filter(|n| *n > 1).map(|n| n.min(MAX_CHANNELS))
    }
}

/// The fields of a communicator's configuration for one-sided operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OneSided {
    /// `numRmaCtx`.
    pub contexts: Option<u32>,
    /// `numRmaSig`.
    pub signals: Option<u32>,
    /// `rmaEagerInit`.
    pub eager: Option<bool>,
}

impl OneSided {
    /// The number of contexts, and of signal indices in each.
    pub(crate) fn limits(self) -> (u32, u32) {
        (self.contexts.unwrap_or(1), self.signals.unwrap_or(1))
    }
}

/// The fields of a communicator's configuration that mean something to this library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommConfig {
    /// `minCTAs`.
    pub min_ctas: Option<usize>,
    pub one_sided: OneSided,
    /// True if calls return before they are done.
    pub nonblocking: bool,
}

impl CommConfig {
    /// The same; the environment takes precedence over what it says of blocking.
    pub(crate) fn in_environment(self) -> Self {
        Self { nonblocking: settings().blocking.map_or(self.nonblocking, |blocking| !blocking), ..self }
    }

    /// The configuration of a communicator that was created without one.
    pub(crate) fn unset() -> Self {
        Self::default().in_environment()
    }
}

/// The largest number of channels that NCCL creates.
const MAX_CHANNELS: usize = 64;

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

    fn settings(variables: &[(&str, &str)]) -> Settings {
        let value =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let settings = Settings::from(value);
        assert_eq!(settings.error, None);
        settings
    }

    #[test]
    fn the_number_of_channels_is_the_larger_lower_bound() {
        let configured = |min_ctas| CommConfig { min_ctas, ..CommConfig::default() };
        let channels = |variables: &[(&str, &str)], config| settings(variables).channels(configured(config));
        let (min, ctas) = ("NCCL_MIN_NCHANNELS", "NCCL_MIN_CTAS");
        assert_eq!(channels(&[], None), None);
        assert_eq!(channels(&[], Some(5)), Some(5));
        assert_eq!(channels(&[(min, "4")], None), Some(4));
        assert_eq!(channels(&[(min, "4")], Some(5)), Some(5));
        assert_eq!(channels(&[(ctas, "3")], Some(5)), Some(3));
        assert_eq!(channels(&[(min, "0")], None), None);
        assert_eq!(channels(&[(min, "1")], Some(1)), None);
        assert_eq!(channels(&[(min, "1000")], None), Some(64));
    }
}
