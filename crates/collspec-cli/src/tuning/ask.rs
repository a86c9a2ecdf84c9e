//! Starts a process for each node, and reads what the library of rank 0 has written.
use super::call::{Meeting, Task, call};
use super::search::communicator;
use super::{Tuning, VERSION};
use crate::footprint::{Choice, choices};
use collspec_run::child::Workers;
use collspec_run::child::question::{NoAnswer, Question};
use rustix::fs::MemfdFlags;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const QUESTION: Question = Question { variable: "COLLSPEC_TUNING", mark: "collspec-tuning:" };
/// The subsystems of NCCL's log that tell what it decides.
const SUBSYSTEMS: &str = "INIT,GRAPH,NET,TUNING";
/// Limit on the bytes of a log. That of 8 of 64 ranks has about 2 MiB.
const MOST_BYTES: u64 = 256 << 20;

/// The decisions to ask for.
#[derive(Clone, Debug)]
pub struct Request {
    /// The library and its machine, in words.
    pub library: String,
    /// What each node's process does, by node.
    pub nodes: Vec<Node>,
    /// The time limit of all processes.
    pub limit: Duration,
    /// The program that is started.
    pub workers: Workers,
}

/// The process of a node.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it does.
    pub task: Task,
    /// Variables of its environment.
    pub variables: Vec<(String, String)>,
}

/// Why the library could not be asked, or did not answer.
#[derive(Debug, thiserror::Error)]
pub enum TuningError {
    /// The system refused a pipe, a thread, or memory for the log.
    #[error("the library cannot be asked")]
    Machine(#[from] io::Error),
    /// The process of a node ended.
    #[error("node {node}: {source}")]
    Node {
        /// The node.
        node: usize,
        /// What happened.
        #[source]
        source: NoAnswer,
    },
    /// A call failed.
    #[error("node {node}: {why}")]
    Call {
        /// The node.
        node: usize,
        /// The failure.
        why: String,
    },
    /// The log does not say which operation a choice is for.
    #[error("this library does not name operations in its log, so name one to ask for: {library}")]
    Nameless {
        /// The library.
        library: String,
    },
    /// The log has no choices.
    #[error("there are no choices in the log of this library; NCCL writes them since 2.22: {library}")]
    Silent {
        /// The library.
        library: String,
    },
}

/// Asks a library in new processes.
///
/// # Errors
///
/// A process cannot be started, does not end or dies, a call fails, or the library does not tell.
pub fn ask(request: &Request) -> Result<Tuning, TuningError> {
    let mut log = File::from(rustix::fs::memfd_create("NCCL's log", MemfdFlags::CLOEXEC).map_err(io::Error::from)?);
    let (id, id_writer) = io::pipe()?;
    let (until, first_is_done) = io::pipe()?;
    // Nothing is inherited: a writing end that another child held would keep the pipe from ending.
    let path = |descriptor: &dyn AsRawFd| format!("/proc/{}/fd/{}", std::process::id(), descriptor.as_raw_fd());
    let others = request.nodes.len().saturating_sub(1);
    let invites = Meeting::Invites { at: path(&id_writer), others };
    let joins = Meeting::Joins { at: path(&id), until: path(&until) };
    let log_path = path(&log);
    // The other nodes would wait for the one that has failed until the time limit.
    let has_failed = AtomicBool::new(false);
    let ask_node = |number: usize, node: &Node| {
        let meeting = if number == 0 { &invites } else { &joins };
        let subject = serde_json::to_string(&(&node.task, meeting)).map_err(io::Error::from)?;
        let prepare = |command: &mut Command| {
            command.envs(node.variables.iter().map(|(name, value)| (name, value)));
            // A call that returns before it has decided anything would be followed by the next one.
            command.env_remove("NCCL_COMM_BLOCKING");
            if number == 0 {
                command
                    .env("NCCL_DEBUG", "INFO")
                    .env("NCCL_DEBUG_SUBSYS", SUBSYSTEMS)
                    .env("NCCL_DEBUG_FILE", &log_path);
            }
        };
        let stop = || has_failed.load(Ordering::Relaxed);
        let answer = QUESTION.ask_unless(&request.workers, OsStr::new(&subject), request.limit, prepare, &stop);
        let answer = match answer {
            Ok(None) => return Ok(Vec::new()),
            Ok(Some((answer, _))) => Result::map_err(answer, |why| TuningError::Call { node: number, why }),
            Err(source) => Err(TuningError::Node { node: number, source }),
        };
        answer.inspect_err(|_| has_failed.store(true, Ordering::Relaxed))
    };
    let answers: Vec<Result<Vec<Choice>, TuningError>> = std::thread::scope(|scope| {
        let ask_node = &ask_node;
        let nodes = request.nodes.iter().enumerate();
        let others: Vec<_> = nodes.skip(1).map(|(number, node)| scope.spawn(move || ask_node(number, node))).collect();
        let first = request.nodes.first().map(|node| ask_node(0, node));
        drop((id_writer, first_is_done));
        let ended = || Err(TuningError::Machine(io::Error::other("a thread has ended early")));
        first.into_iter().chain(others.into_iter().map(|other| other.join().unwrap_or_else(|_| ended()))).collect()
    });
    // A failure explains more than the limit that others ran into.
    let waited = |error: &TuningError| matches!(error, TuningError::Node { source: NoAnswer::TooSlow(_), .. });
    let mut refused = Vec::new();
    let mut errors = Vec::new();
    for answer in answers {
        match answer {
            // That of node 0 comes first, and the log is that of its rank 0.
            Ok(refusals) if refused.is_empty() => refused = refusals,
            Ok(_) => {}
            Err(error) => errors.push(error),
        }
    }
    if let Some(error) = errors.into_iter().min_by_key(waited) {
        return Err(error);
    }
    let mut bytes = Vec::new();
    io::Seek::rewind(&mut log)?;
    log.take(MOST_BYTES).read_to_end(&mut bytes)?;
    let log = String::from_utf8_lossy(&bytes);
    let mut choices = choices(&log);
    if choices.iter().any(|choice| choice.operation.is_none()) {
        let [operation] = request.nodes.first().map_or(&[][..], |node| &node.task.operations) else {
            return Err(TuningError::Nameless { library: request.library.clone() });
        };
        choices.iter_mut().for_each(|choice| choice.operation = Some(operation.clone()));
    }
    choices.extend(refused);
    if choices.is_empty() {
        return Err(TuningError::Silent { library: request.library.clone() });
    }
    Ok(Tuning {
        collspec_tuning: VERSION,
        library: request.library.clone(),
        ranks: request.nodes.iter().map(|node| node.task.ranks.len()).sum(),
        dtype: request.nodes.first().map(|node| node.task.dtype.clone()).unwrap_or_default(),
        communicator: communicator(&log),
        choices,
    })
}

/// If this process was started as a node, it calls the operations, and this never returns.
pub fn enter_if_asked() {
    QUESTION.carry_out_if_asked(|asked: Result<(Task, Meeting), String>| {
        asked.and_then(|(task, meeting)| call(&task, &meeting))
    });
}
