//! Replacements for C functions that a library on software GPUs imports. Its threads far outnumber the cores of a machine without
//! GPUs, so they must not spin; kernels are slower than a GPU's, so memory must not be freed under them.
#![allow(unsafe_code)] // C functions are called with their callers' arguments, and a library's imports are changed

use crate::faults::{self, After};
use crate::large_memory::{self, page_size};
use crate::{adapter_files, api, opened, service_threads};
use libc::{c_int, c_void, off_t, pollfd, size_t, sockaddr, socklen_t, ssize_t};
use std::cell::Cell;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The replacements, by the names of the imported functions. Each has the parameters and result of the C function of that name.
/// NCCL frees what it allocates and joins the threads that it starts, which other libraries may leave to each other.
pub fn functions(is_nccl: bool) -> Vec<(&'static str, *const ())> {
    let mut all = vec![
        ("fallocate", extend_without_pages as *const ()),
        ("memset", fill_without_pages as *const ()),
        ("munmap", unmap_after_kernels as *const ()),
        ("mmap", map_and_keep as *const ()),
        ("mmap64", map_and_keep as *const ()),
        ("recv", recv_without_spinning as *const ()),
        ("socket", open_socket as *const ()),
        ("accept", accept_without_spinning as *const ()),
        ("close", close_and_note as *const ()),
    ];
    if is_nccl {
        all.extend(large_memory::functions());
        all.extend(service_threads::functions());
    }
    all.extend(opened::functions());
    all.extend(adapter_files::functions());
    all
}

/// Memory that will be unmapped, with the number of the call that asked for it.
#[derive(Debug, Default)]
struct Leaving {
    next: u64,
    ranges: Vec<(u64, Range<usize>)>,
}

static LEAVING: Mutex<Leaving> = Mutex::new(Leaving { next: 0, ranges: Vec::new() });

fn leaving() -> MutexGuard<'static, Leaving> {
    LEAVING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Leaving {
    fn add(&mut self, range: Range<usize>) -> u64 {
        self.next += 1;
        self.ranges.push((self.next, range));
        self.next
    }

    /// Removes and returns the remaining ranges of a call's memory.
    fn take(&mut self, number: u64) -> Vec<Range<usize>> {
        let (taken, left) = std::mem::take(&mut self.ranges).into_iter().partition(|(of, _)| *of == number);
        self.ranges = left;
        let taken: Vec<(u64, Range<usize>)> = taken;
        taken.into_iter().map(|(_, range)| range).collect()
    }

    /// Something else is in this memory now, and stays.
    fn keep(&mut self, kept: &Range<usize>) {
        let parts = |(number, range): (u64, Range<usize>)| {
            let before = range.start..range.end.min(kept.start);
            let after = range.start.max(kept.end)..range.end;
            [before, after].into_iter().filter(|part| !part.is_empty()).map(move |part| (number, part))
        };
        self.ranges = std::mem::take(&mut self.ranges).into_iter().flat_map(parts).collect();
    }
}

/// `munmap`: a peer's kernel may still have a store to do in shared memory that its owner unmaps.
extern "C" fn unmap_after_kernels(address: *mut c_void, len: size_t) -> c_int {
    unmap_later(address, len, api::after_launched_work)
}

fn unmap_later(address: *mut c_void, len: size_t, later: impl FnOnce(Box<dyn FnOnce() + Send>)) -> c_int {
    let start = address as usize;
    let page = page_size();
    let whole = len.checked_next_multiple_of(page).and_then(|len| start.checked_add(len));
    let (Some(end), true) = (whole, len > 0 && start.is_multiple_of(page)) else {
        // SAFETY: as the caller says; C says why not.
        return unsafe { libc::munmap(address, len) };
    };
    let number = leaving().add(start..end);
    later(Box::new(move || {
        let mut leaving = leaving();
        for range in leaving.take(number) {
            // SAFETY: the library has given the memory up, and nothing else has been mapped there since.
            unsafe { libc::munmap(range.start as *mut c_void, range.len()) };
        }
    }));
    0
}

