//! The parent's side of a worker: its processes (parts), requests, replies with a time limit, and its end.
use super::Error;
use super::part::{Begun, Part};
use super::remote_part::RemotePart;
pub use super::worker_process::Incoming;
use crate::child::guard::wait_any;
use crate::child::patience::{Patience, waiting_factor};
use crate::child::program::Program;
use crate::cluster::Site;
use crate::job::arena::{Arena, Mapping};
use crate::job::wire;
use crate::job::{MappedLibrary, PROTOCOL, Reply, Request};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Limit on the time a process takes to report that it is a worker, on a machine with a core for each thread that wants one.
/// On a busy machine, workers have been silent for 20 s before their first message.
const HELLO: Duration = Duration::from_secs(90);
/// Limit on the time a worker takes to end once its standard input has ended.
const GOODBYE: Duration = Duration::from_secs(2);
/// Time in which the last output of a dead worker must arrive.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// Number of parts started at the same time: as many connections wait at the leader's port.
const BEGUN_AT_ONCE: usize = 32;
/// Bytes quoted of the output of all parts.
const QUOTED: usize = 16 << 10;

/// A worker's library, as named in its first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// NCCL's version code.
    pub version: i32,
    /// Path from which the library was loaded.
    pub library: String,
    /// The NCCL library files that it has mapped; `None` if this is unknown.
    pub mapped: Option<Vec<MappedLibrary>>,
}

/// Positions in the parts' logs.
#[derive(Clone, Debug, Default)]
pub struct Mark(Vec<u64>);

/// A set of processes that share an arena and divide the ranks of a case among them; when dropped, they are killed with
/// everything that they started.
pub struct Worker {
    parts: Vec<Part>,
    /// Number of parts that have closed their side.
    ended: usize,
    /// For each part, true once it has ended as its program says.
    buried: Vec<bool>,
    /// The memory shared with the parts.
    pub arena: Arena,
    /// The parts' library.
    pub hello: Hello,
}

/// The ranks of one of `parts` parts of a worker with `n` ranks.
pub fn ranks_of_part(part: usize, parts: usize, n: u32) -> Range<u32> {
    let parts = parts.max(1) as u64;
    let start = |part: usize| (part as u64 * u64::from(n) / parts) as u32;
    start(part)..start(part + 1)
}

impl Worker {
    /// Starts `program` as a worker: a part for each of these environments, at one of these sites. Without sites this process starts
    /// all parts.
    ///
    /// # Errors
    ///
    /// A process cannot be started, does not report its library, or is lost, or the operating system does not have enough memory or
    /// descriptors.
    pub fn start(program: &Program, env: &[Vec<(String, String)>], sites: &[Site]) -> Result<Self, Error> {
        let arena = Arena::create().map_err(Error::Resources)?;
        let sites = sites.iter().chain(std::iter::repeat(&Site::Here));
        let (mut begun, mut parts) = (VecDeque::new(), Vec::new());
        for (env, site) in env.iter().zip(sites) {
            begun.push_back(Part::begin(site, program, env, &arena)?);
            let next = if begun.len() > BEGUN_AT_ONCE { begun.pop_front() } else { None };
            parts.extend(next.map(Begun::part).transpose()?);
        }
        for next in begun {
            parts.push(next.part()?);
        }
        let hello = Hello { version: 0, library: String::new(), mapped: None };
        let buried = vec![false; parts.len()];
        let mut worker = Self { parts, ended: 0, buried, arena, hello };
        worker.hello = worker.greet().map_err(|why| Error::NoWorker { program: program.path().to_owned(), why })?;
        Ok(worker)
    }

