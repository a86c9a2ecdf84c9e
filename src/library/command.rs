//! Running a program to its end, with a limit of time and of what it may say.
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes kept of each stream; more is read and dropped.
const KEPT: usize = 1 << 20;

/// What a program said, and how it ended.
#[derive(Debug)]
pub struct Answer {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It could not be started, or not be listened to.
    #[error(transparent)]
    Start(#[from] io::Error),
    /// It was ended, with what it started.
    #[error("no answer in {} s", .0.as_secs())]
    TooSlow(Duration),
}

/// Runs it without input. What it says is kept for the caller.
pub fn run(mut command: Command, limit: Duration) -> Result<Answer, CommandError> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let end = Instant::now() + limit;
    let mut child = Guard(command.spawn()?);
    let (tell, told) = channel();
    let listen = |name: &str, from: Option<Box<dyn Read + Send>>| {
        let tell = tell.clone();
        let name = name.to_owned();
        let body = move || {
            let text = from.map(read).unwrap_or_default();
            // nobody may listen any more
            let _ = tell.send((name, text));
        };
        thread::Builder::new().name("command output".into()).spawn(body).map(|_| ())
    };
    listen("out", child.0.stdout.take().map(|from| Box::new(from) as Box<dyn Read + Send>))?;
    listen("err", child.0.stderr.take().map(|from| Box::new(from) as Box<dyn Read + Send>))?;
    let (mut out, mut err) = (String::new(), String::new());
    for _ in 0..2 {
        match told.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok((name, text)) if name == "out" => out = text,
            Ok((_, text)) => err = text,
            Err(RecvTimeoutError::Timeout) => return Err(CommandError::TooSlow(limit)),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    // Both streams have ended, so the program has as good as ended too.
    loop {
        if let Some(status) = child.0.try_wait()? {
            return Ok(Answer { status, out, err });
        }
        if Instant::now() >= end {
            return Err(CommandError::TooSlow(limit));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn read(mut from: Box<dyn Read + Send>) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 8192];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(len) => bytes.extend_from_slice(&buffer[..len.min(KEPT - bytes.len())]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Ends the program and what it started, if it is still there.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            if let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = self.0.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_streams_and_the_status_are_told() {
        let answer = run(shell("echo a; echo b >&2; exit 3"), Duration::from_secs(20)).unwrap();
        assert_eq!((answer.out.as_str(), answer.err.as_str(), answer.status.code()), ("a\n", "b\n", Some(3)));
    }

    #[test]
    fn a_program_that_does_not_end_is_ended_with_what_it_started() {
        let begun = Instant::now();
        let error = run(shell("sleep 60 & sleep 60"), Duration::from_millis(100)).unwrap_err();
        assert!(matches!(error, CommandError::TooSlow(_)) && begun.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn more_than_is_kept_does_not_block() {
        let answer = run(shell("head -c 3000000 /dev/zero"), Duration::from_secs(20)).unwrap();
        assert_eq!(answer.out.len(), KEPT);
    }

    #[test]
    fn a_missing_program_is_an_error() {
        let error = run(Command::new("/no/such/program"), Duration::from_secs(1)).unwrap_err();
        assert!(matches!(error, CommandError::Start(_)));
    }
}
