//! The program of a log in its order: one list of steps for all ranks, with loops for what repeats.
use super::super::accepted::planned;
use super::super::call::{Collective, Issued, Unit};
use super::super::header::{counted, header};
use super::super::inputs::Inputs;
use super::super::merge::{Step, merge};
use super::super::program::{Item, Programs, Units};
use super::super::steps::{Merged, node};
use super::super::text::Node;
use super::super::unpaired::{self, Counts, Lost};
use super::super::{Error, Imported};
use super::build::{FACTOR, Facts};
use super::collect::{Collector, release};
use super::period::{Piece, with_loops};
use super::streams;
use collspec_core::plan::{Limits, Plan};
use std::collections::{BTreeSet, HashMap};

/// How often the end of the log is cut until the rest fits together.
const MAX_CUTS: usize = 4;
/// Different steps that are kept.
const MAX_STEPS: usize = 16_384;

/// What is said of groups of messages of NCCL 2.27 and later.
const GROUPS: &str = "guessed: messages in a row on a communicator are one group, as far as opCount allows it";

/// A step without its place: the family, who makes which unit, and who takes part without a log.
type Different = (usize, Vec<(usize, u32)>, Vec<usize>);

/// The merged program: different steps, and their order.
#[derive(Default)]
struct Order {
    different: Vec<Different>,
    index: HashMap<Different, u32>,
    sequence: Vec<u32>,
}

impl Order {
    /// False if there are too many.
    fn push(&mut self, step: Step) -> bool {
        let parts = step.parts.iter().map(|(rank, item)| (*rank, item.unit)).collect();
        let key = (step.family, parts, step.absent);
        let next = self.different.len();
        let id = *self.index.entry(key.clone()).or_insert(next as u32);
        if id as usize == next {
            self.different.push(key);
        }
        self.sequence.push(id);
        next < MAX_STEPS
    }
}

/// A program that can be written.
struct Program<'a> {
    facts: &'a Facts,
    units: Units,
    order: Order,
    pieces: Vec<Piece>,
    streams: HashMap<(usize, usize), String>,
    remarks: Vec<String>,
}

pub fn scenario(collector: &Collector, facts: Facts) -> Result<Imported, Error> {
    let mut programs: Programs = vec![None; facts.world.size];
    for (logged, rank) in facts.world.ranks.iter().enumerate() {
        let items = collector.program(logged).iter().zip(0..).map(|(unit, at)| Item { unit: *unit, at, done: true });
        programs[*rank] = Some(items.collect());
    }
    let units = collector.units.clone();
    let has_messages = units.all().iter().any(|unit| !unit.is_collective());
    let logged = Program::new(programs.clone(), units.clone(), collector, &facts)?;
    if !has_messages || collector.is_recording || planned(&logged.text(1).text).is_ok() {
        return Ok(logged.text(logged.rounds_that_fit()));
    }
    // Where groups end is not in every log: perhaps it works if no more of them end than must. A log that lacks lines may have
    // messages that do not fit together.
    for (programs, units, remark) in [joined(programs.clone(), units.clone()), without_messages(programs, units)] {
        if let Ok(mut other) = Program::new(programs, units, collector, &facts)
            && planned(&other.text(1).text).is_ok()
        {
            other.remarks.extend(remark.map(str::to_owned));
            return Ok(other.text(other.rounds_that_fit()));
        }
    }
    Ok(logged.text(logged.rounds_that_fit()))
}

