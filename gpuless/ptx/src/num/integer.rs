//! Whole numbers and bits (PTX ISA, 9.7.1 and 9.7.8), on values in the low bits of a u64.

/// `shl`: from the width of the type on, everything is shifted out.
pub fn shift_left(value: u64, by: u32, bits: u32) -> u64 {
    if by >= bits { 0 } else { low(value << by, bits) }
}

/// `shr` of unsigned and untyped values.
pub fn shift_right_unsigned(value: u64, by: u32, bits: u32) -> u64 {
    if by >= bits { 0 } else { low(value, bits) >> by }
}

/// `shr` of signed values: the sign fills the new bits.
pub fn shift_right_signed(value: u64, by: u32, bits: u32) -> u64 {
    low((extend(value, bits) >> by.min(bits - 1).min(63)) as u64, bits)
}

/// `shf.l`: the upper half of the 64 bits `high:low`, shifted left; `wrap` takes the amount modulo 32, otherwise it is at most 32.
pub fn funnel_shift_left(low: u32, high: u32, by: u32, wrap: bool) -> u32 {
    let by = if wrap { by % 32 } else { by.min(32) };
    ((u64::from(high) << 32 | u64::from(low)) << by >> 32) as u32
}

/// `shf.r`: the lower half, shifted right.
pub fn funnel_shift_right(low: u32, high: u32, by: u32, wrap: bool) -> u32 {
    let by = if wrap { by % 32 } else { by.min(32) };
    ((u64::from(high) << 32 | u64::from(low)) >> by) as u32
}

/// `bfind`: the position of the highest set bit; for signed values, of the highest bit that differs from the sign bit. The result is all
/// ones if no bit is found. With `shift_amount`, it is the number of places to shift left so that this bit becomes the highest one.
pub fn high_bit(value: u64, bits: u32, signed: bool, shift_amount: bool) -> u32 {
    let value = if signed && extend(value, bits) < 0 { low(!value, bits) } else { low(value, bits) };
    match (value, shift_amount) {
        (0, _) => u32::MAX,
        (_, false) => 63 - value.leading_zeros(),
        (_, true) => bits - 1 - (63 - value.leading_zeros()),
    }
}

/// `bfe`: `length` bits from `start` on; for signed values the last of them (or the value's sign, if the field extends beyond it) fills
/// the rest.
pub fn bit_field_extract(value: u64, start: u32, length: u32, bits: u32, signed: bool) -> u64 {
    let (start, length) = (start & 0xff, length & 0xff);
    if length == 0 {
        return 0;
    }
    let wide = if signed { extend(value, bits) as i128 } else { i128::from(low(value, bits)) };
    let field = wide >> start.min(127);
    let kept = length.min(bits);
    let unsigned = (field as u128 & ((1u128 << kept) - 1)) as u64;
    if !signed {
        return low(unsigned, bits);
    }
    let sign = (wide >> (start + length - 1).min(bits - 1)) & 1;
    let filled = if sign == 1 && kept < 64 { unsigned | u64::MAX << kept } else { unsigned };
    low(filled, bits)
}

/// `bfi`: `field` put into `into`, `length` bits from `start` on.
pub fn bit_field_insert(field: u64, into: u64, start: u32, length: u32, bits: u32) -> u64 {
    let (start, length) = (start & 0xff, length & 0xff);
    if start >= bits || length == 0 {
        return low(into, bits);
    }
    let mask = (((1u128 << length.min(bits)) - 1) << start) as u64;
    low((field << start) & mask | into & !mask, bits)
}

/// `prmt` without a mode: each nibble of `selector` picks one of the 8 bytes of `b:a`; its highest bit fills with that byte's sign instead.
#[inline(always)]
pub fn permute(a: u32, b: u32, selector: u32) -> u32 {
    let bytes = u64::from(b) << 32 | u64::from(a);
    let mut result = 0;
    for place in 0..4 {
        let nibble = selector >> (4 * place) & 0xf;
        let byte = (bytes >> (8 * (nibble & 7)) & 0xff) as u32;
        let byte = if nibble & 8 == 0 { byte } else { 0xff * (byte >> 7) };
        result |= byte << (8 * place);
    }
    result
}

fn low(value: u64, bits: u32) -> u64 {
    if bits >= 64 { value } else { value & ((1 << bits) - 1) }
}

