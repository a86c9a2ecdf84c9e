//! Tests which files are loaded and which are refused, with small libraries built here.
mod small;

use nccl_sys::{LoadError, Nccl, ncclResult_t};
use small::Folder;
use std::path::Path;

/// A library of NCCL's interface with one function more than the least.
fn answering(version: i32, stream: i32) -> String {
    format!(
        "int ncclGetVersion(int *v) {{ *v = {version}; return 0; }}\n\
         int ncclCommCount(void *comm, int *count) {{ (void)comm; *count = {stream}; return 0; }}\n\
         /* goes through the library's own tables, as NCCL's calls to itself do */\n\
         int ncclCommUserRank(void *comm, int *rank) {{ return ncclCommCount(comm, rank); }}\n"
    )
}

fn version(table: &Nccl) -> i32 {
    let mut version = 0;
    // SAFETY: a library of ours, and a place for the answer.
    let code = unsafe { table.ncclGetVersion.unwrap()(&mut version) };
    assert_eq!(code, ncclResult_t::Success);
    version
}

#[test]
fn two_libraries_of_one_name_are_two() {
    let Some(folder) = Folder::new() else { return };
    let first = folder.library("old/libnccl.so.2", &answering(21803, 7));
    let second = folder.library("new/libnccl.so.2", &answering(23007, 8));
    let tables = [Nccl::load(&first).unwrap(), Nccl::load(&second).unwrap(), Nccl::load(&first).unwrap()];
    assert_eq!(tables.each_ref().map(version), [21803, 23007, 21803]);
    for (table, expected) in tables.iter().zip([7, 8, 7]) {
        let (mut count, mut rank) = (0, 0);
        // SAFETY: as above; the communicator is not used.
        unsafe {
            table.ncclCommCount.unwrap()(std::ptr::null_mut(), &mut count);
            table.ncclCommUserRank.unwrap()(std::ptr::null_mut(), &mut rank);
        }
        assert_eq!((count, rank), (expected, expected), "each calls its own functions");
    }
    assert!(tables[0].library.ends_with("old/libnccl.so.2") && Path::new(&tables[0].library).is_absolute());
}

#[test]
fn what_a_library_lacks_is_an_empty_entry_and_an_error_with_words() {
    let Some(folder) = Folder::new() else { return };
    let path = folder.library("libnccl.so.2", &answering(22105, 1));
    let table = Nccl::load(&path).unwrap();
    assert_eq!(table.present(), ["ncclGetVersion", "ncclCommCount", "ncclCommUserRank"]);
    assert!(table.ncclAlltoAll.is_none() && table.collspecCensus.is_none());
    let lacks = table.lacks();
    assert!(lacks.contains(&("ncclAlltoAll", "2.28")) && lacks.contains(&("ncclCommCuDevice", "2.0")));
    assert!(lacks.iter().all(|(name, _)| name.starts_with("nccl")), "no library lacks an extension");
    let words = table.missing("ncclAlltoAll", 22105).to_string();
    let path = path.canonicalize().unwrap();
    assert_eq!(words, format!("ncclAlltoAll is not in {} (NCCL 2.21.5); it came with NCCL 2.28", path.display()));
    let words = table.missing("collspecMark", 22105).to_string();
    assert!(words.ends_with("only the software library has it"), "{words}");
}

#[test]
fn extensions_are_found_where_they_are() {
    let Some(folder) = Folder::new() else { return };
    let more = "unsigned long long collspecWhoWaits(char *t, unsigned long long n) { (void)t; (void)n; return 5; }";
    let table = Nccl::load(&folder.library("a.so", &(answering(23007, 1) + more))).unwrap();
    // SAFETY: a library of ours; no room is offered.
    let len = unsafe { table.collspecWhoWaits.unwrap()(std::ptr::null_mut(), 0) };
    assert_eq!(len, 5);
}

#[test]
fn what_is_no_library_of_nccls_is_refused() {
    let Some(folder) = Folder::new() else { return };
    let text = folder.file("libnccl.so.2", "this is a text\n");
    assert!(matches!(Nccl::load(&text), Err(LoadError::Refused { words, .. }) if words.contains("not an ELF file")));
    assert!(matches!(Nccl::load(&folder.path("none.so")), Err(LoadError::NotFound { .. })));
    assert!(matches!(Nccl::load(&folder.path(".")), Err(LoadError::Refused { .. })));
    let stranger = folder.library("stranger.so", "int hello(void) { return 1; }");
    assert!(matches!(Nccl::load(&stranger), Err(LoadError::NotNccl { .. })));
    let silent = folder.library("silent.so", "int ncclGetVersion(int *v) { (void)v; return 3; }");
    let error = Nccl::load(&silent).err().unwrap();
    assert!(matches!(error, LoadError::NoVersion { code: ncclResult_t::InternalError, .. }), "{error}");
    assert!(error.to_string().ends_with("answers internal_error, version 0"), "{error}");
    let explains = folder.library(
        "explains.so",
        "int ncclGetVersion(int *v) { (void)v; return 3; }\n\
         const char *ncclGetLastError(void *c) { return c ? 0 : \"no licence\"; }",
    );
    let error = Nccl::load(&explains).err().unwrap();
    assert!(error.to_string().ends_with("answers internal_error, version 0: no licence"), "{error}");
    let odd = folder.library("odd.so", "int ncclGetVersion(int *v) { *v = -5; return 0; }");
    assert!(matches!(Nccl::load(&odd), Err(LoadError::NoVersion { version: -5, .. })));
}

#[test]
fn a_version_below_the_floor_is_refused_with_words() {
    let Some(folder) = Folder::new() else { return };
    let old = folder.library("old.so", &answering(2708, 1));
    let words = Nccl::load(&old).err().unwrap().to_string();
    assert!(words.contains("NCCL 2.7.8, too old") && words.contains("2.13.0 and later"), "{words}");
    let floor = folder.library("floor.so", &answering(nccl_sys::OLDEST, 1));
    assert!(Nccl::load(&floor).is_ok());
}

#[test]
fn a_library_that_needs_what_is_not_here_is_an_error_now() {
    let Some(folder) = Folder::new() else { return };
    let needy = folder.library(
        "needy.so",
        "int from_nowhere(void);\nint ncclGetVersion(int *v) { *v = 23007; return from_nowhere(); }",
    );
    let error = Nccl::load(&needy).err().unwrap();
    assert!(matches!(&error, LoadError::Refused { words, .. } if words.contains("from_nowhere")), "{error}");
}
