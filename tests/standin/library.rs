//! NCCL's functions on CUDA streams: numbers, devices, aborting, refusals, and two libraries in one process.
use crate::child::{Comm, Nccl, all_reduce, bind, download, first_values, init, unique_id, upload};
use crate::libraries::{demanding, without};
use crate::process::{Running, start, start_in};
use crate::{nccl, say};
use collspec_run::library::standin;
use cudarc::driver::result;
use nccl_sys::*;
use std::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;

const COUNT: usize = 1000;

/// What `walk` says when nothing goes wrong.
pub const WALK: [&str; 7] = [
    "rank 0: all_reduce",
    "rank 0: data [3.0, 4.0, 5.0, 6.0]",
    "rank 0: destroy",
    "rank 0: init, device 0 of 2",
    "rank 1: all_reduce",
    "rank 1: data [3.0, 4.0, 5.0, 6.0]",
    "rank 1: destroy",
];

fn whole_walk(mut child: Running) {
    assert!(child.end().success(), "{:?}", child.seen);
    let mut wanted = WALK.to_vec();
    wanted.extend(["rank 1: init, device 1 of 2", "version 23203"]);
    assert_eq!(child.sorted(), wanted);
}

#[test]
fn ranks_reduce_on_streams() {
    whole_walk(start("walk", None, &[]));
}

#[test]
fn ranks_reduce_over_a_driver_without_the_extension() {
    let folder = tempfile::tempdir().unwrap();
    let driver = standin::folder().unwrap().join("libcuda.so");
    let plain = without(&driver, &["collspecStreamLaunch"], &folder.path().join("driver.so"));
    for name in ["libcuda.so", "libcuda.so.1"] {
        std::os::unix::fs::symlink(&plain, folder.path().join(name)).unwrap();
    }
    whole_walk(start_in(folder.path(), "walk", None, &[]));
    let mut child = start_in(folder.path(), "abort", None, &[]);
    assert!(child.end().success(), "{:?}", child.seen);
    assert_eq!(child.seen, ["waits", "aborted", "the stream goes on"]);
}

#[test]
fn aborting_lets_the_stream_go_on() {
    let mut child = start("abort", None, &[]);
    assert!(child.end().success(), "{:?}", child.seen);
    assert_eq!(child.seen, ["waits", "aborted", "the stream goes on"]);
}

#[test]
fn what_is_wrong_is_refused() {
    let mut child = start("refusals", None, &[("NCCL_CHECK_POINTERS", "1")]);
    assert!(child.end().success(), "{:?}", child.seen);
    assert_eq!(
        child.seen,
        [
            "no stream: invalid_argument: no live stream has this handle",
            "host memory: invalid_argument: the send buffer of all_reduce is not device memory all along",
            "no communicator: invalid_argument",
        ]
    );
}

#[test]
fn without_a_device_there_is_no_communicator() {
    let mut child = start("refusals", None, &[("COLLSPEC_STANDIN_DEVICES", "0")]);
    assert!(child.end().success(), "{:?}", child.seen);
    assert_eq!(child.seen, ["init: unhandled_cuda_error: cuInit answered 100"]);
}

#[test]
fn ranks_reduce_across_processes() {
    let mut first = start("rank", None, &[("STANDIN_RANK", "0")]);
    let id = first.line();
    let mut second = start("rank", None, &[("STANDIN_RANK", "1"), ("STANDIN_ID", &id)]);
    for child in [&mut first, &mut second] {
        assert!(child.end().success(), "{:?}", child.seen);
    }
    let lines: Vec<String> = [first.sorted(), second.sorted()].concat().into_iter().map(str::to_owned).collect();
    let mut wanted = WALK.to_vec();
    wanted.push("rank 1: init, device 1 of 2");
    assert_eq!(lines, wanted);
}

