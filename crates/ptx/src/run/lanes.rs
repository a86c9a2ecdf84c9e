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

/// The lanes in which something is true.
#[inline(always)]
pub fn mask_of(holds: impl Fn(usize) -> bool) -> Mask {
    let mut mask = 0;
    for lane in 0..LANES {
        mask |= Mask::from(holds(lane)) << lane;
    }
    mask
}
