//! What `collspec bench` measures of a log: each of its most frequent calls, with its own size.
use super::super::call::{Collective, properties};
use super::unique::{Variant, What};

/// Calls that are measured.
const MOST: usize = 8;

/// By variant: the keys in `bench` of those that are measured, which are collectives on all ranks.
pub fn keys(variants: &[Variant], world: usize) -> Vec<Option<String>> {
    let mut keys: Vec<Option<String>> = variants
        .iter()
        .map(|variant| match &variant.what {
            What::Collective(call) if variant.family == 0 => key(call, world),
            _ => None,
        })
        .collect();
    let mut frequent: Vec<usize> = (0..keys.len()).filter(|at| keys[*at].is_some()).collect();
    frequent.sort_by_key(|at| std::cmp::Reverse(variants[*at].calls));
    frequent.iter().skip(MOST).for_each(|at| keys[*at] = None);
    keys
}

/// The size is that of the larger buffer; the rest is taken from the variant's keys, except for a factor, which `bench` does not have.
fn key(call: &Collective, world: usize) -> Option<String> {
    let part = call.part(world).checked_mul(call.dtype.size() as u64)?;
    let sides = properties(call.op).map(|properties| [properties.send, properties.recv])?;
    let bytes = sides.into_iter().filter_map(|side| side.elements(part, world)).max().filter(|bytes| *bytes > 0)?;
    let reduce = if call.reduce == "premul_sum" { ", reduce = \"premul_sum\"" } else { "" };
    Some(format!("bytes = {bytes}, in_place = {}{reduce}", call.in_place))
}
