//! Loads, stores, atomics and copies.
use super::{Lowering, Refusal};
use crate::code::{Address, AddressBase, MemoryOrder, Op, Width};
use crate::module::{RegisterId, Space};
use crate::run::handlers::{Handler, Isa, memory, multimem, weak};
use crate::run::ready::{Known, NOWHERE};
use crate::run::registers::Slot;

/// The address of an access: a base, an offset and flags.
struct Place {
    base: Slot,
    offset: u64,
    flags: u32,
}

impl Place {
    fn ordered(self, order: MemoryOrder) -> Self {
        let flags = match order {
            MemoryOrder::Weak => weak::WEAK,
            MemoryOrder::Relaxed => 0,
            MemoryOrder::Acquire => weak::ACQUIRES,
            MemoryOrder::Release => weak::RELEASES,
            MemoryOrder::AcquireRelease => weak::ACQUIRES | weak::RELEASES,
        };
        Self { flags: self.flags | flags, ..self }
    }
}

impl Lowering<'_> {
    fn address(&mut self, address: &Address) -> Result<Place, Refusal> {
        let window = match address.space {
            Some(Space::Shared) => memory::SHARED,
            Some(Space::Local | Space::Param) => memory::OWN,
            Some(Space::Const) => memory::CONST,
            _ => 0,
        };
        Ok(match &address.base {
            AddressBase::Register(register) => {
                let (base, width) = self.places.place_of(*register);
                let wide = match width {
                    Width::W64 => memory::WIDE,
                    Width::W32 => 0,
                    _ => return Err("an address has 32 or 64 bits".into()),
                };
                Place { base, offset: address.offset as u64, flags: wide | window }
            }
            AddressBase::Symbol(name) => match self.places.symbol(name, 0)? {
                Known::Bits(start) => {
                    let offset = start.wrapping_add_signed(address.offset);
                    Place { base: 0, offset, flags: memory::NO_BASE | window }
                }
                known => {
                    let base = self.places.constant(known, Width::W64);
                    Place { base, offset: address.offset as u64, flags: memory::WIDE | window }
                }
            },
            AddressBase::Nothing => Place { base: 0, offset: address.offset as u64, flags: memory::NO_BASE | window },
        })
    }

    /// An address of an instruction that has several: its base, its flags, and its offset of 32 bits.
    fn one_of_several(&mut self, address: &Address) -> Result<(Slot, u32, u32), Refusal> {
        let Place { base, offset, flags } = self.address(address)?;
        if flags & memory::NO_BASE != 0 {
            let base = self.places.constant(Known::Bits(offset), Width::W64);
            return Ok((base, flags & !memory::NO_BASE | memory::WIDE, 0));
        }
        let small = i32::try_from(offset as i64).map_err(|_| "an offset has 32 bits here")?;
        Ok((base, flags, small as u32))
    }

    pub(super) fn memory<I: Isa>(&mut self, op: &Op) -> Result<(), Refusal> {
        match op {
            Op::Load { ty, order, to, address } => {
                let place = self.address(address)?.ordered(*order);
                let looks = *order != MemoryOrder::Weak;
                let targets: Vec<Option<RegisterId>> = to.clone();
                let fits = |to: &Option<RegisterId>, width| to.is_none_or(|to| self.places.width(to) == width);
                let width = memory::part_width(ty.bytes()).filter(|_| !self.one_by_one);
                let run = width
                    .filter(|width| targets.iter().all(|to| fits(to, *width)))
                    .and_then(|_| load::<I>(ty.bytes(), targets.len(), looks));
                let mut more = [NOWHERE; 4];
                for (slot, to) in more.iter_mut().zip(&targets) {
                    *slot = self.places.target(*to).unwrap_or(NOWHERE);
                }
                let number = if run.is_some() { 0 } else { self.describe(op)? };
                self.push(run.unwrap_or(memory::load_general), |i| {
                    (i.a, i.number, i.flags, i.c, i.more) = (place.base, place.offset, place.flags, number, more);
                });
            }
            Op::Store { ty, order, address, values } => {
                let place = self.address(address)?.ordered(*order);
                let width = memory::part_width(ty.bytes()).filter(|_| !self.one_by_one);
                let width = width.filter(|width| values.iter().all(|value| self.places.fits(value, *width)));
                let run = width.and_then(|_| store::<I>(ty.bytes(), values.len()));
                let mut more = [NOWHERE; 4];
                let mut number = 0;
                match (run, width) {
                    (Some(_), Some(width)) => {
                        for (slot, value) in more.iter_mut().zip(values) {
                            *slot = self.places.source(value, width)?;
                        }
                    }
                    _ => number = self.describe(op)?,
                }
                self.push(run.unwrap_or(memory::store_general), |i| {
                    (i.a, i.number, i.flags, i.c, i.more) = (place.base, place.offset, place.flags, number, more);
                });
            }
            Op::Atomic { order, address, .. } => {
                let place = self.address(address)?.ordered(*order);
                let number = self.describe(op)?;
                self.push(memory::atomic, |i| {
                    (i.a, i.number, i.flags, i.c) = (place.base, place.offset, place.flags, number);
                });
            }
            Op::Multimem { order, address, .. } => {
                let place = self.address(address)?.ordered(*order);
                let number = self.describe(op)?;
                self.push(multimem::multimem, |i| {
                    (i.a, i.number, i.flags, i.c) = (place.base, place.offset, place.flags, number);
                });
            }
            Op::BarrierInit { address, count } => self.phase(memory::phase_init, address, count, Width::W32, None)?,
            Op::BarrierArriveExpect { to, address, bytes } => {
                self.phase(memory::phase_arrive, address, bytes, Width::W32, *to)?;
            }
            Op::BarrierTryWait { to, address, state } => {
                self.phase(memory::phase_try_wait, address, state, Width::W64, *to)?;
            }
            Op::BulkLoad { to, from, bytes, barrier } => self.copy(to, from, bytes, Some(barrier))?,
            Op::BulkStore { to, from, bytes } => self.copy(to, from, bytes, None)?,
            _ => return Err("this operation has nothing to do with memory: this is a bug".into()),
        }
        Ok(())
    }

    fn phase(
        &mut self,
        run: Handler,
        address: &Address,
        operand: &crate::code::Source,
        width: Width,
        to: Option<RegisterId>,
    ) -> Result<(), Refusal> {
        let place = self.address(address)?;
        let operand = self.places.source(operand, width)?;
        let to = self.places.target(to).unwrap_or(NOWHERE);
        self.push(run, |i| {
            (i.to, i.a, i.b, i.number, i.flags) = (to, place.base, operand, place.offset, place.flags);
        });
        Ok(())
    }

    fn copy(
        &mut self,
        to: &Address,
        from: &Address,
        bytes: &crate::code::Source,
        barrier: Option<&Address>,
    ) -> Result<(), Refusal> {
        let (to, from) = (self.one_of_several(to)?, self.one_of_several(from)?);
        let bytes = self.places.source(bytes, Width::W32)?;
        let completes = barrier.is_some();
        let barrier = barrier.map(|barrier| self.one_of_several(barrier)).transpose()?.unwrap_or((0, 0, 0));
        self.push(memory::bulk_copy, |i| {
            (i.a, i.b, i.c, i.d) = (to.0, from.0, bytes, barrier.0);
            i.more = [to.1, from.1, barrier.1, barrier.2];
            i.number = u64::from(from.2) << 32 | u64::from(to.2);
            i.flags = u32::from(completes);
        });
        Ok(())
    }
}

