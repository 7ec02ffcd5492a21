//! The locks that threads share. The model checks in `tests/native` put those of loom in their place.

pub use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use std::sync::PoisonError;

/// Lock a value. A panic in another thread costs one batch of queries, and leaves a value that can still be used.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wait until `changed` is notified.
pub fn wait<'a, T>(changed: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    changed.wait(guard).unwrap_or_else(PoisonError::into_inner)
}
