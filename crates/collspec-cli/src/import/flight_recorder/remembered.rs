//! The calls that the dumps of all ranks still have.
use super::super::Error;
use super::super::comms::Comms;
use super::super::header::counted;
use super::super::unpaired::{self, Counts, Lost};
use super::dump::Dump;
use super::groups::Groups;
use super::launches::{AllToAlls, Launches, ends_alone, launches};
use super::lost;

/// The calls of all ranks, from the first one of each communicator that no rank has lost.
#[derive(Debug)]
pub struct Remembered {
    pub groups: Groups,
    pub comms: Comms,
    pub launches: Launches,
    /// Calls that were left out because other ranks have lost theirs.
    pub lost: usize,
    /// Launches of which the dumps have only the end.
    pub ends_alone: usize,
}

/// Takes the calls that all ranks still have out of their dumps.
///
/// # Errors
///
/// There is more in the dumps than can be read, or they contradict each other.
pub fn remembered(dumps: Vec<Dump>, all_to_alls: AllToAlls) -> Result<Remembered, Error> {
    let (groups, mut calls) = Groups::of(dumps)?;
    let ends_alone = ends_alone(&calls);
    let has_lost = lost::ranks(&calls);
    let lost = lost::remove_collectives(&mut calls, &groups.ranks);
    let comms = groups.comms();
    let mut launches = launches(&calls, &groups, all_to_alls);
    drop(calls);
    let made_before = launches.items();
    let Launches { programs, units, .. } = &mut launches;
    let surplus = Counts::of(programs, units, &comms).surplus(|((_, from, to), sends), own, other| {
        let other_rank = if sends { to } else { from };
        if has_lost[other_rank] { own.done.saturating_sub(other.done) } else { 0 }
    });
    unpaired::remove(programs, units, &comms, &surplus, Lost::First);
    let lost = lost + made_before - launches.items();
    Ok(Remembered { groups, comms, launches, lost, ends_alone })
}

impl Remembered {
    /// What was left out.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.lost > 0 {
            let calls = counted(self.lost as u64, "call");
            remarks.push(format!("{calls} left out at the beginning: other ranks have lost them"));
        }
        if self.ends_alone > 0 {
            let groups = counted(self.ends_alone as u64, "group");
            remarks.push(format!("left out: {groups} of calls of which the dumps have only the end"));
        }
        remarks
    }
}
