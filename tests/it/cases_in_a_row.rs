//! Cases of one run get the verdicts that they get alone, also around one that ends its worker.
use collspec_core::judge::{Outcome, Status, Verdict};
use collspec_run::child::Workers;
use collspec_suite::report::{Event, Reporter};
use collspec_suite::suite::{CaseSet, ChosenBackend, RunOptions, Runner};
use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;

/// Small cases whose expected results differ from each other, one of them wrong; two larger cases; a case that is refused; and a case that ends its worker. They run in the order of their names.
const FILES: [(&str, &str); 5] = [
    (
        "a.toml",
        "world_size = 2\nop = \"all_reduce\"\ninputs = { each = \"k * 10 + rank\", count = 3 }\n\
         expect = { each = \"max(k, 1) * 20 + 1\" }\nmatrix.k = [KS]\n",
    ),
    ("b.toml", "world_size = 2\nop = \"all_reduce\"\ninputs = { each = \"i\", count = 300000 }\n"),
    (
        "c.toml",
        "world_size = 2\noutcome = \"crash\"\ninputs.x = [[1], [2]]\n\
         steps = [ { op = \"all_reduce\", in = \"x\", out = \"y\" }, { op = \"wait\" }, { op = \"exit\" } ]\n",
    ),
    (
        "d.toml",
        "world_size = 2\noutcome = \"refused\"\ninputs.x = { each = \"floor(1 / rank)\", count = 2, dtype = \"i32\" }\n\
         steps = [{ op = \"all_reduce\", in = \"x\", out = \"y\" }]\n",
    ),
    (
        "e.toml",
        "world_size = 2\nop = \"all_gather\"\ninputs = { each = \"k * 10 + rank\", count = 2 }\n\
         requires.nccl = \">=2.0\"\nmatrix.k = [KS]\n",
    ),
];

#[derive(Default)]
struct Verdicts(Vec<(String, Verdict)>);

impl Reporter for Verdicts {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        if let Event::CaseDone { case, verdict } = event {
            self.0.push((case.name.clone(), (**verdict).clone()));
        }
        Ok(())
    }
}

#[test]
fn cases_prepared_in_a_row_have_the_verdicts_that_they_have_alone() {
    let folder = tempfile::tempdir().unwrap();
    let numbers = (0..40).map(|k| k.to_string()).collect::<Vec<_>>().join(", ");
    for (name, text) in FILES {
        std::fs::write(folder.path().join(name), text.replace("KS", &numbers)).unwrap();
    }
    let suite = CaseSet::open(&[folder.path()]).unwrap();
    assert!(suite.invalid_files.is_empty(), "{:?}", suite.invalid_files);
    let options = |jobs| RunOptions {
        jobs: NonZeroUsize::new(jobs),
        workers: Workers::Command(env!("CARGO_BIN_EXE_collspec").into()),
        ..RunOptions::default()
    };
    let runner = Runner::soft(options(1)).unwrap();
    let alone: BTreeMap<String, Verdict> =
        suite.cases.iter().map(|case| (case.name.clone(), runner.run_case(case))).collect();
    for jobs in [1, 3] {
        let mut seen = Verdicts::default();
        suite.run(options(jobs), ChosenBackend::default(), &mut seen).unwrap();
        assert_eq!(seen.0.len(), suite.cases.len());
        for (name, verdict) in &seen.0 {
            let same = &alone[name];
            assert_eq!((&verdict.case, verdict.case == *name), (&same.case, true));
            assert_eq!(
                (verdict.status, &verdict.outcome),
                (same.status, &same.outcome),
                "{name}: {:?}",
                verdict.reason
            );
            assert_eq!(verdict.reason, same.reason, "{name}");
            assert_eq!(verdict.outputs, same.outputs, "{name}");
            let texts = |verdict: &Verdict| verdict.findings.iter().map(|f| f.text.clone()).collect::<Vec<_>>();
            assert_eq!(texts(verdict), texts(same), "{name}");
            assert!(verdict.wall_seconds > 0.0 || verdict.outcome.is_none(), "{name}");
        }
        let failed: Vec<_> = seen.0.iter().filter(|(_, v)| v.status == Status::Fail).map(|(name, _)| name).collect();
        assert_eq!(failed.len(), 1, "{failed:?}");
        let crashed: Vec<_> = seen.0.iter().filter(|(_, v)| v.outcome == Some(Outcome::Crash)).collect();
        assert!(matches!(crashed.as_slice(), [(name, _)] if name.ends_with('c')), "{failed:?}");
    }
}
