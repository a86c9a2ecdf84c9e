//! Accesses to multicast memory (PTX ISA, 9.7.9.13 to 9.7.9.15).
use super::super::op::{BinaryOp, MemoryOrder, MultimemAction, Op, Width};
use super::Refusal;
use super::operands::Operands;
use crate::module::{Space, Type};

/// Bytes of the widest access.
const WIDEST: u32 = 16;

pub fn decode(words: &[&str], of: &Operands<'_>) -> Result<Op, Refusal> {
    let unknown = || "this instruction is not known".to_owned();
    let (name, words) = words.split_first().ok_or_else(unknown)?;
    let (mut order, mut lanes, mut ty, mut op, mut wide, mut space) =
        (MemoryOrder::Relaxed, 1, None, None, false, None);
    for word in words {
        match *word {
            "weak" => order = MemoryOrder::Weak,
            "relaxed" => order = MemoryOrder::Relaxed,
            "acquire" => order = MemoryOrder::Acquire,
            "release" => order = MemoryOrder::Release,
            // The scope of threads to which an order applies: all threads see one memory.
            "cta" | "cluster" | "gpu" | "sys" => {}
            "global" => space = Some(Space::Global),
            "v2" => lanes = 2,
            "v4" => lanes = 4,
            "v8" => lanes = 8,
            "acc::f32" => wide = true,
            "add" => op = Some(BinaryOp::Add),
            "min" => op = Some(BinaryOp::Min),
            "max" => op = Some(BinaryOp::Max),
            "and" => op = Some(BinaryOp::And),
            "or" => op = Some(BinaryOp::Or),
            "xor" => op = Some(BinaryOp::Xor),
            _ => ty = Some(Type::named(word).filter(|_| ty.is_none()).ok_or_else(unknown)?),
        }
    }
    let ty = ty.ok_or("the type is missing")?;
    let is_half = matches!(ty, Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2);
    let is_float = is_half || matches!(ty, Type::F32 | Type::F64);
    let fits = match op {
        None => {
            *name == "st"
                && (is_float || matches!(ty, Type::B32 | Type::B64 | Type::U32 | Type::U64 | Type::S32 | Type::S64))
        }
        Some(BinaryOp::Add) => is_float || matches!(ty, Type::U32 | Type::S32 | Type::U64),
        Some(BinaryOp::Min | BinaryOp::Max) => is_half || matches!(ty, Type::U32 | Type::S32 | Type::U64 | Type::S64),
        Some(_) => matches!(ty, Type::B32 | Type::B64),
    };
    let wide_fits = !wide || (is_half && *name == "ld_reduce" && op == Some(BinaryOp::Add));
    if !fits || !wide_fits || (lanes > 1 && !is_float) || lanes * ty.bytes() > WIDEST {
        return Err(format!("this access is not known for {}", ty.name()));
    }
    of.count(2)?;
    let (vector, address) = if *name == "ld_reduce" { (0, 1) } else { (1, 0) };
    let (parts, address) = (of.parts(vector)?, of.address(address, space)?);
    if parts.len() as u32 != lanes {
        return Err(format!("{lanes} registers are expected, not {}", parts.len()));
    }
    let (mut to, mut values) = (Vec::new(), Vec::new());
    let action = match (*name, op) {
        ("ld_reduce", Some(op)) => {
            to = parts.iter().map(|part| of.target(part, Width::of(ty))).collect::<Result<_, _>>()?;
            MultimemAction::LoadReduce { op, wide }
        }
        ("st", None) => MultimemAction::Store,
        ("red", Some(op)) => MultimemAction::Reduce { op },
        _ => return Err(unknown()),
    };
    if to.is_empty() {
        values = parts.iter().map(|part| of.source(part, ty)).collect::<Result<_, _>>()?;
    }
    Ok(Op::Multimem { action, ty, order, to, address, values })
}
