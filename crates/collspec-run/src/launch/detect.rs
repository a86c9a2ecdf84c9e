//! Finds the launcher that has started this process.
use super::meeting_place::{self, SECRET};
use super::{Launch, Launcher, Position};
use std::collections::{BTreeMap, BTreeSet};

/// Characters of the shortest secret, and how many of them must be different: 16 random bytes in any spelling have these.
const LEAST_SECRET: usize = 22;
const LEAST_DIFFERENT: usize = 7;

/// Variables of an environment, without those that are empty.
#[derive(Clone, Debug, Default)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Those of this process.
    pub fn of_this_process() -> Self {
        Self::of(
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
        )
    }

    /// Takes these variables.
    pub fn of(all: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(all.into_iter().filter(|(_, value)| !value.trim().is_empty()).collect())
    }

    /// The value of a variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// The choice made with `--launcher`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChosenLauncher {
    /// The environment decides.
    #[default]
    Auto,
    /// The environment is ignored: this process was not started together with others.
    None,
    /// The named launcher.
    This(Launcher),
}

impl ChosenLauncher {
    /// Parses a launcher's name.
    ///
    /// # Errors
    ///
    /// The name is unknown; the text lists the names.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" => return Ok(Self::Auto),
            "none" => return Ok(Self::None),
            _ => {}
        }
        let found = Launcher::ALL.into_iter().find(|launcher| launcher.name() == text);
        let names = || Launcher::ALL.map(Launcher::name).join(", ");
        found.map(Self::This).ok_or_else(|| format!("expected auto, none, {}", names()))
    }
}

/// The reason the launcher or the position in the job is unclear.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// A variable's value is not a number.
    #[error("{name}={value:?} is not a whole number")]
    Number {
        /// Name of the variable.
        name: &'static str,
        /// Value of the variable.
        value: String,
    },
    /// One variable is set without the other.
    #[error("{there} is set, but {missing} is not")]
    Missing {
        /// The one that is set.
        there: &'static str,
        /// Name of the other variable, which is missing.
        missing: &'static str,
    },
    /// Numbers that no launcher gives.
    #[error(
        "the variables of {} say rank {} of {}, local rank {}{}, which cannot be",
        .launcher.name(), .position.rank, .position.size, .position.local_rank,
        .position.local_size.map_or_else(String::new, |size| format!(" of {size}"))
    )]
    Impossible {
        /// The launcher whose variables are contradictory.
        launcher: Launcher,
        /// The position that they give.
        position: Position,
    },
    /// Two launchers that cannot both be right.
    #[error(
        "the environment has the variables of several launchers, which contradict each other: {}; `--launcher NAME` says which one counts, `--launcher none` that this process is alone",
        .0.iter().map(|(launcher, position)| format!("{} says {position}", launcher.name())).collect::<Vec<_>>().join(", ")
    )]
    Contradiction(Vec<(Launcher, Position)>),
    /// The secret can be guessed.
    #[error(
        "{SECRET} can be guessed: it must have {LEAST_SECRET} characters or more, and {LEAST_DIFFERENT} different ones; `openssl rand -hex 16` \
         makes one"
    )]
    WeakSecret,
    /// The launcher that was named has not started this process.
    #[error("`--launcher {}`, but the environment does not have its variables, or they name one process only", .0.name())]
    NotThere(Launcher),
}

