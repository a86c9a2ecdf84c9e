//! The file of a process.
use crate::FOLDER_VARIABLE;
use crate::settings::settings;
use std::cell::RefCell;
use std::fmt::{Arguments, Write as _};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::fd::IntoRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The process and thread that opened the file, and the file. Each thread has its own, so that none waits for another; after a fork the
/// child opens its own.
struct Opened {
    pid: u32,
    place: String,
    /// Always there, until it is dropped.
    file: Option<File>,
    /// The file's device and inode.
    identity: (u64, u64),
}

impl Opened {
    /// True if the descriptor is still that of the file. Programs close descriptors that they did not open, and the number may be
    /// that of something else by now.
    fn is_intact(&self) -> bool {
        self.file.as_ref().and_then(identity) == Some(self.identity)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if !self.is_intact() {
            self.file.take().map(IntoRawFd::into_raw_fd);
        }
    }
}

fn identity(file: &File) -> Option<(u64, u64)> {
    let metadata = file.metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}

thread_local! {
    static OPENED: RefCell<Option<Opened>> = const { RefCell::new(None) };
}

/// True once the file could not be written, which is told once.
static FAILED: AtomicBool = AtomicBool::new(false);

/// Bytes that this process has written.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// False once nothing is written any more.
pub fn is_written() -> bool {
    !FAILED.load(Ordering::Relaxed)
}

/// The line if the file may still grow by it, and otherwise a last line, which says that the limit was reached.
fn bounded(place: &str, line: String) -> String {
    let limit = settings().map_or(u64::MAX, |settings| settings.limit);
    let before = WRITTEN.fetch_add(line.len() as u64, Ordering::Relaxed);
    if before.saturating_add(line.len() as u64) <= limit || FAILED.swap(true, Ordering::Relaxed) {
        return line;
    }
    format!("{place} [0] NCCL INFO collspec-judge full\n")
}

/// Writes a line in the form of NCCL's log.
pub fn line(device: i32, text: Arguments<'_>) {
    if FAILED.load(Ordering::Relaxed) {
        return;
    }
    // A thread that is ending has no file any more.
    let _ = OPENED.try_with(|opened| {
        let Ok(mut opened) = opened.try_borrow_mut() else { return };
        let pid = std::process::id();
        if opened.as_ref().is_none_or(|opened| opened.pid != pid || !opened.is_intact()) {
            *opened = open(pid);
        }
        let Some(Opened { place, file: Some(file), .. }) = opened.as_mut() else { return };
        let mut line = String::with_capacity(256);
        let _ = writeln!(line, "{place} [{device}] NCCL INFO {text}");
        let line = bounded(place, line);
        if let Err(error) = file.write_all(line.as_bytes()) {
            tell(&format!("the recording ends here: {error}"));
        }
    });
}

fn open(pid: u32) -> Option<Opened> {
    let folder = std::env::var_os(FOLDER_VARIABLE)?;
    let host = host();
    let path = Path::new(&folder).join(format!("{host}.{pid}.log"));
    match OpenOptions::new().append(true).create(true).open(&path) {
        Ok(mut file) => {
            let place = format!("{host}:{pid}:{}", rustix::thread::gettid().as_raw_nonzero());
            // What the reader of a log would guess is said here.
            if let Err(error) = file.write_all(format!("{place} [0] NCCL INFO collspec record\n").as_bytes()) {
                tell(&format!("nothing is recorded: {}: {error}", path.display()));
                return None;
            }
            Some(Opened { pid, place, identity: identity(&file)?, file: Some(file) })
        }
        Err(error) => {
            tell(&format!("nothing is recorded: {}: {error}", path.display()));
            None
        }
    }
}

fn tell(what: &str) {
    if !FAILED.swap(true, Ordering::Relaxed) {
        // The program may have no standard error.
        let name = if settings().is_some() { "judge" } else { "record" };
        let _ = writeln!(std::io::stderr(), "collspec {name}: {what}");
    }
}

/// The host's name, in the characters that NCCL's log has.
pub fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = name.trim().split('.').next().unwrap_or_default().chars().map(plain).collect();
    if name.is_empty() { "host".to_owned() } else { name }
}
