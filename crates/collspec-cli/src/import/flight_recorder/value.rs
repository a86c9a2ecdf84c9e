//! The values of a dump: plain data in one arena, so that values which share parts or contain themselves cost nothing.
/// An index into the arena.
pub type Id = u32;

#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
}

/// Values of a dump.
pub const MAX_NODES: usize = 8_000_000;

/// All values of a dump.
#[derive(Debug, Default)]
pub struct Values {
    nodes: Vec<Node>,
    pub root: Id,
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

    pub fn text(&self, id: Id) -> Option<&str> {
        match self.get(id) {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A number, or a text that is one.
    pub fn number(&self, id: Id) -> Option<i128> {
        match self.get(id) {
            Node::Int(number) => Some(*number),
            Node::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// A text, or a number as one.
    pub fn name(&self, id: Id) -> Option<String> {
        let number = || self.number(id).map(|number| number.to_string());
        self.text(id).map(str::to_owned).or_else(number)
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
        pairs.iter().rev().find(|(name, _)| self.text(*name) == Some(key)).map(|(_, value)| *value)
    }
}
