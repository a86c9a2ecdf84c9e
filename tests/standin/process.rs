//! Processes that find the stand-ins: started, watched line by line, and ended.
use collspec::internals::backend::standin;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Longer than anything takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Starts the lines that a child prints, among the test harness's own.
pub const MARK: &str = "> ";

/// A child that runs.
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    pub seen: Vec<String>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // it may have ended by itself
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts `child` in a role, with the stand-in driver in front of the loader's path.
pub fn start(role: &str, library: Option<&Path>, settings: &[(&str, &str)]) -> Running {
    let folder = standin::folder().unwrap();
    start_in(&folder, role, library, settings)
}

/// The same with another folder in front of the loader's path.
pub fn start_in(folder: &Path, role: &str, library: Option<&Path>, settings: &[(&str, &str)]) -> Running {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["child", "--exact", "--ignored", "--nocapture"]);
    command.env("STANDIN_CHILD", role).env("LD_LIBRARY_PATH", folder);
    command.env_remove("COLLSPEC_STANDIN_FAULT").env_remove("NCCL_ALGO");
    let standard = standin::library().unwrap();
    command.env("STANDIN_LIBRARY", library.unwrap_or(&standard)).envs(settings.iter().copied());
    let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (send, lines) = channel();
    std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            // libtest's "test child ... " may stand before the first
            if let Some((_, line)) = line.split_once(MARK) {
                let _ = send.send(line.to_owned());
            }
        }
    });
    Running { child, lines, seen: Vec::new() }
}

impl Running {
    /// Waits for its next line.
    pub fn line(&mut self) -> String {
        self.lines.recv_timeout(LIMIT).unwrap()
    }

    /// Waits for its end; all its lines are in `seen` then.
    pub fn end(&mut self) -> ExitStatus {
        let deadline = Instant::now() + LIMIT;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => self.seen.push(line),
                Err(RecvTimeoutError::Disconnected) => return self.child.wait().unwrap(),
                Err(RecvTimeoutError::Timeout) => panic!("it does not end; it said {:?}", self.seen),
            }
        }
    }

    /// Waits for these lines (in any order), then sees that no other comes and that it does not end.
    pub fn hangs_after(&mut self, wanted: &[&str]) {
        let deadline = Instant::now() + LIMIT;
        let all = |seen: &[String]| wanted.iter().all(|line| seen.iter().any(|s| s == line));
        while !all(&self.seen) {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => self.seen.push(line),
                Err(why) => panic!("{why}: wanted {wanted:?}, it said {:?}", self.seen),
            }
        }
        match self.lines.recv_timeout(Duration::from_millis(500)) {
            Err(RecvTimeoutError::Timeout) => {}
            other => panic!("it goes on after {:?}: {other:?}", self.seen),
        }
        assert_eq!(self.seen.len(), wanted.len(), "{:?}", self.seen);
        assert!(self.child.try_wait().unwrap().is_none(), "it has ended");
    }

    /// Its lines in an order that does not depend on threads.
    pub fn sorted(&mut self) -> Vec<&str> {
        self.seen.sort();
        self.seen.iter().map(String::as_str).collect()
    }
}

/// Prints a line for the parent.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write;
        // one write per line, newline first: libtest leaves its own line open
        let line = format!("\n{}{}\n", $crate::process::MARK, format_args!($($words)*));
        let mut out = std::io::stdout().lock();
        out.write_all(line.as_bytes()).unwrap();
        out.flush().unwrap();
    }};
}
