//! The program of a log in its order: one list of steps for all ranks, with loops for what repeats.
use super::super::accepted::{Refusal, judged, planned, refusal};
use super::super::call::{Call, Collective, Issued, Unit, reductions_without_bound};
use super::super::header::{counted, header};
use super::super::inputs::Inputs;
use super::super::merge::{Step, merge};
use super::super::program::{Item, Programs, Units};
use super::super::standstill::Standstill;
use super::super::steps::{Merged, node};
use super::super::text::Node;
use super::super::unpaired::{self, Counts, Lost};
use super::super::{Error, Imported};
use super::build::{FACTOR, Facts};
use super::collect::{Collector, LogFile, Told, release, shows_groups};
use super::period::{Piece, with_loops};
use super::streams;
use super::world::World;
use collspec_core::judge::message::ranks_text;
use collspec_core::plan::{Limits, Plan};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How often the end of the log is cut until the rest fits together.
const MAX_CUTS: usize = 4;
/// Different steps that are kept.
const MAX_STEPS: usize = 16_384;

/// What is said of groups of messages of NCCL 2.27 and later.
const GROUPS: &str = "guessed: messages in a row on a communicator are one group, as far as opCount allows it";

/// What is said where the program cannot finish with groups as they seem to be.
const JOINED: &str = "guessed: messages in a row are one group even where they receive into one buffer, because they cannot finish otherwise";

/// A step without its place: the family, who makes which unit, and who takes part without a log.
type Different = (usize, Vec<(usize, u32)>, Vec<usize>);

/// The merged program: different steps, and their order.
#[derive(Default)]
struct Order {
    different: Vec<Different>,
    index: HashMap<Different, u32>,
    sequence: Vec<u32>,
    /// The steps before the first that lacks ranks, if there is one.
    whole: Option<usize>,
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
    /// The pieces before ranks disagree.
    whole: usize,
    streams: HashMap<(usize, usize), String>,
    /// What ranks make where the calls of some differ from those of others.
    disagreement: Option<String>,
    remarks: Vec<String>,
}

pub fn scenario(collector: &Collector, facts: Facts) -> Result<Imported, Error> {
    let programs = collector.programs(&facts.world, true);
    let units = collector.units.clone();
    let has_messages = units.all().iter().any(|unit| !unit.is_collective());
    let logged = Program::new(programs.clone(), units.clone(), collector, &facts)?;
    let refused = refusal(&logged.text(1).text);
    if !has_messages || collector.is_recording || refused.is_none() {
        return Ok(logged.finished(refused));
    }
    let mut others = Vec::new();
    if !shows_groups(&collector.told.versions) {
        others.push(joined(programs.clone(), units.clone()));
    }
    if collector.told.damaged() > 0 {
        others.push(without_messages(programs, units));
    }
    for (programs, units, remark) in others {
        if let Ok(mut other) = Program::new(programs, units, collector, &facts)
            && refusal(&other.text(1).text).is_none()
        {
            other.remarks.push(remark.to_owned());
            return Ok(other.finished(None));
        }
    }
    Ok(logged.finished(refused))
}

