//! Loads, stores, atomics and copies in the background (PTX ISA, 9.7.9 and 9.7.13).
use super::super::op::{AtomicOp, MemoryOrder, Op, Width};
use super::Refusal;
use super::operands::Operands;
use crate::module::{Operand, Space, Type};

pub fn decode(name: &str, words: &[&str], of: &Operands<'_>) -> Result<Op, Refusal> {
    match name {
        "ld" => load(&Access::of(words, true)?, of),
        "st" => store(&Access::of(words, true)?, of),
        "atom" | "red" => atomic(name, words, of),
        "cp" => copy(words, of),
        _ => barrier(words, of),
    }
}

/// The modifiers of an access.
struct Access {
    space: Option<Space>,
    order: MemoryOrder,
    lanes: usize,
    ty: Option<Type>,
    op: Option<AtomicOp>,
}

impl Access {
    fn of(words: &[&str], is_plain: bool) -> Result<Self, Refusal> {
        let order = if is_plain { MemoryOrder::Weak } else { MemoryOrder::Relaxed };
        let mut access = Self { space: None, order, lanes: 1, ty: None, op: None };
        for word in words {
            match *word {
                "volatile" | "relaxed" | "mmio" => access.order = MemoryOrder::Relaxed,
                "acquire" => access.order = MemoryOrder::Acquire,
                "release" => access.order = MemoryOrder::Release,
                "acq_rel" => access.order = MemoryOrder::AcquireRelease,
                "v2" => access.lanes = 2,
                "v4" => access.lanes = 4,
                // A cluster has one block, whose threads see each other's stores at once.
                "cta" | "cluster" => access.order = access.order.within_block(),
                "weak" | "sys" | "gpu" | "ca" | "cg" | "cs" | "lu" | "cv" | "wb" | "wt" | "nc" => {}
                _ if word.starts_with("L1::") || word.starts_with("L2::") => {}
                _ if access.reads_space(word) => {}
                _ if !is_plain && access.op.is_none() && atomic_op(word).is_some() => access.op = atomic_op(word),
                _ => match Type::named(word).filter(|_| access.ty.is_none()) {
                    Some(ty) => access.ty = Some(ty),
                    None => return Err(format!("`.{word}` is not known here")),
                },
            }
        }
        Ok(access)
    }

    fn reads_space(&mut self, word: &str) -> bool {
        let name = word.split_once("::").map_or(word, |(space, _)| space);
        let space = Space::named(name);
        self.space = space.or(self.space);
        space.is_some()
    }

    /// The type of an element; without one, as of old compilers, that of the registers.
    fn ty(&self, of: &Operands<'_>, at: usize) -> Result<Type, Refusal> {
        if let Some(ty) = self.ty {
            return Ok(ty);
        }
        let registers = of.parts(at)?.iter().filter_map(|part| match part {
            Operand::Register(register) => of.registers.get(register.0 as usize),
            _ => None,
        });
        registers.copied().next().ok_or_else(|| "the access has no type".into())
    }
}

fn atomic_op(word: &str) -> Option<AtomicOp> {
    Some(match word {
        "add" => AtomicOp::Add,
        "min" => AtomicOp::Min,
        "max" => AtomicOp::Max,
        "and" => AtomicOp::And,
        "or" => AtomicOp::Or,
        "xor" => AtomicOp::Xor,
        "exch" => AtomicOp::Exchange,
        "cas" => AtomicOp::CompareAndSwap,
        "inc" => AtomicOp::Increment,
        "dec" => AtomicOp::Decrement,
        _ => return None,
    })
}

/// The type of a register that holds an element: it may be wider than the element (9.4.1).
fn held_in(part: &Operand, ty: Type, of: &Operands<'_>) -> Result<Type, Refusal> {
    let Operand::Register(register) = part else { return Ok(ty) };
    let declared = of.registers.get(register.0 as usize).copied().unwrap_or(ty);
    if Width::of(declared) < Width::of(ty) || declared == Type::Pred {
        return Err(format!("a register of type {} holds no {}", declared.name(), ty.name()));
    }
    Ok(declared)
}

fn load(access: &Access, of: &Operands<'_>) -> Result<Op, Refusal> {
    of.count(2)?;
    let (parts, ty) = (of.parts(0)?, access.ty(of, 0)?);
    if parts.len() != access.lanes {
        return Err(format!("{} registers are expected, not {}", access.lanes, parts.len()));
    }
    let to = parts.iter().map(|part| of.target(part, Width::of(held_in(part, ty, of)?)));
    Ok(Op::Load { ty, order: access.order, to: to.collect::<Result<_, _>>()?, address: of.address(1, access.space)? })
}

