//! The values of a dump: plain data in one arena, so that values which share parts or contain themselves cost nothing.
use std::cell::Cell;
use std::sync::Arc;

/// An index into the arena.
pub type Id = u32;

#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Arc<str>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
}

/// Values of a dump.
pub const MAX_NODES: usize = 8_000_000;

/// Characters of a text that can be a number.
const MAX_DIGITS: usize = 40;
/// The work that each byte of a dump may cause, and that any dump may.
const WORK_OF_A_BYTE: u64 = 64;
const WORK_OF_ANY_DUMP: u64 = 1 << 20;
/// Characters of a text that are looked at in the time of a key.
const SCANNED_AT_ONCE: usize = 16;

/// All values of a dump.
///
/// A pickle can name a value that it has had before by two bytes. So a small file can have 100,000 calls that are one, or of which
/// each has the same 8,000 tensors: what is looked at is counted, and has to be in proportion to the bytes of the dump.
#[derive(Debug, Default)]
pub struct Values {
    nodes: Vec<Node>,
    pub root: Id,
    work: Cell<u64>,
}

/// What reading a part of a dump takes, in keys of dictionaries that are looked at; memory that is kept counts by its bytes.
#[derive(Clone, Copy)]
pub enum Work {
    Entry = 4096,
    Group = 1024,
    Tensor = 64,
    Rank = 8,
    Key = 1,
}

impl Values {
    /// Adds a value; `None` if there are too many.
    pub fn add(&mut self, node: Node) -> Option<Id> {
        if self.nodes.len() >= MAX_NODES {
            return None;
        }
        self.nodes.push(node);
        Id::try_from(self.nodes.len() - 1).ok()
    }

    pub fn get(&self, id: Id) -> &Node {
        self.nodes.get(id as usize).unwrap_or(&Node::None)
    }

    pub fn get_mut(&mut self, id: Id) -> Option<&mut Node> {
        self.nodes.get_mut(id as usize)
    }

    /// Counts work.
    pub fn spend(&self, work: Work, times: usize) {
        self.work.set(self.work.get().saturating_add((work as u64).saturating_mul(times as u64)));
    }

    /// Fails once reading has taken more work than a dump of this many bytes can need.
    pub fn check_work(&self, bytes: usize) -> Result<(), String> {
        let most = (bytes as u64).saturating_mul(WORK_OF_A_BYTE).saturating_add(WORK_OF_ANY_DUMP);
        if self.work.get() <= most {
            return Ok(());
        }
        Err("it repeats values so often that it is far larger than its file: no recorder writes such a dump".to_owned())
    }

    pub fn text(&self, id: Id) -> Option<&str> {
        match self.get(id) {
            Node::Text(text) => {
                self.spend(Work::Key, text.len() / SCANNED_AT_ONCE);
                Some(text)
            }
            _ => None,
        }
    }

    /// A number, or a text that is one.
    pub fn number(&self, id: Id) -> Option<i128> {
        match self.get(id) {
            Node::Int(number) => Some(*number),
            Node::Text(text) if text.len() <= MAX_DIGITS => text.parse().ok(),
            _ => None,
        }
    }

    /// A text, or a number as one.
    pub fn name(&self, id: Id) -> Option<Arc<str>> {
        match self.get(id) {
            Node::Text(text) => {
                self.spend(Work::Key, text.len());
                Some(text.clone())
            }
            _ => self.number(id).map(|number| number.to_string().into()),
        }
    }

    pub fn list(&self, id: Id) -> Option<&[Id]> {
        match self.get(id) {
            Node::List(list) => Some(list),
            _ => None,
        }
    }

    pub fn dict(&self, id: Id) -> Option<&[(Id, Id)]> {
        match self.get(id) {
            Node::Dict(pairs) => Some(pairs),
            _ => None,
        }
    }

    /// The last value of a key, as Python would have it.
    pub fn field(&self, id: Id, key: &str) -> Option<Id> {
        let pairs = self.dict(id)?;
        self.spend(Work::Key, pairs.len());
        let is_key = |id: Id| matches!(self.get(id), Node::Text(text) if **text == *key);
        pairs.iter().rev().find(|(name, _)| is_key(*name)).map(|(_, value)| *value)
    }
}
