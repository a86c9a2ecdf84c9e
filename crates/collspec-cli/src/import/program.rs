//! The programs of all ranks: numbers of units, each of which is kept once.
use super::call::Unit;
use std::collections::HashMap;

/// What a rank makes at a place of its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// The index of the unit.
    pub unit: u32,
    /// The place in the program as it was read.
    pub at: u32,
    /// True if it is known to have been completed.
    pub done: bool,
}

/// The programs by world rank; ranks without a log or dump have none.
pub type Programs = Vec<Option<Vec<Item>>>;

/// Different units.
#[derive(Clone, Debug, Default)]
pub struct Units {
    list: Vec<Unit>,
    index: HashMap<Unit, u32>,
}

impl Units {
    /// The unit's index, which is a new one for a unit that is not known yet.
    pub fn index(&mut self, unit: Unit) -> u32 {
        let next = self.list.len() as u32;
        let index = *self.index.entry(unit.clone()).or_insert(next);
        if index == next {
            self.list.push(unit);
        }
        index
    }

    pub fn all(&self) -> &[Unit] {
        &self.list
    }
}

impl std::ops::Index<u32> for Units {
    type Output = Unit;

    fn index(&self, index: u32) -> &Unit {
        &self.list[index as usize]
    }
}
