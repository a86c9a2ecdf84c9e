//! Changes of one operation, as a mistake in a kernel's source could make them.
//!
//! A changed operation has the same operands and a type that it is defined for, so that it is executed as any other. What only a GPU could
//! tell apart, such as a fence within a block, is not changed.
use super::op::{
    AtomicOp, BinaryOp, Comparison, MulPart, MultimemAction, Op, Operation, Rounding, Source, TernaryOp, UnaryOp,
    VoteMode,
};
use crate::module::{Guard, Type};
use crate::num::Direction;
use std::fmt::Debug;

/// A kind of change. There is at most one of each kind for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Change {
    /// Another operator: a difference in place of a sum, the larger number in place of the smaller one.
    Operator,
    /// Another relation in a comparison: less, or less or equal.
    Comparison,
    /// A constant that is larger by one.
    Constant,
    /// Rounding towards zero.
    Rounding,
    /// A store, fence or barrier that is left out.
    LeftOut,
    /// A predicate that is negated.
    Negated,
}

impl Change {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Operator, Self::Comparison, Self::Constant, Self::Rounding, Self::LeftOut, Self::Negated];

    /// The changed operation, and the change in words; `None` if there is no such change of this operation.
    pub fn of(self, operation: &Operation) -> Option<(Operation, String)> {
        let Operation { guard, op } = operation;
        let (op, words) = match self {
            Self::Operator => operator(op)?,
            Self::Comparison => comparison(op)?,
            Self::Constant => constant(op)?,
            Self::Rounding => (rounding(op)?, "rounds towards zero".to_owned()),
            Self::LeftOut => {
                let nothing = Operation { guard: None, op: Op::Nothing };
                return can_be_left_out(op).then(|| (nothing, "is left out".to_owned()));
            }
            Self::Negated => return negated(operation),
        };
        Some((Operation { guard: *guard, op }, words))
    }
}

/// The name of an operator or relation.
fn name(of: &impl Debug) -> String {
    let text = format!("{of:?}").to_lowercase();
    text.split('(').next().unwrap_or_default().to_owned()
}

fn becomes(op: Op, from: &impl Debug, to: &impl Debug) -> Option<(Op, String)> {
    Some((op, format!("{} becomes {}", name(from), name(to))))
}

fn operator(op: &Op) -> Option<(Op, String)> {
    match op {
        Op::Unary { op: old @ (UnaryOp::Neg | UnaryOp::Not), ty, to, a } => {
            becomes(Op::Unary { op: UnaryOp::Move, ty: *ty, to: *to, a: a.clone() }, old, &UnaryOp::Move)
        }
        Op::Binary { op: old, ty, says_rounding, to, a, b } => {
            let new = other_binary(*old)?;
            let (a, b) = (a.clone(), b.clone());
            becomes(Op::Binary { op: new, ty: *ty, says_rounding: *says_rounding, to: *to, a, b }, old, &new)
        }
        Op::Ternary { op: old @ (TernaryOp::Fma | TernaryOp::Mad(_)), ty, to, a, b, .. } => {
            let part = if let TernaryOp::Mad(part) = old { *part } else { MulPart::Low };
            let new = BinaryOp::Mul(part);
            // A product that said nothing of its rounding could be fused again.
            let (a, b) = (a.clone(), b.clone());
            becomes(Op::Binary { op: new, ty: *ty, says_rounding: true, to: *to, a, b }, old, &new)
        }
        Op::Atomic { op: old, ty, order, to, address, a, b } => {
            let new = match old {
                AtomicOp::Min => AtomicOp::Max,
                AtomicOp::Max => AtomicOp::Min,
                AtomicOp::And => AtomicOp::Or,
                AtomicOp::Or => AtomicOp::And,
                _ => return None,
            };
            let (address, a, b) = (address.clone(), a.clone(), b.clone());
            becomes(Op::Atomic { op: new, ty: *ty, order: *order, to: *to, address, a, b }, old, &new)
        }
        Op::Multimem { action, ty, order, to, address, values } => {
            let other = |old: BinaryOp| other_binary(old).filter(|_| matches!(old, BinaryOp::Min | BinaryOp::Max));
            let (old, action) = match *action {
                MultimemAction::LoadReduce { op, wide } => (op, MultimemAction::LoadReduce { op: other(op)?, wide }),
                MultimemAction::Reduce { op } => (op, MultimemAction::Reduce { op: other(op)? }),
                MultimemAction::Store => return None,
            };
            let (to, address, values) = (to.clone(), address.clone(), values.clone());
            becomes(Op::Multimem { action, ty: *ty, order: *order, to, address, values }, &old, &other(old)?)
        }
        Op::Vote { mode: old, to, predicate, inverted, members } => {
            let new = other_vote(*old)?;
            let (predicate, members) = (predicate.clone(), members.clone());
            becomes(Op::Vote { mode: new, to: *to, predicate, inverted: *inverted, members }, old, &new)
        }
        Op::Barrier { number, threads, reduce: Some(reduce) } => {
            let (old, mut reduce) = (reduce.mode, reduce.clone());
            reduce.mode = other_vote(old)?;
            let new = reduce.mode;
            becomes(Op::Barrier { number: number.clone(), threads: threads.clone(), reduce: Some(reduce) }, &old, &new)
        }
        _ => None,
    }
}

