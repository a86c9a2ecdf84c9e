//! What a worker says on its standard output and error: the newest part of it.
use std::collections::VecDeque;
use std::io::Read;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes kept.
const KEPT: usize = 16 << 10;

/// The newest part of a stream of text, and how much there was before.
#[derive(Default)]
pub struct Log {
    state: Mutex<State>,
    wake: Condvar,
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

    /// Reads `from` to its end on a thread of its own.
    pub fn follow(mut from: impl Read + Send + 'static) -> std::io::Result<Arc<Self>> {
        let log = Arc::new(Self::default());
        let copy = log.clone();
        std::thread::Builder::new().name("worker log".into()).spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                match from.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(len) => copy.push(&buffer[..len]),
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            copy.state().closed = true;
            copy.wake.notify_all();
        })?;
        Ok(log)
    }

    fn push(&self, bytes: &[u8]) {
        let mut state = self.state();
        state.total += bytes.len() as u64;
        state.bytes.extend(bytes);
        let excess = state.bytes.len().saturating_sub(KEPT);
        state.bytes.drain(..excess);
    }

    /// How much there has been so far.
    pub fn mark(&self) -> u64 {
        self.state().total
    }

    /// Waits for the end of the stream, but not longer than that: somebody else may hold the other side.
    pub fn settle(&self, limit: Duration) {
        let state = self.state();
        drop(self.wake.wait_timeout_while(state, limit, |s| !s.closed).unwrap_or_else(PoisonError::into_inner));
    }

    /// What came after the mark, as far as it is still there.
    pub fn since(&self, mark: u64) -> String {
        let state = self.state();
        let wanted = usize::try_from(state.total.saturating_sub(mark)).unwrap_or(usize::MAX);
        let skip = state.bytes.len().saturating_sub(wanted);
        let bytes: Vec<u8> = state.bytes.iter().skip(skip).copied().collect();
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        if wanted > bytes.len() { format!("[{} bytes before]\n{text}", wanted - bytes.len()) } else { text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_newest_part_and_counts_the_rest() {
        let log = Log::default();
        log.push(b"first\n");
        let mark = log.mark();
        assert_eq!(log.since(mark), "");
        log.push(b"second\n");
        assert_eq!(log.since(mark), "second");
        assert_eq!(log.since(0), "first\nsecond");
        log.push(&vec![b'x'; KEPT]);
        assert!(log.since(mark).starts_with("[7 bytes before]\nxxx"), "{}", &log.since(mark)[..30]);
    }

    #[test]
    fn an_end_is_noticed() {
        let log = Log::follow(&b"bye"[..]).unwrap();
        log.settle(Duration::from_secs(20));
        assert_eq!(log.since(0), "bye");
    }
}
