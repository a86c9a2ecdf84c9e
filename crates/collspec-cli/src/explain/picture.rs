//! What is shown of a case, independent of how it is drawn.

/// A case in words and pictures.
#[derive(Clone, Debug, Default)]
pub struct Explanation {
    /// The name of the case.
    pub name: String,
    /// Sentences about the whole case.
    pub about: Vec<String>,
    /// The steps, in the order of the file.
    pub steps: Vec<StepPicture>,
}

/// A step in words and pictures.
#[derive(Clone, Debug, Default)]
pub struct StepPicture {
    /// `Step 2: all_reduce`.
    pub heading: String,
    /// A paragraph for each operation.
    pub words: Vec<String>,
    /// One picture for each communicator.
    pub panels: Vec<Panel>,
    /// Sentences below the pictures.
    pub notes: Vec<String>,
}

/// A table with ranks as rows.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// The communicator, unless it is obvious.
    pub title: Option<String>,
    /// The headings of the columns.
    pub columns: Vec<String>,
    /// The rows, from top to bottom.
    pub rows: Vec<Row>,
}

/// A row of a panel.
#[derive(Clone, Debug)]
pub enum Row {
    /// A rank's label and its cells in each column; no cells where it has nothing there.
    Rank(String, Vec<Vec<Cell>>),
    /// Rows that are left out, in words.
    Gap(String),
}

/// An element, a message, or a few words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// The text, with the rank whose colour each part has.
    pub parts: Vec<(String, Option<usize>)>,
    /// The ranks that the value came from in this step; empty for what the step does not touch.
    pub from: Vec<usize>,
    /// True if it stands for something other than an element: three dots, or words.
    pub plain: bool,
}

impl Cell {
    /// Words instead of an element.
    pub fn words(text: impl Into<String>) -> Self {
        Self { parts: vec![(text.into(), None)], from: Vec::new(), plain: true }
    }

    /// A value that came from one rank.
    pub fn from_rank(text: impl Into<String>, rank: usize) -> Self {
        Self { parts: vec![(text.into(), Some(rank))], from: vec![rank], plain: false }
    }

    /// The whole text.
    pub fn text(&self) -> String {
        self.parts.iter().map(|(text, _)| text.as_str()).collect()
    }

    /// The text where no colours can be shown: a value that came from a single rank has that rank's label.
    pub fn labelled(&self) -> String {
        match (self.from.as_slice(), self.parts.as_slice()) {
            ([rank], [(text, _)]) => format!("r{rank}:{text}"),
            _ => self.text(),
        }
    }
}

impl Panel {
    /// The panel in parts that each have so few columns that a row takes about this many characters.
    pub fn parts(&self, most: usize) -> Vec<Self> {
        let width = |at: usize| {
            let strips = self.rows.iter().filter_map(|row| match row {
                Row::Rank(_, strips) => strips.get(at),
                Row::Gap(_) => None,
            });
            let of = |strip: &Vec<Cell>| strip.iter().map(|cell| cell.labelled().chars().count() + 1).sum::<usize>();
            strips.map(of).max().unwrap_or(0).max(self.columns.get(at).map_or(0, |heading| heading.chars().count())) + 3
        };
        let mut parts: Vec<std::ops::Range<usize>> = Vec::new();
        let mut used = 0;
        for at in 0..self.columns.len() {
            let own = width(at);
            match parts.last_mut() {
                Some(part) if used + own <= most => part.end = at + 1,
                _ => {
                    parts.push(at..at + 1);
                    used = 0;
                }
            }
            used += own;
        }
        parts.into_iter().enumerate().map(|(number, part)| self.part(number, part)).collect()
    }

    /// Some columns, with the ranks that have something there.
    fn part(&self, number: usize, part: std::ops::Range<usize>) -> Self {
        let row = |row: &Row| match row {
            Row::Gap(words) => Some(Row::Gap(words.clone())),
            Row::Rank(label, strips) => {
                let strips = strips.get(part.clone()).unwrap_or_default().to_vec();
                strips.iter().any(|strip| !strip.is_empty()).then(|| Row::Rank(label.clone(), strips))
            }
        };
        Self {
            title: self.title.clone().filter(|_| number == 0),
            columns: self.columns.get(part.clone()).unwrap_or_default().to_vec(),
            rows: self.rows.iter().filter_map(row).collect(),
        }
    }
}

impl Explanation {
    /// True if some value is shown with the rank that it came from.
    pub fn has_origins(&self) -> bool {
        self.cells().any(|cell| !cell.from.is_empty())
    }

    /// The ranks that occur as origins, each once.
    pub fn origins(&self) -> std::collections::BTreeSet<usize> {
        self.cells().flat_map(|cell| cell.parts.iter().filter_map(|(_, rank)| *rank)).collect()
    }

    /// True if some value may be another one, because of rounding.
    pub fn has_rounding(&self) -> bool {
        self.cells().any(|cell| cell.parts.iter().any(|(text, _)| text.contains('~')))
    }

    fn cells(&self) -> impl Iterator<Item = &Cell> {
        let panels = self.steps.iter().flat_map(|step| &step.panels);
        let rows = panels.flat_map(|panel| &panel.rows);
        rows.flat_map(|row| match row {
            Row::Rank(_, strips) => strips.as_slice(),
            Row::Gap(_) => &[],
        })
        .flatten()
    }
}

/// `rank 3`, `ranks 0 to 3`, `ranks 0, 2 and 5`, `ranks 0, 2, 4 and 509 more`.
pub fn ranks_in_words(ranks: &[usize]) -> String {
    const LISTED: usize = 6;
    match ranks {
        [] => "no ranks".into(),
        [one] => format!("rank {one}"),
        [first, .., last] if ranks.windows(2).all(|pair| pair[1] == pair[0] + 1) && ranks.len() > 2 => {
            format!("ranks {first} to {last}")
        }
        _ => format!("ranks {}", list(ranks.iter().map(usize::to_string), LISTED)),
    }
}

/// `a`, `a and b`, `a, b and c`, `a, b and 7 more`.
pub fn list(words: impl ExactSizeIterator<Item = String>, most: usize) -> String {
    let (all, most) = (words.len(), most.max(1));
    let mut words: Vec<String> = words.take(if all > most { most - 1 } else { most }).collect();
    if words.len() < all {
        words.push(format!("{} more", all - words.len()));
    }
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => words.concat(),
    }
}

/// `1 element`, `2,000 elements`.
pub fn number(count: u64, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{} {what}{s}", collspec_core::printable::thousands(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_named_shortly() {
        let all: Vec<usize> = (0..64).collect();
        assert_eq!(ranks_in_words(&all), "ranks 0 to 63");
        assert_eq!(ranks_in_words(&[3, 1]), "ranks 3 and 1");
        assert_eq!(ranks_in_words(&[0, 1]), "ranks 0 and 1");
        let even: Vec<usize> = (0..512).step_by(2).collect();
        assert_eq!(ranks_in_words(&even), "ranks 0, 2, 4, 6, 8 and 251 more");
    }
}
