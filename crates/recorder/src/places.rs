//! The places at which the inputs and outputs of a call are copied: chosen by a rule that gives the same places on all its ranks.
//!
//! A *cell* is what one element's way leads through: the whole of an all_reduce, the block of a rank in an all_gather, that of a pair of
//! ranks in an all_to_all. The places within a
//! cell are the same in every rank's buffer that contains it.

/// Bytes of a run: more of them cost little, as a copy has its price.
const RUN: u64 = 64;
/// Runs of a call that has one cell, and of each cell of another.
const RUNS: u64 = 8;
const RUNS_OF_CELL: u64 = 2;
/// Cells of a buffer that are looked at in one call.
const CELLS: u64 = 8;

/// Elements of a buffer that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The buffer's block, of as many elements as the call's count.
    pub block: u64,
    /// The first of its elements.
    pub start: u64,
    pub len: u64,
}

/// How cells lie in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cells {
    None,
    One(u64),
    /// Each rank's block.
    Each,
    /// For each rank, what the calling one has for it.
    From(u64),
    /// For each rank, what that one has for the calling one.
    To(u64),
}

/// The cells of the input and the output of an operation on this rank; `None` for one that is not known.
pub fn cells(op: &str, rank: u64, root: u64) -> Option<(Cells, Cells)> {
    let at_root = |cells| if rank == root { cells } else { Cells::None };
    Some(match op {
        "AllReduce" => (Cells::One(0), Cells::One(0)),
        "Reduce" => (Cells::One(0), at_root(Cells::One(0))),
        "Broadcast" => (at_root(Cells::One(0)), Cells::One(0)),
        "AllGather" => (Cells::One(rank), Cells::Each),
        "Gather" => (Cells::One(rank), at_root(Cells::Each)),
        "ReduceScatter" => (Cells::Each, Cells::One(rank)),
        "Scatter" => (at_root(Cells::Each), Cells::One(rank)),
        "AlltoAll" => (Cells::From(rank), Cells::To(rank)),
        "Send" => (Cells::One(0), Cells::None),
        "Recv" => (Cells::None, Cells::One(0)),
        _ => return None,
    })
}

/// What the rule depends on: the same for all ranks of a call.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// From the seed and the call's number in its communicator.
    pub draw: u64,
    pub all: bool,
    pub ranks: u64,
    pub count: u64,
    /// Bytes of an element.
    pub size: u64,
    /// True if the call has a cell for each rank, or pair of ranks.
    pub in_blocks: bool,
}

impl Rule {
    /// The runs of a buffer.
    pub fn runs(&self, cells: Cells) -> Vec<Run> {
        let ranks = self.ranks;
        let blocks: Vec<(u64, u64)> = match cells {
            Cells::None => Vec::new(),
            Cells::One(cell) => vec![(0, cell)],
            Cells::Each => (0..ranks).map(|block| (block, block)).collect(),
            Cells::From(rank) => (0..ranks).map(|block| (block, rank * ranks + block)).collect(),
            Cells::To(rank) => (0..ranks).map(|block| (block, block * ranks + rank)).collect(),
        };
        let looked_at = blocks.into_iter().filter(|(_, cell)| self.all || self.looks_at(*cell));
        looked_at
            .flat_map(|(block, cell)| self.of_cell(cell).into_iter().map(move |(start, len)| Run { block, start, len }))
            .collect()
    }

    fn looks_at(&self, cell: u64) -> bool {
        let ranks = self.ranks.max(1);
        !self.in_blocks || (cell % ranks + cell / ranks + self.draw % ranks) % ranks < CELLS
    }

    /// Starts and lengths of the runs of a cell, in rising order.
    fn of_cell(&self, cell: u64) -> Vec<(u64, u64)> {
        let wanted = if self.in_blocks { RUNS_OF_CELL } else { RUNS };
        let run = RUN / self.size.max(1);
        if self.all || self.count <= wanted * run {
            return if self.count == 0 { Vec::new() } else { vec![(0, self.count)] };
        }
        let draw = mixed(self.draw ^ mixed(cell));
        let last = self.count - run;
        let start = |kind: u64| {
            let draw = mixed(draw ^ kind);
            match kind {
                0 => 0,
                1 => last,
                // Borders of chunks: of a power of two of bytes, and of the ranks' shares.
                2 => around(draw, (512 << (draw % 12)) / self.size.max(1), self.count, run),
                3 => around(draw, self.count.div_ceil(self.ranks.max(1)), self.count, run),
                4 => around(draw, (512 << (draw % 16)) / self.size.max(1), self.count, run),
                _ => draw % (last + 1),
            }
        };
        // Three has no factor in common with eight, so no kind comes twice.
        let mut starts: Vec<u64> = (0..wanted).map(|at| start((draw % RUNS + 3 * at) % RUNS).min(last)).collect();
        starts.sort_unstable();
        starts.dedup();
        starts.into_iter().map(|start| (start, run)).collect()
    }
}

/// A start such that the run has elements on both sides of one of the borders between chunks.
fn around(draw: u64, chunk: u64, count: u64, run: u64) -> u64 {
    let chunk = chunk.max(1);
    match (count - 1) / chunk {
        0 => mixed(draw) % count,
        borders => (chunk * (1 + mixed(draw) % borders)).saturating_sub(run / 2),
    }
}

/// A number that looks as if it were drawn at random (the last step of splitmix64).
pub fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(draw: u64, count: u64, in_blocks: bool) -> Rule {
        Rule { draw, all: false, ranks: 16, count, size: 2, in_blocks }
    }

    #[test]
    fn a_call_has_few_runs_inside_its_buffer() {
        for count in [0, 1, 7, 16, 17, 64, 65, 1000, 1 << 20, 1 << 40] {
            for draw in 0..200 {
                for (in_blocks, cells) in [(false, Cells::One(0)), (true, Cells::Each), (true, Cells::From(3))] {
                    let runs = rule(draw, count, in_blocks).runs(cells);
                    assert!(runs.len() <= 16 && (count == 0) == runs.is_empty(), "{count}: {runs:?}");
                    assert!(runs.iter().all(|run| run.len > 0 && run.start + run.len <= count), "{count}: {runs:?}");
                    assert!(runs.iter().map(|run| run.len).sum::<u64>() <= 512, "{count}: {runs:?}");
                }
            }
        }
    }

    #[test]
    fn the_buffers_that_share_a_cell_share_its_places() {
        for draw in 0..100 {
            let rule = rule(draw, 5000, true);
            let of_block = |cells, block| -> Vec<(u64, u64)> {
                let runs = rule.runs(cells).into_iter().filter(|run| run.block == block);
                runs.map(|run| (run.start, run.len)).collect()
            };
            for rank in 0..16 {
                assert_eq!(of_block(Cells::Each, rank), of_block(Cells::One(rank), 0));
                assert_eq!(of_block(Cells::From(rank), 5), of_block(Cells::To(5), rank));
            }
            assert_eq!((0..16).filter(|block| !of_block(Cells::Each, *block).is_empty()).count(), 8);
        }
    }

    #[test]
    fn first_and_last_elements_are_always_looked_at_where_there_is_one_cell() {
        for draw in 0..100 {
            let runs = rule(draw, 5000, false).runs(Cells::One(0));
            assert!(runs[0].start == 0 && runs.iter().any(|run| run.start + run.len == 5000), "{runs:?}");
        }
    }
}
