//! Defaults: keys at the top of the file and on groups and loops, for everything inside that has a use for them (rule 1).
use super::diagnostic::Span;
use super::reader::Cx;
use super::tree::{Entry, Table};

/// Tables whose starred keys are defaults, the innermost last.
#[derive(Clone, Debug)]
pub(crate) struct Defaults<'t>(Vec<&'t Table>);

impl<'t> Defaults<'t> {
    pub fn new(file: &'t Table) -> Self {
        Self(vec![file])
    }

    /// These and what a group or loop says.
    pub fn with(&self, table: &'t Table) -> Self {
        let mut layers = self.0.clone();
        layers.push(table);
        Self(layers)
    }

    /// The innermost default of a key, which from now on counts as used.
    pub fn find(&self, cx: &mut Cx<'_>, key: &str) -> Option<&'t Entry> {
        self.any(cx, &[key])
    }

    /// The innermost table that has one of the keys decides. One that is overridden counts as used all the same: there is a
    /// use for it.
    pub fn any(&self, cx: &mut Cx<'_>, keys: &[&str]) -> Option<&'t Entry> {
        for entry in self.0.iter().flat_map(|t| keys.iter().filter_map(|k| t.get(k))) {
            cx.used.defaults.insert(entry.key_span);
        }
        self.peek(keys)
    }

    /// As [`Self::any`], without counting as a use.
    pub fn peek(&self, keys: &[&str]) -> Option<&'t Entry> {
        self.0.iter().rev().find_map(|t| keys.iter().find_map(|k| t.get(k)))
    }

    /// Every value a key has, from the outermost on.
    pub fn all(&self, key: &str) -> Vec<&'t Entry> {
        self.0.iter().filter_map(|t| t.get(key)).collect()
    }

    /// True if the file itself has the key.
    pub fn at_top(&self, key: &str) -> bool {
        self.0.first().is_some_and(|t| t.get(key).is_some())
    }

    /// Counts a default as used.
    pub fn touch(cx: &mut Cx<'_>, span: Span) {
        cx.used.defaults.insert(span);
    }
}
