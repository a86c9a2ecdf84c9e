//! Collectives of real NCCL libraries on software GPUs, against plain sums.
//!
//! ```console
//! $ cargo run --release -p gpuless-cuda --example nccl_matrix -- [--quick] path/to/libnccl.so.2 ...
//! ```
//!
//! For each library: ring and tree, LL, LL128 and Simple, transports P2P, SHM and socket, 1, 2, 3, 4, 5, 8 and 16 ranks, 7 operations, 12
//! types, and counts from 0 to 1 Mi (the large ones of f32 and i8). NCCL reads its settings once, so each combination of them runs in a
//! separate process. `--quick` runs one of these with up to 4 ranks. `--times` measures communicators and sums instead. With
//! NCCL_MATRIX_SEED=N kernels take turns in an order that N decides.
#![allow(unsafe_code)] // NCCL is called, with memory of gpuless-device

use gpuless_device::{Stream, memory};
use nccl_sys::{Nccl, ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclResult_t, ncclUniqueId};
use ptx::num::{BF16, E4M3, E5M2, F16};
use ptx::run::Options;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

type Failure = Box<dyn Error + Send + Sync>;

const RANKS: [usize; 7] = [1, 2, 3, 4, 5, 8, 16];
const COUNTS: [usize; 3] = [0, 1, 1000];
/// The first version with types of 8 bits that have a point.
const FP8_SINCE: i32 = 22_400;
const LARGE: [usize; 2] = [50_001, 1 << 20];
/// The variable that makes this program a child, which holds the most ranks, or [`TIMES`].
const CHILD: &str = "NCCL_MATRIX_RANKS";
const TIMES: &str = "times";
const DEVICES: usize = 16;

fn main() -> ExitCode {
    let result = match std::env::var(CHILD) {
        Ok(what) => {
            let path = PathBuf::from(std::env::args_os().nth(1).unwrap_or_default());
            if what == TIMES { times(&path) } else { run(&path, what.parse().unwrap_or(2)) }
        }
        Err(_) => all(),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => give_up(&error.to_string()),
    }
}

/// Prints the failure, and ends the process.
fn give_up(error: &str) -> ! {
    eprintln!("nccl_matrix: {error}");
    for failure in gpuless_cuda::api::failures() {
        eprintln!("  {failure:?}");
    }
    std::process::exit(1)
}

/// Runs every combination of settings in a separate process.
fn all() -> Result<bool, Failure> {
    let (options, libraries): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|arg| arg.starts_with("--"));
    let quick = options.iter().any(|option| option == "--quick");
    if libraries.is_empty() {
        return Err("name a libnccl.so.2".into());
    }
    let mut right = true;
    for library in libraries {
        if options.iter().any(|option| option == "--times") {
            println!("{library}");
            right &= Command::new(std::env::current_exe()?).arg(&library).env(CHILD, TIMES).status()?.success();
            continue;
        }
        for algorithm in ["Ring", "Tree"] {
            for protocol in ["LL", "LL128", "Simple"] {
                for transport in ["P2P", "SHM", "socket"] {
                    if quick && (algorithm, protocol, transport) != ("Ring", "Simple", "P2P") {
                        continue;
                    }
                    let mut child = Command::new(std::env::current_exe()?);
                    child.arg(&library).env(CHILD, if quick { "4" } else { "16" });
                    child.env("NCCL_ALGO", algorithm).env("NCCL_PROTO", protocol);
                    for (variable, of) in [("NCCL_P2P_DISABLE", "P2P"), ("NCCL_SHM_DISABLE", "SHM")] {
                        child.env(
                            variable,
                            if transport == of || (of == "SHM" && transport == "P2P") { "0" } else { "1" },
                        );
                    }
                    println!("{library}: {algorithm}, {protocol}, {transport}");
                    right &= child.status()?.success();
                }
            }
        }
    }
    Ok(right)
}

/// A type and how whole numbers are written in it.
#[derive(Clone, Copy)]
struct Type {
    name: &'static str,
    nccl: ncclDataType_t,
    bytes: usize,
    encode: fn(u32) -> u64,
}

