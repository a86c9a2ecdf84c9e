//! The report as JSON lines: cases, invalid files, and a summary.
use super::{CaseReport, InvalidFileReport, ReportLine, Reporter, RunFacts, RunSummary, Tally};
use crate::report::Event;
use collspec_core::printable;
use std::io::{self, Write};

/// Writes a line for every invalid file and every verdict, in the order in which cases end, and at last a summary.
pub struct JsonLinesReporter<W> {
    to: W,
    facts: RunFacts,
    tally: Tally,
    cases: usize,
    invalid_files: usize,
}

impl<W: Write> JsonLinesReporter<W> {
    /// A reporter that writes to `to`, for cases that run on this library.
    pub fn new(to: W, facts: RunFacts) -> Self {
        Self { to, facts, tally: Tally::default(), cases: 0, invalid_files: 0 }
    }

    fn line(&mut self, line: ReportLine) -> io::Result<()> {
        printable::write_json(&mut self.to, &line)?;
        self.to.write_all(b"\n")?;
        // A reader on the other end of a pipe sees each case as it ends.
        self.to.flush()
    }
}

impl<W: Write> Reporter for JsonLinesReporter<W> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::Started { cases } => {
                self.cases = *cases;
                Ok(())
            }
            Event::FileInvalid { file, name, diagnostics } => {
                self.invalid_files += 1;
                self.line(ReportLine::InvalidFile(InvalidFileReport::new(file, name, diagnostics)))
            }
            Event::FileWarned { file, name, warnings } => {
                self.line(ReportLine::Warnings(InvalidFileReport::new(file, name, warnings)))
            }
            Event::CaseStarted { .. } => Ok(()),
            Event::CaseDone { case, verdict } => {
                self.tally.add(verdict);
                self.line(ReportLine::Case(Box::new(CaseReport::new(case, verdict, &self.facts.backend))))
            }
            Event::Finished { seconds } => {
                let not_run = self.cases.saturating_sub(self.tally.settled());
                let summary = RunSummary::new(&self.tally, not_run, self.invalid_files, *seconds, &self.facts);
                self.line(ReportLine::Summary(summary))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::fixture;
    use collspec_core::judge::{Lane, LaneResult, Status, Verdict};
    use collspec_core::oracle::order_map::{Explanation, OrderMap, OrderRun, Pattern, ResultOrder};
    use collspec_core::oracle::{FamilySet, Fingerprint, Rounding, Scale, Shape};
    use serde_json::json;

    fn line(verdict: Verdict) -> String {
        let case = fixture::case(&verdict.case);
        let mut reporter = JsonLinesReporter::new(Vec::new(), RunFacts::new("soft", "2.30.7"));
        reporter.event(&Event::Started { cases: 1 }).unwrap();
        reporter.event(&Event::CaseDone { case, verdict: Box::new(verdict) }).unwrap();
        reporter.event(&Event::Finished { seconds: 1.0 }).unwrap();
        let text = String::from_utf8(reporter.to).unwrap();
        let (line, summary) = text.split_once('\n').unwrap();
        assert!(summary.starts_with("{\"summary\":{") && summary.ends_with("}}\n"), "{summary}");
        format!("{line}\n")
    }

    #[test]
    fn a_pass_has_its_outputs_by_buffer_and_rank() {
        let mut verdict = fixture::verdict("documented/reduce_scatter", Status::Pass);
        verdict.outputs = Some(vec![
            ("out".into(), vec![Some(vec![json!(4.0)]), None]),
            ("a".into(), vec![Some(vec![json!("nan")])]),
        ]);
        (verdict.seconds, verdict.wall_seconds) = (0.001, 0.25);
        assert_eq!(
            line(verdict),
            "{\"case\":\"documented/reduce_scatter\",\"file\":\"scenarios/documented/reduce_scatter.toml\",\"line\":1,\"status\":\"pass\",\"backend\":\"soft\",\"outcome\":\"ok\",\
             \"reason\":null,\"seconds\":0.001,\"wall_seconds\":0.25,\"outputs\":{\"out\":[[4.0],null],\"a\":[[\"nan\"]]}}\n"
        );
    }

    #[test]
    fn lanes_and_the_fingerprint_are_told() {
        let mut verdict = fixture::verdict("a", Status::Pass);
        verdict.lanes = vec![LaneResult::passed(Lane::Admissible, 8)];
        let families = FamilySet::single(Shape::Tree, Rounding::EachStep, Scale::None);
        verdict.fingerprint = Some(Fingerprint { families, telling: 3, elements: 8 });
        let value: serde_json::Value = serde_json::from_str(&line(verdict)).unwrap();
        assert_eq!(value["lanes"], json!([{"lane": "admissible", "pass": true, "looked_at": 8, "note": null}]));
        assert_eq!(value["fingerprint"], json!({"families": ["tree/each-step"], "telling": 3, "elements": 8}));
    }

    #[test]
    fn order_maps_are_told_with_their_first_runs() {
        let mut verdict = fixture::verdict("a", Status::Pass);
        let explanation = |order: &str| Explanation {
            order: order.into(),
            additions: order.into(),
            computing: "rounded at each step".into(),
        };
        let run = |k: u64| OrderRun {
            start: 5 * k,
            elements: 5,
            earliest_start: 5 * k,
            latest_start: 5 * k,
            explanation: (k % 3) as u32,
            others: Vec::new(),
        };
        let map = OrderMap {
            name: "ring 0,1,2, 34 parts (chunks of 5)".into(),
            pattern: Pattern::Ring,
            elements: 510,
            telling: 400,
            explanations: ["chain 1,2,0", "chain 2,0,1"].map(explanation).into(),
            runs: (0..102).map(run).collect(),
            run_count: 102,
            hash: "0123".into(),
        };
        let order = ResultOrder { step: "step 1".into(), buffer: "y".into(), ranks: vec![0, 1, 2], map };
        verdict.order_maps = vec![order];
        let text = line(verdict);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let map = &value["order_maps"][0];
        assert_eq!((&map["name"], &map["hash"]), (&json!("ring 0,1,2, 34 parts (chunks of 5)"), &json!("0123")));
        assert_eq!(
            map["runs"][1],
            json!({"first": 5, "elements": 5, "order": "chain 2,0,1", "computing": "rounded at each step"})
        );
        // An index without an explanation, which a damaged record may have, does not cause a panic.
        assert_eq!(map["runs"][2]["order"], json!(""));
        assert_eq!((map["runs"].as_array().unwrap().len(), &map["more_runs"]), (64, &json!(38)));
        let report: CaseReport = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&report).unwrap(), text.trim_end());
    }

    #[test]
    fn every_line_reads_back() {
        let mut verdict = fixture::verdict("a", Status::Fail);
        verdict.reason = Some("rank 1".into());
        verdict.outputs = Some(vec![("b".into(), vec![None]), ("a".into(), vec![Some(vec![json!(1)])])]);
        let families = FamilySet::single(Shape::Tree, Rounding::EachStep, Scale::None);
        verdict.fingerprint = Some(Fingerprint { families, telling: 3, elements: 8 });
        let text = line(verdict);
        let report: CaseReport = serde_json::from_str(&text).unwrap();
        assert_eq!(report.outputs.iter().flat_map(|o| o.iter()).map(|(name, _)| name).collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!(serde_json::to_string(&report).unwrap(), text.trim_end());
    }

    #[test]
    fn lines_of_before_are_read() {
        let old = r#"{"case":"a","status":"fail","backend":"soft","outcome":"ok","reason":"it differs","seconds":0.5,
            "lanes":[{"lane":"exact","pass":false,"looked_at":2,"note":null}]}"#;
        let report: CaseReport = serde_json::from_str(old).unwrap();
        assert_eq!((report.file.as_str(), report.line, report.findings.len(), report.wall_seconds), ("", 0, 0, 0.0));
        assert!(matches!(serde_json::from_str(old), Ok(ReportLine::Case(case)) if *case == report));
    }

    #[test]
    fn a_skip_has_no_outcome() {
        let mut verdict = fixture::verdict("a", Status::Skip);
        verdict.outcome = None;
        verdict.reason = Some("needs \"2\" GPUs".into());
        let value: serde_json::Value = serde_json::from_str(&line(verdict)).unwrap();
        assert_eq!(
            value,
            json!({"case": "a", "file": "scenarios/a.toml", "line": 1, "status": "skip", "backend": "soft", "outcome": null,
                   "reason": "needs \"2\" GPUs", "seconds": 0.0, "wall_seconds": 0.0})
        );
    }
}
