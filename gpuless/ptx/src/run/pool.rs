//! Threads that run launches: all blocks of all launches are at work at the same time, and take turns.
use super::block::{Block, Turn};
use super::choice::{Choice, Schedule};
use super::fault::{Fault, StandingBlock};
use super::launch::{Figures, LEAST_BUDGET, Launch, MOST_BUDGET, Order};
use super::rounding::with_default_rounding;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Instructions after which a block lets others have its thread.
const SLICE: u64 = 20_000;
/// Backward branches after which a warp lets others of its block continue.
const BUDGET: u32 = 64;
/// Minimum and maximum time for which a thread waits before it reads memory again that blocks poll.
const PAUSES: (Duration, Duration) = (Duration::from_micros(5), Duration::from_micros(200));
/// After this many idle turns in a row a block counts as standing still.
const LOOKS: u32 = 16;
/// Number of polls of a block that stands still in one turn. NCCL's loops count their polls before they check for an abort, and that
/// count must make progress although threads pause between turns.
const LOOKS_IN_A_TURN: u32 = 64;
/// The time for which a look at all blocks waits for those that have a turn.
const LONGEST_TURN: Duration = Duration::from_secs(1);
/// The same for each warp if a seed chooses one warp for a turn: it is unlikely that a warp had no turn.
const SEEDED_LOOKS: u32 = 64;

/// The callback for the end of a launch.
pub type Ended = Box<dyn FnOnce(Result<Figures, Fault>) + Send>;

/// Threads that run launches.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    /// A block was added, or all threads should end.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    blocks: VecDeque<Job>,
    /// Number of blocks that have not ended, including those being executed.
    live: usize,
    /// Turns in a row in which nothing happened.
    idle: usize,
    /// Turns in which something happened, and changes of what has turns.
    moves: u64,
    /// Blocks that have polled long enough since the last move to count as standing still.
    standing: usize,
    /// True while no block may begin a turn, so that all of them can be looked at.
    held: bool,
    /// The order of turns, if a seed decides it. Then only one block has a turn at a time.
    choice: Option<Choice>,
    ends: bool,
    /// The device whose blocks get no turn, and when that ends.
    halted: Option<(usize, Option<Instant>)>,
    /// The blocks of that device; they are not in `live`.
    halted_blocks: Vec<Job>,
}

impl Queue {
    /// Adds a block that is live, or puts it aside if its device is halted.
    fn put(&mut self, job: Job) {
        if self.halted.is_some_and(|(device, _)| device == job.launch.device) {
            self.live -= 1;
            self.moved();
            self.halted_blocks.push(job);
        } else {
            self.blocks.push_back(job);
        }
    }

    /// Ends a halt.
    fn resume(&mut self) {
        self.halted = None;
        self.live += self.halted_blocks.len();
        self.blocks.extend(self.halted_blocks.drain(..));
        self.moved();
    }

    /// Something has happened: no block stands still before it has polled again.
    fn moved(&mut self) {
        self.idle = 0;
        self.moves += 1;
        self.standing = 0;
    }

    /// A block has had a turn in which it did nothing.
    fn note_idle(&mut self, job: &mut Job) {
        self.idle += 1;
        job.idle = job.idle.saturating_add(1);
        let before = if job.since_move.0 == self.moves { job.since_move.1 } else { 0 };
        job.since_move = (self.moves, before + 1);
        // With a seed a turn is one warp's.
        let enough = if self.choice.is_some() { SEEDED_LOOKS * job.block.warps() as u32 } else { LOOKS };
        self.standing += usize::from(before + 1 == enough);
    }

    /// True if there are blocks that could have a turn, and all of them wait or poll memory that does not change. No halt ends by itself then.
    fn stands(&mut self) -> bool {
        self.live > 0 && self.standing == self.live && self.left_of_halt().is_none()
    }

    /// The time until the halt ends, if it does; a halt whose time has come ends here.
    fn left_of_halt(&mut self) -> Option<Duration> {
        let left = self.halted?.1?.saturating_duration_since(Instant::now());
        if left.is_zero() {
            self.resume();
            return None;
        }
        Some(left)
    }
}

/// A block and its launch.
#[derive(Debug)]
pub(super) struct Job {
    block: Block,
    launch: Arc<Running>,
    /// Turns in a row in which it did nothing.
    pub(super) idle: u32,
    /// The number of moves at its last turn, and how many turns in which it did nothing it has had since.
    since_move: (u64, u32),
    /// If a seed decides the order: its priority, or the turn until which it stalls.
    pub(super) chance: u64,
}

#[derive(Default)]
struct Outcome {
    figures: Figures,
    fault: Option<Fault>,
    ended: Option<Ended>,
}

