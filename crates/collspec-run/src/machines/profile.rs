//! Reads a profile: a machine in a few lines of TOML, from which the topology is made.
use super::element::Element;
use super::facts::ALL_CORES;
use super::kinds::{GpuKind, LinkLayer, MOST_GPUS, MOST_JOINED_GPUS, MOST_LINKS, MOST_NICS, MachineError};
use serde::Deserialize;
use std::path::Path;
use toml::Spanned;

const MOST_SWITCHES: usize = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    #[serde(default)]
    sources: Vec<String>,
    gpu: Gpu,
    nvlink: Option<NvLink>,
    cpu: Cpu,
    nic: Option<Nic>,
    pci: Pci,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Gpu {
    name: String,
    capability: Spanned<String>,
    multiprocessors: Spanned<u32>,
    memory_gib: Spanned<u32>,
    gpudirect: bool,
    /// Bandwidth of the link to the CPU in MB/s, where that is not PCIe.
    c2c: Option<Spanned<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NvLink {
    /// Of each GPU.
    links: Spanned<u32>,
    switches: Spanned<u32>,
    /// The machines that the switches join to one NVLink domain: this one alone, unless it is said.
    nodes: Option<Spanned<usize>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cpu {
    arch: Spanned<Arch>,
    vendor: Option<Vendor>,
    family: Option<u32>,
    model: Option<u32>,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Arch {
    #[serde(rename = "x86_64")]
    X86,
    Arm64,
}

/// Those that NCCL tells apart.
#[derive(Clone, Copy, Debug, Deserialize)]
enum Vendor {
    GenuineIntel,
    AuthenticAMD,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nic {
    /// In Gb/s.
    speed: Spanned<u32>,
    link_layer: LinkLayer,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pci {
    speed: Spanned<String>,
    numa: Spanned<Vec<Vec<Group>>>,
}

/// What is below one PCIe switch, or at the CPU itself.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    #[serde(default)]
    gpus: u8,
    #[serde(default)]
    nics: u8,
    #[serde(default = "yes")]
    switch: bool,
}

fn yes() -> bool {
    true
}

/// The speeds that NCCL knows.
const SPEEDS: [&str; 6] =
    ["2.5 GT/s PCIe", "5.0 GT/s PCIe", "8.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe", "64.0 GT/s PCIe"];
/// The speeds of a port, in Gb/s.
const PORT_SPEEDS: [u32; 7] = [10, 25, 40, 100, 200, 400, 800];

/// What a profile says.
pub(super) struct Profile {
    pub title: String,
    pub sources: Vec<String>,
    pub gpu: GpuKind,
    pub link_layer: LinkLayer,
    pub joined_nodes: usize,
    pub topology: Element,
}

/// Reads a profile's text.
pub(super) fn read(path: &Path, text: &str) -> Result<Profile, MachineError> {
    let file: File = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        MachineError::at(path, line, error.message().to_owned())
    })?;
    let refuse = |at: std::ops::Range<usize>, why: String| MachineError::at(path, line_of(text, at.start), why);
    let wanted =
        |ok: bool, at: std::ops::Range<usize>, why: &str| if ok { Ok(()) } else { Err(refuse(at, why.to_owned())) };
    let File { title, sources, gpu, nvlink, cpu, nic, pci } = file;

    let capability = gpu.capability.get_ref().split_once('.').and_then(|(major, minor)| {
        let pair: (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
        Some(pair).filter(|(major, minor)| (5..100).contains(major) && *minor < 10)
    });
    let no_capability = || refuse(gpu.capability.span(), "expected a compute capability such as \"9.0\"".to_owned());
    let capability = capability.ok_or_else(no_capability)?;
    let (sms, memory) = (&gpu.multiprocessors, &gpu.memory_gib);
    wanted((1..=1024).contains(sms.get_ref()), sms.span(), "expected 1 to 1024 multiprocessors")?;
    wanted((1..=4096).contains(memory.get_ref()), memory.span(), "expected 1 to 4096 GiB")?;
    if let Some(NvLink { links, switches, .. }) = &nvlink {
        let fits = (1..=MOST_LINKS).contains(links.get_ref());
        wanted(fits, links.span(), &format!("a GPU has 1 to {MOST_LINKS} NVLinks"))?;
        let fits = (1..=*links.get_ref()).contains(switches.get_ref());
        wanted(fits, switches.span(), "a GPU has a link to each switch")?;
    }
    let is_x86 = *cpu.arch.get_ref() == Arch::X86;
    let is_named = cpu.vendor.is_some() && cpu.family.is_some() && cpu.model.is_some();
    wanted(!is_x86 || is_named, cpu.arch.span(), "an x86_64 has `vendor`, `family` and `model`")?;
    if let Some(nic) = &nic {
        let known = PORT_SPEEDS.contains(nic.speed.get_ref());
        wanted(known, nic.speed.span(), "expected 10, 25, 40, 100, 200, 400 or 800 Gb/s")?;
    }
    wanted(
        SPEEDS.contains(&pci.speed.get_ref().as_str()),
        pci.speed.span(),
        &format!("expected one of {}", SPEEDS.join(", ")),
    )?;
    let numa = &pci.numa;
    wanted(
        numa.get_ref().len() <= MOST_SWITCHES,
        numa.span(),
        &format!("expected at most {MOST_SWITCHES} NUMA nodes"),
    )?;
    let groups = || pci.numa.get_ref().iter().flatten();
    let (gpus, nics): (usize, usize) =
        (groups().map(|group| usize::from(group.gpus)).sum(), groups().map(|group| usize::from(group.nics)).sum());
    let at = || pci.numa.span();
    wanted((1..=MOST_GPUS).contains(&gpus), at(), &format!("expected 1 to {MOST_GPUS} GPUs; there are {gpus}"))?;
    let joined = nvlink.as_ref().and_then(|nvlink| nvlink.nodes.as_ref());
    if let Some(nodes) = joined {
        let fits = *nodes.get_ref() > 0 && nodes.get_ref().saturating_mul(gpus) <= MOST_JOINED_GPUS;
        wanted(fits, nodes.span(), &format!("an NVLink domain has 1 to {MOST_JOINED_GPUS} GPUs"))?;
    }
    wanted(nics <= MOST_NICS, at(), &format!("expected at most {MOST_NICS} network adapters; there are {nics}"))?;
    wanted(groups().count() <= MOST_SWITCHES, at(), &format!("expected at most {MOST_SWITCHES} switches"))?;
    wanted(
        (nics > 0) == nic.is_some(),
        at(),
        "network adapters need a [nic], which says what they are, and [nic] needs some",
    )?;

    let joined_nodes = joined.map_or(1, |nodes| *nodes.get_ref());
    let topology =
        Maker { gpu: &gpu, capability, nvlink: nvlink.as_ref(), cpu: &cpu, nic: nic.as_ref(), pci: &pci }.make();
    let memory = u64::from(*memory.get_ref()) << 30;
    let gpu = GpuKind { name: gpu.name, multiprocessors: *sms.get_ref(), memory };
    let link_layer = nic.map_or(LinkLayer::InfiniBand, |nic| nic.link_layer);
    Ok(Profile { title, sources, gpu, link_layer, joined_nodes, topology })
}

fn line_of(text: &str, position: usize) -> usize {
    text.bytes().take(position).filter(|byte| *byte == b'\n').count() + 1
}

/// The first buses of GPUs, PCIe switches, network adapters and NVSwitches. They differ on every machine, and say nothing.
const GPU_BUS: usize = 0x10;
const SWITCH_BUS: usize = 0x30;
const NIC_BUS: usize = 0x80;
const NVSWITCH_BUS: usize = 0xc0;

fn bus(first: usize, number: usize) -> String {
    format!("0000:{:02x}:00.0", first + number)
}

/// Makes the topology of a profile that was checked.
struct Maker<'a> {
    gpu: &'a Gpu,
    capability: (u32, u32),
    nvlink: Option<&'a NvLink>,
    cpu: &'a Cpu,
    nic: Option<&'a Nic>,
    pci: &'a Pci,
}

impl Maker<'_> {
    fn make(&self) -> Element {
        let mut system = Element::new("system", &[("version", "1")]);
        let (mut gpus, mut nics, mut switches) = (0, 0, 0);
        for (numa, groups) in self.pci.numa.get_ref().iter().enumerate() {
            let mut cpu = self.cpu(numa);
            for group in groups {
                let mut below: Vec<Element> =
                    (gpus..gpus + usize::from(group.gpus)).map(|number| self.gpu(number)).collect();
                below.extend((nics..nics + usize::from(group.nics)).map(|number| self.nic(number)));
                (gpus, nics) = (gpus + usize::from(group.gpus), nics + usize::from(group.nics));
                if group.switch {
                    // A switch of Broadcom's, whose two levels NCCL does not join.
                    let mut switch =
                        self.pci(&bus(SWITCH_BUS, switches), "0x060400", ["0x1000", "0xc030", "0x1000", "0x100b"]);
                    switch.children = below;
                    cpu.children.push(switch);
                    switches += 1;
                } else {
                    cpu.children.extend(below);
                }
            }
            system.children.push(cpu);
        }
        system
    }

    fn cpu(&self, numa: usize) -> Element {
        let arch = if *self.cpu.arch.get_ref() == Arch::X86 { "x86_64" } else { "arm64" };
        let mut cpu = Element::new("cpu", &[("numaid", &numa.to_string()), ("affinity", ALL_CORES), ("arch", arch)]);
        if let (Some(vendor), Some(family), Some(model)) = (self.cpu.vendor, self.cpu.family, self.cpu.model) {
            cpu.set("vendor", &format!("{vendor:?}"));
            cpu.set("familyid", &family.to_string());
            cpu.set("modelid", &model.to_string());
        }
        cpu
    }

    fn pci(&self, bus: &str, class: &str, [vendor, device, sub_vendor, sub_device]: [&str; 4]) -> Element {
        let attributes = [
            ("busid", bus),
            ("class", class),
            ("vendor", vendor),
            ("device", device),
            ("subsystem_vendor", sub_vendor),
            ("subsystem_device", sub_device),
            ("link_speed", self.pci.speed.get_ref()),
            ("link_width", "16"),
        ];
        Element::new("pci", &attributes)
    }

    fn gpu(&self, number: usize) -> Element {
        let mut place = self.pci(&bus(GPU_BUS, number), "0x030200", ["0x10de", "0x2330", "0x10de", "0x16c1"]);
        let sm = (self.capability.0 * 10 + self.capability.1).to_string();
        let gdr = if self.gpu.gpudirect { "1" } else { "0" };
        let mut gpu = Element::new("gpu", &[("dev", &number.to_string()), ("sm", &sm), ("gdr", gdr)]);
        if let Some(NvLink { links, switches, .. }) = self.nvlink {
            let (links, switches) = (*links.get_ref(), *switches.get_ref());
            for switch in 0..switches {
                // The remaining links go to the last switches.
                let more = u32::from(switch >= switches - links % switches);
                let target = bus(NVSWITCH_BUS, switch as usize);
                let count = (links / switches + more).to_string();
                gpu.children
                    .push(Element::new("nvlink", &[("target", &target), ("count", &count), ("tclass", "0x068000")]));
            }
        }
        if let Some(bandwidth) = &self.gpu.c2c {
            gpu.children.push(Element::new("c2c", &[("bw", &bandwidth.get_ref().to_string()), ("count", "1")]));
        }
        place.children.push(gpu);
        place
    }

    fn nic(&self, number: usize) -> Element {
        let (speed, link) = self.nic.map_or((0, LinkLayer::InfiniBand), |nic| (*nic.speed.get_ref(), nic.link_layer));
        let class = if link == LinkLayer::InfiniBand { "0x020700" } else { "0x020000" };
        let mut place = self.pci(&bus(NIC_BUS, number), class, ["0x15b3", "0x1021", "0x15b3", "0x0023"]);
        let gdr = if self.gpu.gpudirect { "1" } else { "0" };
        let mut nic = Element::new("nic", &[]);
        nic.children.push(Element::new(
            "net",
            &[
                ("name", &format!("mlx5_{number}")),
                ("dev", &number.to_string()),
                ("latency", "0"),
                ("speed", &(speed * 1000).to_string()),
                ("port", "1"),
                ("maxconn", "131072"),
                ("gdr", gdr),
            ],
        ));
        place.children.push(nic);
        place
    }
}
