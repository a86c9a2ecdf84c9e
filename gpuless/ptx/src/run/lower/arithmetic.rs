//! Operations that compute: those that are hot get the handler of their type, all others the general one.
use super::{Lowering, Refusal};
use crate::code::{BinaryOp, Comparison, MulPart, Op, Rounding, Source, TernaryOp, UnaryOp, Width};
use crate::module::{RegisterId, Type};
use crate::run::handlers::{Handler, Isa, float, narrow, one, test, three, two, whole};
use crate::run::ready::NOWHERE;

impl Lowering<'_> {
    pub(super) fn compute<I: Isa>(&mut self, op: &Op) -> Result<(), Refusal> {
        if self.one_by_one || self.fast::<I>(op)?.is_none() { self.general(op) } else { Ok(()) }
    }

    /// Lowers the operation to the handler for its type; `None` if its type does not have a handler.
    fn fast<I: Isa>(&mut self, op: &Op) -> Result<Option<()>, Refusal> {
        match op {
            Op::Unary { op, ty, to, a } => {
                let Some((run, width, result)) = unary::<I>(*op, *ty) else { return Ok(None) };
                self.with(run, *to, result, &[(a, width)])
            }
            Op::Binary { op, ty, to, a, b, .. } => {
                let Some((run, width, result)) = binary::<I>(*op, *ty) else { return Ok(None) };
                let shifts = matches!(op, BinaryOp::Shl | BinaryOp::Shr);
                self.with(run, *to, result, &[(a, width), (b, if shifts { Width::W32 } else { width })])
            }
            Op::Ternary { op, ty, to, a, b, c } => {
                let Some((run, width, result)) = ternary::<I>(*op, *ty) else { return Ok(None) };
                let done = self.with(run, *to, result, &[(a, width), (b, width), (c, result)])?;
                if let (TernaryOp::PrmtMode(selectors), Some(last)) = (op, self.ready.instructions.last_mut())
                    && done.is_some()
                    && to.is_some()
                {
                    last.number = selectors.iter().rev().fold(0, |all, selector| all << 16 | u64::from(*selector));
                }
                Ok(done)
            }
            Op::Select { ty, to, a, b, predicate } => {
                let width = Width::of(*ty);
                let run: Handler = match width {
                    Width::W16 => I::handler::<whole::Select<u16>>(),
                    Width::W32 => I::handler::<whole::Select<u32>>(),
                    Width::W64 => I::handler::<whole::Select<u64>>(),
                    _ => return Ok(None),
                };
                self.with(run, *to, width, &[(a, width), (b, width), (predicate, Width::Predicate)])
            }
            Op::Compare { comparison, ty, to, a, b } => {
                let Some(run) = compare::<I>(*comparison, *ty) else { return Ok(None) };
                let width = Width::of(*ty);
                self.with(run, *to, Width::Predicate, &[(a, width), (b, width)])
            }
            Op::Pack { part, to, parts } => {
                let (run, result): (Handler, _) = match (*part, parts.len()) {
                    (Width::W16, 2) => (I::handler::<whole::Pack2x16>(), Width::W32),
                    (Width::W16, 4) => (I::handler::<whole::Pack4x16>(), Width::W64),
                    (Width::W32, 2) => (I::handler::<whole::Pack2x32>(), Width::W64),
                    (Width::W32, 4) => (I::handler::<whole::Pack4x32>(), Width::W128),
                    (Width::W64, 2) => (I::handler::<whole::Pack2x64>(), Width::W128),
                    _ => return Ok(None),
                };
                let sources: Vec<(&Source, Width)> = parts.iter().map(|source| (source, *part)).collect();
                self.with(run, *to, result, &sources)
            }
            Op::Unpack { part, to, a } => self.unpack::<I>(*part, to, a),
            Op::ConvertWhole { from, into, to, a } => {
                let Some((run, width, result)) = convert_whole::<I>(*from, *into) else { return Ok(None) };
                self.with(run, *to, result, &[(a, width)])
            }
            Op::ConvertFloat { rounding, from, into, to, a } => {
                let Some((run, width, result)) = convert_float::<I>(*rounding, *from, *into) else { return Ok(None) };
                self.with(run, *to, result, &[(a, width)])
            }
            _ => Ok(None),
        }
    }

    /// An instruction with such operands, if they have these widths.
    fn with(
        &mut self,
        run: Handler,
        to: Option<RegisterId>,
        result: Width,
        sources: &[(&Source, Width)],
    ) -> Result<Option<()>, Refusal> {
        let Some(target) = to else { return Ok(Some(())) };
        if self.places.width(target) != result
            || !sources.iter().all(|(source, width)| self.places.fits(source, *width))
        {
            return Ok(None);
        }
        let mut slots = [0; 4];
        for (slot, (source, width)) in slots.iter_mut().zip(sources) {
            *slot = self.places.source(source, *width)?;
        }
        let to = self.places.register(target);
        self.push(run, |i| [i.a, i.b, i.c, i.d] = slots);
        if let Some(last) = self.ready.instructions.last_mut() {
            last.to = to;
        }
        Ok(Some(()))
    }

    fn unpack<I: Isa>(&mut self, part: Width, to: &[Option<RegisterId>], a: &Source) -> Result<Option<()>, Refusal> {
        let (run, whole): (Handler, _) = match (part, to.len()) {
            (Width::W16, 2) => (I::handler::<whole::Unpack2x16>(), Width::W32),
            (Width::W16, 4) => (I::handler::<whole::Unpack4x16>(), Width::W64),
            (Width::W32, 2) => (I::handler::<whole::Unpack2x32>(), Width::W64),
            (Width::W32, 4) => (I::handler::<whole::Unpack4x32>(), Width::W128),
            (Width::W64, 2) => (I::handler::<whole::Unpack2x64>(), Width::W128),
            _ => return Ok(None),
        };
        let fit = to.iter().flatten().all(|to| self.places.width(*to) == part);
        if !fit || !self.places.fits(a, whole) {
            return Ok(None);
        }
        let a = self.places.source(a, whole)?;
        let mut more = [NOWHERE; 4];
        for (slot, to) in more.iter_mut().zip(to) {
            *slot = self.places.target(*to).unwrap_or(NOWHERE);
        }
        self.push(run, |i| (i.a, i.more) = (a, more));
        Ok(Some(()))
    }
}

