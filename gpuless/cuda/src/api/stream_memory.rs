//! The driver's operations on memory in stream order: writing a word, and waiting until a word has a value.
use super::driver::driver;
use super::graves::Running;
use super::raw::{self, In};
use super::streams::{self, Target};
use super::{Handle, Outcome, blocks, errors};
use gpuless_device::{Done, Start};
use std::ffi::{c_int, c_uint};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Limit on the operations of one call, as in CUDA.
const MOST: c_uint = 256;
/// The time between two looks at a word.
const PAUSE: Duration = Duration::from_micros(50);

/// `CUstreamBatchMemOpParams`, as far as waits and writes use it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Operation {
    pub kind: c_uint,
    pub address: usize,
    pub value: u64,
    pub flags: c_uint,
    pub alias: u64,
    pub unused: u64,
}

#[derive(Clone, Copy)]
enum Action {
    Write,
    /// With the way of comparing: `CUstreamWaitValue_flags`.
    Wait(c_uint),
}

#[derive(Clone, Copy)]
struct Step {
    action: Action,
    address: usize,
    wide: bool,
    value: u64,
}

impl Step {
    fn of(operation: &Operation) -> Result<Option<Self>, c_int> {
        let Operation { kind, address, value, flags, .. } = *operation;
        // Whether earlier writes of network cards are flushed makes no difference.
        let comparison = flags & !(1 << 30);
        let (action, wide) = match kind {
            1 | 4 if comparison <= 3 => (Action::Wait(comparison), kind == 4),
            // Without a barrier, too, it comes after what is before it.
            2 | 5 if flags <= 1 => (Action::Write, kind == 5),
            // Flushes of writes from elsewhere, and barriers.
            3 | 6 => return Ok(None),
            _ => return Err(errors::INVALID_VALUE),
        };
        let len = if wide { 8 } else { 4 };
        let found = blocks::find(address).ok_or(errors::INVALID_VALUE)?;
        if !address.is_multiple_of(len) || address - found.start + len > found.len {
            return Err(errors::INVALID_VALUE);
        }
        Ok(Some(Self { action, address, wide, value: if wide { value } else { value & 0xffff_ffff } }))
    }

    /// Does it, if it need not wait any more.
    fn done(&self) -> bool {
        let Action::Wait(comparison) = self.action else {
            raw::store_word(self.address, self.wide, self.value);
            return true;
        };
        let word = raw::load_word(self.address, self.wide);
        match comparison {
            0 if self.wide => word.wrapping_sub(self.value) as i64 >= 0,
            0 => (word as u32).wrapping_sub(self.value as u32) as i32 >= 0,
            1 => word == self.value,
            2 => word & self.value != 0,
            _ => !(word | self.value) & if self.wide { u64::MAX } else { 0xffff_ffff } != 0,
        }
    }
}

/// Operations that a stream has reached; their memory stays until they are over.
struct Waiting {
    device: usize,
    steps: Arc<[Step]>,
    next: usize,
    done: Done,
    running: Running,
}

impl Waiting {
    /// Goes on as far as it can; gives itself back if it has to wait. Nothing more happens on a device where a kernel has failed.
    fn advance(mut self) -> Option<Self> {
        while let Some(step) = self.steps.get(self.next).filter(|_| errors::check(self.device).is_ok()) {
            if !step.done() {
                return Some(self);
            }
            self.next += 1;
        }
        drop(self.running);
        self.done.finish();
        None
    }
}

/// What waits, and whether a thread looks at it.
static WAITING: Mutex<(Vec<Waiting>, bool)> = Mutex::new((Vec::new(), false));

fn wait(waiting: Waiting) {
    let mut all = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    all.0.push(waiting);
    if !all.1 {
        all.1 = std::thread::Builder::new().name("stream waits".to_owned()).spawn(look).is_ok();
    }
}

/// Looks at the words until nothing waits.
fn look() {
    loop {
        let waiting = {
            let mut all = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
            if all.0.is_empty() {
                all.1 = false;
                return;
            }
            std::mem::take(&mut all.0)
        };
        // Work that begins now runs without the lock.
        let left: Vec<Waiting> = waiting.into_iter().filter_map(Waiting::advance).collect();
        WAITING.lock().unwrap_or_else(PoisonError::into_inner).0.extend(left);
        std::thread::sleep(PAUSE);
    }
}

fn begin(device: usize, steps: Arc<[Step]>, running: Running, done: Done) {
    if let Some(waiting) = (Waiting { device, steps, next: 0, done, running }).advance() {
        wait(waiting);
    }
}

fn put(target: &Target, steps: Vec<Step>) -> Outcome {
    let device = target.device;
    errors::check(device)?;
    let steps: Arc<[Step]> = steps.into();
    let again = Arc::clone(&steps);
    let node = move |_: u64| -> Option<Vec<Start>> {
        let (running, steps) = (Running::begin(), Arc::clone(&again));
        Some(vec![Box::new(move |done| begin(device, steps, running, done))])
    };
    if !target.stream.capture_launch(Arc::new(node)) {
        let running = Running::begin();
        target.stream.launch(Box::new(move |done| begin(device, steps, running, done)));
    }
    Ok(())
}

fn one(stream: Handle, kind: c_uint, address: usize, value: u64, flags: c_uint) -> Outcome {
    let step = Step::of(&Operation { kind, address, value, flags, alias: 0, unused: 0 })?;
    put(&streams::lookup(stream)?, step.into_iter().collect())
}

driver! {
    fn cuStreamWaitValue32(stream: Handle, address: usize, value: c_uint, flags: c_uint) {
        one(stream, 1, address, value.into(), flags)
    }
    fn cuStreamWaitValue64(stream: Handle, address: usize, value: u64, flags: c_uint) {
        one(stream, 4, address, value, flags)
    }
    fn cuStreamWriteValue32(stream: Handle, address: usize, value: c_uint, flags: c_uint) {
        one(stream, 2, address, value.into(), flags)
    }
    fn cuStreamWriteValue64(stream: Handle, address: usize, value: u64, flags: c_uint) {
        one(stream, 5, address, value, flags)
    }
    fn cuStreamBatchMemOp(stream: Handle, count: c_uint, operations: In<Operation>, flags: c_uint) {
        if count > MOST || flags != 0 {
            return Err(errors::INVALID_VALUE);
        }
        let operations = operations.list(count as usize)?.into_iter();
        let steps = operations.filter_map(|operation| Step::of(&operation).transpose());
        put(&streams::lookup(stream)?, steps.collect::<Result<_, _>>()?)
    }
}
