//! nccl-tests (NVIDIA/nccl-tests, 2.19): `verifiable/verifiable.cu` for inputs, expectations and comparison,
//! `src/common.cu` for the order of things, `src/OPERATION.cu` for seeds, counts and who is looked at.
//!
//! Inputs are functions of seed, element, rank, number of ranks, type and reduction, made so that no order of a
//! floating-point reduction ever rounds. The result is compared by bits; the float average may be two units off.
//! Looked at: every rank's result, and the receive buffer of ranks off the root, which must stay as it was.
//!
//! Not looked at: guards, inputs, whether ranks agree where all are accepted, in-place send_recv and all_to_all (there are none
//! here). Sizes of all_gather, reduce_scatter, gather, scatter, all_to_all and of all_to_all_v's pieces are rounded down to
//! 16 bytes per rank. `-u` shifts send and receive buffer alike.
//!
//! The random source and the permutation of ranks are this program's own; their use is the suite's.
use super::floats::{Fold, divide, fold, is_avg};
use super::recipe::{Reducing, SingleOperation};
use super::{Call, Refused, Sight, Spot, Suite};
use crate::num::{DType, Format, encode_f64, encode_int, mask};
use crate::ops::{Kind, NcclCall};
use crate::plan::Reduction;

/// See the module.
pub(super) struct NcclTests;

/// Largest distance of bit patterns for a float average.
const AVG_UNITS: u64 = 2;
/// Bytes to which block sizes are rounded down.
const PACK: u64 = 16;

impl Suite for NcclTests {
    fn adapt(&self, mut recipe: SingleOperation) -> Result<SingleOperation, Refused> {
        let pack = PACK / recipe.dtype.size() as u64;
        let whole = |count: u64| count / pack * pack;
        match &recipe.op.kind {
            Kind::Collective(c) => match c.call {
                NcclCall::AllReduce | NcclCall::Reduce | NcclCall::Broadcast => {}
                _ => recipe.counts = recipe.counts.map(whole),
            },
            Kind::SendRecv => {}
            _ if recipe.op.name == "all_to_all_v" => recipe.counts = recipe.counts.map(whole),
            _ => return Err(Refused::Lacks(recipe.op.name)),
        }
        if recipe.counts.empty() {
            return Err(Refused::Zero);
        }
        if let Some(Reducing::PreMulSum(scalar, device)) = &mut recipe.reduce {
            // always handed over by the host
            (*scalar, *device) = ("1 + rank % 2".to_owned(), false);
        }
        Ok(recipe)
    }

    fn blank(&self) -> u8 {
        0
    }

    fn input(&self, call: &Call<'_>, spot: Spot) -> u64 {
        let Some(reduce) = call.reduce.filter(|_| call.n > 1) else { return moved(call, spot) };
        let Some(format) = Format::of(call.dtype) else {
            let bits = integer(call.dtype, call.seed, spot.index, spot.rank);
            return if Fold::of(reduce) == Fold::Prod && bits == 0 { 1 } else { bits };
        };
        let me = Place { n: call.n, rank: spot.rank, seed: call.seed, index: spot.index };
        match (reduce, Fold::of(reduce)) {
            _ if is_avg(reduce) => average(call.dtype, &format, me),
            (Reduction::PreMulSum(_), _) => premultiplied(&format, me).input,
            (_, Fold::Sum) => sum(&format, me).input,
            (_, Fold::Prod) => product(&format, me).input,
            (_, Fold::Min | Fold::Max) => middle(&format, hash(cross(spot.index, spot.rank), call.seed)),
        }
    }

    fn reduced(&self, call: &Call<'_>, index: u64, inputs: &[u64]) -> u64 {
        let first = inputs.first().copied().unwrap_or(0);
        let Some(reduce) = call.reduce.filter(|_| call.n > 1) else { return first };
        let me = Place { n: call.n, rank: 0, seed: call.seed, index };
        match (Format::of(call.dtype), Fold::of(reduce)) {
            (Some(_), Fold::Sum) if is_avg(reduce) => average_expected(call.dtype, me),
            (Some(format), Fold::Sum) if matches!(reduce, Reduction::PreMulSum(_)) => {
                premultiplied(&format, me).expected
            }
            (Some(format), Fold::Sum) => sum(&format, me).expected,
            (Some(format), Fold::Prod) => product(&format, me).expected,
            (format, how) => {
                let scaled = |(rank, bits): (usize, &u64)| match reduce {
                    Reduction::PreMulSum(_) if format.is_none() => {
                        fold(call.dtype, Fold::Prod, *bits, 1 + rank as u64 % 2)
                    }
                    _ => *bits,
                };
                let column = inputs.iter().enumerate().map(scaled);
                let total = column.reduce(|a, b| fold(call.dtype, how, a, b)).unwrap_or(0);
                if is_avg(reduce) { divide(call.dtype, total, call.n) } else { total }
            }
        }
    }

