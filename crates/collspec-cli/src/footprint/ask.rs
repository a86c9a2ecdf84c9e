//! Starts a child that measures a library, and receives its findings.
use super::measure::{Measurement, Task, measure};
use collspec_run::child::Workers;
use collspec_run::child::question::{NoAnswer, Question};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::time::Duration;

const QUESTION: Question = Question { variable: "COLLSPEC_FOOTPRINT", mark: "collspec-footprint:" };
/// The path for the library's log: the pipe of the standard error. The standard output's buffer is lost with the process.
const LOG: &str = "/proc/self/fd/2";

/// The parameters of a measurement.
#[derive(Clone, Debug)]
pub struct Request {
    /// The library, unless it is the software library.
    pub library: Option<std::path::PathBuf>,
    /// Number of ranks.
    pub ranks: usize,
    /// Bytes of the largest operation.
    pub largest: u64,
    /// Time limit of a process.
    pub limit: Duration,
    /// Variables of its environment.
    pub variables: Vec<(String, String)>,
    /// The program that is started.
    pub workers: Workers,
}

#[derive(Serialize, Deserialize)]
enum Reply {
    Measured(Box<Measurement>),
    Failed(String),
}

/// Measures in a new process, in which `cycles` communicators are created and destroyed in turn after the first one, and as
/// many batches of calls are made on a further one.
///
/// # Errors
///
/// The reason it could not be measured: a call failed, the process died, or it took too long.
pub fn ask(request: &Request, cycles: usize) -> Result<Measurement, String> {
    let task = Task {
        library: request.library.clone(),
        ranks: request.ranks,
        largest: request.largest,
        cycles,
        batches_of_calls: cycles,
        seconds: request.limit.as_secs_f64() / 3.0,
    };
    let subject = serde_json::to_string(&task).map_err(|error| error.to_string())?;
    let answer = QUESTION.ask_and_listen(&request.workers, OsStr::new(&subject), request.limit, |command| {
        command.envs(request.variables.iter().map(|(name, value)| (name, value)));
        command.env("NCCL_DEBUG", "INFO").env("NCCL_DEBUG_SUBSYS", "INIT,TUNING").env("NCCL_DEBUG_FILE", LOG);
    });
    match answer {
        Ok((Reply::Measured(measurement), log)) => Ok(measurement.with_log(&log, request.ranks)),
        Ok((Reply::Failed(why), _)) => Err(why),
        Err(NoAnswer::Died(how)) => Err(format!("the process ended ({how})")),
        Err(NoAnswer::TooSlow(limit)) => Err(format!("not finished within {} s", limit.as_secs())),
        Err(error) => Err(error.to_string()),
    }
}

/// If this process was started to measure a library, it does, and this never returns.
pub fn enter_if_asked() {
    QUESTION.carry_out_if_asked(|task: Result<Task, String>| match task.and_then(|task| measure(&task)) {
        Ok(measurement) => Reply::Measured(Box::new(measurement)),
        Err(why) => Reply::Failed(why),
    });
}
