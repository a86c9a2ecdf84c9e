//! Ranks in several processes: this test program, started again with a role.
use nccl_sys::ncclUniqueId;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;

const ROLE: &str = "COLLSPEC_TEST_ROLE";

/// The settings that a part was started with.
pub struct Orders(HashMap<String, String>);

impl Orders {
    /// The settings of this process, if it is a part.
    pub fn own() -> Option<Self> {
        let text = std::env::var(ROLE).ok()?;
        Some(Self(text.split(';').filter_map(|pair| pair.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect()))
    }

    pub fn text(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }

    pub fn number<T: FromStr>(&self, key: &str) -> T {
        self.text(key).parse().unwrap_or_else(|_| panic!("no {key}"))
    }

    pub fn ranks(&self) -> Vec<usize> {
        self.text("ranks").split(',').filter_map(|r| r.parse().ok()).collect()
    }

    pub fn id(&self) -> ncclUniqueId {
        let hex = self.text("id");
        let mut id = ncclUniqueId { internal: [0; 128] };
        for (at, byte) in id.internal.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hex") as _;
        }
        id
    }
}

/// An id as text.
pub fn hex(id: &ncclUniqueId) -> String {
    id.internal.iter().map(|byte| format!("{:02x}", *byte as u8)).collect()
}

/// A part; it is killed if the test ends before it.
pub struct Part(Child);

impl Part {
    /// Starts a part: the test `part` of this program, with orders.
    pub fn start(role: &str, id: &ncclUniqueId, n: usize, ranks: &[usize], more: &str) -> Self {
        let ranks = ranks.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let orders = format!("role={role};id={};n={n};ranks={ranks};{more}", hex(id));
        let settings = more.split(';').filter_map(|pair| pair.split_once('=')).filter(|(key, _)| key.contains('_'));
        let child = Command::new(std::env::current_exe().expect("own path"))
            .args(["--exact", "part", "--nocapture", "--test-threads=1"])
            .env(ROLE, orders)
            .envs(settings)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a part");
        Self(child)
    }

    pub fn kill(&mut self) {
        self.0.kill().expect("kill");
        self.0.wait().expect("wait");
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits until the part has said this with [`say`].
    pub fn said(&mut self, word: &str) {
        let out = self.0.stdout.as_mut().expect("stdout");
        let (mut line, mut byte) = (Vec::new(), [0]);
        loop {
            assert!(out.read(&mut byte).expect("read") > 0, "the part ended before it said {word}");
            if byte != *b"\n" {
                line.push(byte[0]);
            } else if line == format!("{MARK}{word}").as_bytes() {
                return;
            } else {
                line.clear();
            }
        }
    }

    /// Lets a part continue that waits in [`wait_for_word`].
    pub fn word(&mut self) {
        self.0.stdin.as_mut().expect("stdin").write_all(b"\n").expect("a word");
    }

    /// The part has ended and found nothing wrong.
    pub fn done(mut self) {
        assert!(self.0.wait().expect("wait").success(), "a part failed");
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Begins the lines meant for the test; the part's own test harness writes to the same output.
const MARK: &str = "> ";

/// Tells the test that this part has reached the point called `word`.
pub fn say(word: &str) {
    // The harness may not have ended its line.
    let line = format!("\n{MARK}{word}\n");
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).expect("stdout");
}

/// Waits until the test calls [`Part::word`].
pub fn wait_for_word() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("stdin");
}
