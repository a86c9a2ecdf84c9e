//! The processes of a worker for a case, and the environment of each process.
use super::rank_devices::{ProcessGpus, RankDevices};
use super::{RunOptions, Runner, requires};
use collspec_core::scenario::{Case, EnvValue, Placement};
use collspec_run::child::{DEVICE_OFFSET, FAULTS};
use collspec_run::cluster::Among;
use collspec_run::run::pool::WorkerKey;
use collspec_run::run::ranks_of_part;
use std::num::NonZeroUsize;
use std::sync::Arc;

impl Runner {
    /// True if some ranks of the case share a GPU.
    pub(super) fn shares_gpus(&self, case: &Case) -> bool {
        self.rank_devices(case).is_some_and(|devices| devices.busiest() > 1)
    }

    /// The GPUs of the case's ranks; `None` on the software library.
    pub(super) fn rank_devices(&self, case: &Case) -> Option<RankDevices<'_>> {
        // A case with too few processes available is skipped, and uses no GPU.
        let sites =
            self.chosen.cluster.as_ref().and_then(|cluster| cluster.choose(self.processes(case), Among::Living));
        self.rank_devices_at(case, &sites.unwrap_or_default())
    }

    /// Like [`Runner::rank_devices`], in these processes of a job.
    pub(super) fn rank_devices_at(&self, case: &Case, sites: &[usize]) -> Option<RankDevices<'_>> {
        let (machine, ranks) = (self.machine()?, case.total_ranks());
        let Some(cluster) = &self.chosen.cluster else {
            let nodes = machine.node_names();
            if nodes.len() < 2 {
                return Some(RankDevices::of_machine(machine, ranks));
            }
            let gpus = &machine.gpus.devices;
            let process = |part| Some(ProcessGpus { host: nodes.get(self.node_of(case, part))?, gpus });
            let processes: Vec<_> = (0..self.processes(case)).filter_map(process).collect();
            return Some(RankDevices::of_job(&processes, ranks));
        };
        let gpus = |site: &usize| {
            let process = cluster.introduction(*site)?;
            Some(ProcessGpus { host: &process.host, gpus: &process.equipment.gpus })
        };
        let processes: Vec<_> = sites.iter().filter_map(gpus).collect();
        Some(RankDevices::of_job(&processes, ranks))
    }

    /// The case as it will run: if its file leaves the placement at the default, the option decides, provided the case can
    /// be placed that way.
    pub(super) fn placed(&self, case: &Arc<Case>) -> Arc<Case> {
        let in_processes =
            self.shares_gpus(case) || (self.chosen.cluster.is_some() && self.options.ranks_per_process() == 1);
        let placement = if in_processes { Some(Placement::Processes) } else { self.options.placement };
        let Some(placement) = placement.filter(|_| case.placement == Placement::default()) else {
            return case.clone();
        };
        let mut timeout = case.timeout.clone();
        if let Some(timeout) = timeout.as_mut().filter(|_| placement == Placement::Processes) {
            timeout.value = self.limit_in_processes(case, timeout.value);
        }
        let mut placed = (**case).clone();
        (placed.placement, placed.timeout) = (placement, timeout);
        let placed = Arc::new(placed);
        let fits = match placement {
            Placement::Threads => true,
            Placement::Processes => self.chosen.cluster.is_some() || case.total_ranks() <= requires::MAX_PROCESSES,
            // some programs need a thread per rank; if neither placement can be planned, the diagnostics are those of the file's own
            Placement::OneThread => self.plans.plan(&placed, self.limits()).is_ok(),
        };
        if fits { placed } else { case.clone() }
    }

    /// The number of processes in which the case runs.
    pub(super) fn processes(&self, case: &Case) -> usize {
        match case.placement {
            Placement::Processes => case.total_ranks(),
            Placement::Threads if self.chosen.cluster.is_some() => {
                case.total_ranks().div_ceil(self.options.ranks_per_process()).max(1)
            }
            Placement::Threads => self.nodes_of(case),
            Placement::OneThread => 1,
        }
    }

    /// The number of nodes with software GPUs in which the case runs: all that it has ranks for.
    pub(super) fn nodes_of(&self, case: &Case) -> usize {
        let nodes = self.machine().map_or(1, |machine| machine.node_names().len());
        let most = if case.placement == Placement::OneThread { 1 } else { case.total_ranks() };
        nodes.min(most).max(1)
    }

    /// The node of a process of the worker: the processes are dealt to the nodes in equal blocks.
    fn node_of(&self, case: &Case, part: usize) -> usize {
        let (nodes, parts) = (self.nodes_of(case), self.processes(case));
        (0..nodes).find(|node| ranks_of_part(*node, nodes, parts as u32).contains(&(part as u32))).unwrap_or(0)
    }

    /// True if the job has lost a process that the worker runs in.
    pub(super) fn has_lost(&self, key: &WorkerKey) -> bool {
        self.chosen.cluster.as_ref().is_some_and(|cluster| cluster.lost(key.sites.iter().copied()).is_some())
    }

    /// The key of the case's worker, whose library has faults on demand if `wrong`: workers with equal keys can run the same cases.
    pub(super) fn worker_key(&self, case: &Case, wrong: bool) -> WorkerKey {
        let parts = self.processes(case);
        let sites =
            self.chosen.cluster.as_ref().and_then(|cluster| cluster.choose(parts, Among::Living)).unwrap_or_default();
        let devices = self.rank_devices_at(case, &sites).unwrap_or_default();
        let shares_gpus = devices.busiest() > 1;
        let mut env: Vec<_> = (0..parts).map(|part| self.variables(case, part, shares_gpus)).collect();
        let on_nodes = self.nodes_of(case) > 1;
        for (part, env) in env.iter_mut().take(if on_nodes { parts } else { sites.len() }).enumerate() {
            self.on_machine(env, devices.offset(part));
        }
        if wrong {
            env.iter_mut().for_each(|env| env.push((FAULTS.to_owned(), "1".to_owned())));
        }
        WorkerKey { backend: self.chosen.backend.clone(), env, placement: case.placement, sites, core: None }
    }

    /// Variables of a process on one of several machines: they tell a worker its GPUs, and tell the software library (which may
    /// replace NCCL) that there are other machines.
    fn on_machine(&self, env: &mut Vec<(String, String)>, device_offset: usize) {
        for (_, value) in env.iter_mut().filter(|(name, _)| name == DEVICE_OFFSET) {
            *value = device_offset.to_string();
        }
        let Some(cluster) = &self.chosen.cluster else { return };
        let name = "COLLSPEC_SOFT_NETWORK";
        if cluster.machines() > 1 && env.iter().all(|(other, _)| other != name) {
            env.push((name.to_owned(), "1".to_owned()));
        }
        env.sort();
    }

    /// Variables of one process of the worker; with a process per rank they may differ by rank.
    fn variables(&self, case: &Case, part: usize, shares_gpus: bool) -> Vec<(String, String)> {
        let value = |value: &EnvValue| match value {
            EnvValue::All(text) => Some(text.clone()),
            EnvValue::PerRank(texts) => texts.get(part).cloned(),
        };
        let own = case.env.iter().filter_map(|var| Some((var.name.value.clone(), value(&var.value)?)));
        let mut env = self.chosen.backend.env();
        env.extend(self.machine().into_iter().flat_map(|machine| machine.node_variables(self.node_of(case, part))));
        // These come after the variables of the nodes and so replace an NCCL_HOSTID: older versions of NCCL let ranks share a GPU only if each rank
        // counts as a separate host.
        if let Some(machine) = self.machine().filter(|_| shares_gpus) {
            let machines = self.chosen.cluster.as_ref().map_or(1, |cluster| cluster.machines());
            env.extend(machine.sharing(part, machines));
        }
        // for duplicate names the last wins: the case's own variables override those above, the options override the case's
        env.extend(self.options.variables.iter().cloned());
        env.extend(own);
        env.extend(self.options.soft_variables());
        // sorted by name; of duplicates the last is kept
        env.sort_by(|a, b| a.0.cmp(&b.0));
        env.dedup_by(|later, earlier| later.0 == earlier.0 && (std::mem::swap(later, earlier), true).1);
        env
    }
}

impl RunOptions {
    /// Ranks of a case in each process that a launcher has started.
    pub fn ranks_per_process(&self) -> usize {
        self.ranks_per_process.map_or(1, NonZeroUsize::get)
    }

    /// Variables that pass the software library's own options to it.
    pub fn soft_variables(&self) -> Vec<(String, String)> {
        let settings = [
            ("COLLSPEC_SOFT_EAGER", self.eager.map(|bytes| bytes.to_string())),
            ("COLLSPEC_SOFT_CONNECT", self.connect.map(|when| when.name().to_owned())),
        ];
        settings.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}
