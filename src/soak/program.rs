//! A random program: a scenario file as a list of lines, so that steps can be left out one by one.
use super::rng::Rng;
use super::steps;
use super::values;
use std::fmt;

/// A buffer, as the generator tracks it.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub name: String,
    pub dtype: &'static str,
    /// Elements by world rank; `None` where the rank does not have the buffer.
    pub counts: Vec<Option<usize>>,
}

/// A communicator, as the generator tracks it: its groups, each a list of world ranks in rank order.
#[derive(Clone, Debug)]
pub(super) struct Communicator {
    pub name: String,
    pub groups: Vec<Vec<usize>>,
}

impl Communicator {
    pub fn smallest(&self) -> usize {
        self.groups.iter().map(Vec::len).min().unwrap_or(1)
    }

    pub fn members(&self) -> Vec<usize> {
        self.groups.concat()
    }
}

/// State of the generator while it writes a program.
pub(super) struct World {
    pub rng: Rng,
    pub ranks: usize,
    pub buffers: Vec<Buffer>,
    pub communicators: Vec<Communicator>,
    /// Streams that have work on them.
    pub streams: Vec<&'static str>,
    made: usize,
}

impl World {
    pub fn name(&mut self) -> String {
        self.made += 1;
        format!("b{}", self.made)
    }

    pub fn communicator(&mut self) -> Communicator {
        let at = self.rng.below(self.communicators.len());
        self.communicators[at].clone()
    }
}

/// A program as text.
#[derive(Clone, Debug)]
pub struct Program {
    /// The seed that it was made from.
    pub seed: u64,
    /// The lines above the steps.
    pub head: Vec<String>,
    /// A step each.
    pub steps: Vec<String>,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.head.iter().filter(|line| self.uses(line)) {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "steps = [")?;
        for step in &self.steps {
            writeln!(f, "  {step},")?;
        }
        writeln!(f, "]")
    }
}

/// Sizes around packs of 16 bytes, lines, and shares of several ranks.
const COUNTS: &[usize] = &[0, 1, 1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 24, 31, 33, 48, 60, 64, 100, 127, 240];

impl Program {
    /// The program of a seed.
    pub fn generate(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let ranks = *rng.pick(&[1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6, 7, 8, 9, 16]);
        let world = Communicator { name: "world".to_owned(), groups: vec![(0..ranks).collect()] };
        let mut world =
            World { rng, ranks, buffers: Vec::new(), communicators: vec![world], streams: Vec::new(), made: 0 };
        let mut head = vec![format!("world_size = {ranks}")];
        head.extend(settings(&mut world));
        head.extend(communicators(&mut world));
        for _ in 0..world.rng.between(1, 4) {
            head.push(input(&mut world));
        }
        let mut program = Vec::new();
        for _ in 0..world.rng.between(1, 7) {
            program.extend(steps::step(&mut world));
        }
        if program.is_empty() {
            program.push(format!("{{ op = \"map\", expr = \"{0}\", out = \"copy\" }}", world.buffers[0].name));
        }
        Self { seed, head, steps: program }
    }

    /// False for the line of a buffer or a communicator that no step names, which a file must not have.
    fn uses(&self, line: &str) -> bool {
        let name = line.strip_prefix("inputs.").or_else(|| line.strip_prefix("comms."));
        let Some(name) = name.and_then(|rest| rest.split(' ').next()) else { return true };
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        self.steps.iter().any(|step| step.split(|c| !word(c)).any(|other| other == name))
    }

    /// The program without a step.
    #[cfg(any(test, feature = "internals"))]
    pub fn without(&self, step: usize) -> Self {
        let mut program = self.clone();
        program.steps.remove(step);
        program
    }
}

fn settings(world: &mut World) -> Vec<String> {
    let rng = &mut world.rng;
    let mut lines = Vec::new();
    if rng.percent(15) {
        lines.push(format!("offset = {}", rng.pick(&["1", "3", "\"rank + 1\"", "7"])));
    }
    if rng.percent(10) {
        lines.push(format!("repeat = {}", rng.between(2, 3)));
    }
    if rng.percent(10) {
        lines.push("null_pointers = true".to_owned());
    }
    match rng.below(100) {
        0..8 => lines.push("placement = \"one_thread\"".to_owned()),
        8..11 => lines.push("placement = \"processes\"".to_owned()),
        _ => {}
    }
    if rng.percent(10) {
        lines.push(format!("register = \"{}\"", rng.pick(&["local", "local", "window"])));
    }
    if rng.percent(12) {
        lines.push(format!("env.NCCL_PROTO = \"{}\"", rng.pick(&["Simple", "LL", "LL128"])));
    }
    lines
}

fn communicators(world: &mut World) -> Vec<String> {
    let mut lines = Vec::new();
    for index in 0..world.rng.below(3) {
        let name = format!("comm{index}");
        let mut order: Vec<usize> = (0..world.ranks).collect();
        world.rng.shuffle(&mut order);
        let (groups, text) = if world.rng.percent(50) {
            let groups = cut(&mut world.rng, &order);
            let text = format!("comms.{name} = {{ groups = {groups:?} }}");
            (groups, text)
        } else {
            split(world, &name)
        };
        if groups.is_empty() {
            continue;
        }
        lines.push(text);
        world.communicators.push(Communicator { name, groups });
    }
    lines
}

/// Some of the ranks, in one to three groups.
fn cut(rng: &mut Rng, order: &[usize]) -> Vec<Vec<usize>> {
    let used = rng.between(1, order.len());
    let parts = rng.between(1, used.min(3));
    let mut groups = vec![Vec::new(); parts];
    for (at, rank) in order[..used].iter().enumerate() {
        groups[at % parts].push(*rank);
    }
    groups
}

fn split(world: &mut World, name: &str) -> (Vec<Vec<usize>>, String) {
    let rng = &mut world.rng;
    let colors: Vec<i64> = (0..world.ranks).map(|_| rng.below(3) as i64 - i64::from(rng.percent(20))).collect();
    let keys: Vec<i64> = (0..world.ranks).map(|_| rng.below(4) as i64 - 1).collect();
    let mut groups = Vec::new();
    for color in 0..3 {
        let mut members: Vec<usize> = (0..world.ranks).filter(|rank| colors[*rank] == color).collect();
        members.sort_by_key(|rank| (keys[*rank], *rank));
        if !members.is_empty() {
            groups.push(members);
        }
    }
    (groups, format!("comms.{name} = {{ color = {colors:?}, key = {keys:?} }}"))
}

fn input(world: &mut World) -> String {
    let name = world.name();
    let dtype = *world.rng.pick(values::DTYPES);
    let base = *world.rng.pick(COUNTS);
    let uneven = world.rng.percent(15);
    // a share for every rank, so that operations that cut their input can use it
    let base = if world.rng.percent(50) { base / world.ranks.max(1) * world.ranks } else { base };
    let counts: Vec<usize> = (0..world.ranks).map(|_| if uneven { world.rng.below(base + 2) } else { base }).collect();
    let text = values::table(&mut world.rng, dtype, &counts);
    world.buffers.push(Buffer { name: name.clone(), dtype, counts: counts.into_iter().map(Some).collect() });
    format!("inputs.{name} = {text}")
}
