//! Judges the calls of all ranks that belong together.
use super::call::{Call, Op, Side};
use super::tally::{Tally, Wrong};
use collspec_core::num::element_text;
use collspec_core::num::{bits_matter, element_hex};
use collspec_core::oracle::{Budget, ColumnReduction, ElementLane, ReduceKind, Ruling};
use std::collections::HashMap;
use std::sync::Arc;

/// The reason for calls that do not belong together.
pub const DISAGREE: &str = "on which ranks disagree";

/// The elements of a side: block, place in it, and bits.
pub type Elements = Vec<(u64, u64, u64)>;

/// A call of a process: the process's number, and its own.
pub type Source = (u32, u64);

/// A rank's call, and what was copied.
#[derive(Clone, Debug)]
pub struct Member {
    pub call: Arc<Call>,
    pub source: Source,
    /// The bits of the factor of its reduction.
    pub factor: Option<u64>,
    pub input: Elements,
    pub output: Elements,
}

/// An element of the operation: its cell, and its place there.
pub type Place = (u64, u64);

/// Judges the calls, in the order of their ranks (a message's sender first).
///
/// # Errors
///
/// The reason why they cannot be judged.
pub fn judge(members: &[Member], replay: u64, budget: &mut Budget, tally: &mut Tally) -> Result<(), String> {
    let first = &members.first().ok_or("there is no call")?.call;
    check(first, members)?;
    let mut judge = Judge { replay, budget, tally };
    match first.op {
        op if op.reduces() => judge.reduction(&reduction(first, members)?, members),
        _ => judge.moved(members),
    }
    tally.judged += members.len() as u64;
    Ok(())
}

/// Whether the ranks make one call.
fn check(first: &Call, members: &[Member]) -> Result<(), String> {
    let is_alike = |(at, Member { call, .. }): (usize, &Member)| {
        let same = match first.op {
            Op::Send => call.op == if at == 0 { Op::Send } else { Op::Recv },
            op => {
                call.op == op
                    && call.rank == at
                    && call.reduce_word() == first.reduce_word()
                    && (call.root == first.root || !op.is_rooted())
            }
        };
        let has_root = call.root < call.ranks || !(call.op.is_rooted() || call.op.is_message());
        same && has_root && (call.count, call.dtype, call.ranks) == (first.count, first.dtype, first.ranks)
    };
    if members.iter().enumerate().all(is_alike) { Ok(()) } else { Err(DISAGREE.to_owned()) }
}

/// The reduction that these calls are.
///
/// # Errors
///
/// The factor of the reduction was not recorded.
pub fn reduction(first: &Call, members: &[Member]) -> Result<ColumnReduction, String> {
    let kind = match first.reduce {
        0 => ReduceKind::Sum,
        1 => ReduceKind::Prod,
        2 => ReduceKind::Max,
        3 => ReduceKind::Min,
        4 => ReduceKind::Avg,
        _ => {
            let scalars: Option<Vec<u64>> = members.iter().map(|member| member.factor).collect();
            let scalars = scalars.ok_or("whose factor was made where nobody saw it")?;
            ReduceKind::PreMulSum { scalars }
        }
    };
    Ok(ColumnReduction { dtype: first.dtype, kind, ranks: first.ranks })
}

/// What the ranks add up at each place, by rank. Some are missing where a rank has not copied them.
pub fn columns(members: &[Member]) -> HashMap<Place, Vec<u64>> {
    let mut columns: HashMap<Place, Vec<u64>> = HashMap::new();
    for Member { call, input, .. } in members {
        for (block, at, bits) in input {
            let column = columns.entry((call.cell(Side::In, *block), *at)).or_default();
            // Places that come twice have one element.
            if column.len() == call.rank {
                column.push(*bits);
            }
        }
    }
    columns
}

struct Judge<'a> {
    replay: u64,
    budget: &'a mut Budget,
    tally: &'a mut Tally,
}

impl Judge<'_> {
    /// The columns of all ranks' inputs, and each rank's results.
    fn reduction(&mut self, reduction: &ColumnReduction, members: &[Member]) {
        let columns = columns(members);
        let mut results: HashMap<Place, u64> = HashMap::new();
        for Member { call, output, .. } in members {
            for (block, at, found) in output {
                let place = (call.cell(Side::Out, *block), *at);
                let Some(column) = columns.get(&place).filter(|column| column.len() == call.ranks) else {
                    self.tally.undecided += 1;
                    continue;
                };
                let judged = reduction.judge(column, *found, self.budget);
                let expected = match &judged.ruling {
                    Ruling::Accept { .. } => {
                        let other = *results.entry(place).or_insert(*found);
                        match other == *found || reduction.may_differ_between_ranks(other, *found) {
                            true => None,
                            false => Some(format!("{}, as a rank before it has", shown(call, other))),
                        }
                    }
                    Ruling::Reject { answer } => {
                        let known = answer.clone().or_else(|| reduction.right_results(column, self.budget).ok());
                        Some(known.map_or("something far from it".to_owned(), |known| known.text(call.dtype)))
                    }
                    Ruling::Unable { .. } => {
                        self.tally.undecided += 1;
                        continue;
                    }
                };
                self.ruled(call, judged.lane, (*block, *at, *found), expected);
            }
        }
    }

    /// Elements that are only moved.
    fn moved(&mut self, members: &[Member]) {
        let mut sources: HashMap<Place, u64> = HashMap::new();
        for Member { call, input, .. } in members.iter().filter(|member| member.call.reads()) {
            sources.extend(input.iter().map(|(block, at, bits)| ((call.cell(Side::In, *block), *at), *bits)));
        }
        for Member { call, output, .. } in members {
            for (block, at, found) in output {
                match sources.get(&(call.cell(Side::Out, *block), *at)) {
                    Some(want) => {
                        let expected = (want != found).then(|| shown(call, *want));
                        self.ruled(call, ElementLane::Exact, (*block, *at, *found), expected);
                    }
                    None => self.tally.undecided += 1,
                }
            }
        }
    }

    fn ruled(&mut self, call: &Call, lane: ElementLane, found: (u64, u64, u64), expected: Option<String>) {
        self.tally.add_element(lane);
        let Some(expected) = expected else { return };
        let (block, at, bits) = found;
        self.tally.add_wrong(Wrong {
            call: call.clone(),
            replay: self.replay,
            element: block.saturating_mul(call.count).saturating_add(at),
            expected,
            found: shown(call, bits),
        });
    }
}

/// A number, with its bits where the number alone does not say them.
pub fn shown(call: &Call, bits: u64) -> String {
    let text = element_text(call.dtype, bits);
    if bits_matter(call.dtype, bits) { format!("{text} ({})", element_hex(call.dtype, bits)) } else { text }
}
