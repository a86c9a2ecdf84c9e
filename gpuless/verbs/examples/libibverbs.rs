//! A shared library to preload into programs that use libibverbs, with network cards from variables:
//!
//! ```console
//! $ cargo build --package gpuless-verbs --example libibverbs
//! $ export LD_PRELOAD=target/debug/examples/liblibibverbs.so GPULESS_VERBS_NICS=mlx5_0
//! $ ibv_rc_pingpong -d mlx5_0 &
//! $ ibv_rc_pingpong -d mlx5_0 localhost
//! ```
//!
//! | variable | what it sets |
//! |---|---|
//! | GPULESS_VERBS_NICS | the cards: `mlx5_0,mlx5_1@0000:81:00.0` |
//! | GPULESS_VERBS_NODE | the name of the node |
//! | GPULESS_VERBS_FABRIC | the name of the network |
//! | GPULESS_VERBS_LINK | `roce`; InfiniBand without it |
//! | GPULESS_VERBS_SPEED | gigabits per second that ports say they have; 400 without it |
//! | GPULESS_VERBS_RETRY_MS | the retry time, in milliseconds |
//! | GPULESS_VERBS_FAULT | a fault, and the message at which it strikes: `lost-write:3`; some have a time in milliseconds: `port-down:3:500` |

use gpuless_verbs::faults::{self, Fault, Kind};
use gpuless_verbs::{LinkLayer, Nic, Settings, configure, function};
use std::env;
use std::time::Duration;

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// `port-down:3:500` as a fault. None: there is none of that name.
fn fault(text: &str) -> Option<Fault> {
    let mut parts = text.split(':');
    let name = parts.next()?;
    let at = parts.next().map_or(Some(1), |at| at.parse().ok())?;
    let given = parts.next().and_then(|time| time.parse().ok()).map(Duration::from_millis);
    let time = given.unwrap_or(Duration::from_secs(1));
    let kind = match name {
        "retry-exceeded" => Kind::RetryExceeded,
        "port-down" => Kind::PortDown { time: given },
        "queue-pair" => Kind::QueuePairFatal,
        "completion-queue" => Kind::CompletionQueueError,
        "device" => Kind::DeviceFatal,
        "late-send" => Kind::LateSend { time },
        "late-completion" => Kind::LateCompletion { time },
        "lost-write" => Kind::LostWrite,
        "flipped-bit" => Kind::FlippedBit,
        "repeated-write" => Kind::RepeatedWrite { after: time },
        "reordered-writes" => Kind::ReorderedWrites,
        "unreachable" => Kind::Unreachable,
        _ => return None,
    };
    Some(Fault { kind, nic: None, at, seed: 1 })
}

extern "C" fn set_up() {
    let speed = variable("GPULESS_VERBS_SPEED").and_then(|speed| speed.parse().ok()).unwrap_or(400);
    let is_roce = variable("GPULESS_VERBS_LINK").is_some_and(|link| link == "roce");
    let link = if is_roce { LinkLayer::Ethernet } else { LinkLayer::InfiniBand };
    let nics = variable("GPULESS_VERBS_NICS").unwrap_or_default();
    let nics = nics.split(',').filter(|nic| !nic.is_empty()).enumerate().map(|(index, nic)| {
        let (name, bus) = nic
            .split_once('@')
            .map_or_else(|| (nic, format!("0000:{:02x}:00.0", 0x80 + index)), |(name, bus)| (name, bus.to_owned()));
        Nic { name: name.to_owned(), bus, speed, link }
    });
    let settings = Settings {
        nics: nics.collect(),
        node: variable("GPULESS_VERBS_NODE").unwrap_or_default(),
        fabric: variable("GPULESS_VERBS_FABRIC").unwrap_or_default(),
        retry_time: variable("GPULESS_VERBS_RETRY_MS").and_then(|time| time.parse().ok()).map(Duration::from_millis),
    };
    // A program that has set the library up itself keeps its settings.
    _ = configure(settings);
    if let Some(text) = variable("GPULESS_VERBS_FAULT") {
        match fault(&text) {
            Some(fault) => faults::begin(Some(fault), |words| eprintln!("gpuless-verbs: {words}")),
            None => eprintln!("gpuless-verbs: {text} is no fault"),
        }
    }
    // The library's functions are exported because this one can find them.
    assert!(function("ibv_get_device_list").is_some());
}

/// Called by the loader, before any function of the program.
#[used]
#[unsafe(link_section = ".init_array")]
static SET_UP: extern "C" fn() = set_up;
