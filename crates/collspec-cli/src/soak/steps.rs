//! Random steps. Most are legal as the generator understands the language; some are not, and must be refused.
use super::program::{Buffer, Communicator, World};
use super::rng::Rng;
use super::values;
use super::{algorithms, changes, graphs, made_later, one_sided};

const COLLECTIVES: &[&str] = &[
    "all_reduce",
    "all_reduce",
    "all_reduce",
    "reduce",
    "reduce_scatter",
    "reduce_scatter",
    "broadcast",
    "all_gather",
    "gather",
    "scatter",
    "all_to_all",
    "all_gather_v",
];
const REDUCTIONS: &[&str] = &["sum", "sum", "prod", "min", "max", "avg"];

/// Lines of one more step or pair of steps; empty if no buffer fits.
pub(super) fn step(world: &mut World) -> Vec<String> {
    let lines = match world.rng.below(31) {
        0..=8 => return collective(world, true).into_iter().collect(),
        9 | 10 => return map(world).into_iter().collect(),
        11..=13 if world.repeats && world.has_graphs => return map(world).into_iter().collect(),
        11..=13 => return one_sided::exchange(world),
        14 => ring(world),
        15 => message(world),
        16 => messages(world),
        17 => all_to_all_v(world),
        18 | 19 => group(world),
        20 => repeated(world),
        21 => communicator(world),
        22 => changes::shrunk(world),
        23 => changes::grown(world),
        24 => changes::out_of_use(world),
        25 => made_later::made_later(world),
        26..=28 if world.one_thread || world.repeats && !world.windows.is_empty() => {
            return collective(world, true).into_iter().collect();
        }
        26..=28 => {
            world.has_graphs = true;
            graphs::captured(world)
        }
        _ => control(world),
    };
    if world.streams.len() > 1 && !lines.is_empty() {
        world.streams.clear();
        return [vec!["{ op = \"wait\" }".to_owned()], lines].concat();
    }
    lines
}

/// A communicator, and how a step names it.
pub(super) fn chosen(world: &mut World) -> (Communicator, String) {
    let comm = world.communicator();
    let text = if comm.name == "world" {
        String::new()
    } else if comm.non_blocking == world.non_blocking && world.rng.percent(20) {
        format!(", groups = {:?}", comm.groups)
    } else {
        format!(", comm = \"{}\"", comm.name)
    };
    (comm, text)
}

/// Keys for the stream on which a step runs, and for what it waits for.
pub(super) fn stream(world: &mut World) -> String {
    let other = world.streams.len() > 1;
    let name = if world.rng.percent(if other { 50 } else { 8 }) { "side" } else { "main" };
    let after: Vec<&str> = world.streams.iter().copied().filter(|stream| *stream != name).collect();
    let mut text = if name == "main" { String::new() } else { format!(", stream = \"{name}\"") };
    if !after.is_empty() && world.rng.percent(90) {
        text += &format!(", after = {after:?}");
    }
    if !world.streams.contains(&name) {
        world.streams.push(name);
    }
    text
}

fn find(world: &mut World, serves: impl Fn(&Buffer) -> bool) -> Option<Buffer> {
    let fitting: Vec<Buffer> = world.buffers.iter().filter(|buffer| serves(buffer)).cloned().collect();
    if fitting.is_empty() { None } else { Some(world.rng.pick(&fitting).clone()) }
}

/// The count that all ranks of a group have.
fn common(buffer: &Buffer, group: &[usize]) -> Option<usize> {
    let first = buffer.counts[*group.first()?]?;
    group.iter().all(|rank| buffer.counts[*rank] == Some(first)).then_some(first)
}

fn reduction(rng: &mut Rng, dtype: &str) -> String {
    if rng.percent(20) {
        let scalar = if values::is_float(dtype) {
            *rng.pick(&["0.5", "\"1 / (rank + 1)\"", "-2", "3"])
        } else {
            *rng.pick(&["2", "\"rank + 1\"", "3"])
        };
        let device = if rng.percent(30) { ", scalar = \"device\"" } else { "" };
        return format!(", reduce = {{ premul_sum = {scalar} }}{device}");
    }
    format!(", reduce = \"{}\"", rng.pick(REDUCTIONS))
}

