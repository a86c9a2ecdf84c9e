//! The GPUs and the library that cases run on, as found before anything runs.
use super::software_cluster::{SOCKETS, SoftwareCluster};
use crate::backend::cuda::{DeviceInfo, DriverReport, DriverState};
use crate::backend::version_text;
use crate::library::LibraryInfo;
use std::fmt;
use std::path::PathBuf;

/// The library and GPUs that a run on NCCL uses.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The driver and its devices.
    pub gpus: DriverReport,
    pub library: PathBuf,
    /// The library's properties as reported by itself.
    pub probed: LibraryInfo,
    /// The nodes with software GPUs; `None` on GPUs.
    pub software: Option<SoftwareCluster>,
}

/// Limit on the ranks that share a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RanksPerGpu {
    /// One rank per GPU.
    #[default]
    One,
    /// At most this many.
    Most(usize),
    /// No limit: as many as a case needs.
    Auto,
}

impl RanksPerGpu {
    /// Parses `auto`, or a number.
    ///
    /// # Errors
    ///
    /// The text is another word, or 0.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.parse::<usize>() {
            _ if text == "auto" => Ok(Self::Auto),
            Ok(1) => Ok(Self::One),
            Ok(n) if n > 1 => Ok(Self::Most(n)),
            _ => Err("expected `auto` or a whole number, 1 or greater".to_owned()),
        }
    }

    /// True if this many ranks may share a GPU.
    pub fn admits(self, ranks: usize) -> bool {
        match self {
            Self::One => ranks <= 1,
            Self::Most(n) => ranks <= n,
            Self::Auto => true,
        }
    }
}

impl fmt::Display for RanksPerGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One => f.write_str("1"),
            Self::Most(n) => n.fmt(f),
            Self::Auto => f.write_str("auto"),
        }
    }
}

/// The first version that can put several ranks on one GPU on request.
const SHARES: i32 = 23000;

impl Machine {
    /// The devices used by a case of this many ranks: a rank's device is its number modulo the number of devices.
    pub fn used(&self, ranks: usize) -> &[DeviceInfo] {
        let devices = &self.gpus.devices;
        devices.get(..ranks.min(devices.len())).unwrap_or_default()
    }

    /// Variables for the process of one of several ranks that share a GPU: those that allow it, or, for versions without such
    /// variables, a separate host id for each rank, so that the library does not notice. `machines` is the job's number of machines.
    pub fn sharing(&self, rank: usize, machines: usize) -> Vec<(String, String)> {
        let set = |name: &str, value: String| (name.to_owned(), value);
        if self.probed.version >= SHARES {
            // NVLS cannot be shared; a rank that takes the whole GPU leaves its neighbour waiting
            return vec![
                set("NCCL_MULTI_RANK_GPU_ENABLE", "1".into()),
                set("NCCL_NVLS_ENABLE", "0".into()),
                set("NCCL_MAX_CTAS", "4".into()),
            ];
        }
        let mut all = vec![set("NCCL_HOSTID", format!("collspec-rank-{rank}")), set("NCCL_MAX_NCHANNELS", "4".into())];
        if machines == 1 {
            all.push(set(SOCKETS, "lo".into()));
        }
        all
    }

    /// Variables for a process on a node with software GPUs; none on GPUs.
    pub fn node_variables(&self, node: usize) -> Vec<(String, String)> {
        let Some(cluster) = &self.software else { return Vec::new() };
        let mut all = cluster.variables(node);
        all.extend(cluster.avoided(self.probed.version));
        all
    }

    /// The names of the nodes with software GPUs; none on GPUs.
    pub fn node_names(&self) -> &[String] {
        self.software.as_ref().map_or(&[], |cluster| &cluster.nodes)
    }

