//! A step of the merged program as text.
use super::call::{Call, Collective, Issued, Message, Unit, is_rooted, properties};
use super::comms::{Comms, Family};
use super::inputs::{Buffer, Inputs, RECEIVED};
use super::peers::{partner, peer};
use super::per_rank::numbers;
use super::text::Node;
use collspec_core::ops::{InPlace, Who};

/// Ranks that are listed even if few are missing.
const MAX_LISTED: usize = 16;
/// Ranks that are listed as missing.
const MAX_MISSING: usize = 3;

/// A step and the units of its ranks.
#[derive(Debug)]
pub struct Merged<'a> {
    /// Ranks of the world.
    pub world: usize,
    pub comms: &'a Comms,
    /// World rank and what it makes, in rising order.
    pub parts: Vec<(usize, &'a Unit)>,
    /// World ranks that take part without a log or dump.
    pub absent: &'a [usize],
    /// The names of the streams of its calls.
    pub streams: &'a [&'a str],
    /// True if ranks may disagree about it, so that it says what each of them passes.
    pub may_disagree: bool,
}

impl Merged<'_> {
    fn family(&self, at: usize) -> &Family {
        let issued = self.parts.first().and_then(|(_, unit)| unit.calls.get(at));
        &self.comms.families[issued.map_or(0, |issued| self.comms.family(issued.comm))]
    }

    fn stream(&self, at: usize) -> &str {
        self.streams.get(at).or(self.streams.first()).copied().unwrap_or("main")
    }
}

/// The keys of a step before and after those of its operation.
#[derive(Clone, Copy)]
struct Keys<'a> {
    before: &'a str,
    after: &'a str,
}

/// The step as text.
pub fn node(step: &Merged<'_>, inputs: &mut Inputs) -> Node {
    let Some((_, first)) = step.parts.first() else { return Node::default() };
    let mut ranks: Vec<usize> = step.parts.iter().map(|(rank, _)| *rank).chain(step.absent.iter().copied()).collect();
    ranks.sort_unstable();
    let family = step.family(0);
    let is_alike = |at: usize| step.family(at).name == family.name && step.stream(at) == step.stream(0);
    let are_alike = (1..first.calls.len()).all(is_alike);
    let members = if are_alike { family.members() } else { (0..step.world).collect() };
    let which = if ranks == members { String::new() } else { format!(", ranks = {}", which(&ranks, &members)) };
    let after = |at: usize| match step.stream(at) {
        "main" => String::new(),
        name => format!(", stream = \"{name}\""),
    };
    let (before, after_all) = if are_alike { (which + &family.key(), after(0)) } else { (which, String::new()) };
    let keys = Keys { before: &before, after: &after_all };
    match first.calls.as_slice() {
        [_] => Node::new(call(step, 0, keys, inputs)),
        [Issued { call: Call::Message(one), .. }, Issued { call: Call::Message(two), .. }]
            if are_alike
                && one.sends != two.sends
                && (one.dtype, one.count) == (two.dtype, two.count)
                && [one, two].iter().all(|message| stays_inside(family, &ranks, message.distance)) =>
        {
            let (to, from) = if one.sends { (one, two) } else { (two, one) };
            let peers = [to, from].map(|message| peer(family, &ranks, message.distance));
            let peers = match peers {
                [to, from] if to == from => format!("peer = {to}"),
                [to, from] => format!("to = {to}, from = {from}"),
            };
            let (input, output) = (sent(step, usize::from(!one.sends), inputs), received(step, from, 0, inputs));
            let own = format!("{peers}, in = \"{input}\", out = \"{output}\"");
            Node::new(format!("{{ op = \"send_recv\"{before}, {own}{after_all}"))
        }
        calls => {
            let inner = |at: usize| {
                let (before, after) = if are_alike { <_>::default() } else { (step.family(at).key(), after(at)) };
                Node::new(call(step, at, Keys { before: &before, after: &after }, inputs))
            };
            let steps = (0..calls.len()).map(inner).collect();
            Node { steps, ..Node::new(format!("{{ op = \"group\"{before}{after_all}")) }
        }
    }
}

