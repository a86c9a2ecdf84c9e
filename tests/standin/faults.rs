//! Every fault of the stand-in library does what its documentation says.
use crate::library::BLOCKS;
use crate::process::start;
use std::os::unix::process::ExitStatusExt;

const SIGSEGV: i32 = 11;
const INIT: [&str; 3] = ["version 23203", "rank 0: init, device 0 of 2", "rank 1: init, device 1 of 2"];

/// The lines of a walk: those of making communicators, then these.
fn after_init<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut lines: Vec<&str> = INIT.into_iter().chain(more.iter().copied()).collect();
    lines.sort_unstable();
    lines
}

fn assert_prints(fault: &str, lines: &[&str]) {
    let mut child = start("walk", None, &[("COLLSPEC_STANDIN_FAULT", fault)]);
    assert!(child.end().success(), "{fault}: {:?}", child.seen);
    let mut wanted = lines.to_vec();
    wanted.sort_unstable();
    assert_eq!(child.sorted(), wanted, "{fault}");
}

fn assert_hangs(fault: &str, lines: &[&str]) {
    start("walk", None, &[("COLLSPEC_STANDIN_FAULT", fault), (BLOCKS, "1")]).hangs_after(lines);
}

/// Ends by a signal or with a code; no rank gets to `never`.
fn assert_dies(fault: &str, signal: Option<i32>, code: Option<i32>, never: &str) {
    let mut child = start("walk", None, &[("COLLSPEC_STANDIN_FAULT", fault)]);
    let status = child.end();
    assert_eq!((status.signal(), status.code()), (signal, code), "{fault}: {:?}", child.seen);
    assert!(child.seen.iter().all(|line| !line.contains(never)), "{fault}: {:?}", child.seen);
}

#[test]
fn a_false_version() {
    let mut child = start("walk", None, &[("COLLSPEC_STANDIN_FAULT", "version=21602")]);
    assert!(child.end().success());
    assert!(child.seen.contains(&"version 21602".to_owned()), "{:?}", child.seen);
}

#[test]
fn wrong_data_on_one_rank() {
    assert_prints(
        "wrong-data@1",
        &after_init(&[
            "rank 0: all_reduce",
            "rank 0: data [3.0, 4.0, 5.0, 6.0]",
            "rank 0: destroy",
            "rank 1: all_reduce",
            "rank 1: data [3.526483e-38, 4.0, 5.0, 6.0]",
            "rank 1: destroy",
        ]),
    );
}

#[test]
fn errors() {
    assert_prints("error-init=2", &["version 23203", "rank 0: init: system_error", "rank 1: init: system_error"]);
    assert_prints(
        "error-collective",
        &after_init(&["rank 0: all_reduce: internal_error", "rank 1: all_reduce: internal_error"]),
    );
    assert_prints(
        "error-destroy=5@0",
        &after_init(&[
            "rank 0: all_reduce",
            "rank 0: data [3.0, 4.0, 5.0, 6.0]",
            "rank 0: destroy: invalid_usage",
            "rank 1: all_reduce",
            "rank 1: data [3.0, 4.0, 5.0, 6.0]",
            "rank 1: destroy",
        ]),
    );
    assert_prints(
        "async-error",
        &after_init(&[
            "rank 0: all_reduce",
            "rank 0: asynchronous remote_error",
            "rank 1: all_reduce",
            "rank 1: asynchronous remote_error",
        ]),
    );
}

#[test]
fn hangs_everywhere() {
    assert_hangs("hang-init", &["version 23203"]);
    assert_hangs("hang-init@1", &["version 23203"]);
    assert_hangs("hang-collective", &INIT);
    assert_hangs("hang-collective@1", &after_init(&["rank 0: all_reduce"]));
    assert_hangs("hang-synchronize", &after_init(&["rank 0: all_reduce", "rank 1: all_reduce"]));
    assert_hangs(
        "hang-destroy@0",
        &after_init(&[
            "rank 0: all_reduce",
            "rank 0: data [3.0, 4.0, 5.0, 6.0]",
            "rank 1: all_reduce",
            "rank 1: data [3.0, 4.0, 5.0, 6.0]",
            "rank 1: destroy",
        ]),
    );
}

#[test]
fn an_abort_that_hangs() {
    let mut child = start("abort", None, &[("COLLSPEC_STANDIN_FAULT", "hang-abort@0")]);
    child.hangs_after(&["waits"]);
}

#[test]
fn crashes() {
    assert_dies("crash-init", Some(SIGSEGV), None, "init");
    assert_dies("crash-collective", Some(SIGSEGV), None, "data");
    assert_dies("crash-stream@1", Some(SIGSEGV), None, "data");
    assert_dies("crash-destroy", Some(SIGSEGV), None, "destroy");
    assert_dies("exit-collective", None, Some(0), "data");
}

#[test]
fn an_unknown_fault_refuses_everything() {
    assert_prints("wrong-dta", &["version: invalid_usage"]);
}
