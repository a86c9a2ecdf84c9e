//! What a topology says of GPUs and network adapters, and where it contradicts itself.
use super::element::Element;
use super::kinds::{GpuKind, LinkLayer, MOST_GPUS, MOST_LINKS, MOST_NICS, MachineError};
use std::collections::HashMap;
use std::fmt;
use std::path::Path;

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Its PCI address.
    pub bus: String,
    /// Its NVLinks, to all switches and GPUs together.
    pub nvlinks: u32,
    /// Network adapters may reach its memory.
    pub gpudirect: bool,
}

/// A network adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// `mlx5_0`
    pub name: String,
    /// Its PCI address.
    pub bus: String,
    /// In Gb/s.
    pub speed: u32,
    /// InfiniBand or RoCE.
    pub link: LinkLayer,
}

impl fmt::Display for Nic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let link = if self.link == LinkLayer::InfiniBand { "ib" } else { "roce" };
        write!(f, "{}@{}@{}@{link}", self.name, self.bus, self.speed)
    }
}

/// What a topology says.
pub(super) struct Facts {
    pub capability: (u32, u32),
    pub gpus: Vec<Gpu>,
    pub nics: Vec<Nic>,
}

/// The most elements of a file. NCCL reads no more when it describes one machine.
const MOST_ELEMENTS: usize = 256;
/// Compute capabilities, as in `sm="90"`.
const LEAST_SM: u32 = 50;
const MOST_SM: u32 = 199;
/// The class of network controllers that are Ethernet, and of GPUs, as far as NCCL looks at them.
const ETHERNET: &str = "0x0200";
/// The GUID of an adapter for sockets is its number.
const LAST_GUID_OF_SOCKETS: u64 = 0xffff;

/// Reads the tree of a file, whose link layer is this one or what the classes of its adapters say.
pub(super) fn of(path: &Path, system: &Element, link_layer: Option<LinkLayer>) -> Result<Facts, MachineError> {
    let mut reader =
        FactReader { path, link_layer, seen: HashMap::new(), sms: Vec::new(), gpus: Vec::new(), nics: Vec::new() };
    let mut outcome = Ok(());
    let mut elements = 0;
    system.walk(&mut |element, around| {
        elements += 1;
        if outcome.is_ok() {
            outcome = reader.read(element, around);
        }
    });
    outcome?;
    let FactReader { sms, gpus, nics, .. } = reader;
    let at = |line: usize, why: String| Err(MachineError::at(path, line, why));
    if elements > MOST_ELEMENTS {
        return at(system.line.max(1), format!("it has {elements} elements, and NCCL reads at most {MOST_ELEMENTS}"));
    }
    let Some((first, _)) = sms.first() else { return at(system.line.max(1), "there is no <gpu> in it".to_owned()) };
    if let Some((sm, line)) = sms.iter().find(|(sm, _)| sm != first) {
        return at(*line, format!("sm={sm}, and the GPU before it has {first}: all software GPUs are of one kind"));
    }
    if gpus.len() > MOST_GPUS || nics.len() > MOST_NICS {
        let why = format!(
            "{} GPUs and {} network adapters; at most {MOST_GPUS} and {MOST_NICS} can be",
            gpus.len(),
            nics.len()
        );
        return at(system.line.max(1), why);
    }
    Ok(Facts { capability: (first / 10, first % 10), gpus, nics })
}

struct FactReader<'a> {
    path: &'a Path,
    link_layer: Option<LinkLayer>,
    /// The lines of PCI addresses and of adapters' names.
    seen: HashMap<String, usize>,
    /// Compute capabilities, with their lines.
    sms: Vec<(u32, usize)>,
    gpus: Vec<Gpu>,
    nics: Vec<Nic>,
}

