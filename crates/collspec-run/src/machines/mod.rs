//! The machines that software GPUs can be: profiles of this repository, those of users, and topology files that NCCL has written.
//!
//! A profile is made into a topology, and both are looked at in the same way: what a worker gets is what the topology says.
mod element;
mod facts;
mod kinds;
mod profile;
mod read;

pub use facts::{Gpu, Nic};
pub use kinds::{GpuKind, LinkLayer, MachineError};

use collspec_core::files;
use collspec_core::suggest::nearest;
use element::Element;
use std::fmt::Write;
use std::path::Path;

/// The profiles of this repository, by name.
macro_rules! profiles {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../machines/", $name, ".toml")))),*]
    };
}
const PROFILES: [(&str, &str); 7] =
    profiles!["dgx-a100", "dgx-h100", "dgx-h200", "gb200-nvl72", "hgx-b200", "pcie-l40s", "workstation"];

/// What software GPUs cannot be as on any machine.
pub const NOT_AS_ON_THE_MACHINE: [&str; 3] = ["kernels of the library's newest PTX", "no SHARP", "times mean nothing"];

/// A machine, as software GPUs and NCCL are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineProfile {
    /// Its name among the profiles, or the path of its file.
    pub name: String,
    /// What it is, in words.
    pub title: String,
    /// Where its facts come from.
    pub sources: Vec<String>,
    /// What its GPUs are.
    pub gpu: GpuKind,
    /// Compute capability of its GPUs.
    pub capability: (u32, u32),
    /// Its GPUs, in the order of their numbers.
    pub gpus: Vec<Gpu>,
    /// Its network adapters for RDMA.
    pub nics: Vec<Nic>,
    /// The number of such machines that one NVLink domain joins: 1 where NVLinks end at the machine.
    pub joined_nodes: usize,
    /// The lines of its file that say nothing about a machine.
    pub left_out: Vec<String>,
    topology: Element,
}

impl MachineProfile {
    /// The machines of this repository.
    pub fn all() -> Vec<Self> {
        // Each is read in a test.
        PROFILES.iter().filter_map(|(name, text)| Self::of_profile(name, Path::new(name), text).ok()).collect()
    }

    /// True if this is a file's path, and not the name of a profile.
    pub fn is_file(spec: &str) -> bool {
        let kind = Path::new(spec).extension();
        spec.contains('/') || kind.is_some_and(|kind| kind == "toml" || kind.eq_ignore_ascii_case("xml"))
    }

    /// The machine of this name, or in this file: a profile, or a topology file.
    ///
    /// # Errors
    ///
    /// There is none, or its file says nothing that could be a machine; the error names the line.
    pub fn find(spec: &str) -> Result<Self, MachineError> {
        if let Some((name, text)) = PROFILES.iter().find(|(name, _)| *name == spec) {
            return Self::of_profile(name, Path::new(name), text);
        }
        let path = Path::new(spec);
        let is_topology = path.extension().is_some_and(|kind| kind.eq_ignore_ascii_case("xml"));
        if !Self::is_file(spec) {
            let near = nearest(spec, PROFILES.map(|(name, _)| name));
            let known = PROFILES.map(|(name, _)| name).to_vec();
            return Err(MachineError::Unknown { name: spec.to_owned(), near, known });
        }
        let bytes = files::open(path)
            .and_then(|file| files::read(file, read::MOST_BYTES))
            .map_err(|source| MachineError::File { path: path.to_owned(), source })?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
            MachineError::at(path, line, "it is not UTF-8".to_owned())
        })?;
        if is_topology { Self::of_topology(spec, path, &text) } else { Self::of_profile(spec, path, &text) }
    }

    fn of_profile(name: &str, path: &Path, text: &str) -> Result<Self, MachineError> {
        let profile::Profile { title, sources, gpu, link_layer, joined_nodes, topology } = profile::read(path, text)?;
        let facts = facts::of(path, &topology, Some(link_layer))?;
        let facts::Facts { capability, gpus, nics } = facts;
        let name = name.to_owned();
        Ok(Self { name, title, sources, gpu, capability, gpus, nics, joined_nodes, left_out: Vec::new(), topology })
    }

    fn of_topology(name: &str, path: &Path, text: &str) -> Result<Self, MachineError> {
        let (mut topology, left_out) = read::topology(path, text)?;
        let facts::Facts { capability, gpus, nics } = facts::of(path, &topology, None)?;
        facts::renumber(&mut topology);
        let gpu = facts::usual_gpu(capability);
        let title = format!("the machine of {}", path.display());
        Ok(Self {
            name: name.to_owned(),
            title,
            sources: vec![path.display().to_string()],
            gpu,
            capability,
            gpus,
            nics,
            joined_nodes: 1,
            left_out,
            topology,
        })
    }

    /// The topology file that NCCL reads.
    pub fn topology(&self) -> String {
        self.topology.to_string()
    }

    /// NVLinks of each GPU.
    pub fn nvlinks(&self) -> u32 {
        self.gpus.iter().map(|gpu| gpu.nvlinks).max().unwrap_or(0)
    }

    /// What software GPUs are told: a text for a variable.
    pub fn description(&self) -> String {
        let Self { gpu, capability, .. } = self;
        let buses: Vec<&str> = self.gpus.iter().map(|gpu| gpu.bus.as_str()).collect();
        let gpudirect = u8::from(self.gpus.iter().all(|gpu| gpu.gpudirect));
        let mut text = format!(
            "gpus={};capability={}.{};multiprocessors={};memory={};nvlinks={};gpudirect={gpudirect}",
            buses.join(","),
            capability.0,
            capability.1,
            gpu.multiprocessors,
            gpu.memory,
            self.nvlinks(),
        );
        if !self.nics.is_empty() {
            let nics: Vec<String> = self.nics.iter().map(Nic::to_string).collect();
            // Writing to a string cannot fail.
            let _ = write!(text, ";nics={}", nics.join(","));
        }
        text
    }

    /// What it is, in a line.
    pub fn summary(&self) -> String {
        let (gpus, nics) = (self.gpus.len(), self.nics.len());
        let links = match (self.nvlinks(), self.joined_nodes) {
            (0, _) => "no NVLink".to_owned(),
            (links, 1) => format!("{links} NVLinks each"),
            (links, nodes) => format!("{links} NVLinks each, which join {nodes} nodes"),
        };
        let adapters = match self.nics.first() {
            None => "no RDMA".to_owned(),
            Some(Nic { speed, link, .. }) => {
                let kind = if *link == LinkLayer::InfiniBand { "InfiniBand" } else { "RoCE" };
                format!("{nics} x {speed} Gb/s {kind}")
            }
        };
        let (major, minor) = self.capability;
        format!("{gpus} x {} ({major}.{minor}), {links}, {adapters}", self.gpu.name)
    }
}

#[cfg(test)]
mod tests;
