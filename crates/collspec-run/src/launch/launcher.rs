//! The launchers, by the variables that they set.
use super::detect::{LaunchError, Variables};
use std::fmt;

/// A program that starts processes and numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// COLLSPEC_RANK and COLLSPEC_SIZE, set by hand or in a manifest.
    Variables,
    /// PyTorch's torchrun, and other launchers that set the same variables.
    Torchrun,
    /// mpirun of Open MPI.
    OpenMpi,
    /// mpiexec of MPICH and Intel MPI.
    Hydra,
    /// aprun's successor on HPE machines.
    Pals,
    /// Slurm's srun.
    Slurm,
}

/// The position of a process among those that were started together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Its number, from 0.
    pub rank: u32,
    /// Total number of processes.
    pub size: u32,
    /// Its number among the processes of its machine, from 0.
    pub local_rank: u32,
    /// Number of processes on its machine, if the launcher provides it.
    pub local_size: Option<u32>,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank, self.size)
    }
}

/// The variables of a launcher.
struct Names {
    rank: &'static str,
    sizes: &'static [&'static str],
    local_rank: &'static [&'static str],
    local_size: &'static [&'static str],
    /// Others without which the first ones mean something else.
    also: &'static [&'static str],
}

impl Launcher {
    /// All launchers, from the one that is started by the others to the one that starts the others: torchrun may run under srun, but
    /// srun rarely under torchrun.
    pub const ALL: [Self; 6] = [Self::Variables, Self::Torchrun, Self::OpenMpi, Self::Hydra, Self::Pals, Self::Slurm];

    /// The name as used in `--launcher`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Variables => "variables",
            Self::Torchrun => "torchrun",
            Self::OpenMpi => "openmpi",
            Self::Hydra => "hydra",
            Self::Pals => "pals",
            Self::Slurm => "slurm",
        }
    }

    fn names(self) -> Names {
        let none: &[&str] = &[];
        match self {
            Self::Variables => Names {
                rank: "COLLSPEC_RANK",
                sizes: &["COLLSPEC_SIZE"],
                local_rank: &["COLLSPEC_LOCAL_RANK"],
                local_size: &["COLLSPEC_LOCAL_SIZE"],
                also: none,
            },
            Self::Torchrun => Names {
                rank: "RANK",
                sizes: &["WORLD_SIZE"],
                local_rank: &["LOCAL_RANK"],
                local_size: &["LOCAL_WORLD_SIZE"],
                also: &["MASTER_ADDR", "MASTER_PORT"],
            },
            Self::OpenMpi => Names {
                rank: "OMPI_COMM_WORLD_RANK",
                sizes: &["OMPI_COMM_WORLD_SIZE"],
                local_rank: &["OMPI_COMM_WORLD_LOCAL_RANK"],
                local_size: &["OMPI_COMM_WORLD_LOCAL_SIZE"],
                also: none,
            },
            Self::Hydra => Names {
                rank: "PMI_RANK",
                sizes: &["PMI_SIZE"],
                local_rank: &["MPI_LOCALRANKID"],
                local_size: &["MPI_LOCALNRANKS"],
                also: none,
            },
            Self::Pals => Names {
                rank: "PALS_RANKID",
                sizes: &["PALS_SIZE", "PMI_SIZE"],
                local_rank: &["PALS_LOCAL_RANKID"],
                local_size: &["PALS_LOCAL_SIZE"],
                also: none,
            },
            // the step's number of tasks, because SLURM_NTASKS may be that of the allocation
            Self::Slurm => Names {
                rank: "SLURM_PROCID",
                sizes: &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
                local_rank: &["SLURM_LOCALID"],
                local_size: none,
                also: &["SLURM_STEP_ID"],
            },
        }
    }

    /// The position of this process according to the launcher's variables; `None` if it has not started this process, or only this one.
    ///
    /// # Errors
    ///
    /// A number is missing, or is not a number.
    pub(super) fn position(self, variables: &Variables) -> Result<Option<Position>, LaunchError> {
        let names = self.names();
        let Some(rank) = variables.get(names.rank) else { return Ok(None) };
        if !names.also.iter().all(|name| variables.get(name).is_some()) || !self.is_step(variables) {
            return Ok(None);
        }
        let number = |name: &'static str, text: &str| {
            let value = text.to_owned();
            text.trim().parse::<u32>().map_err(|_| LaunchError::Number { name, value })
        };
        let first = |names: &[&'static str]| {
            let found = names.iter().find_map(|name| Some((*name, variables.get(name)?)));
            found.map(|(name, text)| number(name, text)).transpose()
        };
        let missing =
            LaunchError::Missing { there: names.rank, missing: names.sizes.first().copied().unwrap_or_default() };
        let size = first(names.sizes)?.ok_or(missing)?;
        let rank = number(names.rank, rank)?;
        let local_rank = first(names.local_rank)?;
        let local_size = first(names.local_size)?;
        let position = Position { rank, size, local_rank: local_rank.unwrap_or(0), local_size };
        if rank >= size || local_size.is_some_and(|local| position.local_rank >= local || local > size) {
            return Err(LaunchError::Impossible { launcher: self, position });
        }
        Ok((size > 1).then_some(position))
    }

    /// False in a batch script or an interactive shell of Slurm, whose variables look like those of a step's first task.
    fn is_step(self, variables: &Variables) -> bool {
        /// Step ids from here on are reserved and do not belong to steps that srun has started.
        const SPECIAL_STEPS: u32 = 0xffff_fff0;
        let step = || variables.get("SLURM_STEP_ID")?.trim().parse::<u32>().ok();
        self != Self::Slurm || step().is_some_and(|step| step < SPECIAL_STEPS)
    }
}
