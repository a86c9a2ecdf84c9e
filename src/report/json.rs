//! One JSON object per case and line.
use super::Reporter;
use crate::judge::{LaneResult, Outcome, Status, Verdict};
use crate::oracle::Fingerprint;
use crate::printable::{self, bounded};
use crate::report::Event;
use crate::scenario::Case;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use std::borrow::Cow;
use std::io::{self, Write};

/// Writes a line for every verdict, when it is there; the order is that in which cases end.
pub struct JsonLines<W> {
    to: W,
    backend: String,
}

impl<W: Write> JsonLines<W> {
    /// To `to`, for cases that run on `backend`.
    pub fn new(to: W, backend: impl Into<String>) -> Self {
        Self { to, backend: backend.into() }
    }
}

impl<W: Write> Reporter for JsonLines<W> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::CaseDone { case, verdict } => {
                printable::json(&mut self.to, &Line::new(case, verdict, &self.backend))?;
                self.to.write_all(b"\n")?;
                // A reader on the other end of a pipe sees each case as it ends.
                self.to.flush()
            }
            Event::Finished { .. } => self.to.flush(),
            Event::Started { .. } | Event::CaseStarted { .. } => Ok(()),
        }
    }
}

/// The object; its fields are part of the interface.
#[derive(Serialize)]
struct Line<'a> {
    case: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    form: Option<&'a str>,
    status: Status,
    backend: &'a str,
    outcome: Option<Outcome>,
    reason: Option<Cow<'a, str>>,
    seconds: f64,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    lanes: &'a [LaneResult],
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<&'a Fingerprint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outputs: Option<Outputs<'a>>,
}

impl<'a> Line<'a> {
    fn new(case: &'a Case, verdict: &'a Verdict, backend: &'a str) -> Self {
        Self {
            case: &verdict.case,
            form: case.form.as_ref().map(|derived| derived.form.name),
            status: verdict.status,
            backend,
            outcome: verdict.outcome,
            reason: verdict.reason.as_deref().map(bounded),
            seconds: verdict.seconds,
            lanes: &verdict.lanes,
            fingerprint: verdict.fingerprint.as_ref(),
            outputs: verdict.outputs.as_ref().map(|outputs| Outputs(outputs)),
        }
    }
}

/// Buffers in the plan's order, which a map of serde_json would not keep.
struct Outputs<'a>(&'a [(String, Vec<Option<Vec<serde_json::Value>>>)]);

impl Serialize for Outputs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, ranks) in self.0 {
            map.serialize_entry(name, ranks)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Lane;
    use crate::oracle::{FamilySet, Rounding, Scale, Shape};
    use crate::suite::fixture;
    use serde_json::json;

    fn line(verdict: Verdict) -> String {
        let case = fixture::case(&verdict.case);
        let mut reporter = JsonLines::new(Vec::new(), "soft");
        reporter.event(&Event::Started { cases: 1 }).unwrap();
        reporter.event(&Event::CaseDone { case, verdict: Box::new(verdict) }).unwrap();
        reporter.event(&Event::Finished { seconds: 1.0 }).unwrap();
        String::from_utf8(reporter.to).unwrap()
    }

    #[test]
    fn a_pass_has_its_outputs_by_buffer_and_rank() {
        let mut verdict = fixture::verdict("documented/reduce_scatter", Status::Pass);
        verdict.outputs = Some(vec![
            ("out".into(), vec![Some(vec![json!(4.0)]), None]),
            ("a".into(), vec![Some(vec![json!("nan")])]),
        ]);
        verdict.seconds = 0.001;
        assert_eq!(
            line(verdict),
            "{\"case\":\"documented/reduce_scatter\",\"status\":\"pass\",\"backend\":\"soft\",\"outcome\":\"ok\",\
             \"reason\":null,\"seconds\":0.001,\"outputs\":{\"out\":[[4.0],null],\"a\":[[\"nan\"]]}}\n"
        );
    }

    #[test]
    fn lanes_and_the_fingerprint_are_told() {
        let mut verdict = fixture::verdict("a", Status::Pass);
        verdict.lanes = vec![LaneResult { lane: Lane::Admissible, pass: true, looked_at: 8, note: None }];
        let families = FamilySet::single(Shape::Tree, Rounding::EachStep, Scale::None);
        verdict.fingerprint = Some(Fingerprint { families, telling: 3, elements: 8 });
        let value: serde_json::Value = serde_json::from_str(&line(verdict)).unwrap();
        assert_eq!(value["lanes"], json!([{"lane": "admissible", "pass": true, "looked_at": 8, "note": null}]));
        assert_eq!(value["fingerprint"], json!({"families": ["tree/each-step"], "telling": 3, "elements": 8}));
    }

    #[test]
    fn a_skip_has_no_outcome() {
        let mut verdict = fixture::verdict("a", Status::Skip);
        verdict.outcome = None;
        verdict.reason = Some("needs \"2\" GPUs".into());
        let value: serde_json::Value = serde_json::from_str(&line(verdict)).unwrap();
        assert_eq!(
            value,
            json!({"case": "a", "status": "skip", "backend": "soft", "outcome": null,
                   "reason": "needs \"2\" GPUs", "seconds": 0.0})
        );
    }
}
