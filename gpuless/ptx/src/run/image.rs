//! A program on a device: its variables have memory there.
#![allow(unsafe_code)] // variables are mapped for kernels

use super::executable::{Executable, handle};
use super::memory::{Buffer, Memory};
use crate::error::Error;
use crate::link::{Symbol, VariableId};
use crate::module::{Space, Value};
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most bytes of all variables on a device.
const MOST_BYTES: u64 = 1 << 30;

/// Variables that have memory.
#[derive(Debug, Default)]
struct Placed {
    buffers: FxHashMap<VariableId, Buffer>,
    /// The bytes of all of them.
    bytes: u64,
}

/// A program on one device.
#[derive(Debug)]
pub struct Image {
    executable: Arc<Executable>,
    memory: Arc<Memory>,
    variables: Mutex<Placed>,
    time: AtomicU64,
}

impl Image {
    /// Puts a program on a device with this memory.
    pub fn new(executable: Arc<Executable>, memory: Arc<Memory>) -> Self {
        Self { executable, memory, variables: Mutex::default(), time: AtomicU64::new(0) }
    }

    /// The executable of the image's program.
    pub fn executable(&self) -> &Executable {
        &self.executable
    }

    /// The memory of its device.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// A number that only rises.
    pub fn time(&self) -> u64 {
        self.time.fetch_add(1, Ordering::Relaxed)
    }

    fn placed(&self) -> MutexGuard<'_, Placed> {
        self.variables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address and the bytes of a variable that all units can see.
    ///
    /// # Errors
    ///
    /// Its declaration cannot be read.
    pub fn variable(&self, name: &str) -> Result<Option<(u64, u64)>, Error> {
        let program = self.executable.program();
        let Some(id) = program.variable_named(name) else { return Ok(None) };
        let bytes = program.variable(id)?.shape.bytes();
        Ok(Some((self.address(id)?, bytes)))
    }

    /// The address of a variable in its space.
    ///
    /// # Errors
    ///
    /// Its declaration cannot be read.
    pub fn address(&self, id: VariableId) -> Result<u64, Error> {
        self.place(&mut self.placed(), id)
    }

    /// True for the address of a byte of a variable in `.const`.
    pub fn is_constant(&self, address: u64) -> bool {
        let placed = self.placed();
        let mut holding = placed.buffers.iter().filter(|(_, buffer)| {
            let region = buffer.region();
            (region.start..region.end).contains(&address)
        });
        holding.any(|(id, _)| self.executable.program().space_of(*id) == Ok(Some(Space::Const)))
    }

    /// Puts a variable into memory, if it is not there yet, and those whose addresses it holds.
    fn place(&self, placed: &mut Placed, id: VariableId) -> Result<u64, Error> {
        let mut new = Vec::new();
        let mut put = || {
            let start = self.reserve(placed, id, &mut new)?;
            let mut filled = 0;
            while let Some(id) = new.get(filled).copied() {
                filled += 1;
                self.fill(placed, id, &mut new)?;
            }
            Ok(start)
        };
        let start = put();
        if start.is_err() {
            // Buffers that are not filled must not be found by later requests.
            for buffer in new.iter().filter_map(|id| placed.buffers.remove(id)) {
                placed.bytes -= bytes_of(&buffer);
                self.memory.unmap(buffer.region().start);
            }
        }
        start
    }

    /// Memory for a variable, which has to be filled if it is new.
    fn reserve(&self, placed: &mut Placed, id: VariableId, new: &mut Vec<VariableId>) -> Result<u64, Error> {
        let variable = self.executable.program().variable(id)?;
        if variable.space == Space::Shared {
            // Only kernels know it, each its own (PTX ISA, 5.4.4).
            let what = format!("the address of `{}` in shared memory is not a constant", variable.name);
            return Err(self.executable.program().variable_error(id, what));
        }
        if let Some(buffer) = placed.buffers.get(&id) {
            return Ok(buffer.region().start);
        }
        let bytes = variable.shape.bytes().max(1);
        if placed.bytes.saturating_add(bytes) > MOST_BYTES {
            return Err(self
                .executable
                .program()
                .variable_error(id, format!("all variables together need more than {MOST_BYTES} bytes")));
        }
        let buffer = Buffer::new(bytes, variable.shape.align.into());
        let start = buffer.region().start;
        // SAFETY: the image keeps it as long as any launch of its kernels lasts.
        unsafe { buffer.map_in(&self.memory) };
        placed.bytes += bytes_of(&buffer);
        placed.buffers.insert(id, buffer);
        new.push(id);
        Ok(start)
    }

    /// Writes a variable's initial value.
    fn fill(&self, placed: &mut Placed, id: VariableId, new: &mut Vec<VariableId>) -> Result<(), Error> {
        let program = self.executable.program();
        let variable = program.variable(id)?;
        let size = variable.shape.ty.bytes() as usize;
        for (at, value) in variable.values.iter().enumerate() {
            let bits = match value {
                Value::Bits(bits) => *bits,
                Value::Address(name, offset) => {
                    let address = match program.resolve(program.unit_of_variable(id), name) {
                        Some(Symbol::Function(function)) => handle(function),
                        Some(Symbol::Variable(other)) => self.reserve(placed, other, new)?,
                        _ if program.is_weak(program.unit_of_variable(id), name) => 0,
                        _ => {
                            return Err(program
                                .variable_error(id, format!("its value names `{name}`, which is defined nowhere")));
                        }
                    };
                    address.wrapping_add_signed(*offset)
                }
            };
            if let Some(buffer) = placed.buffers.get(&id) {
                buffer.write((at * size) as u64, &bits.to_le_bytes()[..size.min(8)]);
            }
        }
        Ok(())
    }
}

fn bytes_of(buffer: &Buffer) -> u64 {
    buffer.region().end - buffer.region().start
}

impl Drop for Image {
    fn drop(&mut self) {
        for buffer in self.placed().buffers.values() {
            self.memory.unmap(buffer.region().start);
        }
    }
}
