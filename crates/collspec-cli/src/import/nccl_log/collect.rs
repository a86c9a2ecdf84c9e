//! Goes through a log once and keeps what differs.
use super::super::MAX_COUNT;
use super::super::call::{Call, Collective, Issued, Message, Unit, is_rooted, properties};
use super::super::program::{Item, Programs, Units};
use super::line::{self, Kind, LoggedCall, Said};
use super::place;
use super::processes::{NotTaken, Processes, Seen};
use super::world::World;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Different calls that are kept.
const MAX_DIFFERENT: usize = 8_000;
/// Calls of all ranks whose order is kept.
const MAX_IN_ORDER: usize = 8_000_000;
/// Messages of one group.
const MAX_GROUP: usize = 4_096;
/// Streams of a rank that are told apart.
const MAX_STREAMS: usize = 64;
/// Names that are kept of versions and unknown calls.
const MAX_NAMES: usize = 16;

/// A call that differs from others, and how often it was made.
#[derive(Clone, Debug)]
pub struct Counted {
    pub comm: usize,
    /// The rank of the communicator, if it matters: of messages, and of operations with a root where it is not this rank.
    pub from: Option<usize>,
    pub call: Call,
    pub calls: u64,
}

#[derive(Clone, Debug, Default)]
pub struct LogFile {
    path: String,
    lines: u64,
    /// Lines that could not be read.
    pub damaged: u64,
    /// The ranks whose lines it has.
    pub ranks: BTreeSet<usize>,
}

/// What is told of a log besides its calls.
#[derive(Debug, Default)]
pub struct Told {
    pub files: Vec<LogFile>,
    /// Calls of communicators whose beginning is not in the log.
    pub homeless: u64,
    /// The first of them: `FILE:LINE`.
    pub first_homeless: String,
    pub unknown_calls: BTreeMap<String, u64>,
    pub versions: BTreeMap<String, u64>,
    pub between_elements: u64,
    /// Calls that receive, not in place, after a boundary.
    pub receives_after_boundary: u64,
    /// True if more streams were used than are told apart.
    pub many_streams: bool,
}

impl Told {
    /// The file that is being read.
    fn file(&mut self) -> &mut LogFile {
        if self.files.is_empty() {
            self.files.push(LogFile::default());
        }
        let last = self.files.len() - 1;
        &mut self.files[last]
    }

    fn count_homeless(&mut self) {
        self.homeless += 1;
        if self.homeless == 1 {
            let LogFile { path, lines, .. } = self.file();
            self.first_homeless = format!("{path}:{lines}");
        }
    }

    /// The name of the file with this number, from 1 on.
    pub fn path(&self, number: usize) -> &str {
        number.checked_sub(1).and_then(|at| self.files.get(at)).map_or("", |file| &file.path)
    }

    pub fn damaged(&self) -> u64 {
        self.files.iter().map(|file| file.damaged).sum()
    }

    pub fn lines(&self) -> u64 {
        self.files.iter().map(|file| file.lines).sum()
    }
}

/// What a rank has done so far.
#[derive(Debug, Default)]
struct Rank {
    program: Vec<u32>,
    streams: HashMap<u64, usize>,
    /// By thread in a recording; else at most one.
    open: HashMap<u64, OpenGroup>,
}

/// A call, or calls of a group that may go on.
#[derive(Debug)]
struct OpenGroup {
    /// Its place in the rank's program.
    at: usize,
    tid: u64,
    /// In a recording the number of the group, else the opCount of its last message.
    number: Option<u64>,
    unit: Unit,
    /// Where its messages are received.
    buffers: HashSet<u64>,
}

/// What a log has said so far.
#[derive(Debug, Default)]
pub struct Collector {
    in_order: bool,
    pub is_recording: bool,
    pub processes: Processes,
    pub told: Told,
    pub different: Vec<Counted>,
    index: HashMap<(usize, Option<usize>, Call), usize>,
    pub units: Units,
    ranks: Vec<Rank>,
    /// By logged rank and file: its first and last line.
    pub spans: BTreeMap<(usize, usize), (u64, u64)>,
    kept: usize,
}

impl Collector {
    /// With `in_order`, the order of the calls is kept.
    pub fn new(in_order: bool) -> Self {
        Self { in_order, ..Self::default() }
    }

    /// The units of a logged rank.
    pub fn program(&self, rank: usize) -> &[u32] {
        self.ranks.get(rank).map_or(&[], |rank| &rank.program)
    }

    /// The programs by the world's ranks. A log does not say whether calls were completed.
    pub fn programs(&self, world: &World, done: bool) -> Programs {
        let mut programs: Programs = vec![None; world.size];
        for (logged, rank) in world.ranks.iter().enumerate() {
            let items = self.program(logged).iter().zip(0..).map(|(unit, at)| Item { unit: *unit, at, done });
            programs[*rank] = Some(items.collect());
        }
        programs
    }

    /// True if calls were kept.
    pub fn has_calls(&self) -> bool {
        self.kept > 0
    }

