//! NCCL's query functions and their answers.
use super::progress::communicators;
use super::{Halt, Rank};
use crate::backend::{CommHandle, CommSlot};
use crate::job::{Asked, MemoryAsked};
use nccl_sys::ncclCommMemStat_t;

impl Rank<'_> {
    /// Calls the query functions of new communicators, unless an open group has yet to make them.
    pub(super) fn ask_made(&mut self) -> Result<(), Halt> {
        if self.depth == 0 {
            let kept = self.colourless.drain(..).filter(|slot| slot.get() != CommHandle::NULL).count() as u32;
            if kept > 0 {
                self.run.record_answers(self.rank, |answers| answers.handles_without_colour += kept);
            }
        }
        if self.depth == 0 && !self.made.is_empty() {
            self.bind()?;
            for comm in std::mem::take(&mut self.made) {
                self.ask(comm);
            }
        }
        Ok(())
    }

    pub(super) fn ask(&self, index: u32) {
        let Some(comm) =
            self.state.comms.get(index as usize).map(CommSlot::get).filter(|comm| *comm != CommHandle::NULL)
        else {
            return;
        };
        let library = &self.run.backend.library;
        library.label(comm, index);
        let asked = Asked {
            comm: index,
            count: library.count(comm),
            rank: library.user_rank(comm),
            device: library.device(comm),
            current: self.run.backend.device.current(),
            error: library.error_code(comm),
        };
        self.run.record_answers(self.rank, |answers| answers.comms.push(asked));
        self.ask_memory(index);
    }

    /// Queries the memory statistics of a communicator, if the library has them.
    pub(super) fn ask_memory(&self, index: u32) {
        let Some(comm) = self.state.comms.get(index as usize).map(CommSlot::get) else { return };
        let statistic = |stat| self.run.backend.library.memory_statistic(comm, stat);
        let (Some(suspendable), Some(released), Some(persistent), Some(total)) = (
            statistic(ncclCommMemStat_t::GpuMemSuspend),
            statistic(ncclCommMemStat_t::GpuMemSuspended),
            statistic(ncclCommMemStat_t::GpuMemPersist),
            statistic(ncclCommMemStat_t::GpuMemTotal),
        ) else {
            return;
        };
        let suspended = self.suspended.contains(&index);
        let asked = MemoryAsked { comm: index, suspended, suspendable, released, persistent, total };
        self.run.record_answers(self.rank, |answers| answers.memory.push(asked));
    }

    /// At the end of the program: calls the query functions of every communicator without a call in progress, and on one rank of
    /// the process those of the library.
    pub(super) fn ask_all(&self) {
        let program = self.job().programs.get(self.rank).map_or(&[][..], Vec::as_slice);
        let left = program.iter().filter(|call| call.left_in_progress);
        let busy: Vec<u32> = left.flat_map(|call| communicators(&call.kind)).flatten().collect();
        (0..self.state.comms.len() as u32).filter(|comm| !busy.contains(comm)).for_each(|comm| self.ask(comm));
        if self.rank == self.job().ranks.start as usize {
            let library = &self.run.backend.library;
            let (texts, version) = (library.error_texts(), library.reported_version());
            self.run.record_answers(self.rank, |answers| (answers.texts, answers.version) = (texts, version));
        }
    }
}
