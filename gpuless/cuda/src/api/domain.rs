//! NVLink domains. The switches of one connect the devices of several machines, such as the trays of a rack.

/// A machine's place in an NVLink domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvLinkDomain {
    /// The domain's name, the same for all of its machines and for no others.
    pub name: String,
    /// The machine's number in it.
    pub tray: u32,
}

/// More devices than a machine can have, so that numbers of different trays differ.
const TRAY: u64 = 1 << 16;

impl NvLinkDomain {
    /// A number that other domains do not have.
    pub(crate) fn id(&self) -> u64 {
        gpuless_verbs::hash(&self.name)
    }

    /// The domain's UUID, which is never zero: NCCL takes zero for none.
    pub(crate) fn uuid(&self) -> [u8; 16] {
        let mut uuid = [0; 16];
        uuid[..8].copy_from_slice(b"gpuless\0");
        uuid[8..].copy_from_slice(&self.id().to_be_bytes());
        uuid
    }

    /// A device's number among those of all trays.
    pub(crate) fn device(&self, device: usize) -> u64 {
        u64::from(self.tray) * TRAY + device as u64
    }
}
