//! What a child needs of CUDA and NCCL: a bound thread, memory, a stream, and functions by name.
use cudarc::driver::{result, sys};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use nccl_sys::*;
use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};

/// A library by its absolute path, as NCCL has to be opened. Never closed.
pub struct Nccl(Library);

impl Nccl {
    pub fn open(path: &Path) -> Self {
        // SAFETY: the stand-in's initialisers do nothing.
        Self(unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.unwrap())
    }

    /// The library that this child is for.
    pub fn given() -> Self {
        Self::open(&PathBuf::from(std::env::var_os("STANDIN_LIBRARY").unwrap()))
    }

    /// A function, of the type that the caller says.
    pub fn get<F: Copy>(&self, name: &str) -> Option<F> {
        // SAFETY: callers of this take the types of nccl-sys's table.
        unsafe { self.0.get::<F>(name.as_bytes()) }.ok().map(|function| *function)
    }
}

impl Drop for Nccl {
    fn drop(&mut self) {
        // threads of the library may run: it has to stay
        // SAFETY: the copy is forgotten at once and never used.
        std::mem::forget(unsafe { std::ptr::read(&self.0) });
        std::mem::forget(std::mem::replace(&mut self.0, Library::this()));
    }
}

/// Calls an NCCL function, or prints a line for the parent if it is missing.
#[macro_export]
macro_rules! nccl {
    ($library:expr, $name:ident($($arg:expr => $ty:ty),* $(,)?)) => {{
        let function: Option<unsafe extern "C" fn($($ty),*) -> ncclResult_t> = $library.get(stringify!($name));
        match function {
            // SAFETY: arguments as NCCL wants them; that is what is tested.
            #[allow(clippy::macro_metavars_in_unsafe)]
            Some(function) => unsafe { function($($arg),*) },
            None => { $crate::say!("{} is missing", stringify!($name)); ncclResult_t(-1) }
        }
    }};
}

/// Makes the device the calling thread's, and a stream on it.
pub fn bind(device: c_int) -> sys::CUstream {
    result::init().unwrap();
    let device = result::device::get(device).unwrap();
    // SAFETY: a device that exists; the context is released when the process ends.
    unsafe { result::ctx::set_current(result::primary_ctx::retain(device).unwrap()) }.unwrap();
    result::stream::create(result::stream::StreamKind::NonBlocking).unwrap()
}

/// Device memory with these values, ordered on the stream.
pub fn upload(values: &[f32], stream: sys::CUstream) -> sys::CUdeviceptr {
    // SAFETY: the memory is as long as the values.
    unsafe {
        let memory = result::malloc_sync(size_of_val(values)).unwrap();
        result::memcpy_htod_async(memory, values, stream).unwrap();
        memory
    }
}

/// So many values, when the stream is finished.
pub fn download(memory: sys::CUdeviceptr, count: usize, stream: sys::CUstream) -> Vec<f32> {
    let mut values = vec![0.0; count];
    // SAFETY: the memory is as long as the values.
    unsafe {
        result::memcpy_dtoh_async(&mut values, memory, stream).unwrap();
        result::stream::synchronize(stream).unwrap();
    }
    values
}

/// A communicator handle that may go to another thread.
#[derive(Clone, Copy)]
pub struct Comm(pub ncclComm_t);
// SAFETY: NCCL's handles may be used from any thread.
unsafe impl Send for Comm {}

pub fn unique_id(nccl: &Nccl) -> ncclUniqueId {
    let mut id = ncclUniqueId { internal: [0; 128] };
    let code = nccl!(nccl, ncclGetUniqueId(&mut id => *mut ncclUniqueId));
    assert_eq!(code, ncclResult_t::Success);
    id
}

pub fn init(nccl: &Nccl, n: c_int, id: ncclUniqueId, rank: c_int) -> Result<Comm, ncclResult_t> {
    let mut comm: ncclComm_t = std::ptr::null_mut();
    let code =
        nccl!(nccl, ncclCommInitRank(&mut comm => *mut ncclComm_t, n => c_int, id => ncclUniqueId, rank => c_int));
    if code == ncclResult_t::Success { Ok(Comm(comm)) } else { Err(code) }
}

pub fn all_reduce(
    nccl: &Nccl,
    memory: sys::CUdeviceptr,
    count: usize,
    comm: Comm,
    stream: sys::CUstream,
) -> ncclResult_t {
    let pointer = std::ptr::with_exposed_provenance_mut::<c_void>(memory as usize);
    nccl!(nccl, ncclAllReduce(
        pointer => *const c_void, pointer => *mut c_void, count => usize, ncclDataType_t::Float32 => ncclDataType_t,
        ncclRedOp_t::Sum => ncclRedOp_t, comm.0 => ncclComm_t, stream.cast() => cudaStream_t,
    ))
}

/// The first four elements as text.
pub fn first_values(values: &[f32]) -> String {
    format!("{:?}", &values[..values.len().min(4)])
}
