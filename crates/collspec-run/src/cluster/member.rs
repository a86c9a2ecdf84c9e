//! A member as the leader sees it: its introduction, the connection for orders, and the connections of its parts.
use super::greeting::{Introduction, MemberOrder};
use super::socket::Connection;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Limit on the time of a member to connect for a part.
const CONNECTING: Duration = Duration::from_secs(20);

/// A member has gone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} is lost: {why}")]
pub struct Lost {
    /// Rank and machine of the member.
    pub name: String,
    /// The reason, in words.
    pub why: String,
}

/// Parts that the leader has asked for, by number.
#[derive(Default)]
pub struct PartsToCome {
    next: AtomicU64,
    /// The waiting parts, with the rank of the member that was asked.
    waiting: Mutex<BTreeMap<u64, (u32, Sender<Connection>)>>,
}

impl PartsToCome {
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<u64, (u32, Sender<Connection>)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands the connection of a part to the thread that waits for it. If no thread waits, the connection is closed.
    pub(super) fn bring(&self, number: u64, connection: Connection) {
        let waiting = self.waiting().remove(&number);
        if let Some((_, waiting)) = waiting {
            // It may have waited too long.
            let _ = waiting.send(connection);
        }
    }
}

/// A part that a member was asked for.
pub struct ComingPart {
    member: Arc<Member>,
    number: u64,
    come: Receiver<Connection>,
}

impl ComingPart {
    /// The member that the connection belongs to.
    pub fn member(&self) -> &Arc<Member> {
        &self.member
    }

    /// Waits until the part connects.
    ///
    /// # Errors
    ///
    /// The member does not connect in time, and is lost.
    pub fn connection(&self) -> Result<Connection, Lost> {
        self.come.recv_timeout(CONNECTING).map_err(|error| {
            self.member.lose(match error {
                RecvTimeoutError::Timeout => format!("it did not connect within {} s", CONNECTING.as_secs()),
                RecvTimeoutError::Disconnected => "it did not connect".to_owned(),
            })
        })
    }
}

impl Drop for ComingPart {
    fn drop(&mut self) {
        self.member.parts.waiting().remove(&self.number);
    }
}

/// A process of the job other than the leader.
pub struct Member {
    introduction: Introduction,
    orders: Connection,
    parts: Arc<PartsToCome>,
    lost: OnceLock<String>,
    /// Notified when it is lost.
    news: (Mutex<()>, Condvar),
}

impl Member {
    /// The member of this connection. The end of the connection is noticed at once.
    ///
    /// # Errors
    ///
    /// The operating system has no free thread or descriptor.
    pub(super) fn new(
        introduction: Introduction,
        orders: Connection,
        parts: Arc<PartsToCome>,
    ) -> io::Result<Arc<Self>> {
        let member = Arc::new(Self { introduction, orders, parts, lost: OnceLock::new(), news: Default::default() });
        let watched = member.clone();
        let watch = move || {
            // A member sends nothing here, so that this waits for the end.
            let why = match watched.orders.receive::<()>() {
                Ok(_) => "it has ended".to_owned(),
                Err(error) => format!("no connection to it: {error}"),
            };
            let _ = watched.lost.set(why);
            let _held = watched.news.0.lock().unwrap_or_else(PoisonError::into_inner);
            watched.news.1.notify_all();
            // Those who wait for a part of it need not wait longer.
            watched.parts.waiting().retain(|_, (rank, _)| *rank != watched.introduction.rank);
        };
        std::thread::Builder::new().name("member".into()).spawn(watch)?;
        Ok(member)
    }

    /// The data that it sent about itself.
    pub fn introduction(&self) -> &Introduction {
        &self.introduction
    }

    /// Like [`Member::lost`], for a member of which another connection has ended: this one ends within the limit, if the process has.
    pub fn lost_within(&self, limit: Duration) -> Option<Lost> {
        let held = self.news.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.news.1.wait_timeout_while(held, limit, |()| self.lost.get().is_none()));
        self.lost()
    }

    /// The reason why it can do nothing any more.
    pub fn lost(&self) -> Option<Lost> {
        self.lost.get().map(|why| Lost { name: self.introduction.name(), why: why.clone() })
    }

    /// Requests a part, which then connects.
    ///
    /// # Errors
    ///
    /// The member is lost.
    pub fn ask_for_part(self: &Arc<Self>) -> Result<ComingPart, Lost> {
        let number = self.parts.next.fetch_add(1, Ordering::Relaxed);
        let (sender, come) = channel();
        self.parts.waiting().insert(number, (self.introduction.rank, sender));
        let coming = ComingPart { member: self.clone(), number, come };
        // Checked after that: if it is lost later, the wait ends.
        if let Some(lost) = self.lost() {
            return Err(lost);
        }
        match self.orders.send(&MemberOrder::StartPart(number)) {
            Ok(()) => Ok(coming),
            Err(error) => Err(self.lose(error.to_string())),
        }
    }

    /// One that does not connect now would cost every further case the wait for it.
    fn lose(&self, why: String) -> Lost {
        let why = self.lost.get_or_init(|| why).clone();
        Lost { name: self.introduction.name(), why }
    }

    /// Sends a message that does not need an answer, such as that the run is over.
    pub(super) fn tell(&self, order: &MemberOrder) {
        // One that is lost needs no telling.
        let _ = self.orders.send(order);
    }
}
