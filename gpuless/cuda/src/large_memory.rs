//! Large memory that a library allocates as zeros: pages of it exist only where something else than zeros was written.
//!
//! When ranks meet, each sends its description of the machine to every other, megabytes in which nearly everything is zeros, and
//! passes on what it receives. In memory from the C library's `calloc`, every page of every copy would come into being with a page fault:
//! most of a gigabyte for 16 ranks, for nothing. So each large allocation is mapped separately here, and is known to be private and
//! not backed by a file. Zeros that arrive from a socket are put there by giving pages back, and a page that does not exist is sent and
//! copied without being read.
//!
//! Only for a library that frees its memory itself, as NCCL does: the C library's `free` does not know these mappings.
#![allow(unsafe_code)] // C functions are called with their callers' arguments

use libc::{c_int, c_void, size_t, ssize_t};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The replacements, by the names of the imported functions. Each has the parameters and result of the C function of that name.
pub(crate) fn functions() -> [(&'static str, *const ()); 5] {
    [
        ("calloc", allocate as *const ()),
        ("free", free as *const ()),
        ("realloc", reallocate as *const ()),
        ("memcpy", copy as *const ()),
        ("send", send as *const ()),
    ]
}

/// Allocations of at least this many bytes are mapped separately.
const LARGE: size_t = 1 << 20;
/// Bytes that are received or sent at once to be looked at: they stay in the processor's cache.
const LOOKED_AT: usize = 256 << 10;
/// Shorter messages are received where they belong, and sent from there.
const LEAST_LOOKED_AT: size_t = 64 << 10;

/// The sizes of all large allocations by their addresses.
static LARGE_ONES: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

fn large_ones() -> MutexGuard<'static, BTreeMap<usize, usize>> {
    LARGE_ONES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// True if a range is within one large allocation.
pub(crate) fn holds(address: usize, len: usize) -> bool {
    let large_ones = large_ones();
    let before = large_ones.range(..=address).next_back();
    before.is_some_and(|(start, size)| address.checked_add(len).is_some_and(|end| end <= start + size))
}

pub(crate) fn page_size() -> usize {
    // SAFETY: it only answers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096).max(1)
}

/// `calloc`.
extern "C" fn allocate(count: size_t, each: size_t) -> *mut c_void {
    let small = || {
        // SAFETY: only numbers.
        unsafe { libc::calloc(count, each) }
    };
    let Some(bytes) = count.checked_mul(each).filter(|bytes| *bytes >= LARGE) else { return small() };
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory.
    let mapped = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        // The C library may still find some, and otherwise sets the error number.
        return small();
    }
    // SAFETY: memory that was mapped just now. With huge pages a written byte would cost 2 MiB.
    unsafe { libc::madvise(mapped, bytes, libc::MADV_NOHUGEPAGE) };
    large_ones().insert(mapped as usize, bytes);
    mapped
}

/// `free`.
unsafe extern "C" fn free(memory: *mut c_void) {
    // Memory of the C library begins behind a header, so its address is hardly ever that of a page.
    let may_be_large = !memory.is_null() && (memory as usize).is_multiple_of(page_size());
    let large = if may_be_large { large_ones().remove(&(memory as usize)) } else { None };
    // SAFETY: as the caller says; a large one was mapped with this size.
    unsafe {
        match large {
            Some(bytes) => _ = libc::munmap(memory, bytes),
            None => libc::free(memory),
        }
    }
}

/// `realloc`.
unsafe extern "C" fn reallocate(memory: *mut c_void, bytes: size_t) -> *mut c_void {
    let large = large_ones().get(&(memory as usize)).copied();
    // SAFETY: as the caller says; a large one has its size, and so much of it is copied as both have.
    unsafe {
        let Some(before) = large else { return libc::realloc(memory, bytes) };
        let new = libc::malloc(bytes.max(1));
        if !new.is_null() {
            std::ptr::copy_nonoverlapping(memory.cast::<u8>(), new.cast(), before.min(bytes));
            free(memory);
        }
        new
    }
}

