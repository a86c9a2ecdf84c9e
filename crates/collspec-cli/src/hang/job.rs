//! The calls of all ranks of a job, as its dumps, logs or recordings have them.
use crate::import::Error;
use crate::import::comms::Comms;
use crate::import::flight_recorder::{self, AllToAlls, Dump, Launch, Remembered, Unfit};
use crate::import::nccl_log::{self, Logged};
use crate::import::program::{Programs, Units};
use crate::import::source::Source;
use std::collections::BTreeSet;

/// Operations that are not known and are named.
const MAX_NAMED: usize = 8;

/// What is known of a job's calls.
#[derive(Debug)]
pub struct Job {
    pub comms: Comms,
    /// What the job calls each communicator.
    pub names: Vec<String>,
    pub units: Units,
    pub programs: Programs,
    /// By rank and [`Item::at`](crate::import::program::Item): what a dump says of a launch. Logs say no more than the program has.
    pub launches: Vec<Vec<Launch>>,
    /// The all_to_alls whose sizes do not fit together, if each rank has made that call under its number.
    pub unfit: Vec<Unfit>,
    /// True if it is known how far each call came.
    pub knows_progress: bool,
    /// True if first calls were left out because some rank has lost them.
    pub is_cut: bool,
    /// What was guessed, and what was left out.
    pub remarks: Vec<String>,
}

impl Job {
    /// # Errors
    ///
    /// There is more in the dumps than can be read, or they contradict each other.
    pub fn of_dumps(dumps: Vec<Dump>) -> Result<Self, Error> {
        let (dumps, older) = flight_recorder::newest(dumps)?;
        let unknown: BTreeSet<String> = dumps.iter().flat_map(|dump| dump.unknown.iter().cloned()).collect();
        let remembered = flight_recorder::remembered(dumps, AllToAlls::Sizeless)?;
        let mut remarks: Vec<String> = older.into_iter().chain(remembered.remarks()).collect();
        if !unknown.is_empty() {
            let names = unknown.into_iter().take(MAX_NAMED).collect::<Vec<_>>().join(", ");
            remarks.push(format!(
                "left out, so that the answer may name a wrong rank: calls of operations that are not known ({names})"
            ));
        }
        let Remembered { groups, comms, launches, lost, .. } = remembered;
        Ok(Self {
            comms,
            names: groups.descriptions(),
            units: launches.units,
            programs: launches.programs,
            launches: launches.made,
            unfit: launches.unfit,
            knows_progress: true,
            is_cut: lost > 0,
            remarks,
        })
    }

    /// # Errors
    ///
    /// A log cannot be read, or does not say what is needed.
    pub fn of_logs(logs: &[Source], progress: &mut dyn FnMut(u64)) -> Result<Self, Error> {
        let Logged { comms, names, units, programs, remarks } = nccl_log::read(logs, progress)?;
        Ok(Self {
            comms,
            names,
            units,
            programs,
            launches: Vec::new(),
            unfit: Vec::new(),
            knows_progress: false,
            is_cut: false,
            remarks,
        })
    }
}