/// A handler, the width of its operands, and that of its result.
type Chosen = Option<(Handler, Width, Width)>;

fn unary<I: Isa>(op: UnaryOp, ty: Type) -> Chosen {
    let width = Width::of(ty);
    let run: Handler = match (op, width) {
        (UnaryOp::Move, Width::Predicate) => whole::predicate_move,
        (UnaryOp::Not, Width::Predicate) => whole::predicate_not,
        (UnaryOp::Move, _) => whole::move_of::<I>(ty.bytes())?,
        (UnaryOp::Not, Width::W16) => one::<I, u16, u16, whole::Not>(),
        (UnaryOp::Not, Width::W32) => one::<I, u32, u32, whole::Not>(),
        (UnaryOp::Not, Width::W64) => one::<I, u64, u64, whole::Not>(),
        (UnaryOp::Neg, Width::W16) if is_whole(ty) => one::<I, u16, u16, whole::NegWhole>(),
        (UnaryOp::Neg, Width::W32) if is_whole(ty) => one::<I, u32, u32, whole::NegWhole>(),
        (UnaryOp::Neg, Width::W64) if is_whole(ty) => one::<I, u64, u64, whole::NegWhole>(),
        _ => return None,
    };
    Some((run, width, width))
}

fn is_whole(ty: Type) -> bool {
    use Type::{B16, B32, B64, S16, S32, S64, U16, U32, U64};
    matches!(ty, B16 | B32 | B64 | U16 | U32 | U64 | S16 | S32 | S64)
}

/// The handler for the width of a whole number, which has no sign or whose sign does not matter.
macro_rules! by_width {
    ($width:expr, $op:ty) => {
        match $width {
            Width::W16 => two::<I, u16, u16, $op>(),
            Width::W32 => two::<I, u32, u32, $op>(),
            Width::W64 => two::<I, u64, u64, $op>(),
            _ => return None,
        }
    };
}

