//! What stands before a program of nccl-tests: variables, and a launcher that decides how many processes there are.
use super::launcher_options::{Launcher, Says};
use anyhow::Context;
use std::collections::BTreeSet;

/// Ranks or processes if nothing says how many.
pub const GUESSED: usize = 2;

/// Programs that run another program once, such as `timeout`. The words after one of them belong to it or to that other program, and are
/// no options of the launcher.
const WRAPPERS: [&str; 11] =
    ["env", "nice", "ionice", "numactl", "taskset", "time", "timeout", "nohup", "stdbuf", "sudo", "compute-sanitizer"];

/// The words before the program.
#[derive(Debug, Default)]
pub struct Before {
    launcher: Option<(Launcher, String)>,
    /// The first program of the line, if it is none of the launchers known here.
    unknown: Option<String>,
    /// Processes, if a word says how many.
    processes: Option<usize>,
    nodes: Option<usize>,
    per_node: Option<usize>,
    /// Resource sets of jsrun, in which processes run.
    sets: Option<usize>,
    per_set: Option<usize>,
    /// The names of machines, as the line lists them.
    hosts: Option<String>,
    /// What a number in the line leaves open.
    open: Vec<String>,
    /// Value of NCCL_ALGO.
    pub algorithm: Option<String>,
    /// Value of NCCL_PROTO.
    pub protocol: Option<String>,
    /// True if a variable makes several communicators of the ranks.
    splits: bool,
    /// The other words.
    pub left_out: Vec<String>,
}

impl Before {
    /// Reads the words up to a program. A part of a line after ` : ` has the launcher of the one before it.
    ///
    /// # Errors
    ///
    /// A word stands where a number of processes should.
    pub fn read(words: &[String], part_of: Option<&Self>) -> anyhow::Result<Self> {
        let mut read = Self { launcher: part_of.and_then(|first| first.launcher.clone()), ..Self::default() };
        let mut words = words.iter();
        // A wrapper's options are its own.
        let mut is_wrapped = false;
        let mut after_option = false;
        while let Some(word) = words.next() {
            let file = word.rsplit('/').next().unwrap_or(word);
            // What follows an option may be its value, which can be named like a wrapper.
            let stands_alone = !std::mem::replace(&mut after_option, word.starts_with('-')) && !word.starts_with('-');
            if let Some(launcher) = Launcher::find(file) {
                read.starts(launcher, file);
                read.left_out.push(word.clone());
                is_wrapped = false;
                continue;
            }
            if read.variable(word) {
                continue;
            }
            is_wrapped |= stands_alone && WRAPPERS.contains(&file);
            let launcher = read.launcher.as_ref().map(|(launcher, _)| *launcher).filter(|_| !is_wrapped);
            let Some((option, value, says)) = launcher.and_then(|launcher| launcher.option(word)) else {
                if read.launcher.is_none() && read.left_out.is_empty() && !word.contains('=') && !is_wrapped {
                    read.unknown = Some(file.to_owned());
                }
                read.left_out.push(word.clone());
                continue;
            };
            // Its value goes with it.
            after_option = false;
            let mut next = || words.next().map_or("", String::as_str);
            match says {
                Says::OnePerNode => read.per_node = Some(1),
                Says::NameAndValue => {
                    let name = next();
                    let variable = if name.contains('=') { name.to_owned() } else { format!("{name}={}", next()) };
                    if !read.variable(&variable) {
                        read.left_out.extend([word.clone(), variable]);
                    }
                }
                says => {
                    let own = value.unwrap_or_else(next);
                    if !read.option(says, option, own)? {
                        read.left_out.push(word.clone());
                        read.left_out.extend(value.is_none().then(|| own.to_owned()));
                    }
                }
            }
        }
        Ok(read)
    }

    fn starts(&mut self, launcher: Launcher, name: &str) {
        // torchrun starts processes in each of those that a launcher before it starts.
        if launcher == Launcher::Torch && self.launcher.is_some() {
            let (agents, _) = self.processes();
            self.nodes = agents;
            (self.processes, self.per_node, self.hosts) = (None, None, None);
        }
        self.launcher = Some((launcher, name.to_owned()));
    }

    /// False for a variable that a scenario does not have, and for words that are none.
    fn variable(&mut self, word: &str) -> bool {
        match word.split_once('=') {
            Some(("NCCL_ALGO", value)) => self.algorithm = Some(value.to_owned()),
            Some(("NCCL_PROTO", value)) => self.protocol = Some(value.to_owned()),
            Some(("NCCL_TESTS_SPLIT" | "NCCL_TESTS_SPLIT_MASK", _)) => {
                self.splits = true;
                return false;
            }
            _ => return false,
        }
        true
    }

