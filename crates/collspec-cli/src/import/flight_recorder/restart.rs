//! Dumps of a job that was started again, among which those of an earlier run were left: only those of the newest run are compared.
use super::super::Error;
use super::dump::Dump;
use super::entry::{Entry, What};
use super::groups::DEFAULT;
use collspec_core::judge::message::ranks_text;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Clocks of hosts that run one job differ by less. A run that left dumps has waited for a timeout before the next one began, which takes longer.
const CLOCKS_DIFFER: u64 = 10_000_000_000;

/// Collectives that no rank completes before all ranks have made them, unless they are empty. Of an all_to_all, some parts may be.
const NEEDS_ALL: [&str; 4] = ["all_reduce", "all_gather", "reduce_scatter", "barrier"];

/// What a run looks like to one rank.
struct Life<'a> {
    dump: &'a Dump,
    /// The ranks of the job, if the dump says them.
    world: Option<&'a [usize]>,
    /// When its first and last calls were made; `None` if no call has a time.
    span: Option<(u64, u64)>,
}

impl<'a> Life<'a> {
    fn of(dump: &'a Dump) -> Self {
        let world = dump.groups.iter().find(|group| &*group.desc == DEFAULT && !group.ranks.is_empty());
        let times = || dump.entries.iter().map(|entry| entry.created).filter(|time| *time > 0);
        Self { dump, world: world.map(|group| group.ranks.as_slice()), span: times().min().zip(times().max()) }
    }
}

/// The dumps of the newest run, and a sentence about those that were left out.
///
/// # Errors
///
/// The dumps are of different jobs, and none of these is the newest.
pub fn newest(dumps: Vec<Dump>) -> Result<(Vec<Dump>, Option<String>), Error> {
    let lives: Vec<Life<'_>> = dumps.iter().map(Life::of).collect();
    let mut is_older = of_other_worlds(&lives)?;
    let had_other_ranks = is_older.contains(&true);
    for (at, older) in went_on_without(&lives).into_iter().enumerate() {
        is_older[at] |= older;
    }
    // The newest run began after the last call of every earlier one. Of a dump without times it is not known which run it is of.
    let ends = lives.iter().zip(&is_older).filter(|(_, is_older)| **is_older);
    let Some(ended) = ends.filter_map(|(life, _)| life.span).map(|(_, last)| last).max() else {
        return Ok((dumps, None));
    };
    for (life, is_older) in lives.iter().zip(&mut is_older) {
        *is_older |= life.span.is_none_or(|(_, last)| last <= ended);
    }
    let older: Vec<usize> =
        lives.iter().zip(&is_older).filter(|(_, older)| **older).map(|(life, _)| life.dump.rank).collect();
    let cause = if had_other_ranks {
        "the job was started again"
    } else {
        "the job was started again, or the clocks of its machines differ by more than 10 seconds"
    };
    // Of most ranks, a newest run has left a dump: if it has not, the times are more likely to be wrong.
    if !had_other_ranks && 2 * older.len() >= lives.len() {
        return Err(Error::Input(format!(
            "{cause}: the dumps of {} end before those of the others begin, and yet have completed the same calls; give only the files of one run",
            ranks_text(&older)
        )));
    }
    let (is, dump) = if older.len() == 1 { ("is", "dump") } else { ("are", "dumps") };
    let untimed = if lives.iter().any(|life| life.span.is_none()) { ", or without times" } else { "" };
    let remark = format!(
        "{cause}, and the {dump} of {} {is} left out: made before the newest run began{untimed}",
        ranks_text(&older)
    );
    let mut is_older = is_older.into_iter();
    let newest = dumps.into_iter().filter(|_| !is_older.next().unwrap_or(false)).collect();
    Ok((newest, Some(remark)))
}