/// The handler for the type of a whole number.
macro_rules! by_type {
    ($ty:expr, $op:ty) => {
        match $ty {
            Type::U16 | Type::B16 => two::<I, u16, u16, $op>(),
            Type::U32 | Type::B32 => two::<I, u32, u32, $op>(),
            Type::U64 | Type::B64 => two::<I, u64, u64, $op>(),
            Type::S16 => two::<I, i16, i16, $op>(),
            Type::S32 => two::<I, i32, i32, $op>(),
            Type::S64 => two::<I, i64, i64, $op>(),
            _ => return None,
        }
    };
}

fn binary<I: Isa>(op: BinaryOp, ty: Type) -> Chosen {
    let width = Width::of(ty);
    let same = |run: Handler| Some((run, width, width));
    match ty {
        Type::Pred => {
            return same(match op {
                BinaryOp::And => whole::predicate_and,
                BinaryOp::Or => whole::predicate_or,
                BinaryOp::Xor => whole::predicate_xor,
                _ => return None,
            });
        }
        Type::F32 => {
            return same(match op {
                BinaryOp::Add => two::<I, f32, f32, float::AddF32>(),
                BinaryOp::Sub => two::<I, f32, f32, float::SubF32>(),
                BinaryOp::Mul(_) => two::<I, f32, f32, float::MulF32>(),
                BinaryOp::Div => two::<I, f32, f32, float::DivF32>(),
                BinaryOp::Min => two::<I, f32, f32, float::MinF32>(),
                BinaryOp::Max => two::<I, f32, f32, float::MaxF32>(),
                _ => return None,
            });
        }
        Type::F64 => {
            return same(match op {
                BinaryOp::Add => two::<I, f64, f64, float::AddF64>(),
                BinaryOp::Sub => two::<I, f64, f64, float::SubF64>(),
                BinaryOp::Mul(_) => two::<I, f64, f64, float::MulF64>(),
                BinaryOp::Div => two::<I, f64, f64, float::DivF64>(),
                BinaryOp::Min => two::<I, f64, f64, float::MinF64>(),
                BinaryOp::Max => two::<I, f64, f64, float::MaxF64>(),
                _ => return None,
            });
        }
        Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2 => {
            let (is_bf16, is_pair) =
                (matches!(ty, Type::Bf16 | Type::Bf16x2), matches!(ty, Type::F16x2 | Type::Bf16x2));
            return same(match op {
                BinaryOp::Add => narrow::two::<I, narrow::Add>(is_bf16, is_pair),
                BinaryOp::Sub => narrow::two::<I, narrow::Sub>(is_bf16, is_pair),
                BinaryOp::Mul(_) => narrow::two::<I, narrow::Mul>(is_bf16, is_pair),
                BinaryOp::Min => narrow::two::<I, narrow::Min>(is_bf16, is_pair),
                BinaryOp::Max => narrow::two::<I, narrow::Max>(is_bf16, is_pair),
                _ => return None,
            });
        }
        _ if !is_whole(ty) => return None,
        _ => {}
    }
    if let BinaryOp::Mul(MulPart::Wide) = op {
        return match ty {
            Type::U16 => Some((two::<I, u16, u32, whole::WideU16>(), Width::W16, Width::W32)),
            Type::S16 => Some((two::<I, i16, i32, whole::WideS16>(), Width::W16, Width::W32)),
            Type::U32 => Some((two::<I, u32, u64, whole::WideU32>(), Width::W32, Width::W64)),
            Type::S32 => Some((two::<I, i32, i64, whole::WideS32>(), Width::W32, Width::W64)),
            _ => None,
        };
    }
    same(match (op, ty) {
        (BinaryOp::Add, _) => by_width!(width, whole::Add),
        (BinaryOp::Sub, _) => by_width!(width, whole::Sub),
        (BinaryOp::Mul(MulPart::Low), _) => by_width!(width, whole::MulLow),
        (BinaryOp::Mul(MulPart::High), Type::U32) => two::<I, u32, u32, whole::HighU32>(),
        (BinaryOp::Mul(MulPart::High), Type::S32) => two::<I, i32, i32, whole::HighS32>(),
        (BinaryOp::And, _) => by_width!(width, whole::And),
        (BinaryOp::Or, _) => by_width!(width, whole::Or),
        (BinaryOp::Xor, _) => by_width!(width, whole::Xor),
        (BinaryOp::Min, _) => by_type!(ty, whole::Min),
        (BinaryOp::Max, _) => by_type!(ty, whole::Max),
        (BinaryOp::MinRelu, Type::S32) => two::<I, i32, i32, whole::MinRelu>(),
        (BinaryOp::MaxRelu, Type::S32) => two::<I, i32, i32, whole::MaxRelu>(),
        (BinaryOp::Shl, _) if width == Width::W16 => I::handler::<whole::ShiftLeft<u16>>(),
        (BinaryOp::Shl, _) if width == Width::W32 => I::handler::<whole::ShiftLeft<u32>>(),
        (BinaryOp::Shl, _) => I::handler::<whole::ShiftLeft<u64>>(),
        (BinaryOp::Shr, Type::S16) => I::handler::<whole::ShiftRight<i16>>(),
        (BinaryOp::Shr, Type::S32) => I::handler::<whole::ShiftRight<i32>>(),
        (BinaryOp::Shr, Type::S64) => I::handler::<whole::ShiftRight<i64>>(),
        (BinaryOp::Shr, _) if width == Width::W16 => I::handler::<whole::ShiftRight<u16>>(),
        (BinaryOp::Shr, _) if width == Width::W32 => I::handler::<whole::ShiftRight<u32>>(),
        (BinaryOp::Shr, _) => I::handler::<whole::ShiftRight<u64>>(),
        _ => return None,
    })
}