/// `mmap`: memory mapped at a place that is still to be unmapped stays.
unsafe extern "C" fn map_and_keep(
    address: *mut c_void,
    len: size_t,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: off_t,
) -> *mut c_void {
    let mut leaving = leaving();
    // SAFETY: as the caller says.
    let mapped = unsafe { libc::mmap(address, len, protection, flags, file, offset) };
    if mapped == libc::MAP_FAILED {
        note_refusal("memory that the library maps", len);
    } else if flags & libc::MAP_FIXED != 0 {
        leaving.keep(&(mapped as usize..(mapped as usize).saturating_add(len)));
    }
    mapped
}

/// Ranges of this many bytes and more are zeroed by giving back their pages, where a missing page reads as zeros.
const LARGE: size_t = 1 << 20;

/// With fewer free bytes in the file system, a file gets its pages at once: if a page cannot be allocated later, SIGBUS kills the process.
const LEAST_FREE: u64 = 8 << 20;

/// `fallocate`: NCCL allocates tens of megabytes of `/dev/shm` for each rank of a communicator and uses little of it, so the file is
/// extended without allocating its pages.
unsafe extern "C" fn extend_without_pages(file: c_int, mode: c_int, offset: off_t, len: off_t) -> c_int {
    // SAFETY: plain numbers, and this function's own record.
    unsafe {
        let mut now: libc::stat = std::mem::zeroed();
        let end = offset.checked_add(len).filter(|end| mode == 0 && offset >= 0 && len > 0 && *end > 0);
        let longer = |end: &off_t| libc::fstat(file, &raw mut now) == 0 && now.st_size < *end;
        if let Some(end) = end.filter(longer)
            && has_room(file)
            && libc::ftruncate(file, end) == 0
        {
            return 0;
        }
        libc::fallocate(file, mode, offset, len)
    }
}

fn has_room(file: c_int) -> bool {
    // SAFETY: numbers, which the call fills in.
    let mut system: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: this function's own record.
    let answered = unsafe { libc::fstatvfs(file, &raw mut system) } == 0;
    // File systems without a limit report no blocks at all.
    answered && (system.f_blocks == 0 || system.f_bavail.saturating_mul(system.f_frsize) >= LEAST_FREE)
}

/// `memset`: to zero a large range, pages of shared, pinned or large memory are given back. Everything else is written.
unsafe extern "C" fn fill_without_pages(address: *mut c_void, value: c_int, len: size_t) -> *mut c_void {
    if value != 0 || len < LARGE {
        // SAFETY: as the caller says.
        return unsafe { libc::memset(address, value, len) };
    }
    let page = page_size();
    let start = (address as usize).next_multiple_of(page);
    let end = (address as usize).saturating_add(len) / page * page;
    let private = api::are_pinned(address as usize, len) || large_memory::holds(address as usize, len);
    let way = if private { libc::MADV_DONTNEED } else { libc::MADV_REMOVE };
    // SAFETY: whole pages that become zeros: pinned or large ones, which are private and in no file, or those of shared files, because
    // MADV_REMOVE fails for all others. C's function does not set the error number.
    let refused = unsafe {
        let error = *libc::__errno_location();
        let refused = libc::madvise(start as *mut c_void, end.saturating_sub(start), way) != 0;
        *libc::__errno_location() = error;
        refused
    };
    if refused {
        // SAFETY: as the caller says.
        return unsafe { libc::memset(address, 0, len) };
    }
    let (head, tail) = (start - address as usize, address as usize + len - end);
    // SAFETY: the parts of pages at both ends of the same memory.
    unsafe {
        libc::memset(address, 0, head);
        libc::memset(end as *mut c_void, 0, tail);
    }
    address
}

/// Number of consecutive unsuccessful polls of its sockets after which a thread sleeps.
const SPINS: u32 = 32;
/// The longest such sleep, in milliseconds. Data on the socket ends it earlier.
const MOST_SLEEP: c_int = 1;

