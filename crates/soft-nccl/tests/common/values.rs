//! Small exact values in every element type, written and read by a second, simpler way than the library's.
use nccl_sys::ncclDataType_t;

/// Number of bytes per element.
pub fn size(dtype: ncclDataType_t) -> usize {
    match dtype.0 {
        0 | 1 | 10 | 11 => 1,
        6 | 9 => 2,
        2 | 3 | 7 => 4,
        _ => 8,
    }
}

pub fn is_float(dtype: ncclDataType_t) -> bool {
    (6..=11).contains(&dtype.0)
}

fn layout(dtype: ncclDataType_t) -> Option<(i32, i32)> {
    match dtype.0 {
        6 => Some((5, 10)),
        9 => Some((8, 7)),
        10 => Some((4, 3)),
        11 => Some((5, 2)),
        _ => None,
    }
}

/// The bytes of a value that the type can hold exactly (integers wrap).
pub fn encode(value: f64, dtype: ncclDataType_t) -> Vec<u8> {
    if let Some((exponent_bits, mantissa_bits)) = layout(dtype) {
        let bias = (1 << (exponent_bits - 1)) - 1;
        let code: u32 = if value == 0.0 {
            0
        } else {
            let exponent = value.abs().log2().floor() as i32;
            let mantissa = (value.abs() / 2f64.powi(exponent) - 1.0) * f64::from(1 << mantissa_bits);
            assert_eq!(mantissa.fract(), 0.0, "{value} is not exact");
            assert!(exponent + bias > 0);
            let sign = u32::from(value < 0.0) << (exponent_bits + mantissa_bits);
            sign | (((exponent + bias) as u32) << mantissa_bits) | mantissa as u32
        };
        return code.to_le_bytes()[..size(dtype)].to_vec();
    }
    match dtype.0 {
        7 => (value as f32).to_le_bytes().to_vec(),
        8 => value.to_le_bytes().to_vec(),
        _ => (value as i64).to_le_bytes()[..size(dtype)].to_vec(),
    }
}

/// A buffer's worth of values.
pub fn encode_all(values: impl IntoIterator<Item = f64>, dtype: ncclDataType_t) -> Vec<u8> {
    values.into_iter().flat_map(|value| encode(value, dtype)).collect()
}