/// A collective on one communicator; outside of groups also in place, on other streams and several times.
fn collective(world: &mut World, alone: bool) -> Option<String> {
    let op = *world.rng.pick(COLLECTIVES);
    let (comm, mut keys) = chosen(world);
    let cuts = matches!(op, "reduce_scatter" | "scatter" | "all_to_all");
    let groups = comm.groups.clone();
    let input = find(world, |buffer| {
        groups.iter().all(|group| match common(buffer, group) {
            Some(count) => !cuts || count % group.len() == 0,
            None => op == "all_gather_v" && group.iter().all(|rank| buffer.counts[*rank].is_some()),
        })
    })?;
    let mut counts = input.counts.clone();
    let mut name = input.name.clone();
    if !cuts && op != "all_gather_v" && world.rng.percent(20) {
        let most = comm.members().iter().filter_map(|rank| counts[*rank]).min().unwrap_or(0);
        let start = world.rng.below(most + 1);
        let end = world.rng.between(start, most);
        name = format!("{name}[{start}:{end}]");
        for count in counts.iter_mut().flatten() {
            *count = end - start;
        }
    }
    let root = world.rng.below(comm.smallest());
    let out = outputs(op, &comm, &counts, root, world.ranks);
    if matches!(op, "reduce" | "broadcast" | "gather" | "scatter") {
        keys += &format!(", root = {root}");
    }
    if matches!(op, "all_reduce" | "reduce" | "reduce_scatter") {
        keys += &reduction(&mut world.rng, input.dtype);
    }
    keys += &algorithms::key(&mut world.rng, op);
    let can = !world.in_rounds && op != "all_to_all" && op != "all_gather_v" && !name.contains('[');
    let in_place = can && world.rng.percent(if alone { 20 } else { 15 });
    if in_place {
        keys += *world.rng.pick(&[", in_place = true", ", in_place = true", ", in_place = \"rank == 0\""]);
    } else if alone && world.rng.percent(8) {
        keys += ", times = 2";
    }
    if alone {
        keys += &stream(world);
    }
    let existing = (!in_place && world.rng.percent(20))
        .then(|| {
            find(world, |b| {
                b.dtype == input.dtype
                    && b.name != input.name
                    && (0..out.len()).all(|r| out[r].is_none() || b.counts[r] == out[r])
            })
        })
        .flatten();
    let target = match existing {
        Some(buffer) => buffer.name,
        None => {
            let name = world.name();
            if in_place {
                world.buffers.retain(|buffer| buffer.name != input.name);
            }
            world.buffers.push(Buffer { name: name.clone(), dtype: input.dtype, counts: out });
            name
        }
    };
    Some(format!("{{ op = \"{op}\", in = \"{name}\", out = \"{target}\"{keys} }}"))
}

/// Number of elements that each world rank receives.
fn outputs(op: &str, comm: &Communicator, counts: &[Option<usize>], root: usize, ranks: usize) -> Vec<Option<usize>> {
    let mut out = vec![None; ranks];
    for group in &comm.groups {
        let total: usize = group.iter().filter_map(|rank| counts[*rank]).sum();
        for (rank, member) in group.iter().enumerate() {
            let own = counts[*member].unwrap_or(0);
            out[*member] = match op {
                "all_gather" | "all_gather_v" => Some(total),
                "gather" => (rank == root).then_some(total),
                "reduce" => (rank == root).then_some(own),
                "reduce_scatter" | "scatter" => Some(own / group.len()),
                _ => Some(own),
            };
        }
    }
    out
}

/// Steps that only compute and move data; with messages between any two ranks if all of them are left.
pub(super) fn data(world: &mut World, all_ranks: bool) -> Vec<String> {
    let lines = match world.rng.below(14) {
        0..=6 => return collective(world, true).into_iter().collect(),
        7 | 8 => return map(world).into_iter().collect(),
        9 => ring(world),
        10 => all_to_all_v(world),
        11 => group(world),
        12 if all_ranks => messages(world),
        13 if all_ranks => message(world),
        _ => repeated(world),
    };
    if world.streams.len() > 1 && !lines.is_empty() {
        world.streams.clear();
        return [vec!["{ op = \"wait\" }".to_owned()], lines].concat();
    }
    lines
}

/// A collective outside of groups.
pub(super) fn data_of_one(world: &mut World) -> Option<String> {
    collective(world, true)
}

/// A collective or a map, on the stream `main` and outside of groups.
pub(super) fn plain(world: &mut World) -> Option<String> {
    if world.rng.percent(70) {
        return collective(world, false);
    }
    let streams = std::mem::take(&mut world.streams);
    let made = world.buffers.len();
    let step = map(world).filter(|step| !step.contains("stream = "));
    world.streams = streams;
    if step.is_none() {
        world.buffers.truncate(made);
    }
    step
}

