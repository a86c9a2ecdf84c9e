//! NCCL's log, as far as faults need one: what goes wrong is said where NCCL would say it.
use std::fs::OpenOptions;
use std::io::Write;

/// Values of NCCL_DEBUG with which warnings are written.
const LEVELS: [&str; 4] = ["WARN", "INFO", "ABORT", "TRACE"];

/// Writes a warning to NCCL_DEBUG_FILE, or the standard output, if NCCL_DEBUG asks for warnings.
pub(crate) fn warn(text: &str) {
    let level = std::env::var("NCCL_DEBUG").unwrap_or_default();
    if !LEVELS.iter().any(|known| level.eq_ignore_ascii_case(known)) {
        return;
    }
    let line = format!("stand-in:{} [0] NCCL WARN {text}\n", std::process::id());
    let file = std::env::var_os("NCCL_DEBUG_FILE").filter(|path| !path.is_empty());
    let file = file.map(|path| OpenOptions::new().append(true).create(true).open(path));
    // a log that cannot be written is dropped
    let _ = match file {
        Some(Ok(mut file)) => file.write_all(line.as_bytes()),
        Some(Err(_)) | None => std::io::stdout().write_all(line.as_bytes()),
    };
}
