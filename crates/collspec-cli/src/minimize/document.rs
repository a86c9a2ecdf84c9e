//! A scenario as a TOML document, changed by place and written in the way in which people write scenarios.
use std::fmt;
use toml::{Table, Value};

/// A scenario as a TOML document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document(pub Table);

/// A place in a document: keys, and indices of lists.
pub type Path = Vec<Part>;

/// A part of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A key of a table.
    Key(String),
    /// An index of a list.
    Index(usize),
}

/// Keys in the order in which a file has them; others come before `inputs`.
const FIRST: [&str; 2] = ["description", "world_size"];
const LAST: [&str; 11] =
    ["inputs", "before", "op", "in", "reduce", "root", "steps", "expect", "assert", "outcome", "reason"];

impl Document {
    /// Parses a text; the document is empty if the text is not TOML.
    pub fn read(text: &str) -> Self {
        Self(text.parse().unwrap_or_default())
    }

    /// The value at a place.
    pub fn get(&self, path: &[Part]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        let Part::Key(key) = first else { return None };
        rest.iter().try_fold(self.0.get(key)?, |value, part| match part {
            Part::Key(key) => value.get(key),
            Part::Index(index) => value.get(index),
        })
    }

    /// The value at a place, to change it.
    pub fn get_mut(&mut self, path: &[Part]) -> Option<&mut Value> {
        let (first, rest) = path.split_first()?;
        let Part::Key(key) = first else { return None };
        rest.iter().try_fold(self.0.get_mut(key)?, |value, part| match part {
            Part::Key(key) => value.get_mut(key),
            Part::Index(index) => value.get_mut(index),
        })
    }

    /// The document without the value at a place; tables that become empty are removed too.
    pub fn without(&self, path: &[Part]) -> Self {
        let mut new = self.clone();
        let Some((last, parent)) = path.split_last() else { return new };
        match (parent.is_empty(), last) {
            (true, Part::Key(key)) => _ = new.0.remove(key),
            (false, part) => match (new.get_mut(parent), part) {
                (Some(Value::Table(table)), Part::Key(key)) => {
                    table.remove(key);
                    if table.is_empty() && parent.iter().all(|part| matches!(part, Part::Key(_))) {
                        return new.without(parent);
                    }
                }
                (Some(Value::Array(list)), Part::Index(index)) if *index < list.len() => _ = list.remove(*index),
                _ => {}
            },
            _ => {}
        }
        new
    }

    /// The document with this value at a place that it has.
    pub fn with(&self, path: &[Part], value: Value) -> Self {
        let mut new = self.clone();
        if let Some(place) = new.get_mut(path) {
            *place = value;
        }
        new
    }

    /// All places, each before those inside it.
    pub fn places(&self) -> Vec<Path> {
        fn walk(value: &Value, path: &mut Path, out: &mut Vec<Path>) {
            let parts: Vec<(Part, &Value)> = match value {
                Value::Table(table) => table.iter().map(|(key, value)| (Part::Key(key.clone()), value)).collect(),
                Value::Array(list) => list.iter().enumerate().map(|(at, value)| (Part::Index(at), value)).collect(),
                _ => return,
            };
            for (part, value) in parts {
                path.push(part);
                out.push(path.clone());
                walk(value, path, out);
                path.pop();
            }
        }
        let mut out = Vec::new();
        for (key, value) in &self.0 {
            let mut path = vec![Part::Key(key.clone())];
            out.push(path.clone());
            walk(value, &mut path, &mut out);
        }
        out
    }

    /// The document with every value changed by a function of its place.
    pub fn map(&self, change: &dyn Fn(&[Part], &Value) -> Option<Value>) -> Self {
        let mut new = self.clone();
        for path in self.places() {
            if let Some(changed) = self.get(&path).and_then(|value| change(&path, value))
                && let Some(place) = new.get_mut(&path)
            {
                *place = changed;
            }
        }
        new
    }
}

/// True if the path is inside this key of the file.
pub fn is_in(path: &[Part], key: &str) -> bool {
    matches!(path.first(), Some(Part::Key(first)) if first == key)
}

/// The innermost key of a place.
pub fn innermost_key(path: &[Part]) -> Option<&str> {
    path.iter().rev().find_map(|part| match part {
        Part::Key(key) => Some(key.as_str()),
        Part::Index(_) => None,
    })
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |key: &str| {
            let first = FIRST.iter().position(|known| *known == key);
            let last = LAST.iter().position(|known| *known == key).map(|at| FIRST.len() + 1 + at);
            first.or(last).unwrap_or(FIRST.len())
        };
        let mut keys: Vec<(&String, &Value)> = self.0.iter().collect();
        keys.sort_by_key(|(key, _)| place(key));
        for (key, value) in keys {
            let key = key_text(key);
            match value {
                // A table that names buffers, variables or axes is a line each.
                Value::Table(table) if !table.contains_key("each") && key != "assert" => {
                    for (inner, value) in table {
                        writeln!(f, "{key}.{} = {}", key_text(inner), Inline(value))?;
                    }
                }
                Value::Array(list) if matches!(key.as_str(), "steps" | "before") => {
                    writeln!(f, "{key} = [")?;
                    list.iter().try_for_each(|step| writeln!(f, "  {},", Inline(step)))?;
                    writeln!(f, "]")?;
                }
                value => writeln!(f, "{key} = {}", Inline(value))?,
            }
        }
        Ok(())
    }
}

/// A value on one line.
struct Inline<'a>(&'a Value);

impl fmt::Display for Inline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Table(table) if table.is_empty() => f.write_str("{}"),
            Value::Table(table) => {
                // The operation comes first, as people write it.
                let mut keys: Vec<_> = table.iter().collect();
                keys.sort_by_key(|(key, _)| *key != "op");
                for (at, (key, value)) in keys.into_iter().enumerate() {
                    write!(f, "{} {} = {}", if at == 0 { "{" } else { "," }, key_text(key), Inline(value))?;
                }
                f.write_str(" }")
            }
            Value::Array(list) => {
                f.write_str("[")?;
                for (at, value) in list.iter().enumerate() {
                    write!(f, "{}{}", if at == 0 { "" } else { ", " }, Inline(value))?;
                }
                f.write_str("]")
            }
            value => write!(f, "{value}"),
        }
    }
}

/// A key as TOML has it.
fn key_text(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.chars().all(bare) { key.to_owned() } else { Value::String(key.to_owned()).to_string() }
}