fn store(access: &Access, of: &Operands<'_>) -> Result<Op, Refusal> {
    of.count(2)?;
    let (parts, ty) = (of.parts(1)?, access.ty(of, 1)?);
    if parts.len() != access.lanes {
        return Err(format!("{} values are expected, not {}", access.lanes, parts.len()));
    }
    let values = parts.iter().map(|part| of.source(part, held_in(part, ty, of)?));
    let values = values.collect::<Result<_, _>>()?;
    Ok(Op::Store { ty, order: access.order, address: of.address(0, access.space)?, values })
}

fn atomic(name: &str, words: &[&str], of: &Operands<'_>) -> Result<Op, Refusal> {
    let access = Access::of(words, false)?;
    let op = access.op.ok_or("the operation is missing")?;
    let ty = access.ty.ok_or("the type is missing")?;
    let fits = match op {
        AtomicOp::Add => matches!(ty, Type::U32 | Type::S32 | Type::U64 | Type::F32 | Type::F64),
        AtomicOp::Min | AtomicOp::Max => matches!(ty, Type::U32 | Type::S32 | Type::U64 | Type::S64),
        AtomicOp::And | AtomicOp::Or | AtomicOp::Xor | AtomicOp::Exchange => matches!(ty, Type::B32 | Type::B64),
        AtomicOp::CompareAndSwap => matches!(ty, Type::B16 | Type::B32 | Type::B64),
        AtomicOp::Increment | AtomicOp::Decrement => ty == Type::U32,
    };
    if !fits {
        return Err(format!("this atomic is not known for {}", ty.name()));
    }
    let gives = name == "atom";
    let first = usize::from(gives);
    let swaps = op == AtomicOp::CompareAndSwap;
    of.count(first + 2 + usize::from(swaps))?;
    let to = if gives { of.to(0, Width::of(ty))? } else { None };
    let address = of.address(first, access.space)?;
    let b = if swaps { Some(of.from(first + 2, ty)?) } else { None };
    Ok(Op::Atomic { op, ty, order: access.order, to, address, a: of.from(first + 1, ty)?, b })
}

fn copy(words: &[&str], of: &Operands<'_>) -> Result<Op, Refusal> {
    match words {
        ["async", "bulk", "commit_group"] => {
            of.count(0)?;
            Ok(Op::BulkCommit)
        }
        ["async", "bulk", "wait_group"] | ["async", "bulk", "wait_group", "read"] => {
            of.count(1)?;
            Ok(Op::BulkWait { groups: of.constant(0)? })
        }
        ["async", "bulk", "shared::cluster" | "shared::cta", "global", "mbarrier::complete_tx::bytes"] => {
            of.count(4)?;
            let (shared, global) = (Some(Space::Shared), Some(Space::Global));
            let (to, from, bytes) = (of.address(0, shared)?, of.address(1, global)?, of.from(2, Type::U32)?);
            Ok(Op::BulkLoad { to, from, bytes, barrier: of.address(3, shared)? })
        }
        ["async", "bulk", "global", "shared::cta", "bulk_group"] => {
            of.count(3)?;
            let (to, from) = (of.address(0, Some(Space::Global))?, of.address(1, Some(Space::Shared))?);
            Ok(Op::BulkStore { to, from, bytes: of.from(2, Type::U32)? })
        }
        _ => Err("this copy is not known".into()),
    }
}

fn barrier(words: &[&str], of: &Operands<'_>) -> Result<Op, Refusal> {
    let shared = |name: &str| name == "shared" || name == "shared::cta";
    let space = Some(Space::Shared);
    match words {
        ["init", place, "b64"] if shared(place) => {
            of.count(2)?;
            Ok(Op::BarrierInit { address: of.address(0, space)?, count: of.from(1, Type::U32)? })
        }
        ["arrive", "expect_tx", "release", "cta", place, "b64"] | ["arrive", "expect_tx", place, "b64"]
            if shared(place) =>
        {
            of.count(3)?;
            let (to, address) = (of.to(0, Width::W64)?, of.address(1, space)?);
            Ok(Op::BarrierArriveExpect { to, address, bytes: of.from(2, Type::U32)? })
        }
        ["try_wait", place, "b64"] if shared(place) => {
            of.count(3)?;
            let (to, address) = (of.to(0, Width::Predicate)?, of.address(1, space)?);
            Ok(Op::BarrierTryWait { to, address, state: of.from(2, Type::B64)? })
        }
        _ => Err("this instruction is not known".into()),
    }
}