    fn sight(&self, call: &Call<'_>, rank: usize) -> Sight {
        match &call.op.kind {
            Kind::Collective(c) if !c.writers.includes(rank, call.root) => Sight::Unchanged,
            _ => Sight::Result,
        }
    }

    fn accepts(&self, call: &Call<'_>, want: u64, got: u64) -> bool {
        let units = if call.dtype.is_float() && call.reduce.is_some_and(is_avg) { AVG_UNITS } else { 0 };
        want.abs_diff(got) <= units
    }

    fn sweep(&self) -> Vec<(String, String)> {
        super::sweep::nccl_tests()
    }
}

/// Which value is wanted.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub n: usize,
    pub rank: usize,
    pub seed: u64,
    pub index: u64,
}

/// What a rank puts in, and what must come out of all together.
pub(super) struct Both {
    pub input: u64,
    pub expected: u64,
}

/// A step of the random source.
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

fn hash(a: u64, b: u64) -> u64 {
    mix(mix(a).wrapping_add(b))
}

/// Element and rank crossed by exclusive or: neighbouring elements of neighbouring ranks hold the same values.
fn cross(index: u64, rank: usize) -> u64 {
    index ^ index << 16 ^ rank as u64
}

/// A random number below `bound`, from a random word.
fn below(word: u64, bound: u64) -> u64 {
    ((u128::from(word) * u128::from(bound)) >> 64) as u64
}

/// Two multiplications with one shift between, as weak as the suite's own: neighbouring ranks' low bits stay related, so that half of the
/// values are even at every element, and products of many ranks in few bits are zero more often than chance would have it.
fn integer(dtype: DType, seed: u64, index: u64, rank: usize) -> u64 {
    let word = cross(index, rank).wrapping_add(mix(seed)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word ^ word >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9) & mask(dtype)
}

/// Data movement: as for one rank alone, the source's rank being in the seed or in the index.
fn moved(call: &Call<'_>, spot: Spot) -> u64 {
    let (rank, k) = (spot.rank as u64, call.k);
    let (seed, index) = match &call.op.kind {
        Kind::Collective(c) => match c.call {
            NcclCall::AllGather | NcclCall::AlltoAll => (33 * call.seed + rank, spot.index),
            NcclCall::Gather => (call.seed, rank * k + spot.index),
            _ => (call.seed, spot.index),
        },
        Kind::SendRecv => (call.seed, rank * spot.piece + spot.index),
        _ => (33 * call.seed + rank, spot.index),
    };
    match Format::of(call.dtype) {
        Some(format) => middle(&format, hash(cross(index, 0), seed)),
        None => mix(seed ^ index) >> (64 - call.dtype.bits()),
    }
}

/// Bits from sign, exponent field and fraction.
fn code(format: &Format, negative: bool, exponent: u64, fraction: u64) -> u64 {
    let low = (1 << format.fraction) - 1;
    format.signed(negative, exponent << format.fraction | fraction & low)
}

/// Bits of the exponent field.
fn exponent_bits(format: &Format) -> u32 {
    format.sign_bit - format.fraction
}

/// Any sign and fraction, the exponent in the middle half of its range.
fn middle(format: &Format, word: u64) -> u64 {
    let width = exponent_bits(format);
    let exponent = (word >> 1 & ((1 << (width - 1)) - 1)) + (1 << (width - 2));
    code(format, word & 1 == 1, exponent, mix(word))
}

/// `mantissa` in units of the last place of numbers with this exponent field; a normal number or zero.
fn scaled(format: &Format, negative: bool, exponent: u64, mantissa: u64) -> u64 {
    if mantissa == 0 {
        return 0;
    }
    let shift = format.fraction + 1 - (64 - mantissa.leading_zeros());
    code(format, negative, exponent - u64::from(shift), mantissa << shift)
}

/// An exponent field with room below for every smaller mantissa.
fn exponent(format: &Format, word: u64) -> u64 {
    let low = u64::from(1 + format.fraction);
    let high = (1 << exponent_bits(format)) - 1;
    low + below(word, high - low)
}

