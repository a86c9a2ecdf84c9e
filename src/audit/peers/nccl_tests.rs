//! nccl-tests (NVIDIA/nccl-tests, 2.19): `verifiable/verifiable.cu` for inputs, expectations and comparison,
//! `src/common.cu` for the order of operations, `src/OPERATION.cu` for seeds, counts and the ranks that are compared.
//!
//! Inputs are functions of seed, element, rank, number of ranks, type and reduction, made so that no order of a
//! floating-point reduction ever rounds. The result is compared by bits; the float average may be two units off.
//! Compared: every rank's result, and the receive buffer of ranks other than the root, which must not change.
//!
//! Not compared: guards, inputs, whether ranks agree where all are accepted, in-place send_recv and all_to_all (there are
//! none here). Sizes of all_gather, reduce_scatter, gather, scatter, all_to_all and of all_to_all_v's pieces are rounded down to
//! 16 bytes per rank. `-u` shifts send and receive buffer alike.
//!
//! The random source and the permutation of ranks are not the suite's; they are used in the same places.
use super::floats::{FoldOp, divide, fold, is_avg};
use super::single_operation::{OperationReduction, SingleOperation};
use super::{CheckedPart, ElementPosition, NotRunnable, OperationCall, PeerSuite};
use crate::num::{DType, FloatFormat, encode_f64, encode_int, mask};
use crate::ops::{Kind, NcclCall};
use crate::plan::Reduction;

/// nccl-tests; the module describes the model.
pub(super) struct NcclTests;

/// Largest distance of bit patterns for a float average.
const AVG_UNITS: u64 = 2;
/// Number of bytes of which block sizes are a multiple.
const PACK_BYTES: u64 = 16;

impl PeerSuite for NcclTests {
    fn adapt(&self, mut operation: SingleOperation) -> Result<SingleOperation, NotRunnable> {
        let pack = PACK_BYTES / operation.dtype.size() as u64;
        let whole = |count: u64| count / pack * pack;
        match &operation.op.kind {
            Kind::Collective(c) => match c.call {
                NcclCall::AllReduce | NcclCall::Reduce | NcclCall::Broadcast => {}
                _ => operation.counts = operation.counts.map(whole),
            },
            Kind::SendRecv => {}
            _ if operation.op.name == "all_to_all_v" => operation.counts = operation.counts.map(whole),
            _ => return Err(NotRunnable::NoSuchTest(operation.op.name)),
        }
        if operation.counts.all_zero() {
            return Err(NotRunnable::ZeroCount);
        }
        if let Some(OperationReduction::PreMulSum(scalar, device)) = &mut operation.reduce {
            // The suite always passes the scalar from the host.
            (*scalar, *device) = ("1 + rank % 2".to_owned(), false);
        }
        Ok(operation)
    }

    fn output_fill_byte(&self) -> u8 {
        0
    }

    fn input_bits(&self, call: &OperationCall<'_>, position: ElementPosition) -> u64 {
        let Some(reduce) = call.reduce.filter(|_| call.n > 1) else { return movement_bits(call, position) };
        let Some(format) = FloatFormat::of(call.dtype) else {
            let bits = random_integer(call.dtype, call.seed, position.index, position.rank);
            return if FoldOp::from_reduction(reduce) == FoldOp::Prod && bits == 0 { 1 } else { bits };
        };
        let key = ElementKey { n: call.n, rank: position.rank, seed: call.seed, index: position.index };
        match (reduce, FoldOp::from_reduction(reduce)) {
            _ if is_avg(reduce) => average_input(call.dtype, &format, key),
            (Reduction::PreMulSum(_), _) => premultiplied(&format, key).input,
            (_, FoldOp::Sum) => sum(&format, key).input,
            (_, FoldOp::Prod) => product(&format, key).input,
            (_, FoldOp::Min | FoldOp::Max) => {
                random_middle_float(&format, hash(cross(position.index, position.rank), call.seed))
            }
        }
    }

    fn expected_reduction(&self, call: &OperationCall<'_>, index: u64, inputs: &[u64]) -> u64 {
        let first = inputs.first().copied().unwrap_or(0);
        let Some(reduce) = call.reduce.filter(|_| call.n > 1) else { return first };
        let key = ElementKey { n: call.n, rank: 0, seed: call.seed, index };
        match (FloatFormat::of(call.dtype), FoldOp::from_reduction(reduce)) {
            (Some(_), FoldOp::Sum) if is_avg(reduce) => average_expected(call.dtype, key),
            (Some(format), FoldOp::Sum) if matches!(reduce, Reduction::PreMulSum(_)) => {
                premultiplied(&format, key).expected
            }
            (Some(format), FoldOp::Sum) => sum(&format, key).expected,
            (Some(format), FoldOp::Prod) => product(&format, key).expected,
            (format, how) => {
                let scaled = |(rank, bits): (usize, &u64)| match reduce {
                    Reduction::PreMulSum(_) if format.is_none() => {
                        fold(call.dtype, FoldOp::Prod, *bits, 1 + rank as u64 % 2)
                    }
                    _ => *bits,
                };
                let column = inputs.iter().enumerate().map(scaled);
                let total = column.reduce(|a, b| fold(call.dtype, how, a, b)).unwrap_or(0);
                if is_avg(reduce) { divide(call.dtype, total, call.n) } else { total }
            }
        }
    }

