//! Arguments that are refused, with NCCL's codes.
// Ranks are numbers here, as in C.
#![allow(clippy::needless_range_loop)]
mod common;
use common::*;
use nccl_sys::*;
use std::ffi::{CStr, c_void};

const OK: ncclResult_t = ncclResult_t::Success;
const ARGUMENT: ncclResult_t = ncclResult_t::InvalidArgument;
const USAGE: ncclResult_t = ncclResult_t::InvalidUsage;
const I32: ncclDataType_t = ncclDataType_t::Int32;
const SUM: ncclRedOp_t = ncclRedOp_t::Sum;
const NULL: *mut c_void = std::ptr::null_mut();

#[test]
fn operations_check_their_arguments() {
    let world = World::new(2);
    let data = Buffer::of(&[0i32; 8]);
    let (d, c, s) = (data.at(0), world.comms[0], world.streams[0].raw());
    let reduce =
        |send, count, dtype, op, root, comm, stream| nccl!(ncclReduce(send, d, count, dtype, op, root, comm, stream));
    assert_eq!(reduce(d, 1, I32, SUM, 2, c, s), ARGUMENT);
    assert_eq!(reduce(d, 1, I32, SUM, -1, c, s), ARGUMENT);
    assert_eq!(reduce(d, 1, ncclDataType_t(-1), SUM, 0, c, s), ARGUMENT);
    assert_eq!(reduce(d, 1, ncclDataType_t(12), SUM, 0, c, s), ARGUMENT);
    assert_eq!(reduce(d, 1, I32, ncclRedOp_t(5), 0, c, s), ARGUMENT);
    assert_eq!(reduce(d, 1, I32, ncclRedOp_t(-1), 0, c, s), ARGUMENT);
    assert_eq!(reduce(NULL, 1, I32, SUM, 0, c, s), ARGUMENT);
    assert_eq!(reduce(d, usize::MAX, I32, SUM, 0, c, s), ARGUMENT);
    assert_eq!(reduce(d, 1, I32, SUM, 0, NULL, s), ARGUMENT);
    assert_eq!(reduce(d, 1, I32, SUM, 0, 0x1234 as ncclComm_t, s), ARGUMENT);
    assert_eq!(reduce(d, 1, I32, SUM, 0, c, 0x7777 as cudaStream_t), ARGUMENT);
    assert!(last_error().contains("stream"), "{}", last_error());
    assert_eq!(nccl!(ncclSend(d, 1, I32, 2, c, s)), ARGUMENT);
    assert_eq!(nccl!(ncclRecv(NULL, 1, I32, 1, c, s)), ARGUMENT);
    assert_eq!(nccl!(ncclAlltoAll(d, d, 1, I32, c, s)), ARGUMENT);
    assert_eq!(nccl!(ncclSend(d, 1, I32, 0, c, s)), USAGE, "a message to oneself needs its receive");
    // Buffers that a rank does not touch may be null, and so may empty ones.
    world.run(|r, c, s| {
        let recv = if r == 1 { d } else { NULL };
        let send = if r == 1 { data.at(8) } else { data.at(4) };
        nccl!(ncclReduce(send, recv, 1, I32, SUM, 1, c, s));
        nccl!(ncclAllReduce(NULL, NULL, 0, I32, SUM, c, s))
    });
    world.destroy();
}

#[test]
fn communicators_check_their_arguments() {
    let mut comm = NULL;
    let mut id = ncclUniqueId { internal: [0; 128] };
    assert_eq!(nccl!(ncclCommInitRank(&mut comm, 1, id, 0)), ARGUMENT, "not an id of the library");
    assert_eq!(nccl!(ncclGetUniqueId(&mut id)), OK);
    assert_eq!(nccl!(ncclCommInitRank(&mut comm, 0, id, 0)), ARGUMENT);
    assert_eq!(nccl!(ncclCommInitRank(&mut comm, 2, id, 2)), ARGUMENT);
    assert_eq!(nccl!(ncclCommInitRank(&mut comm, 2, id, -1)), ARGUMENT);
    assert_eq!(nccl!(ncclCommInitRank(std::ptr::null_mut(), 1, id, 0)), ARGUMENT);
    assert_eq!(nccl!(ncclGetUniqueId(std::ptr::null_mut())), ARGUMENT);
    assert_eq!(nccl!(ncclCommInitAll(std::ptr::null_mut(), 2, std::ptr::null())), ARGUMENT);
    // As in NCCL, the end of no communicator is no error.
    for (bad, code) in [(NULL, OK), (64 as ncclComm_t, ARGUMENT)] {
        assert_eq!(nccl!(ncclCommDestroy(bad)), code);
        assert_eq!(nccl!(ncclCommAbort(bad)), code);
        assert_eq!(nccl!(ncclCommFinalize(bad)), code);
        let mut n = 0;
        assert_eq!(nccl!(ncclCommCount(bad, &mut n)), ARGUMENT);
    }
    // Two callers that say they are the same rank, in one group: no rank is left waiting.
    let mut other = NULL;
    assert_eq!(nccl!(ncclGroupStart()), OK);
    assert_eq!(nccl!(ncclCommInitRank(&mut comm, 2, id, 0)), OK);
    assert_eq!(nccl!(ncclCommInitRank(&mut other, 2, id, 0)), OK);
    assert_eq!(nccl!(ncclGroupEnd()), USAGE);
    assert_eq!(nccl!(ncclCommInitRank(&mut comm, 1, id, 0)), OK, "the id is still free");
    assert_eq!(nccl!(ncclCommDestroy(comm)), OK);
}

