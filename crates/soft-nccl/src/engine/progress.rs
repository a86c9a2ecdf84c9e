//! The progress thread: takes ready tasks and runs each until it parks, ends, or had its turn.
use super::batch::BatchId;
use super::channel::Message;
use super::step::perform;
use super::task::{Parked, Task, TaskId};
use super::{Locked, SHARED, State, lock};
use crate::device::Done;
use nccl_sys::ncclResult_t;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Steps of one task before others get their turn.
const TURN: usize = 32;

/// Tasks that could run: in order of arrival, or in an order drawn from a seed.
pub(super) struct Ready {
    queue: VecDeque<TaskId>,
    random: Option<u64>,
}

impl Ready {
    pub(super) fn new(seed: Option<u64>) -> Self {
        // The generator below must not start at 0.
        Self { queue: VecDeque::new(), random: seed.map(|seed| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1) }
    }

    pub(super) fn push(&mut self, task: TaskId) {
        self.queue.push_back(task);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn pop(&mut self) -> Option<TaskId> {
        if let Some(state) = &mut self.random {
            *state ^= *state << 13;
            *state ^= *state >> 7;
            *state ^= *state << 17;
            let len = self.queue.len().max(1) as u64;
            return self.queue.swap_remove_back((*state % len) as usize);
        }
        self.queue.pop_front()
    }
}

impl State {
    /// Makes a parked task ready.
    pub(super) fn wake(&mut self, task: Option<TaskId>) {
        if let Some(task) = task {
            self.ready.push(task);
            self.changed();
        }
    }
}

/// Starts the progress thread with the first work.
pub(super) fn ensure_started(world: &mut State, batch: BatchId) {
    if world.started {
        return;
    }
    match std::thread::Builder::new().name("soft-nccl".to_owned()).spawn(run) {
        Ok(_) => world.started = true,
        Err(_) => {
            // The next operation tries again; until then this one's communicator says why nothing moves.
            let comm = world.batches.get(&batch).map(|batch| batch.comm);
            if let Some(member) = comm.and_then(|comm| world.members.get_mut(&comm)) {
                member.error = Some(ncclResult_t::SystemError);
            }
        }
    }
}

fn run() {
    let mut world = lock();
    loop {
        let Some(id) = world.ready.pop() else {
            if world.active {
                world.active = false;
                world.changed();
                if let Some(hook) = world.hook() {
                    drop(world);
                    hook();
                    world = lock();
                    continue;
                }
            }
            world = world.wait(&SHARED.work);
            continue;
        };
        world.active = true;
        // A task may be woken twice, or be gone after an abort.
        let Some(task) = world.tasks.remove(&id) else { continue };
        world.running = Some(task.comm);
        let dones;
        (world, dones) = turn(world, id, task);
        world.running = None;
        world.write_out();
        if world.aborting > 0 {
            SHARED.step_over.notify_all();
        }
        if !dones.is_empty() {
            drop(world);
            for done in dones {
                done.finish();
            }
            world = lock();
        }
    }
}

/// Runs a task for its turn.
fn turn(mut world: Locked, id: TaskId, mut task: Box<Task>) -> (Locked, Vec<Done>) {
    task.parked = Parked::No;
    for _ in 0..TURN {
        if let Some(link) = task.closing {
            if world.untaken(&task, link, id) {
                return park(world, id, task, Parked::Taken(link.peer));
            }
            world.close_link(&mut task, link, true);
            task.closing = None;
        }
        let Some(step) = task.step.or_else(|| task.script.step(task.cursor)) else {
            return end(world, id, task);
        };
        task.step = Some(step);
        let recv = step.recv.map(|link| (link, world.channel_of(&mut task, link, false)));
        let send = step.send.map(|link| (link, world.channel_of(&mut task, link, true)));
        if let Some((link, channel)) = recv
            && let Some(channel) = world.channel(channel)
            && !channel.has_message()
        {
            channel.wait_for_message(id);
            return park(world, id, task, Parked::Message(link.peer));
        }
        if let Some((link, channel)) = send
            && let Some(channel) = world.channel(channel)
            && !channel.has_slot()
        {
            channel.wait_for_slot(id);
            return park(world, id, task, Parked::Slot(link.peer));
        }
        let message = recv.and_then(|(_, channel)| world.pop(channel));
        let spare = match (&message, send) {
            (Some(_), _) => None,
            (None, Some((_, channel))) => world.channel(channel).map(|channel| channel.buffer()),
            (None, None) => Some(std::mem::take(&mut task.own)),
        };
        let depth = message.as_ref().map(|message| message.depth + 1);
        drop(world);
        let result = catch_unwind(AssertUnwindSafe(|| perform(&mut task, &step, message.map(|m| m.data), spare)));
        world = lock();
        let Ok(Some(data)) = result else {
            // A bug here: the operation never ends, and its communicator says why.
            if let Some(member) = world.members.get_mut(&task.comm) {
                member.error = Some(ncclResult_t::InternalError);
            }
            return park(world, id, task, Parked::Broken);
        };
        task.step = None;
        task.cursor += 1;
        task.count(&step, depth);
        match (recv, send) {
            (_, Some((_, channel))) => world.push(channel, Message { data, depth: task.depth }),
            (Some((_, channel)), None) => {
                if let Some(channel) = world.channel(channel) {
                    channel.recycle(data);
                }
            }
            (None, None) => task.own = data,
        }
        if step.close {
            task.closing = step.send;
            if let Some(link) = step.recv {
                world.close_link(&mut task, link, false);
            }
        }
    }
    world.tasks.insert(id, task);
    world.ready.push(id);
    (world, Vec::new())
}

fn park(mut world: Locked, id: TaskId, mut task: Box<Task>, parked: Parked) -> (Locked, Vec<Done>) {
    task.parked = parked;
    world.tasks.insert(id, task);
    (world, Vec::new())
}

/// The script is over; the task is when its peers have taken everything, unless it may leave it to them.
fn end(mut world: Locked, id: TaskId, mut task: Box<Task>) -> (Locked, Vec<Done>) {
    if !task.eager {
        let untaken =
            task.open.iter().filter(|open| open.sends).map(|open| open.link).find(|l| world.untaken(&task, *l, id));
        if let Some(link) = untaken {
            return park(world, id, task, Parked::Taken(link.peer));
        }
    }
    world.count(&mut task);
    world.close_all(&task);
    let dones = world.lane_over(task.batch);
    (world, dones)
}
