//! Identifies a device among those of all machines.

/// The UUID of a device: "gpuless" and a zero, a hash of the machine's name (which NCCL_HOSTID replaces as it does for NCCL), and the device's number.
pub fn uuid(device: usize) -> [u8; 16] {
    let name = std::env::var_os("NCCL_HOSTID").filter(|name| !name.is_empty());
    let name = name.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(Into::into));
    let machine = name.unwrap_or_default().as_encoded_bytes().iter().fold(0x811c_9dc5_u32, |hash, byte| {
        // FNV-1a
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(b"gpuless\0");
    bytes[8..12].copy_from_slice(&machine.to_be_bytes());
    bytes[12..].copy_from_slice(&u32::try_from(device).unwrap_or(u32::MAX).to_be_bytes());
    bytes
}
