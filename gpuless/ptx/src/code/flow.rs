//! The flow of control between a function's blocks.
use super::body::Body;
use super::op::Op;
use std::ops::Range;

/// A function's blocks, and for each its successors and predecessors in the flow of control.
pub struct Flow {
    pub blocks: Vec<Range<usize>>,
    pub after: Vec<Vec<usize>>,
    pub before: Vec<Vec<usize>>,
    /// For each block, true if control leaves the function at its end, other than by a trap.
    leaves: Vec<bool>,
}

impl Flow {
    pub fn of(body: &Body) -> Self {
        let blocks = body.blocks();
        let after: Vec<Vec<usize>> = blocks.iter().map(|block| successors(body, &blocks, block)).collect();
        let mut before = vec![Vec::new(); blocks.len()];
        for (number, next) in after.iter().enumerate() {
            next.iter().for_each(|next| before[*next].push(number));
        }
        let traps = |block: &Range<usize>| matches!(body.operations[block.end - 1].op, Op::Trap);
        let leaves = blocks.iter().zip(&after).map(|(block, after)| after.is_empty() && !traps(block)).collect();
        Self { blocks, after, before, leaves }
    }

    /// The blocks of the loop that goes back from `end` to `header`, if all of them are admitted and `header` is its only entry.
    pub fn natural_loop(&self, header: usize, end: usize, admits: impl Fn(usize) -> bool) -> Option<Vec<usize>> {
        let (mut own, mut ahead) = (vec![header], vec![end]);
        let mut seen = vec![false; self.blocks.len()];
        seen[header] = true;
        if !admits(header) {
            return None;
        }
        while let Some(block) = ahead.pop() {
            if std::mem::replace(&mut seen[block], true) {
                continue;
            }
            // Control begins at the first block.
            if block == 0 || self.before[block].is_empty() || !admits(block) {
                return None;
            }
            own.push(block);
            ahead.extend(&self.before[block]);
        }
        Some(own)
    }

    /// The blocks that control can pass after `from` and before `to`.
    pub fn between(&self, from: usize, to: usize) -> Vec<usize> {
        let (mut passed, mut ahead) = (Vec::new(), self.after[from].clone());
        let mut seen = vec![false; self.blocks.len()];
        seen[from] = true;
        seen[to] = true;
        while let Some(block) = ahead.pop() {
            if !std::mem::replace(&mut seen[block], true) {
                passed.push(block);
                ahead.extend(&self.after[block]);
            }
        }
        passed
    }

    /// For each block the first one that all paths from it to the end pass through; `None` if that is the end. Traps do not count as ends.
    ///
    /// These are immediate postdominators: Cooper, Harvey and Kennedy, A Simple, Fast Dominance Algorithm, 2001.
    pub fn meeting_places(&self) -> Vec<Option<usize>> {
        let end = self.blocks.len();
        let order = self.backwards();
        let mut rank = vec![usize::MAX; end + 1];
        order.iter().enumerate().for_each(|(at, block)| rank[*block] = at);
        let mut meets = vec![None; end + 1];
        meets[end] = Some(end);
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for block in order.iter().copied().filter(|block| *block != end) {
                let leaves = self.leaves[block].then_some(end);
                let known = self.after[block].iter().copied().chain(leaves).filter(|next| meets[*next].is_some());
                let common = known.reduce(|one, other| common(&meets, &rank, one, other));
                changed |= std::mem::replace(&mut meets[block], common) != common;
            }
        }
        meets.truncate(end);
        meets.into_iter().map(|meets| meets.filter(|block| *block != end)).collect()
    }

    /// The end and all blocks from which control can reach it, each before its predecessors, except for loops.
    fn backwards(&self) -> Vec<usize> {
        let end = self.blocks.len();
        let last = (0..end).filter(|block| self.leaves[*block]).collect();
        let before = |block: usize| if block == end { &last } else { &self.before[block] };
        let (mut seen, mut order, mut ahead) = (vec![false; end + 1], Vec::new(), vec![(end, 0)]);
        seen[end] = true;
        while let Some((block, next)) = ahead.last_mut() {
            match before(*block).get(*next).copied() {
                Some(other) => {
                    *next += 1;
                    if !std::mem::replace(&mut seen[other], true) {
                        ahead.push((other, 0));
                    }
                }
                None => {
                    order.push(*block);
                    ahead.pop();
                }
            }
        }
        order.reverse();
        order
    }
}

/// The first block that meets the ways from two others.
fn common(meets: &[Option<usize>], rank: &[usize], mut one: usize, mut other: usize) -> usize {
    while one != other {
        let later = if rank[one] > rank[other] { &mut one } else { &mut other };
        match meets[*later] {
            Some(next) => *later = next,
            None => return *later,
        }
    }
    one
}

/// The blocks to which control can go at a block's end.
fn successors(body: &Body, blocks: &[Range<usize>], block: &Range<usize>) -> Vec<usize> {
    let starting_at = |at: usize| blocks.binary_search_by_key(&at, |block| block.start).ok();
    let next = starting_at(block.end);
    let Some(last) = body.operations.get(block.end - 1) else { return Vec::new() };
    let branch = if let Op::Branch { target } = last.op { starting_at(target) } else { None };
    // An unknown operation is not executed; in the text control continues after it.
    let falls = !last.op.ends_block() || last.guard.is_some() || matches!(last.op, Op::Unknown(_));
    branch.into_iter().chain(next.filter(|_| falls)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(after: &[&[usize]]) -> Flow {
        let mut before = vec![Vec::new(); after.len()];
        for (block, next) in after.iter().enumerate() {
            next.iter().for_each(|next| before[*next].push(block));
        }
        let leaves = after.iter().map(|next| next.is_empty()).collect();
        let after = after.iter().map(|next| next.to_vec()).collect();
        Flow { blocks: (0..before.len()).map(|block| block..block + 1).collect(), after, before, leaves }
    }

    #[test]
    fn ways_meet_where_all_go_through() {
        // 0 branches to 1 and 2; 1 loops and leads to 3; 2 leads to 3; 3 branches to two ends.
        let flow = flow(&[&[1, 2], &[1, 3], &[3], &[4, 5], &[], &[]]);
        assert_eq!(flow.meeting_places(), [Some(3), Some(3), Some(3), None, None, None]);
        let mut between = flow.between(0, 3);
        between.sort();
        assert_eq!(between, [1, 2]);
    }

    #[test]
    fn blocks_without_a_way_to_the_end_meet_nowhere() {
        assert_eq!(flow(&[&[1, 2], &[1], &[]]).meeting_places(), [Some(2), None, None]);
    }

    #[test]
    fn a_loop_has_one_way_in() {
        let flow = flow(&[&[1], &[2], &[3, 4], &[1], &[]]);
        let mut own = flow.natural_loop(1, 3, |_| true).unwrap();
        own.sort();
        assert_eq!(own, [1, 2, 3]);
        assert_eq!(flow.natural_loop(1, 3, |block| block != 2), None);
    }

    #[test]
    fn a_loop_with_two_ways_in_is_none() {
        // 0 leads to both blocks of the loop of 1 and 2.
        assert_eq!(flow(&[&[1, 2], &[2], &[1, 3], &[]]).natural_loop(1, 2, |_| true), None);
    }
}
