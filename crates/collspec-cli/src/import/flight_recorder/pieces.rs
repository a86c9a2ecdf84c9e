//! The pieces of an all_to_all, which a dump has only for lists of tensors.

/// Elements of each tensor that a rank gives to and gets from a call.
#[derive(Clone, Debug, Default)]
pub struct Given {
    pub inputs: Vec<u64>,
    pub outputs: Vec<u64>,
}

/// What each rank sends to each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pieces {
    pub table: Vec<Vec<u64>>,
    /// By receiver and sender: what is received, if that is not what is sent.
    pub got: Option<Vec<Vec<u64>>>,
    /// True if only the sums are in the dumps.
    pub are_guessed: bool,
}

/// Most ranks for which a table is made up.
const MAX_TABLE: usize = 256;

pub fn sum(sizes: &[u64]) -> u64 {
    sizes.iter().fold(0, |sum, size| sum.saturating_add(*size))
}

/// The pieces of a call; `None` if all are equal. Members without a dump are `None`.
pub fn pieces(members: &[Option<Given>]) -> Option<Pieces> {
    let n = members.len();
    let present: Vec<&Given> = members.iter().flatten().collect();
    let first = present.first().map_or(0, |given| sum(&given.inputs));
    let is_even = |sizes: &[u64]| sizes.windows(2).all(|pair| pair[0] == pair[1]) && sum(sizes) == first;
    let all_even = present.iter().all(|given| is_even(&given.inputs) && is_even(&given.outputs));
    if n == 0 || n > MAX_TABLE || (all_even && first.is_multiple_of(n as u64)) {
        return None;
    }
    let are_lists =
        |list: fn(&Given) -> &Vec<u64>| present.len() == n && present.iter().all(|own| list(own).len() == n);
    if n > 1 && are_lists(|given| &given.inputs) {
        let table: Vec<Vec<u64>> = present.iter().map(|given| given.inputs.clone()).collect();
        let got =
            are_lists(|given| &given.outputs).then(|| present.iter().map(|given| given.outputs.clone()).collect());
        let got = got.filter(|got| *got != transposed(&table));
        return Some(Pieces { table, got, are_guessed: false });
    }
    // As much as fits, from the first rank to the first, and so on: the sums are right if all ranks have dumps. What does not fit is
    // sent to the last rank, or awaited from it.
    let mut gets: Vec<u64> =
        members.iter().map(|given| given.as_ref().map_or(0, |given| sum(&given.outputs))).collect();
    let row = |given: &Option<Given>| {
        let mut left = given.as_ref().map_or(0, |given| sum(&given.inputs));
        let mut row: Vec<u64> = Vec::with_capacity(n);
        for get in &mut gets {
            let piece = left.min(*get);
            row.push(piece);
            (left, *get) = (left - piece, *get - piece);
        }
        (row, left)
    };
    let (mut table, rest): (Vec<Vec<u64>>, Vec<u64>) = members.iter().map(row).unzip();
    let mut got = transposed(&table);
    table.iter_mut().zip(&rest).for_each(|(row, rest)| row[n - 1] += rest);
    got.iter_mut().zip(&gets).for_each(|(row, rest)| row[n - 1] += rest);
    let got = Some(got).filter(|got| present.len() == n && *got != transposed(&table));
    Some(Pieces { table, got, are_guessed: true })
}

fn transposed(table: &[Vec<u64>]) -> Vec<Vec<u64>> {
    (0..table.len()).map(|to| table.iter().map(|row| row[to]).collect()).collect()
}