struct Running {
    device: usize,
    kernel: Arc<str>,
    blocks_left: AtomicUsize,
    failed: AtomicBool,
    outcome: Mutex<Outcome>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("blocks_left", &self.blocks_left).finish_non_exhaustive()
    }
}

impl Running {
    fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block of it has ended.
    fn block_ends(&self, figures: Figures, fault: Option<Fault>) {
        {
            let mut outcome = self.outcome();
            outcome.figures.instructions += figures.instructions;
            outcome.figures.work += figures.work;
        }
        if let Some(fault) = fault {
            self.outcome().fault.get_or_insert(fault);
            self.failed.store(true, Ordering::Release);
        }
        if self.blocks_left.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let Outcome { figures, fault, ended } = std::mem::take(&mut *self.outcome());
        if let Some(ended) = ended {
            // A panic here has been reported, and the pool continues.
            _ = catch_unwind(AssertUnwindSafe(|| ended(fault.map_or(Ok(figures), Err))));
        }
    }
}

impl Pool {
    /// A pool with this many threads.
    ///
    /// # Errors
    ///
    /// The system starts no thread.
    pub fn new(threads: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared { queue: Mutex::default(), changed: Condvar::new() });
        let mut pool = Self { shared: shared.clone(), threads: Vec::new() };
        for number in 0..threads.max(1) {
            let shared = shared.clone();
            let thread = std::thread::Builder::new().name(format!("ptx {number}"));
            pool.threads.push(thread.spawn(move || with_default_rounding(|| shared.work()))?);
        }
        Ok(pool)
    }

    /// From now on warps take their turns one after the other, as a schedule says, or without one on all threads. A schedule does not
    /// control the host's actions in between.
    pub fn schedule(&self, schedule: Option<Schedule>) {
        self.shared.queue().choice = schedule.map(Choice::new);
        self.shared.changed.notify_all();
    }

    /// From now on no block of this device has a turn, for a time or until [`Pool::resume`]. At most one device is halted.
    pub fn halt(&self, device: usize, time: Option<Duration>) {
        let mut queue = self.shared.queue();
        queue.resume();
        queue.halted = Some((device, time.map(|time| Instant::now() + time)));
        let blocks = std::mem::take(&mut queue.blocks);
        blocks.into_iter().for_each(|job| queue.put(job));
        drop(queue);
        self.shared.changed.notify_all();
    }

    /// The blocks of a device that was halted have turns again.
    pub fn resume(&self) {
        self.shared.queue().resume();
        self.shared.changed.notify_all();
    }

    /// Begins a launch; `ended` is called on a thread of the pool when all its threads have ended, or when one cannot continue.
    pub fn launch(&self, launch: Launch, ended: Ended) {
        let running = Arc::new(Running {
            device: launch.device,
            kernel: launch.kernel,
            blocks_left: AtomicUsize::new(launch.blocks.len()),
            failed: AtomicBool::new(false),
            outcome: Mutex::new(Outcome { ended: Some(ended), ..Outcome::default() }),
        });
        let mut queue = self.shared.queue();
        queue.live += launch.blocks.len();
        queue.moved();
        if let Some(choice) = &mut queue.choice {
            choice.launches();
        }
        for mut block in launch.blocks {
            if let Some(weak) = queue.choice.as_mut().and_then(Choice::weak_memory) {
                block.weaken(weak);
            }
            let chance = queue.choice.as_mut().map_or(0, Choice::chance);
            queue.put(Job { block, launch: running.clone(), idle: 0, since_move: (0, 0), chance });
        }
        drop(queue);
        self.shared.changed.notify_all();
    }

    /// True if the pool has nothing to execute.
    pub fn is_empty(&self) -> bool {
        let queue = self.shared.queue();
        queue.live == 0 && queue.halted_blocks.is_empty()
    }

    /// All blocks, if all their warps wait or poll memory that does not change, so that only the host can help them. `None` if some warp makes
    /// progress or will do so when a halt ends, or there is nothing to execute.
    pub fn standing(&self) -> Option<Vec<StandingBlock>> {
        let mut queue = self.shared.queue();
        if !queue.stands() {
            return None;
        }
        // Blocks that have a turn now are looked at when they have come back.
        queue.held = true;
        let is_out = |queue: &mut Queue| queue.blocks.len() < queue.live;
        let waited = self.shared.changed.wait_timeout_while(queue, LONGEST_TURN, is_out);
        let (mut queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        queue.held = false;
        self.shared.changed.notify_all();
        let block = |halted: bool| {
            move |Job { block, launch, .. }: &Job| StandingBlock {
                device: launch.device,
                halted,
                kernel: launch.kernel.clone(),
                spots: block.spots(),
            }
        };
        let stands = queue.stands() && queue.blocks.len() == queue.live;
        let all = || queue.blocks.iter().map(block(false)).chain(queue.halted_blocks.iter().map(block(true))).collect();
        stands.then(all)
    }

    /// The number of turns in which something happened, if all blocks stand still as [`Pool::standing`] says: two equal numbers mean that
    /// they did so all the time in between.
    pub fn turns_before_standstill(&self) -> Option<u64> {
        let mut queue = self.shared.queue();
        queue.stands().then_some(queue.moves)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.queue().ends = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that has panicked has nothing more to do.
            _ = thread.join();
        }
        let mut queue = self.shared.queue();
        queue.resume();
        let left = std::mem::take(&mut queue.blocks);
        drop(queue);
        for job in left {
            let fault = Fault::Launch("the device is gone".to_owned());
            job.launch.block_ends(job.block.figures(), Some(fault));
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread of the pool.
    fn work(&self) {
        let mut pause = PAUSES.0;
        while let Some((mut job, order)) = self.next() {
            let failed = job.launch.failed.load(Ordering::Acquire);
            let turn = if failed { Ok(Turn::Over) } else { turn(&mut job.block, order, job.idle) };
            match turn {
                Ok(Turn::Moved) => {
                    job.idle = 0;
                    let mut queue = self.queue();
                    queue.moved();
                    queue.put(job);
                    if queue.held {
                        self.changed.notify_all();
                    }
                    pause = PAUSES.0;
                }
                Ok(Turn::Idle) => {
                    let mut queue = self.queue();
                    queue.note_idle(&mut job);
                    queue.put(job);
                    if queue.held {
                        self.changed.notify_all();
                    } else if queue.idle > queue.live {
                        // No block has made progress: only the host can change the memory that they poll.
                        let waited = self.changed.wait_timeout(queue, pause);
                        drop(waited.unwrap_or_else(PoisonError::into_inner));
                        pause = (pause * 2).min(PAUSES.1);
                    }
                }
                Ok(Turn::Over) => self.end(job, None),
                Err(fault) => self.end(job, Some(fault)),
            }
        }
    }

    /// The next block, with the order of its warps' turns if a seed decides it; `None` at the end.
    fn next(&self) -> Option<(Job, Option<Order>)> {
        let mut queue = self.queue();
        while !queue.ends {
            if queue.held {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let halted = queue.left_of_halt();
            let Queue { blocks, live, idle, choice, .. } = &mut *queue;
            let (job, order) = match choice {
                // One turn at a time.
                Some(_) if blocks.len() < *live => (None, None),
                Some(choice) => {
                    let at = choice.next(blocks, *idle > *live);
                    (blocks.remove(at), Some(choice.of_warps()))
                }
                None => (blocks.pop_front(), None),
            };
            if let Some(job) = job {
                return Some((job, order));
            }
            queue = match halted {
                Some(left) => self.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
        None
    }

    fn end(&self, job: Job, fault: Option<Fault>) {
        {
            let mut queue = self.queue();
            queue.live -= 1;
            queue.moved();
            if queue.held {
                self.changed.notify_all();
            }
        }
        let Job { block, launch, .. } = job;
        let figures = block.figures();
        // Its memory is freed before the launch is over.
        drop(block);
        launch.block_ends(figures, fault);
    }
}

/// Gives a block a turn. `idle` is the number of turns in a row, up to now, in which it did nothing.
fn turn(block: &mut Block, order: Option<Order>, idle: u32) -> Result<Turn, Fault> {
    let turn = || match order {
        Some(mut order) => {
            let mut looks = if idle < SEEDED_LOOKS * block.warps() as u32 { 1 } else { LOOKS_IN_A_TURN };
            loop {
                let budget = LEAST_BUDGET + order.below(MOST_BUDGET) as u32;
                let (turn, _) = block.turn_of_one(budget, |count| order.below(count))?;
                looks -= 1;
                if turn != Turn::Idle || looks == 0 {
                    return Ok(turn);
                }
            }
        }
        None => {
            let (before, mut moved) = (block.instructions(), false);
            let mut looks = if idle < LOOKS { 1 } else { LOOKS_IN_A_TURN };
            loop {
                let turn = block.round(BUDGET)?;
                moved |= turn == Turn::Moved;
                if turn == Turn::Idle && !moved && looks > 1 {
                    looks -= 1;
                    continue;
                }
                if turn != Turn::Moved || block.instructions() - before > SLICE {
                    // A turn that has moved and then polls is one that has moved.
                    return Ok(if moved && turn == Turn::Idle { Turn::Moved } else { turn });
                }
            }
        }
    };
    let panicked = |_| Err(Fault::Launch("executing the kernel failed: this is a bug".to_owned()));
    catch_unwind(AssertUnwindSafe(turn)).unwrap_or_else(panicked)
}