fn map(world: &mut World) -> Option<String> {
    let x = find(world, |_| true)?;
    let y = find(world, |other| other.counts == x.counts)?;
    let full = x.counts.iter().flatten().all(|count| *count > 0);
    let (a, b) = (&x.name, &y.name);
    let mut expressions = vec![
        format!("{a} + 1"),
        format!("{a}"),
        format!("2 * {a} - {b}"),
        format!("max({a}, {b})"),
        format!("if({a} < {b}, {a}, {b} + rank)"),
        format!("abs({a}) / 3"),
        format!("rank * i + {a}"),
    ];
    if full {
        expressions.push(format!("{a}[0] + i"));
    }
    let expression = world.rng.pick(&expressions).clone();
    let mut keys = String::new();
    let mut dtype = x.dtype;
    // The type is written if the two differ, because the expression may name `y` first.
    if x.dtype != y.dtype || world.rng.percent(20) {
        // A sum that is infinite in one order of its ranks and finite in another has no value in a type of whole numbers.
        let float = values::is_float(x.dtype) || values::is_float(y.dtype);
        let fitting: Vec<&str> = values::DTYPES.iter().copied().filter(|d| !float || values::is_float(d)).collect();
        dtype = *world.rng.pick(&fitting);
        keys += &format!(", dtype = \"{dtype}\"");
    }
    let having: Vec<usize> = (0..world.ranks).filter(|rank| x.counts[*rank].is_some()).collect();
    if having.len() < world.ranks {
        keys += &format!(", ranks = {having:?}");
    }
    keys += &stream(world);
    let name = world.name();
    world.buffers.push(Buffer { name: name.clone(), dtype, counts: x.counts.clone() });
    Some(format!("{{ op = \"map\", expr = \"{expression}\", out = \"{name}\"{keys} }}"))
}

/// Every rank sends to the one a few places further.
fn ring(world: &mut World) -> Vec<String> {
    let (comm, keys) = chosen(world);
    let members = comm.members();
    let Some(input) = find(world, |buffer| members.iter().all(|rank| buffer.counts[*rank].is_some())) else {
        return Vec::new();
    };
    let shift = world.rng.between(1, 3);
    let mut counts = vec![None; world.ranks];
    for group in &comm.groups {
        for (rank, member) in group.iter().enumerate() {
            let from = group[(rank + group.len() * shift - shift) % group.len()];
            counts[*member] = input.counts[from];
        }
    }
    let name = world.name();
    world.buffers.push(Buffer { name: name.clone(), dtype: input.dtype, counts });
    vec![format!(
        "{{ op = \"send_recv\", to = \"(rank + {shift}) % n\", from = \"(rank - {shift}) % n\", in = \"{}\", out = \"{name}\"{keys} }}",
        input.name
    )]
}

/// One rank sends to another, each in a separate step.
fn message(world: &mut World) -> Vec<String> {
    if world.ranks < 2 {
        return Vec::new();
    }
    let from = world.rng.below(world.ranks);
    let to = (from + world.rng.between(1, world.ranks - 1)) % world.ranks;
    let Some(input) = find(world, |buffer| buffer.counts[from].is_some()) else { return Vec::new() };
    let name = world.name();
    let mut counts = vec![None; world.ranks];
    counts[to] = input.counts[from];
    world.buffers.push(Buffer { name: name.clone(), dtype: input.dtype, counts });
    vec![
        format!("{{ op = \"send\", ranks = [{from}], peer = {to}, in = \"{}\" }}", input.name),
        format!("{{ op = \"recv\", ranks = [{to}], peer = {from}, out = \"{name}\" }}"),
    ]
}

/// A group of messages, some of them to the rank itself.
fn messages(world: &mut World) -> Vec<String> {
    let (mut sends, mut recvs) = (Vec::new(), Vec::new());
    for _ in 0..world.rng.between(1, 6) {
        let (from, to) = (world.rng.below(world.ranks), world.rng.below(world.ranks));
        let Some(input) = find(world, |buffer| buffer.counts[from].is_some()) else { continue };
        sends.push((
            format!("{{ op = \"send\", ranks = [{from}], peer = {to}, in = \"{}\" }}", input.name),
            input,
            from,
            to,
        ));
    }
    for (_, input, from, to) in &sends {
        let name = world.name();
        let mut counts = vec![None; world.ranks];
        counts[*to] = input.counts[*from];
        recvs.push(format!("{{ op = \"recv\", ranks = [{to}], peer = {from}, out = \"{name}\" }}"));
        world.buffers.push(Buffer { name, dtype: input.dtype, counts });
    }
    if sends.is_empty() {
        return Vec::new();
    }
    let mut steps: Vec<String> = sends.into_iter().map(|(line, ..)| line).collect();
    let at = world.rng.below(steps.len() + 1);
    steps.splice(at..at, recvs);
    vec![format!("{{ op = \"group\", steps = [{}] }}", steps.join(", "))]
}