fn other_binary(op: BinaryOp) -> Option<BinaryOp> {
    Some(match op {
        BinaryOp::Add => BinaryOp::Sub,
        BinaryOp::Sub | BinaryOp::Mul(MulPart::Low) => BinaryOp::Add,
        BinaryOp::Mul(MulPart::High) => BinaryOp::Mul(MulPart::Low),
        BinaryOp::Mul(MulPart::Wide) => return None,
        BinaryOp::Div => BinaryOp::Mul(MulPart::Low),
        BinaryOp::Rem => BinaryOp::Div,
        BinaryOp::Min => BinaryOp::Max,
        BinaryOp::Max => BinaryOp::Min,
        BinaryOp::MinRelu => BinaryOp::MaxRelu,
        BinaryOp::MaxRelu => BinaryOp::MinRelu,
        BinaryOp::And => BinaryOp::Or,
        BinaryOp::Or => BinaryOp::And,
        BinaryOp::Xor => BinaryOp::Or,
        BinaryOp::Shl => BinaryOp::Shr,
        BinaryOp::Shr => BinaryOp::Shl,
        BinaryOp::CopySign => return None,
    })
}

fn other_vote(mode: VoteMode) -> Option<VoteMode> {
    match mode {
        VoteMode::All => Some(VoteMode::Any),
        VoteMode::Any => Some(VoteMode::All),
        VoteMode::Uniform | VoteMode::Ballot | VoteMode::Count => None,
    }
}

fn comparison(op: &Op) -> Option<(Op, String)> {
    let Op::Compare { comparison: old, ty, to, a, b } = op else { return None };
    let new = match old {
        Comparison::Eq => Comparison::Ne,
        Comparison::Ne => Comparison::Eq,
        Comparison::Lt => Comparison::Le,
        Comparison::Le => Comparison::Lt,
        Comparison::Gt => Comparison::Ge,
        Comparison::Ge => Comparison::Gt,
        Comparison::EqOrNan => Comparison::NeOrNan,
        Comparison::NeOrNan => Comparison::EqOrNan,
        Comparison::LtOrNan => Comparison::LeOrNan,
        Comparison::LeOrNan => Comparison::LtOrNan,
        Comparison::GtOrNan => Comparison::GeOrNan,
        Comparison::GeOrNan => Comparison::GtOrNan,
        Comparison::Numbers => Comparison::Nan,
        Comparison::Nan => Comparison::Numbers,
    };
    becomes(Op::Compare { comparison: new, ty: *ty, to: *to, a: a.clone(), b: b.clone() }, old, &new)
}

