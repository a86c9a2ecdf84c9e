//! Faults in combining two values. Each is a function from a hop to the wrong result.
use super::named::*;
use super::site::Site;
use super::values::{is_nan, leaves_range, negative};
use super::{Fault, aimed, wanted};
use crate::algo::{Operand, Step};
use crate::arith::{self, Combine, Type};
use crate::op::Reduction;
use half::bf16;

/// Two values that become one.
struct Hop<'a> {
    site: &'a Site,
    step: &'a Step,
    operator: Combine,
    message: &'a [u8],
    other: &'a [u8],
    /// The right result.
    sound: &'a [u8],
}

type Wrong = fn(&Hop<'_>) -> Option<Vec<u8>>;

const FAULTS: &[(Fault, Wrong)] = &[
    (F04, tail_with_another_operator),
    (F04B, tail_as_bits),
    (F21, left_out),
    (F23, product_as_sum),
    (F23B, minimum_as_maximum),
    (F24, divided_at_every_hop),
    (F26C, multiplied_at_every_hop),
    (F27, single_as_bf16),
    (F27B, half_as_bf16),
    (F27C, double_as_single),
    (F29, nan_wins),
    (F29B, fp8_leaves_range),
];

impl Site {
    pub(super) fn combined(&self, step: &Step, operator: Combine, message: &mut [u8], other: &[u8]) {
        let mut sound = message.to_vec();
        arith::combine(self.spec.ty, operator, &mut sound, other);
        let hop = Hop { site: self, step, operator, message, other, sound: &sound };
        let wrong = FAULTS
            .iter()
            .filter(|(fault, _)| wanted(*fault))
            .find_map(|(fault, wrong)| wrong(&hop).filter(|wrong| *wrong != sound && self.hit(*fault)));
        if wrong.is_none() {
            self.miscalculated(operator, message, other, &mut sound);
        }
        message.copy_from_slice(&wrong.unwrap_or(sound));
    }

    /// F22: one rank replaces those above a power of two, and adds its own value twice.
    pub(super) fn counted_twice(&self, step: &Step, data: &mut [u8]) {
        let n = self.context.n;
        let surplus = n > 2 && !n.is_power_of_two() && self.context.rank == aimed(F22).unwrap_or(n - 1);
        let operator = self.spec.reduction.map(Reduction::combine);
        if let Some(operator @ (Combine::Sum | Combine::Prod)) = operator
            && step.own
            && surplus
            && wanted(F22)
        {
            let mut twice = data.to_vec();
            arith::combine(self.spec.ty, operator, &mut twice, data);
            if twice != data && self.hit(F22) {
                data.copy_from_slice(&twice);
            }
        }
    }
}

impl Hop<'_> {
    fn ty(&self) -> Type {
        self.site.spec.ty
    }

    fn combine(&self, operator: Combine) -> Vec<u8> {
        let mut value = self.message.to_vec();
        arith::combine(self.ty(), operator, &mut value, self.other);
        value
    }

    /// The right result, except for elements that `wrong` replaces; it receives message, other and right value.
    fn each(&self, wrong: impl Fn(&[u8], &[u8], &mut [u8])) -> Vec<u8> {
        let size = self.ty().size();
        let mut value = self.sound.to_vec();
        let pairs = self.message.chunks_exact(size).zip(self.other.chunks_exact(size));
        for ((message, other), value) in pairs.zip(value.chunks_exact_mut(size)) {
            wrong(message, other, value);
        }
        value
    }

    /// The right result up to the last whole pack, followed by `tail`.
    fn with_tail(&self, tail: &[u8]) -> Vec<u8> {
        let start = self.site.in_packs().saturating_sub(self.site.inside()) * self.ty().size();
        let start = start.min(self.sound.len());
        [&self.sound[..start], &tail[start..]].concat()
    }
}

fn tail_with_another_operator(hop: &Hop<'_>) -> Option<Vec<u8>> {
    let operator = match hop.operator {
        Combine::Sum => Combine::Prod,
        Combine::Prod => Combine::Sum,
        Combine::Max => Combine::Min,
        Combine::Min => Combine::Max,
    };
    Some(hop.with_tail(&hop.combine(operator)))
}

fn tail_as_bits(hop: &Hop<'_>) -> Option<Vec<u8>> {
    let bits = match hop.ty() {
        Type::E4m3 | Type::E5m2 => Type::U8,
        Type::F32 => Type::U32,
        Type::F64 => Type::U64,
        // There are no 16-bit integers; the bytes are added one by one.
        Type::F16 | Type::Bf16 => Type::U8,
        _ => return None,
    };
    let mut tail = hop.message.to_vec();
    arith::combine(bits, Combine::Sum, &mut tail, hop.other);
    (hop.operator == Combine::Sum).then(|| hop.with_tail(&tail))
}