fn ternary<I: Isa>(op: TernaryOp, ty: Type) -> Chosen {
    let width = Width::of(ty);
    let same = |run: Handler| Some((run, width, width));
    match (op, ty) {
        (TernaryOp::Fma, Type::F32) => same(three::<I, f32, f32, float::FmaF32>()),
        (TernaryOp::Fma, Type::F64) => same(three::<I, f64, f64, float::FmaF64>()),
        (TernaryOp::ProductMinus, Type::F32) => same(three::<I, f32, f32, float::ProductMinusF32>()),
        (TernaryOp::ProductMinus, Type::F64) => same(three::<I, f64, f64, float::ProductMinusF64>()),
        (TernaryOp::MinusProduct, Type::F32) => same(three::<I, f32, f32, float::MinusProductF32>()),
        (TernaryOp::MinusProduct, Type::F64) => same(three::<I, f64, f64, float::MinusProductF64>()),
        (TernaryOp::Fma, Type::F16) => same(I::handler::<narrow::FmaSingle<narrow::F16>>()),
        (TernaryOp::Fma, Type::F16x2) => same(I::handler::<narrow::FmaPair<narrow::F16>>()),
        (TernaryOp::Fma, Type::Bf16) => same(I::handler::<narrow::FmaSingle<narrow::Bf16>>()),
        (TernaryOp::Fma, Type::Bf16x2) => same(I::handler::<narrow::FmaPair<narrow::Bf16>>()),
        (TernaryOp::Mad(MulPart::Low), _) if is_whole(ty) => same(match width {
            Width::W16 => three::<I, u16, u16, whole::MadLow>(),
            Width::W32 => three::<I, u32, u32, whole::MadLow>(),
            _ => three::<I, u64, u64, whole::MadLow>(),
        }),
        (TernaryOp::Mad(MulPart::Wide), Type::U32) => Some((I::handler::<whole::MadWideU32>(), Width::W32, Width::W64)),
        (TernaryOp::Mad(MulPart::Wide), Type::S32) => Some((I::handler::<whole::MadWideS32>(), Width::W32, Width::W64)),
        (TernaryOp::Prmt, _) => same(I::handler::<whole::Permute>()),
        (TernaryOp::PrmtMode(_), _) => same(I::handler::<whole::PermuteMode>()),
        _ => None,
    }
}

