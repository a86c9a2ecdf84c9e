//! Takes ready tasks and runs each until it parks, ends, or had its turn: on a host thread that waits for the device, or on a
//! progress thread. One thread does, and where there is much to move, one for each core: a task belongs to the thread that has
//! taken it out of the table, and everything that it waits for is looked at under the lock.
use super::channel::Message;
use super::counts::changed;
use super::ready::TaskId;
use super::step::perform;
use super::task::{Parked, Task};
use super::work::CORES;
use super::{ENGINE, Locked, State, lock};
use crate::device::Done;
use crate::failure::{Failure, Outcome};
use nccl_sys::ncclResult_t;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Steps of one task before others get their turn.
const TURN: usize = 32;

impl State {
    /// Calls another progress thread if there is more to do than the threads that are at it, or have been called, can do at a time.
    fn call_driver(&mut self) {
        if self.work.drivers.large == 0 || !self.work.wants_driver() || self.work.drivers.called > 0 {
            return;
        }
        if self.work.drivers.resting > 0 {
            self.work.drivers.called += 1;
            ENGINE.work.notify_one();
        } else if self.work.drivers.threads < *CORES && start_thread().is_ok() {
            self.work.drivers.threads += 1;
        }
    }
}

/// Starts the first progress thread, before there can be work for it: a library that never moves anything would look like a hang of
/// the program that uses it.
pub(crate) fn ensure_started() -> Outcome<()> {
    let mut state = lock();
    if state.work.drivers.threads > 0 {
        return Ok(());
    }
    crate::device::set_helper(help, hand_over);
    start_thread().map_err(|error| {
        gpuless_device::refusals::note("a thread of the software library", 0, &error);
        Failure::system(format!("a thread cannot be started: {error}"))
    })?;
    state.work.drivers.threads = 1;
    Ok(())
}

fn start_thread() -> std::io::Result<()> {
    std::thread::Builder::new().name("soft-nccl".to_owned()).spawn(run).map(drop)
}

fn run() {
    let mut state = lock();
    loop {
        let worked;
        (state, worked) = work_off(state, usize::MAX, false);
        if worked {
            if let Some(hook) = state.hook() {
                drop(state);
                hook();
                state = lock();
            }
            // Another task may have become ready in the meantime.
            continue;
        }
        state.work.drivers.resting += 1;
        state = state.wait(&ENGINE.work);
        state.work.drivers.resting -= 1;
        state.work.drivers.called = state.work.drivers.called.saturating_sub(1);
    }
}

/// Runs ready tasks on a host thread that waits for the device, until operations end or about this many bytes are moved. False
/// if there are no ready tasks, or other threads run them.
fn help(bytes: usize) -> bool {
    let state = lock();
    // With a limit the host's own wait is over, and other hosts wait until it returns. The thread that runs tasks runs the rest.
    if bytes != usize::MAX && state.work.is_driven() {
        return false;
    }
    work_off(state, bytes, true).1
}

/// Ready tasks that no thread runs are left to a progress thread.
fn hand_over() {
    let state = lock();
    let left = state.work.is_left();
    drop(state);
    if left {
        ENGINE.work.notify_one();
    }
}

/// Runs ready tasks until there are none or, for a helper, until operations end or this many bytes are moved. False if there are
/// none, or enough threads run them: the last thread to leave finds no ready task, or its caller is responsible for the rest.
fn work_off(mut state: Locked, bytes: usize, helps: bool) -> (Locked, bool) {
    if !state.work.wants_driver() {
        return (state, false);
    }
    state.work.drivers.driving += 1;
    let (moved, ends) = (state.work.moved, state.work.ends);
    while let Some(id) = state.work.ready.pop() {
        // A task may be woken twice, be gone after an abort, or run on another thread, which checks what it waits for itself.
        let Some(task) = state.work.tasks.remove(&id) else { continue };
        if !state.work.batches.contains_key(&task.batch) {
            // Its operation was dropped during its last turn.
            task.close_all(&mut state.channels);
            continue;
        }
        let comm = task.comm;
        state.work.running.push(comm);
        state.call_driver();
        let dones;
        (state, dones) = turn(state, id, task);
        if let Some(at) = state.work.running.iter().position(|running| *running == comm) {
            state.work.running.swap_remove(at);
        }
        state.write_out();
        if state.work.aborting > 0 {
            ENGINE.step_over.notify_all();
        }
        if !dones.is_empty() {
            state.work.ends = state.work.ends.wrapping_add(1);
            drop(state);
            for done in dones {
                done.finish();
            }
            state = lock();
        }
        // The end that the host waits for may have been reached on another thread.
        if helps && (state.work.ends != ends || state.work.moved.wrapping_sub(moved) >= bytes) {
            break;
        }
    }
    state.work.drivers.driving -= 1;
    changed();
    (state, true)
}