    fn checked_part(&self, call: &OperationCall<'_>, rank: usize) -> CheckedPart {
        match &call.op.kind {
            Kind::Collective(c) if !c.writers.includes(rank, call.root) => CheckedPart::Unchanged,
            _ => CheckedPart::Result,
        }
    }

    fn accepts(&self, call: &OperationCall<'_>, want: u64, got: u64) -> bool {
        let units = if call.dtype.is_float() && call.reduce.is_some_and(is_avg) { AVG_UNITS } else { 0 };
        want.abs_diff(got) <= units
    }

    fn own_programs(&self) -> Vec<(String, String)> {
        super::own_programs::nccl_tests()
    }
}

/// What the value of an element depends on.
#[derive(Clone, Copy)]
pub(super) struct ElementKey {
    pub n: usize,
    pub rank: usize,
    pub seed: u64,
    pub index: u64,
}

/// A rank's input, and the expected result of all ranks.
pub(super) struct InputAndExpected {
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
fn random_below(word: u64, bound: u64) -> u64 {
    ((u128::from(word) * u128::from(bound)) >> 64) as u64
}

/// Two multiplications with one shift between, as weak as the suite's own: neighbouring ranks' low bits stay related, so that half of the
/// values are even at every element, and products of many ranks in few bits are zero more often than chance would have it.
fn random_integer(dtype: DType, seed: u64, index: u64, rank: usize) -> u64 {
    let word = cross(index, rank).wrapping_add(mix(seed)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word ^ word >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9) & mask(dtype)
}

/// An element that is moved, not reduced: as for a single rank, with the source's rank in the seed or in the index.
fn movement_bits(call: &OperationCall<'_>, position: ElementPosition) -> u64 {
    let (rank, k) = (position.rank as u64, call.k);
    let (seed, index) = match &call.op.kind {
        Kind::Collective(c) => match c.call {
            NcclCall::AllGather | NcclCall::AlltoAll => (33 * call.seed + rank, position.index),
            NcclCall::Gather => (call.seed, rank * k + position.index),
            _ => (call.seed, position.index),
        },
        Kind::SendRecv => (call.seed, rank * position.piece + position.index),
        _ => (33 * call.seed + rank, position.index),
    };
    match FloatFormat::of(call.dtype) {
        Some(format) => random_middle_float(&format, hash(cross(index, 0), seed)),
        None => mix(seed ^ index) >> (64 - call.dtype.bits()),
    }
}

/// Bits from sign, exponent field and fraction.
fn float_bits(format: &FloatFormat, negative: bool, exponent: u64, fraction: u64) -> u64 {
    let low = (1 << format.fraction) - 1;
    format.signed(negative, exponent << format.fraction | fraction & low)
}

/// Bits of the exponent field.
fn exponent_bits(format: &FloatFormat) -> u32 {
    format.sign_bit - format.fraction
}

/// Any sign and fraction, the exponent in the middle half of its range.
fn random_middle_float(format: &FloatFormat, word: u64) -> u64 {
    let width = exponent_bits(format);
    let exponent = (word >> 1 & ((1 << (width - 1)) - 1)) + (1 << (width - 2));
    float_bits(format, word & 1 == 1, exponent, mix(word))
}

/// `mantissa` in units of the last place of numbers with this exponent field; a normal number or zero.
fn scaled_float(format: &FloatFormat, negative: bool, exponent: u64, mantissa: u64) -> u64 {
    if mantissa == 0 {
        return 0;
    }
    let shift = format.fraction + 1 - (64 - mantissa.leading_zeros());
    float_bits(format, negative, exponent - u64::from(shift), mantissa << shift)
}

/// An exponent field with room below for every smaller mantissa.
fn random_exponent(format: &FloatFormat, word: u64) -> u64 {
    let low = u64::from(1 + format.fraction);
    let high = (1 << exponent_bits(format)) - 1;
    low + random_below(word, high - low)
}

/// The position of `rank` in a random permutation of the ranks, which is the same on all ranks for one element.
fn shuffled(n: usize, rank: usize, word: u64) -> usize {
    let n = n.max(1) as u64;
    let mut factor = 1 + random_below(mix(word ^ 0x5555), n);
    while gcd(factor, n) != 1 {
        factor += 1;
    }
    ((rank as u64 * factor + random_below(word, n)) % n) as usize
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Divides a random whole number of the upper half up to `most`, and other than `other`, among `n` places: groups of equal
/// size get 1, 2, 3, ... each, and the last place the rest. Returns the share of `place` and the whole.
fn partition(n: usize, place: usize, word: u64, most: u64, wide: bool, other: Option<u64>) -> (u64, u64) {
    let least = most.div_ceil(2);
    let whole = match other {
        None => least + random_below(word, most / 2 + 1),
        Some(other) => {
            let next = other + 1 + random_below(word, most / 2);
            if (least..=most).contains(&next) { next } else { next - most / 2 }
        }
    };
    let n = n as u64;
    // The suite computes with unsigned numbers: fewer units than ranks give the largest number of groups instead of one.
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
pub(super) fn sum(format: &FloatFormat, key: ElementKey) -> InputAndExpected {
    let word = hash(key.seed, key.index);
    let most = (1 << format.precision()) - 1;
    let wide = format.precision() > 32;
    let exponent = random_exponent(format, mix(word ^ 1));
    let place = shuffled(key.n, key.rank, mix(word ^ 2));
    let sign = word & 1 == 1;
    let (mut share, mut total) = partition(key.n.div_ceil(2), place / 2, mix(word ^ 3), most, wide, None);
    let (mut input_sign, mut total_sign) = (sign, sign);
    if key.n > 1 {
        let (minus, minus_total) = partition(key.n / 2, place / 2, mix(word ^ 4), most, wide, Some(total));
        total_sign ^= total < minus_total;
        total = total.abs_diff(minus_total);
        if place % 2 == 1 {
            input_sign = !sign;
            share = minus;
        }
    }
    InputAndExpected {
        input: scaled_float(format, input_sign, exponent, share),
        expected: scaled_float(format, total_sign, exponent, total),
    }
}

/// Odd ranks' values count twice.
pub(super) fn premultiplied(format: &FloatFormat, key: ElementKey) -> InputAndExpected {
    let word = hash(key.seed, key.index);
    let most: u64 = (1 << format.precision()) - 1;
    let wide = format.precision() > 32;
    let (ones, twos) = (key.n.div_ceil(2), key.n / 2);
    let exponent = random_exponent(format, mix(word ^ 1));
    let sign = word & 1 == 1;
    let (mut share, one) =
        partition(ones, shuffled(ones, key.rank / 2, mix(word ^ 2)), mix(word ^ 3), most >> 1, wide, None);
    let mut two = 0;
    if twos > 0 {
        let place = shuffled(twos, key.rank / 2, mix(word ^ 5));
        let second = partition(twos, place, mix(word ^ 4), most >> 2, wide, None);
        two = second.1;
        if key.rank % 2 == 1 {
            share = second.0;
        }
    }
    InputAndExpected {
        input: scaled_float(format, sign, exponent, share),
        expected: scaled_float(format, sign, exponent, one + 2 * two),
    }
}

/// One rank has a mantissa, all others are powers of two; signs alternate, exponents add up within the range.
pub(super) fn product(format: &FloatFormat, key: ElementKey) -> InputAndExpected {
    let word = hash(key.seed, key.index);
    let place = shuffled(key.n, key.rank, mix(word ^ 2));
    let most = (1 << (exponent_bits(format) - 1)) - 1;
    let (share, whole) = partition(key.n, place, mix(word ^ 3), most, false, None);
    let bias = format.bias as u64;
    let fraction = (mix(word ^ 4) & ((1 << format.fraction) - 1)).max(1);
    InputAndExpected {
        input: float_bits(format, place % 2 == 1, share + bias, if place == 0 { fraction } else { 0 }),
        expected: float_bits(format, key.n / 2 % 2 == 1, whole + bias, fraction),
    }
}

/// The two small whole numbers of an average; all other ranks have zero. They do not depend on the element.
fn average_values(format: &FloatFormat, seed: u64) -> [u64; 2] {
    let word = mix(seed);
    [word, word.wrapping_mul(0xbeef)].map(|w| 1 + (w & ((1 << format.fraction) - 1)))
}

fn average_input(dtype: DType, format: &FloatFormat, key: ElementKey) -> u64 {
    let place = shuffled(key.n, key.rank, mix(key.seed ^ 2));
    average_values(format, key.seed).get(place).map_or(0, |value| encode_int(dtype, i128::from(*value)))
}

fn average_expected(dtype: DType, key: ElementKey) -> u64 {
    let Some(format) = FloatFormat::of(dtype) else { return 0 };
    let part = |value: u64| match dtype {
        DType::F64 => (value as f64 * (1.0 / key.n as f64)).to_bits(),
        _ => encode_f64(dtype, f64::from(value as f32 * (1.0 / key.n as f64) as f32)),
    };
    let [a, b] = average_values(&format, key.seed);
    fold(dtype, FoldOp::Sum, part(a), part(b))
}
