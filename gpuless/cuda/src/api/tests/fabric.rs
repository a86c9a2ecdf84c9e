//! Handles of the fabric, between the trays of an NVLink domain. Each tray is a separate process, because a process can describe its devices only once.
use super::virtual_memory::{add_device, bind, create, create_object, device, mapped, members, of, release};
use super::{asked, driver};
use crate::api::process_handle::ProcessHandle;
use crate::api::virtual_memory::GRANULARITY;
use crate::api::{NvLinkDomain, Out, Settings, configure, devices, errors};
use crate::test_process;
use std::ffi::{c_int, c_ulonglong};
use std::fs::File;
use std::os::fd::AsRawFd;

const VARIABLE: &str = "COLLSPEC_TEST_TRAY";
const FABRIC: c_int = 8;

fn export(handle: u64) -> Result<ProcessHandle, c_int> {
    let export: extern "C" fn(Out<'_, ProcessHandle>, u64, c_int, c_ulonglong) -> c_int =
        driver("cuMemExportToShareableHandle");
    asked(|place| export(place, handle, FABRIC, 0))
}

fn import(handle: Option<&ProcessHandle>) -> Result<u64, c_int> {
    let import: extern "C" fn(Out<'_, u64>, Option<&ProcessHandle>, c_int) -> c_int =
        driver("cuMemImportFromShareableHandle");
    asked(|place| import(place, handle, FABRIC))
}

/// Becomes a tray of a domain.
fn be_tray(tray: u32) {
    configure(Settings { domain: Some(NvLinkDomain { name: "rack".into(), tray }), ..Settings::default() }).unwrap();
}

/// Runs a test of this file in a separate process.
fn run(test: &str, handles: &str) {
    test_process::run(&format!("api::tests::fabric::{test}"), VARIABLE, handles);
}

#[test]
fn trays_share_memory_and_an_object() {
    run("the_first_tray", "first");
}

#[test]
fn without_a_domain_there_is_no_fabric() {
    assert_eq!(devices::attribute(128, 0), Ok(0));
    assert_eq!(create(device(0), GRANULARITY, FABRIC), Err(errors::NOT_SUPPORTED));
    let memory = create(device(0), GRANULARITY, 1).unwrap();
    assert_eq!(export(memory).err(), Some(errors::INVALID_VALUE));
    assert_eq!((import(Some(&ProcessHandle::of([0; 64]))), release(memory)), (Err(errors::NOT_SUPPORTED), 0));
}

fn text(handle: &ProcessHandle) -> String {
    handle.words().map(|word| word.to_string()).join(",")
}

#[test]
fn the_first_tray() {
    if std::env::var(VARIABLE).is_err() {
        return;
    }
    be_tray(0);
    assert_eq!(devices::attribute(128, 0), Ok(1));
    let memory = create(device(0), GRANULARITY, FABRIC | 1).unwrap();
    let at = mapped(memory, GRANULARITY);
    of(at, 1)[0] = 0x5a;
    let object = create_object(2, GRANULARITY, FABRIC as c_ulonglong).unwrap();
    assert_eq!((add_device(object, 0), bind(object, 0, memory, GRANULARITY)), (0, 0));
    let handles = [memory, object].map(|handle| export(handle).unwrap());
    let own = import(Some(&handles[0])).unwrap();
    assert_eq!((of(mapped(own, GRANULARITY), 1)[0], release(own)), (0x5a, 0));
    what_is_no_handle_opens_nothing(&handles[0]);

    run("the_second_tray", &handles.map(|handle| text(&handle)).join(" "));
    assert_eq!(of(at, 2), [0x5a, 0xa5]);
    assert_eq!((add_device(object, 1), release(memory), release(object)), (errors::INVALID_VALUE, 0, 0));
}

/// Device 0 of another machine, although both have one of this number.
#[test]
fn the_second_tray() {
    let Ok(handles) = std::env::var(VARIABLE) else { return };
    be_tray(1);
    let handle = |text: &str| {
        let words: Vec<u64> = text.split(',').map(|word| word.parse().unwrap()).collect();
        import(Some(&ProcessHandle::of_words(words.try_into().unwrap()))).unwrap()
    };
    let both: Vec<u64> = handles.split(' ').map(handle).collect();
    let [memory, object] = both[..] else { panic!("{handles}") };
    let at = mapped(memory, GRANULARITY);
    assert_eq!(of(at, 1), [0x5a]);
    of(at, 2)[1] = 0xa5;
    assert_eq!(add_device(object, 0), 0);
    let own = create(device(0), GRANULARITY, FABRIC).unwrap();
    assert_eq!(bind(object, 0, own, GRANULARITY), 0);
    let places = members(mapped(object, GRANULARITY), 4).unwrap();
    assert_eq!(of(places[0], 2), [0x5a, 0xa5], "the first tray comes first");
    of(places[1], 1)[0] = 9;
    assert_eq!(of(mapped(own, GRANULARITY), 1), [9]);
}

/// A handle may be anything: old, of another domain, or made up.
fn what_is_no_handle_opens_nothing(good: &ProcessHandle) {
    let refused = |words: [u64; 8]| {
        assert_eq!(import(Some(&ProcessHandle::of_words(words))), Err(errors::INVALID_VALUE), "{words:x?}");
    };
    assert_eq!(import(None), Err(errors::INVALID_VALUE));
    refused([0; 8]);
    refused([u64::MAX; 8]);
    // Each bit matters, unless it makes the process one of its threads.
    for bit in 0..512 {
        let mut words = good.words();
        words[bit / 64] ^= 1 << (bit % 64);
        if !std::fs::exists(format!("/proc/self/task/{}", words[2])).unwrap() || words[2] == good.words()[2] {
            refused(words);
        }
    }
    let named = |process: u64, descriptor: u64, inode: u64| {
        let [magic, domain, ..] = good.words();
        [magic, domain, process, descriptor, inode, 0, 0, 0]
    };
    let [_, _, process, ..] = good.words();
    let inode = |file: &File| std::os::unix::fs::MetadataExt::ino(&file.metadata().unwrap());
    let (reader, _writer) = std::io::pipe().unwrap();
    let elsewhere = [
        File::open("/dev/null").unwrap(),
        File::open(std::env::current_exe().unwrap()).unwrap(),
        File::from(std::os::fd::OwnedFd::from(reader)),
    ];
    for file in elsewhere {
        refused(named(process, file.as_raw_fd() as u64, inode(&file)));
    }
    refused(named(1, 0, 0));

    // What was released, and what has its number since.
    let old = create(device(0), GRANULARITY, FABRIC).unwrap();
    let handle = export(old).unwrap();
    assert_eq!(release(old), 0);
    refused(handle.words());
    let new = create(device(0), GRANULARITY, FABRIC).unwrap();
    assert_eq!(export(new).unwrap().words()[3], handle.words()[3], "the same descriptor");
    refused(handle.words());
    assert_eq!(release(new), 0);
    let only_descriptor = create(device(0), GRANULARITY, 1).unwrap();
    assert_eq!(export(only_descriptor).err(), Some(errors::INVALID_VALUE));
    assert_eq!(release(only_descriptor), 0);
}
