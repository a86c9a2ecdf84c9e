//! A topology file of NCCL's as a tree of elements: what NCCL reads by NCCL_TOPO_FILE, and writes by NCCL_TOPO_DUMP_FILE.
use std::fmt::{self, Write};

/// An element, with its attributes in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// `cpu`, `pci`, `gpu`, ...
    pub name: String,
    /// Names and values.
    pub attributes: Vec<(String, String)>,
    /// The elements in it.
    pub children: Vec<Element>,
    /// Its line in the file that it was read from; 0 if it was made.
    pub line: usize,
}

impl Element {
    /// An element with these attributes.
    pub fn new(name: &str, attributes: &[(&str, &str)]) -> Self {
        let attributes = attributes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Self { name: name.to_owned(), attributes, ..Self::default() }
    }

    /// An attribute's value.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// Sets an attribute.
    pub fn set(&mut self, key: &str, value: &str) {
        match self.attributes.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => value.clone_into(old),
            None => self.attributes.push((key.to_owned(), value.to_owned())),
        }
    }

    /// The elements in it of this name.
    pub fn children_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// Goes through the tree, parents first, with the elements around each.
    pub fn walk<'a>(&'a self, see: &mut impl FnMut(&'a Self, &[&'a Self])) {
        fn inner<'a>(
            at: &'a Element,
            around: &mut Vec<&'a Element>,
            see: &mut impl FnMut(&'a Element, &[&'a Element]),
        ) {
            see(at, around);
            around.push(at);
            for child in &at.children {
                inner(child, around, see);
            }
            around.pop();
        }
        inner(self, &mut Vec::new(), see);
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}", self.name)?;
        for (key, value) in &self.attributes {
            write!(f, " {key}=\"")?;
            for c in value.chars() {
                match c {
                    '<' => f.write_str("&lt;")?,
                    '&' => f.write_str("&amp;")?,
                    '"' => f.write_str("&quot;")?,
                    c => f.write_char(c)?,
                }
            }
            f.write_str("\"")?;
        }
        if self.children.is_empty() {
            return f.write_str("/>\n");
        }
        f.write_str(">\n")?;
        for child in &self.children {
            child.fmt(f)?;
        }
        writeln!(f, "</{}>", self.name)
    }
}
