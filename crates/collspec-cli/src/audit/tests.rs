//! Audits on a runner without a library, which makes up right observations and changes them for some faults.
use super::detected_by::DetectedBy;
use super::run::{AuditEvent, CaseRunner, JudgeFn, JudgedRuns};
use super::tally::ClassCounts;
use super::*;
use collspec_core::judge::Lane;
use collspec_core::judge::test_case::{self, cases, try_planned_case};
use collspec_core::oracle::Forecast;
use collspec_core::plan::{Limits, plan};
use collspec_core::scenario::Case;
use collspec_run::job::{Ended, Observation};
use collspec_suite::suite::{Prepared, Ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use wrong_nccl::{Fault, FaultMode, Reached};

/// Makes up the observations of runs, and counts them.
#[derive(Default)]
struct FakeRunner {
    planned: AtomicUsize,
    runs: AtomicUsize,
}

fn fault(id: &str) -> Fault {
    Fault::parse(id).unwrap()
}

/// The faults that this runner knows.
const KNOWN: [&str; 6] = ["F03", "F14", "F20", "F21", "F38", "F40"];

fn element(ready: &Ready, observation: &mut Observation, name: &str, rank: usize, index: usize) -> bool {
    let plan = &ready.plan;
    let Some(buffer) = plan.buffers.iter().find(|buffer| buffer.name == name) else { return false };
    let Some(place) = buffer.places[rank].filter(|place| (index as u64) < place.count) else { return false };
    let from = (plan.allocs[place.alloc].start() + place.offset) as usize + index * buffer.dtype.size();
    observation.images[place.alloc][from] ^= 1;
    true
}

/// Changes the observation as the fault would; false if the case does not reach the fault.
fn tamper(ready: &Ready, observation: &mut Observation, id: &str) -> bool {
    let last = ready.plan.n - 1;
    match id {
        "F03" => {
            let image = &mut observation.images[0];
            let end = image.len() - 1;
            image[end] ^= 1;
            true
        }
        // on a rank other than 0, and only after the 1,024th element of long buffers
        "F14" if ready.plan.n > 1 => {
            element(ready, observation, "out", last, 1500) || element(ready, observation, "out", last, 0)
        }
        "F20" => element(ready, observation, "in", 0, 0),
        "F38" => {
            observation.ended = Ended::Hung { proved: true, opening: false, waits: String::new() };
            observation.images.iter_mut().for_each(Vec::clear);
            true
        }
        // it is met, but nothing comes of it
        "F21" => true,
        _ => false,
    }
}

impl CaseRunner for FakeRunner {
    fn prepare(&self, case: &Arc<Case>) -> Result<Prepared, String> {
        self.planned.fetch_add(1, Ordering::Relaxed);
        let plan = plan(case, &Limits::default()).map_err(|faults| format!("{faults:?}"))?;
        let forecast = Forecast::new(&plan, 7).map_err(|faults| format!("{faults:?}"))?;
        Ok(Prepared::Ready(Box::new(Ready { plan, forecast })))
    }

    fn run(&self, ready: &Ready, wish: FaultMode, _: Option<f64>, judge: &JudgeFn<'_>) -> Result<JudgedRuns, String> {
        let runner = test_case::TestCase { plan: ready.plan.clone(), forecast: ready.forecast.clone() };
        let mut observation = runner.perfect();
        let mut reached = Reached::default();
        let mut meet = |id: &str| {
            let number = fault(id).number();
            reached[number / 64] |= 1 << (number % 64);
        };
        match wish {
            FaultMode::Sound => {}
            FaultMode::Trace => {
                KNOWN.into_iter().filter(|id| tamper(ready, &mut observation.clone(), id)).for_each(&mut meet)
            }
            FaultMode::Inject(injection) => {
                self.runs.fetch_add(1, Ordering::Relaxed);
                let id = injection.fault.entry().id;
                assert!(id != "F03" || ready.plan.case.name != "panics", "a defect of ours");
                if tamper(ready, &mut observation, id) {
                    meet(id);
                }
            }
        }
        observation.reached = Some(reached.to_vec());
        let name = ready.plan.case.name.as_str();
        if ["stands_still", "ends_silently"].contains(&name) {
            observation.reached = None;
            observation.reached_until_limit = (name == "stands_still").then_some(reached.to_vec());
        }
        let verdict = judge(&ready.plan, &ready.forecast, std::slice::from_ref(&observation));
        Ok((verdict, vec![observation]))
    }
}

fn suite(files: &[(&str, &str)]) -> CaseSet {
    let mut suite = CaseSet::default();
    for (name, text) in files {
        for case in cases(text) {
            let mut case = (*case).clone();
            case.name = case.name.replacen("test", name, 1);
            case.file =
                Arc::new(collspec_core::scenario::SourceFile { path: format!("{name}.toml"), text: (*text).into() });
            suite.cases.push(Arc::new(case));
        }
    }
    suite
}

const SUM: &str = "world_size = 2\nop = \"all_reduce\"\ninputs = [[1, 2], [3, 4]]\n";
const LONG: &str =
    "matrix.count = [1600, 2000]\nworld_size = 2\nop = \"all_reduce\"\ninputs = { each = \"i\", count = \"count\" }\n";
const ONE: &str = "world_size = 1\nop = \"all_reduce\"\ninputs = [[1, 2]]\n";

fn audit_of(files: &[(&str, &str)], select: &str, depth: Depth) -> (AuditReport, FakeRunner) {
    audit_with_jobs(2, files, select, depth)
}

fn audit_with_jobs(jobs: usize, files: &[(&str, &str)], select: &str, depth: Depth) -> (AuditReport, FakeRunner) {
    let runner = FakeRunner::default();
    let settings = AuditSettings { selection: select.parse().unwrap(), depth, jobs };
    let report = audit_on(&suite(files), &runner, &settings, |_| Ok(())).unwrap();
    (report, runner)
}

fn item<'r>(report: &'r AuditReport, id: &str) -> &'r ItemRow {
    report.items.iter().find(|row| row.item.id() == id).unwrap()
}