macro_rules! by_shape {
    ($bytes:expr, $count:expr, $($size:literal $number:literal => $handler:expr;)*) => {
        match ($bytes, $count) {
            $(($size, $number) => Some($handler),)*
            _ => None,
        }
    };
}

fn load<I: Isa>(bytes: u32, count: usize, looks: bool) -> Option<Handler> {
    fn of<I: Isa, const LOOKS: bool>(bytes: u32, count: usize) -> Option<Handler> {
        by_shape!(bytes, count,
            2 1 => I::handler::<memory::Load<u16, u16, LOOKS>>();
            2 2 => I::handler::<memory::Load<u32, u16, LOOKS>>();
            2 4 => I::handler::<memory::Load<u64, u16, LOOKS>>();
            4 1 => I::handler::<memory::Load<u32, u32, LOOKS>>();
            4 2 => I::handler::<memory::Load<u64, u32, LOOKS>>();
            4 4 => I::handler::<memory::Load<u128, u32, LOOKS>>();
            8 1 => I::handler::<memory::Load<u64, u64, LOOKS>>();
            8 2 => I::handler::<memory::Load<u128, u64, LOOKS>>();
            16 1 => I::handler::<memory::Load<u128, u128, LOOKS>>();
        )
    }
    if looks { of::<I, true>(bytes, count) } else { of::<I, false>(bytes, count) }
}

fn store<I: Isa>(bytes: u32, count: usize) -> Option<Handler> {
    by_shape!(bytes, count,
        2 1 => I::handler::<memory::Store<u16, u16>>();
        2 2 => I::handler::<memory::Store<u32, u16>>();
        2 4 => I::handler::<memory::Store<u64, u16>>();
        4 1 => I::handler::<memory::Store<u32, u32>>();
        4 2 => I::handler::<memory::Store<u64, u32>>();
        4 4 => I::handler::<memory::Store<u128, u32>>();
        8 1 => I::handler::<memory::Store<u64, u64>>();
        8 2 => I::handler::<memory::Store<u128, u64>>();
        16 1 => I::handler::<memory::Store<u128, u128>>();
    )
}