fn left_out(hop: &Hop<'_>) -> Option<Vec<u8>> {
    match hop.step.source {
        Some(Operand::Scratch) => Some(hop.other.to_vec()),
        _ if hop.step.last => Some(hop.message.to_vec()),
        _ => None,
    }
}

fn product_as_sum(hop: &Hop<'_>) -> Option<Vec<u8>> {
    (hop.operator == Combine::Prod).then(|| hop.combine(Combine::Sum))
}

fn minimum_as_maximum(hop: &Hop<'_>) -> Option<Vec<u8>> {
    let ty = hop.ty();
    let unsigned = matches!(ty, Type::U8 | Type::U32 | Type::U64);
    let size = ty.size();
    let most = (hop.operator == Combine::Min).then(|| hop.combine(Combine::Max))?;
    let mut value = hop.sound.to_vec();
    let pairs = hop.message.chunks_exact(size).zip(hop.other.chunks_exact(size));
    for (((message, other), most), value) in pairs.zip(most.chunks_exact(size)).zip(value.chunks_exact_mut(size)) {
        if unsigned || negative(message) || negative(other) {
            value.copy_from_slice(most);
        }
    }
    Some(value)
}

fn divided_at_every_hop(hop: &Hop<'_>) -> Option<Vec<u8>> {
    let n = hop.site.context.n;
    if hop.site.spec.reduction != Some(Reduction::Average) {
        return None;
    }
    let mut value = hop.sound.to_vec();
    match hop.ty().reciprocal(n) {
        Some(reciprocal) => arith::scale(hop.ty(), &mut value, &reciprocal),
        // The last division is the one that belongs there.
        None if !hop.step.last => arith::divide(hop.ty(), &mut value, n),
        None => {}
    }
    Some(value)
}

fn multiplied_at_every_hop(hop: &Hop<'_>) -> Option<Vec<u8>> {
    let scalar = hop.site.premul.filter(|_| hop.site.spec.reduction == Some(Reduction::PreMulSum))?;
    let mut value = hop.message.to_vec();
    arith::scale(hop.ty(), &mut value, &scalar);
    arith::combine(hop.ty(), hop.operator, &mut value, hop.other);
    Some(value)
}

/// Rounds the values that are passed on; the result itself has the width of its type.
fn narrowed(hop: &Hop<'_>, ty: Type, round: impl Fn(&mut [u8])) -> Option<Vec<u8>> {
    let sum = hop.operator == Combine::Sum && !hop.step.last && hop.ty() == ty;
    sum.then(|| hop.each(|_, _, value| round(value)))
}

fn single_as_bf16(hop: &Hop<'_>) -> Option<Vec<u8>> {
    narrowed(hop, Type::F32, |value| {
        if let Ok(bytes) = <[u8; 4]>::try_from(&*value) {
            value.copy_from_slice(&bf16::from_f32(f32::from_ne_bytes(bytes)).to_f32().to_ne_bytes());
        }
    })
}

fn half_as_bf16(hop: &Hop<'_>) -> Option<Vec<u8>> {
    narrowed(hop, Type::F16, |value| {
        if let Ok(bytes) = <[u8; 2]>::try_from(&*value) {
            let narrow = bf16::from_f32(half::f16::from_ne_bytes(bytes).to_f32());
            value.copy_from_slice(&half::f16::from_f32(narrow.to_f32()).to_ne_bytes());
        }
    })
}

fn double_as_single(hop: &Hop<'_>) -> Option<Vec<u8>> {
    narrowed(hop, Type::F64, |value| {
        if let Ok(bytes) = <[u8; 8]>::try_from(&*value) {
            value.copy_from_slice(&f64::from(f64::from_ne_bytes(bytes) as f32).to_ne_bytes());
        }
    })
}

/// `message < other ? message : other`, and the same the other way round: a NaN on the right side wins.
fn nan_wins(hop: &Hop<'_>) -> Option<Vec<u8>> {
    let ty = hop.ty();
    matches!(hop.operator, Combine::Min | Combine::Max).then(|| {
        hop.each(|_, other, value| {
            if is_nan(ty, other) {
                value.copy_from_slice(other);
            }
        })
    })
}

fn fp8_leaves_range(hop: &Hop<'_>) -> Option<Vec<u8>> {
    let ty = hop.ty();
    let tiny = matches!(ty, Type::E4m3 | Type::E5m2) && hop.operator == Combine::Sum;
    tiny.then(|| {
        hop.each(|message, other, value| {
            if let (&[a], &[b], [value]) = (message, other, value)
                && let Some(outside) = leaves_range(ty, a, b)
            {
                *value = outside;
            }
        })
    })
}
