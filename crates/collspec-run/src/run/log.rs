//! The latest part of a worker's standard output and error.
use crate::child::guard::UntilEnd;
use std::collections::VecDeque;
use std::io::PipeReader;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Number of bytes that are kept.
const KEPT: usize = 16 << 10;

/// The latest part of a stream of text, and the amount that came before.
#[derive(Default)]
pub struct Log {
    state: Mutex<State>,
    wake: Condvar,
    pipe: Option<Arc<UntilEnd<PipeReader>>>,
}

#[derive(Default)]
struct State {
    bytes: VecDeque<u8>,
    total: u64,
    closed: bool,
}

impl Log {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads `from` to its end on a new thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn follow(from: UntilEnd<PipeReader>) -> std::io::Result<Arc<Self>> {
        let from = Arc::new(from);
        let log = Arc::new(Self { pipe: Some(from.clone()), ..Self::default() });
        let copy = log.clone();
        std::thread::Builder::new().name("worker log".into()).spawn(move || {
            let mut buffer = [0; 4096];
            let again = |error: &std::io::Error| error.kind() == std::io::ErrorKind::Interrupted;
            loop {
                match from.ready() {
                    Ok(true) => {}
                    Err(error) if again(&error) => continue,
                    Ok(false) | Err(_) => break,
                }
                // Under the lock, so that a count finds each byte either in the log or in the pipe.
                let mut state = copy.state();
                match from.read_there(&mut buffer) {
                    Ok(len @ 1..) => state.push(buffer.get(..len).unwrap_or_default()),
                    Err(error) if again(&error) => {}
                    Ok(0) | Err(_) => break,
                }
            }
            copy.state().closed = true;
            copy.wake.notify_all();
        })?;
        Ok(log)
    }

    /// Adds text from another source.
    pub fn add(&self, text: &str) {
        self.state().push(text.as_bytes());
    }

    /// Ends the log: no more text comes.
    pub fn close(&self) {
        self.state().closed = true;
        self.wake.notify_all();
    }

    /// The number of bytes written so far, even if they have not been read.
    pub fn mark(&self) -> u64 {
        let state = self.state();
        state.total + self.pipe.as_ref().map_or(0, |pipe| pipe.there())
    }

    /// Waits for the end of the stream, at most for the given time: another process may hold the other side.
    pub fn settle(&self, limit: Duration) {
        let state = self.state();
        drop(self.wake.wait_timeout_while(state, limit, |s| !s.closed).unwrap_or_else(PoisonError::into_inner));
    }

    /// The part of the text after the mark that is still kept.
    pub fn since(&self, mark: u64) -> String {
        self.news(mark).0
    }

    /// Like [`Log::since`], with a new mark at the end of the returned text: bytes still in the pipe come next time.
    pub fn news(&self, mark: u64) -> (String, u64) {
        let state = self.state();
        let wanted = usize::try_from(state.total.saturating_sub(mark)).unwrap_or(usize::MAX);
        let skip = state.bytes.len().saturating_sub(wanted);
        let bytes: Vec<u8> = state.bytes.iter().skip(skip).copied().collect();
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        let lost = wanted.saturating_sub(bytes.len());
        (if lost > 0 { format!("[{lost} bytes before]\n{text}") } else { text }, state.total.max(mark))
    }
}

impl State {
    fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.bytes.extend(bytes);
        let excess = self.bytes.len().saturating_sub(KEPT);
        self.bytes.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn keeps_the_newest_part_and_counts_the_rest() {
        let log = Log::default();
        log.state().push(b"first\n");
        let mark = log.mark();
        assert_eq!(log.since(mark), "");
        log.state().push(b"second\n");
        assert_eq!(log.since(mark), "second");
        assert_eq!(log.since(0), "first\nsecond");
        log.state().push(&vec![b'x'; KEPT]);
        assert!(log.since(mark).starts_with("[7 bytes before]\nxxx"), "{}", &log.since(mark)[..30]);
    }

    #[test]
    fn what_is_still_in_the_pipe_comes_with_the_next_news() {
        let (from, mut to) = std::io::pipe().unwrap();
        let log = Log { pipe: Some(UntilEnd::of(from).into()), ..Log::default() };
        log.state().push(b"read");
        to.write_all(b"later").unwrap();
        let (text, end) = log.news(0);
        assert_eq!((text.as_str(), end), ("read", 4), "nothing has read the pipe yet");
        log.state().push(b"later");
        assert_eq!(log.news(end), ("later".to_owned(), 9));
    }

    #[test]
    fn an_end_is_noticed_and_what_was_written_before_a_mark_is_not_after_it() {
        let (from, mut to) = std::io::pipe().unwrap();
        let log = Log::follow(UntilEnd::of(from)).unwrap();
        for round in 0..200 {
            writeln!(to, "round {round}").unwrap();
            let mark = log.mark();
            to.write_all(b"after").unwrap();
            while log.state().total < mark + 5 {
                std::thread::yield_now();
            }
            assert_eq!(log.since(mark), "after");
        }
        drop(to);
        log.settle(Duration::from_secs(20));
        assert!(log.state().closed);
    }
}
