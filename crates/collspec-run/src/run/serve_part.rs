//! The member's side of a part: starts its process, and carries messages and bytes of its arena between it and the leader.
use super::remote_images::arena_hash;
use super::worker_process::{Incoming, WorkerProcess};
use super::{Allowed, Backend, Driver, proof};
use crate::child::guard::{Due, Watched, wait_any};
use crate::child::program::Program;
use crate::cluster::{Connection, PartMessage, PartOrder, Place};
use crate::job::arena::Arena;
use crate::job::wire::{self, WireError};
use crate::job::{Reply, Request};
use collspec_core::image::poison;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Limit on the time in which the last output of an ended process may arrive.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// Length of one wait, after which the next one begins.
const WAIT: Duration = Duration::from_secs(3600);
/// Bytes read at a time.
const PIECE: usize = 256 << 10;
/// The largest block of the arena that is read at a time.
const MOST: u64 = 1 << 26;

/// A part while it is served.
struct Served<'a> {
    connection: &'a Connection,
    program: &'a Program,
    allowed: &'a Allowed,
    arena: Arena,
    process: Option<WorkerProcess>,
    /// The NCCL library that it is to load, if any.
    library: Option<PathBuf>,
    /// True once the process has ended, and the leader knows how.
    told: bool,
    /// Its ranks in the last job.
    ranks: Range<u32>,
    /// Number of log bytes that the leader has received.
    logged: u64,
}

/// The reason a part is no longer served.
enum Over {
    /// The leader does not need the part any more, or is gone.
    Left,
    Broken(WireError),
}

impl From<WireError> for Over {
    fn from(error: WireError) -> Self {
        Self::Broken(error)
    }
}

/// Serves a part until its connection ends; its process ends with it. `carried` are variables that its process gets where neither
/// the leader nor this process sets them. Variables that are not `allowed` are left out.
pub fn serve_part(connection: &Connection, program: &Program, allowed: &Allowed, carried: &[(String, String)]) {
    let arena = match Arena::create() {
        Ok(arena) => arena,
        Err(error) => {
            // If sending fails, the end of the connection tells the leader.
            let _ = connection.send(&PartMessage::Trouble(format!("no memory for an arena: {error}")));
            return;
        }
    };
    let (process, library, told, ranks, logged) = (None, None, false, 0..0, 0);
    let mut part = Served { connection, program, allowed, arena, process, library, told, ranks, logged };
    match part.serve(carried) {
        Over::Left => {}
        Over::Broken(error) => _ = connection.send(&PartMessage::Trouble(error.to_string())),
    }
    connection.close();
}