/// Receives into a large allocation in such a way that zeros take no pages; `None` if it does not concern one.
///
/// # Safety
///
/// As for `recv`: there is room for `len` bytes.
pub(crate) unsafe fn receive(socket: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> Option<ssize_t> {
    thread_local! {
        static LOOKED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    if len < LEAST_LOOKED_AT || flags & !libc::MSG_DONTWAIT != 0 || !holds(buffer as usize, len) {
        return None;
    }
    // A thread that ends has none any more.
    let received = LOOKED.try_with(|looked| {
        let mut looked = looked.try_borrow_mut().ok()?;
        looked.resize(LOOKED_AT, 0);
        // SAFETY: this thread's own memory.
        let got = unsafe { libc::recv(socket, looked.as_mut_ptr().cast(), len.min(LOOKED_AT), flags) };
        if let Some(received) = usize::try_from(got).ok().and_then(|received| looked.get(..received)) {
            // SAFETY: not more than there is room for, in a large allocation.
            unsafe { put(buffer.cast(), received) };
        }
        Some(got)
    });
    received.ok().flatten()
}

/// Writes bytes to a large allocation; whole pages of zeros are given back.
///
/// # Safety
///
/// There is room for them, in one large allocation.
unsafe fn put(to: *mut u8, bytes: &[u8]) {
    let page = page_size();
    let first = (to as usize).next_multiple_of(page) - to as usize;
    let (head, rest) = bytes.split_at(first.min(bytes.len()));
    let is_zero = |part: &[u8]| part.len() == page && part.iter().fold(0, |all, byte| all | byte) == 0;
    let write = |at: usize, part: &[u8]| {
        // SAFETY: as the caller says.
        unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), to.add(at), part.len()) };
    };
    write(0, head);
    let mut at = head.len();
    let pages: Vec<&[u8]> = rest.chunks(page).collect();
    for run in pages.chunk_by(|a, b| is_zero(a) == is_zero(b)) {
        let len: usize = run.iter().map(|part| part.len()).sum();
        let part = bytes.get(at..at + len).unwrap_or_default();
        match run.first().is_some_and(|part| is_zero(part)) {
            // SAFETY: as the caller says.
            true => unsafe { zero(to.add(at), len) },
            false => write(at, part),
        }
        at += len;
    }
}

/// Makes a range of a large allocation zeros, without whole pages of it taking memory.
///
/// # Safety
///
/// The range is in one large allocation.
unsafe fn zero(start: *mut u8, len: usize) {
    let page = page_size();
    let first = ((start as usize).next_multiple_of(page) - start as usize).min(len);
    let pages = (len - first) / page * page;
    // SAFETY: as the caller says. The pages are of a private mapping that is in no file, and read as zeros afterwards.
    unsafe {
        start.write_bytes(0, first);
        start.add(first + pages).write_bytes(0, len - first - pages);
        let error = *libc::__errno_location();
        if pages > 0 && libc::madvise(start.add(first).cast(), pages, libc::MADV_DONTNEED) != 0 {
            *libc::__errno_location() = error;
            start.add(first).write_bytes(0, pages);
        }
    }
}

/// The parts of a range of a large allocation, in turn such as may hold anything (first) and such as hold zeros and have no pages.
/// One part if the system does not say.
fn parts(start: usize, len: usize) -> Vec<usize> {
    let page = page_size();
    let first = start / page;
    let pages = (start + len).div_ceil(page) - first;
    let mut entries = vec![0_u8; pages * ENTRY];
    let read = page_map().is_some_and(|map| map.read_exact_at(&mut entries, (first * ENTRY) as u64).is_ok());
    let exists = |entry: &[u8]| entry.last().is_none_or(|flags| flags & (PRESENT | SWAPPED) != 0);
    let (mut parts, mut of_zeros, mut at) = (vec![0], false, start);
    for (number, entry) in (first + 1..).zip(entries.chunks_exact(ENTRY)) {
        let end = (number * page).min(start + len);
        if (read && !exists(entry)) != of_zeros {
            of_zeros = !of_zeros;
            parts.push(0);
        }
        *parts.last_mut().unwrap_or(&mut 0) += end - at;
        at = end;
    }
    parts
}

