//! The cases of a run that took longest.

/// The cases with the longest times, the slowest first, up to a given number.
#[derive(Clone, Debug, Default)]
pub struct SlowestCases {
    most: usize,
    cases: Vec<(String, f64)>,
}

impl SlowestCases {
    /// An empty list for at most this many cases.
    pub fn new(most: usize) -> Self {
        Self { most, cases: Vec::new() }
    }

    /// Adds a case, if it is among the slowest so far.
    pub fn add(&mut self, name: &str, seconds: f64) {
        let at = self.cases.partition_point(|(_, other)| *other >= seconds);
        if at < self.most {
            self.cases.insert(at, (name.to_owned(), seconds));
            self.cases.truncate(self.most);
        }
    }

    /// The names and times, the slowest first.
    pub fn cases(&self) -> impl Iterator<Item = (&str, f64)> {
        self.cases.iter().map(|(name, seconds)| (name.as_str(), *seconds))
    }
}
