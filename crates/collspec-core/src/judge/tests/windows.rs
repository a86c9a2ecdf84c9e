//! Verdicts on a library that does not create windows, and on calls that stay in progress.
use crate::job::{Observation, PointerAnswer, WindowAnswer};
use crate::judge::test_case::planned_case;
use crate::judge::{Status, Verdict};
use nccl_sys::ncclResult_t;

const OFF_A_PAGE: &str = r#"
world_size = 2
inputs.x = { each = "rank + i", count = 2048 }
steps = [
  { op = "register", register = "window", in = "x[1:]", error = "invalid_argument" },
  { op = "all_reduce", in = "x", out = "y" },
]
"#;

/// The verdict on a right run after `change`.
fn after(text: &str, change: impl Fn(&mut Observation)) -> Verdict {
    let planned = planned_case(text);
    let mut run = planned.perfect();
    change(&mut run);
    planned.judge(&[run])
}

/// Registrations succeed, with a null window or another one.
fn accepted(given: bool) -> impl Fn(&mut Observation) {
    move |run| {
        for (rank, report) in run.ranks.iter_mut().enumerate() {
            let pointer = if given { PointerAnswer::Registered } else { PointerAnswer::Null };
            report.codes.clear();
            report.answers.windows = vec![WindowAnswer { id: rank as u32, given, pointer }];
        }
    }
}

#[test]
fn a_refusal_that_a_library_without_windows_cannot_make_is_a_skip() {
    assert_eq!(after(OFF_A_PAGE, |_| {}).status, Status::Pass);
    let with = after(OFF_A_PAGE, accepted(true));
    assert!(with.findings[0].text.contains("returned ok, expected invalid_argument"), "{with:?}");
    let without = after(OFF_A_PAGE, accepted(false));
    assert_eq!(without.status, Status::Skip, "{without:?}");
    assert!(without.reason.is_some_and(|reason| reason.contains("the refusal of a window needs windows")));
}

#[test]
fn what_else_is_wrong_is_not_skipped() {
    let verdict = after(OFF_A_PAGE, |run| {
        accepted(false)(run);
        run.ranks[1].answers.windows[0].pointer = PointerAnswer::Other;
    });
    assert_eq!(verdict.status, Status::Fail, "{verdict:?}");
}

#[test]
fn a_null_window_is_refused_before_2_30_only() {
    const SUM: &str = "world_size = 2\nop = \"all_reduce\"\ninputs = { each = 1, count = 4, register = \"window\" }\n";
    let asked = |version: i32, code: ncclResult_t| {
        let verdict = after(SUM, |run| {
            run.ranks[0].answers.version = Some(version);
            let pointer = PointerAnswer::Refused(code.0);
            run.ranks[0].answers.windows = vec![WindowAnswer { id: 0, given: false, pointer }];
        });
        verdict.status
    };
    assert_eq!(asked(22907, ncclResult_t::InvalidArgument), Status::Pass);
    assert_eq!(asked(22907, ncclResult_t::InternalError), Status::Fail);
    assert_eq!(asked(23000, ncclResult_t::InvalidArgument), Status::Fail);
}

#[test]
fn a_call_that_is_left_in_progress_may_be_over() {
    const LEFT: &str = r#"
world_size = 2
comms.late = { groups = [[0, 1]], config = { blocking = 0 } }
inputs.x = { each = 1, count = 2, dtype = "i64" }
steps = [
  { op = "all_reduce", comm = "late", in = "x", out = "y", error = "in_progress" },
  { op = "abort", comm = "late" },
]
"#;
    let answered = |code: Option<ncclResult_t>| {
        after(LEFT, |run| match code {
            None => run.ranks[1].codes.clear(),
            Some(code) => run.ranks[1].codes[0].1 = code.0,
        })
    };
    assert_eq!(answered(Some(ncclResult_t::InProgress)).status, Status::Pass);
    assert_eq!(answered(None).status, Status::Pass);
    assert_eq!(answered(Some(ncclResult_t::InvalidUsage)).status, Status::Fail);
    let made = LEFT.replace("comms.late = { groups = [[0, 1]], config = { blocking = 0 } }\n", "").replace(
        "{ op = \"all_reduce\", comm = \"late\", in = \"x\", out = \"y\", error = \"in_progress\" }",
        "{ op = \"init\", new = \"late\", groups = [[0, 1]], ranks = [0], config = { blocking = 0 }, error = \"in_progress\" }",
    );
    let made = made.replace(
        "comm = \"late\" },\n]",
        "comm = \"late\", ranks = [0] },\n  { op = \"all_gather\", in = \"x\", out = \"z\" },\n]",
    );
    assert_eq!(after(&made, |_| {}).status, Status::Pass);
    let verdict = after(&made, |run| run.ranks[0].codes.clear());
    assert!(verdict.findings[0].text.contains("returned ok, expected in_progress"), "{verdict:?}");
}
