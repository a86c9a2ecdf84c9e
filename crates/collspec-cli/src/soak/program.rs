//! A random program: a scenario file as a list of lines, so that steps can be left out one by one.
use super::rng::Rng;
use super::values;
use super::{deaths, history, steps};
use std::fmt;

/// A buffer, as the generator tracks it.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub name: String,
    pub dtype: &'static str,
    /// Elements by world rank; `None` if the rank does not have the buffer.
    pub counts: Vec<Option<usize>>,
}

/// A communicator, as the generator tracks it: its groups, each a list of world ranks in rank order.
#[derive(Clone, Debug)]
pub(super) struct Communicator {
    pub name: String,
    pub groups: Vec<Vec<usize>>,
    /// True if its calls may return before they are over.
    pub non_blocking: bool,
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
    /// Buffers that are windows on every rank.
    pub windows: Vec<String>,
    /// Lines above the steps.
    pub head: Vec<String>,
    /// True if communicators are non-blocking unless their configuration says otherwise.
    pub non_blocking: bool,
    /// True if one thread drives all ranks, in which case there are no graphs.
    pub one_thread: bool,
    /// True if the program runs several times, and therefore has either graphs or registered memory.
    pub repeats: bool,
    /// True while steps are generated that run in several rounds: memory given away in the first cannot be read in the second.
    pub in_rounds: bool,
    /// True once steps were captured.
    pub has_graphs: bool,
    /// Contexts and signal indices that communicators have for one-sided operations.
    pub contexts: usize,
    pub signal_indices: usize,
    made: usize,
}

impl World {
    fn new(rng: Rng, ranks: usize) -> Self {
        let world = Communicator { name: "world".to_owned(), groups: vec![(0..ranks).collect()], non_blocking: false };
        Self {
            rng,
            ranks,
            buffers: Vec::new(),
            communicators: vec![world],
            streams: Vec::new(),
            windows: Vec::new(),
            head: vec![format!("world_size = {ranks}")],
            non_blocking: false,
            one_thread: false,
            repeats: false,
            in_rounds: false,
            has_graphs: false,
            contexts: 1,
            signal_indices: 1,
            made: 0,
        }
    }

    pub fn name(&mut self) -> String {
        self.made += 1;
        format!("b{}", self.made)
    }

    pub fn communicator(&mut self) -> Communicator {
        let at = self.rng.below(self.communicators.len());
        self.communicators[at].clone()
    }

    /// Some of the ranks in any order, in one to three groups.
    pub fn groups(&mut self) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..self.ranks).collect();
        self.rng.shuffle(&mut order);
        cut(&mut self.rng, &order)
    }

    /// The configuration of a communicator, as a table; `None` if nothing is set.
    pub fn config(&self, non_blocking: bool) -> Option<String> {
        let fields = [
            (self.contexts > 1).then(|| format!("numRmaCtx = {}", self.contexts)),
            (self.signal_indices > 1).then(|| format!("numRmaSig = {}", self.signal_indices)),
            non_blocking.then(|| "blocking = 0".to_owned()),
        ];
        let fields: Vec<String> = fields.into_iter().flatten().collect();
        (!fields.is_empty()).then(|| format!("{{ {} }}", fields.join(", ")))
    }
}

/// A program as text.
#[derive(Clone, Debug)]
pub struct Program {
    /// The seed that the program was generated from.
    pub seed: u64,
    /// The lines above the steps.
    pub head: Vec<String>,
    /// The steps that run before the program, on communicators that the program does not use.
    pub before: Vec<String>,
    /// The steps, each as text.
    pub steps: Vec<String>,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.head.iter().filter(|line| self.uses(line)) {
            writeln!(f, "{line}")?;
        }
        if !self.before.is_empty() {
            writeln!(f, "before = [")?;
            self.before.iter().try_for_each(|step| writeln!(f, "  {step},"))?;
            writeln!(f, "]")?;
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
        // Few programs end ranks, because such a program starts a process for each rank, and that is slow.
        let ends = Rng::new(seed ^ 0xdead).percent(4);
        let ranks = *rng.pick(&[1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6, 7, 8, 9, 16]);
        let ranks = if ends { ranks.clamp(2, 6) } else { ranks };
        let mut world = World::new(rng, ranks);
        let settings = settings(&mut world, ends);
        world.head.extend(settings);
        let communicators = communicators(&mut world);
        world.head.extend(communicators);
        for _ in 0..world.rng.between(1, 4) {
            let line = input(&mut world);
            world.head.push(line);
        }
        if ends {
            let steps = deaths::program(&mut world);
            return Self { seed, head: world.head, before: Vec::new(), steps };
        }
        let before = if world.rng.percent(4) { history::before(&mut world) } else { Vec::new() };
        let mut program = Vec::new();
        for _ in 0..world.rng.between(1, 7) {
            program.extend(steps::step(&mut world));
        }
        if program.is_empty() {
            program.push(format!("{{ op = \"map\", expr = \"{0}\", out = \"copy\" }}", world.buffers[0].name));
        }
        Self { seed, head: world.head, before, steps: program }
    }

