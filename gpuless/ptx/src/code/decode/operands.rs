//! Operands converted to the form that an instruction requires.
use super::super::op::{Address, AddressBase, Source, Width};
use super::Refusal;
use crate::module::{Base, Operand, RegisterId, Space, Type};

/// The operands of an instruction, and the types of its function's registers.
pub struct Operands<'a> {
    pub registers: &'a [Type],
    pub all: &'a [Operand],
}

impl<'a> Operands<'a> {
    /// Checks the number of operands.
    pub fn count(&self, count: usize) -> Result<(), Refusal> {
        if self.all.len() == count {
            return Ok(());
        }
        Err(format!("{count} operands are expected, not {}", self.all.len()))
    }

    pub fn get(&self, at: usize) -> Result<&'a Operand, Refusal> {
        self.all.get(at).ok_or_else(|| format!("operand {} is missing", at + 1))
    }

    fn width_of(&self, register: RegisterId) -> Width {
        self.registers.get(register.0 as usize).map_or(Width::Predicate, |ty| Width::of(*ty))
    }

    /// A register of this width that is written.
    pub fn target(&self, operand: &Operand, width: Width) -> Result<Option<RegisterId>, Refusal> {
        match operand {
            Operand::Unused => Ok(None),
            Operand::Register(register) if self.width_of(*register) == width => Ok(Some(*register)),
            Operand::Register(register) => Err(self.wrong_width(*register, width)),
            _ => Err("the result needs a register".into()),
        }
    }

    pub fn to(&self, at: usize, width: Width) -> Result<Option<RegisterId>, Refusal> {
        self.target(self.get(at)?, width)
    }

    /// The width of the register at this place.
    pub fn register_width(&self, at: usize) -> Result<Width, Refusal> {
        match self.get(at)? {
            Operand::Register(register) => Ok(self.width_of(*register)),
            _ => Err(format!("operand {} must be a register", at + 1)),
        }
    }

    fn wrong_width(&self, register: RegisterId, width: Width) -> Refusal {
        let is = self.width_of(register).bits();
        format!("a register of {} bits stands where one of {} is expected", is, width.bits())
    }

    /// An operand that is read, as bits of this type.
    pub fn source(&self, operand: &Operand, ty: Type) -> Result<Source, Refusal> {
        let width = Width::of(ty);
        Ok(match operand {
            Operand::Register(register) if self.width_of(*register) == width => Source::Register(*register),
            Operand::Register(register) => return Err(self.wrong_width(*register, width)),
            Operand::Whole(bits) => Source::Constant(cut(*bits, width)),
            Operand::Single(bits) if ty == Type::F64 => Source::Constant(f64::from(f32::from_bits(*bits)).to_bits()),
            Operand::Single(bits) => Source::Constant(u64::from(*bits)),
            Operand::Double(bits) if width == Width::W32 => {
                Source::Constant(u64::from((f64::from_bits(*bits) as f32).to_bits()))
            }
            Operand::Double(bits) => Source::Constant(*bits),
            Operand::Symbol(name, offset) if matches!(width, Width::W64 | Width::W32) => {
                Source::Symbol(name.clone(), *offset)
            }
            _ => return Err(format!("this operand cannot be read as {}", ty.name())),
        })
    }

    pub fn from(&self, at: usize, ty: Type) -> Result<Source, Refusal> {
        self.source(self.get(at)?, ty)
    }

    /// A predicate that is read, and whether it is inverted.
    pub fn predicate(&self, at: usize) -> Result<(Source, bool), Refusal> {
        match self.get(at)? {
            Operand::Inverted(register) if self.width_of(*register) == Width::Predicate => {
                Ok((Source::Register(*register), true))
            }
            other => Ok((self.source(other, Type::Pred)?, false)),
        }
    }

    /// The memory in brackets.
    pub fn address(&self, at: usize, space: Option<Space>) -> Result<Address, Refusal> {
        let Operand::Memory(base, offset) = self.get(at)? else {
            return Err(format!("operand {} must be an address in brackets", at + 1));
        };
        let base = match base {
            Base::Register(register) => match (self.width_of(*register), space) {
                // Addresses in these spaces fit in 32 bits.
                (Width::W64, _) | (Width::W32, Some(Space::Shared | Space::Local | Space::Param | Space::Const)) => {
                    AddressBase::Register(*register)
                }
                _ => return Err(self.wrong_width(*register, Width::W64)),
            },
            Base::Symbol(name) => AddressBase::Symbol(name.clone()),
            Base::Nothing => AddressBase::Nothing,
        };
        Ok(Address { base, offset: *offset, space })
    }

    /// The parts of a vector, or the operand itself if it is not a vector.
    pub fn parts(&self, at: usize) -> Result<&'a [Operand], Refusal> {
        Ok(match self.get(at)? {
            Operand::Vector(parts) => parts,
            _ => std::slice::from_ref(self.get(at)?),
        })
    }

    /// The operand's value, which must be a constant.
    pub fn constant(&self, at: usize) -> Result<u64, Refusal> {
        match self.get(at)? {
            Operand::Whole(bits) => Ok(*bits),
            _ => Err(format!("operand {} must be a number", at + 1)),
        }
    }
}

pub fn bits_of(width: Width) -> Type {
    match width {
        Width::Predicate => Type::Pred,
        Width::W16 => Type::B16,
        Width::W32 => Type::B32,
        Width::W64 => Type::B64,
        Width::W128 => Type::B128,
    }
}

/// The low bits of a number.
fn cut(bits: u64, width: Width) -> u64 {
    match width {
        Width::Predicate => u64::from(bits != 0),
        Width::W16 => bits & 0xffff,
        Width::W32 => bits & 0xffff_ffff,
        Width::W64 | Width::W128 => bits,
    }
}