/// Bytes about a page in the system's map of this process's pages, and two bits of the last.
const ENTRY: usize = 8;
const PRESENT: u8 = 0x80;
const SWAPPED: u8 = 0x40;

/// The map of this process's pages; none in a process that was forked from the one that opened it, or if it does not even have the page
/// of a variable.
fn page_map() -> Option<&'static File> {
    static MAP: OnceLock<Option<(u32, File)>> = OnceLock::new();
    let own = std::process::id();
    let map = MAP.get_or_init(|| {
        let map = File::open("/proc/self/pagemap").ok()?;
        let mut entry = [0; ENTRY];
        let page = (&raw const entry).addr() / page_size();
        map.read_exact_at(&mut entry, (page * ENTRY) as u64).ok()?;
        (entry[ENTRY - 1] & (PRESENT | SWAPPED) != 0).then_some((own, map))
    });
    map.as_ref().filter(|(process, _)| *process == own).map(|(_, map)| map)
}

/// `memcpy`: what does not exist is not copied.
unsafe extern "C" fn copy(to: *mut c_void, from: *const c_void, len: size_t) -> *mut c_void {
    if len < LARGE || !holds(from as usize, len) || !holds(to as usize, len) {
        // SAFETY: as the caller says.
        return unsafe { libc::memcpy(to, from, len) };
    }
    let mut at = 0;
    for (number, part) in parts(from as usize, len).into_iter().enumerate() {
        // SAFETY: as the caller says, both have `len` bytes, and these are within.
        unsafe {
            match number % 2 {
                0 => std::ptr::copy_nonoverlapping(from.cast::<u8>().add(at), to.cast::<u8>().add(at), part),
                _ => zero(to.cast::<u8>().add(at), part),
            }
        }
        at += part;
    }
    to
}