fn compare<I: Isa>(comparison: Comparison, ty: Type) -> Option<Handler> {
    macro_rules! of {
        ($number:ty, $ne:ty) => {
            match comparison {
                Comparison::Eq => test::<I, $number, whole::Eq>(),
                Comparison::Ne => test::<I, $number, $ne>(),
                Comparison::Lt => test::<I, $number, whole::Lt>(),
                Comparison::Le => test::<I, $number, whole::Le>(),
                Comparison::Gt => test::<I, $number, whole::Gt>(),
                Comparison::Ge => test::<I, $number, whole::Ge>(),
                _ => return None,
            }
        };
    }
    Some(match ty {
        Type::U16 | Type::B16 => of!(u16, whole::Ne),
        Type::U32 | Type::B32 => of!(u32, whole::Ne),
        Type::U64 | Type::B64 => of!(u64, whole::Ne),
        Type::S16 => of!(i16, whole::Ne),
        Type::S32 => of!(i32, whole::Ne),
        Type::S64 => of!(i64, whole::Ne),
        Type::F32 => of!(f32, whole::LessOrGreater),
        Type::F64 => of!(f64, whole::LessOrGreater),
        _ => return None,
    })
}

fn convert_whole<I: Isa>(from: Type, into: Type) -> Chosen {
    use Type::{S16, S32, S64, U16, U32, U64};
    Some(match (from, into) {
        (U16, U32 | S32) => (one::<I, u16, u32, whole::U32FromU16>(), Width::W16, Width::W32),
        (U16, U64 | S64) => (one::<I, u16, u64, whole::U64FromU16>(), Width::W16, Width::W64),
        (U32, U64 | S64) => (one::<I, u32, u64, whole::U64FromU32>(), Width::W32, Width::W64),
        (S16, U32 | S32) => (one::<I, i16, i32, whole::S32FromS16>(), Width::W16, Width::W32),
        (S16, U64 | S64) => (one::<I, i16, i64, whole::S64FromS16>(), Width::W16, Width::W64),
        (S32, U64 | S64) => (one::<I, i32, i64, whole::S64FromS32>(), Width::W32, Width::W64),
        (U32 | S32, U16 | S16) => (one::<I, u32, u16, whole::U16FromU32>(), Width::W32, Width::W16),
        (U64 | S64, U16 | S16) => (one::<I, u64, u16, whole::U16FromU64>(), Width::W64, Width::W16),
        (U64 | S64, U32 | S32) => (one::<I, u64, u32, whole::U32FromU64>(), Width::W64, Width::W32),
        _ => return None,
    })
}

fn convert_float<I: Isa>(rounding: Rounding, from: Type, into: Type) -> Chosen {
    use Type::{Bf16, F16, F32, F64, S32, U32};
    if !matches!(rounding, Rounding::None | Rounding::Nearest) {
        return None;
    }
    Some(match (from, into) {
        (F16, F32) => (I::handler::<narrow::Widen<narrow::F16>>(), Width::W16, Width::W32),
        (Bf16, F32) => (I::handler::<narrow::Widen<narrow::Bf16>>(), Width::W16, Width::W32),
        (F32, F16) => (I::handler::<narrow::Narrow<narrow::F16>>(), Width::W32, Width::W16),
        (F32, Bf16) => (I::handler::<narrow::Narrow<narrow::Bf16>>(), Width::W32, Width::W16),
        (F32, F64) => (one::<I, f32, f64, float::F64FromF32>(), Width::W32, Width::W64),
        (F64, F32) => (one::<I, f64, f32, float::F32FromF64>(), Width::W64, Width::W32),
        (U32, F32) => (one::<I, u32, f32, float::F32FromU32>(), Width::W32, Width::W32),
        (S32, F32) => (one::<I, i32, f32, float::F32FromS32>(), Width::W32, Width::W32),
        (U32, F64) => (one::<I, u32, f64, float::F64FromU32>(), Width::W32, Width::W64),
        (S32, F64) => (one::<I, i32, f64, float::F64FromS32>(), Width::W32, Width::W64),
        _ => return None,
    })
}
