//! Puts to another process wait while too much data for it has not left this process: unlike a message, a put needs nothing
//! from the other rank, so nothing else would bound the data that waits for the socket.
use super::State;
use super::task::TaskId;
use crate::transport::Name;

/// With this many bytes unsent to a process, no further piece of a put is sent to it.
const MOST_UNSENT: usize = 1 << 20;

impl State {
    /// True if puts to a process have to wait; in that case the task is woken when there is room again.
    pub(super) fn awaits_room(&mut self, to: Name, task: TaskId) -> bool {
        let full = self.links.get(&to).is_some_and(|link| link.unsent() >= MOST_UNSENT);
        if full {
            self.awaiting_room.entry(to).or_default().push(task);
        }
        full
    }

    /// Writes as much as a process's socket accepts; true if more is waiting.
    pub(super) fn flush_link(&mut self, to: Name) -> bool {
        let Some(link) = self.links.get_mut(&to) else { return false };
        link.flush();
        let (blocked, full) = (link.blocked, link.unsent() >= MOST_UNSENT);
        if !full {
            self.wake_for_room(to);
        }
        blocked
    }

    /// Wakes the tasks that wait for room on the way to a process.
    pub(super) fn wake_for_room(&mut self, to: Name) {
        self.awaiting_room.remove(&to).into_iter().flatten().for_each(|task| self.wake(Some(task)));
    }
}
