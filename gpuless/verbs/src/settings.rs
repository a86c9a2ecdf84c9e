//! What there is: network cards, the node that they belong to, and the network between the nodes.

use crate::lock::lock;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

/// The network cards of this process, and the network that they are connected to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub nics: Vec<Nic>,
    /// Name of the machine that this process plays. Cards of nodes with different names have different GUIDs and LIDs.
    pub node: String,
    /// Name of the network: processes of one user with the same name reach each other. Empty: one for all processes of the user.
    pub fabric: String,
    /// After how long without an answer a request fails, whatever the attributes of its queue pair say.
    pub retry_time: Option<Duration>,
}

/// A network card with one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// The device's name: `mlx5_0`.
    pub name: String,
    /// Its place on the PCI bus: `0000:80:00.0`.
    pub bus: String,
    /// Gigabits per second that its port says it has. Nothing is slowed down to them.
    pub speed: u32,
    pub link: LinkLayer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkLayer {
    InfiniBand,
    /// RoCE, versions 1 and 2.
    Ethernet,
}

/// In which order the bytes of a write become visible at its target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrival {
    /// From the first to the last.
    #[default]
    InOrder,
    /// Each write's lines are stored in random order, with pauses: adaptive routing and PCI's relaxed ordering may do that. `bytes` is
    /// the length of a line; the bytes of one stay in order.
    ShuffledLines { bytes: usize, seed: u64 },
}

static ARRIVAL: Mutex<Arrival> = Mutex::new(Arrival::InOrder);

/// Sets how writes of other processes arrive in this one from now on.
pub fn set_arrival(arrival: Arrival) {
    *lock(&ARRIVAL) = arrival;
}

/// How they arrive now.
pub(crate) fn arrival() -> Arrival {
    *lock(&ARRIVAL)
}

/// The library has its settings already, or has been used without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the network cards are already in use")]
pub struct AlreadyConfigured;

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// Sets what `ibv_get_device_list` will find.
///
/// # Errors
///
/// A function of the library has been called, or this one before.
pub fn configure(settings: Settings) -> Result<(), AlreadyConfigured> {
    SETTINGS.set(settings).map_err(|_| AlreadyConfigured)
}

/// The settings, which are final from now on.
pub fn settings() -> &'static Settings {
    SETTINGS.get_or_init(Settings::default)
}

/// The settings if there are any: a look at files does not make them final.
pub fn configured() -> Option<&'static Settings> {
    SETTINGS.get()
}

/// FNV-1a: processes compute equal numbers from equal names.
pub fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
