//! The nodes that software GPUs are in, and what the processes of each are told.
use crate::backend::software_gpus::{self, DESCRIPTION};
use crate::library::unpack_files;
use crate::machines::{MachineProfile, NOT_AS_ON_THE_MACHINE};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::OnceLock;

/// The file that NCCL reads in place of looking at the machine.
const TOPOLOGY: &str = "NCCL_TOPO_FILE";
/// The variable by which NCCL tells hosts apart.
const HOST: &str = "NCCL_HOSTID";

/// The variable with the networks that sockets use.
pub(super) const SOCKETS: &str = "NCCL_SOCKET_IFNAME";

/// One or several nodes with software GPUs, all alike.
#[derive(Clone, Debug)]
pub struct SoftwareCluster {
    /// What each node is; `None` for software GPUs as they are without a profile.
    pub profile: Option<MachineProfile>,
    /// The names of the nodes.
    pub nodes: Vec<String>,
    topology: Option<PathBuf>,
}

/// The topology file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("the topology file of the machine cannot be written to the cache")]
pub struct NoTopologyFile(#[source] std::io::Error);

impl SoftwareCluster {
    /// The largest number of nodes: as many as a run has taken memory for.
    pub const MOST_NODES: usize = 64;

    /// So many nodes of this machine.
    ///
    /// # Errors
    ///
    /// The topology file for NCCL cannot be written.
    pub fn new(profile: Option<MachineProfile>, nodes: NonZeroUsize) -> Result<Self, NoTopologyFile> {
        let written = profile.as_ref().map(|profile| {
            let folder = unpack_files(&[("topology.xml", profile.topology().as_bytes())]);
            folder.map(|folder| folder.join("topology.xml")).map_err(NoTopologyFile)
        });
        let nodes = (0..nodes.get()).map(|node| format!("node{node}")).collect();
        Ok(Self { profile, nodes, topology: written.transpose()? })
    }

    /// What software GPUs are told about themselves.
    pub fn description(&self) -> Option<String> {
        self.profile.as_ref().map(MachineProfile::description)
    }

    /// Variables for a process on a node.
    pub fn variables(&self, node: usize) -> Vec<(String, String)> {
        let set = |name: &str, value: String| (name.to_owned(), value);
        let mut all = Vec::new();
        let name = self.nodes.get(node).map_or("", String::as_str);
        let placed = |text: String| format!("{text};node={name};fabric={}{}", fabric(), self.tray(node));
        all.extend(self.description().map(|text| set(DESCRIPTION, placed(text))));
        all.extend(self.topology.as_ref().map(|path| set(TOPOLOGY, path.display().to_string())));
        if self.nodes.len() > 1 {
            all.push(set(HOST, name.to_owned()));
            // All nodes are on this machine, which may have no other network.
            all.push(set(SOCKETS, "lo".to_owned()));
        }
        all
    }

    /// What software GPUs are told of the NVLink domain that a node is in: its number there, and the domain's name.
    fn tray(&self, node: usize) -> String {
        match self.profile.as_ref().map_or(1, |profile| profile.joined_nodes) {
            1 => String::new(),
            nodes => format!(";tray={}@{}-{}", node % nodes, fabric(), node / nodes),
        }
    }

    /// What keeps a version from a bug that it would not show on the machine: 2.28.7 to 2.28.9 crash beside adapters that GPUs cannot drive themselves,
    /// and these look like some that they can; up to 2.27.2, the CPUs of all nodes of an NVLink domain are the same to NCCL if they come from a file.
    pub fn avoided(&self, version: i32) -> Option<(String, String)> {
        let profile = self.profile.as_ref()?;
        let (name, value) = match version {
            22807..=22809 if !profile.nics.is_empty() => ("NCCL_GIN_TYPE", "2"),
            ..22703 if profile.joined_nodes > 1 => ("NCCL_MNNVL_ENABLE", "0"),
            _ => return None,
        };
        Some((name.to_owned(), value.to_owned()))
    }

    /// NVLinks of each GPU.
    pub fn nvlinks(&self) -> u32 {
        self.profile.as_ref().map_or_else(software_gpus::nvlinks, MachineProfile::nvlinks)
    }

    /// What the nodes are, in words.
    pub fn describe(&self) -> String {
        let nodes = match self.nodes.len() {
            1 => String::new(),
            nodes => format!("{nodes} nodes of "),
        };
        match &self.profile {
            None => format!("{nodes}software GPUs"),
            Some(profile) => {
                format!("{nodes}{} ({}); {}", profile.name, profile.summary(), NOT_AS_ON_THE_MACHINE.join(", "))
            }
        }
    }
}

/// The name of this process's network among those of other runs on this machine.
fn fabric() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let mut bytes = [0; 8];
        // Without random numbers the process and the time must do.
        if rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).is_err() {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            bytes = now.map_or(0, |now| now.as_nanos() as u64).to_ne_bytes();
        }
        format!("{}-{:016x}", std::process::id(), u64::from_ne_bytes(bytes))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_told_their_machine_and_nodes_also_who_they_are() {
        let names = |cluster: &SoftwareCluster, node| -> Vec<String> {
            cluster.variables(node).into_iter().map(|(name, _)| name).collect()
        };
        let two = |profile| SoftwareCluster::new(profile, NonZeroUsize::new(2).unwrap()).unwrap();
        let usual = SoftwareCluster::new(None, NonZeroUsize::MIN).unwrap();
        assert_eq!(names(&usual, 0), Vec::<String>::new());
        assert_eq!(names(&two(None), 0), [HOST, SOCKETS]);
        let cluster = two(Some(MachineProfile::find("dgx-h100").unwrap()));
        assert_eq!(names(&cluster, 1), [DESCRIPTION, TOPOLOGY, HOST, SOCKETS]);
        let [(_, first), (_, second)] = [0, 1].map(|node| cluster.variables(node).swap_remove(0));
        assert!(first.contains(";node=node0;fabric=") && second.contains(";node=node1;fabric="), "{first}");
        assert_eq!(first.split("fabric=").nth(1), second.split("fabric=").nth(1), "one network");
        assert!(!first.contains("tray="), "{first}");
        let (_, topology) = &cluster.variables(0)[1];
        assert_eq!(std::fs::read_to_string(topology).unwrap(), cluster.profile.unwrap().topology());
    }
    #[test]
    fn nodes_of_a_rack_are_trays_of_one_domain() {
        let profile = MachineProfile::find("gb200-nvl72").unwrap();
        let cluster = SoftwareCluster::new(Some(profile), NonZeroUsize::new(20).unwrap()).unwrap();
        let tray = |node: usize| {
            let (_, text) = cluster.variables(node).swap_remove(0);
            text.split(";tray=").nth(1).unwrap().to_owned()
        };
        assert_eq!([0, 1, 17].map(tray), [0, 1, 17].map(|number| format!("{number}@{}-0", fabric())));
        let avoided = |version| cluster.avoided(version).map(|(name, _)| name);
        assert_eq!(avoided(22605).as_deref(), Some("NCCL_MNNVL_ENABLE"));
        assert_eq!((avoided(22703), avoided(22808).as_deref()), (None, Some("NCCL_GIN_TYPE")));
        assert_eq!([18, 19].map(tray), [0, 1].map(|number| format!("{number}@{}-1", fabric())), "the second rack");
    }
}