thread_local! {
    /// Number of consecutive polls in which this thread's sockets had nothing to read.
    static IN_VAIN: Cell<u32> = const { Cell::new(0) };
}

/// Sleeps on a socket if this thread keeps polling it without success. The caller gets its answer, and polls again.
fn pace(socket: c_int, in_vain: bool) {
    if !in_vain {
        return IN_VAIN.set(0);
    }
    IN_VAIN.set(IN_VAIN.get().saturating_add(1));
    if IN_VAIN.get() > SPINS {
        let mut wanted = pollfd { fd: socket, events: libc::POLLIN, revents: 0 };
        // SAFETY: one element of this thread's; the error number is the caller's.
        unsafe {
            let error = *libc::__errno_location();
            libc::poll(&mut wanted, 1, MOST_SLEEP);
            *libc::__errno_location() = error;
        }
    }
}

/// Notes why the system has refused the library's last call, if the machine has no more of what it asked for.
fn note_refusal(what: &str, bytes: usize) {
    let error = std::io::Error::last_os_error();
    gpuless_device::refusals::note(what, bytes, &error);
    if let Some(code) = error.raw_os_error() {
        // SAFETY: the error number is the caller's, and writing the note may have changed it.
        unsafe { *libc::__errno_location() = code };
    }
}

fn has_nothing() -> bool {
    matches!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EAGAIN))
}

/// `recv`: while NCCL's ranks connect, each polls its sockets as fast as it can.
unsafe extern "C" fn recv_without_spinning(socket: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    if faults::is_at_work() {
        // SAFETY: as the caller says, there is room for `len` bytes.
        return unsafe { recv_with_faults(socket, buffer, len, flags) };
    }
    // SAFETY: as the caller says.
    let got = unsafe {
        large_memory::receive(socket, buffer, len, flags).unwrap_or_else(|| libc::recv(socket, buffer, len, flags))
    };
    pace(socket, got < 0 && has_nothing());
    got
}

/// `recv` on a machine whose connections can fail.
unsafe fn recv_with_faults(socket: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    let looks_only = flags & libc::MSG_PEEK != 0;
    let room = if looks_only { 0 } else { len };
    if let Some(again) = faults::repeated(socket, room) {
        // SAFETY: as the caller says, there is room for `len` bytes, and these are not more.
        unsafe { std::ptr::copy_nonoverlapping(again.as_ptr(), buffer.cast(), again.len()) };
        return again.len().cast_signed();
    }
    // SAFETY: as the caller says.
    let got = unsafe { libc::recv(socket, buffer, len, flags) };
    pace(socket, got < 0 && has_nothing());
    let Some(received) = usize::try_from(got).ok().filter(|received| *received > 0 && !looks_only) else { return got };
    // SAFETY: these bytes have just been written to the caller's memory.
    let data = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), received) };
    match faults::received(socket, data) {
        After::Nothing => {}
        After::Late(time) => std::thread::sleep(time),
        // SAFETY: only numbers.
        After::Cut => _ = unsafe { libc::shutdown(socket, libc::SHUT_RDWR) },
    }
    got
}

/// `close`, after which another connection can have the same number.
unsafe extern "C" fn close_and_note(file: c_int) -> c_int {
    faults::closed(file);
    // SAFETY: as the caller says.
    unsafe { libc::close(file) }
}

/// `socket`: a library that the system refuses one reports an error of its own.
unsafe extern "C" fn open_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: only numbers.
    let got = unsafe { libc::socket(domain, kind, protocol) };
    if got < 0 {
        note_refusal("a socket of the library", 0);
    }
    got
}