/// Finds the launcher that started this process together with others; `None` if it is alone.
///
/// # Errors
///
/// Variables are invalid, or contradict each other.
pub fn detect(variables: &Variables, chosen: ChosenLauncher) -> Result<Option<Launch>, LaunchError> {
    let (launcher, position) = match chosen {
        ChosenLauncher::None => return Ok(None),
        ChosenLauncher::This(launcher) => {
            (launcher, launcher.position(variables)?.ok_or(LaunchError::NotThere(launcher))?)
        }
        ChosenLauncher::Auto => {
            let mut found = Vec::new();
            for launcher in Launcher::ALL {
                found.extend(launcher.position(variables)?.map(|position| (launcher, position)));
            }
            let Some((_, position)) = found.first().copied() else { return Ok(None) };
            if found.iter().any(|(_, outer)| !can_start(*outer, position)) {
                return Err(LaunchError::Contradiction(found));
            }
            // srun can set the variables of others too, but only its own say where the processes can meet.
            found.retain(|(_, same)| (same.rank, same.size) == (position.rank, position.size));
            let has_place = |(launcher, position): &&(Launcher, Position)| {
                meeting_place::of(*launcher, *position, variables).is_ok_and(|place| place.is_some())
            };
            let Some(found) = found.iter().find(has_place).or(found.first()).copied() else { return Ok(None) };
            found
        }
    };
    if variables.get(SECRET).is_some_and(is_weak) {
        return Err(LaunchError::WeakSecret);
    }
    let unknown = || {
        let (launcher, variable) = (launcher.name(), meeting_place::MEETING);
        format!(
            "{launcher} gives its processes no address: set {variable}=HOST:PORT for all of them, of a machine of the job"
        )
    };
    let place = meeting_place::of(launcher, position, variables);
    Ok(Some(Launch {
        launcher,
        position,
        job: meeting_place::job(launcher, variables),
        secret: meeting_place::secret(launcher, variables),
        place: place.and_then(|place| place.ok_or_else(unknown)),
    }))
}

/// True for a secret that could be guessed by trying.
fn is_weak(secret: &str) -> bool {
    let different: BTreeSet<char> = secret.chars().collect();
    secret.chars().count() < LEAST_SECRET || different.len() < LEAST_DIFFERENT
}

