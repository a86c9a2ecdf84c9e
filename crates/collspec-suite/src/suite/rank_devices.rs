//! Assigns a GPU to each rank of a case, on one machine or several.
use collspec_run::backend::cuda::DeviceInfo;
use collspec_run::cluster::gpu_identity;
use collspec_run::run::{Machine, ranks_of_part};
use std::collections::{HashMap, HashSet};

/// The GPU of each rank of a case.
#[derive(Debug, Default)]
pub struct RankDevices<'a> {
    ranks: Vec<RankDevice<'a>>,
    /// For each process of the worker, the offset from a rank's number to the number of its device.
    offsets: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
struct RankDevice<'a> {
    host: &'a str,
    /// The device's number in the order of its process.
    number: usize,
    device: &'a DeviceInfo,
}

impl<'a> RankDevice<'a> {
    /// A key that is equal for ranks sharing a GPU.
    fn gpu(&self) -> (&'a str, &'a str, usize) {
        gpu_identity(self.host, self.number, self.device)
    }
}

/// The GPUs visible to one process of a job.
#[derive(Clone, Copy, Debug)]
pub struct ProcessGpus<'a> {
    /// The machine's name.
    pub host: &'a str,
    /// The visible GPUs, in the driver's order.
    pub gpus: &'a [DeviceInfo],
}

impl<'a> RankDevices<'a> {
    /// Assigns GPUs on this machine: a rank's GPU is its number modulo the number of GPUs.
    pub fn of_machine(machine: &'a Machine, ranks: usize) -> Self {
        let devices = machine.gpus.devices.iter().enumerate().cycle().take(ranks);
        let ranks = devices.map(|(number, device)| RankDevice { host: "", number, device }).collect();
        Self { ranks, offsets: Vec::new() }
    }

    /// Divides the ranks among these processes of a job. Processes on one machine that see the same GPUs use different
    /// ones: with one rank each, local rank 0 uses GPU 0 and local rank 1 uses GPU 1. A process whose GPUs no other process sees
    /// starts with its GPU 0.
    pub fn of_job(processes: &[ProcessGpus<'a>], ranks: usize) -> Self {
        let mut devices = Self::default();
        // Number of ranks assigned to each machine's GPUs so far.
        let mut taken: HashMap<(&str, &str), usize> = HashMap::new();
        for (part, ProcessGpus { host, gpus }) in processes.iter().copied().enumerate() {
            let Some(first_gpu) = gpus.first() else {
                devices.offsets.push(0);
                continue;
            };
            let own_ranks = ranks_of_part(part, processes.len(), ranks as u32);
            let first = taken.entry((host, first_gpu.uuid.as_str())).or_default();
            devices.offsets.push((*first + gpus.len() - own_ranks.start as usize % gpus.len()) % gpus.len());
            let numbers = (*first..*first + own_ranks.len()).map(|number| number % gpus.len());
            let used = numbers.filter_map(|number| Some((number, gpus.get(number)?)));
            devices.ranks.extend(used.map(|(number, device)| RankDevice { host, number, device }));
            *first += own_ranks.len();
        }
        devices
    }

    /// The GPUs used by some rank, each once. Two cases of a run lock those of other machines too.
    pub fn all(&self) -> Vec<&'a DeviceInfo> {
        let mut seen = HashSet::new();
        self.ranks.iter().filter(|rank| seen.insert(rank.gpu())).map(|rank| rank.device).collect()
    }

    /// Number of ranks on the GPU that has the most.
    pub fn busiest(&self) -> usize {
        let mut ranks: HashMap<_, usize> = HashMap::new();
        for rank in &self.ranks {
            *ranks.entry(rank.gpu()).or_default() += 1;
        }
        ranks.into_values().max().unwrap_or(0)
    }

    /// The lowest compute capability of the used GPUs.
    pub fn least_compute(&self) -> Option<(u32, u32)> {
        self.ranks.iter().map(|rank| rank.device.compute).min()
    }

    /// True if all used GPUs support multicast memory.
    pub fn have_multicast(&self) -> bool {
        self.ranks.iter().all(|rank| rank.device.multicast)
    }