/// These ranks: a list, or of many ranks those that are missing, so that the line stays short.
fn which(ranks: &[usize], members: &[usize]) -> String {
    let missing = members.iter().filter(|rank| !ranks.contains(rank));
    let missing: Vec<String> = missing.map(|rank| format!("(world_rank != {rank})")).collect();
    if ranks.len() > MAX_LISTED && missing.len() <= MAX_MISSING {
        return format!("\"{}\"", missing.join(" * "));
    }
    numbers(ranks)
}

/// True if the ranks at this distance after these are among them.
fn stays_inside(family: &Family, ranks: &[usize], distance: usize) -> bool {
    let inside = |rank: &usize| {
        let (group, _) = family.place(*rank)?;
        partner(&family.groups[group], *rank, distance).filter(|other| ranks.contains(other))
    };
    ranks.iter().all(|rank| inside(rank).is_some())
}

fn call(step: &Merged<'_>, at: usize, keys: Keys<'_>, inputs: &mut Inputs) -> String {
    let Keys { before, after } = keys;
    match step.parts.first().and_then(|(_, unit)| Some(&unit.calls.get(at)?.call)) {
        None => String::new(),
        Some(Call::Collective(call)) => collective(step, at, call, keys, inputs),
        Some(Call::Message(message)) => {
            let ranks: Vec<usize> = step.parts.iter().map(|(rank, _)| *rank).collect();
            let peer = peer(step.family(at), &ranks, message.distance);
            if message.sends {
                let name = sent(step, at, inputs);
                return format!("{{ op = \"send\"{before}, peer = {peer}, in = \"{name}\"{after}");
            }
            let (count, dtype) = (message.count, message.dtype.name());
            let name = received(step, message, at, inputs);
            format!(
                "{{ op = \"recv\"{before}, peer = {peer}, count = {count}, dtype = \"{dtype}\", out = \"{name}\"{after}"
            )
        }
    }
}

fn collective(step: &Merged<'_>, at: usize, call: &Collective, keys: Keys<'_>, inputs: &mut Inputs) -> String {
    let Keys { before, after } = keys;
    if call.op == "barrier" {
        return format!("{{ op = \"barrier\"{before}{after}");
    }
    let family = step.family(at);
    let n = family.size();
    let own = |rank: usize| match &step.parts.iter().find(|(own, _)| *own == rank)?.1.calls.get(at)?.call {
        Call::Collective(call) => Some(call),
        Call::Message(_) => None,
    };
    // Where the buffers of other ranks are says nothing about an operation with a root.
    let counts = |rank: usize| !is_rooted(call.op) || family.place(rank).is_some_and(|(_, me)| me == call.root);
    let mut counting = step.parts.iter().filter(|(rank, _)| counts(*rank)).peekable();
    let in_place = counting.peek().is_some() && counting.all(|(rank, _)| own(*rank).is_some_and(|call| call.in_place));
    let layout = properties(call.op).map_or(InPlace::Never, |properties| properties.in_place);
    let layout = if in_place { layout } else { InPlace::Never };
    let part = call.part(n);
    let table: Vec<Vec<u64>> = if call.pieces.is_empty() {
        Vec::new()
    } else {
        let group = family.groups.iter().find(|group| group.contains(&step.parts[0].0));
        let row = |rank: &usize| own(*rank).map_or_else(|| vec![0; n], |call| call.pieces.clone());
        group.map_or(&[][..], Vec::as_slice).iter().map(row).collect()
    };
    let sum = |pieces: &mut dyn Iterator<Item = u64>| pieces.fold(0u64, u64::saturating_add);
    let column = |at: usize| table.iter().filter_map(move |row| row.get(at).copied());
    let sums =
        table.iter().enumerate().map(|(at, row)| (sum(&mut row.iter().copied()), sum(&mut column(at)))).collect();
    let count = match layout {
        InPlace::SendInRecv => call.count.saturating_mul(n as u64),
        _ => call.count,
    };
    let name = inputs.name(Buffer {
        letters: letters(call.op),
        dtype: call.dtype,
        part,
        count: table.is_empty().then_some(count),
        sums,
        offsets: offsets(step, at),
        in_place: layout != InPlace::Never,
        stream: step.stream(at).to_owned(),
        occurrence: occurrence(step, at),
        distance: 0,
        small: call.small(n, step.world),
    });
    let slice = || format!("{name}[{part} * rank : {part} * rank + {part}]");
    let (input, output) = match layout {
        InPlace::Same => (name.clone(), name.clone()),
        InPlace::SendInRecv => (slice(), name.clone()),
        InPlace::RecvInSend => (name.clone(), slice()),
        InPlace::Never => (name.clone(), format!("{name}_out")),
    };
    let rows: Vec<String> = table.iter().map(|row| numbers(row)).collect();
    let table = if rows.is_empty() { String::new() } else { format!(", counts = [{}]", rows.join(", ")) };
    let (op, mut own) = (call.op, call.keys());
    if step.may_disagree && properties(op).is_some_and(|properties| matches!(properties.readers, Who::Root)) {
        own.push_str(&format!(", count = {part}, dtype = \"{}\"", call.dtype.name()));
    }
    format!("{{ op = \"{op}\"{before}{own}{table}, in = \"{input}\", out = \"{output}\"{after}")
}

