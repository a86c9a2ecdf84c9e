//! Builds an order map from the runs found: known boundaries, other explanations, and the name.
use super::computing::Computing;
use super::find::{Candidate, Found, FoundRun};
use super::map::{ANY, Explanation, OrderMap, OrderRun, Pattern};
use super::named_orders::{ALL_CHAINS_RANKS, all_chains, double_trees, named_orders};
use super::ring::FoundRing;
use super::shapes::{Order, rank_list};
use super::trial::{Spent, Trial};
use crate::fnv::fnv64;
use crate::printable::thousands;
use std::collections::HashSet;
use std::ops::Range;

/// Limit on the runs that a map lists.
const MOST_LISTED: usize = 4096;
/// Other explanations are searched for only in maps with at most this many runs.
const RUNS_WITH_OTHERS: usize = 16;
/// Limit on the other explanations of a run that are kept.
const MOST_OTHERS: usize = 8;
/// With at most this many ranks every chain is tried as another explanation; beyond, only if all orders with a name explain.
const MOST_RANKS_WITH_OTHER_CHAINS: u32 = 6;
/// Where every partial result is wide, number of elements with a result that depends on the order tried with other orders.
const MOST_DEPENDENT: usize = 4096;

/// The reason there is no map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoMap {
    /// No order that was tried explains this element.
    Unexplained(u64),
    /// The order changes too often.
    TooManyRuns,
    /// The budget is used up.
    Budget,
}

/// A map under construction.
pub(super) struct Written {
    explanations: Vec<Explanation>,
    runs: Vec<(u64, u32)>,
}

impl Written {
    fn explanation(&mut self, computing: &Computing, order: &Order) -> u32 {
        let explanation = Explanation {
            order: order.name(),
            additions: order.additions(computing.is_fused(), computing.grouped),
            computing: computing.words.clone(),
        };
        self.add(explanation)
    }

    fn add(&mut self, explanation: Explanation) -> u32 {
        let same =
            |known: &Explanation| known.additions == explanation.additions && known.computing == explanation.computing;
        let at = self.explanations.iter().position(same).unwrap_or_else(|| {
            self.explanations.push(explanation);
            self.explanations.len() - 1
        });
        at as u32
    }
}

pub(super) fn write_map(trial: &mut Trial<'_>, computings: &[Computing], ranks: u32, found: Found) -> OrderMap {
    let elements = trial.columns.len();
    let telling = trial.columns.telling.len() as u64;
    let empty = |name: String| OrderMap {
        name,
        pattern: Pattern::NotExplained,
        elements,
        telling,
        explanations: Vec::new(),
        runs: Vec::new(),
        run_count: 0,
        hash: String::new(),
    };
    match found {
        Found::Nothing(why) => empty(words_of_no_map(why, ranks)),
        Found::Ring(ring) => write_ring(trial, computings, &ring, empty(String::new())),
        Found::Runs(runs) => write_runs(trial, computings, ranks, &runs, empty(String::new())),
    }
}

fn words_of_no_map(why: NoMap, ranks: u32) -> String {
    let tried = if ranks as usize <= ALL_CHAINS_RANKS { "no order" } else { "none of the orders with a name" };
    match why {
        NoMap::Unexplained(element) => {
            format!(
                "not explained by one map: {tried} of {ranks} ranks that is tried explains element {}",
                thousands(element)
            )
        }
        NoMap::TooManyRuns => {
            format!("not explained by one map: {tried} of {ranks} ranks explains more than a few elements in a row")
        }
        NoMap::Budget => "not explained by one map within the budget of additions".to_owned(),
    }
}

fn write_ring(trial: &mut Trial<'_>, computings: &[Computing], ring: &FoundRing, mut map: OrderMap) -> OrderMap {
    let Some(computing) = computings.get(ring.computing) else { return map };
    let mut written = Written { explanations: Vec::new(), runs: Vec::new() };
    let rotations: Vec<u32> = ring.rotations.iter().map(|order| written.explanation(computing, order)).collect();
    for (start, rotation) in &ring.runs {
        let explanation = rotations.get(*rotation).copied().unwrap_or_default();
        // Rotations with the same first two ranks are the same order.
        if written.runs.last().is_none_or(|(_, last)| *last != explanation) {
            written.runs.push((*start, explanation));
        }
    }
    let order = |explanation: u32| {
        rotations.iter().position(|known| *known == explanation).and_then(|at| ring.rotations.get(at))
    };
    let runs = bounded_runs(trial, &written.runs, |explanation| Some((computing, order(explanation)?)));
    map.name = ring_name(ring, computing, map.elements);
    map.pattern = Pattern::Ring;
    finish(map, written, runs)
}

