//! Locks whose owner has panicked stay usable: a panic of one thread must not become one of every other.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