    /// Checks that all parts say hello, and say the same.
    fn greet(&mut self) -> Result<Hello, String> {
        let limit = HELLO.mul_f64(waiting_factor());
        let mut patience = Patience::new(limit);
        let mut known: Option<Hello> = None;
        let mut mapped_here = None;
        for _ in 0..self.parts.len() {
            let (part, incoming) = self.hear(&mut patience);
            let hello = match incoming {
                Incoming::Reply(Reply::Hello { protocol: PROTOCOL, version, library, mapped, .. }) => {
                    Hello { version, library, mapped }
                }
                Incoming::Reply(Reply::Hello { protocol, .. }) => {
                    return Err(format!("it speaks protocol {protocol}, not {PROTOCOL}"));
                }
                Incoming::Reply(Reply::Trouble(text)) => return Err(text),
                Incoming::Reply(_) => return Err("its first message is not a worker's".into()),
                Incoming::Garbled(text) => return Err(text),
                Incoming::Silence => return Err(format!("it sent nothing for {} s", limit.as_secs())),
                Incoming::End => {
                    let how = self.end_closed(part);
                    if let Some(place) = self.place(part) {
                        return Err(format!("the one of {place} ended with {how}"));
                    }
                    let log = self.parts.get(part).map(|part| part.log().since(0)).unwrap_or_default();
                    return Err(format!("it ended with {how}{}{log}", if log.is_empty() { "" } else { ": " }));
                }
            };
            let same = known.get_or_insert_with(|| Hello { mapped: None, ..hello.clone() });
            // The mappings of a process on another machine were checked by that machine.
            let is_here = matches!(self.parts.get(part), Some(Part::Here(_)));
            let same_files = !is_here || *mapped_here.get_or_insert_with(|| hello.mapped.clone()) == hello.mapped;
            if (same.version, &same.library) != (hello.version, &hello.library) || !same_files {
                return Err("its processes do not have the same library".into());
            }
        }
        let known = known.ok_or_else(|| "it has no process".to_owned())?;
        Ok(Hello { mapped: mapped_here.flatten(), ..known })
    }

    /// Number of parts of the worker.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// The ranks of a part, with `n` ranks in total.
    pub fn ranks(&self, part: usize, n: u32) -> Range<u32> {
        ranks_of_part(part, self.parts.len(), n)
    }

