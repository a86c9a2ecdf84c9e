//! Other correct ways to compute what NCCL promises, selected by COLLSPEC_SOFT_ARITHMETIC. Running under each of them shows
//! that the judge accepts every result that NCCL's documentation allows, not only those of this library's default.
use super::{Combine, Scalar, Type, combine, scale};
use std::str::FromStr;

/// The way an average of floats divides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Average {
    /// Each input times 1/n in the type.
    #[default]
    Before,
    /// The sum times 1/n.
    After,
    /// The sum divided by n.
    Divide,
    /// Each input divided by n.
    DivideFirst,
}

/// The zero that min and max return for zeros of both signs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zero {
    /// 0 of max and -0 of min, as NCCL.
    #[default]
    BySign,
    /// The zero that came last.
    Last,
    /// Always 0.
    Positive,
    /// Always -0.
    Negative,
}

/// One combination of these choices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// Sums and products have partial results of a wider type: f64 for f32; f32 for f16, bf16 and 8-bit types.
    pub wide: bool,
    /// Sums of 8-bit types have partial results of f16 instead; `wide` must be set.
    pub half: bool,
    /// With `wide`: a scaled input is rounded to its type before it is added.
    pub narrow_products: bool,
    /// The division of averages.
    pub average: Average,
    /// The zero that min and max return.
    pub zero: Zero,
}

/// The error for a text that is not a list of these words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not one of wide, wide=f16, narrow-products, average=after, average=divide, average=divide-first, zero=last, \
     zero=positive, zero=negative"
)]
pub struct NoManner(String);

impl FromStr for Manner {
    type Err = NoManner;

    /// Reads words separated by commas.
    fn from_str(text: &str) -> Result<Self, NoManner> {
        let mut manner = Self::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match word {
                "wide" => manner.wide = true,
                "wide=f16" => (manner.wide, manner.half) = (true, true),
                "narrow-products" => manner.narrow_products = true,
                "average=after" => manner.average = Average::After,
                "average=divide" => manner.average = Average::Divide,
                "average=divide-first" => manner.average = Average::DivideFirst,
                "zero=last" => manner.zero = Zero::Last,
                "zero=positive" => manner.zero = Zero::Positive,
                "zero=negative" => manner.zero = Zero::Negative,
                _ => return Err(NoManner(word.to_owned())),
            }
        }
        Ok(manner)
    }
}

impl Manner {
    /// The type of partial results.
    pub(crate) fn accumulator(self, ty: Type, operator: Combine) -> Type {
        match ty {
            _ if !self.wide || !matches!(operator, Combine::Sum | Combine::Prod) => ty,
            // Products of 8 bits soon leave the range of f16.
            _ if ty.is_tiny_float() && self.half && operator == Combine::Sum => Type::F16,
            Type::F16 | Type::Bf16 => Type::F32,
            _ if ty.is_tiny_float() => Type::F32,
            Type::F32 => Type::F64,
            _ => ty,
        }
    }

    /// A rank's own elements as partial results; `scalar` is the factor they are multiplied by (1/n for an average).
    pub(crate) fn widen_and_scale(
        self,
        ty: Type,
        acc: Type,
        n: usize,
        average: bool,
        scalar: Option<Scalar>,
        data: &mut Vec<u8>,
    ) {
        let average = average && scalar.is_some();
        match (average, self.average) {
            (true, Average::After | Average::Divide) => *data = convert(ty, acc, data),
            (true, Average::DivideFirst) => {
                *data = convert(ty, acc, data);
                quotients(acc, data, n);
            }
            _ => match scalar {
                Some(scalar) if self.narrow_products || acc == ty => {
                    scale(ty, data, &scalar);
                    *data = convert(ty, acc, data);
                }
                Some(scalar) => {
                    let mut wide = Scalar::default();
                    let size = acc.size();
                    wide[..size].copy_from_slice(&convert(ty, acc, &scalar[..ty.size()]));
                    *data = convert(ty, acc, data);
                    scale(acc, data, &wide);
                }
                None => *data = convert(ty, acc, data),
            },
        }
        if self.narrow_products && acc != ty {
            *data = convert(ty, acc, &convert(acc, ty, data));
        }
    }