/// True if a process at `outer` can be, or can have started, a process at `inner`: a launcher that starts another one starts fewer
/// processes.
fn can_start(outer: Position, inner: Position) -> bool {
    if outer.size == inner.size { outer.rank == inner.rank } else { inner.size > outer.size }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(text: &str) -> Variables {
        Variables::of(text.split_whitespace().filter_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        }))
    }

    fn position(text: &str) -> Option<(Launcher, u32, u32, u32)> {
        let launch = detect(&variables(text), ChosenLauncher::Auto).unwrap()?;
        let Position { rank, size, local_rank, .. } = launch.position;
        Some((launch.launcher, rank, size, local_rank))
    }

    #[test]
    fn every_launcher_is_known_by_its_variables() {
        let own = position("COLLSPEC_RANK=3 COLLSPEC_SIZE=8");
        assert_eq!(own, Some((Launcher::Variables, 3, 8, 0)));
        let torchrun = "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 MASTER_ADDR=a MASTER_PORT=29500";
        assert_eq!(position(torchrun), Some((Launcher::Torchrun, 5, 8, 1)));
        let open_mpi = "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=0 PMIX_RANK=2";
        assert_eq!(position(open_mpi), Some((Launcher::OpenMpi, 2, 4, 0)));
        assert_eq!(position("PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1"), Some((Launcher::Hydra, 1, 2, 1)));
        assert_eq!(position("PALS_RANKID=1 PMI_SIZE=2 PALS_LOCAL_RANKID=1"), Some((Launcher::Pals, 1, 2, 1)));
        let slurm = "SLURM_PROCID=6 SLURM_NTASKS=8 SLURM_LOCALID=2 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=8";
        assert_eq!(position(slurm), Some((Launcher::Slurm, 6, 8, 2)));
        assert_eq!(position("HOME=/root PMIX_RANK=3"), None);
    }

    #[test]
    fn one_process_is_no_job() {
        assert_eq!(position("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1"), None);
        assert_eq!(position("SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_STEP_ID=0"), None);
    }

    #[test]
    fn shells_and_batch_scripts_of_slurm_are_no_tasks() {
        assert_eq!(position("SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_JOB_ID=7"), None, "a batch script");
        assert_eq!(position("SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_STEP_ID=4294967290"), None, "an interactive step");
        assert_eq!(position("SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_STEP_ID=4294967291"), None, "the batch step");
        // The step has fewer tasks than the allocation.
        let step = "SLURM_PROCID=1 SLURM_NTASKS=16 SLURM_STEP_ID=2 SLURM_STEP_NUM_TASKS=2";
        assert_eq!(position(step), Some((Launcher::Slurm, 1, 2, 0)));
    }

    #[test]
    fn a_rank_without_an_address_is_not_torchruns() {
        assert_eq!(position("RANK=1 WORLD_SIZE=4"), None);
    }

    #[test]
    fn launchers_that_start_each_other_do_not_contradict() {
        let torchrun = "RANK=9 WORLD_SIZE=16 LOCAL_RANK=1 MASTER_ADDR=a MASTER_PORT=29500";
        let under_slurm = format!("{torchrun} SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_STEP_ID=0");
        assert_eq!(position(&under_slurm).map(|found| found.0), Some(Launcher::Torchrun));
        let open_mpi = "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=8 SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_ID=0";
        assert_eq!(position(open_mpi).map(|found| found.0), Some(Launcher::OpenMpi));
        // mpirun starts its daemons on the other machines of the allocation by srun.
        let daemons = "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=8 SLURM_PROCID=0 SLURM_NTASKS=3 SLURM_STEP_ID=0";
        assert_eq!(position(daemons).map(|found| found.0), Some(Launcher::OpenMpi));
        let pmi = "PMI_RANK=3 PMI_SIZE=8 SLURM_PROCID=3 SLURM_NTASKS=8 SLURM_STEP_ID=0";
        assert_eq!(position(pmi).map(|found| found.0), Some(Launcher::Hydra));
        let with_address = format!("{pmi} SLURM_STEP_NODELIST=node[1-4]");
        assert_eq!(position(&with_address).map(|found| found.0), Some(Launcher::Slurm));
    }

    #[test]
    fn a_contradiction_lists_all_and_an_option_settles_it() {
        let both =
            variables("RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=8");
        let error = detect(&both, ChosenLauncher::Auto).unwrap_err();
        let words = error.to_string();
        assert!(words.contains("torchrun says rank 0 of 2, openmpi says rank 3 of 8"), "{words}");
        let chosen = detect(&both, ChosenLauncher::This(Launcher::OpenMpi)).unwrap();
        assert_eq!(chosen.map(|launch| launch.position.rank), Some(3));
        assert_eq!(detect(&both, ChosenLauncher::None), Ok(None));
        let missing = detect(&both, ChosenLauncher::This(Launcher::Slurm));
        assert_eq!(missing, Err(LaunchError::NotThere(Launcher::Slurm)));
        let equal_sizes = variables("PMI_RANK=1 PMI_SIZE=2 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2");
        assert!(matches!(detect(&equal_sizes, ChosenLauncher::Auto), Err(LaunchError::Contradiction(_))));
    }

    #[test]
    fn numbers_that_make_no_sense_are_errors() {
        let error = |text: &str| detect(&variables(text), ChosenLauncher::Auto).unwrap_err().to_string();
        assert_eq!(error("COLLSPEC_RANK=x COLLSPEC_SIZE=2"), "COLLSPEC_RANK=\"x\" is not a whole number");
        assert_eq!(error("COLLSPEC_RANK=0"), "COLLSPEC_RANK is set, but COLLSPEC_SIZE is not");
        assert!(error("COLLSPEC_RANK=2 COLLSPEC_SIZE=2").contains("rank 2 of 2"));
        let local =
            "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=3 OMPI_COMM_WORLD_LOCAL_SIZE=2";
        assert!(error(local).contains("local rank 3 of 2"));
    }

    #[test]
    fn a_secret_that_can_be_guessed_is_an_error() {
        let detected = |secret: &str| {
            detect(
                &variables(&format!("COLLSPEC_RANK=0 COLLSPEC_SIZE=2 COLLSPEC_SECRET={secret}")),
                ChosenLauncher::Auto,
            )
        };
        for weak in ["hunter2", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "0123456789"] {
            assert_eq!(detected(weak), Err(LaunchError::WeakSecret), "{weak}");
        }
        for good in ["9f86d081884c7d659a2feaa0c55ad015", "o4q8dYV7nYqkBqzYp3M2Xw"] {
            assert_eq!(detected(good).unwrap().unwrap().secret, good);
        }
    }

    #[test]
    fn names_of_launchers_are_read_as_they_are_written() {
        for launcher in Launcher::ALL {
            assert_eq!(ChosenLauncher::parse(launcher.name()), Ok(ChosenLauncher::This(launcher)));
        }
        assert!(ChosenLauncher::parse("mpirun").unwrap_err().contains("openmpi"));
    }
}
