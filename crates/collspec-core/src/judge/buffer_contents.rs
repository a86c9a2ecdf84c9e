//! The contents of every rank's buffers before and after a run, for reports. Long rows are abbreviated.
use std::fmt;

/// The contents of a case's buffers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BufferContents {
    /// The buffers with inputs, before the run.
    pub before: BufferRows,
    /// The buffers that steps write, after the run; `None` if the ranks did not finish.
    pub after: Option<BufferRows>,
}

/// Rows by rank and buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BufferRows {
    /// The rows that are shown.
    pub rows: Vec<BufferRow>,
    /// The number of further rows.
    pub more: usize,
}

/// One rank's part of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferRow {
    /// World rank that owns the row.
    pub rank: usize,
    /// The buffer's name, and its element type if that is not f32.
    pub name: String,
    /// The row's contents.
    pub elements: RowElements,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowElements {
    /// The contents are unknown.
    NotKnown,
    /// The row was not written by any step.
    Untouched,
    /// The contents, or for a long row its beginning, its end, and the part that begins with the first wrong element.
    Shown {
        /// Number of elements of the whole row.
        len: u64,
        /// The elements that are shown, by index.
        elements: Vec<ShownElement>,
    },
}

/// An element of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownElement {
    /// Index of the element in the row.
    pub index: u64,
    /// The element's value as text.
    pub text: String,
    /// True if the element is wrong.
    pub wrong: bool,
}

impl BufferRows {
    /// True if a shown element is wrong.
    pub fn has_wrong(&self) -> bool {
        self.rows.iter().any(|row| match &row.elements {
            RowElements::Shown { elements, .. } => elements.iter().any(|element| element.wrong),
            RowElements::NotKnown | RowElements::Untouched => false,
        })
    }

    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
        for BufferRow { rank, name, elements } in &self.rows {
            writeln!(f, "  rank {rank}  {name:width$}  {elements}")?;
        }
        if self.more > 0 {
            writeln!(f, "  and {} more rows", self.more)?;
        }
        Ok(())
    }
}

impl fmt::Display for BufferContents {
    /// Several lines; wrong elements have a `!` before them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "before")?;
        self.before.fmt(f)?;
        let Some(after) = &self.after else {
            return writeln!(f, "after: not known, because the ranks did not come to the end");
        };
        writeln!(f, "after")?;
        after.fmt(f)?;
        if after.has_wrong() {
            writeln!(f, "  (! marks what is wrong)")?;
        }
        Ok(())
    }
}

impl fmt::Display for RowElements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (len, elements) = match self {
            Self::NotKnown => return f.write_str("not known"),
            Self::Untouched => return f.write_str("untouched"),
            Self::Shown { len, elements } => (len, elements),
        };
        f.write_str("[")?;
        let mut next = 0;
        for ShownElement { index, text, wrong } in elements {
            if *index > 0 {
                f.write_str(", ")?;
            }
            if *index != next {
                write!(f, "..., [{index}] ")?;
            }
            write!(f, "{}{text}", if *wrong { "!" } else { "" })?;
            next = index + 1;
        }
        f.write_str("]")?;
        if *len > elements.len() as u64 { write!(f, " {len} elements") } else { Ok(()) }
    }
}