const TYPES: [Type; 12] = [
    Type { name: "i8", nccl: ncclDataType_t::Int8, bytes: 1, encode: u64_of },
    Type { name: "u8", nccl: ncclDataType_t::Uint8, bytes: 1, encode: u64_of },
    Type { name: "i32", nccl: ncclDataType_t::Int32, bytes: 4, encode: u64_of },
    Type { name: "u32", nccl: ncclDataType_t::Uint32, bytes: 4, encode: u64_of },
    Type { name: "i64", nccl: ncclDataType_t::Int64, bytes: 8, encode: u64_of },
    Type { name: "u64", nccl: ncclDataType_t::Uint64, bytes: 8, encode: u64_of },
    Type { name: "f16", nccl: ncclDataType_t::Float16, bytes: 2, encode: |n| F16.encode(n.into(), false).into() },
    Type { name: "f32", nccl: ncclDataType_t::Float32, bytes: 4, encode: |n| (n as f32).to_bits().into() },
    Type { name: "f64", nccl: ncclDataType_t::Float64, bytes: 8, encode: |n| f64::from(n).to_bits() },
    Type { name: "bf16", nccl: ncclDataType_t::Bfloat16, bytes: 2, encode: |n| BF16.encode(n.into(), false).into() },
    Type { name: "f8e4m3", nccl: ncclDataType_t::Float8e4m3, bytes: 1, encode: |n| E4M3.encode(n.into(), true).into() },
    Type { name: "f8e5m2", nccl: ncclDataType_t::Float8e5m2, bytes: 1, encode: |n| E5M2.encode(n.into(), true).into() },
];

fn u64_of(number: u32) -> u64 {
    number.into()
}

/// Element `i` of a rank: small, so that every sum is exact in every type.
fn element(rank: usize, i: usize) -> u32 {
    u32::from((i * 7 + rank * 5 + i / 11).is_multiple_of(8)) + u32::from(i % 13 == rank)
}

const OPERATIONS: [&str; 7] =
    ["all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "send_recv", "all_to_all"];

/// Memory of a device.
struct Buffer(*mut u8, usize);

impl Buffer {
    fn new(len: usize) -> Result<Self, Failure> {
        Ok(Self(memory::alloc(len.max(16), 256)?, len))
    }

    fn fill(&self, ty: Type, values: impl Iterator<Item = u32>) {
        for (i, value) in values.enumerate().take(self.1 / ty.bytes) {
            let bits = (ty.encode)(value).to_le_bytes();
            // SAFETY: inside of the allocation, which nothing uses at the moment.
            unsafe { std::ptr::copy_nonoverlapping(bits.as_ptr(), self.0.add(i * ty.bytes), ty.bytes) };
        }
    }

    /// The first element that is not as expected.
    fn differs(&self, ty: Type, expected: impl Iterator<Item = u32>) -> Option<usize> {
        expected.enumerate().find_map(|(i, value)| {
            let mut bits = [0; 8];
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(self.0.add(i * ty.bytes), bits.as_mut_ptr(), ty.bytes) };
            let mask = u64::MAX >> (64 - 8 * ty.bytes);
            (u64::from_le_bytes(bits) != (ty.encode)(value) & mask).then_some(i)
        })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: it came from `alloc`, and the work that used it is over.
        unsafe { memory::free(self.0) };
    }
}

/// A rank of a communicator.
struct Rank<'a> {
    nccl: &'a Nccl,
    comm: ncclComm_t,
    stream: Stream,
    rank: usize,
    ranks: usize,
}

fn checked(what: &str, code: ncclResult_t) -> Result<(), Failure> {
    if code == ncclResult_t::Success { Ok(()) } else { Err(format!("{what}: {}", code.0).into()) }
}

macro_rules! call {
    ($nccl:expr, $name:ident($($arg:expr),* $(,)?)) => {{
        let function = $nccl.$name.ok_or(concat!("the library has no ", stringify!($name)))?;
        // SAFETY: live handles, and memory with as many elements as the call uses.
        checked(stringify!($name), unsafe { function($($arg),*) })
    }};
}