fn ring_name(ring: &FoundRing, computing: &Computing, elements: u64) -> String {
    let starts: Vec<u64> = ring.runs.iter().map(|run| run.0).collect();
    let ends = starts.iter().skip(1).copied().chain([elements]);
    let lengths: Vec<u64> = starts.iter().zip(ends).map(|(start, end)| end - start).collect();
    let parts = ring.runs.iter().filter(|(_, rotation)| *rotation == ring.first).count();
    // The end of a part is often shorter than a chunk, so its length says nothing about the chunk size.
    let mut sizes: Vec<u64> = Vec::new();
    for (at, length) in lengths.iter().enumerate() {
        let ends_part = ring.runs.get(at + 1).is_none_or(|(_, rotation)| *rotation == ring.first);
        let left_over = ends_part && at > 0 && lengths.get(at - 1).is_some_and(|before| length < before);
        if !left_over && !sizes.contains(length) {
            sizes.push(*length);
        }
    }
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let chunks = match sizes.as_slice() {
        [] => "chunks of different sizes".to_owned(),
        [one] => format!("chunks of {}", thousands(*one)),
        [one, other] => format!("chunks of {} and {}", thousands(*one), thousands(*other)),
        [most, .., least] => format!("chunks of {} to {}", thousands(*least), thousands(*most)),
    };
    let parts = if parts > 1 { format!(", {} parts", thousands(parts as u64)) } else { String::new() };
    format!("ring {}{parts} ({chunks}){}", rank_list(&ring.ring), suffix(&computing.words))
}

/// The way of computing as a suffix of a name; empty for rounding at each step, the usual way.
fn suffix(words: &str) -> String {
    let unusual: Vec<&str> = words.split(", ").filter(|part| *part != "rounded at each step").collect();
    unusual.into_iter().map(|part| format!(", {part}")).collect()
}

fn write_runs(
    trial: &mut Trial<'_>,
    computings: &[Computing],
    ranks: u32,
    found: &[FoundRun],
    mut map: OrderMap,
) -> OrderMap {
    let mut written = Written { explanations: Vec::new(), runs: Vec::new() };
    let mut orders: Vec<&Candidate> = Vec::new();
    for run in found {
        let Some(computing) = computings.get(run.candidate.computing) else { return map };
        let explanation = written.explanation(computing, &run.candidate.order);
        if explanation as usize == orders.len() {
            orders.push(&run.candidate);
        }
        let start = if run.from == 0 { 0 } else { trial.columns.element(run.from) };
        written.runs.push((start, explanation));
    }
    halve_at_the_middle(trial, computings, found, &mut written);
    let of = |explanation: u32| {
        let candidate = orders.get(explanation as usize)?;
        Some((computings.get(candidate.computing)?, &*candidate.order))
    };
    let mut runs = bounded_runs(trial, &written.runs, of);
    let mut any = false;
    if runs.len() <= RUNS_WITH_OTHERS {
        for (at, run) in runs.iter_mut().enumerate() {
            let from = trial.columns.index(run.start);
            let to = trial.columns.index(run.start.saturating_add(run.elements));
            let Some(found) = found.get(at) else { continue };
            // If the budget does not allow for it, the other explanations of the run stay unknown.
            let Ok(others) = others(trial, computings, ranks, &found.candidate, from..to) else { break };
            match others {
                Others::Every if found_one(&written) => any = true,
                Others::Every => {}
                Others::Some(orders) => {
                    let Some(computing) = computings.get(found.candidate.computing) else { continue };
                    run.others = orders.iter().map(|order| written.explanation(computing, order)).collect();
                }
            }
        }
    }
    let computing = found.first().and_then(|run| computings.get(run.candidate.computing));
    let words = suffix(computing.map_or("", |computing| &computing.words));
    let one_computing =
        found.iter().all(|run| Some(run.candidate.computing) == found.first().map(|f| f.candidate.computing));
    let order_names: Vec<String> = found.iter().map(|run| run.candidate.order.name()).collect();
    (map.pattern, map.name) = if any {
        let explanation = Explanation {
            order: "any order".into(),
            additions: ANY.into(),
            computing: computing.map_or(String::new(), |computing| computing.words.clone()),
        };
        written.explanations = vec![explanation];
        runs.iter_mut().for_each(|run| run.explanation = 0);
        written.runs.iter_mut().for_each(|run| run.1 = 0);
        let is_wide = computing.is_some_and(Computing::is_wide);
        let why = match ranks {
            2 => " (two ranks)",
            _ if is_wide => "",
            _ => " (too few elements tell)",
        };
        (Pattern::AnyOrder, format!("any order{why}{words}"))
    } else if let [name] = order_names.as_slice() {
        let others = runs.iter().any(|run| !run.others.is_empty());
        let or = if others { " or another order" } else { "" };
        (Pattern::OneOrder, format!("{name}{or}{words}"))
    } else if one_computing && is_double_tree(ranks, found, computings) {
        let half = written.runs.get(1).map_or(0, |run| run.0);
        (Pattern::DoubleTree, format!("double binary tree (halves of {}){words}", thousands(half)))
    } else {
        (Pattern::Runs, runs_name(&order_names, if one_computing { &words } else { "" }))
    };
    finish(map, written, runs)
}

