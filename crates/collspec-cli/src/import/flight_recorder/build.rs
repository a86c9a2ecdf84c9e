//! Dumps become the text of a scenario.
use super::super::accepted::{accepted, refusal};
use super::super::call::{Call, Unit, is_rooted, reduces, reductions_without_bound};
use super::super::comms::Comms;
use super::super::header::{counted, header, sources};
use super::super::inputs::Inputs;
use super::super::merge::{Step, merge};
use super::super::program::Item;
use super::super::steps::{Merged, node};
use super::super::text::Node;
use super::super::unpaired::{self, Counts, Lost};
use super::super::{Error, Imported};
use super::DumpFile;
use super::comment::{comment, made};
use super::dump::Dump;
use super::entry::{Entry, State, What};
use super::groups::Groups;
use super::launches::{AllToAlls, Launches};
use super::remembered::{Remembered, remembered};
use collspec_core::judge::message::ranks_text;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Operations that are not known and are named.
const MAX_TOLD: usize = 8;

/// What the dumps say besides their calls.
struct Facts {
    source: String,
    unknown: BTreeMap<String, u64>,
    has_other_types: bool,
}

pub fn build(files: &[DumpFile], dumps: Vec<Dump>, last: usize, hang: bool) -> Result<Imported, Error> {
    let facts = Facts::of(files, &dumps);
    let remembered = remembered(dumps, AllToAlls::Pieces)?;
    let left_out = remembered.remarks();
    let Remembered { groups, comms, mut launches, .. } = remembered;
    let mut steps = merged(&launches, &comms);
    let first_open = first_open(&steps, &launches);
    let cut = first_open.saturating_sub(last);
    if cut > 0 {
        let Launches { programs, units, .. } = &mut launches;
        let before = Counts::of(programs, units, &comms);
        for (rank, program) in programs.iter_mut().enumerate() {
            let gone = steps[..cut].iter().filter(|step| step.parts.iter().any(|(own, _)| *own == rank)).count();
            if let Some(program) = program {
                program.drain(..gone);
            }
        }
        // Of messages whose other end was cut, this end goes too.
        let after = Counts::of(programs, units, &comms);
        let cut = |end| before.get(end).all - after.get(end).all;
        let surplus = after.surplus(|(pair, sends), _, _| cut((pair, !sends)).saturating_sub(cut((pair, sends))));
        unpaired::remove(programs, units, &comms, &surplus, Lost::First);
        steps = merged(&launches, &comms);
    }
    if steps.is_empty() {
        return Err(Error::Input("the dumps have no calls that all ranks still remember".to_owned()));
    }
    let goes_on = steps.iter().any(|step| !step.complete && !step.absent.is_empty());
    let mut remarks = facts.remarks(&groups, &launches, goes_on);
    remarks.extend(left_out);
    if cut > 0 {
        remarks.push(format!("{} left out before these: see --last", counted(cut as u64, "complete step")));
    }
    let used = steps.iter().filter_map(|step| Some(&launches.units[step.parts.first()?.1.unit]));
    let calls = used.flat_map(|unit| unit.calls.iter()).filter_map(|issued| match &issued.call {
        Call::Collective(call) => Some((call, groups.ranks[issued.comm].len())),
        Call::Message(_) => None,
    });
    remarks.extend(reductions_without_bound(calls));
    let mut inputs = Inputs::default();
    nodes(&steps, &launches, &comms, &mut inputs);
    inputs.complete();
    let nodes = nodes(&steps, &launches, &comms, &mut inputs);
    let ranks = counted(groups.size as u64, "rank");
    let description = format!("From a Flight Recorder dump: {ranks}, {}", what(&steps, &launches, &groups));
    let used: Vec<usize> = steps.iter().map(|step| step.family).collect();
    let text = |hangs: bool| {
        let mut text = header(&remarks, &description, &facts.source, "flight_recorder", groups.size);
        if hangs {
            text.commented("outcome = \"hang\"", "the dump: not completed on all ranks");
            text.line("timeout = 10");
        }
        comms.write(&mut text, &used);
        inputs.write(&mut text);
        text.steps(&nodes);
        accepted(text.to_string(), "keep fewer steps, with --last")
    };
    let imported = |hangs| Ok(Imported { text: text(hangs)?, remarks: remarks.clone() });
    if hang {
        let hangs: Imported = imported(true)?;
        if refusal(&hangs.text).is_none() {
            return Ok(hangs);
        }
    }
    let mut imported = imported(false)?;
    match refusal(&imported.text) {
        None if hang => {
            imported.tell("no outcome = \"hang\": these calls complete, so the dumps do not show what hung")
        }
        Some(refusal) if refusal.is_cost || hang || steps.iter().all(|step| step.complete) => {
            imported.tell_refused(&refusal.why)
        }
        _ => {}
    }
    Ok(imported)
}

