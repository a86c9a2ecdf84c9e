//! A reader of pickles that contain plain data only.
//!
//! It knows the opcodes for numbers, texts, lists, tuples and dictionaries. There is no opcode that it would obey by calling
//! anything: all others are errors.
use super::value::{Id, Node, Values};
use std::collections::HashMap;

/// What is wrong with a pickle, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The byte, from 0.
    pub offset: usize,
    pub message: String,
}

/// Bytes of a whole number.
const MAX_INT: usize = 16;

/// Reads the values of a pickle.
pub fn read(bytes: &[u8]) -> Result<Values, Wrong> {
    let mut reader =
        Reader { bytes, at: 0, opcode: 0, values: Values::default(), stack: Vec::new(), memo: HashMap::new() };
    let root = reader.values()?;
    reader.values.root = root;
    Ok(reader.values)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where the current opcode is.
    opcode: usize,
    values: Values,
    /// `None` is a mark.
    stack: Vec<Option<Id>>,
    memo: HashMap<u64, Id>,
}

impl<'a> Reader<'a> {
    fn wrong(&self, message: impl Into<String>) -> Wrong {
        Wrong { offset: self.opcode, message: message.into() }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Wrong> {
        let end = self.at.checked_add(length);
        let Some(bytes) = end.and_then(|end| self.bytes.get(self.at..end)) else {
            let left = self.bytes.len().saturating_sub(self.at);
            return Err(self.wrong(format!("the pickle ends here: {length} bytes are needed, {left} are left")));
        };
        self.at += length;
        Ok(bytes)
    }

    fn unsigned(&mut self, length: usize) -> Result<u64, Wrong> {
        let bytes = self.take(length)?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// The length of what follows the opcode.
    fn length(&mut self, opcode: u8) -> Result<usize, Wrong> {
        let length = self.unsigned(match opcode {
            b'X' | b'T' | b'B' | 0x8b => 4,
            0x8d | 0x8e | 0x96 => 8,
            _ => 1,
        })?;
        usize::try_from(length).map_err(|_| self.wrong(format!("a length of {length} bytes")))
    }

    /// A whole number in two's complement.
    fn signed(&mut self, length: usize) -> Result<i128, Wrong> {
        if length > MAX_INT {
            return Err(self.wrong(format!("a number of {length} bytes: at most {MAX_INT} are read")));
        }
        let bytes = self.take(length)?;
        let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut number: i128 = if negative { -1 } else { 0 };
        for byte in bytes.iter().rev() {
            number = number << 8 | i128::from(*byte);
        }
        Ok(number)
    }

    fn text(&mut self, length: usize) -> Result<Node, Wrong> {
        let bytes = self.take(length)?;
        // Python's surrogates are not UTF-8, and nothing that is read here has them.
        Ok(Node::Text(String::from_utf8_lossy(bytes).into()))
    }

    fn push(&mut self, node: Node) -> Result<(), Wrong> {
        let id = self.values.add(node).ok_or_else(|| self.wrong("more values than a dump has"))?;
        self.stack.push(Some(id));
        Ok(())
    }

    fn pop(&mut self) -> Result<Id, Wrong> {
        match self.stack.pop() {
            Some(Some(id)) => Ok(id),
            _ => Err(self.wrong("a value is missing")),
        }
    }

    fn top(&mut self) -> Result<Id, Wrong> {
        let id = self.pop()?;
        self.stack.push(Some(id));
        Ok(id)
    }

    /// The values down to the last mark, which is removed.
    fn until_mark(&mut self) -> Result<Vec<Id>, Wrong> {
        let mark = self.stack.iter().rposition(Option::is_none).ok_or_else(|| self.wrong("a mark is missing"))?;
        Ok(self.stack.drain(mark..).flatten().collect())
    }

    fn pairs_until_mark(&mut self) -> Result<Vec<(Id, Id)>, Wrong> {
        let ids = self.until_mark()?;
        if ids.len() % 2 == 1 {
            return Err(self.wrong("a key without a value"));
        }
        Ok(ids.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
    }

    fn tuple(&mut self, length: usize) -> Result<(), Wrong> {
        let mut ids: Vec<Id> = (0..length).map(|_| self.pop()).collect::<Result<_, Wrong>>()?;
        ids.reverse();
        self.push(Node::List(ids))
    }

    fn append(&mut self, ids: Vec<Id>) -> Result<(), Wrong> {
        let list = self.top()?;
        match self.values.get_mut(list) {
            Some(Node::List(list)) => list.extend(ids),
            _ => return Err(self.wrong("values for a list that is not there")),
        }
        Ok(())
    }

    fn set(&mut self, pairs: Vec<(Id, Id)>) -> Result<(), Wrong> {
        let dict = self.top()?;
        match self.values.get_mut(dict) {
            Some(Node::Dict(known)) => known.extend(pairs),
            _ => return Err(self.wrong("values for a dictionary that is not there")),
        }
        Ok(())
    }

    fn recall(&mut self, number: u64) -> Result<(), Wrong> {
        let id = self.memo.get(&number).copied();
        let id = id.ok_or_else(|| self.wrong(format!("value {number} was not kept")))?;
        self.stack.push(Some(id));
        Ok(())
    }

    fn keep(&mut self, number: u64) -> Result<(), Wrong> {
        let id = self.top()?;
        self.memo.insert(number, id);
        Ok(())
    }

    /// Obeys the opcodes up to the end; returns the value.
    fn values(&mut self) -> Result<Id, Wrong> {
        loop {
            self.opcode = self.at;
            let opcode = self.take(1)?[0];
            match opcode {
                0x80 => match self.unsigned(1)? {
                    0..=5 => {}
                    other => return Err(self.wrong(format!("protocol {other} is not known"))),
                },
                // A frame says how many bytes follow, which is not needed.
                0x95 => _ = self.take(8)?,
                b'.' => return self.pop(),
                b'(' => self.stack.push(None),
                b'0' => _ = self.stack.pop(),
                b'1' => _ = self.until_mark()?,
                b'2' => {
                    let id = self.top()?;
                    self.stack.push(Some(id));
                }
                b'N' => self.push(Node::None)?,
                0x88 => self.push(Node::Bool(true))?,
                0x89 => self.push(Node::Bool(false))?,
                b'K' | b'M' => {
                    let number = self.unsigned(if opcode == b'K' { 1 } else { 2 })?;
                    self.push(Node::Int(i128::from(number)))?;
                }
                b'J' | 0x8a | 0x8b => {
                    let length = if opcode == b'J' { 4 } else { self.length(opcode)? };
                    let number = self.signed(length)?;
                    self.push(Node::Int(number))?;
                }
                b'G' => {
                    let bytes = self.take(8)?;
                    let bits = bytes.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
                    self.push(Node::Float(f64::from_bits(bits)))?;
                }
                b'X' | b'T' | 0x8c | b'U' | 0x8d => {
                    let length = self.length(opcode)?;
                    let text = self.text(length)?;
                    self.push(text)?;
                }
                b'B' | b'C' | 0x8e | 0x96 => {
                    let length = self.length(opcode)?;
                    self.take(length)?;
                    self.push(Node::None)?;
                }
                b']' | b')' => self.push(Node::List(Vec::new()))?,
                b'}' => self.push(Node::Dict(Vec::new()))?,
                b't' => {
                    let ids = self.until_mark()?;
                    self.push(Node::List(ids))?;
                }
                0x85..=0x87 => self.tuple(usize::from(opcode - 0x84))?,
                b'a' => {
                    let id = self.pop()?;
                    self.append(vec![id])?;
                }
                b'e' => {
                    let ids = self.until_mark()?;
                    self.append(ids)?;
                }
                b's' => {
                    let (value, key) = (self.pop()?, self.pop()?);
                    self.set(vec![(key, value)])?;
                }
                b'u' => {
                    let pairs = self.pairs_until_mark()?;
                    self.set(pairs)?;
                }
                b'q' | b'r' => {
                    let number = self.unsigned(if opcode == b'q' { 1 } else { 4 })?;
                    self.keep(number)?;
                }
                0x94 => self.keep(self.memo.len() as u64)?,
                b'h' | b'j' => {
                    let number = self.unsigned(if opcode == b'h' { 1 } else { 4 })?;
                    self.recall(number)?;
                }
                other => return Err(self.wrong(refused(other))),
            }
        }
    }
}

/// What is said of an opcode that a dump does not have.
fn refused(opcode: u8) -> String {
    let name = match opcode {
        b'c' => "GLOBAL",
        0x93 => "STACK_GLOBAL",
        b'R' => "REDUCE",
        b'b' => "BUILD",
        b'i' => "INST",
        b'o' => "OBJ",
        0x81 => "NEWOBJ",
        0x92 => "NEWOBJ_EX",
        b'P' | b'Q' => "PERSID",
        0x82..=0x84 => "EXT",
        _ => return format!("0x{opcode:02x} is no opcode that a dump has: is this a pickle?"),
    };
    format!("the opcode {name} would make or call something: only plain data is read")
}