#[test]
fn faults_and_flaws_are_counted_by_case_and_file() {
    let files = [("a/sum", SUM), ("b/long", LONG), ("b/one", ONE)];
    let (report, runner) = audit_of(&files, "F03,F14,F20,F21,F38,F40,J01,J02,J03,J05,J06,J10", Depth::Cases);
    assert_eq!((report.cases, report.files.len()), (4, 3));
    let counts = |id: &str| {
        let row = item(&report, id);
        (row.caught, row.reached, row.caught_files, row.most_often_detected_by().map(DetectedBy::name))
    };
    assert_eq!(counts("F03"), (4, 4, 3, Some("invariants")));
    assert_eq!(counts("F14"), (3, 3, 2, Some("exact")));
    assert_eq!(counts("F38"), (4, 4, 3, Some("hang")));
    assert_eq!(counts("F21"), (0, 4, 0, None), "met, and never noticed");
    assert_eq!(counts("F40"), (0, 0, 0, None), "never met");
    let hides = |id: &str| -> Vec<_> {
        item(&report, id).hides.iter().map(|(fault, cases)| (fault.entry().id, *cases)).collect()
    };
    assert_eq!(hides("J01"), [("F14", 3)]);
    assert_eq!(hides("J02"), [("F14", 2)], "only the long one has more elements");
    assert_eq!(hides("J05"), [("F03", 4)]);
    assert_eq!(hides("J06"), [("F20", 4)]);
    assert_eq!(hides("J10"), [("F38", 4)]);
    assert!(item(&report, "J03").missed());
    assert!(report.has_misses());
    assert_eq!(report.classes(false), ClassCounts { caught: 4, all: 6 });
    assert_eq!(report.classes(true), ClassCounts { caught: 5, all: 6 });
    assert_eq!(runner.planned.load(Ordering::Relaxed), 4, "planned once, whatever the number of faults");
    assert_eq!((report.runs, runner.runs.load(Ordering::Relaxed)), (19, 19), "only under what it meets");
}

#[test]
fn files_lanes_and_folders_are_told_by_what_is_lost_without_them() {
    let (report, _) = audit_of(&[("a/sum", SUM), ("b/long", LONG), ("b/one", ONE)], "F03,F14,F38,J02", Depth::Cases);
    assert!(!report.has_misses());
    let alone: Vec<Vec<&str>> =
        report.files.iter().map(|file| file.unique.iter().map(|item| item.id()).collect()).collect();
    assert_eq!(alone, [vec![], vec!["J02"], vec![]]);
    assert_eq!(report.minimal_files, [1]);
    let lost = |lane: Lane| -> Vec<&str> {
        let found = report.lanes.iter().find(|without| without.lane == lane).unwrap();
        found.lost.iter().map(|fault| fault.entry().id).collect()
    };
    assert_eq!(lost(Lane::Exact), ["F14"]);
    assert_eq!(lost(Lane::Invariants), ["F03"]);
    assert_eq!(lost(Lane::Expected), ["F38"]);
    assert_eq!(lost(Lane::Bounded), [] as [&str; 0]);
    let folders: Vec<_> = report.folders.iter().map(|f| (f.folder.as_str(), f.items, f.lost.len())).collect();
    assert_eq!(folders, [("a", 4, 0), ("b", 3, 1)]);
}