/// The last constant operand is larger by one. Offsets of addresses are not changed: an access at an odd address is refused, whatever a
/// test looks at.
fn constant(op: &Op) -> Option<(Op, String)> {
    let mut changed = op.clone();
    let (ty, sources): (Type, Vec<&mut Source>) = match &mut changed {
        Op::Unary { op: UnaryOp::Move, ty, a, .. } => (*ty, vec![a]),
        Op::Binary { ty, a, b, .. } | Op::Compare { ty, a, b, .. } | Op::Select { ty, a, b, .. } => (*ty, vec![b, a]),
        // The third operand may be wider than the type says.
        Op::Ternary { op: TernaryOp::Mad(MulPart::Wide), ty, a, b, .. } => (*ty, vec![b, a]),
        Op::Ternary { ty, a, b, c, .. } => (*ty, vec![c, b, a]),
        Op::Store { ty, values, .. } => (*ty, values.iter_mut().rev().collect()),
        _ => return None,
    };
    let mut words = None;
    for source in sources {
        if let Source::Constant(bits) = source
            && words.is_none()
        {
            // An infinity is the same then.
            let new = one_more(ty, *bits);
            if new == *bits {
                return None;
            }
            words = Some(format!("{} becomes {}", shown(ty, *bits), shown(ty, new)));
            *bits = new;
        }
    }
    Some((changed, words?))
}

fn one_more(ty: Type, bits: u64) -> u64 {
    match ty {
        Type::Pred => bits ^ 1,
        Type::F32 => u64::from((f32::from_bits(bits as u32) + 1.0).to_bits()),
        Type::F64 => (f64::from_bits(bits) + 1.0).to_bits(),
        _ if ty.bytes() >= 8 => bits.wrapping_add(1),
        _ => bits.wrapping_add(1) & ((1 << (8 * ty.bytes())) - 1),
    }
}

fn shown(ty: Type, bits: u64) -> String {
    match ty {
        Type::F32 => format!("{:?}", f32::from_bits(bits as u32)),
        Type::F64 => format!("{:?}", f64::from_bits(bits)),
        Type::S16 => (bits as i16).to_string(),
        Type::S32 => (bits as i32).to_string(),
        Type::S64 => (bits as i64).to_string(),
        _ if bits > 0xffff => format!("{bits:#x}"),
        _ => bits.to_string(),
    }
}

fn rounding(op: &Op) -> Option<Op> {
    use Type::{Bf16, Bf16x2, F16, F16x2, F32, F64, S64, U64};
    let is_float = |ty: Type| matches!(ty, F16 | F16x2 | Bf16 | Bf16x2 | F32 | F64);
    match op {
        Op::ConvertFloat { rounding: Rounding::NearestWhole, from, into, to, a } => {
            let rounding = Rounding::TowardsZeroWhole;
            return Some(Op::ConvertFloat { rounding, from: *from, into: *into, to: *to, a: a.clone() });
        }
        // Not all whole numbers of 64 bits are numbers of double precision, in which the exact result is taken.
        Op::ConvertFloat { rounding: Rounding::Nearest, from, into, .. }
            if is_float(*into) && !matches!(from, S64 | U64) => {}
        Op::ConvertPairFromF32 { .. } => {}
        Op::Binary { op: BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul(_), ty, .. } if is_float(*ty) => {}
        Op::Ternary { op: TernaryOp::Fma, ty, .. } if is_float(*ty) => {}
        _ => return None,
    }
    Some(Op::Directed(Direction::Zero, Box::new(op.clone())))
}

fn can_be_left_out(op: &Op) -> bool {
    match op {
        Op::Fence { only_block } => !only_block,
        Op::Barrier { reduce, .. } => reduce.is_none(),
        Op::Atomic { to, .. } => to.is_none(),
        Op::Multimem { action, .. } => !matches!(action, MultimemAction::LoadReduce { .. }),
        Op::Store { .. } | Op::WarpBarrier { .. } | Op::BulkStore { .. } => true,
        _ => false,
    }
}

fn negated(operation: &Operation) -> Option<(Operation, String)> {
    let Operation { guard, op } = operation;
    if matches!(op, Op::Nothing) {
        return None;
    }
    if let Some(guard) = guard {
        let other = Guard { inverted: !guard.inverted, ..*guard };
        return Some((Operation { guard: Some(other), op: op.clone() }, "its predicate is negated".to_owned()));
    }
    let mut changed = op.clone();
    match &mut changed {
        Op::Select { a, b, .. } => std::mem::swap(a, b),
        Op::Vote { inverted, .. } => *inverted = !*inverted,
        Op::Barrier { reduce: Some(reduce), .. } => reduce.inverted = !reduce.inverted,
        _ => return None,
    }
    Some((Operation { guard: None, op: changed }, "its predicate is negated".to_owned()))
}
