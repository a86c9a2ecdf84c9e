//! Conversions (PTX ISA, 9.7.9.20 to 9.7.9.22).
use super::super::op::{Op, Rounding, Source, Width};
use super::Refusal;
use super::operands::{Operands, bits_of};
use crate::module::{Operand, RegisterId, Space, Type};
use crate::num::Direction;

pub fn decode(name: &str, words: &[&str], of: &Operands<'_>) -> Result<Op, Refusal> {
    match name {
        "cvta" => address(words, of),
        "isspacep" => {
            of.count(2)?;
            let space = space(words.first().copied().filter(|_| words.len() == 1))?;
            Ok(Op::IsInSpace { space, to: of.to(0, Width::Predicate)?, a: of.from(1, Type::U64)? })
        }
        _ => number(words, of),
    }
}

fn space(name: Option<&str>) -> Result<Space, Refusal> {
    let name = name.ok_or("a state space is missing")?;
    let name = name.split_once("::").map_or(name, |(space, _)| space);
    Space::named(name).ok_or_else(|| format!("`.{name}` is not a state space"))
}

fn address(words: &[&str], of: &Operands<'_>) -> Result<Op, Refusal> {
    of.count(2)?;
    let (from_generic, name) = match words {
        ["to", name, "u64"] => (true, *name),
        [name, "u64"] => (false, *name),
        _ => return Err("this form of `cvta` is not known".into()),
    };
    let (to, a) = (of.to(0, Width::W64)?, of.from(1, Type::U64)?);
    Ok(Op::ConvertAddress { space: space(Some(name))?, from_generic, to, a })
}

fn is_whole(ty: Type) -> bool {
    use Type::{S8, S16, S32, S64, U8, U16, U32, U64};
    matches!(ty, U8 | U16 | U32 | U64 | S8 | S16 | S32 | S64)
}

fn number(words: &[&str], of: &Operands<'_>) -> Result<Op, Refusal> {
    let [how @ .., into, from] = words else { return Err("`cvt` needs two types".into()) };
    let ty = |name: &str| Type::named(name).ok_or_else(|| format!("`.{name}` is not a type"));
    let (into, from) = (ty(into)?, ty(from)?);
    if is_whole(into) && is_whole(from) && how.is_empty() {
        of.count(2)?;
        return Ok(Op::ConvertWhole { from, into, to: wide_target(of, into)?, a: wide_source(of, from)? });
    }
    if let (["rn"], Type::F16x2 | Type::Bf16x2, Type::F32)
    | (["rn", "satfinite"], Type::E4m3x2 | Type::E5m2x2, Type::F32) = (how, into, from)
    {
        of.count(3)?;
        let (a, b) = (of.from(1, Type::F32)?, of.from(2, Type::F32)?);
        return Ok(Op::ConvertPairFromF32 { into, to: of.to(0, Width::of(into))?, a, b });
    }
    of.count(2)?;
    if let (["rn", "satfinite"], Type::E4m3x2 | Type::E5m2x2, Type::F16x2)
    | (["rn"], Type::F16x2, Type::E4m3x2 | Type::E5m2x2) = (how, into, from)
    {
        return Ok(Op::ConvertPair { from, into, to: of.to(0, Width::of(into))?, a: of.from(1, from)? });
    }
    let rounding = match how {
        [] => Rounding::None,
        ["rn"] => Rounding::Nearest,
        ["rz"] => Rounding::Directed(Direction::Zero),
        ["rm"] => Rounding::Directed(Direction::Down),
        ["rp"] => Rounding::Directed(Direction::Up),
        ["rni"] => Rounding::NearestWhole,
        ["rzi"] => Rounding::TowardsZeroWhole,
        ["rmi"] => Rounding::DownWhole,
        ["rpi"] => Rounding::UpWhole,
        ["sat"] => Rounding::ToUnit,
        _ => return Err("this conversion is not known".into()),
    };
    let is_known = match (precision(into), precision(from), rounding) {
        (Some(_), None, Rounding::Nearest | Rounding::Directed(_)) => is_whole(from),
        (Some(to), Some(of), Rounding::None) => to > of,
        (Some(to), Some(of), Rounding::Nearest | Rounding::Directed(_)) => to < of || (to == of && into != from),
        (_, _, Rounding::None | Rounding::Nearest | Rounding::Directed(_)) => false,
        (None, Some(_), Rounding::ToUnit) => false,
        (None, Some(_), _) => is_whole(into),
        (Some(_), Some(_), _) => into == from,
        (_, None, _) => false,
    };
    if !is_known {
        return Err("this conversion is not known".into());
    }
    let (to, a) = (wide_target(of, into)?, wide_source(of, from)?);
    Ok(Op::ConvertFloat { rounding, from, into, to, a })
}

/// The place of a floating-point type among them: a number of a lower one is one of a higher one.
fn precision(ty: Type) -> Option<u32> {
    Some(match ty {
        Type::F16 | Type::Bf16 => 0,
        Type::F32 => 1,
        Type::F64 => 2,
        _ => return None,
    })
}

/// A whole number may come from a register that is wider than it (9.4.1).
fn wide_source(of: &Operands<'_>, ty: Type) -> Result<Source, Refusal> {
    match of.get(1)? {
        Operand::Register(_) if is_whole(ty) => {
            let width = of.register_width(1)?;
            if width.bits() < Width::of(ty).bits() {
                return Err(format!("a register of {} bits holds no {}", width.bits(), ty.name()));
            }
            of.from(1, bits_of(width))
        }
        _ => of.from(1, ty),
    }
}

fn wide_target(of: &Operands<'_>, ty: Type) -> Result<Option<RegisterId>, Refusal> {
    match of.get(0)? {
        Operand::Register(_) if is_whole(ty) => {
            let width = of.register_width(0)?;
            if width.bits() < Width::of(ty).bits() {
                return Err(format!("a register of {} bits holds no {}", width.bits(), ty.name()));
            }
            of.to(0, width)
        }
        _ => of.to(0, Width::of(ty)),
    }
}