/// Copies, because the loader takes two links to one file for one library.
#[test]
fn two_libraries_in_one_process_are_two() {
    let folder = tempfile::tempdir().unwrap();
    let a = demanding(&folder.path().join("a"), "version=21805");
    let b = demanding(&folder.path().join("b"), "version=22907\nwrong-data");
    let both = format!("{}:{}", a.display(), b.display());
    let mut child = start("two", None, &[("STANDIN_LIBRARIES", &both)]);
    assert!(child.end().success(), "{:?}", child.seen);
    assert_eq!(child.seen, ["version 21805: [2.0, 3.0]", "version 22907: [2.3509887e-38, 3.0]"]);
}

#[test]
fn a_function_that_a_library_lacks_is_not_found() {
    let folder = tempfile::tempdir().unwrap();
    let copy = without(&standin::library().unwrap(), &["ncclAllReduce"], &folder.path().join("libnccl.so.2"));
    let mut child = start("walk", Some(&copy), &[]);
    assert!(child.end().success(), "{:?}", child.seen);
    assert_eq!(child.seen.iter().filter(|line| *line == "ncclAllReduce is missing").count(), 2, "{:?}", child.seen);
}

fn version(nccl: &Nccl) -> Result<c_int, ncclResult_t> {
    let mut version = 0;
    match nccl!(nccl, ncclGetVersion(&mut version => *mut c_int)) {
        ncclResult_t::Success => Ok(version),
        code => Err(code),
    }
}

/// Two ranks: each says how far it gets.
pub fn walk() {
    let nccl = Nccl::given();
    match version(&nccl) {
        Ok(number) => say!("version {number}"),
        Err(code) => return say!("version: {code:?}"),
    }
    let id = unique_id(&nccl);
    std::thread::scope(|scope| {
        for rank in 0..2 {
            let nccl = &nccl;
            scope.spawn(move || rank_walks(nccl, id, rank));
        }
    });
}

/// One rank of two; rank 0 prints the unique id, rank 1 gets it from its environment.
pub fn one_rank() {
    let nccl = Nccl::given();
    let rank = std::env::var("STANDIN_RANK").unwrap().parse().unwrap();
    let id = match std::env::var("STANDIN_ID") {
        Ok(text) => {
            let mut numbers = text.split(' ').map(|number| number.parse().unwrap());
            ncclUniqueId { internal: std::array::from_fn(|_| numbers.next().unwrap()) }
        }
        Err(_) => {
            let id = unique_id(&nccl);
            say!("{}", id.internal.map(|byte| byte.to_string()).join(" "));
            id
        }
    };
    rank_walks(&nccl, id, rank);
}

/// Makes ranks wait for their stream alone, in one call.
pub const BLOCKS: &str = "STANDIN_BLOCKS";

fn rank_walks(nccl: &Nccl, id: ncclUniqueId, rank: c_int) {
    let stream = bind(rank);
    let comm = match init(nccl, 2, id, rank) {
        Ok(comm) => comm,
        Err(code) => return say!("rank {rank}: init: {code:?}"),
    };
    let (mut device, mut n) = (-1, -1);
    nccl!(nccl, ncclCommCuDevice(comm.0 => ncclComm_t, &mut device => *mut c_int));
    nccl!(nccl, ncclCommCount(comm.0 => ncclComm_t, &mut n => *mut c_int));
    say!("rank {rank}: init, device {device} of {n}");
    let values: Vec<f32> = (0..COUNT).map(|i| if rank == 0 { i as f32 } else { 3.0 }).collect();
    let memory = upload(&values, stream);
    let code = all_reduce(nccl, memory, COUNT, comm, stream);
    if code != ncclResult_t::Success {
        return say!("rank {rank}: all_reduce: {code:?}");
    }
    say!("rank {rank}: all_reduce");
    if !finished(nccl, comm, rank, stream) {
        return;
    }
    let result = download(memory, COUNT, stream);
    let rest_is_right = (4..COUNT).all(|i| result[i] == i as f32 + 3.0);
    say!("rank {rank}: data {}{}", first_values(&result), if rest_is_right { "" } else { " and more" });
    let code = nccl!(nccl, ncclCommDestroy(comm.0 => ncclComm_t));
    if code != ncclResult_t::Success {
        return say!("rank {rank}: destroy: {code:?}");
    }
    say!("rank {rank}: destroy");
}