/// Runs a task for its turn.
fn turn(mut state: Locked, id: TaskId, mut task: Box<Task>) -> (Locked, Vec<Done>) {
    task.parked = Parked::No;
    if task.cursor == 0
        && task.spec.kind.is_one_sided()
        && let Some(parked) = state.holds_back(&task, id)
    {
        return park(state, id, task, parked);
    }
    for _ in 0..TURN {
        if let Some(link) = task.closing {
            if task.is_untaken(&mut state.channels, link, id) {
                return park(state, id, task, Parked::Taken(link.peer));
            }
            task.close_link(&mut state.channels, link, true);
            task.closing = None;
        }
        let Some(step) = task.step.or_else(|| task.script.step(task.cursor)) else {
            return end(state, id, task);
        };
        task.step = Some(step);
        let recv = step.recv.map(|link| (link, state.channel_of(&mut task, link, false)));
        let send = step.send.map(|link| (link, state.channel_of(&mut task, link, true)));
        if let Some((link, channel)) = recv
            && let Some(channel) = state.channels.get(channel)
            && !channel.has_message()
        {
            channel.wait_for_message(id);
            return park(state, id, task, Parked::Message(link.peer));
        }
        if let Some((link, channel)) = send
            && let Some(channel) = state.channels.get(channel)
            && !channel.has_slot()
        {
            channel.wait_for_slot(id);
            return park(state, id, task, Parked::Slot(link.peer));
        }
        if let Some(there) = task.elsewhere
            && state.links.awaits_room(there, id)
        {
            let peer = task.spec.peer;
            return park(state, id, task, Parked::Room(peer));
        }
        let message = recv.and_then(|(_, channel)| state.pop(channel));
        let spare = match (&message, send) {
            (Some(_), _) => None,
            (None, Some((_, channel))) => state.channels.get(channel).map(|channel| channel.buffer()),
            (None, None) => Some(std::mem::take(&mut task.own)),
        };
        let depth = message.as_ref().map(|message| message.depth + 1);
        drop(state);
        let result = catch_unwind(AssertUnwindSafe(|| perform(&mut task, &step, message.map(|m| m.data), spare)));
        state = lock();
        let Ok(Some(data)) = result else {
            // A bug here: the operation never ends, and its communicator says why.
            if let Some(member) = state.comms.members.get_mut(&task.comm) {
                member.error = Some(ncclResult_t::InternalError);
            }
            return park(state, id, task, Parked::Broken);
        };
        task.step = None;
        task.cursor += 1;
        task.count(&step, depth);
        state.work.moved = state.work.moved.wrapping_add(step.count.wrapping_mul(task.spec.ty.size()));
        state.trace(&task, &step, data.len());
        match (recv, send) {
            (_, Some((_, channel))) => state.push(channel, Message { data, depth: task.depth }),
            (Some((_, channel)), None) => {
                if let Some(channel) = state.channels.get(channel) {
                    channel.recycle(data);
                }
            }
            (None, None) => match task.elsewhere {
                Some(there) => state.send_put(there, &task, &step, data),
                None => task.own = data,
            },
        }
        if step.close {
            task.closing = step.send;
            if let Some(link) = step.recv {
                task.close_link(&mut state.channels, link, false);
            }
        }
    }
    state.work.tasks.insert(id, task);
    state.work.ready.push(id);
    (state, Vec::new())
}

fn park(mut state: Locked, id: TaskId, mut task: Box<Task>, parked: Parked) -> (Locked, Vec<Done>) {
    task.parked = parked;
    state.work.tasks.insert(id, task);
    (state, Vec::new())
}

/// The script is over; the task is when its peers have taken everything, unless it may leave it to them.
fn end(mut state: Locked, id: TaskId, mut task: Box<Task>) -> (Locked, Vec<Done>) {
    if !task.eager {
        let untaken = task
            .open
            .iter()
            .filter(|open| open.sends)
            .map(|open| open.link)
            .find(|l| task.is_untaken(&mut state.channels, *l, id));
        if let Some(link) = untaken {
            return park(state, id, task, Parked::Taken(link.peer));
        }
    }
    if task.spec.kind.is_one_sided() {
        state.one_sided_over(&mut task);
    }
    state.count(&mut task);
    task.close_all(&mut state.channels);
    let dones = state.lane_over(task.batch);
    (state, dones)
}
