//! A picture in the making: the buffers of some ranks of a communicator, before and after a step.
use super::effects::{Messages, Piece, Source, pieces};
use super::fold::{shown_elements, shown_ranks};
use super::picture::{Cell, Panel, Row, number, ranks_in_words};
use super::reduction;
use collspec_core::num::{DType, element_text};
use collspec_core::oracle::{Certainty, ElementNow, RightResults, Walk};
use collspec_core::plan::{BufId, CollectiveEvent, CommId, Event, Plan, Region};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The pictured part of a step: one communicator's, or that of the ranks' own work.
pub struct Frame {
    comm: Option<CommId>,
    /// The ranks that take part, in the order of the communicator.
    ranks: Vec<usize>,
    shown: BTreeSet<usize>,
    rows: BTreeMap<(usize, BufId), Touched>,
    /// The columns, in the order in which the buffers are first used.
    read: Vec<BufId>,
    written: Vec<BufId>,
    /// A result that may have other values, in words.
    several: Option<String>,
    right: Right,
}

/// A buffer that a rank uses in the step.
#[derive(Default)]
struct Touched {
    reads: Vec<Region>,
    writes: Vec<Piece>,
    elements: Vec<u64>,
    before: Option<Vec<Cell>>,
    /// The operands of reduced elements, by element.
    operands: BTreeMap<u64, Vec<(usize, u64)>>,
    after: Option<Vec<Cell>>,
}

impl Frame {
    /// A frame of these participants, of which a large world shows some, and always the root.
    pub fn new(plan: &Plan, comm: Option<CommId>, ranks: &BTreeSet<usize>, root: Option<usize>) -> Self {
        let members = comm.and_then(|comm| plan.comms.get(comm)).map(|comm| comm.members.as_slice());
        let ranks: Vec<usize> = match members {
            Some(members) => members.iter().copied().filter(|rank| ranks.contains(rank)).collect(),
            None => ranks.iter().copied().collect(),
        };
        let shown = shown_ranks(&ranks, root).into_iter().collect();
        let (rows, read, written, several, right) = Default::default();
        Self { comm, ranks, shown, rows, read, written, several, right }
    }

    /// Notes what an event uses.
    pub fn touch(&mut self, plan: &Plan, event: &Event, messages: &Messages) {
        let visible = |region: &Region| !plan.buffers[region.buf].name.starts_with('#');
        for region in event.reads().into_iter().filter(visible).filter(|region| self.shown.contains(&region.rank)) {
            add(&mut self.read, region.buf);
            self.rows.entry((region.rank, region.buf)).or_default().reads.push(region);
        }
        let written = pieces(plan, event, messages, |rank| self.shown.contains(&rank));
        for piece in written.into_iter().filter(|piece| visible(&piece.region)) {
            add(&mut self.written, piece.region.buf);
            self.rows.entry((piece.region.rank, piece.region.buf)).or_default().writes.push(piece);
        }
    }

    /// Chooses the elements that are shown, once everything is noted.
    pub fn choose_elements(&mut self, plan: &Plan) {
        let mut points: BTreeMap<BufId, BTreeSet<u64>> = BTreeMap::new();
        for ((_, buf), touched) in &self.rows {
            let starts = touched.writes.iter().map(|piece| piece.region).chain(touched.reads.iter().copied());
            // More are never shown.
            let starts = starts.filter(|region| region.len > 0).map(|region| region.start).take(64);
            points.entry(*buf).or_default().extend(starts);
        }
        for ((rank, buf), touched) in &mut self.rows {
            let len = plan.buffers[*buf].places.get(*rank).copied().flatten().map_or(0, |place| place.count);
            touched.elements = shown_elements(len, points[buf].iter().copied());
        }
    }

    /// Looks at memory before an event.
    pub fn before(&mut self, plan: &Plan, event: &Event, walk: &Walk<'_>) {
        let regions = event.reads().into_iter().chain(event.writes().into_iter().flatten().map(|write| write.region));
        for region in regions {
            let Some(touched) = self.rows.get_mut(&(region.rank, region.buf)) else { continue };
            if touched.before.is_none() {
                let cells = touched.elements.iter().map(|at| {
                    let is_read = touched.reads.iter().any(|read| contains(read, *at));
                    let from = if is_read { vec![region.rank] } else { Vec::new() };
                    cell_of(plan, region.buf, walk.element(region.buf, region.rank, *at), from)
                });
                touched.before = Some(cells.collect());
            }
            if let Event::Collective(collective) = event {
                touched.note_operands(collective, walk);
            }
        }
    }

