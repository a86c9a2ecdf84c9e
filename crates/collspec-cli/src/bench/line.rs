//! A row out of place and the same row in place, which share one line of output.
use super::result::RowResult;
use super::row::Row;

/// One line of the table: out of place, in place, or both.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// The result with separate buffers.
    pub out_of_place: Option<&'a RowResult>,
    pub in_place: Option<&'a RowResult>,
}

impl<'a> Line<'a> {
    /// The lines of the results, in the order of their first rows.
    pub fn of(results: &'a [RowResult]) -> Vec<Self> {
        let mut lines: Vec<Self> = Vec::new();
        for result in results {
            let key = result.row.with_in_place(false);
            let at = lines.iter().rposition(|line| line.row().is_some_and(|row| row.with_in_place(false) == key));
            let at = at.unwrap_or_else(|| {
                lines.push(Self { out_of_place: None, in_place: None });
                lines.len() - 1
            });
            if let Some(line) = lines.get_mut(at) {
                let place = if result.row.in_place { &mut line.in_place } else { &mut line.out_of_place };
                *place = Some(result);
            }
        }
        lines
    }

    /// The row shared by both results.
    pub fn row(&self) -> Option<&'a Row> {
        self.out_of_place.or(self.in_place).map(|result| &result.row)
    }
}