    /// False if the value says nothing that a scenario has.
    fn option(&mut self, says: Says, option: &str, value: &str) -> anyhow::Result<bool> {
        match says {
            Says::Processes => self.processes = Some(number(option, value)?),
            Says::Sets if value.starts_with("ALL_") => return Ok(false),
            Says::Sets => self.sets = Some(number(option, value)?),
            Says::PerSet => self.per_set = Some(number(option, value)?),
            Says::PerNode if ["gpu", "cpu", "auto", "xpu"].contains(&value) => {
                self.per_node = Some(GUESSED);
                self.open.push(format!("{GUESSED} processes on each node, because {option} {value} is not a number"));
            }
            Says::PerNode => self.per_node = Some(number(option, value)?),
            Says::Nodes => {
                // Of a range, the first is the least.
                let least = value.split(['-', ':']).next().unwrap_or(value);
                self.nodes = Some(number(option, least)?);
                if least != value {
                    self.open.push(format!("the least number of nodes in {option} {value}"));
                }
            }
            Says::Hosts => {
                self.hosts = Some(self.hosts.take().map_or_else(|| value.to_owned(), |hosts| hosts + "," + value));
            }
            Says::Mapping => match value.strip_prefix("ppr:").and_then(|rest| rest.split_once(":node")) {
                Some((count, _)) => self.per_node = Some(number(option, count)?),
                None => return Ok(false),
            },
            Says::Variable => return Ok(self.variable(value)),
            Says::Variables => {
                let listed: Vec<&str> = value.split(',').collect();
                // Without ALL, srun passes on only what is listed.
                let is_kept = |name| listed.contains(&"ALL") || listed.contains(&name);
                self.algorithm.take_if(|_| !is_kept("NCCL_ALGO"));
                self.protocol.take_if(|_| !is_kept("NCCL_PROTO"));
                let others = listed.into_iter().filter(|variable| !self.variable(variable) && *variable != "ALL");
                return Ok(others.count() == 0);
            }
            Says::NameAndValue | Says::OnePerNode => {}
        }
        Ok(true)
    }

    /// The number of processes, which is not known without a launcher; and what had to be guessed, and how.
    pub fn processes(&self) -> (Option<usize>, Vec<String>) {
        let (processes, guess) = self.started();
        let from_nodes = processes.is_some() && self.processes.is_none() && self.sets.is_none();
        let mut guesses: Vec<String> = guess.into_iter().collect();
        guesses.extend(self.open.iter().filter(|_| from_nodes).cloned());
        if let (None, Some(unknown)) = (&self.launcher, &self.unknown) {
            guesses.push(format!("one process, because what `{unknown}` starts is not known"));
        }
        if self.splits {
            guesses
                .push("all ranks in one communicator, although the line's NCCL_TESTS_SPLIT makes several".to_owned());
        }
        (processes, guesses)
    }

    fn started(&self) -> (Option<usize>, Option<String>) {
        let Some((launcher, name)) = &self.launcher else { return (None, None) };
        let per_set = self.per_set.unwrap_or(1);
        if let Some(processes) = self.processes.or(self.sets.map(|sets| sets.saturating_mul(per_set))) {
            return (Some(processes), None);
        }
        let hosts: Option<usize> = self.hosts.as_ref().map(|hosts| {
            let names: BTreeSet<&str> = host_list(hosts).into_iter().map(|host| slots(host).0).collect();
            names.into_iter().map(machines).fold(0, usize::saturating_add)
        });
        let nodes = self.nodes.or(hosts);
        let per_node = match launcher {
            Launcher::Torch => self.per_node.or(Some(1)),
            Launcher::Jsrun => self.per_node.map(|sets| sets.saturating_mul(per_set)),
            _ => self.per_node,
        };
        match (per_node, nodes, &self.hosts) {
            (Some(each), Some(nodes), _) => (Some(each.saturating_mul(nodes)), None),
            (Some(each), None, _) if *launcher == Launcher::Torch => (Some(each), None),
            (Some(each), None, _) => (Some(each), Some("one node, because the line does not say how many".to_owned())),
            (None, _, Some(hosts)) => {
                let of_host = |host| machines(slots(host).0).saturating_mul(slots(host).1);
                let slots: usize = host_list(hosts).into_iter().map(of_host).fold(0, usize::saturating_add);
                (Some(slots), Some(format!("{slots} processes, as many as {name}'s hosts have slots in the line")))
            }
            (None, Some(nodes), None) => (
                Some(nodes),
                Some(format!("one process on each of {nodes} nodes, because the line does not say how many")),
            ),
            (None, None, None) => (
                Some(GUESSED),
                Some(format!("{GUESSED} processes, because the line does not say how many {name} starts")),
            ),
        }
    }
}

