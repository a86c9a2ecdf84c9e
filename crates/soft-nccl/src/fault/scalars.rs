//! Faults of averages and of premultiplied sums: the wrong scalar, the wrong divisor, the wrong place.
use super::named::*;
use super::site::Site;
use super::{Fault, aimed, wanted};
use crate::algo::Step;
use crate::arith::{self, Scalar, Type};
use crate::op::Reduction;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Rank 0's scalars, by operation.
static FIRST: LazyLock<Mutex<HashMap<(u64, u64), Scalar>>> = LazyLock::new(Mutex::default);

/// Forgets rank 0's scalars, because the next call belongs to another program.
pub(super) fn forget() {
    FIRST.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

impl Site {
    /// The wrong divisors of an average, in place of the number of ranks.
    fn divisors(&self) -> [(Fault, usize); 5] {
        let n = self.context.n;
        let later = self.inside() >= self.context.chunk;
        [
            (F23C, 1),
            (F24B, if later { 1 } else { n }),
            (F24C, n.saturating_sub(1).max(1)),
            (F24D, self.block()),
            (F24E, self.context.world_size),
        ]
    }

    /// F23c, F24b to F24e and F26: the factor for the rank's own contribution.
    pub(super) fn misread(&self, step: &Step, scalar: Option<Scalar>) -> Option<Scalar> {
        let right = scalar.filter(|_| step.own)?;
        let ty = self.spec.ty;
        match self.spec.reduction {
            Some(Reduction::Average) => {
                let wrong = self.divisors().into_iter().find_map(|(fault, by)| {
                    let wrong = ty.reciprocal(by).filter(|_| wanted(fault))?;
                    (wrong != right && self.hit(fault)).then_some(wrong)
                });
                wrong.or(scalar)
            }
            Some(Reduction::PreMulSum) => {
                if let Some(wrong) = self.narrow(&right).filter(|wrong| *wrong != right)
                    && self.hit(F26)
                {
                    return Some(wrong);
                }
                self.of_rank_0(step, right).map(|scalar| self.mistaken(scalar))
            }
            _ => scalar,
        }
    }

    /// A scalar whose bytes are read with another width.
    fn narrow(&self, scalar: &Scalar) -> Option<Scalar> {
        let ty = self.spec.ty;
        let value = arith::value(ty, scalar).filter(|_| wanted(F26))?;
        let mut wrong = Scalar::default();
        match ty {
            Type::F32 => wrong[..4].copy_from_slice(&value.to_le_bytes()[..4]),
            _ => {
                let size = ty.size().min(4);
                wrong[..size].copy_from_slice(&(value as f32).to_le_bytes()[..size]);
            }
        }
        Some(wrong)
    }

    /// F26b. Sums are multiplied at the end, when they contain rank 0's contribution and its scalar is therefore known. Aimed at
    /// one rank, that rank multiplies wrongly where it is the last to add.
    fn of_rank_0(&self, step: &Step, right: Scalar) -> Option<Scalar> {
        if self.context.n == 1 || !wanted(F26B) {
            return Some(right);
        }
        if self.context.rank == 0 {
            FIRST.lock().unwrap_or_else(PoisonError::into_inner).insert(self.operation(), right);
        }
        match aimed(F26B) {
            None => (!self.hit(F26B)).then_some(right),
            Some(_) => {
                let first = self.first_scalar().filter(|first| step.last && *first != right && self.hit(F26B));
                first.or(Some(right))
            }
        }
    }

    fn first_scalar(&self) -> Option<Scalar> {
        FIRST.lock().unwrap_or_else(PoisonError::into_inner).get(&self.operation()).copied()
    }

    /// F23c, F24b to F24e, F25 and F26b: alters the result of a whole reduction.
    pub(super) fn finished(&self, n: usize, average: bool, value: &mut [u8]) {
        let ty = self.spec.ty;
        if self.spec.reduction == Some(Reduction::PreMulSum)
            && n > 1
            && aimed(F26B).is_none()
            && wanted(F26B)
            && self.hit(F26B)
            && let Some(scalar) = self.first_scalar().or(self.premul)
        {
            return arith::scale(ty, value, &scalar);
        }
        if !average || ty.reciprocal(1).is_some() {
            return;
        }
        let mut right = value.to_vec();
        arith::divide(ty, &mut right, n);
        let by = self.divisors().into_iter().filter(|(fault, _)| wanted(*fault)).find_map(|(fault, by)| {
            let mut wrong = value.to_vec();
            arith::divide(ty, &mut wrong, by);
            (wrong != right && self.hit(fault)).then_some(wrong)
        });
        let wrong = by.or_else(|| {
            let zero = vec![0; value.len()];
            (n > 1 && right != zero && self.hit(F25)).then_some(zero)
        });
        let wrong = wrong.or_else(|| {
            let wrong = wanted(F25B).then(|| through_f32(ty, value, n))?;
            (wrong != right && self.hit(F25B)).then_some(wrong)
        });
        let sum = value.to_vec();
        let sound = wrong.is_none();
        value.copy_from_slice(&wrong.unwrap_or(right));
        if sound {
            self.misdivided(n, &sum, value);
        }
    }
}

/// The quotients as single precision has them.
fn through_f32(ty: Type, data: &[u8], n: usize) -> Vec<u8> {
    macro_rules! quotients {
        ($t:ty) => {
            data.as_chunks::<{ size_of::<$t>() }>()
                .0
                .iter()
                .flat_map(|bytes| ((<$t>::from_ne_bytes(*bytes) as f32 / n as f32) as $t).to_ne_bytes())
                .collect()
        };
    }
    match ty {
        Type::I8 => quotients!(i8),
        Type::U8 => quotients!(u8),
        Type::I32 => quotients!(i32),
        Type::U32 => quotients!(u32),
        Type::I64 => quotients!(i64),
        Type::U64 => quotients!(u64),
        _ => data.to_vec(),
    }
}