/// A value of `bits` bits with its sign.
fn extend(value: u64, bits: u32) -> i64 {
    (value << (64 - bits)) as i64 >> (64 - bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: [u64; 9] =
        [0, 1, 2, 0x7f, 0x80, 0x8000_0000, 0x7fff_ffff_ffff_ffff, 0x8000_0000_0000_0001, 0x0123_4567_89ab_cdef];

    #[test]
    fn shifts_of_every_amount() {
        for value in SAMPLES {
            for by in 0..80 {
                let expected = (u128::from(value as u32) << by.min(64)) as u32;
                assert_eq!(shift_left(value, by, 32), u64::from(if by < 32 { expected } else { 0 }));
                let signed = i64::from(value as i32) >> by.min(31);
                assert_eq!(shift_right_signed(value, by, 32), u64::from(signed as u32));
                assert_eq!(shift_right_signed(value, by, 64), (value as i64 >> by.min(63)) as u64);
                let unsigned = if by < 16 { u64::from(value as u16) >> by } else { 0 };
                assert_eq!(shift_right_unsigned(value, by, 16), unsigned);
            }
        }
    }

    #[test]
    fn funnel_shifts() {
        let (low, high) = (0x89ab_cdef, 0x0123_4567);
        assert_eq!(funnel_shift_left(low, high, 8, true), 0x2345_6789);
        assert_eq!(funnel_shift_right(low, high, 8, true), 0x6789_abcd);
        assert_eq!((funnel_shift_left(low, high, 32, true), funnel_shift_left(low, high, 40, false)), (high, low));
        assert_eq!((funnel_shift_right(low, high, 32, true), funnel_shift_right(low, high, 40, false)), (low, high));
    }

    #[test]
    fn the_highest_bit() {
        assert_eq!((high_bit(0, 32, false, false), high_bit(0, 64, true, true)), (u32::MAX, u32::MAX));
        assert_eq!((high_bit(0x80, 32, false, false), high_bit(0x80, 32, false, true)), (7, 24));
        assert_eq!(high_bit(u64::MAX, 64, true, false), u32::MAX, "all bits are the sign");
        assert_eq!((high_bit(0xffff_ff7f, 32, true, false), high_bit(1 << 63, 64, false, true)), (7, 0));
    }

    /// Against the PTX ISA's own description, bit by bit.
    #[test]
    fn bit_fields() {
        for value in SAMPLES {
            for (bits, signed) in [(32, false), (32, true), (64, false), (64, true)] {
                for (start, length) in
                    (0..70).step_by(7).flat_map(|start| (0..70).step_by(5).map(move |len| (start, len)))
                {
                    let value = low(value, bits);
                    let most = bits - 1;
                    let sign = if !signed || length == 0 { 0 } else { value >> (start + length - 1).min(most) & 1 };
                    let bit = |at: u32| {
                        if at < length && start + at <= most { value >> (start + at) & 1 } else { sign }
                    };
                    let expected = (0..bits).fold(0, |sum, at| sum | bit(at) << at);
                    let ours = bit_field_extract(value, start, length, bits, signed);
                    assert_eq!(ours, expected, "{value:#x} {start} {length} {bits} {signed}");
                    let into = low(0x5555_5555_5555_5555, bits);
                    let put = |at: u32| {
                        let inside = at >= start && at - start < length;
                        if inside { value >> (at - start) & 1 } else { into >> at & 1 }
                    };
                    let expected = (0..bits).fold(0, |sum, at| sum | put(at) << at);
                    assert_eq!(bit_field_insert(value, into, start, length, bits), expected);
                }
            }
        }
    }

    #[test]
    fn bytes_are_picked_by_nibbles() {
        assert_eq!(permute(0x3322_1180, 0x7766_55c4, 0x3210), 0x3322_1180);
        assert_eq!(permute(0x3322_1180, 0x7766_55c4, 0x7654), 0x7766_55c4);
        assert_eq!(permute(0x3322_1180, 0x7766_55c4, 0x0123), 0x8011_2233);
        assert_eq!(permute(0x3322_1180, 0x7766_55c4, 0x8c9d), 0xffff_0000, "signs of the bytes 0, 4, 1 and 5");
    }
}
