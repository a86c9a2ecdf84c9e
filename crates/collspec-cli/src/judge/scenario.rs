//! A wrong element becomes a scenario with the inputs that were copied.
use super::call::{Call, Op, Side};
use super::rule::Member;
use super::tally::Wrong;
use collspec_core::num::{element_hex, element_text};
use collspec_core::printable::one_line;
use std::collections::{BTreeSet, HashMap};

/// Elements of all inputs up to which the scenario has them all, with 0 where nothing was copied; beyond, it has only those that were.
const MOST: u64 = 1 << 15;

/// The scenario's text.
pub fn of(wrong: &Wrong, members: &[Member]) -> String {
    let call = &wrong.call;
    let whole = members.iter().filter(|member| member.call.reads());
    let whole: u64 = whole.map(|member| member.call.blocks(Side::In).saturating_mul(call.count)).sum();
    let places = if whole <= MOST { (0..call.count).collect() } else { copied(members) };
    let left_out = match whole <= MOST {
        true => "elements that were not copied are 0".to_owned(),
        false => format!("only the elements {places:?} of each {} are there", call.count),
    };
    let mut text = format!(
        "# {}\n# Found: {}. Expected: {}. From copies of some elements: {left_out}.\n",
        one_line(&wrong.text()),
        one_line(&wrong.found),
        one_line(&wrong.expected)
    );
    text.push_str(&format!("description = \"A wrong {} that a program met\"\n", call.op.word()));
    text.push_str(&format!("tags = [\"judged\"]\ndtype = \"{}\"\n", call.dtype.name()));
    let rows: Vec<String> = members.iter().map(|member| row(member, &places)).collect();
    if call.op.is_message() {
        let row = rows.first().cloned().unwrap_or_default();
        text.push_str(&format!(
            "world_size = 2\ninputs.x = {{ each = {row}, ranks = [0] }}\nsteps = [\n  \
             {{ op = \"send\", ranks = [0], peer = 1, in = \"x\" }},\n  \
             {{ op = \"recv\", ranks = [1], peer = 0, count = {}, out = \"y\" }},\n]\n",
            places.len()
        ));
        return text;
    }
    text.push_str(&format!("world_size = {}\nop = \"{}\"\n", call.ranks, call.op.word()));
    if call.op.is_rooted() {
        text.push_str(&format!("root = {}\n", call.root));
    }
    if call.op.reduces() {
        text.push_str(&format!("reduce = {}\n", reduce(call, members)));
    }
    match call.op {
        // Only the root has an input.
        Op::Broadcast | Op::Scatter => {
            let row = rows.get(call.root).cloned().unwrap_or_default();
            text.push_str(&format!("inputs = {{ each = {row} }}\n"));
        }
        _ => text.push_str(&format!("inputs = [\n  {},\n]\n", rows.join(",\n  "))),
    }
    text
}

/// The places in a cell that were copied anywhere.
fn copied(members: &[Member]) -> Vec<u64> {
    let places = members.iter().flat_map(|member| &member.input).map(|(_, at, _)| *at);
    places.collect::<BTreeSet<u64>>().into_iter().collect()
}

/// A rank's input.
fn row(member: &Member, places: &[u64]) -> String {
    let Member { call, input, .. } = member;
    let known: HashMap<(u64, u64), u64> = input.iter().map(|(block, at, bits)| ((*block, *at), *bits)).collect();
    let shown = |block: u64, at: u64| match known.get(&(block, at)) {
        Some(bits) => format!("\"{}\"", element_hex(call.dtype, *bits)),
        None => "0".to_owned(),
    };
    let blocks = 0..call.blocks(Side::In);
    let elements = blocks.flat_map(|block| places.iter().map(move |at| (block, *at)));
    format!("[{}]", elements.map(|(block, at)| shown(block, at)).collect::<Vec<_>>().join(", "))
}

fn reduce(call: &Call, members: &[Member]) -> String {
    match call.reduce_word() {
        "premul_sum" => {
            let factor = |member: &Member| element_text(call.dtype, member.factor.unwrap_or(0));
            let factors: Vec<String> = members.iter().map(factor).collect();
            format!("{{ premul_sum = [{}] }}", factors.join(", "))
        }
        word => format!("\"{word}\""),
    }
}
