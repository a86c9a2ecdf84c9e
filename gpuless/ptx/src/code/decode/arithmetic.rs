//! Arithmetic, logic, comparisons and moves (PTX ISA, 9.7.1 to 9.7.9).
use super::super::op::{
    Approximate, BinaryOp, Comparison, MulPart, Op, Source, SpecialRegister, TernaryOp, UnaryOp, Width,
};
use super::Refusal;
use super::operands::{Operands, bits_of};
use crate::module::{Operand, Type};
use crate::num::Direction;

pub fn decode(name: &str, words: &[&str], of: &Operands<'_>) -> Result<Op, Refusal> {
    if let ("prmt", ["b32", mode]) = (name, words) {
        return permute(mode, of);
    }
    let (ty, words) = last_type(words)?;
    if let ([direction @ ("rz" | "rm" | "rp")], "add" | "sub" | "mul" | "fma") = (words, name) {
        if ty != Type::F32 {
            return Err(format!("this form of `{name}` is not defined for {}", ty.name()));
        }
        let direction = self::direction(direction).ok_or("this direction is not known")?;
        return Ok(Op::Directed(direction, Box::new(decode(name, &["rn", "f32"], of)?)));
    }
    match name {
        "mov" => return mov(ty, words, of),
        "selp" => return select(ty, words, of),
        "setp" => return compare(ty, words, of),
        "shl" | "shr" => return shift(name, ty, words, of),
        "bfi" => return insert(ty, words, of),
        _ => {}
    }
    if let Some(op) = unary(name, words) {
        allowed(name, ty)?;
        of.count(2)?;
        let into = if matches!(op, UnaryOp::Popc | UnaryOp::Clz | UnaryOp::Bfind { .. }) { Type::U32 } else { ty };
        return Ok(Op::Unary { op, ty, to: of.to(0, Width::of(into))?, a: of.from(1, ty)? });
    }
    if let Some((op, rounds)) = binary(name, words) {
        allowed(name, ty)?;
        check_rounding(name, ty, rounds)?;
        if matches!(op, BinaryOp::MinRelu | BinaryOp::MaxRelu) && ty != Type::S32 {
            return Err(format!("`{name}.relu` is not known for {}", ty.name()));
        }
        of.count(3)?;
        let into = if op == BinaryOp::Mul(MulPart::Wide) { twice(ty)? } else { ty };
        let says_rounding = rounds == Some("rn");
        let (to, a, b) = (of.to(0, Width::of(into))?, of.from(1, ty)?, of.from(2, ty)?);
        return Ok(Op::Binary { op, ty, says_rounding, to, a, b });
    }
    if let Some(op) = ternary(name, words) {
        allowed(name, ty)?;
        of.count(4)?;
        let sum = if op == TernaryOp::Mad(MulPart::Wide) { twice(ty)? } else { ty };
        let (second, third) = match op {
            TernaryOp::Bfe => (Type::U32, Type::U32),
            TernaryOp::FunnelLeft { .. } | TernaryOp::FunnelRight { .. } => (ty, Type::U32),
            _ => (ty, sum),
        };
        let (to, a) = (of.to(0, Width::of(sum))?, of.from(1, ty)?);
        return Ok(Op::Ternary { op, ty, to, a, b: of.from(2, second)?, c: of.from(3, third)? });
    }
    Err("this instruction is not known".into())
}

/// `prmt` with a mode, which comes after its type (PTX ISA, 9.7.9.7).
fn permute(mode: &str, of: &Operands<'_>) -> Result<Op, Refusal> {
    let selectors = match mode {
        "f4e" => [0x3210, 0x4321, 0x5432, 0x6543],
        "b4e" => [0x5670, 0x6701, 0x7012, 0x0123],
        "rc8" => [0x0000, 0x1111, 0x2222, 0x3333],
        "ecl" => [0x3210, 0x3211, 0x3222, 0x3333],
        "ecr" => [0x0000, 0x1110, 0x2210, 0x3210],
        "rc16" => [0x1010, 0x3232, 0x1010, 0x3232],
        _ => return Err(format!("`.{mode}` is not a mode of `prmt`")),
    };
    of.count(4)?;
    let (op, ty) = (TernaryOp::PrmtMode(selectors), Type::B32);
    let (to, a) = (of.to(0, Width::of(ty))?, of.from(1, ty)?);
    Ok(Op::Ternary { op, ty, to, a, b: of.from(2, ty)?, c: of.from(3, ty)? })
}