#[test]
fn enough_cases_are_enough() {
    let many = "matrix.count = \"1..100\"\nworld_size = 1\nop = \"all_reduce\"\ninputs = { each = \"i\", count = \"count\" }\n";
    let many = many.replace("\"1..100\"", &format!("{:?}", (1..=100).collect::<Vec<_>>()));
    for (depth, enough, spare) in [(Depth::Quick, 20, 2), (Depth::Files, 2, 1)] {
        let (report, runner) = audit_of(&[("many", &many)], "F03,F21", depth);
        let row = item(&report, "F03");
        assert!(row.at_least && (enough..enough + spare).contains(&row.caught), "{depth:?}: {}", row.caught);
        assert_eq!(row.reached, 100, "the trace knows all");
        assert!(!item(&report, "F21").at_least);
        assert_eq!(
            runner.runs.load(Ordering::Relaxed),
            100 + row.caught,
            "what is not caught is looked for everywhere"
        );
    }
    let (report, _) = audit_of(&[("many", &many)], "F03", Depth::Cases);
    assert_eq!((item(&report, "F03").caught, item(&report, "F03").at_least), (100, false));
}

#[test]
fn cases_that_fail_soundly_end_the_audit() {
    let wrong = format!("{SUM}expect = [[4, 6], [4, 7]]\n");
    let suite = suite(&[("sum", SUM), ("wrong", &wrong)]);
    let runner = FakeRunner::default();
    let mut faulty = 0;
    let result = audit_on(&suite, &runner, &AuditSettings { jobs: 2, ..AuditSettings::default() }, |step| {
        faulty += usize::from(matches!(step, AuditEvent::RunDone { fault: Some(_), .. }));
        Ok(())
    });
    let Err(AuditError::FailsWithoutFault(failures)) = result else { panic!("{result:?}") };
    assert_eq!(failures.iter().map(|failed| failed.case.name.as_str()).collect::<Vec<_>>(), ["wrong"]);
    assert_eq!(faulty, 0);
}

#[test]
fn a_defect_of_ours_is_no_catch() {
    let (report, _) = audit_of(&[("panics", SUM)], "F03,F14", Depth::Cases);
    assert!(item(&report, "F03").missed());
    assert_eq!(item(&report, "F14").caught, 1);
    assert!(matches!(report.undecided.as_slice(), [(case, fault, _)] if case == "panics" && fault.entry().id == "F03"));
    assert!(report.has_misses());
}

#[test]
fn a_case_that_its_time_limit_ends_runs_with_what_it_met_until_then() {
    let faults = "F03,F14,F20,F21,F38,F40,F60";
    let (report, runner) = audit_of(&[("stands_still", SUM)], faults, Depth::Files);
    assert_eq!(runner.runs.load(Ordering::Relaxed), 5, "not with F40 and F60, which it does not meet");
    // The faults it would have met later are unknown, so it does not count among the cases that reach a fault.
    assert_eq!(item(&report, "F21").reached, 0);
    let (_, runner) = audit_of(&[("ends_silently", SUM)], faults, Depth::Files);
    assert_eq!(runner.runs.load(Ordering::Relaxed), 7, "it cannot name any");
}

#[test]
fn the_bench_is_right_when_nothing_is_asked_of_it() {
    for case in cases(LONG) {
        assert!(try_planned_case(&case).is_ok());
    }
}

#[test]
fn the_number_of_jobs_changes_no_count() {
    let files = [("a/sum", SUM), ("b/long", LONG), ("b/one", ONE)];
    let table = |jobs: usize| {
        let (report, runner) =
            audit_with_jobs(jobs, &files, "F03,F14,F20,F21,F38,F40,J01,J02,J03,J05,J06,J10", Depth::Files);
        (format!("{:?}", report.items), format!("{:?}", report.files), runner.runs.load(Ordering::Relaxed))
    };
    let one = table(1);
    assert!(one.2 > 6, "{one:?}");
    for jobs in [2, 3, 16] {
        assert_eq!(table(jobs), one, "{jobs} jobs");
    }
}