impl Rank<'_> {
    /// Executes an operation, and describes the error in its result.
    fn operation(&self, operation: &str, ty: Type, count: usize) -> Result<Option<String>, Failure> {
        let (rank, ranks, nccl, comm, stream) = (self.rank, self.ranks, self.nccl, self.comm, self.stream.raw().cast());
        let wide = count * ranks;
        let (sent, received) = match operation {
            "all_gather" => (count, wide),
            "reduce_scatter" => (wide, count),
            "all_to_all" => (wide, wide),
            _ => (count, count),
        };
        let (send, recv) = (Buffer::new(sent * ty.bytes)?, Buffer::new(received * ty.bytes)?);
        send.fill(ty, (0..sent).map(|i| element(rank, i)));
        let (from, to) = (send.0.cast_const().cast(), recv.0.cast());
        let sum = ncclRedOp_t::Sum;
        let root = ranks - 1;
        match operation {
            "all_reduce" => call!(nccl, ncclAllReduce(from, to, count, ty.nccl, sum, comm, stream))?,
            "reduce" => call!(nccl, ncclReduce(from, to, count, ty.nccl, sum, root as i32, comm, stream))?,
            "broadcast" => call!(nccl, ncclBroadcast(from, to, count, ty.nccl, root as i32, comm, stream))?,
            "all_gather" => call!(nccl, ncclAllGather(from, to, count, ty.nccl, comm, stream))?,
            "reduce_scatter" => call!(nccl, ncclReduceScatter(from, to, count, ty.nccl, sum, comm, stream))?,
            "send_recv" => {
                let (next, last) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
                call!(nccl, ncclGroupStart())?;
                call!(nccl, ncclSend(from, count, ty.nccl, next as i32, comm, stream))?;
                call!(nccl, ncclRecv(to, count, ty.nccl, last as i32, comm, stream))?;
                call!(nccl, ncclGroupEnd())?;
            }
            _ => {
                call!(nccl, ncclGroupStart())?;
                for peer in 0..ranks {
                    let place = peer * count * ty.bytes;
                    let (from, to) = (send.0.wrapping_add(place), recv.0.wrapping_add(place));
                    call!(nccl, ncclSend(from.cast_const().cast(), count, ty.nccl, peer as i32, comm, stream))?;
                    call!(nccl, ncclRecv(to.cast(), count, ty.nccl, peer as i32, comm, stream))?;
                }
                call!(nccl, ncclGroupEnd())?;
            }
        }
        self.stream.synchronize();
        let summed = |i: usize| (0..ranks).map(|of| element(of, i)).sum::<u32>();
        let wrong = match operation {
            "all_reduce" => recv.differs(ty, (0..count).map(summed)),
            "reduce" if rank == root => recv.differs(ty, (0..count).map(summed)),
            "reduce" => None,
            "broadcast" => recv.differs(ty, (0..count).map(|i| element(root, i))),
            "all_gather" => recv.differs(ty, (0..wide).map(|i| element(i / count.max(1), i % count.max(1)))),
            "reduce_scatter" => recv.differs(ty, (0..count).map(|i| summed(rank * count + i))),
            "send_recv" => recv.differs(ty, (0..count).map(|i| element((rank + ranks - 1) % ranks, i))),
            _ => recv.differs(ty, (0..wide).map(|i| element(i / count.max(1), rank * count + i % count.max(1)))),
        };
        let failures = gpuless_cuda::api::failures();
        if let Some(failure) = failures.first() {
            return Err(format!("{failure:?}").into());
        }
        Ok(wrong.map(|i| format!("{operation} of {count} {} on {ranks} ranks: element {i} of rank {rank}", ty.name)))
    }
}

/// A library on software GPUs.
fn load(path: &Path) -> Result<Nccl, Failure> {
    let settings = gpuless_cuda::api::Settings { devices: DEVICES, ..Default::default() };
    gpuless_cuda::api::configure(settings)?;
    if let Ok(seed) = std::env::var("NCCL_MATRIX_SEED") {
        gpuless_cuda::library::schedule(Some(ptx::run::Schedule::new(seed.parse()?)))?;
    }
    let began = Instant::now();
    let nccl = Nccl::load(path)?;
    let unknown = |name: &str, first: bool| {
        if first {
            println!("not supported: {name}");
        }
    };
    let canonical = path.canonicalize()?;
    // SAFETY: the library is loaded from this file, stays, and nothing has called it but for its version.
    let library = unsafe { gpuless_cuda::library::load(&canonical, Options::default(), Box::new(unknown))? };
    println!("  {} kernels, ready after {:.2?}", library.kernels().count(), began.elapsed());
    Ok(nccl)
}

/// Measures the time to create communicators, and to sum f32: the best of ten runs.
fn times(path: &Path) -> Result<bool, Failure> {
    let nccl = &load(path)?;
    for ranks in [2, 8] {
        let mut id = ncclUniqueId { internal: [0; 128] };
        call!(nccl, ncclGetUniqueId(&mut id))?;
        let meet = &Barrier::new(ranks);
        std::thread::scope(|scope| {
            let times = |rank: usize| -> Result<(), Failure> {
                gpuless_device::set_current(rank);
                let mut comm: ncclComm_t = std::ptr::null_mut();
                let began = Instant::now();
                call!(nccl, ncclCommInitRank(&mut comm, ranks as i32, id, rank as i32))?;
                if rank == 0 {
                    println!("  {ranks} ranks: made in {:.2?}", began.elapsed());
                }
                let stream = Stream::of_device(rank);
                for count in [1000, 1 << 18, 1 << 22] {
                    let (send, recv) = (Buffer::new(4 * count)?, Buffer::new(4 * count)?);
                    send.fill(TYPES[7], (0..count).map(|i| element(rank, i)));
                    recv.fill(TYPES[7], (0..count).map(|_| 0));
                    let mut best = Duration::MAX;
                    for _ in 0..10 {
                        meet.wait();
                        let began = Instant::now();
                        let (from, to, sum) = (send.0.cast_const().cast(), recv.0.cast(), ncclRedOp_t::Sum);
                        let ty = ncclDataType_t::Float32;
                        call!(nccl, ncclAllReduce(from, to, count, ty, sum, comm, stream.raw().cast()))?;
                        stream.synchronize();
                        best = best.min(began.elapsed());
                    }
                    if rank == 0 {
                        println!("  {ranks} ranks: all_reduce of {count} f32 in {best:.2?}");
                    }
                }
                call!(nccl, ncclCommDestroy(comm))
            };
            let threads: Vec<_> = (0..ranks).map(|rank| scope.spawn(move || times(rank))).collect();
            let mut ends = threads.into_iter().map(|thread| thread.join());
            ends.try_for_each(|end| end.unwrap_or_else(|_| Err("a rank has panicked".into())))
        })?;
    }
    Ok(true)
}