/// The entries of a list of hosts. A comma inside brackets does not end an entry: `gpu[01-04,07],login` has two.
fn host_list(hosts: &str) -> Vec<&str> {
    let mut is_inside = false;
    let separates = |c: char| {
        is_inside = (is_inside || c == '[') && c != ']';
        c == ',' && !is_inside
    };
    hosts.split(separates).filter(|host| !host.is_empty()).collect()
}

/// The machines that a name with brackets stands for.
fn machines(host: &str) -> usize {
    let numbers = |range: &str| match range.split_once('-') {
        Some((first, last)) => match (first.parse::<usize>(), last.parse::<usize>()) {
            (Ok(first), Ok(last)) => last.saturating_sub(first).saturating_add(1),
            _ => 1,
        },
        None => 1,
    };
    let inside = host.split('[').skip(1).map(|part| part.split(']').next().unwrap_or(part));
    inside.map(|list| list.split(',').map(numbers).fold(0, usize::saturating_add)).fold(1, usize::saturating_mul)
}

/// A host such as `gpu07:8` and its slots; one if it does not say.
fn slots(host: &str) -> (&str, usize) {
    host.split_once(':').map_or((host, 1), |(name, slots)| (name, slots.parse().unwrap_or(1)))
}

fn number(option: &str, value: &str) -> anyhow::Result<usize> {
    let count = value.parse().ok().filter(|count| *count > 0);
    count.with_context(|| format!("{option}: `{value}` is not a number of processes"))
}

#[cfg(test)]
mod tests {
    use crate::cli::nccl_tests_line::read;

