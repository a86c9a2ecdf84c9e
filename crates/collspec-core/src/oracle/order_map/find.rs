//! Finds the order map of a result: one order for all elements, else a ring, else runs of the orders that reach farthest.
//!
//! Every way to explain a result is tried within a budget of additions, so that the same bits always have the same map.
use super::computing::{Computing, prepare};
use super::map::OrderMap;
use super::named_orders::{ALL_CHAINS_RANKS, all_chains, double_trees, grouped_orders, named_orders};
use super::ring::{ELEMENTS_PER_RUN, FoundRing, find_ring};
use super::shapes::Order;
use super::trial::{Columns, Spent, Trial};
use super::write::{NoMap, is_double_tree, write_map};
use crate::oracle::answer::{ColumnReduction, ReduceKind};
use crate::oracle::float::Float;
use std::rc::Rc;

/// Number of additions that the maps of a case may take beyond those in proportion to their elements.
const CASE_ADDITIONS: u64 = 16_000_000;
/// The part of these additions that one result may use.
const RESULT_ADDITIONS: u64 = 4_000_000;
/// Additions for each telling element and rank.
const ADDITIONS_PER_ELEMENT: u64 = 8;
/// Limit on the runs of a map whose orders do not follow a pattern.
const MOST_RUNS: usize = 4096;

/// Number of telling elements from which two halves are considered those of a double tree.
const TELLING_OF_DOUBLE_TREE: usize = 12;

/// The number of additions that the order maps of a case may still take.
#[derive(Debug)]
pub(crate) struct MapBudget(u64);

impl Default for MapBudget {
    fn default() -> Self {
        Self(CASE_ADDITIONS)
    }
}

/// An explanation: numbers of a way of computing and of an order.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub computing: usize,
    pub order: Rc<Order>,
}

/// A run of telling elements with its candidate.
#[derive(Clone, Debug)]
pub(super) struct FoundRun {
    pub from: usize,
    pub candidate: Candidate,
}

/// True for a reduction of floats whose result may depend on the order.
pub(crate) fn has_order(reduction: &ColumnReduction) -> bool {
    Float::of(reduction.dtype).is_some()
        && reduction.ranks > 1
        && !matches!(reduction.kind, ReduceKind::Min | ReduceKind::Max)
}

/// The order map of a result; `None` if no element depends on the order.
pub(crate) fn order_map(reduction: &ColumnReduction, columns: Columns<'_>, budget: &mut MapBudget) -> Option<OrderMap> {
    if !has_order(reduction) || columns.inputs.len() != reduction.ranks {
        return None;
    }
    let columns = &columns.without_certain_nans(&reduction.kind);
    if columns.telling.is_empty() {
        return None;
    }
    let prepared = prepare(reduction);
    let computings = Computing::all(&prepared);
    let ranks = u32::try_from(reduction.ranks).ok()?;
    let telling = columns.telling.len() as u64;
    let in_proportion = ADDITIONS_PER_ELEMENT.saturating_mul(telling).saturating_mul(u64::from(ranks) + 1);
    let extra = budget.0.min(RESULT_ADDITIONS);
    let mut trial = Trial::new(columns, &prepared.scalars, in_proportion.saturating_add(extra));
    let found = Finder { trial: &mut trial, computings: &computings, ranks }.find();
    let found = found.unwrap_or(Found::Nothing(NoMap::Budget));
    let map = write_map(&mut trial, &computings, ranks, found);
    let spent_extra = extra.saturating_sub(trial.additions);
    budget.0 -= spent_extra;
    Some(map)
}

/// The outcome of the search for a map.
pub(super) enum Found {
    Runs(Vec<FoundRun>),
    Ring(FoundRing),
    Nothing(NoMap),
}

struct Finder<'f, 'a> {
    trial: &'f mut Trial<'a>,
    computings: &'f [Computing],
    ranks: u32,
}

impl Finder<'_, '_> {
    fn find(mut self) -> Result<Found, Spent> {
        let named = self.candidates(&|fused| named_orders(self.ranks, fused), true);
        if let Some(found) = self.one_order(&named)? {
            return Ok(found);
        }
        let upwards: Vec<u32> = (0..self.ranks).collect();
        let mut downwards = upwards.clone();
        downwards[1..].reverse();
        let rings = if self.ranks > 2 { vec![upwards, downwards] } else { vec![upwards] };
        if let Some(ring) =
            find_ring(self.trial, self.computings, &rings)?.filter(|ring| self.is_convincing(ring, true))
        {
            return Ok(Found::Ring(ring));
        }
        if let Some(runs) = self.double_tree()? {
            return Ok(Found::Runs(runs));
        }
        let runs = self.runs(&named)?;
        let is_double_tree = |runs: &Vec<FoundRun>| is_double_tree(self.ranks, runs, self.computings);
        if self.ranks < 4 || self.ranks as usize > ALL_CHAINS_RANKS || runs.as_ref().is_ok_and(is_double_tree) {
            return Ok(runs.map_or_else(Found::Nothing, Found::Runs));
        }
        let chains = self.candidates(&|fused| all_chains(self.ranks, !fused), false);
        if let Some(found) = self.one_order(&chains)? {
            return Ok(found);
        }
        let rings = self.rings_of_first_element(&chains)?;
        let ring = find_ring(self.trial, self.computings, &rings)?;
        if let Some(ring) = ring.filter(|ring| self.is_convincing(ring, false)) {
            return Ok(Found::Ring(ring));
        }
        if let Ok(runs) = runs {
            return Ok(Found::Runs(runs));
        }
        let all: Vec<Candidate> = named.into_iter().chain(chains).collect();
        Ok(self.runs(&all)?.map_or_else(Found::Nothing, Found::Runs))
    }

