//! A function at work on a warp: its registers, and its memory in `.local` and `.param`.
use super::lanes::{Code, LANES, Lanes, Registers};
use super::memory::Buffer;
use crate::link::FunctionId;
use crate::module::{Parameter, Space, Variable};
use std::sync::Arc;

/// Bytes to which a lane's memory is aligned.
const ALIGN: u64 = 16;

/// A function at work on a warp.
#[derive(Debug)]
pub struct Frame {
    pub function: FunctionId,
    pub code: Arc<Code>,
    pub registers: Registers,
    /// The frame that called it, and the operation after the call.
    pub caller: Option<(usize, usize)>,
    pub depth: usize,
    /// The lanes that have not left it.
    pub lanes: u32,
    pub memory: Buffer,
    /// Bytes of one lane.
    stride: u64,
    /// Names in it, with the byte of a lane at which each begins.
    names: Arc<Vec<(String, u64)>>,
}

/// Where the names of a function are in a lane's memory.
#[derive(Clone, Debug)]
pub struct Layout {
    pub names: Arc<Vec<(String, u64)>>,
    pub stride: u64,
}

impl Layout {
    /// Of a function's own memory, and of the parameters and results that it is called with.
    pub fn of(memory: &[Variable], parameters: &[&Parameter]) -> Self {
        let mut names = Vec::new();
        let mut end = 0u64;
        let mut place = |name: &str, align: u32, bytes: u64| {
            let start = end.next_multiple_of(u64::from(align.max(1)));
            names.push((name.to_owned(), start));
            end = start + bytes;
        };
        for parameter in parameters {
            place(&parameter.name, parameter.shape.align, parameter.shape.bytes());
        }
        for variable in memory.iter().filter(|variable| matches!(variable.space, Space::Local | Space::Param)) {
            place(&variable.name, variable.shape.align, variable.shape.bytes());
        }
        Self { names: Arc::new(names), stride: end.next_multiple_of(ALIGN) }
    }
}

impl Frame {
    pub fn new(function: FunctionId, code: Arc<Code>, layout: &Layout, lanes: u32) -> Self {
        let registers = Registers::of(&code.slots);
        let (names, stride) = (layout.names.clone(), layout.stride);
        let memory = Buffer::new(stride * LANES as u64);
        Self { function, code, registers, caller: None, depth: 0, lanes, memory, stride, names }
    }

    /// The address of a name in each lane.
    pub fn address_of(&self, name: &str) -> Option<Lanes<u64>> {
        // An inner name hides outer ones: the last one counts.
        let (_, start) = self.names.iter().rev().find(|(known, _)| known == name)?;
        let base = self.memory.region().start + start;
        Some(std::array::from_fn(|lane| base + self.stride * lane as u64))
    }
}
