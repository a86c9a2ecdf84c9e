//! What a run of a program has done, call by call.
use super::names::{CallName, Members, names};
use crate::judge::{Elements, Launch, Member, NOT_ENDED, REFUSED, Watch};
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashMap};
use std::hash::{Hash, Hasher};

/// Ranks' calls that are kept; further ones are counted.
const MOST: usize = 4 << 20;

/// A rank's part of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankCall {
    /// What is called, and where: numbers of texts.
    words: u32,
    place: u32,
    /// Of the elements that were copied, and the factor.
    pub input: u64,
    pub output: u64,
}

/// A call of all its ranks.
#[derive(Clone, Debug)]
pub struct Made {
    pub launch: Launch,
    /// The lowest number that it has in a process.
    number: u64,
    pub ranks: Vec<RankCall>,
    /// Why it was not judged.
    pub not_judged: Option<u32>,
}

/// Collects what is read of a run.
#[derive(Default)]
pub struct Gathering {
    processes: Vec<String>,
    comms: HashMap<u64, Members>,
    texts: Vec<String>,
    numbers: HashMap<String, u32>,
    made: Vec<Made>,
    kept: usize,
    left_out: u64,
    libraries: BTreeSet<String>,
    first_refused: Option<String>,
}

/// The calls of a run, in about the order in which they were made.
pub struct Calls {
    texts: Vec<String>,
    pub made: Vec<(CallName, Made)>,
    by_name: HashMap<CallName, usize>,
    /// Calls beyond those that are kept.
    pub left_out: u64,
    /// The files of the NCCL that processes use.
    pub libraries: BTreeSet<String>,
    /// The first call that NCCL refused: that of a rank. Its next call has the same number.
    pub first_refused: Option<String>,
}

impl Gathering {
    fn text(&mut self, text: &str) -> u32 {
        if let Some(known) = self.numbers.get(text) {
            return *known;
        }
        let next = self.texts.len() as u32;
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), next);
        next
    }

    /// The calls under their names.
    pub fn calls(self) -> Calls {
        let Self { processes, comms, texts, mut made, left_out, libraries, first_refused, .. } = self;
        let names = names(&comms, &processes);
        made.sort_by_key(|made| (made.number, made.launch.1));
        let named = |made: Made| {
            let comm = names.get(&made.launch.0.comm())?;
            Some((CallName::new(comm, &made.launch.0, made.launch.1), made))
        };
        let made: Vec<(CallName, Made)> = made.into_iter().filter_map(named).collect();
        let by_name = made.iter().enumerate().map(|(at, (name, _))| (name.clone(), at)).collect();
        Calls { texts, made, by_name, left_out, libraries, first_refused }
    }
}

fn hash(elements: &Elements, factor: Option<u64>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (elements, factor).hash(&mut hasher);
    hasher.finish()
}

impl Watch for Gathering {
    fn process(&mut self, _number: u32, name: &str) {
        self.processes.push(name.to_owned());
    }

    fn library(&mut self, file: &str) {
        self.libraries.insert(file.to_owned());
    }

    fn ended(&mut self, launch: &Launch, members: &[Member], fate: Result<bool, &str>) {
        if fate == Err(REFUSED) {
            let words = |member: &Member| format!("{}; {}", member.call.text(), member.call.place);
            self.first_refused = self.first_refused.take().or_else(|| members.first().map(words));
            return;
        }
        if self.kept + members.len() > MOST {
            self.left_out += 1;
            return;
        }
        self.kept += members.len();
        let mut number = u64::MAX;
        let mut ranks = Vec::with_capacity(members.len());
        for Member { call, source, factor, input, output } in members {
            let place = (source.0, call.device);
            let first = self.comms.entry(call.comm).or_default().entry(call.rank).or_insert((place, source.1));
            first.1 = first.1.min(source.1);
            number = number.min(source.1);
            let (words, place) = (self.text(&call.text()), self.text(&call.place));
            ranks.push(RankCall { words, place, input: hash(input, *factor), output: hash(output, None) });
        }
        let not_judged = fate.err().map(|why| self.text(why));
        self.made.push(Made { launch: *launch, number, ranks, not_judged });
    }
}

impl Calls {
    pub fn find(&self, name: &CallName) -> Option<&Made> {
        self.by_name.get(name).map(|at| &self.made[*at].1)
    }

    /// What each rank calls.
    pub fn words<'a>(&'a self, made: &'a Made) -> impl Iterator<Item = &'a str> {
        made.ranks.iter().map(|rank| self.texts[rank.words as usize].as_str())
    }

    /// A call in a line: `collective 3 of ranks [0, 1]: all_reduce sum of 8 f32; train.py:31`
    pub fn describe(&self, name: &CallName, made: &Made) -> String {
        let CallName { comm, message, sequence, launch } = name;
        let again =
            if comm.number > 0 { format!(", communicator {} of these", comm.number + 1) } else { String::new() };
        let launch = if *launch > 0 { format!(", launch {launch} of its graph") } else { String::new() };
        let what = match message {
            Some((from, to)) => format!("message {sequence} from rank {from} to {to}"),
            None => format!("collective {sequence}"),
        };
        let (words, place) = match made.ranks.first() {
            Some(rank) => (self.texts[rank.words as usize].as_str(), self.texts[rank.place as usize].as_str()),
            None => ("", ""),
        };
        format!("{what} of ranks {:?}{again}{launch}: {words}; {place}", comm.ranks)
    }

    /// The first call that had not ended.
    pub fn first_open(&self) -> Option<String> {
        let is_open = |made: &Made| made.not_judged.is_some_and(|why| self.texts[why as usize] == NOT_ENDED);
        self.made.iter().find(|(_, made)| is_open(made)).map(|(name, made)| self.describe(name, made))
    }
}