fn merged(launches: &Launches, comms: &Comms) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let units = &launches.units;
    let shape = |step: &Step| step.parts.first().map(|(_, item)| units[item.unit].shape(comms));
    merge(&launches.programs, units, comms, &mut |_| false, &mut |step| {
        match steps.last_mut() {
            // Where one group of a family is complete and the next is not, it is one step all the same.
            Some(before) if !step.complete && before.family == step.family && shape(before) == shape(&step) => {
                let own = |rank: &usize| before.parts.iter().any(|(other, _)| other == rank);
                if step.parts.iter().any(|(rank, _)| own(rank)) {
                    steps.push(step);
                } else {
                    before.complete = false;
                    before.parts.extend(step.parts);
                    before.parts.sort_unstable_by_key(|(rank, _)| *rank);
                }
            }
            _ => steps.push(step),
        }
        true
    });
    go_with_most(&mut steps, launches, comms);
    steps
}

/// Ranks without a dump go on with most of those that have one, where these do not agree. Else all would wait for them, and not for the rank
/// that left the others.
fn go_with_most(steps: &mut [Step], launches: &Launches, comms: &Comms) {
    let mut standing: BTreeSet<usize> = BTreeSet::new();
    let has_messages =
        |step: &Step| step.parts.iter().any(|(_, item)| launches.units[item.unit].messages().next().is_some());
    for step in steps.iter_mut().filter(|step| !step.complete && !has_messages(step)) {
        let makes_it: BTreeSet<usize> = step.parts.iter().map(|(rank, _)| *rank).collect();
        let of_unit = |item: &Item| launches.units[item.unit].calls.first().map(|issued| issued.comm);
        let groups: BTreeSet<usize> = step.parts.iter().filter_map(|(_, item)| of_unit(item)).collect();
        for group in groups.into_iter().map(|comm| comms.group(comm)) {
            let (known, absent): (Vec<usize>, Vec<usize>) =
                group.iter().copied().partition(|rank| launches.programs[*rank].is_some());
            let makers = known.iter().filter(|rank| makes_it.contains(*rank)).count();
            if makers < known.len() && 2 * makers > known.len() {
                step.absent.extend(absent.into_iter().filter(|rank| standing.insert(*rank)));
            }
        }
        step.absent.sort_unstable();
    }
}

/// The number of complete steps before the first other one.
fn first_open(steps: &[Step], launches: &Launches) -> usize {
    let is_done = |step: &Step| made(step, launches).iter().all(|(_, launch)| launch.state == State::Completed);
    steps.iter().take_while(|step| step.complete && is_done(step)).count()
}

/// What the scenario has, in a few words.
fn what(steps: &[Step], launches: &Launches, groups: &Groups) -> String {
    let complete = first_open(steps, launches);
    let numbers: Vec<Option<u64>> = steps
        .iter()
        .map(|step| {
            let made = made(step, launches);
            let numbers =
                made.iter().map(|(_, launch)| (!launch.entries[0].is_message()).then_some(launch.entries[0].number));
            numbers.max().flatten()
        })
        .collect();
    let (Some((name, desc)), Some(Some(first)), Some(Some(last))) = (groups.only(), numbers.first(), numbers.last())
    else {
        return format!("{}, of which the first {complete} were complete", counted(steps.len() as u64, "step"));
    };
    let calls = |last: u64| if last == *first { format!("call {last}") } else { format!("calls {first} to {last}") };
    let desc = if desc.is_empty() { String::new() } else { format!(" ({desc})") };
    let what = format!("process group {name}{desc}, {}", calls(*last));
    match complete.checked_sub(1).and_then(|at| numbers[at]) {
        Some(done) => format!("{what}; {} {} complete", calls(done), if done == *first { "was" } else { "were" }),
        None => what,
    }
}

