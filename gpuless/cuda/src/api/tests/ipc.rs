//! Memory and events of other processes.
use super::{asked, bytes};
use crate::api::devices::cudaSetDevice;
use crate::api::events::*;
use crate::api::ipc::*;
use crate::api::memory::*;
use crate::api::process_handle::ProcessHandle;
use crate::api::streams::*;
use crate::api::{Handle, errors};
use std::ffi::c_void;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const VARIABLE: &str = "COLLSPEC_TEST_MEMORY_HANDLE";
const LEN: usize = 10000;

fn parse(text: &str) -> ProcessHandle {
    let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("a handle");
    ProcessHandle::of(std::array::from_fn(byte))
}

/// The other process: only with a handle.
#[test]
fn the_other_process() {
    let Ok(text) = std::env::var(VARIABLE) else { return };
    let handle = parse(&text);
    let open = || asked::<Handle>(|place| cudaIpcOpenMemHandle(place, handle, 1));
    let block = open().expect("memory of another process");
    assert!(bytes(block, LEN).iter().all(|byte| *byte == 0x5a));
    let about = asked::<PointerAttributes>(|place| cudaPointerGetAttributes(place, block)).expect("attributes");
    assert_eq!((about.kind, about.device), (2, 3));
    // Opened twice, it stays until it was closed twice.
    assert_eq!(open(), Ok(block));
    assert_eq!(cudaIpcCloseMemHandle(block), 0);
    bytes(block, LEN)[LEN - 1] = 0xa5;
    assert_eq!(cudaFree(block), errors::INVALID_VALUE);
    assert_eq!(cudaIpcCloseMemHandle(block), 0);
    assert_eq!(cudaIpcCloseMemHandle(block), errors::INVALID_VALUE);
    // It is not this process's to hand on.
    assert!(asked::<ProcessHandle>(|place| cudaIpcGetMemHandle(place, block)).is_err());
}

#[test]
fn two_processes_share_memory() {
    cudaSetDevice(3);
    let first = asked(|place| cudaMalloc(place, 5)).unwrap();
    let block: Handle = asked(|place| cudaMalloc(place, LEN)).unwrap();
    bytes(block, LEN).fill(0x5a);
    // Any address in it gives the handle of the whole.
    let inside = block.wrapping_byte_add(77);
    let handle = asked::<ProcessHandle>(|place| cudaIpcGetMemHandle(place, inside)).unwrap();
    let text: String = handle.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let mut other = Command::new(std::env::current_exe().unwrap());
    other.args(["--exact", "api::tests::ipc::the_other_process", "--nocapture"]).env(VARIABLE, text);
    let output = other.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
    assert_eq!((bytes(block, LEN)[0], bytes(block, LEN)[LEN - 1]), (0x5a, 0xa5));
    assert_eq!(bytes(first, 5), [0; 5]);

    // Opening fails in the same process, and with a handle that means nothing.
    let open = |handle| asked::<Handle>(|place| cudaIpcOpenMemHandle(place, handle, 1));
    assert_eq!(open(handle), Err(errors::DEVICE_UNINITIALIZED));
    assert_eq!(open(ProcessHandle::of([0; 64])), Err(errors::INVALID_VALUE));
    let mut gone = *handle.bytes();
    gone[8..16].copy_from_slice(&u64::from(u32::MAX).to_ne_bytes());
    assert_eq!(open(ProcessHandle::of(gone)), Err(errors::INVALID_RESOURCE_HANDLE));
    assert_eq!(asked::<Handle>(|place| cudaIpcOpenMemHandle(place, handle, 8)), Err(errors::INVALID_VALUE));
    assert_eq!((cudaFree(first), cudaFree(block)), (0, 0));
}

const EVENT: &str = "COLLSPEC_TEST_EVENT_HANDLE";