/// `accept` with the same treatment as `recv`.
unsafe extern "C" fn accept_without_spinning(socket: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: as the caller says.
    let got = unsafe { libc::accept(socket, address, len) };
    if got >= 0 {
        faults::accepted(got);
    } else if !has_nothing() {
        note_refusal("a connection that the library accepts", 0);
    }
    pace(socket, got < 0 && has_nothing());
    got
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    fn map(address: *mut c_void, len: usize, flags: c_int) -> *mut u8 {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory, or memory that a test has mapped.
        let mapped = unsafe { map_and_keep(address, len, protection, flags, -1, 0) };
        assert_ne!(mapped, libc::MAP_FAILED);
        mapped.cast()
    }

    #[test]
    fn what_c_does_not_unmap_is_refused_as_c_does() {
        let memory = map(std::ptr::null_mut(), 2 * PAGE, 0);
        for (address, len) in [(memory, 0), (memory.wrapping_add(1), PAGE), (memory, usize::MAX)] {
            assert_eq!(unmap_after_kernels(address.cast(), len), -1);
            assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINVAL));
        }
        assert_eq!(unmap_after_kernels(memory.cast(), 2 * PAGE), 0);
    }

    #[test]
    fn what_is_mapped_over_memory_that_is_to_go_stays() {
        let memory = map(std::ptr::null_mut(), 4 * PAGE, 0);
        let mut burial = None;
        assert_eq!(unmap_later(memory.cast(), 4 * PAGE - 7, |later| burial = Some(later)), 0);
        let kept = map(memory.wrapping_add(PAGE).cast(), PAGE, libc::MAP_FIXED);
        // SAFETY: it was mapped just now.
        unsafe { kept.write_volatile(7) };
        burial.unwrap()();
        let is_mapped = |page: usize| {
            // SAFETY: it only checks if the page is mapped.
            unsafe { libc::msync(memory.wrapping_add(page * PAGE).cast(), PAGE, libc::MS_ASYNC) == 0 }
        };
        assert_eq!([0, 1, 2, 3].map(is_mapped), [false, true, false, false]);
        // SAFETY: the memory is mapped.
        assert_eq!(unsafe { kept.read_volatile() }, 7);
        assert_eq!(unmap_after_kernels(kept.cast(), PAGE), 0);
        assert!(!is_mapped(1));
    }

    #[test]
    fn zeros_in_shared_memory_take_no_pages() {
        let len = 3 * LARGE + 100;
        // SAFETY: a file of this test's own, and memory that is mapped here.
        unsafe {
            let file = libc::memfd_create(c"pool".as_ptr(), 0);
            assert!(file >= 0);
            assert_eq!(extend_without_pages(file, 0, 0, len as off_t), 0);
            let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
            let memory = map_and_keep(std::ptr::null_mut(), len, protection, flags, file, 0).cast::<u8>();
            assert_ne!(memory.cast(), libc::MAP_FAILED);
            let blocks = || {
                let mut now: libc::stat = std::mem::zeroed();
                assert_eq!(libc::fstat(file, &raw mut now), 0);
                assert_eq!(now.st_size, len as off_t);
                now.st_blocks
            };
            assert_eq!(blocks(), 0);
            libc::memset(memory.cast(), 7, len);
            let from = memory.add(5);
            assert_eq!(fill_without_pages(from.cast(), 0, len - 10).cast(), from);
            let bytes = std::slice::from_raw_parts(memory, len);
            let is_right = |(at, byte): (usize, &u8)| *byte == if (5..len - 5).contains(&at) { 0 } else { 7 };
            assert!(bytes.iter().enumerate().all(is_right));
            assert_eq!(extend_without_pages(file, 0, 0, 10), 0, "a file that is long enough stays as it is");
            assert!(blocks() > 0);
            libc::close(file);
        }
    }

    #[test]
    fn zeros_elsewhere_are_written() {
        let mut memory = vec![7_u8; 2 * LARGE];
        // SAFETY: this test's memory.
        unsafe { fill_without_pages(memory.as_mut_ptr().add(1).cast(), 0, 2 * LARGE - 2) };
        assert!(memory[0] == 7 && memory[2 * LARGE - 1] == 7 && memory[1..2 * LARGE - 1].iter().all(|byte| *byte == 0));
    }
}
