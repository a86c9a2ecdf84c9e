//! Requirements of a case that the machine or the options do not meet: reasons to skip it.
use super::rank_devices::RankDevices;
use collspec_core::job::Struck;
use collspec_core::scenario::{Case, EnvValue, Placement};
use collspec_run::backend::cuda::DriverState;
use collspec_run::backend::version_text;
use collspec_run::cluster::{Among, Cluster};
use collspec_run::run::{Backend, Machine, RanksPerGpu, SoftwareCluster};
use nccl_sys::Maker;
use std::cmp::Ordering;

/// The largest number of processes of a worker.
pub const MAX_PROCESSES: usize = Placement::MAX_PROCESSES;

/// The processes of a job that are available to a case.
pub struct JobOfCase<'a> {
    /// The whole job.
    pub cluster: &'a Cluster,
    /// The processes in which the case may run.
    pub among: Among,
    /// The number of processes that the case needs.
    pub processes: usize,
    /// The chosen processes; `None` if there are not enough.
    pub sites: Option<&'a [usize]>,
    /// The number of ranks allowed in each process.
    pub ranks_per_process: usize,
}

/// The reason to skip the case, as far as it is known before a library is loaded.
pub fn missing(
    case: &Case,
    backend: &Backend,
    machine: Option<(&Machine, &RankDevices<'_>)>,
    sharing: RanksPerGpu,
    job: Option<&JobOfCase<'_>>,
) -> Option<String> {
    let needs = &case.requires;
    if let Some(reason) = job.and_then(missing_processes) {
        return Some(reason);
    }
    if job.is_none() && case.placement == Placement::Processes && case.total_ranks() > MAX_PROCESSES {
        let n = case.total_ranks();
        return Some(format!(
            "placement \"processes\" starts at most {MAX_PROCESSES} processes; this case has {n} ranks"
        ));
    }
    if let Some(var) = case.env.iter().find(|var| matches!(var.value, EnvValue::PerRank(_)))
        && case.placement != Placement::Processes
    {
        let name = &var.name.value;
        return Some(format!("{name} differs by rank, which needs placement = \"processes\""));
    }
    if let Some(wanted) = needs.backend.as_ref().filter(|wanted| *wanted != backend.name()) {
        return Some(format!("needs the backend {wanted}; this is {}", backend.name()));
    }
    let nodes = machine.map_or(1, |(machine, _)| machine.node_names().len()).max(1);
    if nodes > 1 && case.placement == Placement::OneThread {
        return Some("placement one_thread is one process, which is on one node; leave out --nodes".to_owned());
    }
    if nodes > 1 && case.env.iter().any(|var| var.name.value == "NCCL_HOSTID") {
        return Some("it says itself which ranks are on one host (NCCL_HOSTID); leave out --nodes".to_owned());
    }
    if let Some(fault) = case.fault {
        if !backend.has_software_gpus() {
            return Some(format!("its fault {} needs software GPUs", fault.kind));
        }
        let adapters =
            machine.and_then(|(machine, _)| machine.software.as_ref()?.profile.as_ref()).map_or(0, |of| of.nics.len());
        if fault.kind.strikes() == Struck::Adapters && (adapters == 0 || nodes.min(case.total_ranks()) < 2) {
            let words = "needs nodes with network adapters, such as `--machine dgx-h100 --nodes 2`";
            return Some(format!("its fault {} {words}", fault.kind));
        }
    }
    let ranks_for = nodes.min(case.total_ranks()).max(1);
    let machines = job.map_or(ranks_for, |job| job.cluster.machines_of(job.sites.unwrap_or_default()));
    if let Some(n) = needs.nodes.filter(|n| *n as usize > machines) {
        let are = match job {
            None if backend.has_software_gpus() => match machines {
                1 => format!("this is one; `--nodes {n}` gives so many"),
                _ => format!("it has {machines}"),
            },
            None => "this is one".to_owned(),
            Some(job) => {
                let (places, of) = (job.processes, job.cluster.sites().len());
                let on = if machines == 1 { "one machine".to_owned() } else { format!("{machines} machines") };
                format!("it would run in {places} of {of} processes, on {on}")
            }
        };
        return Some(format!("needs {n} machines; {are}"));
    }
    match (backend, machine) {
        (Backend::Soft, _) | (_, None) => {
            if let Some(n) = needs.gpus.filter(|n| *n > 0) {
                return Some(format!("needs {}; the backend soft has none", gpus(n as usize)));
            }
            if needs.nics.or(needs.nvlinks).is_some() || needs.link_layer.is_some() {
                return Some("needs the links of a machine; the backend soft has none".to_owned());
            }
            if needs.multicast {
                return Some("needs GPUs with multicast memory (NVLS); the backend soft has none".to_owned());
            }
            let (major, minor) = needs.compute?;
            Some(format!("needs a GPU of compute capability {major}.{minor}; the backend soft has none"))
        }
        (Backend::Nccl { .. }, Some((machine, devices))) => {
            let there = job.map_or(machine.gpus.devices.len() * nodes, |job| job.cluster.gpus(job.among));
            missing_gpus(case, machine, devices, there, sharing)
        }
    }
}

/// The reason to skip a case because of the links between GPUs and machines.
fn missing_network(case: &Case, machine: &Machine) -> Option<String> {
    let needs = &case.requires;
    if needs.nics.is_none() && needs.link_layer.is_none() && needs.nvlinks.is_none() {
        return None;
    }
    let cluster = machine.software.as_ref();
    let layers: Vec<String> = match cluster {
        None => rdma_link_layers(),
        Some(cluster) => {
            let nics = cluster.profile.iter().flat_map(|profile| &profile.nics);
            nics.map(|nic| format!("{:?}", nic.link)).collect()
        }
    };
    let lacks_profile = cluster.is_some_and(|cluster| cluster.profile.is_none());
    let advice = if lacks_profile { "; `--machine` gives them to software GPUs" } else { "" };
    if let Some(n) = needs.nics.filter(|n| *n as usize > layers.len()) {
        return Some(format!("needs {n} network adapters for RDMA; there are {}{advice}", layers.len()));
    }
    if let Some(layer) = needs.link_layer.as_ref().filter(|layer| !layers.contains(layer)) {
        return Some(format!("needs network adapters for RDMA over {layer}{advice}"));
    }
    let links = cluster.map(SoftwareCluster::nvlinks);
    let n = needs.nvlinks.filter(|n| links.is_none_or(|links| *n > links))?;
    Some(match links {
        Some(links) => format!("needs {n} NVLinks of each GPU; there are {links}{advice}"),
        None => format!("needs {n} NVLinks of each GPU; how many there are is known of software GPUs alone"),
    })
}

/// What the RDMA adapters of this machine speak, as the kernel says.
fn rdma_link_layers() -> Vec<String> {
    let Ok(adapters) = std::fs::read_dir("/sys/class/infiniband") else { return Vec::new() };
    let layer = |adapter: std::fs::DirEntry| std::fs::read_to_string(adapter.path().join("ports/1/link_layer")).ok();
    adapters.flatten().filter_map(layer).map(|text| text.trim().to_owned()).collect()
}

/// The reason to skip a case that runs in this many processes of the job.
fn missing_processes(job: &JobOfCase<'_>) -> Option<String> {
    let JobOfCase { cluster, processes, sites, ranks_per_process, .. } = job;
    if sites.is_some() {
        return None;
    }
    let all = cluster.sites().len();
    let more = if *ranks_per_process == 1 {
        "with --ranks-per-process N each has several ranks"
    } else {
        "its ranks need a process each"
    };
    Some(format!("needs {processes} processes; the launcher has started {all}; {more}"))
}

fn gpus(n: usize) -> String {
    format!("{n} GPU{}", if n == 1 { "" } else { "s" })
}

fn missing_gpus(
    case: &Case,
    machine: &Machine,
    devices: &RankDevices<'_>,
    there: usize,
    sharing: RanksPerGpu,
) -> Option<String> {
    if case.requires.nvidia && machine.probed.maker == Maker::Other {
        return Some(format!("needs NVIDIA's library; this one is {}", machine.probed.maker.words()));
    }
    let (needs, ranks) = (&case.requires, case.total_ranks());
    let are = if there == 1 { "there is 1" } else { &format!("there are {there}") };
    if let Some(n) = needs.gpus.filter(|n| *n as usize > there) {
        return Some(format!("needs {}; {are}", gpus(n as usize)));
    }
    let busiest = devices.busiest();
    if !sharing.admits(busiest) {
        let wanted = gpus(ranks);
        return Some(format!(
            "needs {wanted}, one for each rank; {are}; with --ranks-per-gpu {busiest} (or auto) ranks share them"
        ));
    }
    if busiest > 1 && ranks > MAX_PROCESSES {
        return Some(format!(
            "needs {}; {are}, and ranks that share one need a process each, of which there are at most {MAX_PROCESSES}",
            gpus(ranks)
        ));
    }
    if busiest > 1 && case.placement == Placement::OneThread {
        return Some(format!("needs {}; {are}, and placement one_thread cannot share them", gpus(ranks)));
    }
    if let Some(reason) = missing_network(case, machine) {
        return Some(reason);
    }
    if needs.multicast && !devices.have_multicast() {
        let software = matches!(machine.gpus.state, DriverState::Software(_));
        let advice = if software {
            "; `--machine dgx-h100`, or COLLSPEC_SOFTWARE_NVLINKS=5, gives software GPUs enough NVLinks for that"
        } else {
            ""
        };
        return Some(format!("needs GPUs with multicast memory (NVLS){advice}"));
    }
    let (major, minor) = needs.compute?;
    let least = devices.least_compute()?;
    (least < (major, minor))
        .then(|| format!("needs GPUs of compute capability {major}.{minor}; the least here is {}.{}", least.0, least.1))
}

/// The reason to skip the case on this version of the library.
pub fn too_old(case: &Case, code: i32) -> Option<String> {
    let unit = if code >= 10_000 { 10_000 } else { 1_000 };
    let have = [code / unit, code % unit / 100, code % 100].map(i32::unsigned_abs);
    let meets = |(op, (a, b, c)): &(String, (u32, u32, u32))| {
        let order = have.cmp(&[*a, *b, *c]);
        match op.as_str() {
            ">=" => order != Ordering::Less,
            ">" => order == Ordering::Greater,
            "<=" => order != Ordering::Greater,
            "<" => order == Ordering::Less,
            _ => order == Ordering::Equal,
        }
    };
    let (op, (a, b, c)) = case.requires.nccl.iter().find(|bound| !meets(bound))?;
    Some(format!("needs NCCL {op}{a}.{b}.{c}; this is {}", version_text(code)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use collspec_core::scenario::{self, SourceFile};
    use collspec_run::backend::cuda::{DeviceInfo, DriverReport, DriverState};
    use collspec_run::library::LibraryInfo;
    use collspec_run::run::Driver;
    use std::sync::Arc;

    fn machine(maker: Maker) -> Machine {
        let devices = vec![DeviceInfo::default(), DeviceInfo::default()];
        let gpus = DriverReport { state: DriverState::Devices(2), version: Some(12080), standin: None, devices };
        Machine {
            software: None,
            gpus,
            library: "/lib/libnccl.so.2".into(),
            probed: LibraryInfo { version: 23007, maker, symbols: Vec::new(), slimmed: false },
        }
    }

    #[test]
    fn multicast_memory_is_a_requirement() {
        let text = "world_size = 2\nop = \"all_reduce\"\ninputs = [[1], [2]]\nrequires.multicast = true\n";
        let file = Arc::new(SourceFile { path: "nvls.toml".into(), text: text.into() });
        let case = &scenario::parse(&file, "nvls").unwrap()[0];
        let nccl = Backend::Nccl { library: "/lib/libnccl.so.2".into(), driver: Driver::Machine };
        let mut machine = machine(Maker::Nvidia);
        let reason = |machine: &Machine| {
            missing(case, &nccl, Some((machine, &RankDevices::of_machine(machine, 2))), RanksPerGpu::One, None)
        };
        assert_eq!(reason(&machine).as_deref(), Some("needs GPUs with multicast memory (NVLS)"));
        machine.gpus.devices[0].multicast = true;
        assert!(reason(&machine).is_some(), "one of two");
        machine.gpus.devices[1].multicast = true;
        assert_eq!(reason(&machine), None);
        assert!(missing(case, &Backend::Soft, None, RanksPerGpu::One, None).is_some());
    }

    #[test]
    fn what_only_nvidias_library_promises_is_skipped_for_others() {
        let text = "world_size = 2\nop = \"all_reduce\"\ninputs = [[1], [2]]\nrequires.library = \"nvidia\"\n";
        let file = Arc::new(SourceFile { path: "nvidia.toml".into(), text: text.into() });
        let case = &scenario::parse(&file, "nvidia").unwrap()[0];
        let nccl = Backend::Nccl { library: "/lib/libnccl.so.2".into(), driver: Driver::Machine };
        let reason = |maker| {
            let machine = machine(maker);
            let devices = RankDevices::of_machine(&machine, 2);
            missing(case, &nccl, Some((&machine, &devices)), RanksPerGpu::One, None)
        };
        assert_eq!(reason(Maker::Nvidia), None);
        assert_eq!(reason(Maker::Collspec), None);
        let words = "needs NVIDIA's library; this one is of another make than NVIDIA's";
        assert_eq!(reason(Maker::Other).as_deref(), Some(words));
        assert_eq!(missing(case, &Backend::Soft, None, RanksPerGpu::One, None), None);
    }
}