fn found_one(written: &Written) -> bool {
    written.runs.len() == 1
}

/// The names of several runs without a pattern: all of them if there are few, otherwise their number.
fn runs_name(names: &[String], words: &str) -> String {
    let mut different: Vec<&str> = Vec::new();
    for name in names {
        if !different.contains(&name.as_str()) {
            different.push(name);
        }
    }
    let shown = match different.as_slice() {
        few @ [_, ..] if few.len() <= 4 => few.join("; "),
        many => format!("{}; and {} other orders", many[..3.min(many.len())].join("; "), many.len().saturating_sub(3)),
    };
    format!("{} runs: {shown}{words}", thousands(names.len() as u64))
}

/// True for a tree followed by its counterpart.
pub(super) fn is_double_tree(ranks: u32, found: &[FoundRun], computings: &[Computing]) -> bool {
    let [first, second] = found else { return false };
    let fused = computings.get(first.candidate.computing).is_some_and(Computing::is_fused);
    let key = |order: &Order| order.additions(fused, false);
    let keys = [key(&first.candidate.order), key(&second.candidate.order)];
    double_trees(ranks).iter().any(|pair| [key(&pair[0]), key(&pair[1])] == keys)
}

/// Puts the boundary between two runs in the middle if it is not known exactly.
fn halve_at_the_middle(trial: &mut Trial<'_>, computings: &[Computing], found: &[FoundRun], written: &mut Written) {
    let ([_, second], [_, run]) = (found, written.runs.as_mut_slice()) else { return };
    let Some(computing) = computings.get(second.candidate.computing) else { return };
    let columns = trial.columns;
    let middle = columns.len().div_ceil(2);
    let from = columns.index(middle);
    if middle < run.0
        && trial
            .first_failure(from..columns.index(run.0), computing, &second.candidate.order)
            .is_ok_and(|f| f.is_none())
    {
        run.0 = middle;
    }
}

enum Others {
    /// All orders that were tried.
    Every,
    Some(Vec<Order>),
}

