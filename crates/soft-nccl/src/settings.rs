//! Settings that the library reads from its environment, once per process.
use crate::algo::{Algorithms, Buffers, Channels, Protocol, Protocols, Threads};
use crate::arith::Manner;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

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
    /// NCCL_LL_BUFFSIZE and NCCL_LL128_BUFFSIZE: the same for these protocols, where ranks are on machines.
    pub ll_buffer_bytes: usize,
    /// See there.
    pub ll128_buffer_bytes: usize,
    /// NCCL_NTHREADS: threads of a channel, where ranks are on machines; large operations use more channels.
    pub threads: Option<usize>,
    /// NCCL_LL128_NTHREADS: the same for LL128.
    pub ll128_threads: Option<usize>,
    /// NCCL_MIN_NCHANNELS: the number of channels that an operation may use at least, 1 to 64. Unset, a ring has one, and a double tree
    /// has one for each tree. All ranks must have the same number.
    pub min_channels: Option<usize>,
    /// NCCL_MAX_NCHANNELS: limit on the channels that a communicator has by default; the lower bound takes precedence.
    pub max_channels: Option<usize>,
    /// NCCL_MIN_CTAS, which takes precedence over a communicator's configuration and is a lower bound for its channels.
    pub min_ctas: Option<usize>,
    /// NCCL_MAX_CTAS, likewise an upper bound.
    pub max_ctas: Option<usize>,
    /// COLLSPEC_SOFT_RANKS_PER_NODE: the world's ranks are on machines of this many each, and rings, trees, channels and chunks are those
    /// that NCCL has on such machines. Unset, there are no machines.
    pub ranks_per_node: Option<usize>,
    /// NCCL_HOSTID, as a number: where ranks are on machines, those of this process are on this one.
    pub host: Option<u64>,
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
    /// NCCL_COMM_ID: the address of rank 0, by which processes find each other that have not been given an id.
    pub comm_id: Option<String>,
    /// NCCL_SOCKET_RETRY_CNT: attempts to find it.
    pub connect_attempts: u32,
    /// NCCL_SOCKET_RETRY_SLEEP_MSEC: by how much NCCL's pauses between them grow.
    pub connect_pause: Duration,
    /// COLLSPEC_SOFT_FAULT: the fault to have, the same in all processes of a communicator. An error in it makes every communicator
    /// fail.
    pub injection: Option<String>,
    /// COLLSPEC_SOFT_TRACE: the file to which every message between ranks is appended.
    pub trace: Option<String>,
    /// The error in COLLSPEC_SOFT_ARITHMETIC, _CONNECT, _NETWORK or _RANKS_PER_NODE, if there is one; every communicator then fails.
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
            ll_buffer_bytes: Buffers::STANDARD.ll,
            ll128_buffer_bytes: Buffers::STANDARD.ll128,
            threads: None,
            ll128_threads: None,
            min_channels: None,
            max_channels: None,
            min_ctas: None,
            max_ctas: None,
            ranks_per_node: None,
            host: None,
            blocking: None,
            check_pointers: false,
            seed: None,
            eager_bytes: 0,
            manner: Manner::default(),
            windows: true,
            connect: Connect::Init,
            network: Network::Machine,
            comm_id: None,
            connect_attempts: 34,
            connect_pause: Duration::from_millis(100),
            injection: None,
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
        let comm_id = word("NCCL_COMM_ID");
        // Processes that find each other by an address may be on several machines.
        let usual = if comm_id.is_some() { Network::Machines } else { Network::Machine };
        let network = word("COLLSPEC_SOFT_NETWORK").map_or(Ok(usual), |text| Network::parse(&text));
        let network_error = network.as_ref().err().cloned();
        let ranks_per_node = word(RANKS_PER_NODE).map(|text| ranks_per_node(&text)).transpose();
        let node_error = ranks_per_node.as_ref().err().cloned();
        let ranks_per_node = ranks_per_node.unwrap_or_default();
        let size = |name: &str| number(name).map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let standard_bytes = if ranks_per_node.is_some() { Buffers::STANDARD.simple } else { standard.buffer_bytes };
        let positive = |name: &str| number(name).filter(|n| *n > 0).map(|n| n.min(MAX_CHANNELS as u64) as usize);
        Self {
            algorithms: get("NCCL_ALGO").map_or(standard.algorithms, |text| Algorithms::parse(&text)),
            protocols: get("NCCL_PROTO").map_or(standard.protocols, |text| Protocols::parse(&text)),
            buffer_bytes: size("NCCL_BUFFSIZE").unwrap_or(standard_bytes),
            ll_buffer_bytes: size("NCCL_LL_BUFFSIZE").unwrap_or(standard.ll_buffer_bytes),
            ll128_buffer_bytes: size("NCCL_LL128_BUFFSIZE").unwrap_or(standard.ll128_buffer_bytes),
            threads: size("NCCL_NTHREADS"),
            ll128_threads: size("NCCL_LL128_NTHREADS"),
            min_channels: number("NCCL_MIN_NCHANNELS").map(|n| n.clamp(1, MAX_CHANNELS as u64) as usize),
            max_channels: number("NCCL_MAX_NCHANNELS").map(|n| n.clamp(1, MAX_CHANNELS as u64) as usize),
            min_ctas: positive("NCCL_MIN_CTAS"),
            max_ctas: positive("NCCL_MAX_CTAS"),
            ranks_per_node,
            host: get("NCCL_HOSTID").filter(|text| !text.is_empty()).map(|text| {
                let mut hasher = DefaultHasher::new();
                text.hash(&mut hasher);
                hasher.finish()
            }),
            blocking: number("NCCL_COMM_BLOCKING").filter(|n| *n < 2).map(|n| n == 1),
            check_pointers: number("NCCL_CHECK_POINTERS").is_some_and(|n| n != 0),
            seed: number("COLLSPEC_SOFT_SEED"),
            eager_bytes: number("COLLSPEC_SOFT_EAGER").map_or(0, |n| usize::try_from(n).unwrap_or(usize::MAX)),
            manner: manner.unwrap_or_default(),
            windows: number("NCCL_WIN_ENABLE") != Some(0) && number("NCCL_P2P_DISABLE").is_none_or(|n| n == 0),
            connect: connect.unwrap_or_default(),
            network: network.unwrap_or_default(),
            connect_attempts: number("NCCL_SOCKET_RETRY_CNT")
                .map_or(standard.connect_attempts, |n| n.min(MOST_ATTEMPTS) as u32),
            connect_pause: number("NCCL_SOCKET_RETRY_SLEEP_MSEC")
                .map_or(standard.connect_pause, |n| Duration::from_millis(n.clamp(1, LONGEST_PAUSE))),
            comm_id,
            injection: word("COLLSPEC_SOFT_FAULT"),
            trace: word("COLLSPEC_SOFT_TRACE"),
            error: manner_error.or(connect_error).or(node_error).or(network_error),
        }
    }

    /// Elements of `size` bytes in one chunk.
    pub(crate) fn chunk_elements(&self, protocol: Protocol, size: usize) -> usize {
        (protocol.data(self.buffer_bytes / SLOTS) / size.max(1)).max(1)
    }

    /// The buffers of a channel on machines.
    pub(crate) fn buffers(&self) -> Buffers {
        Buffers { simple: self.buffer_bytes, ll: self.ll_buffer_bytes, ll128: self.ll128_buffer_bytes }
    }

    /// The number of the machine of a world's rank; 0 without machines.
    pub(crate) fn machine(&self, rank: usize) -> u64 {
        self.ranks_per_node.map_or(0, |ranks| self.host.unwrap_or((rank / ranks) as u64))
    }

    /// The threads of a channel on machines.
    pub(crate) fn threads(&self) -> Threads {
        Threads::of(self.threads, self.ll128_threads)
    }

    /// Most bytes that a message of an operation has.
    pub(crate) fn largest_message(&self) -> usize {
        let plain = (self.buffer_bytes / SLOTS).max(size_of::<u64>());
        if self.ranks_per_node.is_some() { plain.max(self.buffers().largest_chunk()) } else { plain }
    }

    /// The total time of NCCL's attempts to reach rank 0, of which each waits longer than the previous one.
    pub(crate) fn connecting(&self) -> Duration {
        self.connect_pause * (self.connect_attempts * (self.connect_attempts + 1) / 2)
    }

    /// The bounds on the thread blocks of a communicator with this configuration: the environment takes precedence over it.
    fn ctas(&self, config: Ctas) -> (usize, usize) {
        let max = self.max_ctas.or(config.max).unwrap_or(MAX_CHANNELS).min(MAX_CHANNELS);
        (self.min_ctas.or(config.min).unwrap_or(1).min(max), max)
    }

    /// The channels of a communicator on machines. It has two by default, one for each tree; then the upper bounds apply, and
    /// then the lower ones, for which channels are copied.
    pub(crate) fn channels(&self, config: Ctas) -> Channels {
        let (min_ctas, max_ctas) = self.ctas(config);
        let distinct = OWN_CHANNELS.min(self.max_channels.unwrap_or(MAX_CHANNELS)).min(max_ctas);
        Channels { number: distinct.max(self.min_channels.unwrap_or(1)).max(min_ctas), distinct }
    }

    /// Upper bound on the channels of an operation, without machines. More channels do not make software faster, so a lower bound is
    /// the number, and an upper bound alone matters only if it leaves no second channel to a double tree.
    pub(crate) fn channels_without_machines(&self, config: Ctas) -> Option<usize> {
        let (min_ctas, max_ctas) = self.ctas(config);
        let min_ctas = Some(min_ctas).filter(|n| *n > 1);
        let single = max_ctas.min(self.max_channels.unwrap_or(MAX_CHANNELS)) == 1;
        self.min_channels.max(min_ctas).or(single.then_some(1))
    }
}