impl Served<'_> {
    fn serve(&mut self, carried: &[(String, String)]) -> Over {
        let mut come = Vec::new();
        loop {
            loop {
                match wire::take::<PartOrder>(&mut come) {
                    Ok(Some(order)) => {
                        if let Err(over) = self.obey(order, carried) {
                            return over;
                        }
                    }
                    Ok(None) => break,
                    Err(error) => return Over::Broken(error),
                }
            }
            if let Err(over) = self.listen(&mut come) {
                return over;
            }
        }
    }

    /// Waits for the leader or the process, and passes on the process's messages.
    fn listen(&mut self, come: &mut Vec<u8>) -> Result<(), Over> {
        let leader = Watched { bytes: self.connection.as_fd(), process: None };
        let pipe = self.process.as_ref().filter(|_| !self.told).and_then(|process| process.inbox.pipe());
        let mut watched = vec![leader];
        watched.extend(pipe.map(|pipe| pipe.watched()));
        let due = wait_any(&watched, WAIT);
        let (of_leader, of_process) =
            (due.first().copied().unwrap_or(Due::Nothing), due.get(1).copied().unwrap_or(Due::Nothing));
        if of_process != Due::Nothing {
            self.hear(of_process)?;
        }
        if of_leader == Due::Nothing {
            return Ok(());
        }
        let mut piece = vec![0; PIECE];
        match self.connection.read_there(&mut piece) {
            Ok(0) => Err(Over::Left),
            Ok(length) => {
                come.extend_from_slice(piece.get(..length).unwrap_or_default());
                Ok(())
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => Ok(()),
            Err(_) => Err(Over::Left),
        }
    }

    fn hear(&mut self, due: Due) -> Result<(), Over> {
        let Some(process) = &mut self.process else { return Ok(()) };
        let mut incoming = process.inbox.read(due);
        loop {
            let message = match incoming.take() {
                Some(message) => message,
                None => match process.inbox.take_message() {
                    Some(message) => message,
                    None => return Ok(()),
                },
            };
            match message {
                Incoming::Reply(reply) => {
                    if let (Reply::Hello { mapped, .. }, Some(library)) = (&reply, &self.library) {
                        let backend = Backend::Nccl { library: library.clone(), driver: Driver::Machine };
                        if let Err(error) = proof::check(&backend, mapped.as_deref()) {
                            self.connection.send(&PartMessage::Trouble(error.to_string()))?;
                            continue;
                        }
                    }
                    if matches!(
                        reply,
                        Reply::Done(_)
                            | Reply::Stuck { .. }
                            | Reply::Refused(_)
                            | Reply::Trouble(_)
                            | Reply::Finished { .. }
                    ) {
                        let (text, end) = process.log.news(self.logged);
                        self.logged = end;
                        log(self.connection, text)?;
                    }
                    self.connection.send(&PartMessage::Reply(Box::new(reply)))?;
                }
                Incoming::Garbled(text) => self.connection.send(&PartMessage::Trouble(text))?,
                Incoming::Silence => {}
                Incoming::End => return self.tell_end(),
            }
        }
    }

    /// Reports how the process has ended, and the progress of its ranks.
    fn tell_end(&mut self) -> Result<(), Over> {
        let Some(process) = self.process.as_mut().filter(|_| !self.told) else { return Ok(()) };
        let how = process.end_closed();
        process.log.settle(LAST_WORDS);
        let text = process.log.since(self.logged);
        self.told = true;
        log(self.connection, text)?;
        self.connection.send(&PartMessage::Words(self.words(self.ranks.clone())))?;
        Ok(self.connection.send(&PartMessage::Ended(how))?)
    }

    fn words(&self, ranks: Range<u32>) -> Vec<u64> {
        let mapping = self.arena.mapping();
        ranks.map(|rank| mapping.word(rank).map_or(0, |word| word.load(Ordering::Acquire))).collect()
    }

    fn obey(&mut self, order: PartOrder, carried: &[(String, String)]) -> Result<(), Over> {
        match order {
            PartOrder::Start(env) => {
                let given = |name: &str| env.iter().any(|(other, _)| other == name) || std::env::var_os(name).is_some();
                let more = carried.iter().filter(|(name, _)| !given(name)).cloned();
                let wanted: Vec<_> = more.chain(env.iter().cloned()).collect();
                let all = match self.allowed.variables(&wanted) {
                    Ok(all) => all,
                    Err(words) => return Ok(self.connection.send(&PartMessage::Trouble(words))?),
                };
                let library = env.iter().find(|(name, _)| name == crate::child::LIBRARY);
                self.library = library.map(|(_, path)| path.into());
                match WorkerProcess::start(self.program, &all, &self.arena) {
                    Ok(process) => self.process = Some(process),
                    Err(error) => self.trouble(&error)?,
                }
            }
            PartOrder::Request(request) => {
                match &*request {
                    Request::Job(job) => self.ranks = job.ranks.clone(),
                    Request::Share(share) => self.ranks = share.ranks(),
                    _ => {}
                }
                if let Some(process) = &mut self.process {
                    // A process that cannot receive it has ended, which is noticed.
                    let _ = process.send(&request);
                }
            }
            PartOrder::Arena(size) => {
                if let Err(error) = self.arena.ensure(size, true) {
                    self.trouble(&error)?;
                }
            }
            PartOrder::Put { at, bytes } => {
                if let Err(error) = self.arena.put(at, &bytes) {
                    self.trouble(&error)?;
                }
            }
            PartOrder::Words { first, end } => {
                let end = end.min(first.saturating_add((self.arena.mapping().size() / 8) as u32));
                self.connection.send(&PartMessage::Words(self.words(first..end)))?;
            }
            PartOrder::Pattern { at, len, key } => {
                if let Err(error) = self.put_pattern(at, len, key) {
                    self.trouble(&error)?;
                }
            }
            PartOrder::Copy { from, at, len } => {
                if let Err(error) = self.bytes(&[(from, len)]).and_then(|bytes| self.arena.put(at, &bytes)) {
                    self.trouble(&error)?;
                }
            }
            PartOrder::Digest(places) => {
                let hash = arena_hash(&self.arena, &places).map(|hash| vec![hash]);
                self.answer(hash, PartMessage::Hashes)?;
            }
            PartOrder::Hash(places) => {
                let hashes = places.iter().map(|place| arena_hash(&self.arena, &[*place])).collect();
                self.answer(hashes, PartMessage::Hashes)?;
            }
            PartOrder::Get(places) => self.answer(self.bytes(&places), PartMessage::Bytes)?,
            PartOrder::Close => {
                if let Some(process) = &mut self.process {
                    process.close();
                }
            }
            PartOrder::Kill => {
                if let Some(process) = &mut self.process {
                    process.kill();
                }
                self.tell_end()?;
            }
        }
        Ok(())
    }

    /// The bytes of these places, one after the other.
    fn bytes(&self, places: &[Place]) -> io::Result<Vec<u8>> {
        let all = places.iter().fold(0u64, |all, (_, len)| all.saturating_add(*len));
        if all > MOST {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many bytes at a time"));
        }
        let mut bytes = vec![0; all as usize];
        let mut rest = bytes.as_mut_slice();
        for (at, len) in places {
            let (part, behind) = rest.split_at_mut(*len as usize);
            self.arena.take(*at, part)?;
            rest = behind;
        }
        Ok(bytes)
    }

    fn put_pattern(&self, at: u64, len: u64, key: u64) -> io::Result<()> {
        if len > MOST {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many bytes at a time"));
        }
        let mut bytes = vec![0; len as usize];
        poison::fill(&mut bytes, key, 0);
        self.arena.put(at, &bytes)
    }

    fn answer<T>(&self, answer: io::Result<T>, message: fn(T) -> PartMessage) -> Result<(), Over> {
        match answer {
            Ok(answer) => Ok(self.connection.send(&message(answer))?),
            Err(error) => self.trouble(&error),
        }
    }

    fn trouble(&self, error: &dyn std::error::Error) -> Result<(), Over> {
        Ok(self.connection.send(&PartMessage::Trouble(error.to_string()))?)
    }
}

fn log(connection: &Connection, text: String) -> Result<(), Over> {
    if !text.is_empty() {
        connection.send(&PartMessage::Log(text + "\n"))?;
    }
    Ok(())
}
