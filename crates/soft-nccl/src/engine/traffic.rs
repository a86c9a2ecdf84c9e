//! The traffic that communicators count.
use super::State;
use super::ready::TaskId;
use super::task::Task;
use crate::failure::Outcome;
use nccl_sys::collspecTraffic_t;

impl State {
    /// The traffic that a communicator counted under a tag, including unfinished operations.
    pub(crate) fn traffic(&mut self, comm: nccl_sys::ncclComm_t, tag: u32) -> Outcome<collspecTraffic_t> {
        self.comms.member(comm)?;
        let ids: Vec<TaskId> =
            self.work.tasks.iter().filter(|(_, t)| t.comm == comm as usize).map(|(id, _)| *id).collect();
        for id in ids {
            if let Some(mut task) = self.work.tasks.remove(&id) {
                self.count(&mut task);
                self.work.tasks.insert(id, task);
            }
        }
        Ok(self.comms.member(comm)?.traffic.get(&tag).copied().unwrap_or_default())
    }

    /// Adds the traffic that a task counted to its communicator's.
    pub(super) fn count(&mut self, task: &mut Task) {
        let (sent, received) = (std::mem::take(&mut task.sent), std::mem::take(&mut task.received));
        let mut rounds = 0;
        if let Some(batch) = self.work.batches.get_mut(&task.batch) {
            let deepest = batch.rounds.entry(task.tag).or_default();
            rounds = task.deepest.saturating_sub(*deepest);
            *deepest += rounds;
        }
        if let Some(member) = self.comms.members.get_mut(&task.comm) {
            let traffic = member.traffic.entry(task.tag).or_default();
            traffic.sent += sent;
            traffic.received += received;
            traffic.rounds += rounds;
        }
    }
}