/// What the names of an operation's buffers begin with.
fn letters(op: &str) -> &'static str {
    match op {
        "all_reduce" => "ar",
        "all_gather" => "ag",
        "reduce_scatter" => "rs",
        "reduce" => "red",
        "broadcast" => "bc",
        "gather" => "ga",
        "scatter" => "sc",
        _ => "aa",
    }
}

/// The buffer of a message that is sent.
fn sent(step: &Merged<'_>, at: usize, inputs: &mut Inputs) -> String {
    let Some(Issued { call: Call::Message(message), .. }) = step.parts[0].1.calls.get(at) else {
        return String::new();
    };
    inputs.name(Buffer {
        letters: "sent",
        dtype: message.dtype,
        part: message.count,
        count: Some(message.count),
        sums: Vec::new(),
        offsets: offsets(step, at),
        in_place: false,
        stream: step.stream(at).to_owned(),
        occurrence: occurrence(step, at),
        distance: 0,
        small: None,
    })
}

/// The buffer of a message that is received.
fn received(step: &Merged<'_>, message: &Message, at: usize, inputs: &mut Inputs) -> String {
    inputs.name(Buffer {
        letters: RECEIVED,
        dtype: message.dtype,
        part: message.count,
        count: None,
        sums: Vec::new(),
        offsets: Vec::new(),
        in_place: false,
        stream: step.stream(at).to_owned(),
        occurrence: occurrence(step, at),
        distance: message.distance,
        small: None,
    })
}

/// Where each rank's buffer begins; ranks that say nothing are like the first.
fn offsets(step: &Merged<'_>, at: usize) -> Vec<u64> {
    let of = |unit: &Unit| match unit.calls.get(at).map(|issued| &issued.call) {
        Some(Call::Collective(call)) => call.offset,
        Some(Call::Message(message)) => message.offset,
        None => 0,
    };
    let mut offsets = vec![step.parts.first().map_or(0, |(_, unit)| of(unit)); step.world];
    for (rank, unit) in &step.parts {
        offsets[*rank] = of(unit);
    }
    offsets
}

/// How many calls before this one in its group would have buffers of the same names.
fn occurrence(step: &Merged<'_>, at: usize) -> usize {
    let calls = &step.parts[0].1.calls;
    let alike = |one: &Call, other: &Call| match (one, other) {
        (Call::Message(one), Call::Message(other)) => {
            (one.sends, one.distance, one.count, one.dtype) == (other.sends, other.distance, other.count, other.dtype)
        }
        (Call::Collective(one), Call::Collective(other)) => {
            (letters(one.op), one.count, one.dtype) == (letters(other.op), other.count, other.dtype)
        }
        _ => false,
    };
    calls[..at].iter().filter(|other| alike(&other.call, &calls[at].call)).count()
}