    /// The offset of a process of the worker: added to a rank's number, modulo the number of its GPUs, it gives the rank's GPU.
    pub fn offset(&self, part: usize) -> usize {
        self.offsets.get(part).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpus(names: &[&str]) -> Vec<DeviceInfo> {
        names.iter().map(|name| DeviceInfo { uuid: (*name).into(), ..DeviceInfo::default() }).collect()
    }

    /// The UUIDs of the ranks' GPUs, and the GPUs that the processes bind by their offsets.
    fn used(processes: &[(&str, &[DeviceInfo])], ranks: usize) -> (Vec<String>, Vec<String>) {
        let processes: Vec<_> = processes.iter().map(|(host, gpus)| ProcessGpus { host, gpus }).collect();
        let devices = RankDevices::of_job(&processes, ranks);
        let bound = processes.iter().enumerate().flat_map(|(part, process)| {
            let ranks = ranks_of_part(part, processes.len(), ranks as u32);
            let number = |rank: u32| (rank as usize + devices.offset(part)) % process.gpus.len();
            ranks.map(|rank| process.gpus[number(rank)].uuid.clone()).collect::<Vec<_>>()
        });
        (devices.ranks.iter().map(|rank| rank.device.uuid.clone()).collect(), bound.collect())
    }

    #[test]
    fn processes_that_see_all_gpus_of_a_machine_take_them_in_turn() {
        let (a, b) = (gpus(&["a0", "a1", "a2"]), gpus(&["b0", "b1", "b2"]));
        let processes: [(&str, &[_]); 4] = [("a", &a), ("a", &a), ("b", &b), ("b", &b)];
        let (ranks, bound) = used(&processes, 4);
        assert_eq!(ranks, ["a0", "a1", "b0", "b1"]);
        assert_eq!(ranks, bound, "the offsets lead to the same GPUs");
        let (ranks, bound) = used(&processes[..2], 5);
        assert_eq!(ranks, ["a0", "a1", "a2", "a0", "a1"]);
        assert_eq!(ranks, bound);
        // Rank 2 of four is the first of its machine, even though it is not a multiple of the number of GPUs.
        let (ranks, bound) = used(&[("b", &b), ("b", &b), ("a", &a)], 3);
        assert_eq!(ranks, ["b0", "b1", "a0"]);
        assert_eq!(ranks, bound);
    }

    #[test]
    fn processes_that_see_gpus_of_their_own_begin_with_the_first() {
        let own = [gpus(&["a0"]), gpus(&["a1"]), gpus(&["a2", "a3"])];
        let (ranks, bound) = used(&[("a", &own[0]), ("a", &own[1])], 2);
        assert_eq!(ranks, ["a0", "a1"]);
        assert_eq!(ranks, bound);
        let (ranks, bound) = used(&[("a", &own[2]), ("b", &own[2])], 4);
        assert_eq!(ranks, ["a2", "a3", "a2", "a3"]);
        assert_eq!(ranks, bound);
    }

    #[test]
    fn a_gpu_is_the_same_under_two_names_of_its_machine() {
        let (first, second) = (gpus(&["a0", "a1"]), gpus(&["b0", "b1"]));
        let of = |processes: &[(&str, &[DeviceInfo])], ranks| {
            let processes: Vec<_> = processes.iter().map(|(host, gpus)| ProcessGpus { host, gpus }).collect();
            let devices = RankDevices::of_job(&processes, ranks);
            (devices.busiest(), devices.all().len())
        };
        assert_eq!(of(&[("a", &first), ("b", &second)], 4), (1, 4), "two machines of two GPUs");
        assert_eq!(of(&[("a", &first), ("a", &first)], 4), (2, 2), "one machine of two");
        assert_eq!(of(&[("pod-1", &first), ("pod-2", &first)], 2), (2, 1), "two containers that see the same GPUs");
        let private: Vec<_> = first.iter().map(|gpu| DeviceInfo { private: true, ..gpu.clone() }).collect();
        assert_eq!(of(&[("a", &private), ("b", &private)], 4), (1, 4), "two machines with software GPUs");
        assert_eq!(of(&[("a", &private), ("a", &private)], 4), (2, 2), "one machine with two");
        let unknown = gpus(&["", ""]);
        assert_eq!(of(&[("a", &unknown), ("b", &unknown)], 4).0, 1, "a driver that knows no UUIDs");
        assert_eq!(of(&[("a", &unknown), ("a", &unknown)], 4).0, 2);
    }

    #[test]
    fn processes_without_gpus_do_not_shift_those_of_others() {
        let (none, some) = (gpus(&[]), gpus(&["b0", "b1", "b2"]));
        let processes = [ProcessGpus { host: "a", gpus: &none }, ProcessGpus { host: "b", gpus: &some }];
        let devices = RankDevices::of_job(&processes, 2);
        assert_eq!((devices.offset(0), devices.offset(1)), (0, 2), "rank 1 has the first GPU of its machine");
    }
}