#[test]
fn configurations_are_checked() {
    let mut id = ncclUniqueId { internal: [0; 128] };
    assert_eq!(nccl!(ncclGetUniqueId(&mut id)), OK);
    let init = |change: &dyn Fn(&mut ncclConfig_t)| {
        let mut comm = NULL;
        let mut config = ncclConfig_t::unset(23007);
        change(&mut config);
        let mut code = nccl!(ncclCommInitRankConfig(&mut comm, 1, id, 0, &mut config));
        while code == ncclResult_t::InProgress {
            std::thread::sleep(std::time::Duration::from_millis(1));
            assert_eq!(nccl!(ncclCommGetAsyncError(comm, &mut code)), OK);
        }
        if code == OK {
            let destroyed = nccl!(ncclCommDestroy(comm));
            assert!(destroyed == OK || config.blocking == 0 && destroyed == ncclResult_t::InProgress, "{destroyed:?}");
        }
        code
    };
    assert_eq!(init(&|_| {}), OK);
    assert_eq!(init(&|c| c.magic = 1), ARGUMENT);
    assert_eq!(init(&|c| c.size = 4), ARGUMENT);
    assert_eq!(init(&|c| c.blocking = 2), ARGUMENT);
    assert_eq!(init(&|c| c.blocking = 1), OK);
    assert_eq!(init(&|c| c.blocking = 0), OK);
    assert_eq!(init(&|c| (c.min_ctas, c.max_ctas) = (4, 2)), ARGUMENT);
    assert_eq!(init(&|c| c.cga_cluster_size = 9), ARGUMENT);
    // An older caller's structure ends before the fields it does not know.
    assert_eq!(init(&|c| (c.size, c.min_ctas) = (24, -7)), OK);
}

#[test]
fn configurations_of_calls_are_checked() {
    let world = World::new(2);
    let (input, output) = (Buffer::of(&[1f32, 2.0, 3.0]), Buffer::of(&[0f32; 3]));
    let texts = [c"ring", c"tree", c"no_such_algorithm"];
    let call = |count: usize, comm: ncclComm_t, stream: cudaStream_t, config: *const ncclCollConfig_t| {
        let (send, recv) = (input.at(0).cast_const(), output.at(0));
        let (dtype, op) = (ncclDataType_t::Float32, ncclRedOp_t::Sum);
        nccl!(ncclAllReduceConfig(send, recv, count, dtype, op, comm, stream, config))
    };
    // Errors in the configuration itself are reported first, and leave an open group unchanged.
    let refused = |change: &dyn Fn(&mut ncclCollConfig_t)| {
        let mut config = ncclCollConfig_t::unset(23203);
        change(&mut config);
        assert_eq!(nccl!(ncclGroupStart()), OK);
        let code = call(3, NULL, std::ptr::null_mut(), &config);
        assert_eq!(nccl!(ncclGroupEnd()), OK);
        code
    };
    assert_eq!(refused(&|c| c.magic = 1), ARGUMENT);
    assert_eq!(refused(&|c| c.size = 63), ARGUMENT);
    assert_eq!(refused(&|c| c.force_alg_selection = 2), ARGUMENT);
    assert_eq!(refused(&|c| c.cta_policy = 4), ARGUMENT);
    assert_eq!(refused(&|c| c.cta_policy = -1), ARGUMENT);
    let works = |count: usize, change: &dyn Fn(&mut ncclCollConfig_t)| {
        let mut config = ncclCollConfig_t::unset(23102);
        change(&mut config);
        world.group(|_, comm, stream| call(count, comm, stream, &config))
    };
    assert_eq!(works(0, &|_| {}), OK);
    assert_eq!(works(0, &|c| c.alg_selection = texts[2].as_ptr()), OK, "without elements nothing is selected");
    assert_eq!(works(3, &|c| c.alg_selection = texts[2].as_ptr()), ARGUMENT);
    for text in &texts[..2] {
        assert_eq!(works(3, &|c| c.alg_selection = text.as_ptr()), OK);
    }
    let relaxed = |c: &mut ncclCollConfig_t| (c.alg_selection, c.force_alg_selection) = (texts[2].as_ptr(), 0);
    assert_eq!(works(3, &|c| relaxed(c)), OK);
    assert_eq!(works(3, &|c| (c.min_ctas, c.max_ctas, c.user_profiler_tag) = (4, 2, 7)), OK);
    assert_eq!(world.group(|_, comm, stream| call(3, comm, stream, std::ptr::null())), OK);
    world.synchronize();
}

#[test]
fn the_library_says_who_it_is() {
    let mut version = 0;
    assert_eq!(nccl!(ncclGetVersion(&mut version)), OK);
    assert_eq!(version, 23203);
    assert_eq!(nccl!(ncclGetVersion(std::ptr::null_mut())), ARGUMENT);
    let mut texts = std::collections::BTreeSet::new();
    for code in 0..10 {
        let text = nccl!(ncclGetErrorString(ncclResult_t(code)));
        // SAFETY: a static text.
        texts.insert(unsafe { CStr::from_ptr(text) }.to_owned());
    }
    assert_eq!(texts.len(), 10);
    let table = soft_nccl::table();
    // Functions that came with 2.18 or earlier exist, and so do the extensions but those for faults, which it has none of.
    let faults = ["collspecFault", "collspecReached"];
    let early = |since: &str| nccl_sys::release(since).is_none_or(|code| code < 21900);
    for (name, _) in Nccl::SYMBOLS.iter().filter(|(name, since)| early(since) && !faults.contains(name)) {
        assert!(table.present().contains(name), "{name}");
    }
}
