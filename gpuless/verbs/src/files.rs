//! The files of `/sys` that programs look at for network cards. They exist only in what this module answers; a library that stands in
//! front of the C library's functions asks here first.

use crate::device::{Device, devices};
use crate::settings::{LinkLayer, Nic, configured};

/// Where a card's directory is said to be. NCCL replaces the digits of function and device in what follows.
const CARDS: &str = "/sys/devices/gpuless/";
const CLASS: &str = "/sys/class/infiniband/";

fn nic(name: &str) -> Option<&'static Nic> {
    configured()?.nics.iter().find(|nic| nic.name == name)
}

/// `realpath` of a path that belongs to a card. None: ask the machine.
pub fn real_path(path: &[u8]) -> Option<String> {
    let path = str::from_utf8(path).ok()?;
    if let Some(of_class) = path.strip_prefix(CLASS) {
        let card = nic(of_class.strip_suffix("/device")?)?;
        return Some(format!("{CARDS}{}", card.bus));
    }
    let in_card = path.strip_prefix(CARDS)?.strip_suffix("/subsystem")?;
    (configured().is_some() && !in_card.is_empty()).then(|| String::from("/sys/bus/pci"))
}

/// True for a file that says that GPUs and the cards reach each other's memory. False: ask the machine.
pub fn is_there(path: &[u8]) -> bool {
    path == b"/sys/module/nvidia_peermem/version" && configured().is_some_and(|settings| !settings.nics.is_empty())
}

/// The contents of a file that belongs to a card. None: ask the machine.
pub fn contents(path: &[u8]) -> Option<Vec<u8>> {
    let (name, file) = str::from_utf8(path).ok()?.strip_prefix(CLASS)?.split_once('/')?;
    let card = nic(name)?;
    let device = || -> Option<&Device> { devices().iter().find(|device| device.nic.name == name) };
    let text = match file {
        "node_guid" | "sys_image_guid" => {
            let [a, b, c, d, e, f, g, h] = device()?.guid.to_be_bytes();
            format!("{a:02x}{b:02x}:{c:02x}{d:02x}:{e:02x}{f:02x}:{g:02x}{h:02x}\n")
        }
        "ports/1/link_layer" => {
            String::from(if card.link == LinkLayer::Ethernet { "Ethernet\n" } else { "InfiniBand\n" })
        }
        _ => {
            let index = file
                .strip_prefix("ports/1/gid_attrs/types/")?
                .parse()
                .ok()
                .filter(|index| *index < device().map_or(0, Device::gids))?;
            String::from(if device()?.gid_type(index) == 2 { "RoCE v2\n" } else { "IB/RoCE v1\n" })
        }
    };
    Some(text.into_bytes())
}
