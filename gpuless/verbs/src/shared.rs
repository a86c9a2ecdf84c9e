//! A structure that this library and its caller both reach by address.

use std::cell::UnsafeCell;

/// A structure of the C interface in memory of its own, which does not move. Callers read its fields at any time, so this library writes
/// them through pointers and keeps no reference.
pub struct Shared<T>(Box<UnsafeCell<T>>);

impl<T> std::fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.pointer().fmt(f)
    }
}

// SAFETY: the contents are only reached by pointers, and each place that follows one says why it may.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub fn new(value: T) -> Self {
        Self(Box::new(UnsafeCell::new(value)))
    }

    pub fn pointer(&self) -> *mut T {
        self.0.get()
    }

    /// The pointer as a key of a [`Table`](crate::table::Table).
    pub fn address(&self) -> usize {
        self.pointer() as usize
    }
}