fn all_to_all_v(world: &mut World) -> Vec<String> {
    let (comm, keys) = chosen(world);
    let [group] = comm.groups.as_slice() else { return Vec::new() };
    let Some(input) = find(world, |buffer| group.iter().all(|rank| buffer.counts[*rank].is_some())) else {
        return Vec::new();
    };
    let mut matrix = Vec::new();
    for member in group {
        let mut left = input.counts[*member].unwrap_or(0);
        let mut row: Vec<usize> = (1..group.len())
            .map(|_| {
                let part = world.rng.below(left + 1);
                left -= part;
                part
            })
            .collect();
        row.push(left);
        matrix.push(row);
    }
    let mut counts = vec![None; world.ranks];
    for (rank, member) in group.iter().enumerate() {
        counts[*member] = Some(matrix.iter().map(|row| row[rank]).sum());
    }
    let name = world.name();
    world.buffers.push(Buffer { name: name.clone(), dtype: input.dtype, counts });
    vec![format!("{{ op = \"all_to_all_v\", counts = {matrix:?}, in = \"{}\", out = \"{name}\"{keys} }}", input.name)]
}

/// Collectives and messages in one group call. None may read memory that another writes, so most inputs are older buffers.
fn group(world: &mut World) -> Vec<String> {
    let older = world.buffers.clone();
    let mut steps = Vec::new();
    let mut made = Vec::new();
    // A group cannot have both blocking and non-blocking communicators.
    let non_blocking = world.communicator().non_blocking;
    let communicators = world.communicators.clone();
    world.communicators.retain(|comm| comm.non_blocking == non_blocking);
    for _ in 0..world.rng.between(2, 5) {
        steps.extend(collective(world, false));
        // Later steps may use the results of the group, but steps inside it mostly may not.
        if world.rng.percent(90) {
            made.extend(world.buffers.iter().filter(|b| older.iter().all(|old| old.name != b.name)).cloned());
            world.buffers.retain(|buffer| older.iter().any(|old| old.name == buffer.name));
        }
    }
    world.buffers.extend(made);
    world.communicators = communicators;
    if steps.is_empty() {
        return Vec::new();
    }
    vec![format!("{{ op = \"group\", steps = [{}] }}", steps.join(", "))]
}

/// A loop around a few collectives.
fn repeated(world: &mut World) -> Vec<String> {
    let times = world.rng.between(1, 3);
    world.in_rounds = times > 1;
    let steps: Vec<String> = (0..world.rng.between(1, 3)).filter_map(|_| collective(world, false)).collect();
    world.in_rounds = false;
    if steps.is_empty() {
        return Vec::new();
    }
    vec![format!("{{ op = \"loop\", times = {times}, steps = [{}] }}", steps.join(", "))]
}

/// Makes a communicator while the program runs, or ends one.
fn communicator(world: &mut World) -> Vec<String> {
    if world.communicators.len() > 1 && world.rng.percent(40) {
        let at = world.rng.between(1, world.communicators.len() - 1);
        let gone = world.communicators.remove(at);
        return vec![format!(
            "{{ op = \"{}\", comm = \"{}\" }}",
            world.rng.pick(&["destroy", "destroy", "abort"]),
            gone.name
        )];
    }
    let parent = world.communicator();
    let name = format!("late_{}", world.name());
    let parts = world.rng.between(1, 3);
    let mut groups = Vec::new();
    for group in &parent.groups {
        for color in 0..parts {
            let mut members: Vec<usize> =
                group.iter().enumerate().filter(|(rank, _)| rank % parts == color).map(|(_, member)| *member).collect();
            members.reverse();
            if !members.is_empty() {
                groups.push(members);
            }
        }
    }
    let step = format!(
        "{{ op = \"split\", new = \"{name}\", comm = \"{}\", color = \"rank % {parts}\", key = \"-rank\" }}",
        parent.name
    );
    world.communicators.push(Communicator { name, groups, non_blocking: parent.non_blocking });
    // Nothing may be outstanding on the parent.
    vec!["{ op = \"wait\" }".to_owned(), step]
}

fn control(world: &mut World) -> Vec<String> {
    let text = match world.rng.below(4) {
        0 => "{ op = \"wait\" }".to_owned(),
        1 => {
            let (_, keys) = chosen(world);
            format!("{{ op = \"barrier\"{keys} }}")
        }
        // A non-blocking communicator would keep the error.
        _ if world.non_blocking => return Vec::new(),
        _ => {
            let op = *world.rng.pick(&["broadcast", "reduce", "gather", "scatter"]);
            let ranks = world.ranks;
            let whole =
                |buffer: &Buffer| common(buffer, &(0..ranks).collect::<Vec<_>>()).is_some_and(|c| c % ranks == 0);
            let Some(input) = find(world, whole) else { return Vec::new() };
            let out = world.name();
            let root = world.ranks + world.rng.below(3);
            format!(
                "{{ op = \"{op}\", root = {root}, in = \"{}\", out = \"{out}\", error = \"invalid_argument\" }}",
                input.name
            )
        }
    };
    vec![text]
}