/// The fields of a communicator's configuration that affect operations: bounds on its thread blocks (`minCTAs`, `maxCTAs`), and
/// the resources for one-sided operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ctas {
    pub min: Option<usize>,
    pub max: Option<usize>,
    pub one_sided: OneSided,
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
    pub ctas: Ctas,
    /// True if calls return before they are done.
    pub nonblocking: bool,
}

impl CommConfig {
    /// The configuration with these fields; the environment takes precedence over them.
    pub(crate) fn new(ctas: Ctas, nonblocking: bool) -> Self {
        Self { ctas, nonblocking: settings().blocking.map_or(nonblocking, |blocking| !blocking) }
    }

    /// The configuration of a communicator that was created without one.
    pub(crate) fn unset() -> Self {
        Self::new(Ctas::default(), false)
    }
}

const RANKS_PER_NODE: &str = "COLLSPEC_SOFT_RANKS_PER_NODE";

fn ranks_per_node(text: &str) -> Result<usize, String> {
    let number = text.trim().parse().ok().filter(|n| *n > 0);
    number.ok_or_else(|| format!("{RANKS_PER_NODE}: `{}` is not a whole number of 1 or more", text.escape_debug()))
}

/// Number of channels that a communicator on machines has by default.
const OWN_CHANNELS: usize = 2;