/// A random permutation of the ranks, the same for all of an element: where `rank` comes.
fn shuffled(n: usize, rank: usize, word: u64) -> usize {
    let n = n.max(1) as u64;
    let mut factor = 1 + below(mix(word ^ 0x5555), n);
    while gcd(factor, n) != 1 {
        factor += 1;
    }
    ((rank as u64 * factor + below(word, n)) % n) as usize
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A whole number in the upper half up to `most`, cut among `n` places: groups of equal size give 1, 2, 3, ..., and the last place the
/// rest. Unlike `other`, if there is one. Gives the share of `place` and the whole.
fn partition(n: usize, place: usize, word: u64, most: u64, wide: bool, other: Option<u64>) -> (u64, u64) {
    let least = most.div_ceil(2);
    let whole = match other {
        None => least + below(word, most / 2 + 1),
        Some(other) => {
            let next = other + 1 + below(word, most / 2);
            if (least..=most).contains(&next) { next } else { next - most / 2 }
        }
    };
    let n = n as u64;
    // The suite computes without sign: fewer units than ranks give not one group but the most there can be.
    let groups = match (n, whole / n) {
        (1, _) => 1,
        (_, 0) => {
            if wide {
                u64::MAX
            } else {
                u64::from(u32::MAX)
            }
        }
        (_, units) => 2 * units - 1,
    };
    let groups = groups.min(n);
    let sum = groups * (groups + 1) / 2;
    let size = (whole / sum).min(n / groups);
    // A group of no ranks: the suite then divides by zero, which on a GPU leaves the last rank alone with everything.
    let group = (place as u64).checked_div(size).unwrap_or(u64::MAX);
    let share = if group < groups { group + 1 } else { 0 };
    let rest = if place as u64 == n - 1 { whole - size * sum } else { 0 };
    (share + rest, whole)
}

/// Every partial sum fits the mantissa: half of the ranks are positive, half negative, and both halves' totals fit.
pub(super) fn sum(format: &Format, me: Place) -> Both {
    let word = hash(me.seed, me.index);
    let most = (1 << format.precision()) - 1;
    let wide = format.precision() > 32;
    let exponent = exponent(format, mix(word ^ 1));
    let place = shuffled(me.n, me.rank, mix(word ^ 2));
    let sign = word & 1 == 1;
    let (mut share, mut total) = partition(me.n.div_ceil(2), place / 2, mix(word ^ 3), most, wide, None);
    let (mut input_sign, mut total_sign) = (sign, sign);
    if me.n > 1 {
        let (minus, minus_total) = partition(me.n / 2, place / 2, mix(word ^ 4), most, wide, Some(total));
        total_sign ^= total < minus_total;
        total = total.abs_diff(minus_total);
        if place % 2 == 1 {
            input_sign = !sign;
            share = minus;
        }
    }
    Both { input: scaled(format, input_sign, exponent, share), expected: scaled(format, total_sign, exponent, total) }
}

/// Odd ranks' values count twice.
pub(super) fn premultiplied(format: &Format, me: Place) -> Both {
    let word = hash(me.seed, me.index);
    let most: u64 = (1 << format.precision()) - 1;
    let wide = format.precision() > 32;
    let (ones, twos) = (me.n.div_ceil(2), me.n / 2);
    let exponent = exponent(format, mix(word ^ 1));
    let sign = word & 1 == 1;
    let (mut share, one) =
        partition(ones, shuffled(ones, me.rank / 2, mix(word ^ 2)), mix(word ^ 3), most >> 1, wide, None);
    let mut two = 0;
    if twos > 0 {
        let place = shuffled(twos, me.rank / 2, mix(word ^ 5));
        let second = partition(twos, place, mix(word ^ 4), most >> 2, wide, None);
        two = second.1;
        if me.rank % 2 == 1 {
            share = second.0;
        }
    }
    Both { input: scaled(format, sign, exponent, share), expected: scaled(format, sign, exponent, one + 2 * two) }
}

/// One rank has a mantissa, all others are powers of two; signs alternate, exponents add up within the range.
pub(super) fn product(format: &Format, me: Place) -> Both {
    let word = hash(me.seed, me.index);
    let place = shuffled(me.n, me.rank, mix(word ^ 2));
    let most = (1 << (exponent_bits(format) - 1)) - 1;
    let (share, whole) = partition(me.n, place, mix(word ^ 3), most, false, None);
    let bias = format.bias as u64;
    let fraction = (mix(word ^ 4) & ((1 << format.fraction) - 1)).max(1);
    Both {
        input: code(format, place % 2 == 1, share + bias, if place == 0 { fraction } else { 0 }),
        expected: code(format, me.n / 2 % 2 == 1, whole + bias, fraction),
    }
}

/// The two small whole numbers of an average; every other rank has zero. They do not depend on the element.
fn pair(format: &Format, seed: u64) -> [u64; 2] {
    let word = mix(seed);
    [word, word.wrapping_mul(0xbeef)].map(|w| 1 + (w & ((1 << format.fraction) - 1)))
}

fn average(dtype: DType, format: &Format, me: Place) -> u64 {
    let place = shuffled(me.n, me.rank, mix(me.seed ^ 2));
    pair(format, me.seed).get(place).map_or(0, |value| encode_int(dtype, i128::from(*value)))
}

fn average_expected(dtype: DType, me: Place) -> u64 {
    let Some(format) = Format::of(dtype) else { return 0 };
    let part = |value: u64| match dtype {
        DType::F64 => (value as f64 * (1.0 / me.n as f64)).to_bits(),
        _ => encode_f64(dtype, f64::from(value as f32 * (1.0 / me.n as f64) as f32)),
    };
    let [a, b] = pair(&format, me.seed);
    fold(dtype, Fold::Sum, part(a), part(b))
}