/// The time for which kernels may stand still before this program gives up. NCCL's own threads, which could help them, need less.
const PATIENCE: Duration = Duration::from_secs(30);

/// Gives up once kernels stand still at the same positions as before, and prints where.
fn watch() -> ! {
    let mut before = None;
    loop {
        std::thread::sleep(PATIENCE);
        let now = gpuless_cuda::library::standing();
        if let Some(spots) = now.as_ref().filter(|_| now == before) {
            for block in spots {
                for (spot, wait) in &block.spots {
                    eprintln!("  {}: {spot} {wait}", block.kernel);
                }
            }
            give_up("nothing moves");
        }
        before = now;
    }
}

/// Everything with the settings of this process.
fn run(path: &Path, most: usize) -> Result<bool, Failure> {
    let nccl = load(path)?;
    std::thread::spawn(|| watch());
    let (mut cases, wrong) = (0, Mutex::new(Vec::new()));
    for ranks in RANKS.into_iter().filter(|ranks| *ranks <= most) {
        let began = Instant::now();
        let mut id = ncclUniqueId { internal: [0; 128] };
        call!(nccl, ncclGetUniqueId(&mut id))?;
        let done: Vec<Result<usize, Failure>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..ranks)
                .map(|rank| {
                    let (nccl, wrong) = (&nccl, &wrong);
                    scope.spawn(move || {
                        let done = one_rank(nccl, id, (rank, ranks), wrong);
                        if let Err(error) = &done {
                            // The other ranks wait for this one, which never comes.
                            give_up(&format!("rank {rank} of {ranks}: {error}"));
                        }
                        done
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| Err("a rank has panicked".into())))
                .collect()
        });
        for one in done {
            cases += one?;
        }
        println!("  {ranks} ranks in {:.2?}, {}", began.elapsed(), resident());
    }
    let wrong = wrong.into_inner().unwrap_or_default();
    for line in wrong.iter().take(20) {
        println!("  WRONG: {line}");
    }
    println!("  {} of {cases} results right", cases - wrong.len());
    Ok(wrong.is_empty())
}

/// The memory of this process.
fn resident() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.map_or_else(String::new, |kib| format!("{} resident", kib.trim()))
}

fn one_rank(
    nccl: &Nccl,
    id: ncclUniqueId,
    (rank, ranks): (usize, usize),
    wrong: &Mutex<Vec<String>>,
) -> Result<usize, Failure> {
    gpuless_device::set_current(rank);
    let mut comm: ncclComm_t = std::ptr::null_mut();
    call!(nccl, ncclCommInitRank(&mut comm, ranks as i32, id, rank as i32))?;
    let rank = Rank { nccl, comm, stream: Stream::of_device(rank), rank, ranks };
    let mut cases = 0;
    let mut version = 0;
    call!(nccl, ncclGetVersion(&mut version))?;
    // Only all_reduce has trees, and newer versions refuse the others where trees are asked for.
    let trees = std::env::var("NCCL_ALGO").is_ok_and(|algorithm| algorithm == "Tree");
    let operations = if trees { &OPERATIONS[..1] } else { &OPERATIONS[..] };
    for ty in TYPES.into_iter().filter(|ty| version >= FP8_SINCE || !ty.name.starts_with("f8")) {
        for operation in operations.iter().copied() {
            let large = matches!(ty.name, "f32" | "i8") && (operation == "all_reduce" || ranks <= 4);
            let counts = COUNTS.into_iter().chain(LARGE.into_iter().filter(|_| large));
            for count in counts {
                cases += 1;
                if let Some(line) = rank.operation(operation, ty, count)? {
                    wrong.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(line);
                }
            }
        }
    }
    call!(nccl, ncclCommDestroy(comm))?;
    Ok(cases)
}
