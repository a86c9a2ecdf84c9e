//! NCCL's log becomes a scenario: the different calls in it, or the program of all ranks.
//!
//! The log is read line by line, and only what differs is kept.
mod bench;
mod build;
mod collect;
mod line;
mod period;
mod place;
mod processes;
mod read;
mod restart;
mod rounds;
mod streams;
#[cfg(test)]
mod tests;
mod unique;
mod world;

use super::comms::Comms;
use super::program::{Programs, Units};
use super::source::Source;
use super::{Error, Imported};
use collect::Collector;
use restart::Earlier;

/// What is made of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Every different call, as a variant.
    Unique {
        /// Add a table `[bench]` of the most frequent calls.
        bench: bool,
    },
    /// The program in its order.
    Rounds,
}

/// Reads the logs of a job. `progress` gets the number of bytes read so far, now and then.
///
/// # Errors
///
/// A file cannot be read, the log does not say what is needed, or there is more in it than a scenario can have.
pub fn import(files: &[Source], form: Form, progress: &mut dyn FnMut(u64)) -> Result<Imported, Error> {
    if form == Form::Rounds {
        let (collector, earlier) = in_order(files, progress)?;
        let mut imported = build::build(&collector, files, form)?;
        earlier.iter().for_each(|remark| imported.tell(remark));
        return Ok(imported);
    }
    let mut collector = Collector::new(false);
    read::read_files(files, &mut collector, progress)?;
    build::build(&collector, files, form)
}

/// The calls of a job in the order of each rank.
#[derive(Debug)]
pub struct Logged {
    pub comms: Comms,
    /// What the scenario calls each communicator.
    pub names: Vec<String>,
    pub units: Units,
    pub programs: Programs,
    pub remarks: Vec<String>,
}

/// Reads the logs of a job.
///
/// # Errors
///
/// As of [`import`].
pub fn read(files: &[Source], progress: &mut dyn FnMut(u64)) -> Result<Logged, Error> {
    let (collector, earlier) = in_order(files, progress)?;
    let facts = build::facts(&collector, files)?;
    let programs = collector.programs(&facts.world, false);
    let comms = facts.world.comms;
    let names = (0..collector.processes.comms.len()).map(|comm| comms.families[comms.family(comm)].name.clone());
    let remarks = earlier.into_iter().chain(facts.remarks).collect();
    Ok(Logged { names: names.collect(), comms, units: collector.units, programs, remarks })
}

/// The calls of the newest run in their order, and what is said of earlier ones.
fn in_order(files: &[Source], progress: &mut dyn FnMut(u64)) -> Result<(Collector, Option<String>), Error> {
    let mut collector = Collector::new(true);
    read::read_files(files, &mut collector, progress)?;
    let Some(Earlier { processes, remark }) = restart::earlier(&collector)? else { return Ok((collector, None)) };
    let mut collector = Collector::new(true);
    collector.processes.left_out = processes;
    read::read_files(files, &mut collector, progress)?;
    Ok((collector, Some(remark)))
}