    /// The ranks, the guesses and what is left out.
    fn of(line: &str) -> (usize, String, String) {
        let read = read(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        (read.ranks, read.guessed.join("; "), read.left_out.join(" "))
    }

    #[test]
    fn each_launcher_has_its_own_options() {
        for (before, processes, guess, left_out) in [
            ("jsrun -n 4 -a 2 -c 8 -g 2", 8, "", "jsrun -c 8 -g 2"),
            ("jsrun --nrs=3 --tasks_per_rs=2", 6, "", "jsrun"),
            ("jsrun -n6 -a4 -r 2", 24, "", "jsrun"),
            ("jsrun -p 12 -n 6", 12, "", "jsrun"),
            ("jsrun -r 6 -a 1", 6, "one node", "jsrun"),
            ("jsrun -n ALL_HOSTS -a 4", 2, "2 processes", "jsrun -n ALL_HOSTS"),
            ("mpirun -c 4", 4, "", "mpirun"),
            ("mpirun.openmpi --np 4", 4, "", "mpirun.openmpi"),
            ("srun -c 4 -n 2", 2, "", "srun -c 4"),
            ("flux run -n 4 -c 8", 4, "", "flux run -c 8"),
            ("mpirun -pernode -H h1,h2", 2, "", "mpirun"),
            ("torchrun --nproc-per-node=gpu", 2, "2 processes on each node, because --nproc-per-node gpu", "torchrun"),
            ("torchrun --nnodes=2 --nproc_per_node auto", 4, "2 processes on each node", "torchrun"),
            ("torchrun --nnodes=1:4 --nproc-per-node=8", 8, "the least number of nodes in --nnodes 1:4", "torchrun"),
            ("torchrun", 1, "", "torchrun"),
            ("srun -N 2-4 --ntasks-per-node=8", 16, "the least number of nodes in -N 2-4", "srun"),
            ("srun -N 2-4 -n 12", 12, "", "srun"),
            ("srun -N2 -n2 torchrun --nproc-per-node=8", 16, "", "srun torchrun"),
            ("srun -w gpu[01-04,07] --ntasks-per-node=4", 20, "", "srun"),
            ("mpirun -np 4 numactl -N 3", 4, "", "mpirun numactl -N 3"),
            ("srun -p time -n 8", 8, "", "srun -p time"),
            ("mpirun --hostfile /home/me/env -np 8", 8, "", "mpirun --hostfile /home/me/env"),
            ("mpirun -H h1,h2 -N 4 nice -n 10", 8, "", "mpirun nice -n 10"),
            ("ibrun -n 4", 1, "one process, because what `ibrun` starts is not known", "ibrun -n 4"),
            ("env NCCL_DEBUG=INFO nice -n 10", 1, "", "env NCCL_DEBUG=INFO nice -n 10"),
            (
                "NCCL_TESTS_SPLIT_MASK=0x7 mpirun -np 16",
                16,
                "all ranks in one communicator",
                "NCCL_TESTS_SPLIT_MASK=0x7 mpirun",
            ),
        ] {
            let (ranks, guessed, other) = of(&format!("{before} all_reduce_perf -g 1"));
            assert_eq!((ranks, other.as_str()), (processes, left_out), "{before}: {guessed}");
            assert!(
                if guess.is_empty() { guessed.is_empty() } else { guessed.starts_with(guess) },
                "{before}: {guessed}"
            );
        }
    }

    #[test]
    fn the_processes_of_all_parts_of_a_line_are_those_of_one_test() {
        let test = "all_reduce_perf -b 8 -e 8 -g 2";
        assert_eq!(of(&format!("mpirun -np 1 -H h1 {test} : -np 3 -H h2 {test}")), (8, String::new(), "mpirun".into()));
        assert_eq!(of(&format!("srun -n 2 {test} : -n 4 {test}")).0, 12);
        let (ranks, guessed, _) = of(&format!("mpirun -np 2 -x NCCL_ALGO=Ring {test} : -np 2 {test}"));
        assert_eq!(ranks, 8);
        assert!(guessed.contains("NCCL_ALGO and NCCL_PROTO as before the first"), "{guessed}");
        for other in ["all_gather_perf -b 8 -e 8 -g 2", "all_reduce_perf -b 8 -e 8 -g 1"] {
            let error = read(&format!("mpirun -np 2 {test} : -np 2 {other}")).unwrap_err().to_string();
            assert!(error.contains("different programs or options"), "{error}");
        }
    }

    #[test]
    fn variables_are_read_as_launchers_set_them() {
        for (before, algorithm, left_out) in [
            ("NCCL_ALGO=Ring mpirun -np 2", Some("Ring"), "mpirun"),
            ("mpirun -np 2 -x NCCL_ALGO=Ring", Some("Ring"), "mpirun"),
            (
                "NCCL_ALGO=Ring mpirun -np 2 -x NCCL_ALGO -x NCCL_DEBUG",
                Some("Ring"),
                "mpirun -x NCCL_ALGO -x NCCL_DEBUG",
            ),
            ("mpiexec -n 2 -genv NCCL_ALGO Ring -genvall", Some("Ring"), "mpiexec -genvall"),
            ("mpiexec -n 2 -env NCCL_ALGO=Ring", Some("Ring"), "mpiexec"),
            ("mpiexec -genv NCCL_DEBUG INFO -n 2", None, "mpiexec -genv NCCL_DEBUG=INFO"),
            ("srun -n 2 --export=ALL,NCCL_ALGO=Ring", Some("Ring"), "srun"),
            (
                "srun -n 2 --export NCCL_ALGO=Ring,NCCL_DEBUG=INFO",
                Some("Ring"),
                "srun --export NCCL_ALGO=Ring,NCCL_DEBUG=INFO",
            ),
            ("NCCL_ALGO=Ring srun -n 2 --export=NONE", None, "srun --export=NONE"),
            ("flux run -n 2 --env=NCCL_ALGO=Ring", Some("Ring"), "flux run"),
            ("aprun -n 2 -e NCCL_ALGO=Ring", Some("Ring"), "aprun"),
            ("jsrun -n 2 -E NCCL_ALGO=Ring", Some("Ring"), "jsrun"),
            ("mpirun -np 2 env NCCL_ALGO=Ring", Some("Ring"), "mpirun env"),
        ] {
            let read = read(&format!("{before} all_reduce_perf -g 1")).unwrap();
            assert_eq!(read.ranks, 2, "{before}");
            assert_eq!(read.left_out.join(" "), left_out, "{before}");
            let value = read.request.algorithms.and_then(|values| values.into_iter().next()?);
            assert_eq!(value.as_deref(), algorithm, "{before}");
        }
    }
}
