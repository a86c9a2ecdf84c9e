//! The orders of summation behind a result of which two runs have other bits.
use crate::judge::{Launch, Member, Place, Side, Watch, columns, judge, reduction, shown};
use collspec_core::oracle::Budget;
use collspec_core::oracle::order_map::{OrderMap, of_elements};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Keeps one call.
struct Wanted {
    launch: Launch,
    members: Vec<Member>,
}

impl Watch for Wanted {
    fn process(&mut self, _number: u32, _name: &str) {}
    fn library(&mut self, _file: &str) {}
    fn ended(&mut self, launch: &Launch, members: &[Member], _fate: Result<bool, &str>) {
        if *launch == self.launch {
            self.members = members.to_vec();
        }
    }
}

/// The results of a call by place: those of the first rank that has it.
fn results(members: &[Member]) -> BTreeMap<Place, u64> {
    let mut results = BTreeMap::new();
    for Member { call, output, .. } in members {
        for (block, at, bits) in output {
            results.entry((call.cell(Side::Out, *block), *at)).or_insert(*bits);
        }
    }
    results
}

/// Says how the first element that differs was added up in both runs, from their files. `None` if the call is not a reduction.
pub fn orders(runs: [(&[PathBuf], Launch); 2]) -> Option<String> {
    let mut found = Vec::new();
    for (files, launch) in runs {
        let mut wanted = Wanted { launch, members: Vec::new() };
        judge(files, Some(&mut wanted)).ok()?;
        found.push(wanted.members);
    }
    let [base, candidate] = found.try_into().ok()?;
    let call = &base.first()?.call;
    if !call.op.reduces() {
        return None;
    }
    let reduction = reduction(call, &base).ok()?;
    let columns = columns(&base);
    let (ours, theirs) = (results(&base), results(&candidate));
    let places: Vec<Place> =
        ours.keys().copied().filter(|place| columns.contains_key(place) && theirs.contains_key(place)).collect();
    let first = places.iter().position(|place| ours[place] != theirs[place])?;
    let columns: Vec<Vec<u64>> = places.iter().map(|place| columns[place].clone()).collect();
    let explained = |results: &BTreeMap<Place, u64>| {
        let bits: Vec<u64> = places.iter().map(|place| results[place]).collect();
        let map = of_elements(&reduction, &columns, &bits, &mut Budget::default());
        format!("{} ({})", shown(call, bits[first]), order_of(map.as_ref(), first as u64))
    };
    let (block, at) = places[first];
    Some(format!(
        "element {}: {} -> {}",
        block.saturating_mul(call.count).saturating_add(at),
        explained(&ours),
        explained(&theirs)
    ))
}

/// The order of the run that has this element.
fn order_of(map: Option<&OrderMap>, element: u64) -> String {
    let run = map.and_then(|map| {
        let run = map.runs.iter().rfind(|run| run.start <= element)?;
        map.explanation(run.explanation)
    });
    match run {
        Some(explanation) => format!("{}, {}", explanation.order, explanation.computing),
        None => "in an order that the copied elements do not tell".to_owned(),
    }
}