impl FactReader<'_> {
    fn read(&mut self, element: &Element, around: &[&Element]) -> Result<(), MachineError> {
        let (line, path) = (element.line, self.path);
        let wrong = |why: String| MachineError::at(path, line, why);
        let number = |key: &str, most: u32| {
            let text = element.get(key).ok_or_else(|| wrong(format!("<{}> has no {key}", element.name)))?;
            let found = text.parse().ok().filter(|number| *number <= most);
            found.ok_or_else(|| wrong(format!("{key}={text:?} is not a number from 0 to {most}")))
        };
        let place = || around.iter().rev().find(|outer| outer.name == "pci").and_then(|outer| outer.get("busid"));
        match element.name.as_str() {
            "cpu" => {
                number("numaid", 1 << 16)?;
                element.get("arch").ok_or_else(|| wrong("<cpu> has no arch".to_owned()))?;
            }
            "pci" => {
                let bus = element.get("busid").ok_or_else(|| wrong("<pci> has no busid".to_owned()))?;
                if !is_bus(bus) {
                    return Err(wrong(format!("busid={bus:?} is not a PCI address such as 0000:1b:00.0")));
                }
                self.once(plain_bus(bus), line)?;
            }
            "gpu" => {
                let bus = place().ok_or_else(|| wrong("<gpu> is in no <pci>".to_owned()))?;
                let sm = number("sm", MOST_SM)?;
                if sm < LEAST_SM {
                    return Err(wrong(format!("sm={sm}: NCCL runs on {LEAST_SM} and above")));
                }
                // The device of a PCI address is one software GPU.
                self.once(format!("the GPU at {}", plain_bus(bus).split('.').next().unwrap_or_default()), line)?;
                self.sms.push((sm, line));
                let gpudirect = element.get("gdr") == Some("1");
                let mut nvlinks = 0;
                for link in element.children_named("nvlink") {
                    let count = link.get("count").and_then(|text| text.parse::<u32>().ok());
                    nvlinks += count.filter(|count| *count <= MOST_LINKS).unwrap_or(MOST_LINKS + 1);
                    if nvlinks > MOST_LINKS {
                        let why = format!("a GPU has at most {MOST_LINKS} NVLinks");
                        return Err(MachineError::at(path, link.line, why));
                    }
                }
                self.gpus.push(Gpu { bus: plain_bus(bus), nvlinks, gpudirect });
            }
            "net" => {
                let name = element.get("name").ok_or_else(|| wrong("<net> has no name".to_owned()))?;
                let guid =
                    element.get("guid").and_then(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok());
                // Adapters for sockets, and those that NCCL has merged of several.
                let is_real = guid.is_none_or(|guid| guid > LAST_GUID_OF_SOCKETS) && !name.contains('+');
                let is_plain = !name.is_empty()
                    && name.len() < 64
                    && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
                let Some(bus) = place().filter(|_| is_real) else { return Ok(()) };
                if !is_plain {
                    return Err(wrong(format!("name={name:?}: an adapter's name has letters, digits and _ - .")));
                }
                self.once(name.to_owned(), line)?;
                let speed = number("speed", 10_000_000)?;
                if speed < 1000 {
                    return Err(wrong(format!("speed={speed}: it is in Mb/s, and the slowest adapter has 1000")));
                }
                let class = around.iter().rev().find_map(|outer| outer.get("class")).unwrap_or_default();
                let by_class = if class.starts_with(ETHERNET) { LinkLayer::Ethernet } else { LinkLayer::InfiniBand };
                let link = self.link_layer.unwrap_or(by_class);
                self.nics.push(Nic { name: name.to_owned(), bus: plain_bus(bus), speed: speed / 1000, link });
            }
            _ => {}
        }
        Ok(())
    }

    fn once(&mut self, what: String, line: usize) -> Result<(), MachineError> {
        match self.seen.insert(what.clone(), line) {
            None => Ok(()),
            Some(before) => {
                Err(MachineError::at(self.path, line, format!("{what} is there already, in line {before}")))
            }
        }
    }
}

/// True for `0000:1b:00.0`: domain, bus, slot and function in hexadecimal.
fn is_bus(text: &str) -> bool {
    let parts: Vec<&str> = text.split([':', '.']).collect();
    let most = [0xffff_u32, 0xff, 0x1f, 0x7];
    let fits = |(part, most): (&&str, u32)| {
        let is_hexadecimal = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hexadecimal && u32::from_str_radix(part, 16).is_ok_and(|number| number <= most)
    };
    parts.len() == most.len() && text.matches(':').count() == 2 && parts.iter().zip(most).all(fits)
}

/// The cores of that machine are not those of this one, on which NCCL's threads may run anywhere. Without the attribute NCCL looks at this machine for some
/// of the CPUs, and then takes two descriptions of one for two (2.30.7).
pub(super) const ALL_CORES: &str = "ffffffff,ffffffff,ffffffff,ffffffff,ffffffff,ffffffff,ffffffff,ffffffff";

/// The address in one spelling: `0:1B:00.0` is `0000:1b:00.0`.
fn plain_bus(text: &str) -> String {
    let (domain, rest) = text.split_once(':').unwrap_or_default();
    format!("{domain:0>4}:{rest}").to_lowercase()
}

/// Numbers GPUs and adapters in the order of the file, as software GPUs are. In a file of a process that saw one GPU of several, each is 0.
pub(super) fn renumber(system: &mut Element) {
    fn inner(at: &mut Element, gpus: &mut usize, nets: &mut usize) {
        let count = match at.name.as_str() {
            "gpu" => Some(&mut *gpus),
            "net" => Some(&mut *nets),
            _ => None,
        };
        if let Some(count) = count {
            at.set("dev", &count.to_string());
            *count += 1;
        }
        // Every node has these adapters, and a GUID must differ.
        at.attributes.retain(|(key, _)| key != "guid");
        if at.name == "system" {
            at.set("version", "1");
        }
        if at.name == "cpu" {
            at.set("affinity", ALL_CORES);
        }
        at.children.iter_mut().for_each(|child| inner(child, gpus, nets));
    }
    inner(system, &mut 0, &mut 0);
}

/// What the GPUs of a compute capability usually are; a topology does not say.
pub(super) fn usual_gpu((major, minor): (u32, u32)) -> GpuKind {
    // NVIDIA's data sheets.
    let (name, multiprocessors, gib) = match (major, minor) {
        (7, 0) => ("NVIDIA V100", 80, 32),
        (7, _) => ("NVIDIA T4", 40, 16),
        (8, 0) => ("NVIDIA A100", 108, 80),
        (8, 6) => ("NVIDIA A40", 84, 48),
        (8, _) => ("NVIDIA L40S", 142, 48),
        (9, _) => ("NVIDIA H100", 132, 80),
        (10, 0) => ("NVIDIA B200", 148, 180),
        (10, _) => ("NVIDIA B300", 160, 270),
        _ => ("NVIDIA RTX PRO 6000 Blackwell", 188, 96),
    };
    GpuKind { name: name.to_owned(), multiprocessors, memory: gib << 30 }
}
