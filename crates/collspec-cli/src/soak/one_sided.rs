//! Puts into windows, signals, and waits for them. Each target is a new window, so that no earlier use of it is unordered with
//! the puts; the data put is awaited on the same stream.
use super::program::{Buffer, Communicator, World};
use super::steps::{chosen, stream};
use super::values;

const COUNTS: &[usize] = &[1, 2, 3, 4, 5, 8, 15, 16, 17, 33, 64, 100, 127, 240];

/// Lines of one exchange of data or signals between the ranks of a communicator.
pub(super) fn exchange(world: &mut World) -> Vec<String> {
    let (comm, keys) = chosen(world);
    let exchange = Exchange::new(world, comm, keys);
    match world.rng.below(9) {
        0 | 1 => exchange.ring(world),
        2 => exchange.to_all(world),
        3 => exchange.pieces(world),
        4 => exchange.over_each_other(world),
        5 => exchange.signals(world),
        6 => exchange.between_two(world),
        7 => exchange.rounds(world),
        _ => exchange.grouped(world),
    }
}

/// A file's line for a buffer that is a window on every rank, with contents or without.
fn window(world: &mut World, dtype: &str, counts: &[usize], filled: bool) -> String {
    let name = world.name();
    let same = counts.iter().all(|count| Some(count) == counts.first());
    let count = if same { counts.first().copied().unwrap_or(1).to_string() } else { format!("{counts:?}") };
    let table = if filled {
        values::table(&mut world.rng, dtype, counts)
    } else {
        format!("{{ count = {count}, dtype = \"{dtype}\" }}")
    };
    let keys = table.strip_suffix(" }").unwrap_or(&table);
    world.head.push(format!("inputs.{name} = {keys}, register = \"window\" }}"));
    name
}

/// The parameters that the steps of an exchange share.
struct Exchange {
    comm: Communicator,
    /// Keys of all its operations.
    keys: String,
    /// Keys of its first operation: the stream, and the operations that it waits for.
    begin: String,
    /// Keys of all others: the stream.
    on: String,
    dtype: &'static str,
    /// Elements of a put.
    count: usize,
    /// Ranks between a rank and the one that it puts to.
    shift: usize,
}

impl Exchange {
    fn new(world: &mut World, comm: Communicator, mut keys: String) -> Self {
        let context = world.rng.below(world.contexts);
        let index = world.rng.below(world.signal_indices);
        if context > 0 {
            keys += &format!(", context = {context}");
        }
        if index > 0 {
            keys += &format!(", signal_index = {index}");
        }
        let begin = stream(world);
        let on = if begin.contains("stream = \"side\"") { ", stream = \"side\"".to_owned() } else { String::new() };
        let dtype = *world.rng.pick(values::DTYPES);
        let count = *world.rng.pick(COUNTS);
        let shift = world.rng.between(0, 3);
        Self { comm, keys, begin, on, dtype, count, shift }
    }

    fn put(&self, input: &str, out: &str, peer: &str, more: &str) -> String {
        format!("{{ op = \"put\", peer = \"{peer}\", in = \"{input}\", out = \"{out}\"{}{more} }}", self.keys)
    }

    fn wait(&self, more: &str) -> String {
        format!("{{ op = \"wait_signal\"{}{}{more} }}", self.keys, self.on)
    }

    fn next(&self) -> String {
        format!("(rank + {}) % n", self.shift)
    }

    fn previous(&self) -> String {
        format!(", peer = \"(rank - {}) % n\"", self.shift)
    }

    /// A window with this many elements that can be the source of puts: a new one, or one that other steps have used.
    fn source(&self, world: &mut World, count: usize) -> String {
        let has = |buffer: &&Buffer| {
            let windows = &world.windows;
            let holds = |rank: &usize| buffer.counts[*rank] == Some(count);
            buffer.dtype == self.dtype && windows.contains(&buffer.name) && self.comm.members().iter().all(holds)
        };
        let known: Vec<String> = world.buffers.iter().filter(has).map(|buffer| buffer.name.clone()).collect();
        if !known.is_empty() && world.rng.percent(50) {
            return world.rng.pick(&known).clone();
        }
        let counts = vec![count; world.ranks];
        let name = window(world, self.dtype, &counts, true);
        self.known(world, &name, counts.into_iter().map(Some).collect());
        name
    }

    /// A new window as target of puts; ranks outside the communicator have one element in it.
    fn target(&self, world: &mut World, count: impl Fn(usize) -> usize) -> (String, Vec<Option<usize>>) {
        let mut counts = vec![1; world.ranks];
        let mut known = vec![None; world.ranks];
        for group in &self.comm.groups {
            for rank in group {
                counts[*rank] = count(group.len());
                known[*rank] = Some(counts[*rank]);
            }
        }
        (window(world, self.dtype, &counts, false), known)
    }

    fn known(&self, world: &mut World, name: &str, counts: Vec<Option<usize>>) {
        world.windows.push(name.to_owned());
        world.buffers.push(Buffer { name: name.to_owned(), dtype: self.dtype, counts });
    }

    /// Every rank puts to the one a few places further, which may be itself.
    fn ring(&self, world: &mut World) -> Vec<String> {
        let source = self.source(world, self.count);
        let (target, known) = self.target(world, |_| self.count);
        self.known(world, &target, known);
        vec![self.put(&source, &target, &self.next(), &self.begin), self.wait(&self.previous())]
    }

