//! A function at work on a warp: its registers, and its memory in `.local` and `.param`.
use super::lanes::{LANES, Lanes, Mask};
use super::memory::Buffer;
use super::ready::{Bytes, Ready};
use super::registers::Registers;
use crate::module::{Function, Name, Room, Space};
use rustc_hash::FxHashMap;
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
    /// For each lane the next instruction to execute.
    pub at: Lanes<u32>,
    /// The lanes that have not left it.
    pub lanes: Mask,
    /// Those of them that are in a function that it has called.
    pub calling: Mask,
    /// The calling frame, and the call's number among those with parameters.
    pub caller: Option<(usize, Option<u32>)>,
    /// Depth of the call.
    pub depth: usize,
}

impl Frame {
    pub fn new(code: Arc<Ready>, registers: Registers, lanes: Mask, caller: Option<(usize, Option<u32>)>) -> Self {
        let memory = (code.own_bytes > 0).then(|| Buffer::new(code.own_bytes * LANES as u64, code.own_align));
        Self { code, registers, memory, at: [0; LANES], lanes, calling: 0, caller, depth: 0 }
    }

    /// The address of a byte of the frame's private memory in lane 0, and the distance from each lane to the next.
    pub fn own(&self, byte: i64) -> (u64, u64) {
        let base = self.memory.as_ref().map_or(0, |memory| memory.region().start);
        (base.wrapping_add_signed(byte), self.code.own_bytes)
    }
}

/// The places of a function's names in a lane's memory.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// The places of variables that the body declares, by number; `None` for those in other spaces.
    declared: Vec<Option<Bytes>>,
    /// The places of parameters and results.
    interface: FxHashMap<String, Bytes>,
    /// Bytes of a lane.
    pub bytes: u64,
    /// Each lane's address is a multiple of this number of bytes.
    pub align: u64,
}

impl Layout {
    /// The layout of a function's own memory, followed by the parameters and results that it is called with. A kernel's are elsewhere.
    pub fn of(function: &Function) -> Self {
        let range = |start: u64, bytes: u64| start..start + bytes;
        let own = function.memory.iter();
        let own = own.map(|of| (of.space != Space::Shared).then(|| range(of.offset, of.shape.bytes())));
        let mut room = Room { align: function.own.align.max(ALIGN), ..function.own };
        let signature = &function.signature;
        let interface = signature.parameters.iter().chain(&signature.results).filter(|_| !signature.is_kernel);
        let place = |of: &crate::module::Parameter| {
            let bytes = of.shape.bytes();
            (of.name.clone(), range(room.take(bytes, of.shape.align.into()), bytes))
        };
        let interface = interface.map(place).collect();
        Self { declared: own.collect(), interface, bytes: room.bytes.next_multiple_of(room.align), align: room.align }
    }

    pub fn bytes_of(&self, name: &Name) -> Option<Bytes> {
        match name {
            Name::Own(number) => self.declared.get(*number).cloned().flatten(),
            Name::Outer(name) => self.parameter(name),
        }
    }

    /// The bytes of a parameter or result.
    pub fn parameter(&self, name: &str) -> Option<Bytes> {
        self.interface.get(name).cloned()
    }
}