/// The type at the end of an opcode, and the words before it.
pub fn last_type<'a>(words: &'a [&'a str]) -> Result<(Type, &'a [&'a str]), Refusal> {
    let (last, rest) = words.split_last().ok_or("the instruction has no type")?;
    Ok((Type::named(last).ok_or_else(|| format!("`.{last}` is not a type"))?, rest))
}

fn is_whole(ty: Type) -> bool {
    matches!(ty, Type::U16 | Type::U32 | Type::U64 | Type::S16 | Type::S32 | Type::S64)
}

fn is_bits(ty: Type) -> bool {
    matches!(ty, Type::B16 | Type::B32 | Type::B64)
}

fn is_float(ty: Type) -> bool {
    matches!(ty, Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2 | Type::F32 | Type::F64)
}

/// Checks that an instruction exists for this type.
fn allowed(name: &str, ty: Type) -> Result<(), Refusal> {
    let fits = match name {
        "add" | "sub" | "mul" | "min" | "max" | "neg" => is_whole(ty) || is_float(ty),
        "div" => is_whole(ty) || matches!(ty, Type::F32 | Type::F64),
        "rem" | "mad" => is_whole(ty),
        "copysign" | "rcp" | "sqrt" | "rsqrt" => matches!(ty, Type::F32 | Type::F64),
        "ex2" | "lg2" | "sin" | "cos" | "tanh" => ty == Type::F32,
        "abs" => matches!(ty, Type::S16 | Type::S32 | Type::S64) || is_float(ty),
        "fma" => is_float(ty),
        "and" | "or" | "xor" | "not" => is_bits(ty) || ty == Type::Pred,
        "popc" | "clz" | "brev" => matches!(ty, Type::B32 | Type::B64),
        "bfind" | "bfe" => matches!(ty, Type::U32 | Type::U64 | Type::S32 | Type::S64),
        "prmt" | "shf" => ty == Type::B32,
        _ => false,
    };
    if fits { Ok(()) } else { Err(format!("`{name}` is not defined for {}", ty.name())) }
}

fn unary(name: &str, words: &[&str]) -> Option<UnaryOp> {
    Some(match (name, words) {
        ("neg", []) => UnaryOp::Neg,
        ("not", []) => UnaryOp::Not,
        ("abs", []) => UnaryOp::Abs,
        ("popc", []) => UnaryOp::Popc,
        ("clz", []) => UnaryOp::Clz,
        ("brev", []) => UnaryOp::Brev,
        ("bfind", []) => UnaryOp::Bfind { shift_amount: false },
        ("bfind", ["shiftamt"]) => UnaryOp::Bfind { shift_amount: true },
        ("rcp", [direction]) if *direction != "approx" => UnaryOp::Reciprocal(self::direction(direction)?),
        ("sqrt", [direction]) if *direction != "approx" => UnaryOp::SquareRoot(self::direction(direction)?),
        (name, ["approx"]) => UnaryOp::Approximate { function: approximate(name)?, flush: false },
        (name, ["approx", "ftz"]) => UnaryOp::Approximate { function: approximate(name)?, flush: true },
        _ => return None,
    })
}

fn direction(name: &str) -> Option<Direction> {
    Some(match name {
        "rn" => Direction::Nearest,
        "rz" => Direction::Zero,
        "rm" => Direction::Down,
        "rp" => Direction::Up,
        _ => return None,
    })
}

/// True for a function whose `ftz` is a part of it.
pub fn is_approximate(name: &str, words: &[&str]) -> bool {
    words.contains(&"approx") && approximate(name).is_some()
}

fn approximate(name: &str) -> Option<Approximate> {
    Some(match name {
        "rcp" => Approximate::Reciprocal,
        "sqrt" => Approximate::SquareRoot,
        "rsqrt" => Approximate::ReciprocalSquareRoot,
        "ex2" => Approximate::Exponential,
        "lg2" => Approximate::Logarithm,
        "sin" => Approximate::Sine,
        "cos" => Approximate::Cosine,
        "tanh" => Approximate::HyperbolicTangent,
        _ => return None,
    })
}

/// The operation, and whether it says a rounding.
fn binary(name: &str, words: &[&str]) -> Option<(BinaryOp, Option<&'static str>)> {
    use MulPart::{High, Low, Wide};
    Some(match (name, words) {
        ("add", []) => (BinaryOp::Add, None),
        ("add", ["rn"]) => (BinaryOp::Add, Some("rn")),
        ("sub", []) => (BinaryOp::Sub, None),
        ("sub", ["rn"]) => (BinaryOp::Sub, Some("rn")),
        ("mul", []) => (BinaryOp::Mul(Low), Some("")),
        ("mul", ["rn"]) => (BinaryOp::Mul(Low), Some("rn")),
        ("mul", ["lo"]) => (BinaryOp::Mul(Low), None),
        ("mul", ["hi"]) => (BinaryOp::Mul(High), None),
        ("mul", ["wide"]) => (BinaryOp::Mul(Wide), None),
        ("div", []) => (BinaryOp::Div, None),
        // The quotients of these are within 2 units of the last place: one that is rounded correctly is one of them.
        ("div", ["rn" | "approx" | "full"]) => (BinaryOp::Div, Some("rn")),
        ("rem", []) => (BinaryOp::Rem, None),
        ("copysign", []) => (BinaryOp::CopySign, None),
        ("min", []) => (BinaryOp::Min, None),
        ("max", []) => (BinaryOp::Max, None),
        ("min", ["relu"]) => (BinaryOp::MinRelu, None),
        ("max", ["relu"]) => (BinaryOp::MaxRelu, None),
        ("and", []) => (BinaryOp::And, None),
        ("or", []) => (BinaryOp::Or, None),
        ("xor", []) => (BinaryOp::Xor, None),
        _ => return None,
    })
}

/// Checks that only floating-point instructions give a rounding, and that those which require one have it.
fn check_rounding(name: &str, ty: Type, rounds: Option<&str>) -> Result<(), Refusal> {
    let fits = match (name, rounds) {
        ("mul", None) => !is_float(ty),
        ("mul", Some(_)) => is_float(ty),
        ("div", None) => !is_float(ty),
        (_, Some(_)) => is_float(ty),
        (_, None) => true,
    };
    if fits { Ok(()) } else { Err(format!("this form of `{name}` is not defined for {}", ty.name())) }
}

fn ternary(name: &str, words: &[&str]) -> Option<TernaryOp> {
    Some(match (name, words) {
        ("mad", ["lo"]) => TernaryOp::Mad(MulPart::Low),
        ("mad", ["hi"]) => TernaryOp::Mad(MulPart::High),
        ("mad", ["wide"]) => TernaryOp::Mad(MulPart::Wide),
        ("fma", ["rn"]) => TernaryOp::Fma,
        ("prmt", []) => TernaryOp::Prmt,
        ("bfe", []) => TernaryOp::Bfe,
        ("shf", ["l", how @ ("wrap" | "clamp")]) => TernaryOp::FunnelLeft { wrap: *how == "wrap" },
        ("shf", ["r", how @ ("wrap" | "clamp")]) => TernaryOp::FunnelRight { wrap: *how == "wrap" },
        _ => return None,
    })
}

fn twice(ty: Type) -> Result<Type, Refusal> {
    Ok(match ty {
        Type::U16 => Type::U32,
        Type::S16 => Type::S32,
        Type::U32 => Type::U64,
        Type::S32 => Type::S64,
        _ => return Err(format!("there is no type of twice the width of {}", ty.name())),
    })
}

fn shift(name: &str, ty: Type, words: &[&str], of: &Operands<'_>) -> Result<Op, Refusal> {
    let fits = is_bits(ty) || (name == "shr" && is_whole(ty));
    if !fits || !words.is_empty() {
        return Err(format!("this form of `{name}` is not defined"));
    }
    of.count(3)?;
    let op = if name == "shl" { BinaryOp::Shl } else { BinaryOp::Shr };
    let (to, a, b) = (of.to(0, Width::of(ty))?, of.from(1, ty)?, of.from(2, Type::U32)?);
    Ok(Op::Binary { op, ty, says_rounding: false, to, a, b })
}

fn insert(ty: Type, words: &[&str], of: &Operands<'_>) -> Result<Op, Refusal> {
    if !words.is_empty() || !matches!(ty, Type::B32 | Type::B64) {
        return Err("this form of `bfi` is not defined".into());
    }
    of.count(5)?;
    let (to, field, into) = (of.to(0, Width::of(ty))?, of.from(1, ty)?, of.from(2, ty)?);
    Ok(Op::BitFieldInsert { ty, to, field, into, start: of.from(3, Type::U32)?, length: of.from(4, Type::U32)? })
}

fn select(ty: Type, words: &[&str], of: &Operands<'_>) -> Result<Op, Refusal> {
    if !words.is_empty() || !(is_bits(ty) || is_whole(ty) || matches!(ty, Type::F32 | Type::F64)) {
        return Err("this form of `selp` is not defined".into());
    }
    of.count(4)?;
    let (to, a, b) = (of.to(0, Width::of(ty))?, of.from(1, ty)?, of.from(2, ty)?);
    Ok(Op::Select { ty, to, a, b, predicate: of.from(3, Type::Pred)? })
}

fn compare(ty: Type, words: &[&str], of: &Operands<'_>) -> Result<Op, Refusal> {
    let comparison = match words {
        ["eq"] => Comparison::Eq,
        ["ne"] => Comparison::Ne,
        ["lt" | "lo"] => Comparison::Lt,
        ["le" | "ls"] => Comparison::Le,
        ["gt" | "hi"] => Comparison::Gt,
        ["ge" | "hs"] => Comparison::Ge,
        ["equ"] => Comparison::EqOrNan,
        ["neu"] => Comparison::NeOrNan,
        ["ltu"] => Comparison::LtOrNan,
        ["leu"] => Comparison::LeOrNan,
        ["gtu"] => Comparison::GtOrNan,
        ["geu"] => Comparison::GeOrNan,
        ["num"] => Comparison::Numbers,
        ["nan"] => Comparison::Nan,
        _ => return Err("this comparison is not known".into()),
    };
    use Comparison::{Eq, Ge, Gt, Le, Lt, Ne};
    let fits = match ty {
        Type::F16 | Type::Bf16 | Type::F32 | Type::F64 => true,
        _ if is_bits(ty) => matches!(comparison, Eq | Ne),
        _ => is_whole(ty) && matches!(comparison, Eq | Ne | Lt | Le | Gt | Ge),
    };
    if !fits {
        return Err(format!("this comparison is not defined for {}", ty.name()));
    }
    of.count(3)?;
    Ok(Op::Compare { comparison, ty, to: of.to(0, Width::Predicate)?, a: of.from(1, ty)?, b: of.from(2, ty)? })
}

fn mov(ty: Type, words: &[&str], of: &Operands<'_>) -> Result<Op, Refusal> {
    if !words.is_empty() {
        return Err("this form of `mov` is not defined".into());
    }
    of.count(2)?;
    let width = Width::of(ty);
    match (of.get(0)?, of.get(1)?) {
        (Operand::Vector(to), _) => {
            let part = part_of(width, to.len())?;
            let to = to.iter().map(|one| of.target(one, part)).collect::<Result<_, _>>()?;
            Ok(Op::Unpack { part, to, a: of.from(1, ty)? })
        }
        (_, Operand::Vector(from)) => {
            let part = part_of(width, from.len())?;
            let parts = from.iter().map(|one| of.source(one, bits_of(part))).collect::<Result<_, _>>()?;
            Ok(Op::Pack { part, to: of.to(0, width)?, parts })
        }
        (_, Operand::Special(name)) => {
            let register = special(name).ok_or_else(|| format!("the special register `{name}` is not known"))?;
            Ok(Op::ReadSpecial { register, width, to: of.to(0, width)? })
        }
        _ if ty == Type::B128 => {
            let to = of.to(0, width)?;
            match of.from(1, ty)? {
                a @ Source::Register(_) => Ok(Op::Unary { op: UnaryOp::Move, ty, to, a }),
                _ => Err("128 bits can only be moved from a register or from two halves".into()),
            }
        }
        _ => Ok(Op::Unary { op: UnaryOp::Move, ty, to: of.to(0, width)?, a: of.from(1, ty)? }),
    }
}

/// The width of each part, given how many there are.
fn part_of(whole: Width, parts: usize) -> Result<Width, Refusal> {
    Ok(match (whole, parts) {
        (Width::W128, 2) => Width::W64,
        (Width::W64 | Width::W128, _) if whole.bits() as usize == 32 * parts => Width::W32,
        (Width::W32, 2) | (Width::W64, 4) => Width::W16,
        _ => return Err(format!("{} bits cannot be moved as {parts} parts", whole.bits())),
    })
}

fn special(name: &str) -> Option<SpecialRegister> {
    use SpecialRegister::*;
    let (stem, dimension) = match name.rsplit_once('.') {
        Some((stem, "x")) => (stem, 0),
        Some((stem, "y")) => (stem, 1),
        Some((stem, "z")) => (stem, 2),
        Some(_) => return None,
        None => (name, u8::MAX),
    };
    if dimension == u8::MAX {
        return Some(match stem {
            "%laneid" => LaneId,
            "%warpid" => WarpId,
            "%lanemask_eq" => LanemaskEq,
            "%lanemask_lt" => LanemaskLt,
            "%lanemask_le" => LanemaskLe,
            "%lanemask_gt" => LanemaskGt,
            "%lanemask_ge" => LanemaskGe,
            "%clock" => Clock,
            "%clock_hi" | "%globaltimer_hi" => ClockHigh,
            "%clock64" => Clock64,
            "%globaltimer" | "%globaltimer_lo" => GlobalTimer,
            "%cluster_ctarank" => ClusterCtaRank,
            "%cluster_nctarank" => ClusterNctaRank,
            "%smid" => SmId,
            "%gridid" => GridId,
            "%dynamic_smem_size" => DynamicSharedSize,
            "%total_smem_size" => TotalSharedSize,
            _ => return None,
        });
    }
    Some(match stem {
        "%tid" => Tid(dimension),
        "%ntid" => Ntid(dimension),
        "%ctaid" => Ctaid(dimension),
        "%nctaid" => Nctaid(dimension),
        "%cluster_ctaid" => ClusterCtaid(dimension),
        "%cluster_nctaid" => ClusterNctaid(dimension),
        "%clusterid" => ClusterId(dimension),
        "%nclusterid" => NclusterId(dimension),
        _ => return None,
    })
}
