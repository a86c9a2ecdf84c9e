//! Runs a program to its end, with limits on its time and output.
use crate::child::guard::ChildGuard;
use crate::child::patience::Patience;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Number of bytes kept of the beginning of each stream, and of its end; the part in between is read and dropped.
const KEPT: usize = 1 << 20;

/// The output and exit status of a program.
#[derive(Debug)]
pub struct Answer {
    /// Exit status of the program.
    pub status: ExitStatus,
    /// The program's standard output.
    pub out: String,
    /// The program's standard error.
    pub err: String,
}

/// The reason there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It could not be started, or its output could not be read.
    #[error(transparent)]
    Start(#[from] io::Error),
    /// It did not end within this time and was killed, with the processes that it started.
    #[error("no answer in {} s", .0.as_secs())]
    TooSlow(Duration),
}

/// Runs the program without input and returns its output; processes that it leaves running are killed.
///
/// # Errors
///
/// The program cannot be started, or does not end within `limit`.
pub fn run(command: Command, limit: Duration) -> Result<Answer, CommandError> {
    run_unless(command, limit, &|| false)?.ok_or(CommandError::TooSlow(limit))
}

/// Like [`run`]; `None` if `stop` returned true because the answer is no longer wanted, and the program was killed.
pub fn run_unless(
    mut command: Command,
    limit: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Answer>, CommandError> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut patience = Patience::new(limit);
    let mut child = command.spawn()?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let mut guard = ChildGuard::of(child);
    let (sender, outputs) = channel();
    let listen = |is_out: bool, from: Option<Box<dyn Read + Send>>| {
        let sender = sender.clone();
        let body = move || {
            let text = from.map(read).unwrap_or_default();
            // the receiver may be gone
            let _ = sender.send((is_out, text));
        };
        thread::Builder::new().name("command output".into()).spawn(body).map(|_| ())
    };
    listen(true, out.map(|from| Box::new(guard.reader(from)) as Box<dyn Read + Send>))?;
    listen(false, err.map(|from| Box::new(guard.reader(from)) as Box<dyn Read + Send>))?;
    let (mut out, mut err) = (String::new(), String::new());
    for _ in 0..2 {
        let output = patience.wait(|slice| match outputs.recv_timeout(slice) {
            Err(RecvTimeoutError::Timeout) if stop() => Some(None),
            Err(RecvTimeoutError::Timeout) => None,
            other => Some(Some(other)),
        });
        match output {
            Some(Some(Ok((true, text)))) => out = text,
            Some(Some(Ok((false, text)))) => err = text,
            Some(Some(Err(_))) => break,
            Some(None) => return Ok(None),
            None => return Err(CommandError::TooSlow(limit)),
        }
    }
    // Both streams have ended, so the program has as good as ended too.
    if !guard.ends_within(patience.left()) {
        return Err(CommandError::TooSlow(limit));
    }
    Ok(Some(Answer { status: guard.end()?, out, err }))
}

fn read(mut from: Box<dyn Read + Send>) -> String {
    let (mut begin, mut end) = (Vec::new(), VecDeque::<u8>::new());
    let mut buffer = [0; 8192];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(len) => {
                let (first, rest) = buffer[..len].split_at(len.min(KEPT - begin.len()));
                begin.extend_from_slice(first);
                end.extend(rest);
                end.drain(..end.len().saturating_sub(KEPT));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    begin.extend(end);
    String::from_utf8_lossy(&begin).into_owned()
}

/// A copy of the standard output: answers reach the parent even if a library closes or redirects the original.
///
/// # Errors
///
/// The descriptor cannot be copied.
pub fn own_output() -> io::Result<File> {
    Ok(File::from(rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?))
}

/// Writes a line at once. An error is ignored, because the reader may be gone.
pub fn write_line(out: &mut File, line: &str) {
    let _ = out.write_all(format!("{line}\n").as_bytes());
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
    fn both_streams_and_the_status_are_returned() {
        let answer = run(shell("echo a; echo b >&2; exit 3"), Duration::from_secs(20)).unwrap();
        assert_eq!((answer.out.as_str(), answer.err.as_str(), answer.status.code()), ("a\n", "b\n", Some(3)));
    }

    #[test]
    fn a_program_that_does_not_end_is_ended_with_what_it_started() {
        let begun = std::time::Instant::now();
        let error = run(shell("sleep 600 & sleep 600"), Duration::from_millis(100)).unwrap_err();
        assert!(matches!(error, CommandError::TooSlow(_)) && begun.elapsed() < Duration::from_secs(300));
    }

    #[test]
    fn processes_that_hold_its_streams_after_its_end_are_not_waited_for() {
        let answer = run(shell("echo a; sleep 600 & exit 4"), Duration::from_secs(300)).unwrap();
        assert_eq!((answer.out.as_str(), answer.status.code()), ("a\n", Some(4)));
    }

    #[test]
    fn more_than_is_kept_does_not_block() {
        let script = "echo first; head -c 3000000 /dev/zero; echo; echo last";
        let answer = run(shell(script), Duration::from_secs(20)).unwrap();
        assert_eq!(answer.out.len(), 2 * KEPT);
        assert!(answer.out.starts_with("first\n") && answer.out.ends_with("\nlast\n"));
    }

    #[test]
    fn a_missing_program_is_an_error() {
        let error = run(Command::new("/no/such/program"), Duration::from_secs(1)).unwrap_err();
        assert!(matches!(error, CommandError::Start(_)));
    }
}
