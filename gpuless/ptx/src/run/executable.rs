//! A program that is ready to run on any device: its functions are prepared when they are first entered.
use super::altered::{Alteration, Altered};
use super::fault::Fault;
use super::handlers::{Plain, Vectors, control};
use super::lower::lower;
use super::ready::{Notes, Ready};
use crate::code::Change;
use crate::error::Error;
use crate::link::{FunctionId, Program, SharedMemory};
use crate::module::Room;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Handles of functions start here: host memory never has such addresses.
const FUNCTIONS: u64 = 1 << 63;
/// The distance between two of them.
const STEP: u64 = 16;

/// The handle that serves as the address of a function.
pub fn handle(function: FunctionId) -> u64 {
    FUNCTIONS + u64::from(function.0) * STEP
}

/// How a switch adds numbers that several devices hold. The PTX ISA leaves the order open, and the precision above a least one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SwitchSum {
    /// From the first device to the last, in the least precision.
    #[default]
    InOrder,
    /// From the last device to the first, in the least precision.
    Reversed,
    /// In double precision, rounded once.
    Wide,
}

impl std::str::FromStr for SwitchSum {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "in-order" => Ok(Self::InOrder),
            "reversed" => Ok(Self::Reversed),
            "wide" => Ok(Self::Wide),
            _ => Err("expected in-order, reversed or wide".to_owned()),
        }
    }
}

/// Options for running a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// True if products and sums are fused, as ptxas does.
    pub contracts: bool,
    /// The vector instructions to use; the processor must have them.
    pub vectors: Vectors,
    /// How loads of multicast memory add.
    pub switch_sum: SwitchSum,
}

impl Default for Options {
    /// Fused, with the best vectors that the processor has.
    fn default() -> Self {
        Self { contracts: true, vectors: Vectors::best(), switch_sum: SwitchSum::default() }
    }
}

/// A program that is ready to run.
#[derive(Debug)]
pub struct Executable {
    program: Arc<Program>,
    options: Options,
    functions: Vec<OnceLock<Result<Arc<Ready>, Error>>>,
    altered: Altered<Ready>,
    /// The layouts of kernels' shared memory, as far as they were needed.
    shared: Mutex<FxHashMap<FunctionId, Arc<SharedLayout>>>,
}

/// The layout of the shared memory that a kernel uses, within that of a block.
#[derive(Debug, Default)]
pub struct SharedLayout {
    /// The offset of each variable.
    pub starts: FxHashMap<SharedMemory, u64>,
    /// The size and alignment of all variables.
    pub room: Room,
}

impl Executable {
    /// Makes a program ready to run. Unavailable vector instructions are replaced by the best ones that the processor has.
    pub fn new(program: Arc<Program>, mut options: Options) -> Arc<Self> {
        if !Vectors::available().contains(&options.vectors) {
            options.vectors = Vectors::best();
        }
        let functions = program.functions().map(|_| OnceLock::new()).collect();
        Arc::new(Self { program, options, functions, altered: Altered::default(), shared: Mutex::default() })
    }

    /// The program that is run.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// True if products and sums are fused.
    pub fn contracts(&self) -> bool {
        self.options.contracts
    }

    /// How loads of multicast memory add.
    pub fn switch_sum(&self) -> SwitchSum {
        self.options.switch_sum
    }

    /// True if every operation is executed from its description.
    pub fn one_by_one(&self) -> bool {
        self.options.vectors == Vectors::OneByOne
    }

    /// A function, which is prepared if it was not yet.
    ///
    /// # Errors
    ///
    /// Its text cannot be read.
    pub fn function(&self, id: FunctionId) -> Result<Arc<Ready>, Error> {
        if let Some(altered) = self.altered.function(id, |alteration| self.alter_function(id, alteration)) {
            return altered;
        }
        let lowered = self.functions[id.0 as usize].get_or_init(|| self.lower(id, None).map(Arc::new));
        lowered.clone()
    }

    /// From now on functions that are entered are altered like this, or as their text says. No kernel of the program may be at work.
    pub fn alter(&self, alteration: Option<Alteration>) {
        self.altered.set(alteration);
    }

