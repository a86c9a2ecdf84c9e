//! Handles for other processes, as eight words.

/// `cudaIpcMemHandle_t`, `cudaIpcEventHandle_t` and `CUmemFabricHandle`, which may lie at any address.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ProcessHandle([u8; 64]);

impl ProcessHandle {
    pub fn of_words(words: [u64; 8]) -> Self {
        let mut handle = Self([0; 64]);
        for (place, word) in handle.0.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        handle
    }

    #[cfg(test)]
    pub fn of(bytes: [u8; 64]) -> Self {
        Self(bytes)
    }

    pub fn bytes(&self) -> &[u8; 64] {
        &self.0
    }

    pub fn words(&self) -> [u64; 8] {
        std::array::from_fn(|at| self.0[8 * at..8 * at + 8].try_into().map_or(0, u64::from_ne_bytes))
    }
}
