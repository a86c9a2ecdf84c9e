//! A text that describes the devices, for a process that is started with it in a variable: `capability=9.0;nvlinks=18;...`.
use super::domain::NvLinkDomain;
use super::settings::{PciPlace, Settings};
use gpuless_verbs::{LinkLayer, Nic};
use std::str::FromStr;

/// The most devices: NCCL refuses to work with more.
const MOST_DEVICES: usize = 32;
/// The most NVLinks of a device: those of a B200.
const MOST_LINKS: u32 = 18;
/// More multiprocessors than a GPU has.
const MOST_MULTIPROCESSORS: u32 = 1 << 10;

/// A part of a description that has no meaning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// It is not NAME=VALUE, or the name is unknown.
    #[error("{part:?} is none of {}", names())]
    Unknown {
        /// The part.
        part: String,
    },
    /// The value has no meaning.
    #[error("{key}={value:?} is not {wanted}")]
    Value {
        /// The name.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it could be.
        wanted: &'static str,
    },
}

type Take = fn(&mut Settings, &str) -> Option<()>;

/// What can be described, how, and what the value is.
const KEYS: [(&str, &str, Take); 10] = [
    ("gpus", "PCI addresses with commas between them, each once", |settings, text| {
        let places: Vec<PciPlace> = text.split(',').map(PciPlace::parse).collect::<Option<_>>()?;
        let repeats = places.iter().enumerate().any(|(at, place)| places[..at].contains(place));
        if repeats || places.len() > MOST_DEVICES {
            return None;
        }
        (settings.devices, settings.places) = (places.len(), places);
        Some(())
    }),
    ("capability", "a compute capability such as 9.0", |settings, text| {
        let (major, minor) = text.split_once('.')?;
        let (major, minor) = (digits(major)?, digits(minor)?);
        settings.capability = Some((major, minor)).filter(|_| (1..100).contains(&major) && minor < 10)?;
        Some(())
    }),
    ("multiprocessors", "their number", |settings, text| {
        settings.multiprocessors = digits(text).filter(|count| (1..=MOST_MULTIPROCESSORS).contains(count))?;
        Some(())
    }),
    ("memory", "bytes", |settings, text| {
        settings.memory = text.parse().ok().filter(|bytes| *bytes > 0)?;
        Some(())
    }),
    ("nvlinks", "a number from 0 to 18", |settings, text| {
        settings.nvlinks = digits(text).filter(|count| *count <= MOST_LINKS)?;
        Some(())
    }),
    ("tray", "a machine's number in an NVLink domain, and the domain's name, such as 3@rack0", |settings, text| {
        let (tray, name) = text.split_once('@').filter(|(_, name)| !name.is_empty())?;
        settings.domain = Some(NvLinkDomain { name: name.to_owned(), tray: digits(tray)? });
        Some(())
    }),
    ("nics", "network adapters, such as mlx5_0@0000:80:00.0@400@ib, with commas between them", |settings, text| {
        settings.network.nics = text.split(',').map(nic).collect::<Option<_>>()?;
        Some(())
    }),
    ("node", "a name", |settings, text| {
        settings.network.node = text.to_owned();
        Some(())
    }),
    ("fabric", "a name", |settings, text| {
        settings.network.fabric = text.to_owned();
        Some(())
    }),
    ("gpudirect", "0 or 1", |settings, text| {
        settings.gpudirect = match text {
            "0" => false,
            "1" => true,
            _ => return None,
        };
        Some(())
    }),
];

fn names() -> String {
    KEYS.map(|(key, _, _)| format!("{key}=")).join(", ")
}

/// An adapter: name, PCI address, Gb/s and `ib` or `roce`.
fn nic(text: &str) -> Option<Nic> {
    let mut parts = text.split('@');
    let mut next = || parts.next().filter(|part| !part.is_empty());
    let (name, bus, speed) = (next()?.to_owned(), next()?.to_owned(), digits(next()?)?);
    let link = match next()? {
        "ib" => LinkLayer::InfiniBand,
        "roce" => LinkLayer::Ethernet,
        _ => return None,
    };
    PciPlace::parse(&bus)?;
    parts.next().is_none().then_some(Nic { name, bus, speed, link })
}

fn digits(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

impl FromStr for Settings {
    type Err = DescriptionError;

    /// The usual settings, with what the text says. What it does not name stays as usual.
    fn from_str(text: &str) -> Result<Self, DescriptionError> {
        let mut settings = Self::default();
        for part in text.split(';').filter(|part| !part.is_empty()) {
            let unknown = || DescriptionError::Unknown { part: part.to_owned() };
            let (name, value) = part.split_once('=').ok_or_else(unknown)?;
            let (key, wanted, take) = *KEYS.iter().find(|(key, _, _)| *key == name).ok_or_else(unknown)?;
            take(&mut settings, value).ok_or_else(|| DescriptionError::Value {
                key,
                value: value.to_owned(),
                wanted,
            })?;
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_text_names_is_set_and_the_rest_is_as_usual() {
        let text = "gpus=0000:1b:00.0,0000:43:00.0;capability=9.0;multiprocessors=132;nvlinks=18;tray=3@rack0;gpudirect=1;nics=a@0000:80:00.0@400@ib,b@0000:81:00.0@100@roce;node=n;fabric=f";
        let settings: Settings = text.parse().unwrap();
        let place = |bus| PciPlace { domain: 0, bus, slot: 0 };
        let described = Settings {
            devices: 2,
            places: vec![place(0x1b), place(0x43)],
            capability: (9, 0),
            multiprocessors: 132,
            nvlinks: 18,
            domain: Some(NvLinkDomain { name: "rack0".into(), tray: 3 }),
            gpudirect: true,
            network: gpuless_verbs::Settings {
                nics: vec![
                    Nic { name: "a".into(), bus: "0000:80:00.0".into(), speed: 400, link: LinkLayer::InfiniBand },
                    Nic { name: "b".into(), bus: "0000:81:00.0".into(), speed: 100, link: LinkLayer::Ethernet },
                ],
                node: "n".into(),
                fabric: "f".into(),
                ..Default::default()
            },
            ..Settings::default()
        };
        assert_eq!(settings, described);
        assert_eq!("".parse(), Ok(Settings::default()));
    }

    #[test]
    fn what_has_no_meaning_is_named() {
        for wrong in [
            "x",
            "x=1",
            "gpus=",
            "gpus=0000:1b:00.0,0000:1b:00.0",
            "capability=9",
            "capability=0.0",
            "multiprocessors=0",
            "memory=-1",
            "nvlinks=19",
            "nvlinks=+1",
            "tray=3",
            "tray=3@",
            "tray=-1@rack0",
            "gpudirect=yes",
            "nics=",
            "nics=mlx5_0@0000:80:00.0@400",
            "nics=mlx5_0@0000:80:00.0@400@ethernet",
            "nics=mlx5_0@here@400@ib",
        ] {
            let error = wrong.parse::<Settings>().unwrap_err().to_string();
            let key = wrong.split('=').next().unwrap_or_default();
            assert!(error.contains(key), "{wrong}: {error}");
        }
    }
}
