//! Defaults: keys of the file, of groups and of loops that apply to all inner steps that have the key (rule 1 of the
//! language).
use super::diagnostic::Span;
use super::reader::PointReader;
use super::tree::{TomlEntry, TomlTable};

/// Tables whose default keys apply, the innermost last.
#[derive(Clone, Debug)]
pub(crate) struct Defaults<'t>(Vec<&'t TomlTable>);

impl<'t> Defaults<'t> {
    pub fn new(file: &'t TomlTable) -> Self {
        Self(vec![file])
    }

    /// These defaults with those of a group or loop added.
    pub fn with(&self, table: &'t TomlTable) -> Self {
        let mut layers = self.0.clone();
        layers.push(table);
        Self(layers)
    }

    /// The value of a key that a step or buffer has itself, else the innermost default, which then counts as used.
    pub fn own_or_find(
        &self,
        reader: &mut PointReader<'_>,
        own: Option<&'t TomlEntry>,
        key: &str,
    ) -> Option<&'t TomlEntry> {
        self.own_or_find_any(reader, own, &[key])
    }

    /// The same, with the default from the innermost table that has one of the keys.
    pub fn own_or_find_any(
        &self,
        reader: &mut PointReader<'_>,
        own: Option<&'t TomlEntry>,
        keys: &[&str],
    ) -> Option<&'t TomlEntry> {
        let mut found = own;
        for entry in self.0.iter().rev().flat_map(|t| keys.iter().filter_map(|k| t.get(k))) {
            match found {
                Some(inner) => reader.used.replace_default(entry.key_span, inner.key_span),
                None => {
                    reader.used.defaults.insert(entry.key_span);
                    found = Some(entry);
                }
            }
        }
        found
    }

    /// The default in the innermost table that has one of the keys. It does not count as used.
    pub fn peek(&self, keys: &[&str]) -> Option<&'t TomlEntry> {
        self.0.iter().rev().find_map(|t| keys.iter().find_map(|k| t.get(k)))
    }

    /// All values of a key, the outermost first.
    pub fn all_values(&self, key: &str) -> Vec<&'t TomlEntry> {
        self.0.iter().filter_map(|t| t.get(key)).collect()
    }

    /// True if the key is at the top level of the file.
    pub fn at_top(&self, key: &str) -> bool {
        self.0.first().is_some_and(|t| t.get(key).is_some())
    }

    /// Marks a default as used.
    pub fn mark_used(reader: &mut PointReader<'_>, span: Span) {
        reader.used.defaults.insert(span);
    }
}
