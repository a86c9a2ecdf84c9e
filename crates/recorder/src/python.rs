//! The line of Python that makes a call.
//!
//! A frame may be looked at only under the interpreter's lock (the GIL), and the caller of NCCL has usually given it up: PyTorch and nccl4py
//! do so around each call. Waiting for it here could last for ever. The thread that has it may wait for a lock that the caller holds across the
//! call (PyTorch holds one of its allocator's), and would get that only once this function has returned. So the calling thread never waits
//! for it without end: another thread takes the lock and looks at the caller's frames, and the caller waits for that a short time only. While
//! it waits, its frames stand still; if it goes on, it cannot run Python, nor end its thread's state, without the lock that the other one
//! then has or has yet to get, in which case that one finds that nobody waits, and looks at nothing.
#![allow(unsafe_code)] // the interpreter is called

use crate::loaded;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::with_exposed_provenance_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// How long a call waits for its line. A thread that runs Python gives up the lock after 5 ms if another wants it.
const PATIENCE: Duration = Duration::from_millis(30);
/// Threads that may wait for the lock at a time.
const WAITING: usize = 4;
/// Frames that are looked at.
const DEPTH: usize = 128;

type Object = *mut c_void;

struct Python {
    own_state: unsafe extern "C" fn() -> Object,
    current_state: Option<unsafe extern "C" fn() -> Object>,
    is_finalizing: Option<unsafe extern "C" fn() -> c_int>,
    ensure: unsafe extern "C" fn() -> c_int,
    release: unsafe extern "C" fn(c_int),
    frame: unsafe extern "C" fn(Object) -> Object,
    back: unsafe extern "C" fn(Object) -> Object,
    code: unsafe extern "C" fn(Object) -> Object,
    line: unsafe extern "C" fn(Object) -> c_int,
    attribute: unsafe extern "C" fn(Object, *const c_char) -> Object,
    text: unsafe extern "C" fn(Object, *mut isize) -> *const c_char,
    forget: unsafe extern "C" fn(Object),
    clear: unsafe extern "C" fn(),
}

/// The interpreter of this process, of version 3.9 or later.
fn python() -> Option<&'static Python> {
    static PYTHON: OnceLock<Option<Python>> = OnceLock::new();
    // SAFETY: the types are those of CPython's interface.
    let find = || unsafe {
        Some(Python {
            own_state: loaded::function(c"PyGILState_GetThisThreadState")?,
            current_state: loaded::function(c"PyThreadState_GetUnchecked")
                .or_else(|| loaded::function(c"_PyThreadState_UncheckedGet")),
            is_finalizing: loaded::function(c"Py_IsFinalizing").or_else(|| loaded::function(c"_Py_IsFinalizing")),
            ensure: loaded::function(c"PyGILState_Ensure")?,
            release: loaded::function(c"PyGILState_Release")?,
            frame: loaded::function(c"PyThreadState_GetFrame")?,
            back: loaded::function(c"PyFrame_GetBack")?,
            code: loaded::function(c"PyFrame_GetCode")?,
            line: loaded::function(c"PyFrame_GetLineNumber")?,
            attribute: loaded::function(c"PyObject_GetAttrString")?,
            text: loaded::function(c"PyUnicode_AsUTF8AndSize")?,
            forget: loaded::function(c"Py_DecRef")?,
            clear: loaded::function(c"PyErr_Clear")?,
        })
    };
    PYTHON.get_or_init(find).as_ref()
}

/// What is known of the line.
pub enum Line {
    /// `FILE:LINE (FUNCTION)`
    At(String),
    /// The reason in words.
    Unknown(&'static str),
    /// There is no Python here.
    NoPython,
}

/// The innermost frame of the calling thread that is not in an installed package or the standard library.
pub fn line() -> Line {
    let Some(python) = python() else { return Line::NoPython };
    // SAFETY: it needs no lock: the answer is this thread's own, or null.
    let state = unsafe { (python.own_state)() };
    if state.is_null() {
        return Line::Unknown("a thread that runs no Python, such as one of the autograd engine's");
    }
    // SAFETY: as above. They are equal only while this thread has the lock.
    let has_lock = python.current_state.is_some_and(|current| unsafe { current() } == state);
    let found = if has_lock { python.look(state) } else { elsewhere(python, state) };
    found.map_or(Line::Unknown("no frame of Python that could be looked at in time"), Line::At)
}

/// Another thread looks.
fn elsewhere(python: &'static Python, state: Object) -> Option<String> {
    static AT_WORK: AtomicUsize = AtomicUsize::new(0);
    if AT_WORK.fetch_add(1, Ordering::Relaxed) >= WAITING {
        AT_WORK.fetch_sub(1, Ordering::Relaxed);
        return None;
    }
    let state = state.expose_provenance();
    let awaited = Arc::new(Mutex::new(true));
    let (sender, answer) = sync_channel(1);
    let wanted = Arc::clone(&awaited);
    let look = move || {
        // SAFETY: the interpreter is there; a thread of ours may ask for its lock, and gives it back.
        unsafe {
            if python.is_finalizing.is_none_or(|ask| ask() == 0) {
                let held = (python.ensure)();
                let is_wanted = *wanted.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = sender.send(if is_wanted { python.look(with_exposed_provenance_mut(state)) } else { None });
                (python.release)(held);
            }
        }
        AT_WORK.fetch_sub(1, Ordering::Relaxed);
    };
    if std::thread::Builder::new().name("collspec line".into()).spawn(look).is_err() {
        AT_WORK.fetch_sub(1, Ordering::Relaxed);
        return None;
    }
    let found = answer.recv_timeout(PATIENCE).ok().flatten();
    *awaited.lock().unwrap_or_else(PoisonError::into_inner) = false;
    found
}

impl Python {
    /// Looks at the frames of a thread, under the lock.
    fn look(&self, state: Object) -> Option<String> {
        // SAFETY: the lock is held, and the state is that of a thread that waits for this, or this one. Each object is given back once.
        unsafe {
            let mut frame = (self.frame)(state);
            let mut first = None;
            for _ in 0..DEPTH {
                if frame.is_null() {
                    break;
                }
                let code = (self.code)(frame);
                let file = self.word(code, c"co_filename");
                let shown = format!("{file}:{} ({})", (self.line)(frame), self.word(code, c"co_name"));
                (self.forget)(code);
                let is_own =
                    !["/site-packages/", "/dist-packages/", "/lib/python3"].iter().any(|part| file.contains(part));
                if is_own && !file.starts_with('<') {
                    (self.forget)(frame);
                    return Some(shown);
                }
                first.get_or_insert(shown);
                let next = (self.back)(frame);
                (self.forget)(frame);
                frame = next;
            }
            if !frame.is_null() {
                (self.forget)(frame);
            }
            first
        }
    }

    /// An attribute that is a text.
    ///
    /// # Safety
    ///
    /// The lock is held, and the object alive.
    unsafe fn word(&self, object: Object, name: &CStr) -> String {
        // SAFETY: the caller's promise; the text lives as long as its object.
        unsafe {
            let value = (self.attribute)(object, name.as_ptr());
            if value.is_null() {
                (self.clear)();
                return String::new();
            }
            let mut len = 0;
            let text = (self.text)(value, &mut len);
            let bytes: &[u8] = if text.is_null() {
                (self.clear)();
                b""
            } else {
                std::slice::from_raw_parts(text.cast(), usize::try_from(len).unwrap_or(0))
            };
            let word = String::from_utf8_lossy(bytes).into_owned();
            (self.forget)(value);
            word
        }
    }
}
