//! The order maps of a run's results: the order of ranks in which each element was summed.
use super::{call_algorithms, message};
use crate::ops::Rule;
use crate::oracle::ResultOrder;
use crate::oracle::interpreter::AmbiguousResult;
use crate::oracle::order_map::{Columns, MapBudget, has_order, may_explain, order_map};
use crate::plan::{Event, Plan};
use std::ops::Range;

/// Limit on the results of a case that get an order map.
const MOST_MAPS: usize = 64;

/// Collects the order maps of a run.
#[derive(Debug, Default)]
pub(super) struct OrderMaps {
    budget: MapBudget,
    found: Vec<EventOrder>,
    /// The reduce_scatter whose blocks are being collected.
    blocks: Option<Blocks>,
}

/// The order map of an event's result.
#[derive(Debug)]
pub(super) struct EventOrder {
    pub event: usize,
    pub order: ResultOrder,
    /// The family that the order belongs to, if the call requests an algorithm that never gives these bits.
    pub contradiction: Option<&'static str>,
}

/// The blocks of a result; every rank receives one.
#[derive(Debug)]
struct Blocks {
    event: usize,
    /// The result: the right value where there is only one, otherwise the observed one.
    bytes: Vec<u8>,
    ranks: Vec<usize>,
}

impl OrderMaps {
    /// The maps with the numbers of their events.
    pub fn by_event(&self) -> &[EventOrder] {
        &self.found
    }

    /// The maps in the order of the steps.
    pub fn into_maps(self) -> Vec<ResultOrder> {
        self.found.into_iter().map(|found| found.order).collect()
    }

    /// Adds a rank's result that was found right. `like_first` is true if it has the same bits as the event's first rank's.
    pub fn add(&mut self, plan: &Plan, choice: &AmbiguousResult<'_>, bytes: &[u8], like_first: bool) {
        let Some(Event::Collective(collective)) = plan.events.get(choice.event) else { return };
        if !has_order(choice.reduction) {
            return;
        }
        if collective.op().rule == Rule::ReducedBlock {
            return self.add_block(plan, choice, bytes);
        }
        let rank = choice.target.region.rank;
        let first = self.found.iter_mut().find(|found| found.event == choice.event);
        if let Some(found) = first.filter(|_| like_first) {
            return found.order.ranks.push(rank);
        }
        if like_first && self.found.len() >= MOST_MAPS {
            return;
        }
        let elements = 0..choice.target.region.len as usize;
        self.add_map(plan, choice, bytes, elements, vec![rank]);
    }

    /// Adds a block; once the last one with ambiguous elements is added, all blocks get one map.
    fn add_block(&mut self, plan: &Plan, choice: &AmbiguousResult<'_>, bytes: &[u8]) {
        let event = choice.event;
        let size = choice.reduction.dtype.size();
        let len = choice.target.region.len as usize;
        let mut blocks = match self.blocks.take() {
            Some(blocks) if blocks.event == event => blocks,
            _ => Blocks { event, bytes: choice.reduced.bytes.to_vec(), ranks: Vec::new() },
        };
        let place = blocks.bytes.get_mut(choice.first * size..choice.first * size + bytes.len());
        if let Some(place) = place {
            place.copy_from_slice(bytes);
        }
        blocks.ranks.push(choice.target.region.rank);
        let is_open = |rank: &usize| choice.reduced.any_ambiguous(rank * len..(rank + 1) * len);
        let expected = (0..choice.reduction.ranks).filter(is_open).count();
        if blocks.ranks.len() < expected {
            self.blocks = Some(blocks);
            return;
        }
        let elements = 0..blocks.bytes.len() / size;
        self.add_map(plan, choice, &blocks.bytes, elements, blocks.ranks);
    }

    /// Adds the map of a result held by these ranks, unless no element depends on the order or there are enough maps.
    fn add_map(
        &mut self,
        plan: &Plan,
        choice: &AmbiguousResult<'_>,
        result: &[u8],
        elements: Range<usize>,
        mut ranks: Vec<usize>,
    ) {
        if self.found.len() >= MOST_MAPS {
            return;
        }
        let telling = elements.filter(|element| choice.reduced.is_ambiguous(*element));
        let Ok(telling) = telling.map(u32::try_from).collect::<Result<Vec<_>, _>>() else { return };
        let dtype = choice.reduction.dtype;
        let columns = || Columns { dtype, inputs: choice.inputs, result, telling: telling.clone() };
        let Some(map) = order_map(choice.reduction, columns(), &mut self.budget) else { return };
        let asked = plan.events.get(choice.event).and_then(|event| call_algorithms::asked(plan, event));
        let contradiction = asked.and_then(|(family, _)| {
            let is = call_algorithms::contradiction(family, &map)?;
            // The wrong order explains few telling elements by chance.
            (!may_explain(family, choice.reduction, columns())).then_some(is)
        });
        let event = plan.events.get(choice.event);
        let step = event.and_then(|event| plan.steps.get(event.step() as usize));
        let buffer = plan.buffers.get(choice.target.region.buf).map(|buffer| message::buffer_label(buffer).to_owned());
        ranks.sort_unstable();
        let step = step.map(|step| step.label.clone()).unwrap_or_default();
        let order = ResultOrder { step, buffer: buffer.unwrap_or_default(), ranks, map };
        self.found.push(EventOrder { event: choice.event, order, contradiction });
    }
}