    /// Library, driver and devices in one line.
    pub fn describe(&self) -> String {
        let version = version_text(self.probed.version) + if self.probed.slimmed { ", slimmed" } else { "" };
        let mut kinds: Vec<(usize, &DeviceInfo)> = Vec::new();
        for device in &self.gpus.devices {
            match kinds.iter_mut().find(|(_, kind)| (&kind.name, kind.compute) == (&device.name, device.compute)) {
                Some((count, _)) => *count += 1,
                None => kinds.push((1, device)),
            }
        }
        let kinds: Vec<String> = kinds
            .into_iter()
            .map(|(count, d)| format!("{count} x {} (compute {}.{})", d.name, d.compute.0, d.compute.1))
            .collect();
        if let DriverState::Software(_) = self.gpus.state {
            let profile = self.software.as_ref().filter(|nodes| nodes.profile.is_some() || nodes.nodes.len() > 1);
            let nodes = profile.map(|nodes| format!(", as {}", nodes.describe())).unwrap_or_default();
            return format!("NCCL {version} ({}), {}{nodes}", self.library.display(), self.gpus.state);
        }
        let driver = driver_text(&self.gpus);
        format!("NCCL {version} ({}), {driver}, {}", self.library.display(), kinds.join(", "))
    }
}

/// A short description of the driver.
pub fn driver_text(gpus: &DriverReport) -> String {
    let version = gpus.version.map_or_else(|| "of unknown version".into(), cuda_version);
    match &gpus.standin {
        Some(name) => format!("{name}, CUDA {version}"),
        None => format!("driver for CUDA {version}"),
    }
}

fn cuda_version(code: i32) -> String {
    format!("{}.{}", code / 1000, code % 1000 / 10)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A machine with devices of these compute capabilities.
    pub fn machine(version: i32, computes: &[(u32, u32)]) -> Machine {
        let device = |(i, compute): (usize, &(u32, u32))| DeviceInfo {
            name: "GPU".into(),
            compute: *compute,
            uuid: format!("GPU-{i}"),
            ..DeviceInfo::default()
        };
        let devices: Vec<_> = computes.iter().enumerate().map(device).collect();
        let symbols = nccl_sys::Nccl::SYMBOLS.iter().map(|(name, _)| (*name).to_owned()).collect();
        Machine {
            gpus: DriverReport {
                state: DriverState::Devices(devices.len()),
                version: Some(12080),
                standin: None,
                devices,
            },
            library: "/lib/libnccl.so.2".into(),
            probed: LibraryInfo { version, maker: nccl_sys::Maker::Nvidia, symbols, slimmed: false },
            software: None,
        }
    }

    #[test]
    fn a_line_names_library_driver_and_kinds_of_devices() {
        let words = machine(23007, &[(9, 0), (9, 0), (8, 0)]).describe();
        let wanted =
            "NCCL 2.30.7 (/lib/libnccl.so.2), driver for CUDA 12.8, 2 x GPU (compute 9.0), 1 x GPU (compute 8.0)";
        assert_eq!(words, wanted);
    }

    #[test]
    fn ranks_are_dealt_out_in_turn() {
        let machine = machine(23007, &[(9, 0), (9, 0)]);
        assert_eq!((machine.used(1).len(), machine.used(2).len(), machine.used(5).len()), (1, 2, 2));
        assert!(RanksPerGpu::Most(2).admits(2) && !RanksPerGpu::Most(2).admits(3) && !RanksPerGpu::One.admits(2));
    }

    #[test]
    fn before_2_30_ranks_that_share_a_gpu_are_hosts_of_their_own() {
        let sharing = |version, machines| machine(version, &[(9, 0)]).sharing(1, machines);
        let name = |version| sharing(version, 1)[0].clone();
        assert_eq!(name(23007), ("NCCL_MULTI_RANK_GPU_ENABLE".into(), "1".into()));
        assert_eq!(name(22907), ("NCCL_HOSTID".into(), "collspec-rank-1".into()));
        let loopback = ("NCCL_SOCKET_IFNAME".to_owned(), "lo".to_owned());
        assert!(sharing(22907, 1).contains(&loopback) && !sharing(22907, 2).contains(&loopback));
    }
}