    /// Combines two partial results.
    pub(crate) fn join(self, acc: Type, operator: Combine, message: &mut [u8], other: &[u8]) {
        let zeros = match operator {
            Combine::Min | Combine::Max if self.zero != Zero::BySign => Some(message.to_vec()),
            _ => None,
        };
        combine(acc, operator, message, other);
        let Some(first) = zeros else { return };
        let size = acc.size();
        let pairs = first.chunks_exact(size).zip(other.chunks_exact(size));
        for (result, (first, other)) in message.chunks_exact_mut(size).zip(pairs) {
            let is_zero = |bytes: &[u8]| number(acc, bytes) == Some(0.0);
            if is_zero(result) && is_zero(first) && is_zero(other) {
                let negative = |bytes: &[u8]| number(acc, bytes).is_some_and(f64::is_sign_negative);
                let other_wins = match self.zero {
                    Zero::BySign => return,
                    Zero::Last => true,
                    Zero::Positive => negative(first),
                    Zero::Negative => !negative(first),
                };
                result.copy_from_slice(if other_wins { other } else { first });
            }
        }
    }

    /// The whole reduction of `n` ranks in its type.
    pub(crate) fn finish(self, ty: Type, acc: Type, n: usize, average: bool, data: &mut Vec<u8>) {
        match (acc.reciprocal(n).filter(|_| average), self.average) {
            (Some(reciprocal), Average::After) => scale(acc, data, &reciprocal),
            (Some(_), Average::Divide) => quotients(acc, data, n),
            (None, _) if average => super::divide(ty, data, n),
            _ => {}
        }
        *data = convert(acc, ty, data);
    }
}

/// A floating-point number; `None` for integers.
fn number(ty: Type, bytes: &[u8]) -> Option<f64> {
    let mut scalar = Scalar::default();
    scalar.get_mut(..bytes.len())?.copy_from_slice(bytes);
    super::value(ty, &scalar)
}

/// The same numbers in another floating-point type, rounded to nearest; a NaN loses its payload.
fn convert(from: Type, to: Type, data: &[u8]) -> Vec<u8> {
    if from == to {
        return data.to_vec();
    }
    let mut out = Vec::with_capacity(data.len() / from.size() * to.size());
    for bytes in data.chunks_exact(from.size()) {
        let Some(value) = number(from, bytes) else { return data.to_vec() };
        let single = value as f32;
        let Some(nearest) = to.nearest(value, single) else { return data.to_vec() };
        out.extend(nearest.iter().take(to.size()));
    }
    out
}

/// Divides every element by `n`, rounding to the type.
fn quotients(ty: Type, data: &mut Vec<u8>, n: usize) {
    match ty {
        Type::F64 => {
            for bytes in data.as_chunks_mut::<8>().0 {
                *bytes = (f64::from_ne_bytes(*bytes) / n as f64).to_ne_bytes();
            }
        }
        Type::F32 => {
            for bytes in data.as_chunks_mut::<4>().0 {
                *bytes = (f32::from_ne_bytes(*bytes) / n as f32).to_ne_bytes();
            }
        }
        _ => {
            let mut wide = convert(ty, Type::F32, data);
            quotients(Type::F32, &mut wide, n);
            *data = convert(Type::F32, ty, &wide);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_understood_and_others_named() {
        let manner: Manner = "wide=f16, average=divide,zero=last".parse().unwrap();
        assert!(manner.wide && manner.half && manner.average == Average::Divide && manner.zero == Zero::Last);
        assert_eq!("".parse(), Ok(Manner::default()));
        assert!("wide,divide".parse::<Manner>().unwrap_err().to_string().starts_with("`divide` is not one of wide"));
    }

    #[test]
    fn a_wide_sum_keeps_what_single_steps_lose() {
        let manner: Manner = "wide".parse().unwrap();
        let values = [1.0f32, 2f32.powi(-24), 2f32.powi(-24)];
        let acc = manner.accumulator(Type::F32, Combine::Sum);
        assert_eq!(acc, Type::F64);
        let mut sum = Vec::new();
        for value in values {
            let mut own = value.to_ne_bytes().to_vec();
            manner.widen_and_scale(Type::F32, acc, 3, false, None, &mut own);
            if sum.is_empty() { sum = own } else { manner.join(acc, Combine::Sum, &mut sum, &own) }
        }
        manner.finish(Type::F32, acc, 3, false, &mut sum);
        assert_eq!(sum, (1.0f32 + 2f32.powi(-23)).to_ne_bytes());
    }

    #[test]
    fn the_zero_is_the_one_asked_for() {
        let words =
            [("", [-0.0f32, 0.0]), ("zero=last", [0.0; 2]), ("zero=positive", [0.0; 2]), ("zero=negative", [-0.0; 2])];
        for (word, wanted) in words {
            let manner: Manner = word.parse().unwrap();
            for (operator, want) in [Combine::Min, Combine::Max].into_iter().zip(wanted) {
                let mut message = (-0.0f32).to_ne_bytes();
                manner.join(Type::F32, operator, &mut message, &0f32.to_ne_bytes());
                assert_eq!(message, want.to_ne_bytes(), "{word}");
            }
        }
    }
}
