//! A part of a worker whose process was started by another process of the job. Each such part has its own connection, which carries
//! its messages and the bytes of its arena.
//!
//! The member makes the connection when the leader asks for it, so that the leader listens on one port. A lost connection is the end of
//! its part, which sends its step words by itself when its process ends.
use super::Error;
use super::log::Log;
use super::worker_process::Incoming;
use crate::child::guard::{Due, Watched, wait_any};
use crate::child::patience::Patience;
use crate::cluster::{ComingPart, Connection, Lost, Member, PartMessage, PartOrder};
use crate::job::wire::{self, WireError};
use crate::job::{Reply, Request};
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// Limit on the time of an answer that the part can give at once.
const ANSWERING: Duration = Duration::from_secs(20);
/// Limit on how much later than this connection the member's own may end, when the process holding both ends.
const LOSING: Duration = Duration::from_millis(500);
/// Limit on the time that the part's process takes to end when it is killed.
const ENDING: Duration = Duration::from_secs(5);
/// Bytes read at a time.
const PIECE: usize = 256 << 10;

/// A part on another process of the job.
pub struct RemotePart {
    member: Arc<Member>,
    connection: Connection,
    /// Orders that go with the next one.
    later: Vec<u8>,
    /// Bytes that were read and do not form a complete message yet.
    come: Vec<u8>,
    /// Messages that arrived while an answer was awaited.
    held: VecDeque<PartMessage>,
    /// True once its process has ended, and all of its messages were taken.
    ended: bool,
    /// True once the connection has ended, so that no further questions can be asked.
    disconnected: bool,
    /// The way the part's process ended, once the part has reported it.
    how: Option<String>,
    /// Step words that the part has sent without being asked.
    words: Option<Vec<u64>>,
    /// Output of the part's process.
    pub log: Arc<Log>,
}

impl RemotePart {
    /// Asks the part to start a process with these variables, once it has connected.
    ///
    /// # Errors
    ///
    /// The member is lost.
    pub fn start(coming: &ComingPart, env: &[(String, String)]) -> Result<Self, Error> {
        let (member, connection) = (coming.member(), coming.connection()?);
        let part = Self {
            member: member.clone(),
            connection,
            later: Vec::new(),
            come: Vec::new(),
            held: VecDeque::new(),
            ended: false,
            disconnected: false,
            how: None,
            words: None,
            log: Arc::default(),
        };
        // A connection that is broken already ends the part, which is noticed when its messages are read.
        let _ = part.connection.send(&PartOrder::Start(env.to_vec()));
        Ok(part)
    }

    /// The process of the job that has started it: `rank 3 on gpu-1`.
    pub fn place(&self) -> String {
        self.member.introduction().name()
    }

    /// The process that has started it, if that is lost.
    pub fn lost(&self) -> Option<Lost> {
        self.member.lost()
    }

    /// The next message that has arrived; does not wait.
    pub fn take_message(&mut self) -> Option<Incoming> {
        loop {
            if self.ended {
                return None;
            }
            let message = match self.held.pop_front() {
                Some(message) => message,
                None => match wire::take(&mut self.come) {
                    Ok(message) => message?,
                    Err(error) => {
                        self.ended = true;
                        return Some(Incoming::Garbled(error.to_string()));
                    }
                },
            };
            match message {
                PartMessage::Reply(reply) => return Some(Incoming::Reply(*reply)),
                PartMessage::Log(text) => self.log.add(&text),
                PartMessage::Trouble(text) => return Some(Incoming::Reply(Reply::Trouble(text))),
                PartMessage::Words(words) => self.words = Some(words),
                PartMessage::Ended(how) => {
                    self.how.get_or_insert(how);
                    return Some(self.over());
                }
                // The answer to an abandoned question.
                PartMessage::Hashes(_) | PartMessage::Bytes(_) => {}
            }
        }
    }