    /// The double binary tree whose trees each explain one half.
    fn double_tree(&mut self) -> Result<Option<Vec<FoundRun>>, Spent> {
        let columns = self.trial.columns;
        let (middle, end) = (columns.index(columns.len().div_ceil(2)), columns.telling.len());
        if end < TELLING_OF_DOUBLE_TREE {
            return Ok(None);
        }
        for (number, computing) in self.computings.iter().enumerate().filter(|(_, computing)| !computing.grouped) {
            for [first, second] in double_trees(self.ranks) {
                if self.trial.first_failure(0..middle, computing, &first)?.is_none()
                    && self.trial.first_failure(middle..end, computing, &second)?.is_none()
                {
                    let run = |from, order| FoundRun {
                        from,
                        candidate: Candidate { computing: number, order: Rc::new(order) },
                    };
                    return Ok(Some(vec![run(0, first), run(middle, second)]));
                }
            }
        }
        Ok(None)
    }

    /// These orders in every way of computing, and groups of ranks where sums of groups are rounded.
    fn candidates(&self, orders: &dyn Fn(bool) -> Vec<Order>, with_groups: bool) -> Vec<Candidate> {
        let shared = |orders: Vec<Order>| orders.into_iter().map(Rc::new).collect::<Vec<_>>();
        let (plain, mut fused) = (shared(orders(false)), None);
        let groups = if with_groups { shared(grouped_orders(self.ranks)) } else { Vec::new() };
        let mut all = Vec::new();
        for (number, computing) in self.computings.iter().enumerate() {
            let orders = match (computing.grouped, computing.is_fused()) {
                (true, _) => &groups,
                (_, true) => fused.get_or_insert_with(|| shared(orders(true))),
                (_, false) => &plain,
            };
            all.extend(orders.iter().map(|order| Candidate { computing: number, order: Rc::clone(order) }));
        }
        all
    }

    /// The first candidate that explains everything.
    fn one_order(&mut self, candidates: &[Candidate]) -> Result<Option<Found>, Spent> {
        let end = self.trial.columns.telling.len();
        for candidate in candidates {
            let Some(computing) = self.computings.get(candidate.computing) else { continue };
            if self.trial.first_failure(0..end, computing, &candidate.order)?.is_none() {
                return Ok(Some(Found::Runs(vec![FoundRun { from: 0, candidate: candidate.clone() }])));
            }
        }
        Ok(None)
    }

    /// The runs, each from the candidate that reaches farthest, or the reason there are none.
    fn runs(&mut self, candidates: &[Candidate]) -> Result<Result<Vec<FoundRun>, NoMap>, Spent> {
        let end = self.trial.columns.telling.len();
        let mut runs: Vec<FoundRun> = Vec::new();
        let mut from = 0;
        while from < end {
            let mut best: Option<(usize, &Candidate)> = None;
            for candidate in candidates {
                let Some(computing) = self.computings.get(candidate.computing) else { continue };
                let failed = self.trial.first_failure(from..end, computing, &candidate.order)?.unwrap_or(end);
                if failed > from && best.is_none_or(|(reached, _)| failed > reached) {
                    best = Some((failed, candidate));
                }
                if failed == end {
                    break;
                }
            }
            let Some((reached, candidate)) = best else {
                return Ok(Err(NoMap::Unexplained(self.trial.columns.element(from))));
            };
            // Some order explains a run of a few elements by chance.
            if reached < end && reached - from < ELEMENTS_PER_RUN || runs.len() >= MOST_RUNS {
                return Ok(Err(NoMap::TooManyRuns));
            }
            runs.push(FoundRun { from, candidate: candidate.clone() });
            from = reached;
        }
        Ok(Ok(runs))
    }

    /// Rings of the chains that explain the first telling element, each once.
    fn rings_of_first_element(&mut self, chains: &[Candidate]) -> Result<Vec<Vec<u32>>, Spent> {
        let mut rings: Vec<Vec<u32>> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for candidate in chains {
            let Some(computing) = self.computings.get(candidate.computing) else { continue };
            if !self.trial.explains(0, computing, &candidate.order)? {
                continue;
            }
            let chain = candidate.order.chain();
            let mut swapped = chain.clone();
            swapped.swap(0, 1);
            for mut ranks in [chain, swapped] {
                let zero = ranks.iter().position(|rank| *rank == 0).unwrap_or(0);
                ranks.rotate_left(zero);
                if seen.insert(ranks.clone()) {
                    rings.push(ranks);
                }
            }
        }
        Ok(rings)
    }

    /// True if a ring explains more elements than it could by chance.
    fn is_convincing(&self, ring: &FoundRing, in_rank_order: bool) -> bool {
        let telling = self.trial.columns.telling.len();
        let ranks = self.ranks as usize;
        let is_round = ring.runs.len() >= ranks.min(3);
        let is_even_cut = ring.uneven == 0
            && ring.runs.get(1).is_some_and(|run| run.0 == self.trial.columns.len().div_ceil(ranks as u64));
        let enough = telling >= ELEMENTS_PER_RUN * (1 + ring.uneven);
        is_round && (enough || (in_rank_order && is_even_cut))
    }
}
