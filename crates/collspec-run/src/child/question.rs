//! Queries of libraries and drivers in a child process, because their code may crash, hang or print.
//!
//! The child is this program, started again with a variable that holds the parent's process id and the subject. It answers
//! with one line on its standard output and ends at once, without running the exit handlers of the foreign code.
use super::command::{self, CommandError};
use super::program::Program;
use super::{Workers, can_be_worker, is_worker};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Exit status of a process that inherited the variable but is not the child that it was set for.
const NOT_MEANT: i32 = 102;

/// A kind of query.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// The variable whose presence makes a child answer.
    pub variable: &'static str,
    /// The prefix of the line that holds the answer. A library or driver may print other lines.
    pub mark: &'static str,
}

/// The reason there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// The program that was started does not answer questions.
    #[error("{} does not answer: its main must call collspec::enter_if_asked() first", .0.display())]
    NotAsked(PathBuf),
    /// The process ended: its exit status, and its last line on the standard error.
    #[error("the process that was asked died: {0}")]
    Died(String),
    /// It took longer than this.
    #[error("no answer in {} s", .0.as_secs())]
    TooSlow(Duration),
    /// The process could not be started.
    #[error(transparent)]
    Start(#[from] io::Error),
}

impl Question {
    /// Asks about `subject` in a child, whose command `prepare` may change.
    ///
    /// # Errors
    ///
    /// The process could not be started, did not answer in time, or died.
    pub fn ask<T: DeserializeOwned>(
        self,
        workers: &Workers,
        subject: &OsStr,
        limit: Duration,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<T, NoAnswer> {
        self.ask_and_listen(workers, subject, limit, prepare).map(|(reply, _)| reply)
    }

    /// Like [`Self::ask`]; the second part of the result is the child's standard error.
    pub fn ask_and_listen<T: DeserializeOwned>(
        self,
        workers: &Workers,
        subject: &OsStr,
        limit: Duration,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<(T, String), NoAnswer> {
        self.ask_unless(workers, subject, limit, prepare, &|| false)?.ok_or(NoAnswer::TooSlow(limit))
    }

    /// Like [`Self::ask_and_listen`], but gives up as soon as `stop` returns true: the child is killed, and the result is `None`.
    pub fn ask_unless<T: DeserializeOwned>(
        self,
        workers: &Workers,
        subject: &OsStr,
        limit: Duration,
        prepare: impl FnOnce(&mut Command),
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<(T, String)>, NoAnswer> {
        let program = Program::of(workers)?;
        let not_asked = || NoAnswer::NotAsked(program.path().to_owned());
        // A program that never calls `enter_if_asked` would do its own work again, and so would its children.
        let enters = matches!(workers, Workers::Command(_)) || can_be_worker();
        if !enters || std::env::var_os(self.variable).is_some() || is_worker() {
            return Err(not_asked());
        }
        let mut value = OsString::from(format!("{}:", std::process::id()));
        value.push(subject);
        let mut command = program.command();
        command.env(self.variable, value);
        prepare(&mut command);
        let answer = command::run_unless(command, limit, stop).map_err(|error| match error {
            CommandError::TooSlow(limit) => NoAnswer::TooSlow(limit),
            CommandError::Start(error) => NoAnswer::Start(error),
        })?;
        let Some(answer) = answer else { return Ok(None) };
        let mut lines = answer.out.lines().filter_map(|line| line.strip_prefix(self.mark));
        if let Some(reply) = lines.find_map(|line| serde_json::from_str(line).ok()) {
            return Ok(Some((reply, answer.err)));
        }
        let how = match (answer.status.signal(), answer.status.code()) {
            _ if !answer.out.contains(self.mark) => return Err(not_asked()),
            (Some(signal), _) => format!("signal {signal}"),
            (None, code) => format!("exit status {}", code.unwrap_or(-1)),
        };
        let last = answer.err.lines().rev().find(|line| !line.trim().is_empty());
        Err(NoAnswer::Died(last.map_or(how.clone(), |line| format!("{how}: {}", line.trim()))))
    }

    /// Like [`Self::answer_if_asked`], for a subject that is a task as JSON; `carry_out` gets the reason if it cannot be read.
    pub fn carry_out_if_asked<Task: DeserializeOwned, T: Serialize>(
        self,
        carry_out: impl FnOnce(Result<Task, String>) -> T,
    ) {
        self.answer_if_asked(|subject| {
            let text = subject.to_str().ok_or_else(|| "the task is not UTF-8".to_owned());
            carry_out(text.and_then(|text| serde_json::from_str(text).map_err(|error| error.to_string())))
        });
    }

    /// If this process was started to answer, writes the result of `answer` for the subject and never returns.
    pub fn answer_if_asked<T: Serialize>(self, answer: impl FnOnce(OsString) -> T) {
        let Some(value) = std::env::var_os(self.variable) else { return };
        // Foreign code may never return, and the parent may be killed before it gives up waiting.
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
        let bytes = value.as_bytes();
        let at = bytes.iter().position(|byte| *byte == b':').unwrap_or(bytes.len());
        let (parent, subject) = (&bytes[..at], bytes.get(at + 1..).unwrap_or_default());
        let ours = rustix::process::getppid().map(|pid| pid.as_raw_pid().to_string());
        if ours.as_deref().map(str::as_bytes) != Some(parent) {
            eprintln!("collspec: {} was not meant for this process", self.variable);
            std::process::exit(NOT_MEANT);
        }
        // Written before the foreign code runs: if the process dies after this line, the foreign code is the cause.
        let Ok(mut out) = command::own_output() else { std::process::exit(NOT_MEANT) };
        command::write_line(&mut out, self.mark);
        let reply = answer(OsString::from_vec(subject.to_vec()));
        command::write_line(&mut out, &format!("\n{}{}", self.mark, serde_json::to_string(&reply).unwrap_or_default()));
        // SIGKILL: the exit handlers of the foreign code do not run.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        std::process::exit(0);
    }
}
