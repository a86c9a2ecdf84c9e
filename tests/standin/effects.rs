//! What the library leaves behind and takes its time for on demand, as measured in a process that uses it.
use crate::child::{Nccl, all_reduce, bind, init, unique_id, upload};
use crate::process::start;
use crate::{nccl, say};
use cudarc::driver::result;
use nccl_sys::*;
use std::ffi::{CStr, c_char, c_int, c_ulonglong};
use std::time::{Duration, Instant};

/// Communicators of two ranks that a child makes and destroys before it measures, and between its two measurements.
const FIRST: usize = 1;
const MORE: usize = 3;
const MIB: u64 = 1 << 20;

/// The numbers of a line such as `device 0, host 123`.
fn numbers(line: &str) -> Vec<u64> {
    let words = line.split(|c: char| !c.is_ascii_digit());
    words.filter(|word| !word.is_empty()).map(|word| word.parse().unwrap()).collect()
}

/// What three communicators of two ranks left behind: device memory of one device, host memory, descriptors, threads.
fn left_behind(demand: &str) -> [u64; 4] {
    let mut child = start("effects", None, &[("COLLSPEC_STANDIN_FAULT", demand)]);
    assert!(child.end().success(), "{demand}: {:?}", child.seen);
    let line = child.seen.iter().find(|line| line.starts_with("left ")).unwrap();
    numbers(line).try_into().unwrap()
}

#[test]
fn leaks() {
    // A descriptor or thread may come or go while they are counted; what a communicator leaves behind is there for each of them.
    let few = |count: u64| count < MORE as u64;
    let [device, host, descriptors, threads] = left_behind("version=22907");
    assert!(device == 0 && few(descriptors) && few(threads), "{device}, {descriptors}, {threads}");
    assert!(host < 16 * MIB, "{host} bytes of host memory");

    let [device, _, descriptors, threads] = left_behind("leak=1048576");
    assert_eq!(device, MORE as u64 * MIB);
    assert!(few(descriptors) && few(threads), "{descriptors}, {threads}");
    let [device, host, ..] = left_behind("leak-host=16777216");
    assert!(device == 0 && host >= 2 * MORE as u64 * 16 * MIB - MIB, "{host} bytes of host memory");
    let [.., descriptors, threads] = left_behind("leak-descriptor");
    assert!((2 * MORE as u64..3 * MORE as u64).contains(&descriptors) && few(threads), "{descriptors}, {threads}");
    let [.., descriptors, threads] = left_behind("leak-thread");
    assert!((2 * MORE as u64..3 * MORE as u64).contains(&threads) && few(descriptors), "{descriptors}, {threads}");
    let [device, _, descriptors, _] = left_behind("leak=1048576@1; leak-descriptor@0");
    assert_eq!(device, 0, "device 0 is rank 0's");
    assert!((MORE as u64..2 * MORE as u64).contains(&descriptors), "{descriptors}");
}

#[test]
fn changes_of_the_process() {
    let changes = |demand: &str| {
        let mut child = start("effects", None, &[("COLLSPEC_STANDIN_FAULT", demand)]);
        assert!(child.end().success(), "{demand}: {:?}", child.seen);
        let before = child.seen.iter().position(|line| line.starts_with("process:")).unwrap();
        let after = child.seen.iter().rposition(|line| line.starts_with("process:")).unwrap();
        assert!(before < after);
        (child.seen[before].clone(), child.seen[after].clone())
    };
    let (before, after) = changes("version=22907");
    assert_eq!(before, after);
    let (before, after) = changes("change-affinity; set-variable=COLLSPEC_CHANGED");
    assert!(before.ends_with("variable None"), "{before}");
    assert_eq!(after, "process: processors 1, variable Ok(\"1\")");
}

