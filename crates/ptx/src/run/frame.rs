//! A function at work on a warp: its registers, and its memory in `.local` and `.param`.
use super::lanes::{LANES, Lanes, Mask};
use super::memory::Buffer;
use super::ready::{Bytes, Ready};
use super::registers::Registers;
use crate::module::{Parameter, Space, Variable};
use std::sync::Arc;

/// Bytes to which a lane's memory is aligned.
const ALIGN: u64 = 16;

/// A function at work on a warp.
#[derive(Debug)]
pub struct Frame {
    pub code: Arc<Ready>,
    pub registers: Registers,
    /// Its own memory: that of lane 0, then that of lane 1, and so on.
    pub memory: Option<Buffer>,
    /// For each lane the instruction that it executes next.
    pub at: Lanes<u32>,
    /// The lanes that have not left it.
    pub lanes: Mask,
    /// Those of them that are in a function that it has called.
    pub calling: Mask,
    /// The frame that called it, and its call's number among those with parameters.
    pub caller: Option<(usize, Option<u32>)>,
}

impl Frame {
    pub fn new(code: Arc<Ready>, registers: Registers, lanes: Mask, caller: Option<(usize, Option<u32>)>) -> Self {
        let memory = (code.own_bytes > 0).then(|| Buffer::new(code.own_bytes * LANES as u64));
        Self { code, registers, memory, at: [0; LANES], lanes, calling: 0, caller }
    }

    /// The address of a byte of the frame's private memory in lane 0, and the distance from each lane to the next.
    pub fn own(&self, byte: i64) -> (u64, u64) {
        let base = self.memory.as_ref().map_or(0, |memory| memory.region().start);
        (base.wrapping_add_signed(byte), self.code.own_bytes)
    }
}

/// Where the names of a function are in a lane's memory.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    names: Vec<(String, Bytes)>,
    /// Bytes of a lane.
    pub bytes: u64,
}

impl Layout {
    /// Of a function's own memory, and of the parameters and results that it is called with. Names that repeat in
    /// inner scopes share their bytes: only one of them is in use at a time.
    pub fn of(memory: &[Variable], interface: &[&Parameter]) -> Self {
        let mut wanted: Vec<(&str, u64, u64)> = Vec::new();
        let own = memory.iter().filter(|variable| matches!(variable.space, Space::Local | Space::Param));
        let shapes = interface.iter().map(|parameter| (parameter.name.as_str(), parameter.shape));
        for (name, shape) in shapes.chain(own.map(|variable| (variable.name.as_str(), variable.shape))) {
            let (align, bytes) = (u64::from(shape.align.max(1)), shape.bytes());
            match wanted.iter_mut().find(|(known, ..)| *known == name) {
                Some((_, most_align, most)) => (*most_align, *most) = (align.max(*most_align), bytes.max(*most)),
                None => wanted.push((name, align, bytes)),
            }
        }
        let mut layout = Self::default();
        for (name, align, bytes) in wanted {
            let start = layout.bytes.next_multiple_of(align);
            layout.names.push((name.to_owned(), start..start + bytes));
            layout.bytes = start + bytes;
        }
        layout.bytes = layout.bytes.next_multiple_of(ALIGN);
        layout
    }

    /// The bytes of a name.
    pub fn bytes_of(&self, name: &str) -> Option<Bytes> {
        self.names.iter().find(|(known, _)| known == name).map(|(_, bytes)| bytes.clone())
    }
}
