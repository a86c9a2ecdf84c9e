//! Changes memory of this process: all of the changes are made, or none.
#![allow(unsafe_code)] // memory that belongs to a library

use super::error::AttachError;
use super::loaded::Mapping;
use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE: usize = 4096;

/// New bytes for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) address: usize,
    pub(super) bytes: Vec<u8>,
}

/// Pages, one after the other, that have one protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    start: usize,
    end: usize,
    protection: c_int,
}

/// Changes that are possible: every page of them is a private, readable mapping.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    changes: &'a [Change],
    /// The pages that cannot be written to as they are.
    locked: Vec<Run>,
}

/// Sets the protection of pages.
type Protect<'a> = dyn Fn(usize, usize, c_int) -> io::Result<()> + 'a;

impl<'a> Plan<'a> {
    /// Checks all pages of the changes.
    pub(super) fn new(changes: &'a [Change], mappings: &[Mapping]) -> Result<Self, AttachError> {
        let mut pages = Vec::new();
        for change in changes {
            let end = change.address.saturating_add(change.bytes.len());
            pages.extend((change.address / PAGE..end.div_ceil(PAGE)).map(|page| page * PAGE));
        }
        pages.sort_unstable();
        pages.dedup();
        let mut locked: Vec<Run> = Vec::new();
        for page in pages {
            let protection = protection(mappings, page)?;
            match locked.last_mut() {
                _ if protection & libc::PROT_WRITE != 0 => {}
                Some(run) if run.end == page && run.protection == protection => run.end += PAGE,
                _ => locked.push(Run { start: page, end: page + PAGE, protection }),
            }
        }
        Ok(Self { changes, locked })
    }

    /// Makes all changes. If the system refuses midway, earlier changes are undone.
    ///
    /// # Safety
    ///
    /// Nobody unmaps the pages in the meantime, or uses the bytes that change, except that slots of 8 bytes may be read.
    pub(super) unsafe fn make(&self) -> Result<(), AttachError> {
        // SAFETY: the caller promises it, and `mprotect` sets the requested protection.
        unsafe { self.make_with(&protect) }
    }

    /// # Safety
    ///
    /// Same as [`Plan::make`], and `protect` sets the protection if it reports success.
    unsafe fn make_with(&self, protect: &Protect<'_>) -> Result<(), AttachError> {
        // Code stays executable in the meantime: other threads may be in functions next to those that change.
        let unlock = |run: &Run| set(protect, run, run.protection | libc::PROT_WRITE);
        let lock = |run: &Run| set(protect, run, run.protection);
        for (index, run) in self.locked.iter().enumerate() {
            if let Err((address, error)) = unlock(run) {
                let undone = self.locked[..index].iter().rev().all(|run| lock(run).is_ok());
                return Err(AttachError::Protected { address, error, undone });
            }
        }
        // SAFETY: the pages are mapped and can be read, and now be written to.
        let old: Vec<Change> = self.changes.iter().map(|change| unsafe { exchange(change) }).collect();
        for run in &self.locked {
            let Err((address, error)) = lock(run) else { continue };
            let undone = self.locked.iter().all(|run| unlock(run).is_ok());
            if undone {
                for change in &old {
                    // SAFETY: as above.
                    unsafe { exchange(change) };
                }
            }
            let locked = self.locked.iter().filter(|run| lock(run).is_err()).count() == 0;
            return Err(AttachError::Protected { address, error, undone: undone && locked });
        }
        Ok(())
    }
}

/// The protection of a page of this process.
fn protection(mappings: &[Mapping], page: usize) -> Result<c_int, AttachError> {
    let wrong = |what: &str| AttachError::Memory { address: page, what: what.into() };
    let found = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&page));
    let mapping = found.ok_or_else(|| wrong("is not mapped"))?;
    match mapping.protection & libc::PROT_READ != 0 {
        true if mapping.private => Ok(mapping.protection),
        true => Err(wrong("is shared: a change would change the file")),
        false => Err(wrong("cannot be read")),
    }
}

