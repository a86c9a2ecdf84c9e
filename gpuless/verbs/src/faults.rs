//! Faults of the network on demand: cards, ports and messages that fail while a program runs.
//!
//! A fault strikes once, at a message with data that this process sends, which its owner chooses by number. So a run without a fault first
//! counts messages. What a queue pair sends to itself, and messages without data, are not counted.

use crate::device::Device;
use crate::lock::lock;
use crate::memory::Random;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nobody answers the message, nor what its queue pair sends afterwards: `IBV_WC_RETRY_EXC_ERR` after the retry time.
    RetryExceeded,
    /// The card's port goes down in front of the message, for a time or for ever, with `IBV_EVENT_PORT_ERR` and `IBV_EVENT_PORT_ACTIVE`.
    PortDown { time: Option<Duration> },
    /// `IBV_EVENT_QP_FATAL`: the message's queue pair goes into the error state.
    QueuePairFatal,
    /// `IBV_EVENT_CQ_ERR`: the completion queue of the message's queue pair gets no more completions.
    CompletionQueueError,
    /// `IBV_EVENT_DEVICE_FATAL`: all queue pairs of the card go into the error state, and its calls fail.
    DeviceFatal,
    /// The message, and what its queue pair sends behind it, leaves later by this time.
    LateSend { time: Duration },
    /// The completion of the message, and those behind it in its send queue, come later by this time.
    LateCompletion { time: Duration },
    /// The data of the message does not arrive, but all else happens as if it had.
    LostWrite,
    /// A bit of the message's data flips.
    FlippedBit,
    /// The data of a write is written again after a time.
    RepeatedWrite { after: Duration },
    /// The data of a write arrives behind that of the next message of its queue pair, or 50 ms later if there is none.
    ReorderedWrites,
    /// From this message on the card sends no faster than this.
    SlowNic { bytes_per_second: u64 },
    /// From this message on the network connects this process with no other.
    Unreachable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: Kind,
    /// Only messages of this card, by its place in the settings, are counted and struck.
    pub nic: Option<usize>,
    /// It strikes at this message, counted from 1, or at the next one that it can strike.
    pub at: u64,
    /// Decides which bit flips.
    pub seed: u64,
}

/// Messages with data that were sent since [`begin`], and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub messages: u64,
    pub bytes: u64,
}

struct State {
    fault: Option<Fault>,
    struck: Option<String>,
    counts: Counts,
    tell: Arc<dyn Fn(&str) + Send + Sync>,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);
static AT_WORK: AtomicBool = AtomicBool::new(false);
/// What lasts after a strike: this process is alone, or a card sends slowly.
static ALONE: AtomicBool = AtomicBool::new(false);
static SLOW: Mutex<Option<Slow>> = Mutex::new(None);
static IS_SLOW: AtomicBool = AtomicBool::new(false);

struct Slow {
    device: usize,
    bytes_per_second: u64,
    /// When the card can send the next message.
    free_at: Instant,
}

/// From now on messages are counted, and the fault strikes if there is one; `tell` is told what it did, and must not call the library.
/// Ends an earlier one.
pub fn begin(fault: Option<Fault>, tell: impl Fn(&str) + Send + Sync + 'static) {
    end();
    *lock(&STATE) = Some(State { fault, struck: None, counts: Counts::default(), tell: Arc::new(tell) });
    AT_WORK.store(true, Ordering::SeqCst);
}

/// Ends counting, and the effects that last: the network connects again, and cards are as fast as before. A card that has failed, a port
/// that is down and queue pairs in error stay as they are.
pub fn end() {
    AT_WORK.store(false, Ordering::SeqCst);
    *lock(&STATE) = None;
    ALONE.store(false, Ordering::SeqCst);
    IS_SLOW.store(false, Ordering::SeqCst);
    *lock(&SLOW) = None;
}

/// What was counted since [`begin`], and what the fault has done.
pub fn seen() -> (Counts, Option<String>) {
    lock(&STATE).as_ref().map_or((Counts::default(), None), |state| (state.counts, state.struck.clone()))
}

/// What is known of a message before it is sent.
pub(crate) struct Message<'a> {
    pub device: &'a Device,
    pub qp_num: u32,
    pub bytes: u32,
    pub is_write: bool,
}