    /// Looks at memory after an event.
    pub fn after(&mut self, plan: &Plan, event: &Event, walk: &Walk<'_>) {
        for write in event.writes().into_iter().flatten() {
            let key = (write.region.rank, write.region.buf);
            let Some(touched) = self.rows.get(&key) else { continue };
            let mut cells = Vec::new();
            for (index, at) in touched.elements.iter().enumerate() {
                // What an earlier event of the step has written stays as that event left it.
                let earlier = touched.after.as_ref().filter(|_| !contains(&write.region, *at));
                if let Some(cell) = earlier.and_then(|after| after.get(index)) {
                    cells.push(cell.clone());
                    continue;
                }
                let now = walk.element(key.1, key.0, *at);
                let source = touched.writes.iter().rev().find(|piece| contains(&piece.region, *at));
                cells.push(match (source.map(|piece| piece.source), event, touched.operands.get(at)) {
                    (Some(Source::Copy(rank)), ..) => cell_of(plan, key.1, now, vec![rank]),
                    (Some(Source::Reduced(_)), Event::Collective(collective), Some(operands)) => {
                        if self.several.is_none() && now.is_some_and(|now| now.certainty == Certainty::Ambiguous) {
                            let right = self.right.of(collective, operands, walk);
                            self.several = right.map(|right| several(plan, collective, (key, *at), &right));
                        }
                        reduction::cell(collective, operands, now, touched.elements.len())
                    }
                    _ => cell_of(plan, key.1, now, Vec::new()),
                });
            }
            if let Some(touched) = self.rows.get_mut(&key) {
                touched.after = Some(cells);
            }
        }
    }

    /// The picture, and the sentences below it.
    pub fn finish(mut self, plan: &Plan) -> (Option<Panel>, Option<String>) {
        if self.rows.is_empty() {
            return (None, None);
        }
        let heading = |when: &str, buf: &BufId| {
            let buffer = &plan.buffers[*buf];
            format!("{when}: {}", super::words::typed(buffer))
        };
        let mut columns: Vec<String> = self.read.iter().map(|buf| heading("before", buf)).collect();
        columns.extend(self.written.iter().map(|buf| heading("after", buf)));
        let mut rows = Vec::new();
        let mut hidden = Vec::new();
        for rank in std::mem::take(&mut self.ranks) {
            let strips = self.strips(rank);
            if !self.shown.contains(&rank) {
                hidden.push(rank);
                continue;
            }
            close_gap(&mut rows, &mut hidden);
            if strips.iter().any(|strip| !strip.is_empty()) {
                rows.push(Row::Rank(self.label(plan, rank), strips));
            }
        }
        close_gap(&mut rows, &mut hidden);
        let title = self.comm.filter(|_| self.is_part(plan)).and_then(|comm| plan.comms.get(comm)).map(|comm| {
            let name = comm.name.as_deref().unwrap_or("the step's group");
            format!("communicator {name}: {}", ranks_in_words(&comm.members))
        });
        (Some(Panel { title, columns, rows }), self.several)
    }

    fn strips(&mut self, rank: usize) -> Vec<Vec<Cell>> {
        let cells = |buf: &BufId, after: bool| {
            let Some(touched) = self.rows.get(&(rank, *buf)) else { return Vec::new() };
            let used = if after { !touched.writes.is_empty() } else { !touched.reads.is_empty() };
            let cells = if after { &touched.after } else { &touched.before };
            cells.as_ref().filter(|_| used).map_or(Vec::new(), |cells| with_gaps(&touched.elements, cells))
        };
        let before = self.read.iter().map(|buf| cells(buf, false));
        before.chain(self.written.iter().map(|buf| cells(buf, true))).collect()
    }

    /// True if the communicator does not consist of all ranks of the world in their order.
    fn is_part(&self, plan: &Plan) -> bool {
        let members = self.comm.and_then(|comm| plan.comms.get(comm)).map(|comm| comm.members.as_slice());
        members.is_some_and(|members| members.len() != plan.n || !members.iter().copied().eq(0..plan.n))
    }

    fn label(&self, plan: &Plan, rank: usize) -> String {
        let members = self.comm.filter(|_| self.is_part(plan)).and_then(|comm| plan.comms.get(comm));
        match members.and_then(|comm| comm.members.iter().position(|member| *member == rank)) {
            Some(at) => format!("rank {rank} ({at} here)"),
            None => format!("rank {rank}"),
        }
    }
}