    /// The communicators that are used.
    pub fn used(&self) -> Vec<bool> {
        let mut used = vec![false; self.processes.comms.len()];
        self.units.all().iter().flat_map(|unit| &unit.calls).for_each(|issued| used[issued.comm] = true);
        self.different.iter().for_each(|counted| used[counted.comm] = true);
        used
    }

    /// The lines from here on are those of this file.
    pub fn begin_file(&mut self, path: &str) {
        self.told.files.push(LogFile { path: path.to_owned(), ..LogFile::default() });
    }

    /// Takes in a line; the error says what to do if there is too much of something.
    pub fn line(&mut self, line: &str) -> Result<(), String> {
        self.told.file().lines += 1;
        for (writer, said) in line::messages(line) {
            match (said, writer) {
                (Said::Start, Some(writer)) => self.processes.start(writer),
                (Said::Start, None) => {}
                (Said::Call(_) | Said::Reduction(_), Some(writer)) if self.processes.is_left_out(writer) => {}
                (Said::Nothing, _) => {}
                (Said::Version(version), _) => count(&mut self.told.versions, version),
                (Said::Damaged, _) | (_, None) => self.told.file().damaged += 1,
                (Said::UnknownCall(name), _) => count(&mut self.told.unknown_calls, name),
                (Said::Recording, _) => self.is_recording = true,
                (Said::Reduction(made), Some(writer)) => {
                    let is_known = self.processes.make(writer, made);
                    self.told.file().damaged += u64::from(!is_known);
                }
                (Said::Init(init), Some(writer)) => match self.processes.begin(writer, &init) {
                    Ok(rank) => self.seen(rank),
                    Err(NotTaken::LeftOut) => {}
                    Err(NotTaken::Contradiction) => self.told.file().damaged += 1,
                    Err(NotTaken::TooMuch(message)) => return Err(message),
                },
                (Said::Call(mut call), Some(writer)) => match self.processes.comm(writer, call.comm) {
                    Some(seen) if call.nranks.is_none_or(|n| n == self.processes.comms[seen.comm].members.len()) => {
                        self.seen(seen.rank);
                        if call.reduce == "premul_sum" {
                            call.factor = self.processes.factor(writer, &call);
                        }
                        self.call(writer.tid, &call, seen)?;
                    }
                    _ => self.told.count_homeless(),
                },
            }
        }
        Ok(())
    }

    /// The line is one of this rank.
    fn seen(&mut self, rank: usize) {
        let file = self.told.file();
        file.ranks.insert(rank);
        let line = file.lines;
        self.spans.entry((rank, self.told.files.len())).or_insert((line, line)).1 = line;
    }

    fn call(&mut self, tid: u64, logged: &LoggedCall, seen: Seen) -> Result<(), String> {
        let n = self.processes.comms[seen.comm].members.len();
        let made = match logged.kind {
            _ if logged.root >= n || logged.count > MAX_COUNT => None,
            Kind::Collective(op) => self.collective(op, logged, seen, n),
            Kind::Send | Kind::Recv => Some(self.message(logged, seen, n)),
        };
        let Some(call) = made else {
            self.told.file().damaged += 1;
            return Ok(());
        };
        if self.kept >= MAX_IN_ORDER && self.in_order {
            return Err(format!(
                "more than {MAX_IN_ORDER} calls whose order would be kept: import the log of a few rounds, or use --unique"
            ));
        }
        self.kept += 1;
        if self.in_order { self.keep_in_order(tid, logged, seen, call) } else { self.keep(seen, call) }
    }

    /// `None` if the numbers cannot be right.
    fn collective(&mut self, op: &'static str, call: &LoggedCall, seen: Seen, n: usize) -> Option<Call> {
        let properties = properties(op)?;
        let place = place::of_collective(op, call, seen.number);
        let reads = properties.readers.includes(seen.number, call.root);
        let writes = properties.writers.includes(seen.number, call.root);
        self.told.between_elements += u64::from(place.between_elements && reads);
        self.told.receives_after_boundary += u64::from(place.receives_after_boundary && writes);
        Some(Call::Collective(Collective {
            op,
            reduce: call.reduce,
            factor: call.factor.clone(),
            dtype: call.dtype,
            count: properties.send.elements(call.count, n).filter(|count| *count <= MAX_COUNT)?,
            root: if properties.rooted { call.root } else { 0 },
            in_place: place.in_place && (!properties.rooted || call.root == seen.number),
            offset: if reads { place.offset } else { 0 },
            pieces: Vec::new(),
        }))
    }

    fn message(&mut self, call: &LoggedCall, seen: Seen, n: usize) -> Call {
        let place = place::of_message(call);
        self.told.between_elements += u64::from(place.between_elements);
        self.told.receives_after_boundary += u64::from(place.receives_after_boundary);
        Call::Message(Message {
            sends: call.kind == Kind::Send,
            distance: (call.root + n - seen.number) % n,
            dtype: call.dtype,
            count: call.count,
            offset: place.offset,
        })
    }