/// Waits as a harness does: for the stream, or for an asynchronous error.
fn finished(nccl: &Nccl, comm: Comm, rank: c_int, stream: cudarc::driver::sys::CUstream) -> bool {
    use cudarc::driver::sys::{CUresult, cuStreamQuery};
    if std::env::var_os(BLOCKS).is_some() {
        // SAFETY: a live stream.
        unsafe { result::stream::synchronize(stream) }.unwrap();
        return true;
    }
    loop {
        // SAFETY: a live stream.
        match unsafe { cuStreamQuery(stream) } {
            CUresult::CUDA_SUCCESS => return true,
            CUresult::CUDA_ERROR_NOT_READY => {}
            other => panic!("{other:?}"),
        }
        let mut error = ncclResult_t::Success;
        nccl!(nccl, ncclCommGetAsyncError(comm.0 => ncclComm_t, &mut error => *mut ncclResult_t));
        if error != ncclResult_t::Success {
            say!("rank {rank}: asynchronous {error:?}");
            return false;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Rank 0 reduces, rank 1 never does.
pub fn abort() {
    let nccl = Nccl::given();
    let id = unique_id(&nccl);
    let comms: Vec<Comm> = std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..2)
            .map(|rank| {
                let nccl = &nccl;
                scope.spawn(move || {
                    bind(rank);
                    init(nccl, 2, id, rank).unwrap()
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    let stream = bind(0);
    let memory = upload(&[1.0], stream);
    assert_eq!(all_reduce(&nccl, memory, 1, comms[0], stream), ncclResult_t::Success);
    // SAFETY: a live stream.
    let code = unsafe { cudarc::driver::sys::cuStreamQuery(stream) };
    assert_eq!(code, cudarc::driver::sys::CUresult::CUDA_ERROR_NOT_READY);
    say!("waits");
    for comm in comms {
        assert_eq!(nccl!(nccl, ncclCommAbort(comm.0 => ncclComm_t)), ncclResult_t::Success);
    }
    say!("aborted");
    // SAFETY: a live stream.
    unsafe { result::stream::synchronize(stream) }.unwrap();
    say!("the stream goes on");
}

fn last_error(nccl: &Nccl) -> String {
    let function: unsafe extern "C" fn(ncclComm_t) -> *const c_char = nccl.get("ncclGetLastError").unwrap();
    // SAFETY: the text is this thread's until its next call.
    unsafe { std::ffi::CStr::from_ptr(function(std::ptr::null_mut())) }.to_string_lossy().into_owned()
}

pub fn refusals() {
    let nccl = Nccl::given();
    let id = unique_id(&nccl);
    if result::init().is_err() {
        let code = init(&nccl, 1, id, 0).err().unwrap();
        return say!("init: {code:?}: {}", last_error(&nccl));
    }
    let stream = bind(0);
    let comm = init(&nccl, 1, id, 0).unwrap();
    let memory = upload(&[1.0], stream);
    let code = all_reduce(&nccl, memory, 1, comm, std::ptr::without_provenance_mut(77));
    say!("no stream: {code:?}: {}", last_error(&nccl));
    let host = [1.0f32];
    let code = all_reduce(&nccl, host.as_ptr().cast::<c_void>().expose_provenance() as u64, 1, comm, stream);
    say!("host memory: {code:?}: {}", last_error(&nccl));
    let code = all_reduce(&nccl, memory, 1, Comm(std::ptr::without_provenance_mut(77)), stream);
    say!("no communicator: {code:?}");
}

/// Each of two libraries makes a communicator of one rank and broadcasts.
pub fn two() {
    let stream = bind(0);
    let paths = std::env::var("STANDIN_LIBRARIES").unwrap();
    let libraries: Vec<Nccl> = paths.split(':').map(|path| Nccl::open(&PathBuf::from(path))).collect();
    for nccl in &libraries {
        let comm = init(nccl, 1, unique_id(nccl), 0).unwrap();
        let memory = upload(&[2.0, 3.0], stream);
        assert_eq!(all_reduce(nccl, memory, 2, comm, stream), ncclResult_t::Success);
        say!("version {}: {:?}", version(nccl).unwrap(), download(memory, 2, stream));
    }
}
