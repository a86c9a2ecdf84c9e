//! The connections that have not proven yet that they belong to the job: few at a time, and an idle one gives way to one that comes.
use super::socket::Connection;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Connections that are greeted at a time; more wait with the operating system.
const AT_ONCE: usize = 64;
/// The time that every connection is granted, enough for a process of the job to prove that it belongs to it.
const GRACE: Duration = Duration::from_secs(1);

/// The connections that are greeted, by number: the oldest first.
#[derive(Default)]
pub struct Door {
    inside: Mutex<Inside>,
    news: Condvar,
}

#[derive(Default)]
struct Inside {
    next: u64,
    greeted: BTreeMap<u64, (Instant, Connection)>,
}

/// A connection's place, which is free when this is dropped.
pub struct Place {
    door: Arc<Door>,
    number: u64,
}

impl Door {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for this connection. If none is free, the connection that has been greeted for the longest time is closed, once it has had
    /// enough time.
    ///
    /// # Errors
    ///
    /// The operating system has no free descriptor.
    pub fn enter(self: &Arc<Self>, connection: &Connection) -> io::Result<Place> {
        let own = connection.try_clone()?;
        let mut inside = self.inside();
        while inside.greeted.len() >= AT_ONCE {
            let Some(mut oldest) = inside.greeted.first_entry() else { break };
            let left = GRACE.saturating_sub(oldest.get().0.elapsed());
            if left.is_zero() {
                oldest.get_mut().1.close();
                oldest.remove();
            } else {
                inside = self.news.wait_timeout(inside, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        let number = inside.next;
        inside.next += 1;
        inside.greeted.insert(number, (Instant::now(), own));
        Ok(Place { door: self.clone(), number })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.door.inside().greeted.remove(&self.number);
        self.door.news.notify_all();
    }
}
