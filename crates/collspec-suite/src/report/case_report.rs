//! The JSON of a case.
use super::FindingReport;
use super::source_place::line_column;
use collspec_core::judge::{LaneResult, Outcome, Status, Verdict};
use collspec_core::oracle::Fingerprint;
use collspec_core::oracle::order_map::{Explanation, OrderRun, ResultOrder};
use collspec_core::printable::bounded;
use collspec_core::scenario::Case;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// The report on a case: an object of `collspec run --format jsonl`.
///
/// ```
/// # mod collspec { pub use collspec_core::judge::{Lane, Status}; pub use collspec_suite::report::CaseReport; }
/// let line = r#"{"case":"documented/reduce_scatter","file":"scenarios/documented/reduce_scatter.toml","line":1,"status":"pass","backend":"soft","outcome":"ok","reason":null,
///     "seconds":0.001,"wall_seconds":0.004,"lanes":[{"lane":"exact","pass":true,"looked_at":2,"note":null}],
///     "outputs":{"out":[[4.0],[6.0]]}}"#;
/// let report: collspec::CaseReport = serde_json::from_str(line)?;
/// assert_eq!(report.status, collspec::Status::Pass);
/// assert_eq!(report.lanes[0].lane, collspec::Lane::Exact);
/// let outputs = report.outputs.expect("a case with few elements has them");
/// assert_eq!(outputs.of("out").expect("a buffer")[1], Some(vec![6.0.into()]));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CaseReport {
    /// The case's name: the file's path without `.toml`, and the point of a matrix in brackets.
    pub case: String,
    /// The form in which the case was run, if it is not the file's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<String>,
    /// The path of the scenario file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// The line of the file where the case begins, from 1; 0 if it is unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub line: usize,
    /// Pass, fail or skip.
    pub status: Status,
    /// The name of the backend, `soft` or `nccl`.
    pub backend: String,
    /// The way the program ended; `None` for a skip.
    pub outcome: Option<Outcome>,
    /// The reason it failed or was skipped, in one line.
    pub reason: Option<String>,
    /// Seconds that all runs of the program took, each counted once its inputs were in place.
    pub seconds: f64,
    /// Seconds from the beginning of the case's planning to its verdict: with waiting for memory and devices, starting workers,
    /// making communicators, the runs, and judging.
    #[serde(default)]
    pub wall_seconds: f64,
    /// The lanes that applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<LaneResult>,
    /// The findings, the most important first; at most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<FindingReport>,
    /// Results that could not be checked, although they are defined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_looked_at: Option<collspec_core::oracle::NotLookedAt>,
    /// True if a fault that was asked for has changed something; absent if not, or if the worker could not say.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub fault_struck: bool,
    /// Notes that do not change the verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The way the library reduces, as shown by rounded results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<FingerprintReport>,
    /// The order of ranks in which the elements of rounded results were summed; only if the case passes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order_maps: Vec<OrderMapReport>,
    /// The buffers that steps write, at the end; `None` if they have more than 4,096 elements, or if no run ended well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Outputs>,
}

/// The way the library reduces, as shown by the rounded results of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FingerprintReport {
    /// The ways of computing that explain every result, such as `chain/each-step`; empty if no single one does.
    pub families: Vec<String>,
    /// Results that only some ways of computing explain.
    pub telling: u64,
    /// Results that were judged.
    pub elements: u64,
}

/// The order of ranks in which the elements of a result were summed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OrderMapReport {
    /// The step that produced the result.
    pub step: String,
    /// The buffer that received it.
    pub buffer: String,
    /// World ranks that hold it: each all of it, or of a reduce_scatter each its block.
    pub ranks: Vec<usize>,
    /// The map as people call it, for instance `ring 0,1,2,3 (chunks of 32,768)`.
    pub name: String,
    /// Number of elements of the result.
    pub elements: u64,
    /// Elements that the map had to explain, because rounding matters to them.
    pub telling: u64,
    /// The first runs, 64 at most; empty if no map explains the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<OrderRunReport>,
    /// Number of runs that are not listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_runs: u64,
    /// A hash of all runs, in hexadecimal; equal for equal maps.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hash: String,
}

