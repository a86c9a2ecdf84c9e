//! A program that is ready to run on any device: its functions are made ready when they are first entered.
use super::fault::Fault;
use super::frame::Layout;
use super::handlers::{Plain, Vectors};
use super::lower::lower;
use super::ready::Ready;
use crate::error::Error;
use crate::link::{FunctionId, Program, VariableId};
use crate::module::Space;
use rustc_hash::FxHashMap;
use std::sync::{Arc, OnceLock};

/// Where the handles of functions begin: no memory of a host has such addresses.
const FUNCTIONS: u64 = 1 << 63;
/// The distance between two of them.
const STEP: u64 = 16;

/// What stands for the address of a function.
pub fn handle(function: FunctionId) -> u64 {
    FUNCTIONS + u64::from(function.0) * STEP
}

/// How a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether products and sums are fused, as ptxas does it.
    pub contracts: bool,
    /// The vector instructions to use; the processor must have them.
    pub vectors: Vectors,
}

impl Default for Options {
    /// Fused, with the best vectors that the processor has.
    fn default() -> Self {
        Self { contracts: true, vectors: Vectors::best() }
    }
}

/// A program that is ready to run.
#[derive(Debug)]
pub struct Executable {
    program: Arc<Program>,
    options: Options,
    functions: Vec<OnceLock<Result<Arc<Ready>, Error>>>,
    shared: OnceLock<Result<SharedMemory, Error>>,
}

/// Where variables in shared memory begin, and where all of them end.
#[derive(Clone, Debug, Default)]
struct SharedMemory {
    starts: FxHashMap<VariableId, u64>,
    end: u64,
}

impl Executable {
    /// Makes a program ready to run. Vectors that the processor does not have are replaced by the best that it has.
    pub fn new(program: Arc<Program>, mut options: Options) -> Arc<Self> {
        if !Vectors::available().contains(&options.vectors) {
            options.vectors = Vectors::best();
        }
        let functions = program.functions().map(|_| OnceLock::new()).collect();
        Arc::new(Self { program, options, functions, shared: OnceLock::new() })
    }

    /// Its program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Whether products and sums are fused.
    pub fn contracts(&self) -> bool {
        self.options.contracts
    }

    /// Whether every operation is executed from its description.
    pub fn one_by_one(&self) -> bool {
        self.options.vectors == Vectors::OneByOne
    }

    /// A function, made ready if it was not.
    ///
    /// # Errors
    ///
    /// Its text cannot be read.
    pub fn function(&self, id: FunctionId) -> Result<Arc<Ready>, Error> {
        let lowered = self.functions[id.0 as usize].get_or_init(|| self.lower(id).map(Arc::new));
        lowered.clone()
    }

    fn lower(&self, id: FunctionId) -> Result<Ready, Error> {
        match self.options.vectors {
            Vectors::OneByOne | Vectors::Plain => lower::<Plain>(self, id),
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx2 => lower::<super::handlers::Avx2>(self, id),
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx512 => lower::<super::handlers::Avx512>(self, id),
            #[cfg(not(target_arch = "x86_64"))]
            _ => lower::<Plain>(self, id),
        }
    }

    /// The function that an address stands for.
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

    /// Where the names of a function are in its own memory.
    ///
    /// # Errors
    ///
    /// Its text cannot be read.
    pub fn layout(&self, id: FunctionId) -> Result<Layout, Error> {
        let function = self.program.function(id)?;
        let signature = &function.signature;
        let own = if signature.is_kernel { &[][..] } else { &signature.parameters };
        let interface: Vec<_> = own.iter().chain(&signature.results).collect();
        Ok(Layout::of(&function.memory, &interface))
    }

    /// Where a kernel's parameter begins in the block of all of them.
    pub fn kernel_parameter(&self, id: FunctionId, name: &str) -> Option<u64> {
        let signature = &self.program.function(id).ok()?.signature;
        let of_kernel = signature.parameters.iter().filter(|_| signature.is_kernel);
        of_kernel.into_iter().find(|parameter| parameter.name == name).map(|parameter| parameter.offset)
    }

    fn shared(&self) -> Result<&SharedMemory, Error> {
        let layout = || {
            let mut layout = SharedMemory::default();
            for id in self.program.variables() {
                if self.program.space_of(id)? == Some(Space::Shared) {
                    let variable = self.program.variable(id)?;
                    let start = layout.end.next_multiple_of(u64::from(variable.shape.align.max(16)));
                    layout.starts.insert(id, start);
                    layout.end = start + variable.shape.bytes();
                }
            }
            layout.end = layout.end.next_multiple_of(16);
            Ok(layout)
        };
        self.shared.get_or_init(layout).as_ref().map_err(Clone::clone)
    }

    /// Where a variable begins in shared memory.
    ///
    /// # Errors
    ///
    /// A variable's declaration cannot be read.
    pub fn shared_start(&self, id: VariableId) -> Result<u64, Error> {
        Ok(self.shared()?.starts.get(&id).copied().unwrap_or(0))
    }

    /// Bytes of shared memory that all variables in it need together.
    ///
    /// # Errors
    ///
    /// A variable's declaration cannot be read.
    pub fn static_shared(&self) -> Result<u64, Error> {
        Ok(self.shared()?.end)
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