impl Touched {
    /// The elements that are reduced into those that are shown.
    fn note_operands(&mut self, collective: &CollectiveEvent, walk: &Walk<'_>) {
        for at in &self.elements {
            let piece = self.writes.iter().rev().find(|piece| contains(&piece.region, *at));
            let Some(Piece { region, source: Source::Reduced(first) }) = piece else { continue };
            let own = |other: &Region| (other.rank, other.buf, other.start) == (region.rank, region.buf, region.start);
            if !collective.recvs().flatten().any(|write| own(&write.region)) {
                continue;
            }
            let element = |send: Option<Region>| {
                let send = send?;
                let now = walk.element(send.buf, send.rank, send.start + first + at - region.start)?;
                Some((send.rank, now.bits))
            };
            if let Some(operands) = collective.sends().map(element).collect() {
                self.operands.insert(*at, operands);
            }
        }
    }
}

/// The right results of reduced elements that may have several, by their operands.
#[derive(Default)]
struct Right(HashMap<Vec<u64>, Option<String>>);

impl Right {
    /// All right results in words, if there are several.
    fn of(&mut self, collective: &CollectiveEvent, operands: &[(usize, u64)], walk: &Walk<'_>) -> Option<String> {
        let column: Vec<u64> = operands.iter().map(|(_, bits)| *bits).collect();
        let find = |column: &Vec<u64>| match walk.right_results(collective, column) {
            Some(RightResults::Bits(_)) => None,
            Some(right) => Some(right.text(collective.dtype())),
            None => Some("several values".to_owned()),
        };
        self.0.entry(column).or_insert_with_key(find).clone()
    }
}

/// The sentence on a result that rounds.
fn several(plan: &Plan, collective: &CollectiveEvent, (key, at): ((usize, BufId), u64), right: &str) -> String {
    format!(
        "This {} rounds, so its result depends on the order of the operations, which is up to the library; the picture shows one \
         that is right. For `{}[{at}]` on rank {}, right is {right}.",
        reduction::noun(collective),
        plan.buffers[key.1].name,
        key.0
    )
}

/// A value, marked if it rounds.
pub fn value(dtype: DType, now: ElementNow) -> String {
    let about = if now.certainty == Certainty::Ambiguous { "~" } else { "" };
    format!("{about}{}", element_text(dtype, now.bits))
}

/// An element as it is now, from these ranks.
pub fn cell_of(plan: &Plan, buf: BufId, now: Option<ElementNow>, from: Vec<usize>) -> Cell {
    let text = match now {
        Some(now) if now.certainty == Certainty::Undefined => return Cell { from: Vec::new(), ..Cell::words("?") },
        Some(now) if now.certainty != Certainty::Unwritten => value(plan.buffers[buf].dtype, now),
        _ => return Cell { plain: false, ..Cell::words("·") },
    };
    Cell { parts: vec![(text, from.first().copied())], from, plain: false }
}

/// The cells, with three dots where elements are left out.
pub fn with_gaps(elements: &[u64], cells: &[Cell]) -> Vec<Cell> {
    let mut all = Vec::with_capacity(cells.len() + 4);
    let mut next = 0;
    for (at, cell) in elements.iter().zip(cells) {
        if *at != next {
            all.push(Cell::words("…"));
        }
        next = at + 1;
        all.push(cell.clone());
    }
    all
}

fn close_gap(rows: &mut Vec<Row>, hidden: &mut Vec<usize>) {
    match hidden.as_slice() {
        [] => {}
        [one] => rows.push(Row::Gap(format!("… rank {one}"))),
        _ => rows.push(Row::Gap(format!("… {}", number(hidden.len() as u64, "more rank")))),
    }
    hidden.clear();
}

fn contains(region: &Region, element: u64) -> bool {
    (region.start..region.start + region.len).contains(&element)
}

fn add(list: &mut Vec<BufId>, buf: BufId) {
    if !list.contains(&buf) {
        list.push(buf);
    }
}

/// The world ranks of an event's memory.
pub fn ranks_of(event: &Event) -> impl Iterator<Item = usize> {
    let reads = event.reads().into_iter().map(|region| region.rank);
    let writes = event.writes().into_iter().flatten().map(|write| write.region.rank);
    reads.chain(writes).collect::<Vec<_>>().into_iter()
}