    /// The handle to wait on, unless nothing more is expected of the part.
    pub fn watched(&self) -> Option<Watched<'_>> {
        (!self.ended).then(|| self.bytes())
    }

    fn bytes(&self) -> Watched<'_> {
        Watched { bytes: self.connection.as_fd(), process: None }
    }

    /// True if there is something to read within the limit, or the connection has ended.
    fn is_readable(&self, limit: Duration) -> bool {
        wait_any(&[self.bytes()], limit) == [Due::Bytes]
    }

    /// Reads the available bytes, or the end if there are none.
    pub fn read(&mut self, due: Due) -> Option<Incoming> {
        if due == Due::Nothing || self.disconnected {
            return None;
        }
        let mut piece = vec![0; PIECE];
        match self.connection.read_there(&mut piece) {
            Ok(0) => Some(self.cut()),
            Ok(length) => {
                self.come.extend_from_slice(piece.get(..length).unwrap_or_default());
                None
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => None,
            Err(error) => {
                self.how.get_or_insert_with(|| format!("no connection any more ({error})"));
                Some(self.cut())
            }
        }
    }

    fn cut(&mut self) -> Incoming {
        self.disconnected = true;
        self.over()
    }

    fn over(&mut self) -> Incoming {
        self.ended = true;
        self.log.close();
        Incoming::End
    }

    /// Sends a request.
    ///
    /// # Errors
    ///
    /// The connection is broken.
    pub fn send(&mut self, request: &Request) -> Result<(), WireError> {
        self.order(&PartOrder::Request(Box::new(request.clone())))
    }

    /// Queues a request that is sent with the next one.
    ///
    /// # Errors
    ///
    /// The request is too long.
    pub fn send_later(&mut self, request: &Request) -> Result<(), WireError> {
        wire::put(&mut self.later, &PartOrder::Request(Box::new(request.clone())))
    }

    /// Sends an order.
    ///
    /// # Errors
    ///
    /// The connection is broken.
    pub fn order(&mut self, order: &PartOrder) -> Result<(), WireError> {
        self.connection.send_behind(&mut self.later, order)
    }

    /// Queues an order that is sent with the next ones, once there are many bytes of them or with [`RemotePart::order`].
    ///
    /// # Errors
    ///
    /// The connection is broken.
    pub fn order_later(&mut self, order: &PartOrder) -> Result<(), WireError> {
        if self.later.len() < PIECE {
            return wire::put(&mut self.later, order);
        }
        self.order(order)
    }

    /// Sends an order and waits for the answer that `pick` takes, even if its process has ended; `None` if it cannot be reached or does
    /// not answer.
    pub fn ask<T>(&mut self, order: &PartOrder, pick: impl Fn(PartMessage) -> Result<T, PartMessage>) -> Option<T> {
        // A connection that is broken gives no answer.
        let _ = self.order(order);
        self.answer(pick)
    }

    /// Waits for the answer that `pick` takes, to an order that was sent, like [`RemotePart::ask`].
    pub fn answer<T>(&mut self, pick: impl Fn(PartMessage) -> Result<T, PartMessage>) -> Option<T> {
        if self.disconnected {
            return None;
        }
        self.connection.count_question();
        let mut patience = Patience::new(ANSWERING);
        loop {
            match wire::take::<PartMessage>(&mut self.come) {
                Ok(Some(trouble @ PartMessage::Trouble(_))) => {
                    self.held.push_back(trouble);
                    return None;
                }
                Ok(Some(message)) => match pick(message) {
                    Ok(answer) => return Some(answer),
                    Err(other) => self.held.push_back(other),
                },
                Ok(None) => {
                    patience.wait(|slice| self.is_readable(slice).then_some(()))?;
                    // A slow answer still arrives.
                    patience = Patience::new(ANSWERING);
                    if self.read(Due::Bytes).is_some() {
                        return None;
                    }
                }
                Err(_) => {
                    let _ = self.cut();
                    return None;
                }
            }
        }
    }

    /// The current step words of these ranks, or if it can no longer be reached those that came with its end. `None` if it has none.
    pub fn step_words(&mut self, first: u32, end: u32) -> Option<Vec<u64>> {
        let sent = self.words.take();
        // Those that came with its end may belong to the previous job.
        let asked = self.ask(&PartOrder::Words { first, end }, |message| match message {
            PartMessage::Words(words) => Ok(words),
            other => Err(other),
        });
        asked.or(sent)
    }

    /// False once the part is known to have ended; does not wait.
    pub fn alive(&mut self) -> bool {
        while !self.ended {
            if !self.is_readable(Duration::ZERO) {
                break;
            }
            // A part that waits for a case sends its process's output, and its end.
            let _ = self.read(Due::Bytes);
            let _ = self.take_message();
        }
        !self.ended && self.member.lost().is_none()
    }

    /// Closes the part's requests, after which it ends on its own.
    pub fn close(&mut self) {
        let _ = self.order(&PartOrder::Close);
    }

    /// Kills its process; does not wait for the end.
    pub fn kill(&mut self) {
        let _ = self.order(&PartOrder::Kill);
    }

    /// Kills its process and describes how it ended.
    pub fn end(&mut self) -> String {
        if !self.ended {
            self.kill();
            let mut patience = Patience::new(ENDING);
            while !self.ended {
                if self.take_message().is_some() {
                    continue;
                }
                let ready = patience.wait(|slice| self.is_readable(slice).then_some(()));
                if self.ended || ready.is_none() {
                    break;
                }
                let _ = self.read(Due::Bytes);
            }
        }
        let how = self.how.clone().or_else(|| self.member.lost_within(LOSING).map(|lost| lost.why));
        how.unwrap_or_else(|| "no connection any more".to_owned())
    }
}

impl Drop for RemotePart {
    fn drop(&mut self) {
        self.kill();
        self.connection.close();
    }
}
