//! Gathers the calls of all ranks that belong together, and has them judged as soon as their data is whole.
use super::call::{Call, Key, Op, Side};
use super::line::{self, Data, Said};
use super::rule::{self, Elements, Member, Source};
use super::scenario;
use super::tally::Tally;
use collspec_core::oracle::Budget;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Elements of calls that are not whole yet. Beyond that, the oldest calls are given up.
const MAX_ELEMENTS: usize = 16 << 20;
/// Calls that are not whole yet.
const MAX_GROUPS: usize = 1 << 20;

/// The reason for calls of which not everything was written.
pub const NOT_ENDED: &str = "that had not ended, or whose process was killed";

/// The reason for calls that NCCL refused, and the recorder's word for it.
pub const REFUSED: &str = "that NCCL refused";
const REFUSED_WORD: &str = "refused";

/// The calls of one launch; calls outside of graphs have one.
pub type Launch = (Key, u64);

/// Is told what is met in the files.
pub trait Watch {
    /// The process with this number, as `HOST:PID`.
    fn process(&mut self, number: u32, name: &str);
    /// The file of the NCCL that a process uses.
    fn library(&mut self, file: &str);
    /// Calls that belong together are judged, or will not be for this reason. They are in the order of their ranks, or the sender comes first.
    fn ended(&mut self, launch: &Launch, members: &[Member], fate: Result<Wrong, &str>);
}

/// True if an element of the calls is wrong.
pub type Wrong = bool;

/// A rank's call that may not be whole.
struct Part {
    source: Source,
    member: Member,
    /// Lines that are to come.
    left: [u64; 3],
    gone: Option<String>,
}

impl Part {
    fn new(source: Source, call: &Arc<Call>) -> Self {
        let (input, output) = (Elements::new(), Elements::new());
        let member = Member { call: Arc::clone(call), source, factor: call.factor, input, output };
        Self { source, member, left: call.lines, gone: None }
    }

    fn is_done(&self) -> bool {
        self.left == [0; 3] || self.gone.is_some()
    }

    fn elements(&self) -> usize {
        self.member.input.len() + self.member.output.len()
    }
}

#[derive(Default)]
pub struct Matcher<'a> {
    watch: Option<&'a mut dyn Watch>,
    processes: HashMap<String, u32>,
    /// Calls of which more lines may come; those of graphs stay.
    calls: HashMap<Source, Arc<Call>>,
    launches: HashMap<Launch, Vec<Part>>,
    order: VecDeque<Launch>,
    /// The highest number of a call, by process.
    highest: HashMap<u32, u64>,
    /// Calls of graphs of which nothing is copied on their rank.
    silent: HashMap<Key, Vec<(Source, Arc<Call>)>>,
    /// Calls of graphs that were launched on their rank.
    launched: HashSet<Source>,
    full: HashSet<u32>,
    second: HashSet<u32>,
    elements: usize,
    budget: Budget,
    tally: Tally,
}

impl<'a> Matcher<'a> {
    pub fn watched(watch: Option<&'a mut dyn Watch>) -> Self {
        Self { watch, ..Self::default() }
    }

