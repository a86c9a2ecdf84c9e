//! The buffers that steps read, and their names.
use super::per_rank::value_per_rank;
use super::text::Text;
use collspec_core::num::DType;
use std::collections::{HashMap, HashSet};

/// What a buffer is used for: calls that agree in all of this share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Buffer {
    /// What its name begins with.
    pub letters: &'static str,
    pub dtype: DType,
    /// NCCL's count.
    pub part: u64,
    /// Elements; `None` if the step says them.
    pub count: Option<u64>,
    /// By rank of the communicator: the elements that it sends and receives, if the step says them.
    pub sums: Vec<(u64, u64)>,
    /// By world rank: elements after a 256-byte boundary.
    pub offsets: Vec<u64>,
    /// True if its memory is written too.
    pub in_place: bool,
    pub stream: String,
    /// Which of the equal calls of a group uses it.
    pub occurrence: usize,
    /// How far messages go.
    pub distance: usize,
    /// `None` if the numbers are random.
    pub small: Option<Small>,
}

/// Numbers whose reduction is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Small {
    /// At each place a 1 on one of this many ranks, and 0 on the others.
    Ones { every: usize },
    /// At each place a 2 on one of this many ranks, and 1 on the others.
    Twos { every: usize },
}

impl Small {
    /// The first number of a rank.
    pub fn number(self, rank: usize) -> usize {
        match self {
            Self::Ones { every } => usize::from(rank.is_multiple_of(every)),
            Self::Twos { every } => 1 + usize::from(rank.is_multiple_of(every)),
        }
    }
}

/// The buffer of what a message brings, which no rank has before.
pub const RECEIVED: &str = "got";

/// The content of an input.
pub fn content(seed: usize, small: Option<Small>) -> String {
    match small {
        Some(Small::Ones { every }) => format!("each = \"(rank + i) % {every} == 0\""),
        Some(Small::Twos { every }) => format!("each = \"1 + ((rank + i) % {every} == 0)\""),
        None => format!("random = {{ seed = {seed} }}"),
    }
}

/// The buffers in the order of their first use.
#[derive(Debug, Default)]
pub struct Inputs {
    order: Vec<Buffer>,
    numbers: HashMap<Buffer, usize>,
    taken: HashSet<(&'static str, usize)>,
    by_part: HashMap<(DType, u64), usize>,
    /// Letters that a single buffer has, once all are known.
    alone: HashSet<&'static str>,
}

impl Inputs {
    /// The name for this use. Buffers of one type and count have the same number, as far as it is free.
    pub fn name(&mut self, buffer: Buffer) -> String {
        let letters = buffer.letters;
        let number = match self.numbers.get(&buffer) {
            Some(number) => *number,
            None => {
                let equal = self.by_part.get(&(buffer.dtype, buffer.part)).copied();
                let number = equal.into_iter().chain(0..).find(|number| !self.taken.contains(&(letters, *number)));
                let number = number.unwrap_or(self.order.len());
                self.taken.insert((letters, number));
                self.by_part.entry((buffer.dtype, buffer.part)).or_insert(number);
                self.numbers.insert(buffer.clone(), number);
                self.order.push(buffer);
                number
            }
        };
        self.shown(letters, number)
    }

    fn shown(&self, letters: &str, number: usize) -> String {
        if self.alone.contains(letters) { letters.to_owned() } else { format!("{letters}{number}") }
    }

    /// All buffers are known: from now on those that are the only one with their letters have no number.
    pub fn complete(&mut self) {
        let count = |letters| self.order.iter().filter(|buffer| buffer.letters == letters).count();
        self.alone = self.order.iter().map(|buffer| buffer.letters).filter(|letters| count(*letters) == 1).collect();
    }

    /// Adds the lines of `inputs`.
    pub fn write(&self, text: &mut Text) {
        for (seed, buffer) in self.order.iter().filter(|buffer| buffer.letters != RECEIVED).enumerate() {
            let name = self.shown(buffer.letters, self.numbers[buffer]);
            let count = buffer.count.map_or_else(String::new, |count| format!(", count = {count}"));
            let dtype = buffer.dtype.name();
            let content = content(seed, buffer.small);
            let mut line = format!("inputs.{name} = {{ {content}{count}, dtype = \"{dtype}\"");
            let mut comment = String::new();
            if buffer.offsets.iter().any(|offset| *offset != 0) {
                line.push_str(&format!(", offset = {}", value_per_rank(&buffer.offsets)));
                let bytes: Vec<u64> = buffer.offsets.iter().map(|offset| offset * buffer.dtype.size() as u64).collect();
                comment = format!("{} bytes after a 256-byte boundary", value_per_rank(&bytes));
            }
            text.commented(line + " }", &comment);
        }
    }
}