/// Bounds on NCCL_SOCKET_RETRY_CNT, and on NCCL_SOCKET_RETRY_SLEEP_MSEC.
const MOST_ATTEMPTS: u64 = 1000;
const LONGEST_PAUSE: u64 = 60_000;

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

    const FREE: Ctas =
        Ctas { min: None, max: None, one_sided: OneSided { contexts: None, signals: None, eager: None } };

    #[test]
    fn the_lower_bound_is_the_number_of_channels_and_goes_before_the_upper_one() {
        let channels = |variables: &[(&str, &str)]| settings(variables).channels_without_machines(FREE);
        let (min, max) = ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS");
        assert_eq!(channels(&[]), None);
        assert_eq!(channels(&[(min, "4")]), Some(4));
        assert_eq!(channels(&[(min, "4"), (max, "2")]), Some(4));
        assert_eq!(channels(&[(min, "0")]), Some(1));
        assert_eq!(channels(&[(min, "1000")]), Some(64));
        assert_eq!(channels(&[(max, "1")]), Some(1));
        assert_eq!(channels(&[(max, "16")]), None);
        assert_eq!(channels(&[("NCCL_MIN_CTAS", "3")]), Some(3));
        assert_eq!(channels(&[("NCCL_MAX_CTAS", "1")]), Some(1));
    }

    #[test]
    fn a_configuration_bounds_channels_where_the_environment_does_not() {
        let channels = |variables: &[(&str, &str)], min, max| {
            let Channels { number, distinct } = settings(variables).channels(Ctas { min, max, ..FREE });
            (number, distinct)
        };
        assert_eq!(channels(&[], None, None), (2, 2));
        assert_eq!(channels(&[], Some(5), None), (5, 2));
        assert_eq!(channels(&[], None, Some(1)), (1, 1));
        assert_eq!(channels(&[("NCCL_MIN_CTAS", "3")], Some(5), None), (3, 2));
        assert_eq!(channels(&[("NCCL_MIN_CTAS", "0")], Some(5), None), (5, 2));
        assert_eq!(channels(&[("NCCL_MAX_CTAS", "8")], None, Some(1)), (2, 2));
        assert_eq!(channels(&[("NCCL_MAX_CTAS", "4")], Some(5), None), (4, 2), "both are then the upper one");
        assert_eq!(channels(&[("NCCL_MIN_NCHANNELS", "6")], Some(5), Some(5)), (6, 2));
        assert_eq!(channels(&[("NCCL_MIN_NCHANNELS", "6"), ("NCCL_MAX_NCHANNELS", "1")], None, None), (6, 1));
    }

    #[test]
    fn machines_have_nccls_buffers_unless_they_are_set() {
        assert_eq!(settings(&[]).buffer_bytes, DEFAULT_BUFFER);
        let machines = settings(&[("COLLSPEC_SOFT_RANKS_PER_NODE", " 8 ")]);
        assert_eq!((machines.ranks_per_node, machines.buffers()), (Some(8), Buffers::STANDARD));
        let (ll, simple) = (("NCCL_LL_BUFFSIZE", "1024"), ("NCCL_BUFFSIZE", "65536"));
        let buffers = settings(&[("COLLSPEC_SOFT_RANKS_PER_NODE", "1"), ll, simple]).buffers();
        assert_eq!(buffers, Buffers { simple: 65536, ll: 1024, ..Buffers::STANDARD });
        for wrong in ["0", "-1", "two"] {
            let settings = Settings::from(|name| (name == "COLLSPEC_SOFT_RANKS_PER_NODE").then(|| wrong.to_owned()));
            let error = settings.error.unwrap_or_default();
            assert!(error.contains(&format!("`{wrong}` is not a whole number")), "{error}");
        }
    }
}
