//! Copies many bytes into an arena from several threads.
use super::{Arena, Span};
use std::io;
use std::ops::Range;
use std::sync::{MutexGuard, TryLockError};

/// Copies bytes into an arena, while others do the same with other bytes. Writing through the descriptor is fastest, but the kernel
/// lets one thread do it at a time, so the others take pages of the mapping, and give them back when they are dropped.
pub struct Writer<'a> {
    arena: &'a Arena,
    descriptor: Option<MutexGuard<'a, ()>>,
    /// The range that was written through the mapping.
    mapped: Option<Range<u64>>,
}

impl Arena {
    /// A writer for copying many bytes in.
    pub fn writer(&self) -> Writer<'_> {
        let descriptor = match self.descriptor.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        Writer { arena: self, descriptor, mapped: None }
    }
}

impl Writer<'_> {
    /// Copies bytes in; those of one writer lie near each other.
    ///
    /// # Errors
    ///
    /// They lie outside, or the system has no memory for them.
    pub fn put(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let span = self.arena.mapping.span(at, bytes.len() as u64).map_err(io::Error::other)?;
        if self.descriptor.is_some() || !span.populate_to_write() {
            return self.arena.put(at, bytes);
        }
        let end = at + bytes.len() as u64;
        let mapped = self.mapped.get_or_insert(at..end);
        *mapped = mapped.start.min(at)..mapped.end.max(end);
        self.arena.mapping.write(at, bytes).map_err(io::Error::other)
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        let mapped =
            self.mapped.take().and_then(|mapped| self.arena.mapping.span(mapped.start, mapped.end - mapped.start).ok());
        mapped.inspect(Span::unmap_pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_writers_at_once_put_their_own_bytes_and_no_others() {
        const EACH: usize = 100_003;
        let mut arena = Arena::create().unwrap();
        arena.ensure(9 * EACH as u64, true).unwrap();
        arena.put(0, &[0xee; 9 * EACH]).unwrap();
        let held_open = arena.writer();
        assert!(held_open.descriptor.is_some());
        std::thread::scope(|scope| {
            for number in 0..8u8 {
                let arena = &arena;
                scope.spawn(move || {
                    let (at, bytes) = (7 + u64::from(number) * EACH as u64, vec![number; EACH]);
                    let mut writer = arena.writer();
                    assert!(writer.descriptor.is_none(), "another one has it");
                    let (first, last) = bytes.split_at(EACH / 2);
                    writer.put(at + first.len() as u64, last).unwrap();
                    writer.put(at, first).unwrap();
                    assert!(writer.put(arena.mapping().size() - 1, &[1, 2]).is_err());
                });
            }
        });
        drop(held_open);
        let mut writer = arena.writer();
        assert!(writer.descriptor.is_some() && writer.put(7 + 8 * EACH as u64, &[9; 3]).is_ok());
        drop(writer);
        let mut all = vec![0; 9 * EACH];
        arena.take(0, &mut all).unwrap();
        assert!(
            all[..7] == [0xee; 7]
                && all[7 + 8 * EACH..][..3] == [9; 3]
                && all[10 + 8 * EACH..].iter().all(|b| *b == 0xee)
        );
        for number in 0..8 {
            assert!(all[7 + number * EACH..][..EACH].iter().all(|byte| *byte == number as u8), "{number}");
        }
    }
}
