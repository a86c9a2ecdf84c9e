//! Every different call of a log once, as a variant.
use super::super::Imported;
use super::super::call::reductions_without_bound;
use super::super::call::{Call, Collective, Message};
use super::super::comms::Family;
use super::super::header::{counted, header};
use super::super::inputs::content;
use super::super::peers::{pair, peer};
use super::super::per_rank::numbers;
use super::bench;
use super::build::{FACTOR, Facts};
use super::collect::Collector;
use super::world::World;
use collspec_core::num::DType;
use std::collections::{BTreeMap, BTreeSet, HashMap};

#[derive(Debug)]
pub struct Variant {
    pub family: usize,
    pub what: What,
    pub calls: u64,
}

/// What a variant does.
#[derive(Debug)]
pub enum What {
    Collective(Collective),
    /// Messages of one length: senders and receivers by how far they go.
    Messages {
        dtype: DType,
        count: u64,
        pairs: BTreeMap<usize, BTreeSet<(usize, usize)>>,
    },
}

impl Variant {
    fn dtype(&self) -> DType {
        match &self.what {
            What::Collective(call) => call.dtype,
            What::Messages { dtype, .. } => *dtype,
        }
    }
}

pub fn scenario(collector: &Collector, facts: Facts, with_bench: bool) -> Imported {
    let Facts { source, what, mut remarks, world } = facts;
    let variants = variants(collector, &world);
    let any = |of: fn(&What) -> bool| variants.iter().any(|variant| of(&variant.what));
    if any(|what| matches!(what, What::Collective(call) if call.lacks_factor())) {
        remarks.push(FACTOR.to_owned());
    }
    if any(|what| matches!(what, What::Messages { .. })) {
        remarks.push("guessed: all messages of one length and type in a communicator are one group".to_owned());
    }
    let family = |variant: &Variant| world.comms.families[variant.family].size();
    remarks.extend(reductions_without_bound(variants.iter().filter_map(|variant| match &variant.what {
        What::Collective(call) => Some((call, family(variant))),
        What::Messages { .. } => None,
    })));
    let measured = if with_bench { bench::keys(&variants, world.size) } else { vec![None; variants.len()] };
    if with_bench && measured.iter().all(Option::is_none) {
        remarks.push("no [bench]: no collective is on all ranks".to_owned());
    }
    let all: u64 = collector.different.iter().map(|counted| counted.calls).sum();
    let description = format!("{what}, each different call of {all} once");
    let mut text = header(&remarks, &description, &source, "nccl_log", world.size);
    let usual = most_common_dtype(&variants);
    text.line(format!("dtype = \"{}\"", usual.name()));
    world.comms.write(&mut text, &variants.iter().map(|variant| variant.family).collect::<Vec<usize>>());
    text.line("[variants]");
    let mut names: HashMap<String, usize> = HashMap::new();
    for (seed, (variant, bench)) in variants.iter().zip(measured).enumerate() {
        let dtype = variant.dtype();
        let dtype = if dtype == usual { String::new() } else { format!(", dtype = \"{}\"", dtype.name()) };
        let family = &world.comms.families[variant.family];
        let small = match &variant.what {
            What::Collective(call) => call.small(family.size(), world.size),
            What::Messages { .. } => None,
        };
        let content = content(seed, small);
        let (mut name, value) = match &variant.what {
            What::Collective(call) => collective(call, family, &content, &dtype, bench),
            What::Messages { dtype: own, count, pairs } => {
                let input = format!("{{ {content}, count = {count}{dtype} }}");
                (with_comm(format!("messages_{count}_{}", own.name()), family), messages(*count, pairs, family, &input))
            }
        };
        let number = names.entry(name.clone()).or_default();
        *number += 1;
        if *number > 1 {
            name.push_str(&format!("_{number}"));
        }
        text.commented(format!("{name} = {value}"), &counted(variant.calls, "call"));
    }
    Imported { text: text.to_string(), remarks }
}

