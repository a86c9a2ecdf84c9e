//! What stands before a program of nccl-tests: variables, and a launcher that decides how many processes there are.
use anyhow::Context;
use std::collections::BTreeSet;

/// Ranks or processes if nothing says how many.
pub const GUESSED: usize = 2;

const LAUNCHERS: [&str; 11] = [
    "mpirun",
    "mpiexec",
    "mpiexec.hydra",
    "mpirun_rsh",
    "orterun",
    "prterun",
    "prun",
    "aprun",
    "srun",
    "flux",
    "torchrun",
];
/// Launchers whose -N is a number of nodes, not of processes on each.
const OF_NODES: [&str; 2] = ["srun", "flux"];
const TOTAL: [&str; 5] = ["-np", "--np", "-n", "--n", "--ntasks"];
const NODES: [&str; 2] = ["--nodes", "--nnodes"];
const PER_NODE: [&str; 10] = [
    "--ntasks-per-node",
    "--tasks-per-node",
    "--nproc-per-node",
    "--nproc_per_node",
    "-npernode",
    "--npernode",
    "-ppn",
    "--ppn",
    "-perhost",
    "--map-by",
];
const HOSTS: [&str; 7] = ["-H", "-host", "--host", "-hosts", "--hosts", "-w", "--nodelist"];

/// The words before the program.
#[derive(Debug, Default)]
pub struct Before {
    launcher: Option<String>,
    /// Processes, if a word says how many.
    processes: Option<usize>,
    nodes: Option<usize>,
    per_node: Option<usize>,
    /// The names of machines, as the line lists them.
    hosts: Option<String>,
    /// Value of NCCL_ALGO.
    pub algorithm: Option<String>,
    /// Value of NCCL_PROTO.
    pub protocol: Option<String>,
    /// The other words.
    pub left_out: Vec<String>,
}

impl Before {
    /// # Errors
    ///
    /// A word stands where a number of processes should.
    pub fn read(words: &[String]) -> anyhow::Result<Self> {
        let mut read = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.split_once('=') {
                Some(("NCCL_ALGO", value)) => read.algorithm = Some(value.to_owned()),
                Some(("NCCL_PROTO", value)) => read.protocol = Some(value.to_owned()),
                Some((option, value)) if read.is_known(option) => read.option(word, option, value)?,
                _ if read.is_known(word) => read.option(word, word, words.next().map_or("", String::as_str))?,
                _ => match glued(word).filter(|(option, _)| read.is_known(option)) {
                    Some((option, value)) => read.option(word, option, value)?,
                    None => {
                        let file = word.rsplit('/').next().unwrap_or(word);
                        // Of `salloc ... srun`, srun starts the processes.
                        read.launcher = LAUNCHERS.contains(&file).then(|| file.to_owned()).or(read.launcher);
                        read.left_out.push(word.clone());
                    }
                },
            }
        }
        Ok(read)
    }

    /// True for an option of the launcher. Other programs that may stand before it, such as nice and numactl, have options of these names.
    fn is_known(&self, option: &str) -> bool {
        let may_count = self.launcher.is_some() || self.left_out.iter().any(|word| word.ends_with("salloc"));
        may_count
            && (option == "-N" || [&TOTAL[..], &NODES, &PER_NODE, &HOSTS].iter().any(|names| names.contains(&option)))
    }

    fn option(&mut self, word: &str, option: &str, value: &str) -> anyhow::Result<()> {
        if HOSTS.contains(&option) {
            self.hosts = Some(self.hosts.take().map_or_else(|| value.to_owned(), |hosts| hosts + "," + value));
            return Ok(());
        }
        if option == "--map-by" {
            let per_node = value.strip_prefix("ppr:").and_then(|rest| rest.split_once(":node"));
            match per_node {
                Some((count, _)) => self.per_node = Some(number(option, count)?),
                None => self.left_out.extend([option.to_owned(), value.to_owned()]),
            }
            return Ok(());
        }
        let counts_nodes = self.launcher.as_deref().is_none_or(|launcher| OF_NODES.contains(&launcher));
        let to = match option {
            _ if TOTAL.contains(&option) => &mut self.processes,
            _ if NODES.contains(&option) || (option == "-N" && counts_nodes) => &mut self.nodes,
            _ => &mut self.per_node,
        };
        // Of a range of nodes, as in `-N 2-4`, the first is the least.
        let value =
            if NODES.contains(&option) || option == "-N" { value.split('-').next().unwrap_or("") } else { value };
        *to = Some(number(word, value)?);
        Ok(())
    }

    /// The number of processes, which is not known without a launcher; and if it had to be guessed, how.
    pub fn processes(&self) -> (Option<usize>, Option<String>) {
        if let Some(processes) = self.processes {
            return (Some(processes), None);
        }
        let hosts: Option<BTreeSet<&str>> = self
            .hosts
            .as_ref()
            .map(|hosts| hosts.split(',').map(|host| host.split(':').next().unwrap_or(host)).collect());
        let nodes = self.nodes.or(hosts.map(|hosts| hosts.len()));
        let launcher = self.launcher.as_deref().unwrap_or("a launcher");
        match (self.per_node, nodes, &self.hosts) {
            (Some(each), Some(nodes), _) => (Some(each.saturating_mul(nodes)), None),
            (Some(each), None, _) if launcher == "torchrun" => (Some(each), None),
            (Some(each), None, _) => (Some(each), Some("one node, because the line does not say how many".to_owned())),
            (None, _, Some(hosts)) => {
                let slots: usize = hosts.split(',').map(slots).fold(0, usize::saturating_add);
                (Some(slots), Some(format!("{slots} processes, as many as {launcher}'s hosts have slots in the line")))
            }
            (None, Some(nodes), None) => (
                Some(nodes),
                Some(format!("one process on each of {nodes} nodes, because the line does not say how many")),
            ),
            (None, None, None) if self.launcher.is_some() => (
                Some(GUESSED),
                Some(format!("{GUESSED} processes, because the line does not say how many {launcher} starts")),
            ),
            (None, None, None) => (None, None),
        }
    }
}

/// Slots of a host such as `gpu07:8`; one if it does not say.
fn slots(host: &str) -> usize {
    host.split_once(':').and_then(|(_, slots)| slots.parse().ok()).unwrap_or(1)
}

/// An option of one letter, or -np, and its number in one word.
fn glued(word: &str) -> Option<(&str, &str)> {
    let digits = word.find(|c: char| c.is_ascii_digit())?;
    let (option, value) = word.split_at(digits);
    ["-n", "-N", "-np"].contains(&option).then_some((option, value))
}

fn number(option: &str, value: &str) -> anyhow::Result<usize> {
    let count = value.parse().ok().filter(|count| *count > 0);
    count.with_context(|| format!("{option}: `{value}` is not a number of processes"))
}