/// By dump: true if the job had other ranks than that of the dump with the last call. All ranks of a run know the same ones.
fn of_other_worlds(lives: &[Life<'_>]) -> Result<Vec<bool>, Error> {
    let last = lives.iter().filter(|life| life.world.is_some()).max_by_key(|life| life.span.map(|(_, last)| last));
    let Some(last) = last else { return Ok(vec![false; lives.len()]) };
    let is_other: Vec<bool> =
        lives.iter().map(|life| life.world.is_some_and(|world| Some(world) != last.world)).collect();
    let side = |other: bool| lives.iter().zip(&is_other).filter(move |(_, is_other)| **is_other == other);
    let Some((other, _)) = side(true).next() else { return Ok(is_other) };
    let ended = side(true).map(|(life, _)| life.span.map(|(_, last)| last)).max().flatten();
    let began = side(false).filter_map(|(life, _)| life.span).map(|(first, _)| first).min();
    if ended.zip(began).is_some_and(|(ended, began)| ended < began) && side(true).all(|(life, _)| life.span.is_some()) {
        return Ok(is_other);
    }
    let size = |life: &Life<'_>| life.world.map_or(0, <[usize]>::len);
    Err(Error::Input(format!(
        "the dumps are of different jobs or runs, and their times do not show which is newer: that of rank {} is of a job of {} ranks, and \
         that of rank {} of one of {}: give only the files of one of them",
        last.dump.rank,
        size(last),
        other.dump.rank,
        size(other)
    )))
}

/// By dump: true if another rank made a call, long after the last one of this dump, that this dump has as complete, or one before it. Within
/// one run, a call completes only after all ranks have made it. So the other one is of a later run, whose numbers began again.
fn went_on_without(lives: &[Life<'_>]) -> Vec<bool> {
    // By group: when each of its calls was made, at the latest.
    let mut made: HashMap<(&str, &[usize]), BTreeMap<u64, u64>> = HashMap::new();
    for life in lives {
        for ((group, ranks), entries) in by_group(life.dump) {
            let made = made.entry((group, ranks)).or_default();
            for entry in entries {
                let time = made.entry(entry.number).or_default();
                *time = (*time).max(entry.created);
            }
        }
    }
    for times in made.values_mut() {
        let mut latest = 0;
        for time in times.values_mut() {
            latest = latest.max(*time);
            *time = latest;
        }
    }
    let is_older = |life: &Life<'_>| {
        by_group(life.dump).into_iter().any(|(group, entries)| {
            let done = entries.iter().filter(|entry| entry.seen_completed > 0 && is_proof(entry));
            let Some(number) = done.clone().map(|entry| entry.number).max() else { return false };
            let last = life.span.map(|(_, last)| last);
            let ended = done.map(|entry| entry.seen_completed).chain(last).max().unwrap_or(u64::MAX);
            let latest = made.get(&group).and_then(|times| times.range(..=number).next_back());
            latest.is_some_and(|(_, time)| *time > ended.saturating_add(CLOCKS_DIFFER))
        })
    };
    lives.iter().map(is_older).collect()
}

/// The collectives of a dump by group, of groups whose ranks it says.
fn by_group(dump: &Dump) -> HashMap<(&str, &[usize]), Vec<&Entry>> {
    let mut names: HashMap<&Arc<str>, Vec<&Entry>> = HashMap::new();
    for entry in dump.entries.iter().filter(|entry| matches!(entry.what, What::Collective(_)) && entry.number > 0) {
        names.entry(&entry.group).or_default().push(entry);
    }
    let ranks = dump.groups.iter().filter(|group| !group.ranks.is_empty());
    ranks.filter_map(|group| Some(((&*group.name, group.ranks.as_slice()), names.remove(&group.name)?))).collect()
}

fn is_proof(entry: &Entry) -> bool {
    let is_empty = entry.inputs.iter().all(|elements| *elements == 0);
    matches!(entry.what, What::Collective(op) if NEEDS_ALL.contains(&op) && (op == "barrier" || !is_empty))
}

/// True if `other` is of a later run than `dump`, of the same rank: it made a call with the same number later.
pub fn newer_of_rank(dump: &Dump, other: &Dump) -> bool {
    let times = |dump: &Dump| -> HashMap<(Arc<str>, u64), u64> {
        let own = dump.entries.iter().filter(|entry| matches!(entry.what, What::Collective(_)) && entry.created > 0);
        own.map(|entry| ((entry.group.clone(), entry.number), entry.created)).collect()
    };
    let (own, other) = (times(dump), times(other));
    other.iter().any(|(call, time)| own.get(call).is_some_and(|own| *time > own.saturating_add(CLOCKS_DIFFER)))
}
