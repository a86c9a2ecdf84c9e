//! A program on a device: its variables have memory there, and its functions are ready to run.
#![allow(unsafe_code)] // variables are mapped for kernels

use super::fault::Fault;
use super::frame::{Frame, Layout};
use super::lanes::{Code, Mask};
use super::memory::{Buffer, Memory};
use crate::code::{Body, Slots, contract};
use crate::error::Error;
use crate::link::{FunctionId, Program, Symbol, VariableId};
use crate::module::{Space, Value, Variable};
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where the handles of functions begin: no memory of a host has such addresses.
const FUNCTIONS: u64 = 1 << 63;
/// The distance between two of them.
const STEP: u64 = 16;

/// A program on one device.
#[derive(Debug)]
pub struct Image {
    program: Arc<Program>,
    memory: Arc<Memory>,
    /// Whether products and sums are fused.
    contracts: bool,
    placed: Mutex<Placed>,
    time: AtomicU64,
}

#[derive(Debug, Default)]
struct Placed {
    functions: FxHashMap<FunctionId, (Arc<Code>, Layout)>,
    variables: FxHashMap<VariableId, Buffer>,
    /// Where variables in shared memory begin, and the end of all of them.
    shared: FxHashMap<VariableId, u64>,
    shared_end: u64,
}

impl Image {
    /// Puts a program on a device with this memory. Products and sums are fused as ptxas does it if `contracts` is true.
    pub fn new(program: Arc<Program>, memory: Arc<Memory>, contracts: bool) -> Self {
        Self { program, memory, contracts, placed: Mutex::default(), time: AtomicU64::new(0) }
    }

    /// Its program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The memory of its device.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    fn placed(&self) -> MutexGuard<'_, Placed> {
        self.placed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that only rises.
    pub fn time(&self) -> u64 {
        self.time.fetch_add(1, Ordering::Relaxed)
    }

    /// The address and the bytes of a variable that all units can see.
    ///
    /// # Errors
    ///
    /// Its declaration cannot be read.
    pub fn variable(&self, name: &str) -> Result<Option<(u64, u64)>, Error> {
        let Some(id) = self.program.variable_named(name) else { return Ok(None) };
        let bytes = self.program.variable(id)?.shape.bytes();
        Ok(self.place(&mut self.placed(), id)?.map(|address| (address, bytes)))
    }

    /// Puts a variable into memory, if it is not there yet; gives its address in its space.
    fn place(&self, placed: &mut Placed, id: VariableId) -> Result<Option<u64>, Error> {
        let variable = self.program.variable(id)?;
        if variable.space == Space::Shared {
            if let Some(start) = placed.shared.get(&id) {
                return Ok(Some(*start));
            }
            let start = placed.shared_end.next_multiple_of(u64::from(variable.shape.align.max(16)));
            placed.shared_end = start + variable.shape.bytes();
            placed.shared.insert(id, start);
            return Ok(Some(start));
        }
        if let Some(buffer) = placed.variables.get(&id) {
            return Ok(Some(buffer.region().start));
        }
        let buffer = Buffer::new(variable.shape.bytes().max(1));
        let start = buffer.region().start;
        // SAFETY: the image keeps it as long as any launch of its kernels lasts.
        unsafe { buffer.map_in(&self.memory) };
        placed.variables.insert(id, buffer);
        self.fill(placed, id, variable)?;
        Ok(Some(start))
    }

    /// Writes a variable's initial value. It is in its place before that, since values may be addresses of each other.
    fn fill(&self, placed: &mut Placed, id: VariableId, variable: &Variable) -> Result<(), Error> {
        let size = variable.shape.ty.bytes() as usize;
        for (at, value) in variable.values.iter().enumerate() {
            let bits = match value {
                Value::Bits(bits) => *bits,
                Value::Address(name, offset) => {
                    let unit = self.program.unit_of_variable(id);
                    let address = match self.program.resolve(unit, name) {
                        Some(Symbol::Function(function)) => Some(handle(function)),
                        Some(Symbol::Variable(other)) => self.place(placed, other)?,
                        _ => None,
                    };
                    address.unwrap_or(0).wrapping_add_signed(*offset)
                }
            };
            if let Some(buffer) = placed.variables.get(&id) {
                buffer.write((at * size) as u64, &bits.to_le_bytes()[..size.min(8)]);
            }
        }
        Ok(())
    }

    /// The address in its space that a name has in a function; `static_shared` bytes of shared memory come before what the launch asks for.
    pub fn address(&self, function: FunctionId, name: &str, static_shared: u64) -> Option<u64> {
        match self.program.resolve(self.program.unit_of(function), name)? {
            Symbol::Function(id) => Some(handle(id)),
            Symbol::Variable(id) => self.place(&mut self.placed(), id).ok().flatten(),
            Symbol::DynamicShared => Some(static_shared),
        }
    }

    /// Bytes of shared memory that all variables in it need, of those that some kernel has named so far or can name.
    ///
    /// # Errors
    ///
    /// A variable's declaration cannot be read.
    pub fn static_shared(&self) -> Result<u64, Error> {
        let mut placed = self.placed();
        for id in self.program.variables() {
            if self.program.variable(id)?.space == Space::Shared {
                self.place(&mut placed, id)?;
            }
        }
        Ok(placed.shared_end.next_multiple_of(16))
    }

    /// A frame for the function with this handle.
    ///
    /// # Errors
    ///
    /// It is no function's handle, or the function cannot be read.
    pub fn enter(&self, address: u64, lanes: Mask) -> Result<Frame, Fault> {
        let number = address.wrapping_sub(FUNCTIONS);
        let id = self.program.function_id(number / STEP).filter(|_| number.is_multiple_of(STEP));
        let id = id.ok_or_else(|| Fault::Launch(format!("{address:#x} is not the address of a function")))?;
        self.frame(id, lanes)
    }

    /// A frame for a function.
    ///
    /// # Errors
    ///
    /// The function cannot be read.
    pub fn frame(&self, id: FunctionId, lanes: Mask) -> Result<Frame, Fault> {
        if let Some((code, layout)) = self.placed().functions.get(&id) {
            return Ok(Frame::new(id, code.clone(), layout, lanes));
        }
        let function = self.program.function(id)?;
        let mut body = Body::of(self.program.unit(self.program.unit_of(id)), function);
        if self.contracts {
            contract(&mut body);
        }
        let slots = Slots::of(&body);
        let own = if function.signature.is_kernel { &[][..] } else { &function.signature.parameters };
        let parameters: Vec<_> = own.iter().chain(&function.signature.results).collect();
        let layout = Layout::of(&function.memory, &parameters);
        let code = Arc::new(Code { body, slots });
        self.placed().functions.insert(id, (code.clone(), layout.clone()));
        Ok(Frame::new(id, code, &layout, lanes))
    }

    /// `function, unit:line:column: text` of an operation.
    pub fn describe(&self, id: FunctionId, at: usize) -> String {
        let Ok(function) = self.program.function(id) else { return String::new() };
        let unit = self.program.unit(self.program.unit_of(id));
        let Some(instruction) = function.instructions.get(at) else {
            return format!("the end of {}", function.signature.name);
        };
        let at = instruction.opcode.start as usize;
        format!("{}, {}: {}", function.signature.name, unit.place(at), unit.line(at))
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        for buffer in self.placed().variables.values() {
            self.memory.unmap(buffer.region().start);
        }
    }
}

/// What stands for the address of a function.
fn handle(function: FunctionId) -> u64 {
    FUNCTIONS + u64::from(function.0) * STEP
}
