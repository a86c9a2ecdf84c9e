//! Communicators that are split.
use super::meetings::{Gathering, GatheringId, Joining};
use super::{Calls, CommId, Comms, Maker, Named};
use crate::job::CallKind;
use crate::plan::eval::{Names, Ranked};
use crate::scenario::{Diagnostic, NumberByRank, Spanned};
use std::collections::{BTreeMap, HashMap};

/// The colour of ranks that join no new communicator, and the least that NCCL documents.
const NO_COLOUR: i32 = -1;

/// A rank's call.
struct Caller {
    world: usize,
    parent: CommId,
    color: i32,
    joining: Joining,
    /// Its number among the rank's splits of the parent; `None` for a call that fails, which meets no other.
    number: Option<u32>,
}

impl Comms {
    pub(super) fn split(
        &mut self,
        by: &Maker<'_>,
        parent: &Spanned<String>,
        color: &NumberByRank,
        key: Option<&NumberByRank>,
        config: Option<u32>,
    ) -> Result<(Named, Calls), Diagnostic> {
        let of = self.by_name(parent)?.of.clone();
        let mut callers = Vec::new();
        for (world, of) in of.iter().enumerate().filter(|(world, _)| by.runs[*world]) {
            let Some((parent, rank)) = *of else { continue };
            let (color, joining) = self.color_and_key(by, (world, parent, rank), color, key)?;
            let gathering = self.splits_of(parent);
            let number = by.works(world).then(|| self.meetings.splits(gathering, world, color, joining));
            callers.push(Caller { world, parent, color, joining, number });
        }
        // A colour that the library refuses is a fault of its rank alone. Without a colour NCCL does not look at the configuration.
        by.check_all_end_alike(callers.iter().filter(|caller| caller.color > NO_COLOUR).map(|caller| caller.world))?;
        if callers.iter().any(|caller| caller.color == NO_COLOUR && by.refused[caller.world]) {
            let text = "a rank with the colour -1 passes nothing that NCCL could refuse";
            return Err(Diagnostic::new(by.span, text).help("expect no error on this rank"));
        }
        let mut named = self.named_before(Some(by));
        let mut calls = Calls::new();
        let mut parts: HashMap<(CommId, Option<u32>), BTreeMap<i32, Vec<Joining>>> = HashMap::new();
        // For calls that fail, if no other call of the step makes one.
        let mut unmade: HashMap<(CommId, i32), Option<(CommId, u32)>> = HashMap::new();
        let works: HashMap<(CommId, i32), u32> =
            callers.iter().rev().filter_map(|caller| Some(((caller.parent, caller.color), caller.number?))).collect();
        for Caller { world, parent, color: own, joining, number } in callers {
            let succeeds = number.is_some();
            let number = number.or_else(|| works.get(&(parent, own)).copied());
            let gathering = self.splits_of(parent);
            let lineage = number.map(|number| self.meetings.lineage(gathering, number, own));
            let unmade = unmade.entry((parent, own)).or_default();
            let add = |comms: &mut Self| {
                let meeting = (parent, number);
                let parts = parts.entry(meeting).or_insert_with(|| comms.parts(by, meeting, color, key));
                let members = parts.get(&own).into_iter().flatten().map(|(_, _, world)| *world).collect();
                (comms.add(Some(&by.def.name.value), members, config, Some(parent)), 0)
            };
            let new = (own >= 0).then(|| self.met(lineage, unmade, add).0);
            if let Some(comm) = new {
                self.check_blocking_agrees(Some(by), comm, config, Some(parent))?;
            }
            let rank = new.and_then(|comm| self.list[comm].members.iter().position(|member| *member == world));
            if succeeds {
                named.set(world, new.zip(rank));
            }
            let new = new.map(|comm| comm as u32);
            calls.push((world, CallKind::Split { parent: parent as u32, color: own, key: joining.0, new, config }));
        }
        Ok((named, calls))
    }

    /// The kind of calls that split a communicator.
    fn splits_of(&mut self, parent: CommId) -> GatheringId {
        let parent = self.meetings.lineage_of(parent);
        self.meetings.gathering(Gathering::Split { parent })
    }

    /// The ranks of each colour, in their new order, for the splits that have a number. A rank that never makes this call is where it
    /// would be by the step, which never ends for the others: with that, what follows can be planned too.
    fn parts(
        &mut self,
        by: &Maker<'_>,
        (parent, number): (CommId, Option<u32>),
        color: &NumberByRank,
        key: Option<&NumberByRank>,
    ) -> BTreeMap<i32, Vec<Joining>> {
        let gathering = self.splits_of(parent);
        let mut parts: BTreeMap<i32, Vec<Joining>> = BTreeMap::new();
        for (rank, world) in self.list[parent].members.iter().copied().enumerate() {
            let called = number.and_then(|number| self.meetings.split_of(gathering, number, world));
            if let Some((color, joining)) =
                called.or_else(|| self.color_and_key(by, (world, parent, rank), color, key).ok())
            {
                parts.entry(color).or_default().push(joining);
            }
        }
        parts.values_mut().for_each(|part| part.sort_unstable());
        parts
    }

    /// A rank's colour and its place among the ranks of this colour.
    ///
    /// # Errors
    ///
    /// One of them has no value, or none that NCCL takes.
    fn color_and_key(
        &self,
        by: &Maker<'_>,
        (world, parent, rank): (usize, CommId, usize),
        color: &NumberByRank,
        key: Option<&NumberByRank>,
    ) -> Result<(i32, Joining), Diagnostic> {
        let n = self.list[parent].members.len();
        let names = Names { rank, n, t: by.t, ..Names::world(by.case, world) };
        let number = |num: &NumberByRank, what: &str| {
            let v = num.whole(&names)?;
            i32::try_from(v)
                .map_err(|_| Diagnostic::new(num.span, format!("the {what} {v} of rank {rank} does not fit 32 bits")))
        };
        let colour = number(color, "colour")?;
        if colour < NO_COLOUR && !by.fails[world] {
            let text = format!("the colour of rank {rank} is {colour}");
            return Err(Diagnostic::new(color.span, text)
                .help("colours count from 0; -1 is for ranks that join no new communicator"));
        }
        let order = key.map_or(Ok(rank as i32), |k| number(k, "key"))?;
        Ok((colour, (order, rank, world)))
    }
}
