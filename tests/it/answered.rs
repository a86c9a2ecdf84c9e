//! Every text that is given as a scenario file gets an answer: a refusal that names its place, or a run of its cases.

use collspec_core::judge::{Lane, Status, Verdict};
use collspec_core::plan::Limits;
use collspec_core::printable::is_printable;
use collspec_core::scenario::{self, Case, Diagnostic, Placement, SourceFile, Span};
use collspec_run::child::Workers;
use collspec_run::run::memory::Turns;
use collspec_suite::suite::check_case::{CheckResult, check_case};
use collspec_suite::suite::{KeptPlans, Reading, RunOptions, Runner};
use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock};

/// Cases within these limits are quick to plan and to run.
static LIMITS: LazyLock<Limits> =
    LazyLock::new(|| Limits { memory: 16 << 20, ranks: 64, calls: 1 << 14, work: 20_000_000, ..Limits::default() });

static RUNNER: LazyLock<Runner> = LazyLock::new(|| {
    let workers = Workers::Command(env!("CARGO_BIN_EXE_collspec").into());
    let reading = Reading { limits: *LIMITS, ..Reading::default() };
    Runner::soft(RunOptions { jobs: NonZeroUsize::new(2), workers, reading, ..RunOptions::default() })
        .expect("a runner")
});

/// What became of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is no scenario file, or has a case that cannot be run as it is written.
    Refused,
    /// All its cases can run, and so many of them did.
    Ran(usize),
}

/// Reads, plans and runs the text's first `most` cases; fails the test if something is refused without its place, or is
/// neither refused nor run.
pub fn answer(text: &str, most: usize) -> Answer {
    let file = Arc::new(SourceFile { path: "x.toml".into(), text: text.into() });
    let cases = match scenario::parse(&file, "x") {
        Ok(cases) => cases,
        Err(rejected) => {
            assert_eq!((&rejected.file.path, &rejected.file.text), (&file.path, &file.text), "the file's own text");
            assert_places(&rejected.file, &rejected.diagnostics);
            return Answer::Refused;
        }
    };
    let turns = Turns::new(LIMITS.memory);
    let mut count = 0;
    for case in cases.into_iter().take(most).map(Arc::new) {
        match check_case(&KeptPlans::default(), &case, &LIMITS, &turns) {
            Err(diagnostics) => {
                assert_eq!(case.file.text, file.text, "the file's own text");
                assert_places(&case.file, &diagnostics);
                let placed = diagnostics.iter().all(|d| d.span != Span::default());
                assert!(placed, "a step, key or value is at fault: {diagnostics:?} of\n{text}");
                return Answer::Refused;
            }
            Ok(foreseen) if would_wait(&case, &foreseen) => {}
            Ok(_) => {
                let verdict = RUNNER.run_case(&case);
                let runs = verdict.outcome.is_some() || verdict.status == Status::Skip || verdict.reason.is_none();
                assert!(runs && !blames_a_sound_library(&verdict), "{:?} of\n{text}", verdict.reason);
                for span in verdict.findings.iter().filter_map(|finding| finding.span) {
                    assert!(text.get(span.start..span.end).is_some(), "{span:?} is no place in\n{text}");
                }
                count += 1;
            }
        }
    }
    Answer::Ran(count)
}

/// True if a run would take its time: a case that sleeps, or one whose processes stand still, which only a time limit ends.
fn would_wait(case: &Case, foreseen: &CheckResult) -> bool {
    let stands_still = matches!(foreseen, CheckResult::MayBlock(_) | CheckResult::Stuck(_));
    case.file.text.contains("\"sleep\"") || (stands_still && case.placement == Placement::Processes)
}

/// Asserts that each diagnostic says something and points into the file's text, also when it is shown.
pub fn assert_places(file: &SourceFile, diagnostics: &[Diagnostic]) {
    let text = &file.text;
    assert!(!diagnostics.is_empty(), "a refusal without a reason of\n{text}");
    for d in diagnostics {
        assert!(!d.message.trim().is_empty(), "{d:?} of\n{text}");
        for span in [d.span].into_iter().chain(d.related.iter().map(|(span, _)| *span)) {
            assert!(text.get(span.start..span.end).is_some(), "{span:?} is no place in\n{text}\n{d:?}");
        }
        let line = text[..d.span.start].matches('\n').count() + 1;
        let shown = scenario::render(file, std::slice::from_ref(d), false);
        assert!(text.is_empty() || shown.contains(&format!("{}:{line}:", file.path)), "line {line} is not in\n{shown}");
        assert!(shown.chars().all(|c| c == '\n' || is_printable(c)), "{shown:?}");
        assert!(!scenario::render(file, std::slice::from_ref(d), true).is_empty());
    }
}

/// True if the verdict is wrong: it blames the library, which is sound, or reports a mistake of collspec itself. A failure is
/// right where the file expects something that does not happen, for instance an error.
pub fn blames_a_sound_library(verdict: &Verdict) -> bool {
    if verdict
        .reason
        .as_ref()
        .is_some_and(|reason| [" answered ", " returned "].iter().any(|word| reason.contains(word)))
    {
        return false;
    }
    let ours = |lane: Lane| matches!(lane, Lane::Exact | Lane::Admissible | Lane::Bounded | Lane::Invariants);
    verdict.lanes.iter().any(|result| !result.pass && ours(result.lane))
        || verdict.reason.as_ref().is_some_and(|reason| reason.contains("collspec itself failed"))
}