/// Other programs to try, and what is said about them.
type Other = (Programs, Units, Option<&'static str>);

fn without_messages(mut programs: Programs, units: Units) -> Other {
    for program in programs.iter_mut().flatten() {
        program.retain(|item| units[item.unit].is_collective());
    }
    (programs, units, Some("left out: all messages, which do not fit together"))
}

/// Makes one group of groups of messages that follow each other on a communicator.
fn joined(mut programs: Programs, mut units: Units) -> Other {
    for program in programs.iter_mut().flatten() {
        let can_join = |one: &Item, other: &Item| {
            let (one, other) = (&units[one.unit], &units[other.unit]);
            let place = |unit: &Unit| (unit.calls[0].comm, unit.calls[0].stream);
            !one.is_collective() && !other.is_collective() && place(one) == place(other)
        };
        let runs: Vec<Vec<Item>> = program.chunk_by(can_join).map(<[Item]>::to_vec).collect();
        program.clear();
        for run in runs {
            let calls = run.iter().flat_map(|item| units[item.unit].calls.clone()).collect();
            program.push(Item { unit: units.index(Unit { calls }), ..run[0] });
        }
    }
    (programs, units, None)
}

impl<'a> Program<'a> {
    fn new(mut programs: Programs, mut units: Units, collector: &Collector, facts: &'a Facts) -> Result<Self, Error> {
        let comms = &facts.world.comms;
        let calls = |programs: &Programs| programs.iter().flatten().map(Vec::len).sum::<usize>();
        let before = calls(&programs);
        let mut order = Order::default();
        for _ in 0..=MAX_CUTS {
            let counts = Counts::of(&programs, &units, comms);
            let surplus = counts.surplus(|_, own, other| own.all.saturating_sub(other.all));
            unpaired::remove(&mut programs, &mut units, comms, &surplus, Lost::Last);
            order = Order::default();
            let mut reached = vec![0; programs.len()];
            let (mut has_room, mut is_stuck) = (true, false);
            merge(&programs, &units, comms, collector.told.damaged, &mut |step| {
                is_stuck = !step.complete;
                if !is_stuck {
                    step.parts.iter().for_each(|(rank, _)| reached[*rank] += 1);
                    has_room = order.push(step);
                }
                has_room && !is_stuck
            });
            if !has_room {
                return Err(Error::Input(format!(
                    "more than {MAX_STEPS} different steps, which is the most that a scenario may have: import the log of a few \
                     rounds, or use --unique"
                )));
            }
            if !is_stuck {
                break;
            }
            // From here on some ranks wait for others.
            for (program, reached) in programs.iter_mut().zip(reached) {
                program.iter_mut().for_each(|program| program.truncate(reached));
            }
        }
        if order.sequence.is_empty() {
            let message =
                "no call was logged by all ranks of its communicator: give the logs of all ranks, or use --unique";
            return Err(Error::Input(message.to_owned()));
        }
        let mut remarks = facts.remarks.clone();
        let left = before - calls(&programs);
        if left > 0 {
            remarks.push(format!(
                "left out: {} of {before} at the end, which not all ranks that belong to them have logged",
                counted(left as u64, "call")
            ));
        }
        let used = || order.different.iter().flat_map(|(_, parts, _)| parts).map(|(_, unit)| &units[*unit]);
        if used().any(|unit| unit.collectives().any(Collective::lacks_factor)) {
            remarks.push(FACTOR.to_owned());
        }
        let shows_groups = collector.told.versions.keys().all(|version| release(version) < (2, 27));
        let shows_groups = shows_groups && !collector.told.versions.is_empty();
        if !shows_groups && !collector.is_recording && used().any(|unit| unit.calls.len() > 1) {
            remarks.push(GROUPS.to_owned());
        }
        let pieces = with_loops(&order.sequence);
        let streams = streams::names(order.different.iter().map(|(_, parts, _)| parts.as_slice()), &units, comms);
        Ok(Self { facts, units, order, pieces, streams, remarks })
    }

    /// Rounds of the longest loop.
    fn rounds(&self) -> u64 {
        let loops = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Loop(times, inner) => Some((inner.len(), *times)),
            Piece::One(_) => None,
        });
        loops.max().map_or(1, |(_, times)| times)
    }

    /// Rounds that a case may have, from what the first and the second cost.
    fn rounds_that_fit(&self) -> u64 {
        let rounds = self.rounds();
        let Ok(one) = planned(&self.text(1).text) else { return rounds };
        let Ok(two) = planned(&self.text(2).text) else { return 1 };
        let limits = Limits::default();
        let calls = |plan: &Plan| plan.programs.iter().map(Vec::len).sum::<usize>() as u64;
        // Half of each limit: what data decides, and rounds themselves, cost something too.
        let more = |one: u64, two: u64, limit: u64| (limit / 2).saturating_sub(one) / two.saturating_sub(one).max(1);
        let more = more(calls(&one), calls(&two), limits.calls as u64)
            .min(more(one.cost.work, two.cost.work, limits.work))
            .min(more(one.cost.memory, two.cost.memory, limits.memory));
        rounds.min(1 + more)
    }

    /// The scenario with at most this many rounds of each loop.
    fn text(&self, most: u64) -> Imported {
        let Facts { source, what, world, .. } = self.facts;
        let mut inputs = Inputs::default();
        self.nodes(&self.pieces, most, &mut inputs);
        inputs.complete();
        let nodes = self.nodes(&self.pieces, most, &mut inputs);
        let rounds = self.rounds();
        let mut remarks = self.remarks.clone();
        if most < rounds {
            remarks.push(format!("guessed: {most} of {rounds} rounds, because of what a case may cost"));
        }
        let first = self.order.different.iter().flat_map(|(_, parts, _)| &self.units[parts[0].1].calls);
        let comms: BTreeSet<usize> = first.map(|issued| issued.comm).collect();
        let used: Vec<usize> = comms.iter().map(|comm| world.comms.family(*comm)).collect();
        let comms =
            if comms.len() == 1 { "one communicator".to_owned() } else { format!("{} communicators", comms.len()) };
        let calls = counted(self.order.different.len() as u64, "call");
        let repeats = if rounds > 1 { format!(" in {rounds} equal rounds") } else { String::new() };
        let description = format!("{what}, {comms}, {calls}{repeats}");
        let mut text = header(&remarks, &description, source, "nccl_log", world.size);
        world.comms.write(&mut text, &used);
        inputs.write(&mut text);
        text.steps(&nodes);
        Imported { text: text.to_string(), remarks }
    }

    fn nodes(&self, pieces: &[Piece], most: u64, inputs: &mut Inputs) -> Vec<Node> {
        let node = |piece: &Piece| match piece {
            Piece::One(step) => self.node(*step, inputs),
            Piece::Loop(times, inner) => {
                let times = most.min(*times);
                Node {
                    steps: self.nodes(inner, most, inputs),
                    ..Node::new(format!("{{ op = \"loop\", times = {times}"))
                }
            }
        };
        pieces.iter().map(node).collect()
    }

    fn node(&self, step: u32, inputs: &mut Inputs) -> Node {
        let (_, parts, absent) = &self.order.different[step as usize];
        let parts: Vec<(usize, &Unit)> = parts.iter().map(|(rank, unit)| (*rank, &self.units[*unit])).collect();
        let calls = parts.first().map_or(&[][..], |(_, unit)| &unit.calls);
        let stream = |issued: &Issued| self.streams.get(&(parts[0].0, issued.stream)).map_or("main", String::as_str);
        let streams: Vec<&str> = calls.iter().map(stream).collect();
        let in_place = parts.iter().all(|(_, unit)| unit.collectives().any(|call| call.in_place));
        let comment = if in_place { "in place".to_owned() } else { String::new() };
        let world = &self.facts.world;
        let merged = Merged { world: world.size, comms: &world.comms, parts, absent, streams: &streams };
        Node { comment, ..node(&merged, inputs) }
    }
}
