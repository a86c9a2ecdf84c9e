//! NCCL's log: what goes wrong is said where NCCL would say it, and how long the making of a communicator took.
use std::fs::OpenOptions;
use std::io::Write;
use std::time::Duration;

/// Values of NCCL_DEBUG with which information is written, and the one with which only warnings are.
const LEVELS: [&str; 3] = ["INFO", "ABORT", "TRACE"];
const WARNINGS: &str = "WARN";

/// Writes a warning, if NCCL_DEBUG asks for warnings.
pub(crate) fn warn(text: &str) {
    if is_asked_for(&LEVELS) || is_asked_for(&[WARNINGS]) {
        write(&format!("WARN {text}"));
    }
}

/// Writes how long it took to create a communicator, as NCCL does at the level INFO, but without the times of its phases.
pub(crate) fn init_timings(rank: i32, ranks: i32, time: Duration) {
    if is_asked_for(&LEVELS) {
        let total = time.as_secs_f64();
        write(&format!(
            "INFO Init timings - ncclCommInitRank: rank {rank} nranks {ranks} total {total:.2} (rest {total:.2})"
        ));
    }
}

fn is_asked_for(levels: &[&str]) -> bool {
    let level = std::env::var("NCCL_DEBUG").unwrap_or_default();
    levels.iter().any(|known| level.eq_ignore_ascii_case(known))
}

/// Writes a line to NCCL_DEBUG_FILE, or the standard output.
fn write(text: &str) {
    let line = format!("stand-in:{} [0] NCCL {text}\n", std::process::id());
    let file = std::env::var_os("NCCL_DEBUG_FILE").filter(|path| !path.is_empty());
    let file = file.map(|path| OpenOptions::new().append(true).create(true).open(path));
    // a log that cannot be written is dropped
    let _ = match file {
        Some(Ok(mut file)) => file.write_all(line.as_bytes()),
        Some(Err(_)) | None => std::io::stdout().write_all(line.as_bytes()),
    };
}
