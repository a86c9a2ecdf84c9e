//! Objects that callers hold pointers to. A pointer is only ever looked up here, so one that was freed, or never given out, is refused and
//! not followed.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Objects by the address or number that their callers know.
#[derive(Debug)]
pub struct Table<T> {
    entries: RwLock<BTreeMap<usize, Arc<T>>>,
}

impl<T> Table<T> {
    pub const fn new() -> Self {
        Self { entries: RwLock::new(BTreeMap::new()) }
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<usize, Arc<T>>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<usize, Arc<T>>> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn find(&self, key: usize) -> Option<Arc<T>> {
        self.read().get(&key).cloned()
    }

    pub fn has(&self, key: usize) -> bool {
        self.read().contains_key(&key)
    }

    /// False if something else has the key.
    pub fn insert(&self, key: usize, object: Arc<T>) -> bool {
        let mut entries = self.write();
        if entries.contains_key(&key) {
            return false;
        }
        entries.insert(key, object);
        true
    }

    pub fn remove(&self, key: usize) -> Option<Arc<T>> {
        self.write().remove(&key)
    }

    pub fn any(&self, condition: impl Fn(&T) -> bool) -> bool {
        self.read().values().any(|object| condition(object))
    }

    pub fn all(&self, condition: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        self.read().values().filter(|object| condition(object)).cloned().collect()
    }

    /// For a forked child, where a lock that another thread held stays locked for ever.
    pub fn try_each(&self, f: impl Fn(&T)) {
        if let Ok(entries) = self.entries.try_read() {
            entries.values().for_each(|object| f(object));
        }
    }
}