fn nodes(steps: &[Step], launches: &Launches, comms: &Comms, inputs: &mut Inputs) -> Vec<Node> {
    let mut may_disagree = false;
    let node = |step: &Step| {
        may_disagree |= !step.complete;
        let family = &comms.families[step.family];
        let parts = step.parts.iter().map(|(rank, item)| (*rank, &launches.units[item.unit])).collect();
        // Torch gives each group a stream of its own.
        let stream = if family.is_world() { "main" } else { &family.name };
        let merged = Merged {
            world: launches.programs.len(),
            comms,
            parts,
            absent: &step.absent,
            streams: &[stream],
            may_disagree,
        };
        let mut node = Node { comment: comment(step, launches, comms), ..node(&merged, inputs) };
        // A diagnostic may be at a step of the group.
        let entries = made(step, launches).first().map_or(&[][..], |(_, launch)| &launch.entries);
        for (inner, entry) in node.steps.iter_mut().zip(entries) {
            inner.comment = entry.line();
        }
        node
    };
    steps.iter().map(node).collect()
}

impl Facts {
    fn of(files: &[DumpFile], dumps: &[Dump]) -> Self {
        let mut source = sources(&files.iter().map(|file| file.path.as_path()).collect::<Vec<&Path>>());
        let first = |word: fn(&Dump) -> &String| dumps.iter().map(word).find(|word| !word.is_empty());
        for (what, word) in [("torch FR", first(|dump| &dump.version)), ("NCCL", first(|dump| &dump.library))] {
            source.push_str(&word.map_or_else(String::new, |word| format!(", {what} {word}")));
        }
        let mut unknown: BTreeMap<String, u64> = BTreeMap::new();
        for name in dumps.iter().flat_map(|dump| &dump.unknown) {
            *unknown.entry(name.clone()).or_default() += 1;
        }
        let has_data = |entry: &&Entry| !matches!(entry.what, What::End | What::Collective("barrier"));
        let entries = dumps.iter().flat_map(|dump| &dump.entries);
        let has_other_types = entries.filter(has_data).any(|entry| entry.dtypes.contains(&None));
        Self { source, unknown, has_other_types }
    }

    fn remarks(&self, groups: &Groups, launches: &Launches, goes_on: bool) -> Vec<String> {
        let mut remarks = Vec::new();
        let programs = launches.programs.iter().enumerate();
        let missing: Vec<usize> = programs.filter(|(_, own)| own.is_none()).map(|(rank, _)| rank).collect();
        if !missing.is_empty() {
            let ranks = ranks_text(&missing);
            let then = if goes_on { "then the next one of most others" } else { "no more" };
            remarks.push(format!(
                "guessed: {ranks}, without a dump, made the collectives that others completed, and {then}"
            ));
        }
        if groups.has_guessed {
            remarks.push("guessed: a group whose ranks no dump has is one of all ranks".to_owned());
        }
        let calls = || launches.units.all().iter().flat_map(Unit::collectives);
        let any = |of: fn(&str) -> bool| calls().any(|call| of(call.op));
        if any(reduces) {
            remarks.push("guessed: every reduction is a sum, because dumps do not have it".to_owned());
        }
        if launches.has_guessed_roots && any(is_rooted) {
            remarks.push("guessed: root 0 where no rank's tensors show which it is".to_owned());
        }
        if launches.has_guessed_pieces {
            remarks.push("guessed: the pieces of an all_to_all, of which dumps have only the sums".to_owned());
        }
        if launches.all_to_alls_disagree {
            remarks
                .push("ranks disagree about an all_to_all: what they receive is not what is sent to them".to_owned());
        }
        if self.has_other_types {
            remarks.push("guessed: f32 for tensors whose type NCCL does not have, or that have none".to_owned());
        }
        for (name, count) in self.unknown.iter().take(MAX_TOLD) {
            let entries = if *count == 1 { "1 entry".to_owned() } else { format!("{count} entries") };
            remarks.push(format!("left out: {name} ({entries}), which no scenario has"));
        }
        remarks.push("not in dumps: values (guessed: random), and what waits for what between streams".to_owned());
        remarks
    }
}