/// Makes and destroys communicators of two ranks, and a half by splitting.
fn communicators(nccl: &Nccl, number: usize) {
    for _ in 0..number {
        let mut comms: [ncclComm_t; 2] = [std::ptr::null_mut(); 2];
        let code = nccl!(nccl, ncclCommInitAll(
            comms.as_mut_ptr() => *mut ncclComm_t, 2 => c_int, std::ptr::null() => *const c_int,
        ));
        assert_eq!(code, ncclResult_t::Success);
        for comm in comms {
            assert_eq!(nccl!(nccl, ncclCommDestroy(comm => ncclComm_t)), ncclResult_t::Success);
        }
    }
}

/// Free device memory, resident host memory in bytes, descriptors, threads.
fn measured() -> [i64; 4] {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let value = |name: &str| numbers(status.lines().find(|line| line.starts_with(name)).unwrap())[0] as i64;
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count() as i64;
    let (free, _) = result::mem_get_info().unwrap();
    [-(free as i64), value("VmRSS:") * 1024, descriptors, value("Threads:")]
}

fn process_state() -> String {
    let processors = std::thread::available_parallelism().unwrap();
    let variable = match std::env::var("COLLSPEC_CHANGED") {
        Err(std::env::VarError::NotPresent) => "None".to_owned(),
        found => format!("{found:?}"),
    };
    format!("process: processors {processors}, variable {variable}")
}

pub fn child() {
    let nccl = Nccl::given();
    bind(0);
    say!("{}", process_state());
    communicators(&nccl, FIRST);
    let before = measured();
    communicators(&nccl, MORE);
    let after = measured();
    let [device, host, descriptors, threads] = std::array::from_fn(|i| (after[i] - before[i]).max(0));
    say!("left {device} {host} {descriptors} {threads}");
    say!("{}", process_state());
}

#[test]
fn a_split_leaves_as_much_behind() {
    let mut child = start("texts", None, &[("COLLSPEC_STANDIN_FAULT", "leak-descriptor")]);
    assert!(child.end().success(), "{:?}", child.seen);
    assert!(child.seen.contains(&"a split leaves 1 descriptors".to_owned()), "{:?}", child.seen);
}

#[test]
fn texts() {
    let seen = |demand: &str| {
        let mut child = start("texts", None, &[("COLLSPEC_STANDIN_FAULT", demand)]);
        assert!(child.end().success(), "{:?}", child.seen);
        child.seen.clone()
    };
    let plain = seen("version=22907");
    assert!(plain.iter().all(|line| !line.contains("bad luck")), "{plain:?}");
    let changed = seen("text=bad luck");
    let errors = ["text of 0: no error", "text of 4: bad luck", "last error: bad luck"];
    for line in errors {
        assert!(changed.iter().any(|seen| seen == line), "{changed:?}");
    }
}

pub fn texts_child() {
    type Text = unsafe extern "C" fn(ncclResult_t) -> *const c_char;
    type Last = unsafe extern "C" fn(ncclComm_t) -> *const c_char;
    let nccl = Nccl::given();
    bind(0);
    let comm = init(&nccl, 1, unique_id(&nccl), 0).unwrap();
    let descriptors = measured()[2];
    let mut half: ncclComm_t = std::ptr::null_mut();
    let code = nccl!(nccl, ncclCommSplit(
        comm.0 => ncclComm_t, 0 => c_int, 0 => c_int, &mut half => *mut ncclComm_t,
        std::ptr::null_mut() => *mut ncclConfig_t,
    ));
    assert_eq!(code, ncclResult_t::Success);
    say!("a split leaves {} descriptors", measured()[2] - descriptors);
    let (text, last): (Text, Last) = (nccl.get("ncclGetErrorString").unwrap(), nccl.get("ncclGetLastError").unwrap());
    // SAFETY: numbers and a live communicator; the library's texts have an end.
    let words = |text: *const c_char| unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned();
    for code in [0, 4] {
        // SAFETY: a number.
        say!("text of {code}: {}", words(unsafe { text(ncclResult_t(code)) }));
    }
    all_reduce(&nccl, 0, 4, comm, std::ptr::null_mut());
    // SAFETY: a live communicator.
    say!("last error: {}", words(unsafe { last(comm.0) }));
}