/// `send`: what does not exist is sent from a few pages of zeros. Less than all may be sent, as always.
unsafe extern "C" fn send(socket: c_int, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    static ZEROS: [u8; 16 << 10] = [0; 16 << 10];
    if len < LEAST_LOOKED_AT || !holds(buffer as usize, len) {
        // SAFETY: as the caller says.
        return unsafe { libc::send(socket, buffer, len, flags) };
    }
    let mut pieces: Vec<libc::iovec> = Vec::new();
    let mut at = 0;
    for (number, part) in parts(buffer as usize, len.min(LOOKED_AT)).into_iter().enumerate() {
        let mut left = part;
        while left > 0 {
            let (start, most) = match number % 2 {
                0 => (buffer.cast::<u8>().wrapping_add(at + part - left), left),
                _ => (ZEROS.as_ptr(), left.min(ZEROS.len())),
            };
            pieces.push(libc::iovec { iov_base: start.cast_mut().cast(), iov_len: most });
            left -= most;
        }
        at += part;
    }
    // SAFETY: a message of pieces that are only read, of the caller's memory and of the zeros.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = pieces.as_mut_ptr();
        message.msg_iovlen = pieces.len();
        libc::sendmsg(socket, &raw const message, flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    /// The pages of a range that exist.
    fn resident(start: *mut u8, len: usize) -> usize {
        let mut pages = vec![0_u8; len / page_size()];
        // SAFETY: memory of this test.
        assert_eq!(unsafe { libc::mincore(start.cast(), len, pages.as_mut_ptr()) }, 0);
        pages.iter().filter(|page| **page & 1 == 1).count()
    }

    /// Sends all of `from`, which is a large allocation, and receives it in `to`, another.
    fn pass_on(from: *mut u8, to: *mut u8, len: usize) {
        let (sending, receiving) = UnixStream::pair().unwrap();
        let from = from as usize;
        let sender = std::thread::spawn(move || {
            let mut at = 0;
            while at < len {
                // SAFETY: memory of this test.
                let sent = unsafe { send(sending.as_raw_fd(), (from + at) as *const c_void, len - at, 0) };
                at += usize::try_from(sent).unwrap();
            }
        });
        let mut at = 0;
        while at < len {
            let (socket, left) = (receiving.as_raw_fd(), len - at);
            // SAFETY: memory of this test, with room for what is sent.
            let got = unsafe {
                let to = to.add(at).cast();
                receive(socket, to, left, 0).unwrap_or_else(|| libc::recv(socket, to, left, 0))
            };
            at += usize::try_from(got).unwrap();
        }
        sender.join().unwrap();
    }

    #[test]
    fn zeros_take_no_pages_wherever_they_go_and_replace_what_was_there() {
        let (page, len) = (page_size(), 4 * LARGE);
        let [first, second, third] = [0; 3].map(|_| allocate(len, 1).cast::<u8>());
        let (from, to) = (100, 700);
        let size = len - 1000;
        // SAFETY: memory of this test.
        unsafe {
            for (at, byte) in [(0, 1), (5 * page, 2), (len / 2, 3), (size - 1, 4)] {
                first.add(from + at).write(byte);
            }
            // This is not zero before.
            for at in [9 * page + 5, 300 * page, to + size] {
                second.add(at).write(7);
                third.add(at).write(7);
            }
            let sent = || std::slice::from_raw_parts(first.add(from), size).to_vec();
            pass_on(first.add(from), second.add(to), size);
            assert_eq!(copy(third.add(to).cast(), first.add(from).cast(), size).cast(), third.add(to));
            for memory in [first, second, third] {
                let pages = resident(memory, len);
                assert!(pages < len / page / 2, "{pages} pages of {}", len / page);
            }
            for memory in [second, third] {
                assert_eq!(std::slice::from_raw_parts(memory.add(to), size), sent());
                assert_eq!(memory.add(to + size).read(), 7);
                free(memory.cast());
            }
            free(first.cast());
        }
    }

    #[test]
    fn the_parts_of_a_range_are_as_long_as_the_range() {
        let (page, len) = (page_size(), LARGE);
        let memory = allocate(len, 1).cast::<u8>();
        // SAFETY: memory of this test.
        unsafe { memory.add(2 * page).write(0) };
        let of = |start: usize, len: usize| parts(memory as usize + start, len);
        assert_eq!(of(0, len), [0, 2 * page, page, len - 3 * page]);
        assert_eq!(of(2 * page + 7, 10), [10]);
        assert_eq!(of(page + 1, 2 * page), [0, page - 1, page, 1]);
        // SAFETY: as before.
        unsafe { free(memory.cast()) };
    }

    #[test]
    fn memory_is_c_memory_to_its_user() {
        // SAFETY: memory of this test.
        unsafe {
            let small = allocate(10, 10).cast::<u8>();
            assert!(!holds(small as usize, 100));
            let large = allocate(3, LARGE).cast::<u8>();
            assert!(holds(large as usize, 3 * LARGE) && holds(large as usize + 5, 1));
            assert!(!holds(large as usize, 3 * LARGE + 1) && !holds(large as usize - 1, 1));
            large.add(2 * LARGE).write(9);
            let shorter = reallocate(large.cast(), 2 * LARGE + 1).cast::<u8>();
            assert_eq!((shorter.add(2 * LARGE).read(), holds(large as usize, 1)), (9, false));
            free(shorter.cast());
            free(reallocate(small.cast(), 200));
            free(std::ptr::null_mut());
            // The compiler may otherwise take every allocation as one that succeeds.
            assert!(std::hint::black_box(allocate(usize::MAX, 2)).is_null());
        }
    }
}