/// Elements that one order summed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OrderRunReport {
    /// Index of the first element.
    pub first: u64,
    /// Number of elements.
    pub elements: u64,
    /// The order, for instance `chain 3,2,1,0`.
    pub order: String,
    /// Rounding and scale, for instance `rounded at each step, scaled before`.
    pub computing: String,
}

/// Most runs of an order map in a report.
const MOST_RUNS: usize = 64;

fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

/// The contents at the end of a case of the buffers that its steps write, in the order in which the file names them.
///
/// In JSON an object: under each buffer's name a list with an entry per world rank, which is `null` where the rank has no such
/// buffer or never wrote it, else the list of its elements. An element that was never written is `null`. Numbers that JSON
/// lacks are text: `"nan"`, `"inf"`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outputs(Vec<(String, Vec<RankOutput>)>);

/// A rank's elements of a buffer.
pub type RankOutput = Option<Vec<serde_json::Value>>;

impl Outputs {
    /// A buffer's contents by world rank.
    pub fn of(&self, buffer: &str) -> Option<&[RankOutput]> {
        self.0.iter().find(|(name, _)| name == buffer).map(|(_, ranks)| ranks.as_slice())
    }

    /// All buffers, each with its contents by world rank.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[RankOutput])> {
        self.0.iter().map(|(name, ranks)| (name.as_str(), ranks.as_slice()))
    }
}

impl Serialize for Outputs {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        // A map of serde_json would not keep the order.
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (name, ranks) in &self.0 {
            map.serialize_entry(name, ranks)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Outputs {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Buffers;
        impl<'de> Visitor<'de> for Buffers {
            type Value = Outputs;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("buffers with their elements by rank")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Outputs, A::Error> {
                let mut buffers = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    buffers.push(entry);
                }
                Ok(Outputs(buffers))
            }
        }
        from.deserialize_map(Buffers)
    }
}

impl CaseReport {
    /// The report of a case that ran on `backend`.
    #[doc(hidden)]
    pub fn new(case: &Case, verdict: &Verdict, backend: &str) -> Self {
        Self {
            case: verdict.case.clone(),
            form: case.form.as_ref().map(|derived| derived.form.name.to_owned()),
            file: case.file.path.clone(),
            line: line_column(&case.file, case.span).0,
            status: verdict.status,
            backend: backend.to_owned(),
            outcome: verdict.outcome,
            reason: verdict.reason.as_deref().map(|reason| bounded(reason).into_owned()),
            seconds: verdict.seconds,
            wall_seconds: verdict.wall_seconds,
            lanes: verdict.lanes.clone(),
            findings: verdict.findings.iter().map(|finding| FindingReport::new(case, finding)).collect(),
            not_looked_at: verdict.not_looked_at.clone(),
            fault_struck: verdict.fault_struck == Some(true),
            notes: verdict.notes.iter().map(|note| bounded(note).into_owned()).collect(),
            fingerprint: verdict.fingerprint.as_ref().map(FingerprintReport::new),
            order_maps: verdict.order_maps.iter().map(OrderMapReport::new).collect(),
            outputs: verdict.outputs.clone().map(Outputs),
        }
    }
}

impl FingerprintReport {
    /// The report of a fingerprint.
    #[doc(hidden)]
    pub fn new(fingerprint: &Fingerprint) -> Self {
        let families = fingerprint.families.names().into_iter().map(|name| name.to_string()).collect();
        Self { families, telling: fingerprint.telling, elements: fingerprint.elements }
    }
}

impl OrderMapReport {
    fn new(order: &ResultOrder) -> Self {
        let map = &order.map;
        let run = |run: &OrderRun| {
            let explanation = map.explanation(run.explanation);
            let text = |of: fn(&Explanation) -> &String| explanation.map(of).cloned().unwrap_or_default();
            let (order, computing) = (text(|e| &e.order), text(|e| &e.computing));
            OrderRunReport { first: run.start, elements: run.elements, order, computing }
        };
        let runs: Vec<OrderRunReport> = map.runs.iter().take(MOST_RUNS).map(run).collect();
        Self {
            step: order.step.clone(),
            buffer: order.buffer.clone(),
            ranks: order.ranks.clone(),
            name: map.name.clone(),
            elements: map.elements,
            telling: map.telling,
            more_runs: map.run_count.saturating_sub(runs.len() as u64),
            runs,
            hash: map.hash.clone(),
        }
    }
}
