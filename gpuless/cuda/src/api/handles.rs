//! Handles that are numbers: they look like addresses of aligned memory, and are never followed.

/// Handles of one kind lie this far apart. Programs keep marks of their own in the low bits of a handle, as the driver's are addresses.
const STEP: usize = 16;

/// The handle with this number of those that begin at `first`.
pub(crate) const fn handle(first: usize, number: usize) -> usize {
    first + STEP * number
}

/// The number of a handle of those that begin at `first`; `None` if there is no such handle.
pub(crate) fn number(first: usize, handle: usize) -> Option<usize> {
    let offset = handle.checked_sub(first)?;
    offset.is_multiple_of(STEP).then_some(offset / STEP)
}
