//! Unique ids that live communicators give for ranks that join them: one rank obtains each, and the ranks that join wait for it.
use crate::backend::CallError;
use crate::job::Id;
use nccl_sys::{ncclResult_t, ncclUniqueId};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

type Given = Result<ncclUniqueId, CallError>;

/// The ids of a run, by number.
pub struct GrowIds {
    given: Mutex<Vec<Option<Given>>>,
    changed: Condvar,
}

impl GrowIds {
    /// This many ids, none of which is known yet.
    pub fn new(count: u32) -> Self {
        Self { given: Mutex::new((0..count).map(|_| None).collect()), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<Given>>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes an id known. False if there is no id with this number.
    pub fn give(&self, number: u32, id: Given) -> bool {
        let mut given = self.lock();
        let Some(cell) = given.get_mut(number as usize) else { return false };
        *cell = Some(id);
        self.changed.notify_all();
        true
    }

    /// Publishes an id that another part obtained.
    pub fn take(&self, number: u32, id: Id) {
        self.give(number, given_id("ncclCommGetUniqueId", id));
    }

    /// Waits for the id; `None` if `stopped` returns true first, or if there is no id with this number.
    pub fn wait(&self, number: u32, stopped: impl Fn() -> bool) -> Option<Given> {
        let mut given = self.lock();
        loop {
            match given.get(number as usize)? {
                Some(id) => return Some(id.clone()),
                None if stopped() => return None,
                None => given = self.changed.wait(given).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Lets waiting threads check whether they should stop.
    pub fn wake(&self) {
        let _given = self.lock();
        self.changed.notify_all();
    }
}

/// An id as messages have it.
pub fn id_bytes(id: &Given) -> Id {
    match id {
        Ok(id) => Ok(id.internal.iter().map(|byte| *byte as u8).collect()),
        Err(error) => Err((error.code().0, error.to_string())),
    }
}

/// An id out of a message, which `function` gave.
pub fn given_id(function: &'static str, id: Id) -> Given {
    match id {
        Ok(bytes) => {
            let mut id = ncclUniqueId { internal: [0; 128] };
            id.internal.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte as _);
            Ok(id)
        }
        Err((code, text)) => Err(CallError::Failed { function, code: ncclResult_t(code), text }),
    }
}