fn set(protect: &Protect<'_>, run: &Run, protection: c_int) -> Result<(), (usize, io::Error)> {
    protect(run.start, run.end - run.start, protection).map_err(|error| (run.start, error))
}

fn protect(start: usize, size: usize, protection: c_int) -> io::Result<()> {
    // SAFETY: only pages of a plan come here, which are mapped, and no page loses a right that it had.
    let code = unsafe { libc::mprotect(start as *mut _, size, protection) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Writes the bytes, and returns those that they replaced.
///
/// # Safety
///
/// The memory can be read and written to.
unsafe fn exchange(change: &Change) -> Change {
    let mut old = vec![0; change.bytes.len()];
    // SAFETY: the caller promises it.
    unsafe { read(change.address, &mut old) };
    match <[u8; 8]>::try_from(change.bytes.as_slice()) {
        Ok(bytes) if change.address.is_multiple_of(8) => {
            // SAFETY: the caller promises it; a thread that reads the slot sees one value or the other.
            let slot = unsafe { AtomicU64::from_ptr(change.address as *mut u64) };
            slot.store(u64::from_ne_bytes(bytes), Ordering::Release);
        }
        // SAFETY: the caller promises it.
        _ => unsafe {
            std::ptr::copy_nonoverlapping(change.bytes.as_ptr(), change.address as *mut u8, change.bytes.len())
        },
    }
    Change { address: change.address, bytes: old }
}

/// Copies bytes of this process.
///
/// # Safety
///
/// They are mapped and can be read.
pub(super) unsafe fn read(address: usize, bytes: &mut [u8]) {
    // SAFETY: the caller promises it.
    unsafe { std::ptr::copy_nonoverlapping(address as *const u8, bytes.as_mut_ptr(), bytes.len()) };
}

/// Bytes of this process, if the mappings say that they can be read.
///
/// # Safety
///
/// The mappings are those of now.
pub(super) unsafe fn read_mapped(address: usize, bytes: &mut [u8], mappings: &[Mapping]) -> Result<(), AttachError> {
    let end = address.saturating_add(bytes.len());
    for page in address / PAGE..end.div_ceil(PAGE) {
        protection(mappings, page * PAGE)?;
    }
    // SAFETY: the pages can be read.
    unsafe { read(address, bytes) };
    Ok(())
}

/// Puts machine code into newly mapped memory that stays for the life of the process; returns its address.
pub(crate) fn executable(code: &[u8]) -> io::Result<usize> {
    let size = code.len().next_multiple_of(PAGE);
    let (write, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory, at an address of the system's choice.
    let pages = unsafe { libc::mmap(std::ptr::null_mut(), size, write, flags, -1, 0) };
    if pages == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the memory is new and at least as large.
    unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), pages.cast(), code.len()) };
    if let Err(error) = protect(pages as usize, size, libc::PROT_READ | libc::PROT_EXEC) {
        // SAFETY: the address has not been passed on yet.
        unsafe { libc::munmap(pages, size) };
        return Err(error);
    }
    Ok(pages as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Three pages in a row; the second has another protection than the first and the third.
    fn pages() -> (usize, Vec<Mapping>) {
        let start = executable(&[0xcc; 3 * PAGE]).unwrap();
        protect(start + PAGE, PAGE, libc::PROT_READ).unwrap();
        let mapping = |index: usize, protection| Mapping {
            start: start + index * PAGE,
            end: start + (index + 1) * PAGE,
            protection,
            private: true,
        };
        let code = libc::PROT_READ | libc::PROT_EXEC;
        (start, vec![mapping(0, code), mapping(1, libc::PROT_READ), mapping(2, code)])
    }

    fn changes(start: usize) -> Vec<Change> {
        let at = [start + 16, start + PAGE - 2, start + 2 * PAGE + 8];
        at.map(|address| Change { address, bytes: vec![1, 2, 3, 4, 5] }).to_vec()
    }

    fn bytes(address: usize) -> [u8; 5] {
        let mut bytes = [0; 5];
        // SAFETY: an address of `pages`.
        unsafe { read(address, &mut bytes) };
        bytes
    }

    /// The protection of the pages as reported by the system.
    fn protections(start: usize) -> Vec<c_int> {
        let mappings = super::super::loaded::mappings().unwrap();
        (0..3).map(|page| protection(&mappings, start + page * PAGE).unwrap()).collect()
    }

    #[test]
    fn changes_are_made_and_the_protection_is_as_before() {
        let (start, mappings) = pages();
        let before = protections(start);
        let changes = changes(start);
        let plan = Plan::new(&changes, &mappings).unwrap();
        // SAFETY: the pages are this test's.
        unsafe { plan.make() }.unwrap();
        assert!(changes.iter().all(|change| bytes(change.address) == [1, 2, 3, 4, 5]));
        assert_eq!(protections(start), before);
    }

    #[test]
    fn a_refusal_at_any_point_leaves_everything_as_it_was() {
        let (start, mappings) = pages();
        let before = protections(start);
        let changes = changes(start);
        let plan = Plan::new(&changes, &mappings).unwrap();
        // Three calls open the pages, three close them.
        for refused in 0..6 {
            let calls = RefCell::new(0);
            let sometimes = |at, size, protection| {
                let call = calls.replace_with(|calls| *calls + 1);
                if call == refused { Err(io::Error::other("refused")) } else { protect(at, size, protection) }
            };
            // SAFETY: the pages are this test's.
            let error = unsafe { plan.make_with(&sometimes) }.unwrap_err();
            assert!(matches!(error, AttachError::Protected { undone: true, .. }), "{refused}: {error:?}");
            assert!(changes.iter().all(|change| bytes(change.address) == [0xcc; 5]), "{refused}");
            assert_eq!(protections(start), before, "{refused}");
        }
    }

    #[test]
    fn what_cannot_be_undone_is_said() {
        let (start, mappings) = pages();
        let changes = changes(start);
        let plan = Plan::new(&changes, &mappings).unwrap();
        let calls = RefCell::new(0);
        let until = |at, size, protection| {
            let call = calls.replace_with(|calls| *calls + 1);
            if call >= 4 { Err(io::Error::other("refused")) } else { protect(at, size, protection) }
        };
        // SAFETY: the pages are this test's.
        let error = unsafe { plan.make_with(&until) }.unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("refused; what was changed before could not be undone, so the library must not be used")
        );
    }

    #[test]
    fn only_private_memory_that_can_be_read_is_changed() {
        let (start, mappings) = pages();
        let changes = changes(start);
        let error = |change: &dyn Fn(&mut Vec<Mapping>)| {
            let mut mappings = mappings.clone();
            change(&mut mappings);
            Plan::new(&changes, &mappings).unwrap_err().to_string()
        };
        assert!(error(&|mappings| mappings[1].protection = 0).ends_with("cannot be read"));
        assert!(error(&|mappings| mappings[2].private = false).ends_with("is shared: a change would change the file"));
        assert!(error(&|mappings| mappings.truncate(2)).ends_with("is not mapped"));
    }

    #[test]
    fn a_slot_that_can_be_written_to_is_written_to() {
        let mut slot = Box::new(7u64);
        let address = (&raw mut *slot) as usize;
        let change = [Change { address, bytes: 9u64.to_ne_bytes().to_vec() }];
        let plan = Plan::new(&change, &super::super::loaded::mappings().unwrap()).unwrap();
        assert!(plan.locked.is_empty());
        // SAFETY: the slot is this test's.
        unsafe { plan.make() }.unwrap();
        assert_eq!(*slot, 9);
    }
}
