//! Free memory of this machine, and its distribution among cases that run at the same time.
use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes that this process can still allocate: the minimum of the memory that the kernel reports as available, the remainder of
/// control groups, and that of the process's own limits (`ulimit -v`, `ulimit -d`). `None` if none of these is known.
pub fn free() -> Option<u64> {
    let available = std::fs::read_to_string("/proc/meminfo").ok().as_deref().and_then(available);
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    left(&groups, Path::new("/sys/fs/cgroup"), &|path| std::fs::read_to_string(path).ok())
        .into_iter()
        .chain(available)
        .chain(limited(Resource::As, 0))
        .chain(limited(Resource::Data, 5))
        .min()
}

/// The least address space that a thread running cases takes, with the allocator's reserve for it, its worker's memory and
/// the threads that look after the worker.
const THREAD: u64 = 256 << 20;

/// As many of the wanted threads as fit in this process's address space; at least one. An allocation that fails
/// ends the process and loses the verdicts of all cases.
pub fn threads(wanted: usize) -> usize {
    match limited(Resource::As, 0) {
        None => wanted,
        Some(left) => usize::try_from(left / THREAD).unwrap_or(wanted).clamp(1, wanted.max(1)),
    }
}

/// Bytes that remain under a limit of this process; `field` of `/proc/self/statm` is the number of pages it uses.
fn limited(resource: Resource, field: usize) -> Option<u64> {
    let limit = getrlimit(resource).current?;
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(field)?.parse().ok()?;
    Some(limit.saturating_sub(pages.saturating_mul(page_size() as u64)))
}

/// The value of MemAvailable in `/proc/meminfo`.
fn available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The smallest remainder of any control group in `/proc/self/cgroup`, or any group above it, in bytes.
fn left(groups: &str, root: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let number = |path: PathBuf| read(&path)?.trim().parse::<u64>().ok();
    let mut least: Option<u64> = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, limit, usage) = match controllers {
            "" => (root.to_owned(), "memory.max", "memory.current"),
            list if list.split(',').any(|c| c == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes", "memory.usage_in_bytes")
            }
            _ => continue,
        };
        // Inside a container the path may name a folder that only the host has; then the root's own limit applies.
        for folder in Path::new(path.trim_start_matches('/')).ancestors() {
            let folder = root.join(folder);
            if let (Some(limit), Some(usage)) = (number(folder.join(limit)), number(folder.join(usage))) {
                let rest = limit.saturating_sub(usage);
                least = Some(least.map_or(rest, |least| least.min(rest)));
            }
        }
    }
    least
}

/// The least memory that a case takes, including the threads that look after its worker: an address space may be limited.
const WORKER: u64 = 64 << 20;

/// Memory shared by cases that run at the same time: a case begins when the memory that it needs is free.
#[derive(Debug)]
pub struct Turns {
    total: u64,
    free: Mutex<u64>,
    back: Condvar,
}

/// Memory taken by a case, released when this is dropped.
#[derive(Debug)]
pub struct Turn<'a> {
    turns: &'a Turns,
    bytes: u64,
}

impl Turns {
    /// Distributes `limit` bytes, or the free memory of this machine if that is less.
    pub fn new(limit: u64) -> Self {
        Self::of(free().map_or(limit, |free| free.min(limit)))
    }

    fn of(total: u64) -> Self {
        Self { total, free: Mutex::new(total), back: Condvar::new() }
    }

    /// Bytes that all cases together may use.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Bytes not taken by any case.
    pub fn left(&self) -> u64 {
        *self.free()
    }

    /// Waits until `bytes` are free, or at least the memory of a worker, and takes them; `None` if that is more than the total.
    pub fn take(&self, bytes: u64) -> Option<Turn<'_>> {
        if bytes > self.total {
            return None;
        }
        let bytes = bytes.max(WORKER.min(self.total));
        let mut free = self.free();
        while *free < bytes {
            free = self.back.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= bytes;
        Some(Turn { turns: self, bytes })
    }

    fn free(&self) -> MutexGuard<'_, u64> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.turns.free() += self.bytes;
        self.turns.back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn what_the_kernel_says() {
        let text = "MemTotal:       32657224 kB\nMemFree: 1 kB\nMemAvailable:   1024 kB\n";
        assert_eq!(available(text), Some(1 << 20));
        assert_eq!(available("MemTotal: 5 kB\n"), None);
        assert!(free().is_none_or(|bytes| bytes > 0));
    }

    #[test]
    fn a_limit_of_the_process_counts() {
        // Limits apply to a whole process, so a child sets one and prints what it finds.
        let mut child = std::process::Command::new("sh");
        let shell =
            "ulimit -v 3000000 && exec \"$0\" --exact run::memory::tests::says_what_is_left --ignored --nocapture";
        let said = child.args(["-c", shell]).arg(std::env::current_exe().unwrap()).output().unwrap();
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let left = said.split("left: ").nth(1).and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        assert!(left.is_some_and(|left| left > 0 && left < 3_000_000 * 1024), "{said}");
        let few = said.split("threads: ").nth(1).and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok());
        assert!(few.is_some_and(|few| (1..12).contains(&few)), "{said}");
        assert!(limited(Resource::As, 0).is_some() || threads(64) == 64, "without a limit");
    }

    #[test]
    #[ignore = "asked for by a_limit_of_the_process_counts"]
    fn says_what_is_left() {
        println!("left: {}", free().unwrap_or_default());
        println!("threads: {}", threads(64));
    }

    #[test]
    fn the_narrowest_control_group_counts() {
        let files = |path: &Path| {
            Some(
                match path.to_str()? {
                    "/c/a/b/memory.max" => "max\n",
                    "/c/a/b/memory.current" => "5\n",
                    "/c/a/memory.max" => "1000\n",
                    "/c/a/memory.current" => "400\n",
                    "/c/memory/x/memory.limit_in_bytes" => "700\n",
                    "/c/memory/x/memory.usage_in_bytes" => "900\n",
                    _ => return None,
                }
                .to_owned(),
            )
        };
        assert_eq!(left("0::/a/b\n", Path::new("/c"), &files), Some(600));
        assert_eq!(left("3:cpu:/x\n7:memory:/x\n0::/\n", Path::new("/c"), &files), Some(0));
        assert_eq!(left("0::/elsewhere\n", Path::new("/c"), &files), None);
    }

    #[test]
    fn what_does_not_fit_beside_another_waits_for_its_end() {
        let turns = Turns::of(100);
        assert!(turns.take(101).is_none());
        let first = turns.take(60);
        assert!(first.is_some());
        let (sender, begun) = mpsc::channel();
        std::thread::scope(|scope| {
            let turns = &turns;
            scope.spawn(move || {
                let turn = turns.take(50);
                sender.send(turn.is_some()).ok();
            });
            // The second cannot begin before the first ends, so no length of this wait makes the test fail by mistake.
            assert!(begun.try_recv().is_err());
            drop(first);
            assert_eq!(begun.recv(), Ok(true));
        });
        assert_eq!(*turns.free(), 100);
    }
}