/// The different calls by family, in the order in which the log has them.
fn variants(collector: &Collector, world: &World) -> Vec<Variant> {
    let mut variants: Vec<Variant> = Vec::new();
    let mut known: HashMap<(usize, Call), usize> = HashMap::new();
    // Where only the root's buffers matter, calls of other ranks are the root's.
    let (own, off_root): (Vec<_>, Vec<_>) =
        collector.different.iter().partition(|one| one.from.is_none() || matches!(one.call, Call::Message(_)));
    for counted in own.into_iter().chain(off_root) {
        let family = world.comms.family(counted.comm);
        let (key, what) = match &counted.call {
            Call::Collective(call) => (counted.call.clone(), What::Collective(call.clone())),
            Call::Message(Message { dtype, count, .. }) => {
                let (dtype, count) = (*dtype, *count);
                let key = Message { sends: true, distance: 0, dtype, count, offset: 0 };
                (Call::Message(key), What::Messages { dtype, count, pairs: BTreeMap::new() })
            }
        };
        let at = *known.entry((family, key)).or_insert(variants.len());
        if at == variants.len() {
            if let (Call::Collective(call), None) = (&counted.call, counted.from) {
                let base = Collective { offset: 0, in_place: false, ..call.clone() };
                known.entry((family, Call::Collective(base))).or_insert(at);
            }
            variants.push(Variant { family, what, calls: 0 });
        }
        variants[at].calls += counted.calls;
        let group = world.comms.group(counted.comm);
        let rank = counted.from.and_then(|from| group.get(from).copied());
        if let (Call::Message(message), What::Messages { pairs, .. }, Some(rank)) =
            (&counted.call, &mut variants[at].what, rank)
            && let Some((_, from, to)) = pair(&world.comms, counted.comm, rank, message)
        {
            let n = group.len();
            let distance = if message.sends { message.distance } else { (n - message.distance) % n };
            pairs.entry(distance).or_default().insert((from, to));
        }
    }
    variants
}

fn most_common_dtype(variants: &[Variant]) -> DType {
    let count = |dtype: DType| variants.iter().filter(|variant| variant.dtype() == dtype).count();
    let all = variants.iter().map(Variant::dtype).rev();
    all.max_by_key(|dtype| count(*dtype)).unwrap_or(DType::F32)
}

fn with_comm(name: String, family: &Family) -> String {
    if family.is_world() { name } else { format!("{name}_{}", family.name) }
}

/// The name and the value of a variant.
fn collective(
    call: &Collective,
    family: &Family,
    content: &str,
    dtype: &str,
    bench: Option<String>,
) -> (String, String) {
    let Collective { op, reduce, count, root, offset, .. } = call;
    let reduction = if *reduce == "sum" { String::new() } else { format!("_{reduce}") };
    let part = call.part(family.size());
    let mut name = with_comm(format!("{op}{reduction}_{part}_{}", call.dtype.name()), family);
    let mut value = format!("{{ op = \"{op}\"{}{}", family.key(), call.keys());
    let mut input = format!("{content}, count = {count}{dtype}");
    if *root != 0 {
        name.push_str(&format!("_root_{root}"));
    }
    if call.in_place {
        name.push_str("_in_place");
        value.push_str(", in_place = true");
    }
    if *offset != 0 {
        name.push_str(&format!("_offset_{offset}"));
        input.push_str(&format!(", offset = {offset}"));
    }
    let bench = bench.map_or_else(String::new, |keys| format!(", bench = {{ {keys}{dtype} }}"));
    (name, format!("{value}, inputs = {{ {input} }}{bench} }}"))
}

/// The value of a variant that sends messages of one length.
fn messages(count: u64, pairs: &BTreeMap<usize, BTreeSet<(usize, usize)>>, family: &Family, input: &str) -> String {
    let members = family.members();
    let ends = |ranks: &[usize], distance: usize| {
        let which = if ranks == members { String::new() } else { format!(", ranks = {}", numbers(ranks)) };
        format!("{}{which}, peer = {}", family.key(), peer(family, ranks, distance))
    };
    let mut steps = Vec::new();
    for (distance, pairs) in pairs {
        let (from, mut to): (Vec<usize>, Vec<usize>) = pairs.iter().copied().unzip();
        to.sort_unstable();
        let back = (family.size() - distance) % family.size();
        steps.push(format!("{{ op = \"send\"{}, in = \"x\" }}", ends(&from, *distance)));
        steps.push(format!("{{ op = \"recv\"{}, count = {count}, out = \"y{distance}\" }}", ends(&to, back)));
    }
    format!("{{ inputs = {{ x = {input} }}, steps = [{{ op = \"group\", steps = [{}] }}] }}", steps.join(", "))
}
