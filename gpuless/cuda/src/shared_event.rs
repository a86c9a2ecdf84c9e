//! Events of several processes: the number of an event's last record and of the last one that was reached, in a file in memory, which
//! other processes find by the descriptor of the one that made it. Nothing is left of it when these processes have ended.
use gpuless_device::virtual_memory::{SealedFile, Words};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Words of an event: the number of its last record, that of the last one reached, and the process that made the last one.
const WORDS: usize = 3;
/// Bytes of a file, and the events in it.
const BYTES: usize = 4096;
const EVENTS: usize = BYTES / 8 / WORDS;
/// The name of the files.
const NAME: &str = "events";
/// The longest sleep between two looks, and the looks after which the other process is looked for.
const MOST_SLEEP: Duration = Duration::from_millis(1);
const LOOKS: u32 = 100;

/// A file of this process's own.
struct Page {
    file: SealedFile,
    words: Arc<Words>,
    free: Vec<usize>,
}

static PAGES: Mutex<Vec<Page>> = Mutex::new(Vec::new());

fn pages() -> MutexGuard<'static, Vec<Page>> {
    PAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where another process finds an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub process: u64,
    pub descriptor: u64,
    pub inode: u64,
    pub number: u64,
}

/// An event of several processes, as one of them has it.
pub(crate) struct SharedEvent {
    words: Arc<Words>,
    place: Place,
    /// The last record that this process has made.
    own: AtomicU64,
}

impl SharedEvent {
    /// An event that was never recorded.
    ///
    /// # Errors
    /// The machine has no memory or descriptor left.
    pub fn new() -> io::Result<Self> {
        let mut pages = pages();
        if pages.iter().all(|page| page.free.is_empty()) {
            let file = SealedFile::new(NAME, BYTES)?;
            pages.push(Page { words: Arc::new(file.words()?), file, free: (0..EVENTS).rev().collect() });
        }
        let found = pages.iter_mut().find_map(|page| page.free.pop().map(|number| (number, page)));
        let (number, page) = found.ok_or(io::ErrorKind::OutOfMemory)?;
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(page.file.file());
        let place = Place {
            process: std::process::id().into(),
            descriptor: u64::try_from(descriptor).map_err(io::Error::other)?,
            inode: page.file.inode(),
            number: number as u64,
        };
        let event = Self { words: page.words.clone(), place, own: AtomicU64::new(0) };
        for word in 0..WORDS {
            event.word(word, |word| word.swap(0, Ordering::AcqRel));
        }
        Ok(event)
    }

    /// The event at a place in another process; `None` if there is none.
    pub fn open(place: Place) -> Option<Self> {
        let (process, descriptor) = (u32::try_from(place.process).ok()?, i32::try_from(place.descriptor).ok()?);
        let file = SealedFile::of_process(process, descriptor).ok()?;
        let known = file.name() == NAME && file.inode() == place.inode && file.bytes() == BYTES;
        let is_event = known && place.number < EVENTS as u64;
        is_event.then(|| Some(Self { words: Arc::new(file.words().ok()?), place, own: AtomicU64::new(0) }))?
    }

    pub fn place(&self) -> Place {
        self.place
    }

    fn word(&self, which: usize, f: impl FnOnce(&AtomicU64) -> u64) -> u64 {
        let at = WORDS * usize::try_from(self.place.number).unwrap_or(usize::MAX).min(EVENTS - 1) + which;
        self.words.get(at).map_or(0, f)
    }

    /// The number of a new record, which this process will reach.
    pub fn record(&self) -> u64 {
        self.word(2, |word| word.swap(std::process::id().into(), Ordering::AcqRel));
        let number = self.word(0, |word| word.fetch_add(1, Ordering::AcqRel)) + 1;
        self.own.store(number, Ordering::Release);
        number
    }

    /// All before a record is done.
    pub fn reach(&self, record: u64) {
        self.word(1, |word| word.fetch_max(record, Ordering::AcqRel));
    }

    /// The number of the last record.
    pub fn last(&self) -> u64 {
        self.word(0, |word| word.load(Ordering::Acquire))
    }

    /// True if this process has made the last record, or nobody has.
    pub fn last_is_own(&self) -> bool {
        self.last() == self.own.load(Ordering::Acquire)
    }

    /// True if a record was reached, or its process has ended.
    pub fn is_over(&self, record: u64) -> bool {
        self.is_reached(record) || self.is_orphan()
    }

    fn is_reached(&self, record: u64) -> bool {
        self.word(1, |word| word.load(Ordering::Acquire)) >= record
    }

    /// Waits until a record is over.
    pub fn wait(&self, record: u64) {
        let mut sleep = Duration::from_micros(10);
        for look in 1u32.. {
            if self.is_reached(record) || (look % LOOKS == 0 && self.is_orphan()) {
                return;
            }
            std::thread::sleep(sleep);
            sleep = (2 * sleep).min(MOST_SLEEP);
        }
    }

    fn is_orphan(&self) -> bool {
        let process = self.word(2, |word| word.load(Ordering::Acquire));
        match std::fs::read(format!("/proc/{process}/stat")) {
            // One that its parent has not asked about yet is a zombie. The state follows the name, which may have any characters.
            Ok(text) => {
                let name_end = text.iter().rposition(|byte| *byte == b')').unwrap_or(text.len());
                matches!(text.get(name_end + 2), Some(b'Z' | b'X'))
            }
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }
}

impl Drop for SharedEvent {
    fn drop(&mut self) {
        let mut pages = pages();
        // Only the process that made it has its page.
        if let Some(page) = pages.iter_mut().find(|page| Arc::ptr_eq(&page.words, &self.words)) {
            page.free.extend(usize::try_from(self.place.number));
        }
    }
}
