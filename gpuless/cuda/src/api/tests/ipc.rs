//! Memory of other processes.
use super::{asked, bytes};
use crate::api::devices::cudaSetDevice;
use crate::api::ipc::*;
use crate::api::memory::*;
use crate::api::{Handle, errors};
use std::process::{Command, Stdio};

const VARIABLE: &str = "COLLSPEC_TEST_MEMORY_HANDLE";
const LEN: usize = 10000;

fn parse(text: &str) -> MemoryHandle {
    let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("a handle");
    MemoryHandle::of(std::array::from_fn(byte))
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
    assert!(asked::<MemoryHandle>(|place| cudaIpcGetMemHandle(place, block)).is_err());
}

#[test]
fn two_processes_share_memory() {
    cudaSetDevice(3);
    let first = asked(|place| cudaMalloc(place, 5)).unwrap();
    let block: Handle = asked(|place| cudaMalloc(place, LEN)).unwrap();
    bytes(block, LEN).fill(0x5a);
    // Any address in it gives the handle of the whole.
    let inside = block.wrapping_byte_add(77);
    let handle = asked::<MemoryHandle>(|place| cudaIpcGetMemHandle(place, inside)).unwrap();
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
    assert_eq!(open(MemoryHandle::of([0; 64])), Err(errors::INVALID_VALUE));
    let mut gone = *handle.bytes();
    gone[8..16].copy_from_slice(&u64::from(u32::MAX).to_ne_bytes());
    assert_eq!(open(MemoryHandle::of(gone)), Err(errors::INVALID_RESOURCE_HANDLE));
    assert_eq!(asked::<Handle>(|place| cudaIpcOpenMemHandle(place, handle, 8)), Err(errors::INVALID_VALUE));
    assert_eq!((cudaFree(first), cudaFree(block)), (0, 0));
}