    /// Every rank puts a block to each rank.
    fn to_all(&self, world: &mut World) -> Vec<String> {
        if self.comm.smallest() < 2 {
            return self.ring(world);
        }
        let count = self.count.min(33);
        let source = self.source(world, count);
        let (target, known) = self.target(world, |n| n * count);
        self.known(world, &target, known);
        let block = format!("{target}[{count} * rank:{count} * rank + {count}]");
        let put = self.put(&source, &block, "t", &format!(", times = \"n\"{}", self.begin));
        let mut waits = vec![self.wait(""), self.wait(", peer = \"rank\"")];
        world.rng.shuffle(&mut waits);
        [vec![put], waits].concat()
    }

    /// Several puts of pieces to one rank, and a wait for all or for each.
    fn pieces(&self, world: &mut World) -> Vec<String> {
        let (times, count) = (world.rng.between(2, 5), self.count.min(64));
        let source = self.source(world, times * count);
        let (target, known) = self.target(world, |_| times * count);
        self.known(world, &target, known);
        let piece = |name: &str| format!("{name}[{count} * t:{count} * t + {count}]");
        let more = format!(", times = {times}{}", self.begin);
        let wait = match world.rng.below(2) {
            0 => format!(", signals = {times}{}", self.previous()),
            _ => format!(", times = {times}{}", self.previous()),
        };
        vec![self.put(&piece(&source), &piece(&target), &self.next(), &more), self.wait(&wait)]
    }

    /// Several puts to the same place: the last one is visible after a wait for all.
    fn over_each_other(&self, world: &mut World) -> Vec<String> {
        let (times, count) = (world.rng.between(2, 5), self.count.min(64));
        let source = self.source(world, times * count);
        let (target, known) = self.target(world, |_| count);
        self.known(world, &target, known);
        let piece = format!("{source}[{count} * t:{count} * t + {count}]");
        let more = format!(", times = {times}{}", self.begin);
        let wait = self.wait(&format!(", signals = {times}{}", self.previous()));
        vec![self.put(&piece, &target, &self.next(), &more), wait]
    }

    /// Signals without data. A window has to be there first: that of a put of no elements.
    fn signals(&self, world: &mut World) -> Vec<String> {
        let source = self.source(world, self.count);
        let (target, _) = self.target(world, |_| self.count);
        let times = world.rng.between(1, 4);
        let nothing = |name: &str| format!("{name}[0:0]");
        let signal =
            format!("{{ op = \"signal\", peer = \"{}\", times = {times}{}{} }}", self.next(), self.keys, self.on);
        vec![
            self.put(&nothing(&source), &nothing(&target), &self.next(), &self.begin),
            signal,
            self.wait(&format!(", signals = {}{}", times + 1, self.previous())),
        ]
    }

    /// One rank puts to another one.
    fn between_two(&self, world: &mut World) -> Vec<String> {
        let Some(group) = self.comm.groups.first().filter(|_| self.comm.groups.len() == 1) else {
            return self.ring(world);
        };
        let (from, to) = (world.rng.below(group.len()), world.rng.below(group.len()));
        let source = self.source(world, self.count);
        let (target, _) = self.target(world, |_| self.count);
        let mut known = vec![None; world.ranks];
        known[group[to]] = Some(self.count);
        self.known(world, &target, known);
        vec![
            self.put(&source, &target, &to.to_string(), &format!(", ranks = [{}]{}", group[from], self.begin)),
            self.wait(&format!(", ranks = [{}], peer = {from}", group[to])),
        ]
    }

    /// Puts to the same window in every round of a loop; a collective in it says that the last round's data have been used.
    fn rounds(&self, world: &mut World) -> Vec<String> {
        let members = self.comm.members();
        let source = self.source(world, self.count);
        let (target, known) = self.target(world, |_| self.count);
        let (copy, sum) = (world.name(), world.name());
        let ranks = if members.len() < world.ranks { format!(", ranks = {members:?}") } else { String::new() };
        let comm = self.keys.split(", context").next().and_then(|keys| keys.split(", signal_index").next());
        let comm = comm.unwrap_or_default();
        let on = &self.on;
        let steps = [
            self.put(&source, &target, &self.next(), &self.begin),
            self.wait(&self.previous()),
            format!("{{ op = \"map\", expr = \"{target}\", out = \"{copy}\"{ranks}{on} }}"),
            format!("{{ op = \"all_reduce\", reduce = \"max\", in = \"{copy}\", out = \"{sum}\"{comm}{on} }}"),
        ];
        for name in [&copy, &sum] {
            world.buffers.push(Buffer { name: name.clone(), dtype: self.dtype, counts: known.clone() });
        }
        self.known(world, &target, known);
        vec![format!("{{ op = \"loop\", times = {}, steps = [{}] }}", world.rng.between(2, 4), steps.join(", "))]
    }

    /// A put and its wait in one group call.
    fn grouped(&self, world: &mut World) -> Vec<String> {
        let lines = self.ring(world);
        if self.begin.contains("stream") || self.begin.contains("after") {
            return lines;
        }
        vec![format!("{{ op = \"group\", steps = [{}] }}", lines.join(", "))]
    }
}
