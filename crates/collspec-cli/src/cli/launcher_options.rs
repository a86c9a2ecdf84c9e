//! The launchers that start several processes, and which of their options say how many, and with which variables.

/// Launchers with the same options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// mpirun and mpiexec of Open MPI, MPICH and those made from them.
    Mpi,
    Slurm,
    Flux,
    /// aprun of Cray.
    Cray,
    /// torchrun.
    Torch,
    /// jsrun of LSF.
    Jsrun,
}

/// What the value of an option says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    Processes,
    Nodes,
    /// Processes on each node; for jsrun sets on each.
    PerNode,
    /// One process on each node; the option has no value.
    OnePerNode,
    /// Resource sets.
    Sets,
    /// Processes of each resource set.
    PerSet,
    Hosts,
    /// Open MPI's --map-by.
    Mapping,
    /// A variable, with its value or without.
    Variable,
    /// Variables with commas between them.
    Variables,
    /// The name of a variable, and its value in the next word.
    NameAndValue,
}

impl Launcher {
    /// The launcher that a program is.
    pub fn find(file: &str) -> Option<Self> {
        match file {
            "orterun" | "prterun" | "prun" => Some(Self::Mpi),
            // Of `salloc ... srun`, srun starts the processes.
            "srun" | "salloc" => Some(Self::Slurm),
            "flux" => Some(Self::Flux),
            "aprun" => Some(Self::Cray),
            "torchrun" => Some(Self::Torch),
            "jsrun" => Some(Self::Jsrun),
            _ => ["mpirun", "mpiexec"].iter().any(|name| file.starts_with(name)).then_some(Self::Mpi),
        }
    }

    /// True if a line may have several parts with ` : ` between them, whose processes are those of one program.
    pub fn has_parts(self) -> bool {
        matches!(self, Self::Mpi | Self::Slurm | Self::Cray)
    }

    /// The option that a word is, its value if that is in the same word, and what it says.
    pub fn option(self, word: &str) -> Option<(&str, Option<&str>, Says)> {
        if let Some(says) = self.says(word) {
            return Some((word, None, says));
        }
        if let Some((option, value)) = word.split_once('=')
            && let Some(says) = self.says(option)
        {
            return Some((option, Some(value), says));
        }
        // One letter, or -np, and a number.
        let (option, value) = word.split_at(word.find(|c: char| c.is_ascii_digit())?);
        let is_count =
            |says: &Says| matches!(says, Says::Processes | Says::Nodes | Says::PerNode | Says::Sets | Says::PerSet);
        let says = self.says(option).filter(is_count).filter(|_| option.len() == 2 || option == "-np")?;
        Some((option, Some(value), says))
    }

    fn says(self, option: &str) -> Option<Says> {
        Some(match (self, option) {
            (Self::Mpi, "-n" | "--n" | "-np" | "--np" | "-c") => Says::Processes,
            (Self::Slurm | Self::Flux, "-n" | "--ntasks") | (Self::Cray, "-n") => Says::Processes,
            (Self::Jsrun, "-p" | "--np") => Says::Processes,
            (Self::Jsrun, "-n" | "--nrs") => Says::Sets,
            (Self::Jsrun, "-a" | "--tasks_per_rs") => Says::PerSet,
            (Self::Slurm | Self::Flux, "-N" | "--nodes") | (Self::Torch, "--nnodes") => Says::Nodes,
            (Self::Mpi, "-N" | "-npernode" | "--npernode" | "-ppn" | "--ppn" | "-perhost" | "--perhost") => {
                Says::PerNode
            }
            (Self::Slurm | Self::Flux, "--ntasks-per-node" | "--tasks-per-node") | (Self::Cray, "-N") => Says::PerNode,
            (Self::Torch, "--nproc-per-node" | "--nproc_per_node") => Says::PerNode,
            (Self::Jsrun, "-r" | "--rs_per_host") => Says::PerNode,
            (Self::Mpi, "-pernode" | "--pernode") => Says::OnePerNode,
            (Self::Mpi, "-H" | "-host" | "--host" | "-hosts" | "--hosts") => Says::Hosts,
            (Self::Slurm, "-w" | "--nodelist") => Says::Hosts,
            (Self::Mpi, "-map-by" | "--map-by") => Says::Mapping,
            (Self::Mpi, "-x") | (Self::Cray, "-e") | (Self::Jsrun, "-E" | "--env") | (Self::Flux, "--env") => {
                Says::Variable
            }
            (Self::Slurm, "--export") => Says::Variables,
            (Self::Mpi, "-env" | "--env" | "-genv" | "--genv") => Says::NameAndValue,
            _ => return None,
        })
    }
}
