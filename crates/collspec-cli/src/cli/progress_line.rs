//! The text of the progress line, for terminals of any width.
use collspec_core::printable::printable;
use std::time::{Duration, Instant};

/// The finished, current and remaining work of a run.
#[derive(Debug)]
pub struct ProgressState {
    all: usize,
    done: usize,
    failed: usize,
    begun: Instant,
    /// The kind of run, if it has several.
    what: Option<&'static str>,
    /// Names of the cases that are running, the one that began first in front.
    running: Vec<(String, Instant)>,
    /// The name of the case that ended last, when the running ones are unknown.
    last: Option<String>,
}

impl ProgressState {
    pub fn new(now: Instant) -> Self {
        Self { all: 0, done: 0, failed: 0, begun: now, what: None, running: Vec::new(), last: None }
    }

    pub fn begin(&mut self, all: usize, what: Option<&'static str>, now: Instant) {
        *self = Self { all, what, ..Self::new(now) };
    }

    pub fn started(&mut self, name: &str, now: Instant) {
        self.running.push((printable(name).into_owned(), now));
    }

    pub fn ended(&mut self, name: &str, failed: bool) {
        let name = printable(name);
        if let Some(at) = self.running.iter().position(|(running, _)| *running == name) {
            self.running.remove(at);
        }
        self.done += 1;
        self.failed += usize::from(failed);
    }

    pub fn step(&mut self, name: &str) {
        self.done += 1;
        self.last = Some(printable(name).into_owned());
    }

    /// The line in at most `width` columns: a bar where there is room, finished and remaining cases, the case that has been running
    /// for longest and its time, and the numbers of other running cases and of failures.
    pub fn line(&self, width: usize, now: Instant) -> String {
        let begun = now.saturating_duration_since(self.begun);
        let mut head = String::new();
        if width >= 100 {
            head = format!("{} ", bar(self.done, self.all, 20));
        }
        head.push_str(&format!("{}/{} {}", self.done, self.all, clock(begun)));
        if let Some(left) = self.time_left(begun) {
            head.push_str(&format!(" (~{} left)", clock(left)));
        }
        if self.failed > 0 {
            head.push_str(&format!(", {} failed", self.failed));
        }
        if let Some(what) = self.what.filter(|_| width >= 80) {
            head.push_str(&format!(", {what}"));
        }
        let (name, tail) = match (self.running.first(), &self.last) {
            (Some((name, since)), _) => {
                let more = self.running.len() - 1;
                let others = if more > 0 { format!(" +{more}") } else { String::new() };
                (name.as_str(), format!(" {}{others}", clock(now.saturating_duration_since(*since))))
            }
            (None, Some(name)) => (name.as_str(), String::new()),
            (None, None) => ("", String::new()),
        };
        if name.is_empty() {
            return cut(&head, width);
        }
        let room = width.saturating_sub(head.chars().count() + tail.chars().count() + 2);
        if room < SHORTEST_NAME {
            return cut(&head, width);
        }
        format!("{head}: {}{tail}", cut(name, room))
    }

    /// The remaining time, extrapolated from the finished work once there is enough of it.
    fn time_left(&self, begun: Duration) -> Option<Duration> {
        let left = self.all.checked_sub(self.done).filter(|left| *left > 0)?;
        if self.done == 0 || begun < Duration::from_secs(2) {
            return None;
        }
        Duration::try_from_secs_f64(begun.as_secs_f64() / self.done as f64 * left as f64).ok()
    }
}

/// Columns below which a name says nothing.
const SHORTEST_NAME: usize = 8;

fn bar(done: usize, all: usize, width: usize) -> String {
    let full = (done.min(all) * width).checked_div(all).unwrap_or(0);
    format!("[{}{}]", "=".repeat(full), " ".repeat(width - full))
}

/// The text if it fits into this many columns, else its beginning and its end, which contains the points of matrices.
fn cut(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let front = kept / 2;
    let back = kept - front;
    let end: String = text.chars().skip(count - back).collect();
    format!("{}…{end}", text.chars().take(front).collect::<String>())
}

/// `5 s`, `2:05`, `1:02:05`.
fn clock(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds < 60 => format!("{seconds} s"),
        seconds if seconds < 3600 => format!("{}:{:02}", seconds / 60, seconds % 60),
        seconds => format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> (ProgressState, Instant) {
        let begun = Instant::now();
        let mut state = ProgressState::new(begun);
        state.begin(400, None, begun);
        for case in 0..100 {
            let name = format!("c{case}");
            state.started(&name, begun);
            state.ended(&name, case < 2);
        }
        state.started("conformance/sum[dtype=bf16,count=1000]", begun + Duration::from_secs(27));
        state.started("exact/max", begun + Duration::from_secs(29));
        (state, begun + Duration::from_secs(30))
    }

    #[test]
    fn what_is_running_and_what_is_left_is_said_at_every_width() {
        let (state, now) = state();
        assert_eq!(
            state.line(120, now),
            "[=====               ] 100/400 30 s (~1:30 left), 2 failed: conformance/sum[dtype=bf16,count=1000] 3 s +1"
        );
        assert_eq!(state.line(60, now), "100/400 30 s (~1:30 left), 2 failed: conform…nt=1000] 3 s +1");
        for width in 0..200 {
            let line = state.line(width, now);
            assert!(line.chars().count() <= width.max(1), "{width}: {line}");
        }
    }

    #[test]
    fn nothing_is_guessed_before_the_first_end() {
        let begun = Instant::now();
        let mut state = ProgressState::new(begun);
        state.begin(3, None, begun);
        state.started("a\nb", begun);
        assert_eq!(state.line(80, begun + Duration::from_secs(3)), "0/3 3 s: a\\nb 3 s");
        state.begin(5000, Some("with faults"), begun);
        state.step("F01 a");
        assert_eq!(state.line(80, begun), "1/5000 0 s, with faults: F01 a");
    }

    #[test]
    fn times_are_short() {
        assert_eq!([5, 65, 3725].map(|s| clock(Duration::from_secs(s))), ["5 s", "1:05", "1:02:05"]);
    }
}
