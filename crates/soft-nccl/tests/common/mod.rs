//! A C-like user of the table: ranks with communicators and streams, device memory, typed values.
#![allow(dead_code)]
pub mod idle;
pub mod kernel;
pub mod parts;
pub mod suite;
pub mod values;
use gpuless_device::{Stream, memory};
use nccl_sys::*;
use std::ffi::c_void;
use std::sync::LazyLock;

pub static NCCL: LazyLock<Nccl> = LazyLock::new(soft_nccl::table);

/// Calls an entry of the table.
#[macro_export]
macro_rules! nccl {
    ($name:ident($($arg:expr),* $(,)?)) => {{
        let f = $crate::common::NCCL.$name.expect(stringify!($name));
        // SAFETY: the test passes the arguments that the function requires.
        #[allow(unused_unsafe, clippy::macro_metavars_in_unsafe)]
        unsafe { f($($arg),*) }
    }};
}

pub fn unique_id() -> ncclUniqueId {
    let mut id = ncclUniqueId { internal: [0; 128] };
    assert_eq!(nccl!(ncclGetUniqueId(&mut id)), ncclResult_t::Success);
    id
}

/// Device memory for a test's whole life.
pub struct Buffer {
    pub ptr: *mut u8,
    pub len: usize,
}
// SAFETY: plain memory; tests synchronise streams before they look.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    pub fn new(bytes: &[u8]) -> Self {
        let ptr = memory::alloc(bytes.len(), 64).expect("memory");
        // SAFETY: fresh memory of that length.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), ptr, bytes.len()) };
        Self { ptr, len: bytes.len() }
    }

    pub fn of<T: Copy>(values: &[T]) -> Self {
        // SAFETY: plain old data.
        Self::new(unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) })
    }

    pub fn get<T: Copy>(&self) -> Vec<T> {
        let n = self.len / size_of::<T>();
        // SAFETY: the memory holds this many, written by `of` or the library.
        (0..n).map(|i| unsafe { self.ptr.cast::<T>().add(i).read_unaligned() }).collect()
    }

    pub fn at(&self, offset: usize) -> *mut c_void {
        self.ptr.wrapping_add(offset).cast()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: made by `alloc`; tests drop buffers after synchronising.
        unsafe { memory::free(self.ptr) };
    }
}

/// The ranks of a communicator that live in this process (all of them, unless other processes have some), driven by
/// one thread.
pub struct World {
    pub comms: Vec<ncclComm_t>,
    pub streams: Vec<Stream>,
    /// Ranks of this process.
    pub here: Vec<usize>,
}
// SAFETY: handles are numbers.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

impl World {
    pub fn new(n: usize) -> Self {
        let mut comms = vec![std::ptr::null_mut(); n];
        assert_eq!(nccl_init_all(&mut comms), ncclResult_t::Success);
        Self { comms, streams: (0..n).map(|_| Stream::new()).collect(), here: (0..n).collect() }
    }

    /// This process's ranks of a communicator of `n`; other processes have the others.
    pub fn part(id: ncclUniqueId, n: usize, here: &[usize]) -> Result<Self, ncclResult_t> {
        let mut comms = vec![std::ptr::null_mut(); n];
        assert_eq!(nccl!(ncclGroupStart()), ncclResult_t::Success);
        for r in here {
            nccl!(ncclCommInitRank(&mut comms[*r], n as i32, id, *r as i32));
        }
        match nccl!(ncclGroupEnd()) {
            ncclResult_t::Success => Ok(Self::of(comms, here)),
            code => Err(code),
        }
    }

    /// Takes communicators that were created already: those of the ranks `here`.
    pub fn of(comms: Vec<ncclComm_t>, here: &[usize]) -> Self {
        let streams = comms.iter().map(|_| Stream::new()).collect();
        Self { comms, streams, here: here.to_vec() }
    }

    pub fn n(&self) -> usize {
        self.comms.len()
    }

    /// One group with every rank's call.
    pub fn group(&self, mut call: impl FnMut(usize, ncclComm_t, cudaStream_t) -> ncclResult_t) -> ncclResult_t {
        let (start, end) = (NCCL.ncclGroupStart.unwrap(), NCCL.ncclGroupEnd.unwrap());
        // SAFETY: no arguments.
        assert_eq!(unsafe { start() }, ncclResult_t::Success);
        for r in self.here.iter().copied() {
            call(r, self.comms[r], self.streams[r].raw());
        }
        // SAFETY: no arguments.
        unsafe { end() }
    }

    pub fn run(&self, call: impl FnMut(usize, ncclComm_t, cudaStream_t) -> ncclResult_t) {
        assert_eq!(self.group(call), ncclResult_t::Success, "{}", last_error());
        self.synchronize();
    }

    pub fn synchronize(&self) {
        for stream in &self.streams {
            stream.synchronize();
        }
    }

    pub fn destroy(self) {
        for comm in self.comms.iter().filter(|comm| !comm.is_null()) {
            // SAFETY: a live handle.
            assert_eq!(unsafe { NCCL.ncclCommDestroy.unwrap()(*comm) }, ncclResult_t::Success);
        }
    }

    pub fn mark(&self, tag: u32) {
        for comm in self.comms.iter().filter(|comm| !comm.is_null()) {
            // SAFETY: a live handle.
            assert_eq!(unsafe { NCCL.collspecMark.unwrap()(*comm, tag) }, ncclResult_t::Success);
        }
    }

    pub fn traffic(&self, tag: u32) -> Vec<collspecTraffic_t> {
        self.comms
            .iter()
            .filter(|comm| !comm.is_null())
            .map(|comm| {
                let mut t = collspecTraffic_t::default();
                // SAFETY: a live handle and a place.
                assert_eq!(unsafe { NCCL.collspecTraffic.unwrap()(*comm, tag, &mut t) }, ncclResult_t::Success);
                t
            })
            .collect()
    }
}

fn nccl_init_all(comms: &mut [ncclComm_t]) -> ncclResult_t {
    // SAFETY: an array of this many places.
    unsafe { NCCL.ncclCommInitAll.unwrap()(comms.as_mut_ptr(), comms.len() as i32, std::ptr::null()) }
}

pub fn last_error() -> String {
    // SAFETY: the library's text lives until this thread's next refusal.
    unsafe { std::ffi::CStr::from_ptr(NCCL.ncclGetLastError.unwrap()(std::ptr::null_mut())) }
        .to_string_lossy()
        .into_owned()
}

pub fn census() -> collspecCensus_t {
    let mut c = collspecCensus_t::default();
    // SAFETY: a place.
    assert_eq!(unsafe { NCCL.collspecCensus.unwrap()(&mut c) }, ncclResult_t::Success);
    c
}

pub fn who_waits() -> String {
    let f = NCCL.collspecWhoWaits.unwrap();
    let mut bytes = vec![0u8; 1 << 16];
    // SAFETY: a place of that length.
    let n = unsafe { f(bytes.as_mut_ptr().cast(), bytes.len() as u64) } as usize;
    bytes.truncate(n);
    String::from_utf8(bytes).unwrap()
}
