//! Recorded runs: the results of a corpus on one library, in a file that later versions of this program can read.
//!
//! A recording is JSON lines: a header, a line per case, and a closing line, without which the run was cut short. Its format
//! has a number, [`FORMAT`]. A reader passes over members that it does not know, so a new member does not need a new number;
//! a member that changes its meaning does.
mod footprint;
mod header;
mod read;
#[cfg(test)]
mod tests;
mod tuning;
mod write;

pub use footprint::{Measuring, PROCESSES, measure};
pub use read::{ReadError, is_recording, read};
pub use tuning::tuning;
pub use write::RecordingWriter;

use crate::formats::html::{calls, operations};
use collspec_core::judge::{LaneResult, ObservedResults, Outcome, Status, UsedOperation, Verdict};
use collspec_core::scenario::Case;
use collspec_suite::report::FingerprintReport;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The number of the format that this version writes, and the greatest that it reads.
pub const FORMAT: u32 = 1;

/// Bytes of the longest line. A case of 1,024 ranks with 16 buffers takes about 400 kB; the data read from a line can take forty
/// times as much memory.
const MAX_LINE: u64 = 8 << 20;

/// The contents of a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// The library, and the machine on which it ran.
    pub header: Header,
    /// The cases in the order in which they ended.
    pub cases: Vec<RecordedCase>,
    /// The closing line; `None` if the run was cut short.
    pub closing: Option<Closing>,
}

/// The first line: the subject of the run, and its environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The number of the format.
    pub collspec_recording: u32,
    /// The version of the program that wrote it.
    pub collspec: String,
    /// The library that ran.
    pub library: LibraryIdentity,
    /// The CUDA driver's version code, if the backend is nccl.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<i32>,
    /// The devices, if the backend is nccl.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<RecordedDevice>,
    /// Variables that workers inherited or were given and that affect the library.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The options that bear on results, as words of a command line.
    #[serde(default)]
    pub options: Vec<String>,
    /// The seed of the poison that buffers hold at first.
    #[serde(default)]
    pub seed: u64,
    /// The time at which the run began, in seconds since 1970 (UTC).
    #[serde(default)]
    pub started: u64,
    /// The library's cost for a process and its effects on it, if they were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub footprint: Option<Box<crate::footprint::Footprint>>,
    /// What the library decides on the machine that software GPUs are given, or why it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuning: Option<Result<Box<crate::tuning::Tuning>, String>>,
}

/// The facts that identify a library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryIdentity {
    /// The name of the backend, `soft` or `nccl`.
    pub backend: String,
    /// Its version as text, for example `2.30.7`.
    pub version: String,
    /// Its file, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The build id of the file, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
    /// The SHA-256 hash of its file in hexadecimal, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Functions of NCCL's interface that it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
    /// Everything that its file exports under a name of NCCL's: `nccl...` and `pnccl...`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exports: Vec<String>,
    /// True if its debug information says that a part of it was compiled without optimisation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unoptimised: bool,
}

/// A device that cases ran on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedDevice {
    /// The case's full name.
    pub name: String,
    /// Its compute capability, for example `9.0`.
    pub compute: String,
}

/// The line of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedCase {
    /// Its name, with matrix point and form.
    pub case: String,
    /// The path of its file.
    #[serde(default)]
    pub file: String,
    /// The words of its operations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<String>,
    /// The element types of its calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// Its operations with their types, sizes and ranks, if it ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used: Vec<UsedOperation>,
    /// A hash of its file's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<collspec_core::judge::ContentHash>,
    /// Pass, fail or skip.
    pub status: Status,
    /// The way the program ended.
    #[serde(default)]
    pub outcome: Option<Outcome>,
    /// The reason it failed or was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The subject of the first finding: its step or buffer without the numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<RecordedFinding>,
    /// The last run's results; `None` if nothing ran or the data is undefined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<ObservedResults>,
    /// The way the library reduces, as shown by rounded results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<FingerprintReport>,
    /// The order of ranks in which the elements of rounded results were summed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<collspec_core::oracle::ResultOrder>,
    /// Results that could not be checked, although they are defined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_looked_at: Option<collspec_core::oracle::NotLookedAt>,
    /// The lanes that applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<LaneResult>,
    /// Seconds of its runs.
    #[serde(default)]
    pub seconds: f64,
    /// Seconds from planning to verdict.
    #[serde(default)]
    pub wall_seconds: f64,
}

/// The first finding of a failed case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedFinding {
    /// The lane that found it.
    pub lane: collspec_core::judge::Lane,
    /// The label of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The pattern of the wrong elements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
}

/// The last line of a complete recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Closing {
    /// Cases that were recorded.
    pub recorded: usize,
    /// Wall-clock seconds of the run.
    pub seconds: f64,
}

impl RecordedCase {
    /// The record of a case with its verdict.
    pub fn new(case: &Case, verdict: &Verdict) -> Self {
        let finding = verdict.findings.first().map(|finding| RecordedFinding {
            lane: finding.lane,
            step: finding.step.clone(),
            pattern: finding.pattern.clone(),
        });
        let types: BTreeSet<&str> = calls(case, &verdict.used).into_iter().map(|(_, dtype)| dtype).collect();
        Self {
            case: verdict.case.clone(),
            file: case.file.path.clone(),
            operations: operations(case).into_iter().map(str::to_owned).collect(),
            types: types.into_iter().map(str::to_owned).collect(),
            used: verdict.used.clone(),
            text: Some(collspec_core::judge::ContentHash::of(case.file.text.as_bytes())),
            status: verdict.status,
            outcome: verdict.outcome,
            reason: verdict.reason.as_deref().map(|reason| collspec_core::printable::bounded(reason).into_owned()),
            finding,
            results: verdict.observed.as_deref().cloned(),
            fingerprint: verdict.fingerprint.as_ref().map(FingerprintReport::new),
            orders: verdict.order_maps.clone(),
            not_looked_at: verdict.not_looked_at.clone(),
            lanes: verdict.lanes.clone(),
            seconds: verdict.seconds,
            wall_seconds: verdict.wall_seconds,
        }
    }
}