/// Other programs to try, and what is said about them.
type Other = (Programs, Units, &'static str);

fn without_messages(mut programs: Programs, units: Units) -> Other {
    for program in programs.iter_mut().flatten() {
        program.retain(|item| units[item.unit].is_collective());
    }
    (programs, units, "left out: all messages, which do not fit together")
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
    (programs, units, JOINED)
}

/// Whether ranks may lack a call: each time, for each of them, a damaged line of a file with its lines.
fn may_lack(told: &Told, world: &World) -> impl FnMut(&[usize]) -> bool {
    let of_file = |file: &LogFile| (file.damaged, file.ranks.iter().map(|logged| world.ranks[*logged]).collect());
    let mut files: Vec<(u64, BTreeSet<usize>)> = told.files.iter().map(of_file).collect();
    move |ranks| {
        let mut left = files.clone();
        let is_lost = |rank: &usize| match left.iter_mut().find(|(lost, own)| *lost > 0 && own.contains(rank)) {
            Some((lost, _)) => {
                *lost -= 1;
                true
            }
            None => false,
        };
        let are_lost = ranks.iter().all(is_lost);
        if are_lost {
            files = left;
        }
        are_lost
    }
}

/// The most rounds of a loop.
fn most_rounds(pieces: &[Piece]) -> u64 {
    let rounds = pieces.iter().map(|piece| match piece {
        Piece::Loop(times, inner) => (*times).max(most_rounds(inner)),
        Piece::One(_) => 1,
    });
    rounds.max().unwrap_or(1)
}

impl<'a> Program<'a> {
    fn new(mut programs: Programs, mut units: Units, collector: &Collector, facts: &'a Facts) -> Result<Self, Error> {
        let comms = &facts.world.comms;
        let calls = |programs: &Programs, units: &Units| {
            programs.iter().flatten().flatten().map(|item| units[item.unit].calls.len()).sum::<usize>()
        };
        let before = calls(&programs, &units);
        // A log that lacks lines shows disagreements that the program did not have.
        let keeps_disagreement = collector.is_recording || collector.told.damaged() == 0;
        let (mut unpaired, mut cut) = (0, 0);
        let mut order = Order::default();
        let mut invented = BTreeMap::new();
        let mut why = None;
        for _ in 0..=MAX_CUTS {
            let counts = Counts::of(&programs, &units, comms);
            let surplus = counts.surplus(|_, own, other| own.all.saturating_sub(other.all));
            let made = calls(&programs, &units);
            unpaired::remove(&mut programs, &mut units, comms, &surplus, Lost::Last);
            unpaired += made - calls(&programs, &units);
            order = Order::default();
            invented = BTreeMap::<usize, u64>::new();
            let mut reached = vec![0; programs.len()];
            let (mut has_room, mut is_stuck) = (true, false);
            let mut may_lack = may_lack(&collector.told, &facts.world);
            merge(&programs, &units, comms, &mut may_lack, &mut |step| {
                if !step.complete && order.whole.is_none() {
                    let next = programs.iter().zip(&reached).map(|(program, at)| program.as_ref()?.get(*at));
                    let next = next.map(|item| item.map(|item| &units[item.unit])).collect();
                    let standstill = Standstill { next, comms };
                    let disagreement = standstill.disagreement();
                    is_stuck = disagreement.is_none() || !keeps_disagreement;
                    order.whole = Some(order.sequence.len());
                    why.get_or_insert((disagreement, standstill.ended()));
                }
                if !is_stuck {
                    step.parts.iter().for_each(|(rank, _)| reached[*rank] += 1);
                    let guessed = step.absent.iter().filter(|rank| programs[**rank].is_some());
                    guessed.for_each(|rank| *invented.entry(*rank).or_default() += 1);
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
            let made = calls(&programs, &units);
            for (program, reached) in programs.iter_mut().zip(reached) {
                program.iter_mut().for_each(|program| program.truncate(reached));
            }
            cut += made - calls(&programs, &units);
        }
        if order.sequence.is_empty() {
            let message =
                "no call was logged by all ranks of its communicator: give the logs of all ranks, or use --unique";
            return Err(Error::Input(message.to_owned()));
        }
        let mut remarks = facts.remarks.clone();
        for (rank, guessed) in invented {
            let what = counted(guessed, "collective");
            remarks.push(format!(
                "guessed: {what} of rank {rank}, which the others make and its damaged log does not have"
            ));
        }
        if unpaired > 0 {
            let what = counted(unpaired as u64, "message");
            remarks.push(format!("left out: {what} of {before} calls, whose other end is not logged"));
        }
        let mut disagreement = None;
        if let Some((said, ended)) = why {
            let what = counted(cut as u64, "call");
            match said {
                Some(said) if cut > 0 => {
                    remarks.push(format!("left out: {what} of {before} at the end, where ranks disagree; {said}"));
                }
                Some(said) => disagreement = Some(said),
                None => {
                    let ended = ranks_text(&ended);
                    remarks.push(format!("left out: {what} of {before} at the end, after the last ones of {ended}"));
                }
            }
        }
        let used = || order.different.iter().flat_map(|(_, parts, _)| parts).map(|(_, unit)| &units[*unit]);
        if used().any(|unit| unit.collectives().any(Collective::lacks_factor)) {
            remarks.push(FACTOR.to_owned());
        }
        let with_sizes = used().flat_map(|unit| &unit.calls).filter_map(|issued| match &issued.call {
            Call::Collective(call) => Some((call, comms.group(issued.comm).len())),
            Call::Message(_) => None,
        });
        remarks.extend(reductions_without_bound(with_sizes));
        let shows_groups = collector.told.versions.keys().all(|version| release(version) < (2, 27));
        let shows_groups = shows_groups && !collector.told.versions.is_empty();
        if !shows_groups && !collector.is_recording && used().any(|unit| unit.calls.len() > 1) {
            remarks.push(GROUPS.to_owned());
        }
        let (whole, rest) = order.sequence.split_at(order.whole.unwrap_or(order.sequence.len()));
        let mut pieces = with_loops(whole);
        let whole = pieces.len();
        pieces.extend(with_loops(rest));
        let streams = streams::names(order.different.iter().map(|(_, parts, _)| parts.as_slice()), &units, comms);
        Ok(Self { facts, units, order, pieces, whole, streams, disagreement, remarks })
    }

    /// The scenario. `refused` says why one round of it cannot be run.
    fn finished(mut self, refused: Option<Refusal>) -> Imported {
        let disagreement = self.disagreement.take();
        if let Some(said) = &disagreement {
            let what = match refused {
                Some(Refusal { is_wrong: true, .. }) => "the ranks disagree in what comes next",
                _ => "ranks issue the same calls in another order, or in other groups",
            };
            self.remarks.push(format!("{what}; {said}"));
        }
        let rounds = self.rounds_that_fit();
        let mut imported = self.text(rounds);
        let why = refused.as_ref().map(|refusal| refusal.why.clone());
        // Those after a disagreement are not planned before, and may be refused for what they cost.
        let refused = if rounds > 1 { refusal(&imported.text) } else { refused };
        let is_told = |refusal: &Refusal| disagreement.is_some() && why.as_ref() == Some(&refusal.why);
        match refused {
            Some(refusal) if refusal.is_cost || !is_told(&refusal) => imported.tell_refused(&refusal.why),
            Some(_) => {}
            // Reductions in place of what they have reduced before grow, until no bound for their rounding can be told.
            None => {
                if let Some(said) = judged(&imported.text).err().as_deref().and_then(<[_]>::first) {
                    imported.tell_refused(&said.message);
                }
            }
        }
        imported
    }

    /// Rounds that a case may have, from what the first and the second cost.
    fn rounds_that_fit(&self) -> u64 {
        let rounds = most_rounds(&self.pieces);
        // A program whose ranks disagree cannot be planned.
        let plan = |most| planned(&self.text_of(&self.pieces[..self.whole], most).text);
        let Ok(one) = plan(1) else { return rounds };
        let Ok(two) = plan(2) else { return 1 };
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
        self.text_of(&self.pieces, most)
    }

    fn text_of(&self, pieces: &[Piece], most: u64) -> Imported {
        let Facts { source, what, world, .. } = self.facts;
        let mut inputs = Inputs::default();
        let (agreed, rest) = pieces.split_at(self.whole);
        let nodes = |inputs: &mut Inputs| {
            [self.nodes(agreed, most, false, inputs), self.nodes(rest, most, true, inputs)].concat()
        };
        nodes(&mut inputs);
        inputs.complete();
        let nodes = nodes(&mut inputs);
        let rounds = most_rounds(&self.pieces);
        let mut remarks = self.remarks.clone();
        if most < rounds {
            remarks.push(format!("guessed: {most} of {rounds} rounds, because of what a case may cost"));
        }
        let units = self.order.different.iter().flat_map(|(_, parts, _)| parts).map(|(_, unit)| &self.units[*unit]);
        let comms: BTreeSet<usize> = units.flat_map(|unit| &unit.calls).map(|issued| issued.comm).collect();
        let used: Vec<usize> = comms.iter().map(|comm| world.comms.family(*comm)).collect();
        let comms =
            if comms.len() == 1 { "one communicator".to_owned() } else { format!("{} communicators", comms.len()) };
        let steps = match pieces {
            [Piece::Loop(times, inner)] => format!("{} in {times} equal rounds", counted(inner.len() as u64, "step")),
            pieces => counted(pieces.len() as u64, "step"),
        };
        let description = format!("{what}, {comms}, {steps}");
        let mut text = header(&remarks, &description, source, "nccl_log", world.size);
        world.comms.write(&mut text, &used);
        inputs.write(&mut text);
        text.steps(&nodes);
        Imported { text: text.to_string(), remarks }
    }

    fn nodes(&self, pieces: &[Piece], most: u64, may_disagree: bool, inputs: &mut Inputs) -> Vec<Node> {
        let node = |piece: &Piece| match piece {
            Piece::One(step) => self.node(*step, may_disagree, inputs),
            Piece::Loop(times, inner) => {
                let times = most.min(*times);
                Node {
                    steps: self.nodes(inner, most, may_disagree, inputs),
                    ..Node::new(format!("{{ op = \"loop\", times = {times}"))
                }
            }
        };
        pieces.iter().map(node).collect()
    }

    fn node(&self, step: u32, may_disagree: bool, inputs: &mut Inputs) -> Node {
        let (_, parts, absent) = &self.order.different[step as usize];
        let parts: Vec<(usize, &Unit)> = parts.iter().map(|(rank, unit)| (*rank, &self.units[*unit])).collect();
        let calls = parts.first().map_or(&[][..], |(_, unit)| &unit.calls);
        let stream = |issued: &Issued| self.streams.get(&(parts[0].0, issued.stream)).map_or("main", String::as_str);
        let streams: Vec<&str> = calls.iter().map(stream).collect();
        let in_place = parts.iter().all(|(_, unit)| unit.collectives().any(|call| call.in_place));
        let comment = if in_place { "in place".to_owned() } else { String::new() };
        let world = &self.facts.world;
        let comms = &world.comms;
        let merged = Merged { world: world.size, comms, parts, absent, streams: &streams, may_disagree };
        Node { comment, ..node(&merged, inputs) }
    }
}