/// What a fault does to a message, and its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strike {
    pub kind: Kind,
    pub seed: u64,
}

/// Counts a message with data. Some: the fault strikes it.
pub(crate) fn count(message: &Message<'_>) -> Option<Strike> {
    if !AT_WORK.load(Ordering::Relaxed) {
        return None;
    }
    let (fault, words, tell) = {
        let mut state = lock(&STATE);
        let state = state.as_mut()?;
        if state.fault.and_then(|fault| fault.nic).is_some_and(|nic| nic != message.device.index) {
            return None;
        }
        state.counts.messages += 1;
        state.counts.bytes += u64::from(message.bytes);
        let writes_only = |kind| matches!(kind, Kind::RepeatedWrite { .. } | Kind::ReorderedWrites);
        let strikes =
            |fault: &Fault| state.counts.messages >= fault.at && (message.is_write || !writes_only(fault.kind));
        let fault = state.fault.filter(strikes).filter(|_| state.struck.is_none())?;
        let words = describe(&fault, message, state.counts.messages);
        state.struck = Some(words.clone());
        (fault, words, Arc::clone(&state.tell))
    };
    tell(&words);
    Some(Strike { kind: fault.kind, seed: fault.seed })
}

fn describe(fault: &Fault, message: &Message<'_>, number: u64) -> String {
    let what = match fault.kind {
        Kind::RetryExceeded => String::from("nobody answers"),
        Kind::PortDown { time: Some(time) } => format!("the port is down for {time:?} from"),
        Kind::PortDown { time: None } => String::from("the port is down from"),
        Kind::QueuePairFatal => String::from("the queue pair fails at"),
        Kind::CompletionQueueError => String::from("the completion queue fails at"),
        Kind::DeviceFatal => String::from("the card fails at"),
        Kind::LateSend { time } => format!("late by {time:?}:"),
        Kind::LateCompletion { time } => format!("completed late by {time:?}:"),
        Kind::LostWrite => String::from("lost:"),
        Kind::FlippedBit => {
            format!("bit {} flips in", flipped(fault.seed, message.bytes as usize))
        }
        Kind::RepeatedWrite { after } => format!("written again after {after:?}:"),
        Kind::ReorderedWrites => String::from("overtaken by the next one:"),
        Kind::SlowNic { bytes_per_second } => format!("the card sends {bytes_per_second} bytes a second from"),
        Kind::Unreachable => String::from("no other process can be reached from"),
    };
    let name = &message.device.nic.name;
    format!("{what} message {number}, of {} bytes, on {name}, queue pair {:#x}", message.bytes, message.qp_num)
}

/// The bit that flips in data of this length.
pub(crate) fn flipped(seed: u64, len: usize) -> usize {
    Random(seed ^ 0x5bf0_3635_1dd0_11c1).below(len.max(1) * 8)
}

pub(crate) fn separate() {
    ALONE.store(true, Ordering::SeqCst);
}

/// True if the network connects this process with no other.
pub(crate) fn is_alone() -> bool {
    ALONE.load(Ordering::Relaxed)
}

pub(crate) fn slow_down(device: &Device, bytes_per_second: u64) {
    let (device, bytes_per_second) = (device.index, bytes_per_second.max(1));
    *lock(&SLOW) = Some(Slow { device, bytes_per_second, free_at: Instant::now() });
    IS_SLOW.store(true, Ordering::SeqCst);
}

/// Takes the card's time for a message of so many bytes.
///
/// # Errors
///
/// The card is still busy, until then.
pub(crate) fn take_time(device: &Device, bytes: u32) -> Result<(), Instant> {
    if !IS_SLOW.load(Ordering::Relaxed) {
        return Ok(());
    }
    let mut slow = lock(&SLOW);
    let Some(slow) = slow.as_mut().filter(|slow| slow.device == device.index) else { return Ok(()) };
    let now = Instant::now();
    if slow.free_at > now {
        return Err(slow.free_at);
    }
    let nanoseconds = u64::from(bytes).saturating_mul(1_000_000_000) / slow.bytes_per_second;
    slow.free_at = now + Duration::from_nanos(nanoseconds);
    Ok(())
}