    /// False for the line of a buffer or a communicator that no step names, which a file must not have.
    fn uses(&self, line: &str) -> bool {
        let name = line.strip_prefix("inputs.").or_else(|| line.strip_prefix("comms."));
        let Some(name) = name.and_then(|rest| rest.split(' ').next()) else { return true };
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        self.before.iter().chain(&self.steps).any(|step| step.split(|c| !word(c)).any(|other| other == name))
    }

    /// The program without a step.
    pub fn without(&self, step: usize) -> Self {
        let mut program = self.clone();
        program.steps.remove(step);
        program
    }
}

/// `ends` of a program in which ranks end.
fn settings(world: &mut World, ends: bool) -> Vec<String> {
    let mut lines = configuration(world);
    let rng = &mut world.rng;
    if rng.percent(15) {
        lines.push(format!("offset = {}", rng.pick(&["1", "3", "\"rank + 1\"", "7"])));
    }
    world.repeats = rng.percent(10) && !ends;
    if world.repeats {
        lines.push(format!("repeat = {}", rng.between(2, 3)));
    }
    if rng.percent(10) {
        lines.push("null_pointers = true".to_owned());
    }
    match rng.below(100) {
        _ if ends => lines.push("placement = \"processes\"".to_owned()),
        0..8 => {
            world.one_thread = true;
            lines.push("placement = \"one_thread\"".to_owned());
        }
        8..11 => lines.push("placement = \"processes\"".to_owned()),
        _ => {}
    }
    if !world.repeats && rng.percent(10) {
        lines.push(format!("register = \"{}\"", rng.pick(&["local", "local", "window"])));
    }
    if rng.percent(12) {
        lines.push(format!("env.NCCL_PROTO = \"{}\"", rng.pick(&["Simple", "LL", "LL128"])));
    }
    lines
}

/// The settings that all communicators are created with.
fn configuration(world: &mut World) -> Vec<String> {
    if world.rng.percent(12) {
        world.contexts = world.rng.between(1, 3);
        world.signal_indices = world.rng.between(1, 3);
    }
    let by_variable = world.rng.percent(3);
    let by_config = world.rng.percent(7);
    world.non_blocking = by_variable || by_config;
    world.communicators.iter_mut().for_each(|comm| comm.non_blocking = by_variable || by_config);
    let mut lines = Vec::new();
    lines.extend(by_variable.then(|| "env.NCCL_COMM_BLOCKING = \"0\"".to_owned()));
    lines.extend(world.config(by_config).map(|config| format!("config = {config}")));
    lines
}

fn communicators(world: &mut World) -> Vec<String> {
    let mut lines = Vec::new();
    for index in 0..world.rng.below(3) {
        let name = format!("comm{index}");
        let non_blocking = world.rng.percent(5);
        let config = non_blocking.then(|| world.config(true)).flatten();
        let config = config.map(|config| format!(", config = {config}")).unwrap_or_default();
        let (groups, text) = if world.rng.percent(50) {
            let groups = world.groups();
            let text = format!("comms.{name} = {{ groups = {groups:?}{config} }}");
            (groups, text)
        } else {
            split(world, &name, &config)
        };
        if groups.is_empty() {
            continue;
        }
        lines.push(text);
        let non_blocking = non_blocking || world.non_blocking;
        world.communicators.push(Communicator { name, groups, non_blocking });
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

fn split(world: &mut World, name: &str, config: &str) -> (Vec<Vec<usize>>, String) {
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
    (groups, format!("comms.{name} = {{ color = {colors:?}, key = {keys:?}{config} }}"))
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
