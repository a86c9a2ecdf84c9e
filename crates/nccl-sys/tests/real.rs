//! Real NCCL libraries, where this machine has any: symbols, version, unique ids, and their answers without a GPU.
//!
//! They are named in COLLSPEC_TEST_NCCL (paths, separated by colons), or lie in the cache of `collspec nccl fetch`. Each
//! is asked in a separate process: this program, started again for the one test that is ignored otherwise.
use nccl_sys::*;
use std::collections::BTreeSet;
use std::env;
use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr;

/// The variable that names the library for the child to query.
const ASKED: &str = "COLLSPEC_TEST_ASKED";

fn libraries() -> Vec<PathBuf> {
    if let Some(paths) = env::var_os("COLLSPEC_TEST_NCCL") {
        return env::split_paths(&paths).filter(|path| !path.as_os_str().is_empty()).collect();
    }
    let home = || env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute()).or_else(home);
    let Some(cache) = cache else { return Vec::new() };
    let Ok(versions) = cache.join("collspec/nccl").read_dir() else { return Vec::new() };
    let libraries = versions.flatten().map(|version| version.path().join("libnccl.so.2"));
    libraries.filter(|path| path.is_file()).collect()
}

/// True if a call may find a device: the result is then outside the scope of this test.
fn may_have_a_device() -> bool {
    Path::new("/dev/nvidiactl").exists() || Path::new("/dev/dxg").exists()
}

#[test]
fn real_libraries_answer_as_documented() {
    let libraries = libraries();
    if libraries.is_empty() {
        eprintln!("skipped: COLLSPEC_TEST_NCCL names no library, and `collspec nccl fetch` has fetched none");
    }
    for library in libraries {
        let mut child = Command::new(env::current_exe().unwrap());
        child.args(["--exact", "one_real_library", "--ignored", "--nocapture"]).env(ASKED, &library);
        child.env_remove("NCCL_DEBUG");
        let answer = child.output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&answer.stdout), String::from_utf8_lossy(&answer.stderr));
        assert!(answer.status.success() && said.contains("1 passed"), "{}: {said}", library.display());
        eprintln!("{}", said.lines().find(|line| line.starts_with("asked ")).unwrap_or("nothing was said"));
    }
}

#[test]
#[ignore = "asks the library that the other test names"]
fn one_real_library() {
    let Some(path) = env::var_os(ASKED) else { return };
    let table = Nccl::load(Path::new(&path)).unwrap();
    let mut version = 0;
    // SAFETY: a place for the answer.
    assert_eq!(unsafe { table.ncclGetVersion.unwrap()(&mut version) }, ncclResult_t::Success);
    symbols(&table, Path::new(&path), version);
    texts(&table, version);
    unique_ids(&table);
    if may_have_a_device() {
        println!("asked {} of {}; there may be a device, so nothing without one", version_text(version), table.library);
        return;
    }
    without_a_device(&table, version);
    println!("asked {} of {}", version_text(version), table.library);
}

/// A function exists exactly if its release has been reached.
fn symbols(table: &Nccl, path: &Path, version: i32) {
    let come = |since: &&str| release(since).is_some_and(|code| code <= version);
    let present: BTreeSet<_> = table.present().into_iter().collect();
    let expected: BTreeSet<_> = Nccl::SYMBOLS.iter().filter(|(_, since)| come(since)).map(|(name, _)| *name).collect();
    assert_eq!(present, expected, "the table against {}", version_text(version));
    // SAFETY: it is open already.
    let library = unsafe { libloading::Library::new(path) }.unwrap();
    for (name, since) in Nccl::NAMED_ONLY {
        // SAFETY: only looked up.
        let found = unsafe { library.get::<*const ()>(*name) }.is_ok();
        assert_eq!(found, come(since), "{name} in {}", version_text(version));
    }
}

fn texts(table: &Nccl, version: i32) {
    // SAFETY: texts of the library's, which last.
    let text = |code| unsafe { CStr::from_ptr(table.ncclGetErrorString.unwrap()(ncclResult_t(code))) };
    let text = |code| text(code).to_str().unwrap();
    assert_eq!(text(0), "no error");
    assert!(text(4).starts_with("invalid argument"), "{}", text(4));
    assert_eq!(text(8), if version >= 23000 { "timeout" } else { "unknown result code" });
    assert_eq!(text(99), "unknown result code");
}

fn unique_ids(table: &Nccl) {
    let mut ids = [ncclUniqueId { internal: [0; 128] }; 2];
    for id in &mut ids {
        // SAFETY: a place for the answer.
        assert_eq!(unsafe { table.ncclGetUniqueId.unwrap()(id) }, ncclResult_t::Success);
        assert!(id.internal.iter().any(|byte| *byte != 0));
    }
    assert_ne!(ids[0].internal, ids[1].internal);
}

fn without_a_device(table: &Nccl, version: i32) {
    let mut comms: [ncclComm_t; 2] = [ptr::null_mut(); 2];
    // SAFETY: room for two communicators, matching the count; null asks for the first devices.
    let code = unsafe { table.ncclCommInitAll.unwrap()(comms.as_mut_ptr(), 2, ptr::null()) };
    assert_eq!(code, ncclResult_t::UnhandledCudaError);
    assert!(comms.iter().all(|comm| comm.is_null()));
    // SAFETY: a text of the library's.
    let said = unsafe { CStr::from_ptr(table.ncclGetLastError.unwrap()(ptr::null_mut())) };
    assert!(said.to_string_lossy().contains("CUDA driver version is insufficient"), "{said:?}");

    let mut id = ncclUniqueId { internal: [0; 128] };
    let mut config = ncclConfig_t::unset(version as u32);
    // SAFETY: places for what comes out; the id goes by value.
    unsafe {
        assert_eq!(table.ncclGetUniqueId.unwrap()(&mut id), ncclResult_t::Success);
        assert_eq!(table.ncclCommInitRank.unwrap()(&mut comms[0], 1, id, 0), ncclResult_t::UnhandledCudaError);
        if let Some(init) = table.ncclCommInitRankConfig {
            assert_eq!(init(&mut comms[0], 1, id, 0, &mut config), ncclResult_t::UnhandledCudaError);
        }
    }
    assert!(comms[0].is_null());
    if version >= 21600 {
        let null = ptr::null_mut();
        // SAFETY: without a communicator the other arguments are not used.
        let code = unsafe {
            let all_reduce = table.ncclAllReduce.unwrap();
            all_reduce(null, null, 1, ncclDataType_t::Float32, ncclRedOp_t::Sum, null, null)
        };
        assert_eq!(code, ncclResult_t::InvalidArgument);
        // SAFETY: an empty group.
        unsafe {
            assert_eq!(table.ncclGroupStart.unwrap()(), ncclResult_t::Success);
            assert_eq!(table.ncclGroupEnd.unwrap()(), ncclResult_t::Success);
        }
    }
}