#[test]
fn operations_take_longer_by_a_share_of_their_own_time() {
    let line = |demand: &str| {
        let mut child = start("slow", None, &[("COLLSPEC_STANDIN_FAULT", demand)]);
        assert!(child.end().success(), "{demand}: {:?}", child.seen);
        child.seen.clone()
    };
    assert_eq!(line("slow=300@0; slow-init=40"), ["init is slow", "rank 0 is held up", "a group is held up"]);
}

/// Waits until the library says that rank 0's operation waits for another rank: it has begun then.
fn wait_until_rank_0_waits(nccl: &Nccl) {
    type Who = unsafe extern "C" fn(*mut c_char, c_ulonglong) -> c_ulonglong;
    let who: Who = nccl.get("collspecWhoWaits").unwrap();
    let mut text = [0 as c_char; 4096];
    let waits = |text: &mut [c_char; 4096]| {
        // SAFETY: a place for so many characters.
        unsafe { who(text.as_mut_ptr(), text.len() as c_ulonglong) };
        // SAFETY: the text has an end.
        let text = unsafe { CStr::from_ptr(text.as_ptr()) }.to_str().unwrap();
        text.lines().any(|line| line.contains("rank 0 waits for") && !line.contains("rank 0 waits for its stream"))
    };
    while !waits(&mut text) {
        std::thread::yield_now();
    }
}

/// Rank 1 comes this much later than rank 0, whose operation takes as long at least.
const LATE: Duration = Duration::from_millis(30);

/// Device 0's time from rank 1's call on.
fn held_up(nccl: &'static Nccl, comms: [crate::child::Comm; 2], grouped: bool) -> Duration {
    let call = move |comm, stream: cudarc::driver::sys::CUstream| {
        let memory = upload(&[1.0; 8], stream);
        let start = || if grouped { nccl!(nccl, ncclGroupStart()) } else { ncclResult_t::Success };
        let end = || if grouped { nccl!(nccl, ncclGroupEnd()) } else { ncclResult_t::Success };
        assert_eq!(start(), ncclResult_t::Success);
        assert_eq!(all_reduce(nccl, memory, 8, comm, stream), ncclResult_t::Success);
        assert_eq!(end(), ncclResult_t::Success);
    };
    let stream = bind(0);
    call(comms[0], stream);
    wait_until_rank_0_waits(nccl);
    std::thread::sleep(LATE);
    let late = std::thread::spawn(move || {
        let stream = bind(1);
        let now = Instant::now();
        call(comms[1], stream);
        // SAFETY: a live stream.
        unsafe { result::stream::synchronize(stream) }.unwrap();
        now
    });
    // SAFETY: a live stream.
    unsafe { result::stream::synchronize(stream) }.unwrap();
    let end = Instant::now();
    end - late.join().unwrap()
}

pub fn slow_child() {
    let nccl: &'static Nccl = Box::leak(Box::new(Nccl::given()));
    bind(0);
    let mut comms: [ncclComm_t; 2] = [std::ptr::null_mut(); 2];
    let began = Instant::now();
    let code = nccl!(nccl, ncclCommInitAll(
        comms.as_mut_ptr() => *mut ncclComm_t, 2 => c_int, std::ptr::null() => *const c_int,
    ));
    assert_eq!(code, ncclResult_t::Success);
    if began.elapsed() >= Duration::from_millis(40) {
        say!("init is slow");
    }
    let comms = comms.map(crate::child::Comm);
    if held_up(nccl, comms, false) >= 3 * LATE {
        say!("rank 0 is held up");
    }
    if held_up(nccl, comms, true) >= 3 * LATE {
        say!("a group is held up");
    }
}