    /// Takes in a line.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn line(&mut self, line: &str) -> Result<(), String> {
        let (process, said) = line::said(line)?;
        if matches!(said, Said::Nothing) {
            return Ok(());
        }
        let next = u32::try_from(self.processes.len()).map_err(|_| "too many processes")?;
        let process = match self.processes.get(process) {
            Some(known) => *known,
            None => {
                if let Some(watch) = &mut self.watch {
                    watch.process(next, process);
                }
                *self.processes.entry(process.to_owned()).or_insert(next)
            }
        };
        match said {
            Said::Seen => self.tally.seen += 1,
            Said::Call(id, call) => self.call((process, id), call)?,
            Said::Data(data) => self.data((process, data.id), &data)?,
            Said::Gone(id, why) => self.gone((process, id), why),
            Said::Left(why) => {
                self.tally.looked_at += 1;
                self.tally.leave_out(reason(why), 1);
            }
            Said::Full => _ = self.full.insert(process),
            Said::SecondLibrary => _ = self.second.insert(process),
            Said::Library(file) => {
                if let Some(watch) = &mut self.watch {
                    watch.library(file);
                }
            }
            Said::Nothing => {}
        }
        if self.elements > MAX_ELEMENTS || self.order.len() > MAX_GROUPS {
            self.give_up_oldest();
        }
        Ok(())
    }

    fn call(&mut self, source: Source, call: Call) -> Result<(), String> {
        let call = Arc::new(call);
        if self.calls.insert(source, Arc::clone(&call)).is_some() {
            return Err(format!("call {} of this process was there before", source.1));
        }
        let highest = self.highest.entry(source.0).or_default();
        *highest = source.1.max(*highest);
        self.tally.looked_at += 1;
        let key = call.key();
        if !call.in_graph {
            self.add((key, 0), Part::new(source, &call));
            return Ok(());
        }
        if call.lines == [0; 3] {
            self.silent.entry(key).or_default().push((source, Arc::clone(&call)));
            let launches: Vec<Launch> = self.launches.keys().filter(|(other, _)| *other == key).copied().collect();
            for launch in launches {
                self.add(launch, Part::new(source, &call));
            }
        }
        Ok(())
    }

    fn add(&mut self, launch: Launch, part: Part) {
        if part.member.call.in_graph {
            self.launched.insert(part.source);
        }
        let parts = self.launches.entry(launch).or_insert_with(|| {
            self.order.push_back(launch);
            Vec::new()
        });
        if launch.1 > 0 {
            (self.tally.seen, self.tally.looked_at) = (self.tally.seen + 1, self.tally.looked_at + 1);
        }
        let is_there = parts.iter().any(|other| {
            let (one, other) = (&part.member.call, &other.member.call);
            one.rank == other.rank && one.op == other.op
        });
        if is_there || parts.len() >= part.member.call.members() {
            // Without a part, its data is passed over.
            self.tally.leave_out(rule::DISAGREE, 1);
            return;
        }
        parts.push(part);
        self.look(launch);
    }

    fn data(&mut self, source: Source, data: &Data<'_>) -> Result<(), String> {
        let Some(call) = self.calls.get(&source).cloned() else {
            // What was copied of a call that is over for another reason.
            return match self.highest.get(&source.0) {
                Some(highest) if data.id <= *highest => Ok(()),
                _ => Err(format!("data of a call {} that is not there", data.id)),
            };
        };
        let elements = data.elements(&call)?;
        let launch = (call.key(), if call.in_graph { data.replay } else { 0 });
        if call.in_graph {
            for (other, silent) in self.silent.get(&launch.0).cloned().unwrap_or_default() {
                if !self.has(launch, other) {
                    self.add(launch, Part::new(other, &silent));
                }
            }
            if !self.has(launch, source) {
                self.add(launch, Part::new(source, &call));
            }
        }
        // Without a part, the call was given up.
        let parts = self.launches.get_mut(&launch).into_iter().flatten();
        let Some(part) = parts.into_iter().find(|part| part.source == source) else { return Ok(()) };
        let (side, own) = match data.side {
            Side::In => (0, &mut part.member.input),
            Side::Out => (1, &mut part.member.output),
            Side::Factor => {
                part.member.factor = elements.first().map(|(_, _, bits)| *bits);
                (2, &mut Elements::new())
            }
        };
        part.left[side] = part.left[side].checked_sub(1).ok_or("more lines with data than the call has")?;
        self.elements += if side < 2 { elements.len() } else { 0 };
        own.extend(elements);
        self.look(launch);
        Ok(())
    }

    fn has(&self, launch: Launch, source: Source) -> bool {
        self.launches.get(&launch).is_some_and(|parts| parts.iter().any(|part| part.source == source))
    }

    /// Nothing more comes of a call. Of one that NCCL refused, its rank's next call has the same number.
    fn gone(&mut self, source: Source, why: &str) {
        let Some(call) = self.calls.get(&source).cloned() else { return };
        let launch = (call.key(), 0);
        let parts = self.launches.entry(launch).or_default();
        let at = parts.iter().position(|part| part.source == source);
        match at {
            Some(at) if why != REFUSED_WORD => parts[at].gone = Some(reason(why)),
            Some(at) => {
                let part = parts.remove(at);
                self.calls.remove(&source);
                self.tally.leave_out(reason(why), 1);
                if let Some(watch) = &mut self.watch {
                    watch.ended(&launch, &[part.member], Err(&reason(why)));
                }
            }
            None => {
                self.launched.insert(source);
                self.tally.leave_out(reason(why), u64::from(call.in_graph));
            }
        }
        if parts.is_empty() {
            self.launches.remove(&launch);
        }
        self.look(launch);
    }

    /// Judges a call of which everything is there.
    fn look(&mut self, launch: Launch) {
        let Some(parts) = self.launches.get(&launch) else { return };
        let members = parts.first().map_or(usize::MAX, |part| part.member.call.members());
        if parts.len() < members || !parts.iter().all(Part::is_done) {
            return;
        }
        let Some(parts) = self.launches.remove(&launch) else { return };
        self.forget(&parts);
        let count = parts.len() as u64;
        let gone = parts.iter().find_map(|part| part.gone.clone());
        let members: Vec<Member> = parts.into_iter().map(|part| part.member).collect();
        let members = in_order(members);
        if self.budget.is_exhausted() {
            self.budget = Budget::default();
        }
        let wrong = self.tally.wrong;
        let judged = match gone {
            Some(why) => Err(why),
            None => rule::judge(&members, launch.1, &mut self.budget, &mut self.tally),
        };
        if let Some(watch) = &mut self.watch {
            let fate = judged.as_ref().map(|()| self.tally.wrong > wrong);
            watch.ended(&launch, &members, fate.map_err(String::as_str));
        }
        if let Err(why) = judged {
            self.tally.leave_out(why, count);
        }
        if wrong == 0 && self.tally.wrong > 0 {
            self.tally.scenario = self.tally.wrongs.first().map(|wrong| scenario::of(wrong, &members));
        }
    }

    fn forget(&mut self, parts: &[Part]) {
        for part in parts {
            self.elements -= part.elements().min(self.elements);
            if !part.member.call.in_graph {
                self.calls.remove(&part.source);
            }
        }
        // Places of calls that are whole are taken away when they come to the front.
        while self.order.front().is_some_and(|launch| !self.launches.contains_key(launch)) {
            self.order.pop_front();
        }
        if self.order.len() > 2 * self.launches.len() + 1024 {
            self.order.retain(|launch| self.launches.contains_key(launch));
        }
    }

    fn give_up_oldest(&mut self) {
        while self.elements > MAX_ELEMENTS / 2 || self.order.len() > MAX_GROUPS / 2 {
            let Some(launch) = self.order.pop_front() else { return };
            let Some(parts) = self.launches.remove(&launch) else { continue };
            self.forgotten(&launch, &parts, "whose ranks are too far apart in their files");
            self.elements -= parts.iter().map(Part::elements).sum::<usize>().min(self.elements);
        }
    }

    /// Calls that are not whole will not be judged.
    fn forgotten(&mut self, launch: &Launch, parts: &[Part], why: &str) {
        self.tally.leave_out(why, parts.len() as u64);
        if let Some(watch) = &mut self.watch {
            let members = in_order(parts.iter().map(|part| part.member.clone()).collect());
            watch.ended(launch, &members, Err(why));
        }
    }

    /// Judges what is complete after the last line, and counts the rest with its reason.
    pub fn end(mut self) -> Tally {
        for (launch, parts) in std::mem::take(&mut self.launches) {
            let members = parts.first().map_or(0, |part| part.member.call.members());
            let gone = parts.iter().find_map(|part| part.gone.clone());
            let why = gone.unwrap_or_else(|| match parts.iter().all(Part::is_done) && parts.len() < members {
                true => "of which not all ranks are there".to_owned(),
                false => NOT_ENDED.to_owned(),
            });
            self.forgotten(&launch, &parts, &why);
        }
        let of_graphs = self.calls.iter().filter(|(source, call)| call.in_graph && !self.launched.contains(source));
        let never = of_graphs.count() as u64;
        self.tally.leave_out("of a graph that was never launched", never);
        let unseen = self.tally.seen.saturating_sub(self.tally.looked_at);
        self.tally.leave_out("not in the sample", unseen);
        (self.tally.full, self.tally.second_libraries) = (self.full.len() as u64, self.second.len() as u64);
        self.tally
    }
}

/// By rank; the sender of a message comes first.
fn in_order(mut members: Vec<Member>) -> Vec<Member> {
    members.sort_by_key(|member| (member.call.op == Op::Recv, member.call.rank));
    members
}

/// Why a call was not judged, in words.
fn reason(word: &str) -> String {
    match word {
        REFUSED_WORD => REFUSED.to_owned(),
        "communicator" => "whose communicator was made where nobody saw it".to_owned(),
        "type" => "of an unknown type".to_owned(),
        "failed" => "whose communicator was aborted or failed".to_owned(),
        "memory" => "with too many copies under way".to_owned(),
        "in-progress" => "whose communicator ended while NCCL went on with them".to_owned(),
        "driver-1" => "in a process without a CUDA driver that can be followed".to_owned(),
        _ => match word.strip_prefix("driver") {
            Some(code) => format!("whose copy the driver refused (error {code})"),
            None => format!("that ended by `{word}`"),
        },
    }
}