    /// Counts a call among the different ones.
    fn keep(&mut self, seen: Seen, mut call: Call) -> Result<(), String> {
        let from = match &mut call {
            Call::Message(message) => {
                message.offset = 0;
                Some(seen.number)
            }
            Call::Collective(call) if is_rooted(call.op) && call.root != seen.number => {
                (call.offset, call.in_place) = (0, false);
                Some(seen.number)
            }
            Call::Collective(_) => None,
        };
        let at = *self.index.entry((seen.comm, from, call.clone())).or_insert(self.different.len());
        if at == MAX_DIFFERENT {
            return Err(format!(
                "more than {MAX_DIFFERENT} different calls, as of messages whose length always changes: import the log of a few \
                 rounds, or of fewer ranks"
            ));
        }
        if at == self.different.len() {
            self.different.push(Counted { comm: seen.comm, from, call, calls: 0 });
        }
        self.different[at].calls += 1;
        Ok(())
    }

    fn keep_in_order(&mut self, tid: u64, logged: &LoggedCall, seen: Seen, call: Call) -> Result<(), String> {
        if self.ranks.len() <= seen.rank {
            self.ranks.resize_with(seen.rank + 1, Rank::default);
        }
        let rank = &mut self.ranks[seen.rank];
        let next = rank.streams.len();
        let stream = match rank.streams.get(&logged.stream) {
            Some(stream) => *stream,
            None if next < MAX_STREAMS => *rank.streams.entry(logged.stream).or_insert(next),
            None => {
                self.told.many_streams = true;
                0
            }
        };
        let issued = Issued { comm: seen.comm, stream, call };
        let buffer = (logged.kind == Kind::Recv).then_some(logged.recv);
        let (is_recording, every) = (self.is_recording, u64::from(numbers_every_call(&self.told.versions)));
        let (thread, number) = if is_recording { (tid, logged.group) } else { (0, Some(logged.number)) };
        let goes_on = |group: &&mut OpenGroup| {
            let last = group.unit.calls.last();
            if is_recording {
                return number.is_some() && group.number == number;
            }
            group.tid == tid
                && group.number.map(|last| last.wrapping_add(every)) == number
                && last.is_some_and(|last| (last.comm, last.stream) == (seen.comm, stream))
                && matches!(issued.call, Call::Message(_))
                && !group.unit.is_collective()
                && group.unit.calls.len() < MAX_GROUP
                // One group does not receive into a buffer twice.
                && buffer.is_none_or(|buffer| !group.buffers.contains(&buffer))
        };
        if let Some(group) = rank.open.get_mut(&thread).filter(goes_on) {
            if group.unit.calls.len() >= MAX_GROUP {
                return Err(format!("a group of more than {MAX_GROUP} calls of a rank: use --unique"));
            }
            group.unit.calls.push(issued);
            group.buffers.extend(buffer);
            group.number = number;
            return Ok(());
        }
        self.close(seen.rank, thread)?;
        let rank = &mut self.ranks[seen.rank];
        let (at, unit, buffers) = (rank.program.len(), Unit { calls: vec![issued] }, buffer.into_iter().collect());
        // Another thread may go on before the group ends.
        rank.program.push(0);
        rank.open.insert(thread, OpenGroup { at, tid, number, unit, buffers });
        Ok(())
    }

    /// Ends all groups: the log is over.
    pub fn end(&mut self) -> Result<(), String> {
        for rank in 0..self.ranks.len() {
            let mut threads: Vec<u64> = self.ranks[rank].open.keys().copied().collect();
            threads.sort_unstable();
            threads.into_iter().try_for_each(|thread| self.close(rank, thread))?;
        }
        Ok(())
    }

    fn close(&mut self, rank: usize, thread: u64) -> Result<(), String> {
        let Some(mut group) = self.ranks[rank].open.remove(&thread) else { return Ok(()) };
        let n = |issued: &Issued| self.processes.comms[issued.comm].members.len();
        group.unit.calls.sort_by_key(|issued| issued.call.place_in_group(n(issued)));
        let unit = self.units.index(group.unit);
        if unit as usize == MAX_DIFFERENT {
            return Err(format!("more than {MAX_DIFFERENT} different calls or groups: import the log of a few rounds"));
        }
        self.ranks[rank].program[group.at] = unit;
        Ok(())
    }
}

fn count(names: &mut BTreeMap<String, u64>, name: String) {
    if names.len() < MAX_NAMES || names.contains_key(&name) {
        *names.entry(name).or_default() += 1;
    }
}

/// The numbers of a version: `2.31.2+cuda12.9`.
pub fn release(version: &str) -> (u32, u32) {
    let mut numbers = version.split('.').map_while(|number| number.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// True if calls with different numbers are never of one group.
pub fn shows_groups(versions: &BTreeMap<String, u64>) -> bool {
    !versions.is_empty() && !numbers_every_call(versions)
}

/// NCCL 2.31 and later count every call; before, the calls of a group had one number.
fn numbers_every_call(versions: &BTreeMap<String, u64>) -> bool {
    versions.keys().any(|version| release(version) >= (2, 31))
}
