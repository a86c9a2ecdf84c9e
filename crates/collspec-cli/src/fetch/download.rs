//! The progress of a download, read from its files and from the log of the tool that fetches it.
use std::fs;
use std::path::Path;

/// The current state of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes downloaded so far.
    pub bytes: u64,
    /// The size of the whole download in bytes, once the tool has reported it.
    pub of: Option<u64>,
}

/// Depth to which the tools' folders are searched.
const DEPTH: u32 = 8;
/// Bytes of the log that are read.
const MAX_LOG: u64 = 1 << 20;

/// The progress of the download in the folder `work`, whose tool logs to `log`.
pub fn progress(work: &Path, log: &Path) -> Progress {
    let said = collspec_core::files::read_text(log, MAX_LOG).unwrap_or_default();
    let of = said.lines().rev().find_map(announced);
    // Tools may keep a second copy for a moment, so the largest file is the one.
    let bytes = largest_file(work, DEPTH);
    Progress { bytes: of.map_or(bytes, |of| bytes.min(of)), of }
}

fn largest_file(folder: &Path, depth: u32) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(found) if found.is_file() => found.len(),
        Ok(found) if found.is_dir() && depth > 0 => largest_file(&entry.path(), depth - 1),
        _ => 0,
    });
    sizes.max().unwrap_or(0)
}

/// The size in pip's line `Downloading https://.../nvidia_nccl_cu12-2.27.5.whl (322.3 MB)`.
fn announced(line: &str) -> Option<u64> {
    let (_, file) = line.split_once("Downloading ")?;
    let (_, size) = file.strip_suffix(" MB)")?.split_once(".whl (")?;
    let megabytes: f64 = size.parse().ok().filter(|size| (0.0..1e6).contains(size))?;
    Some((megabytes * 1e6) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wheels_size_is_in_pips_log() {
        let line = "2026-11-26T00:00:55,1   Downloading https://a/nvidia_nccl_cu12-2.27.5-py3-none-any.whl (322.3 MB)";
        assert_eq!(announced(line), Some(322_300_000));
        for other in
            ["Downloading a.whl.metadata (1.8 kB)", "Downloading a.whl (x MB)", "Downloading a.whl (1e300 MB)", ""]
        {
            assert_eq!(announced(other), None, "{other}");
        }
    }

    #[test]
    fn the_largest_file_is_what_has_come() {
        let work = tempfile::tempdir().unwrap();
        let log = work.path().join("log");
        assert_eq!(progress(work.path(), &log), Progress { bytes: 0, of: None });
        fs::create_dir(work.path().join("pip-unpack")).unwrap();
        fs::write(work.path().join("pip-unpack/a.whl"), [0; 3000]).unwrap();
        fs::write(&log, "Downloading a.whl (0.002 MB)\n").unwrap();
        assert_eq!(progress(work.path(), &log), Progress { bytes: 2000, of: Some(2000) });
        fs::remove_file(&log).unwrap();
        assert_eq!(progress(work.path(), &log), Progress { bytes: 3000, of: None });
    }
}
