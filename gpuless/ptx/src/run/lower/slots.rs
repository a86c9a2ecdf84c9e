//! The places of values: registers in their slots, and constants in slots after them.
use super::Refusal;
use crate::code::{Slots, Source, Width};
use crate::link::{FunctionId, SharedMemory, Symbol};
use crate::module::{Declared, Function, Name, RegisterId, Space};
use crate::run::executable::{Executable, handle};
use crate::run::frame::Layout;
use crate::run::lanes::LANES;
use crate::run::ready::{Constant, Known};
use crate::run::registers::Slot;
use rustc_hash::FxHashMap;

/// The slots of a function.
pub struct Places<'a> {
    executable: &'a Executable,
    function: FunctionId,
    layout: &'a Layout,
    declared: &'a [Declared],
    slots: Slots,
    widths: Vec<Width>,
    /// The constants, sorted by width so that each is aligned to its width.
    constants: Vec<(Known, Width)>,
    numbers: FxHashMap<(Known, Width), u32>,
    wide: u32,
}

/// Every constant has the same number of bytes for a lane, so that slots are known before all constants are.
const CONSTANT_BYTES: u32 = 8;

impl<'a> Places<'a> {
    pub fn new(
        executable: &'a Executable,
        function: FunctionId,
        of: &'a Function,
        slots: Slots,
        layout: &'a Layout,
    ) -> Self {
        let wide = slots.bytes.next_multiple_of(CONSTANT_BYTES * 2);
        let widths = of.registers.iter().map(|ty| Width::of(*ty)).collect();
        let (constants, numbers) = (Vec::new(), FxHashMap::default());
        Self { executable, function, layout, declared: &of.memory, slots, widths, constants, numbers, wide }
    }

    /// The constants, and the bytes of registers and constants together.
    pub fn finish(self) -> (Vec<Constant>, u32) {
        let slot = |number: usize| (self.wide + number as u32 * CONSTANT_BYTES) * LANES as u32;
        let constants = self.constants.iter().enumerate();
        let constants: Vec<Constant> = constants
            .map(|(number, (known, width))| Constant { slot: slot(number), width: *width, known: *known })
            .collect();
        let bytes = self.wide + constants.len() as u32 * CONSTANT_BYTES;
        (constants, bytes)
    }

    pub fn register(&self, register: RegisterId) -> Slot {
        self.slots.of_register.get(register.0 as usize).copied().flatten().unwrap_or(0) * LANES as u32
    }

    pub fn width(&self, register: RegisterId) -> Width {
        self.widths.get(register.0 as usize).copied().unwrap_or(Width::W32)
    }

    pub fn place_of(&self, register: RegisterId) -> (Slot, Width) {
        (self.register(register), self.width(register))
    }

    pub fn target(&self, to: Option<RegisterId>) -> Option<Slot> {
        to.map(|to| self.register(to))
    }

    /// The slot of a source with the width that an instruction's handler expects.
    pub fn source(&mut self, source: &Source, width: Width) -> Result<Slot, Refusal> {
        match source {
            Source::Register(register) if self.width(*register) == width => Ok(self.register(*register)),
            Source::Register(register) => {
                let bits = (self.width(*register).bits(), width.bits());
                Err(format!("a register of {} bits where {} are expected", bits.0, bits.1))
            }
            _ if width == Width::W128 => Err("a constant of 128 bits".into()),
            Source::Constant(_) | Source::Symbol(..) => {
                let known = self.known(source)?;
                Ok(self.constant(known, width))
            }
        }
    }

    /// True if a source has this width, or can have any width.
    pub fn fits(&self, source: &Source, width: Width) -> bool {
        match source {
            Source::Register(register) => self.width(*register) == width,
            // Their slots have less room.
            _ => width != Width::W128,
        }
    }

    pub fn predicate(&mut self, source: &Source) -> Result<Slot, Refusal> {
        self.source(source, Width::Predicate)
    }

    /// The slot of a source with the width that it has there.
    pub fn described(&mut self, source: &Source) -> Result<(Slot, Width), Refusal> {
        match source {
            Source::Register(register) => Ok(self.place_of(*register)),
            _ => {
                let known = self.known(source)?;
                Ok((self.constant(known, Width::W64), Width::W64))
            }
        }
    }

    pub fn constant(&mut self, known: Known, width: Width) -> Slot {
        let next = self.constants.len() as u32;
        let number = *self.numbers.entry((known, width)).or_insert(next);
        if number == next {
            self.constants.push((known, width));
        }
        (self.wide + number * CONSTANT_BYTES) * LANES as u32
    }

    /// The value of a constant or symbol.
    pub fn known(&self, source: &Source) -> Result<Known, Refusal> {
        match source {
            Source::Register(_) => Err("a register is not a constant: this is a bug".into()),
            Source::Constant(bits) => Ok(Known::Bits(*bits)),
            Source::Symbol(name, offset) => self.symbol(name, *offset),
        }
    }

    /// The address of a name in its space, plus an offset in bytes.
    pub fn symbol(&self, name: &Name, offset: i64) -> Result<Known, Refusal> {
        if let Some(bytes) = self.layout.bytes_of(name) {
            return Ok(Known::Own((bytes.start as i64).wrapping_add(offset)));
        }
        let name = match name {
            Name::Own(number) => {
                let start = self.declared.get(*number).map_or(0, |declared| declared.offset as i64);
                return Ok(Known::Shared(SharedMemory::Own(self.function), start.wrapping_add(offset)));
            }
            Name::Outer(name) => name,
        };
        let program = self.executable.program();
        if let Some(start) = self.executable.kernel_parameter(self.function, name) {
            return Ok(Known::Parameter((start as i64).wrapping_add(offset)));
        }
        match program.resolve(program.unit_of(self.function), name) {
            Some(Symbol::Function(id)) => Ok(Known::Bits(handle(id).wrapping_add_signed(offset))),
            Some(Symbol::DynamicShared) => Ok(Known::DynamicShared(offset)),
            Some(Symbol::Variable(id)) => match program.space_of(id).map_err(|error| error.to_string())? {
                Some(Space::Shared) => Ok(Known::Shared(SharedMemory::Variable(id), offset)),
                _ => Ok(Known::Variable(id, offset)),
            },
            None => Err(format!("`{name}` is defined nowhere")),
        }
    }

    /// The reason a call cannot use a name as parameter or result.
    pub fn no_parameter(&self, name: &Name) -> Refusal {
        match name {
            Name::Own(number) => {
                let name = self.declared.get(*number).map_or("", |declared| declared.name.as_str());
                format!("a call has no parameter in shared memory, as `{name}` is")
            }
            Name::Outer(name) => format!("`{name}` is defined nowhere"),
        }
    }
}