    /// Process ids, for people and tests.
    pub fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.parts.iter().map(Part::pid)
    }

    /// True if a part is on another process of the job.
    pub fn has_remote(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::There(_)))
    }

    /// For each of `n` ranks, true if this process has started the rank's process.
    pub(super) fn has_here(&self, n: u32) -> Vec<bool> {
        let parts = self.parts.iter().enumerate();
        parts.flat_map(|(part, is)| self.ranks(part, n).map(move |_| matches!(is, Part::Here(_)))).collect()
    }

    /// The parts on other processes of the job, with their numbers.
    pub(super) fn remote(&mut self) -> impl Iterator<Item = (usize, &mut RemotePart)> {
        self.parts.iter_mut().enumerate().filter_map(|(number, part)| Some((number, part.remote()?)))
    }

    /// The process of the job that has started the part, unless it was this one: `rank 3 on gpu-1`.
    pub fn place(&self, part: usize) -> Option<String> {
        match self.parts.get(part)? {
            Part::Here(_) => None,
            Part::There(part) => Some(part.place()),
        }
    }

    /// The arena of this process, and the part with this number if it is on another process of the job.
    pub(super) fn arena_and_remote(&mut self, part: usize) -> Option<(&Arena, &mut RemotePart)> {
        Some((&self.arena, self.parts.get_mut(part)?.remote()?))
    }

    /// Sends a request to a part. An error means that it is dead.
    ///
    /// # Errors
    ///
    /// The part is dead.
    pub fn send_to(&mut self, part: usize, request: &Request) -> Result<(), wire::WireError> {
        match self.parts.get_mut(part) {
            Some(part) => part.send(request),
            None => Err(std::io::Error::from(std::io::ErrorKind::NotConnected).into()),
        }
    }

    /// Sends a request to all parts. If one is dead, the others still receive it.
    ///
    /// # Errors
    ///
    /// A part is dead; the error is that of the first.
    pub fn send(&mut self, request: &Request) -> Result<(), wire::WireError> {
        let mut all = Ok(());
        for part in &mut self.parts {
            let sent = part.send(request);
            all = all.and(sent);
        }
        all
    }

    /// Queues a request that every part receives with its next one.
    ///
    /// # Errors
    ///
    /// The request is too long.
    pub fn send_later(&mut self, request: &Request) -> Result<(), wire::WireError> {
        self.parts.iter_mut().try_for_each(|part| part.send_later(request))
    }

    /// The next message of a part, with the part's number, if one comes in time.
    pub fn hear(&mut self, patience: &mut Patience) -> (usize, Incoming) {
        self.hear_unless(patience, Duration::MAX, |_| false).unwrap_or((0, Incoming::Silence))
    }

    /// Like [`Worker::hear`]; `None` if no message came for a while, at most `look`, and `enough` returns true.
    pub fn hear_unless(
        &mut self,
        patience: &mut Patience,
        look: Duration,
        enough: impl Fn(&Mapping) -> bool,
    ) -> Option<(usize, Incoming)> {
        let (parts, arena) = (&mut self.parts, self.arena.mapping());
        let came = patience.wait(|slice| match next(parts, slice.min(look)) {
            None if enough(arena) => Some(None),
            came => came.map(Some),
        });
        let (part, incoming) = came.unwrap_or(Some((0, Incoming::Silence)))?;
        if matches!(incoming, Incoming::End | Incoming::Garbled(_)) {
            self.ended += 1;
        }
        Some((part, incoming))
    }

    /// False once a part is known to be dead; does not wait.
    pub fn alive(&mut self) -> bool {
        self.parts.iter_mut().all(Part::alive)
    }

    /// Ends one part, which has closed its side as its program says, and describes how it ended. The others continue.
    pub fn bury(&mut self, part: usize) -> String {
        if let Some(buried) = self.buried.get_mut(part) {
            *buried = true;
        }
        self.parts.get_mut(part).map_or_else(|| "no process".into(), Part::end_closed)
    }

    /// True if something other than this program and its own code ended a part that has closed its side, such as a user, or the system
    /// when memory was short.
    pub fn killed_by_another(&self, part: usize) -> bool {
        self.parts.get(part).is_some_and(Part::killed_by_another)
    }

    /// Number of parts that have not ended as their programs say.
    pub fn living(&self) -> usize {
        self.buried.iter().filter(|buried| !**buried).count()
    }

    /// Kills all parts with everything that they started, and describes how this one ended (or what killed it, if it was dead before).
    pub fn end(&mut self, blamed: usize) -> String {
        self.end_by(blamed, Part::end)
    }

    /// Like [`Worker::end`], after this part has closed its side.
    pub fn end_closed(&mut self, blamed: usize) -> String {
        self.end_by(blamed, Part::end_closed)
    }

    fn end_by(&mut self, blamed: usize, end: fn(&mut Part) -> String) -> String {
        let how = self.parts.get_mut(blamed).map_or_else(|| "no process".into(), end);
        self.parts.iter_mut().for_each(Part::kill);
        for part in &mut self.parts {
            part.end();
        }
        self.settle();
        how
    }

    /// Waits until the last output of the parts has arrived, at most [`LAST_WORDS`].
    fn settle(&self) {
        let deadline = Instant::now() + LAST_WORDS;
        self.parts.iter().for_each(|part| part.log().settle(deadline.saturating_duration_since(Instant::now())));
    }

    /// Lets all parts end on their own, for a short time; their last output is then in their logs.
    pub fn retire(&mut self) {
        self.parts.iter_mut().for_each(Part::close);
        let mut patience = Patience::new(GOODBYE);
        while self.ended < self.parts.len() && !matches!(self.hear(&mut patience).1, Incoming::Silence) {}
        self.settle();
    }

    /// The current ends of the parts' logs.
    pub fn mark(&self) -> Mark {
        Mark(self.parts.iter().map(|part| part.log().mark()).collect())
    }

    /// The parts' output since the mark, as far as it is still available.
    pub fn said(&self, since: &Mark) -> String {
        let since = |part: usize| since.0.get(part).copied().unwrap_or(0);
        if let [alone] = self.parts.as_slice() {
            return alone.log().since(since(0));
        }
        let share = QUOTED / self.parts.len().max(1);
        let texts = self.parts.iter().enumerate().map(|(number, part)| (number, part.log().since(since(number))));
        let texts = texts.filter(|(_, text)| !text.is_empty());
        let texts = texts.map(|(number, text)| format!("[process {number}] {}", tail(&text, share)));
        texts.collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // all at once, before waiting for each
        self.parts.iter_mut().for_each(Part::kill);
    }
}

/// The next message of a part, with the part's number, if one comes within `limit`. Once all parts have ended, it returns an end each time.
fn next(parts: &mut [Part], limit: Duration) -> Option<(usize, Incoming)> {
    let deadline = Instant::now() + limit;
    loop {
        for (number, part) in parts.iter_mut().enumerate() {
            if let Some(incoming) = part.take_message() {
                return Some((number, incoming));
            }
        }
        let (numbers, pipes): (Vec<_>, Vec<_>) =
            parts.iter().enumerate().filter_map(|(number, part)| Some((number, part.watched()?))).unzip();
        if pipes.is_empty() {
            return Some((0, Incoming::End));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let due = wait_any(&pipes, left);
        let mut end = None;
        for (number, due) in numbers.into_iter().zip(due) {
            let ended = parts.get_mut(number).and_then(|part| part.read(due));
            end = end.or(ended.map(|incoming| (number, incoming)));
            if end.is_some() {
                break; // what the others have sent is there at the next call
            }
        }
        if end.is_some() || left.is_zero() {
            return end;
        }
    }
}

/// The last bytes of a text, beginning at the start of a character.
pub fn tail(text: &str, most: usize) -> &str {
    let mut start = text.len().saturating_sub(most);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}