    fn alter_function(&self, id: FunctionId, alteration: Alteration) -> Result<Ready, Error> {
        match alteration {
            Alteration::Mutated(mutation) => self.lower(id, Some((mutation.operation, mutation.change))),
            Alteration::Noted => {
                let mut ready = self.lower(id, None)?;
                Notes::take_over(&mut ready, control::noted);
                Ok(ready)
            }
        }
    }

    /// The numbers of the operations that were executed since this is noted, by function.
    pub fn noted(&self) -> Vec<(FunctionId, Vec<u32>)> {
        let operations = |ready: &Ready| Some(ready.notes.as_ref()?.operations(&ready.operation_of));
        self.altered.entered().into_iter().filter_map(|(id, ready)| Some((id, operations(&ready)?))).collect()
    }

    /// Prepares a function, with a change of one operation if there is one.
    fn lower(&self, id: FunctionId, change: Option<(u32, Change)>) -> Result<Ready, Error> {
        match self.options.vectors {
            Vectors::OneByOne | Vectors::Plain => lower::<Plain>(self, id, change),
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx2 => lower::<super::handlers::Avx2>(self, id, change),
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx512 => lower::<super::handlers::Avx512>(self, id, change),
            #[cfg(not(target_arch = "x86_64"))]
            _ => lower::<Plain>(self, id, change),
        }
    }

    /// The function whose handle this address is.
    ///
    /// # Errors
    ///
    /// The address does not belong to a function, or the function cannot be read.
    pub fn function_at(&self, address: u64) -> Result<Arc<Ready>, Fault> {
        let number = address.wrapping_sub(FUNCTIONS);
        let id = self.program.function_id(number / STEP).filter(|_| number.is_multiple_of(STEP));
        let id = id.ok_or_else(|| Fault::Launch(format!("{address:#x} is not the address of a function")))?;
        Ok(self.function(id)?)
    }

    /// The offset of a kernel's parameter in the block of all parameters.
    pub fn kernel_parameter(&self, id: FunctionId, name: &str) -> Option<u64> {
        let signature = &self.program.function(id).ok()?.signature;
        let of_kernel = signature.parameters.iter().filter(|_| signature.is_kernel);
        of_kernel.into_iter().find(|parameter| parameter.name == name).map(|parameter| parameter.offset)
    }

    /// The layout of the shared memory that a kernel uses.
    ///
    /// # Errors
    ///
    /// A variable's declaration cannot be read.
    pub fn shared(&self, kernel: FunctionId) -> Result<Arc<SharedLayout>, Error> {
        let mut known = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(layout) = known.get(&kernel) {
            return Ok(layout.clone());
        }
        let mut layout = SharedLayout::default();
        for memory in self.program.shared_memory(kernel)? {
            let (bytes, align) = match memory {
                SharedMemory::Variable(id) => {
                    let shape = self.program.variable(id)?.shape;
                    (shape.bytes(), shape.align.into())
                }
                SharedMemory::Own(id) => {
                    let room = self.program.function(id)?.shared;
                    (room.bytes, room.align)
                }
            };
            layout.starts.insert(memory, layout.room.take(bytes, align));
        }
        Ok(known.entry(kernel).or_insert(Arc::new(layout)).clone())
    }

    /// Bytes of shared memory that a block of a kernel needs, besides those that a launch asks for.
    ///
    /// # Errors
    ///
    /// A variable's declaration cannot be read.
    pub fn static_shared(&self, kernel: FunctionId) -> Result<u64, Error> {
        Ok(self.shared(kernel)?.room.bytes)
    }

    /// `function, unit:line:column: text` of an operation.
    pub fn describe(&self, id: FunctionId, operation: usize) -> String {
        let Ok(function) = self.program.function(id) else { return String::new() };
        let unit = self.program.unit(self.program.unit_of(id));
        let Some(instruction) = function.instructions.get(operation) else {
            return format!("the end of {}", function.signature.name);
        };
        let at = instruction.opcode.start as usize;
        format!("{}, {}: {}", function.signature.name, unit.place(at), unit.line(at))
    }
}
