//! COLLSPEC_SOFT_TRACE: a file to which every message between ranks is appended, as a line of JSON.
use super::State;
use super::task::Task;
use crate::algo::Step;
use crate::settings::settings;
use std::fs::{File, OpenOptions};
use std::io::Write;

/// Limit on the messages that a process writes to the file of COLLSPEC_SOFT_TRACE.
pub const MOST_TRACED_MESSAGES: u64 = 1 << 20;

/// The file, and what was written to it.
pub(super) struct Trace {
    file: File,
    lines: u64,
}

impl Trace {
    /// Opens the file that the settings name, if they do.
    pub(super) fn open() -> Option<Self> {
        let path = settings().trace.as_ref()?;
        match OpenOptions::new().create(true).append(true).open(path) {
            Ok(file) => Some(Self { file, lines: 0 }),
            Err(error) => {
                eprintln!("soft-nccl: COLLSPEC_SOFT_TRACE={}: {error}", path.escape_debug());
                None
            }
        }
    }
}

impl State {
    /// Writes down the message that a step has sent. A communicator is called by its label, or by this library's number.
    pub(super) fn trace(&mut self, task: &Task, step: &Step, bytes: usize) {
        let (Some(trace), Some(link)) = (&mut self.trace, step.send) else { return };
        if link.peer == task.rank() || trace.lines >= MOST_TRACED_MESSAGES {
            return;
        }
        let shared = task.shared();
        let label = self.comms.shared.get(&shared).and_then(|there| there.label);
        let comm = label.map_or(shared, u64::from);
        let (tag, kind, algorithm) = (task.tag, task.spec.kind, task.spec.algorithm);
        let (sequence, from, to, round) = (task.sequence(), task.rank(), link.peer, task.depth + 1);
        let line = format!(
            "{{\"comm\":{comm},\"tag\":{tag},\"sequence\":{sequence},\"operation\":\"{kind:?}\",\"algorithm\":\"{algorithm:?}\",\
             \"round\":{round},\"from\":{from},\"to\":{to},\"bytes\":{bytes}}}\n"
        );
        trace.lines += 1;
        if trace.file.write_all(line.as_bytes()).is_err() {
            self.trace = None;
        }
    }
}