extern "C" fn wait_for_gate(gate: *mut c_void) {
    // SAFETY: the test's own flag, which outlives the stream's work.
    let gate = unsafe { &*gate.cast::<AtomicBool>() };
    while !gate.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn event() -> Handle {
    asked(|place| cudaEventCreateWithFlags(place, 2 | 4)).unwrap()
}

fn stream() -> Handle {
    asked(|place| cudaStreamCreateWithFlags(place, 1)).unwrap()
}

/// The other process: only with a handle.
#[test]
fn the_other_process_of_an_event() {
    let Ok(text) = std::env::var(EVENT) else { return };
    let event = asked::<Handle>(|place| cudaIpcOpenEventHandle(place, parse(&text))).expect("an event");
    let stream = stream();
    assert_eq!(cudaEventQuery(event), errors::NOT_READY);
    assert_eq!(cudaStreamWaitEvent(stream, event, 0), 0);
    assert_eq!(cudaStreamQuery(stream), errors::NOT_READY);
    println!("waits");
    assert_eq!((cudaStreamSynchronize(stream), cudaEventSynchronize(event), cudaEventQuery(event)), (0, 0, 0));
    // Recorded here, it is waited for there, until this process has ended.
    static CLOSED: AtomicBool = AtomicBool::new(false);
    let gate = (&raw const CLOSED).cast_mut().cast();
    assert_eq!(cudaLaunchHostFunc(stream, Some(wait_for_gate), gate), 0);
    assert_eq!(cudaEventRecord(event, stream), 0);
    println!("records");
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn two_processes_share_an_event() {
    let (event, stream) = (event(), stream());
    let handle = asked::<ProcessHandle>(|place| cudaIpcGetEventHandle(place, event)).unwrap();
    static GATE: AtomicBool = AtomicBool::new(false);
    assert_eq!(cudaLaunchHostFunc(stream, Some(wait_for_gate), (&raw const GATE).cast_mut().cast()), 0);
    assert_eq!((cudaEventRecord(event, stream), cudaEventQuery(event)), (0, errors::NOT_READY));
    let text: String = handle.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let mut other = Command::new(std::env::current_exe().unwrap());
    other.args(["--exact", "api::tests::ipc::the_other_process_of_an_event", "--nocapture"]).env(EVENT, text);
    let mut other = other.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(other.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.ends_with("waits")), "the other process found the event reached, or none");
    GATE.store(true, Ordering::Release);
    assert!(lines.any(|line| line.ends_with("records")), "the other process waits for an event that was reached");
    assert_eq!(cudaEventQuery(event), errors::NOT_READY);
    assert_eq!((cudaStreamWaitEvent(stream, event, 0), cudaStreamQuery(stream)), (0, errors::NOT_READY));
    other.kill().unwrap();
    assert_eq!((cudaStreamSynchronize(stream), cudaEventSynchronize(event)), (0, 0));
    other.wait().unwrap();
    assert_eq!(cudaEventQuery(event), 0);

    let open = |handle| asked::<Handle>(|place| cudaIpcOpenEventHandle(place, handle));
    assert_eq!(open(handle), Err(errors::DEVICE_UNINITIALIZED));
    assert_eq!(open(ProcessHandle::of([0; 64])), Err(errors::INVALID_VALUE));
    let words = handle.words();
    // Another file of this process's parent, an event that is not in the file, and a process that is not there.
    for (at, word) in
        [(1, u64::from(std::os::unix::process::parent_id())), (1, u64::from(u32::MAX)), (1, u64::MAX), (2, u64::MAX)]
    {
        let mut wrong = words;
        wrong[1] = u64::from(std::os::unix::process::parent_id());
        wrong[at] = word;
        assert_eq!(open(ProcessHandle::of_words(wrong)), Err(errors::INVALID_RESOURCE_HANDLE));
    }
    let plain = asked::<Handle>(|place| cudaEventCreateWithFlags(place, 2)).unwrap();
    assert!(asked::<ProcessHandle>(|place| cudaIpcGetEventHandle(place, plain)).is_err());
    assert_eq!((cudaEventDestroy(plain), cudaEventDestroy(event), cudaStreamDestroy(stream)), (0, 0, 0));
}