/// Other orders that explain a run in the same way of computing.
fn others(
    trial: &mut Trial<'_>,
    computings: &[Computing],
    ranks: u32,
    candidate: &Candidate,
    run: Range<usize>,
) -> Result<Others, Spent> {
    let Some(computing) = computings.get(candidate.computing).filter(|computing| !computing.grouped) else {
        return Ok(Others::Some(Vec::new()));
    };
    let fused = computing.is_fused();
    let dependent = match computing.is_wide() {
        true => Some(trial.order_dependent(run.clone(), computing, MOST_DEPENDENT)?),
        false => None,
    };
    let mut found =
        FoundOthers { all: true, orders: Vec::new(), known: HashSet::from([candidate.order.hash(fused, false)]) };
    if dependent.as_ref().is_some_and(Vec::is_empty) {
        return Ok(Others::Every);
    }
    found.add(trial, computing, &named_orders(ranks, fused), dependent.as_deref(), &run)?;
    if ranks > 3 && (found.all || ranks <= MOST_RANKS_WITH_OTHER_CHAINS) && ranks as usize <= ALL_CHAINS_RANKS {
        found.add(trial, computing, &all_chains(ranks, !fused), dependent.as_deref(), &run)?;
    }
    Ok(if found.all { Others::Every } else { Others::Some(found.orders) })
}

/// Other orders that explain a run.
struct FoundOthers {
    /// True if all orders that were tried explain the run.
    all: bool,
    orders: Vec<Order>,
    known: HashSet<u64>,
}

impl FoundOthers {
    /// Tries these orders on the elements of a run, or only on those whose result depends on the order.
    fn add(
        &mut self,
        trial: &mut Trial<'_>,
        computing: &Computing,
        orders: &[Order],
        dependent: Option<&[usize]>,
        run: &Range<usize>,
    ) -> Result<(), Spent> {
        for order in orders {
            let explains = match dependent {
                Some(some) => trial.explain_all(some, computing, order)?,
                None => trial.first_failure(run.clone(), computing, order)?.is_none(),
            };
            self.all &= explains;
            if explains && self.orders.len() < MOST_OTHERS && self.known.insert(order.hash(computing.is_fused(), false))
            {
                self.orders.push(order.clone());
            }
            if !self.all && self.orders.len() >= MOST_OTHERS {
                break;
            }
        }
        Ok(())
    }
}

/// The first runs with their lengths, and the precision of their boundaries.
fn bounded_runs<'c>(
    trial: &mut Trial<'_>,
    runs: &[(u64, u32)],
    of: impl Fn(u32) -> Option<(&'c Computing, &'c Order)>,
) -> Vec<OrderRun> {
    let columns = trial.columns;
    let total = columns.len();
    let mut listed: Vec<OrderRun> = Vec::new();
    for (at, (start, explanation)) in runs.iter().enumerate().take(MOST_LISTED) {
        let end = runs.get(at + 1).map_or(total, |next| next.0);
        let mut run = OrderRun {
            start: *start,
            elements: end - start,
            earliest_start: *start,
            latest_start: *start,
            explanation: *explanation,
            others: Vec::new(),
        };
        if let Some((before_start, before)) = at.checked_sub(1).and_then(|before| runs.get(before))
            && let (Some((computing, order)), Some((before_computing, before_order))) = (of(*explanation), of(*before))
        {
            let here = columns.index(*start);
            let least = trial.back_from(here, columns.index(before_start + 1), computing, order);
            let last = trial.first_failure(here..columns.index(end), before_computing, before_order);
            if let Ok(least) = least {
                let after = least.checked_sub(1).map_or(0, |before| columns.element(before) + 1);
                run.earliest_start = after.max(before_start + 1).min(*start);
            }
            if let Ok(last) = last {
                run.latest_start = last.map_or(end, |last| columns.element(last)).clamp(*start, end);
            }
        }
        listed.push(run);
    }
    listed
}

fn finish(mut map: OrderMap, written: Written, runs: Vec<OrderRun>) -> OrderMap {
    map.run_count = written.runs.len() as u64;
    let mut bytes = Vec::with_capacity(16 * written.runs.len());
    for (start, explanation) in &written.runs {
        bytes.extend(start.to_le_bytes());
        let explanation = written.explanations.get(*explanation as usize);
        let text = explanation.map(|e| format!("{}|{}", e.additions, e.computing)).unwrap_or_default();
        bytes.extend(fnv64(text.as_bytes()).to_le_bytes());
    }
    map.hash = format!("{:016x}", fnv64(&bytes));
    map.explanations = written.explanations;
    map.runs = runs;
    map
}
