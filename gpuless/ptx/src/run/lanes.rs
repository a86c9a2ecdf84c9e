//! A value for each of a warp's lanes.

/// Lanes of a warp.
pub const LANES: usize = 32;

/// A value for each lane.
pub type Lanes<T> = [T; LANES];

/// A bit for each lane.
pub type Mask = u32;

/// The lanes of a mask, in rising order.
pub fn lanes_of(mask: Mask) -> impl DoubleEndedIterator<Item = usize> {
    (0..LANES).filter(move |lane| mask >> lane & 1 == 1)
}

/// The mask of some lanes.
pub fn mask_of(lanes: impl Iterator<Item = usize>) -> Mask {
    lanes.fold(0, |all, lane| all | 1 << lane)
}
