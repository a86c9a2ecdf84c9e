//! The hash FNV-1a, for names of files and cases: it is the same in every build, and must never change.

/// The hash of 32 bits.
pub fn fnv32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// The hash of 64 bits.
pub fn fnv64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the published test vectors (Noll, isthe.com/chongo/tech/comp/fnv).
    #[test]
    fn the_hash_is_that_of_its_authors() {
        assert_eq!(
            (fnv64(b""), fnv64(b"a"), fnv64(b"foobar")),
            (0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c, 0x8594_4171_f739_67e8)
        );
        assert_eq!((fnv32(b""), fnv32(b"a"), fnv32(b"foobar")), (0x811c_9dc5, 0xe40c_292c, 0xbf9c_f968));
    }
}
