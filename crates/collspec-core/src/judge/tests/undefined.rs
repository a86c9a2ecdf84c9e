//! Contents that an abort leaves undefined: they are not judged, and a check that covers nothing else does not pass.
use crate::judge::Status;
use crate::judge::test_case::{TestCase, cases, planned_case, try_planned_case};

/// The first half of `y` is written by an operation that is over, the second by one that an abort may end.
const HALF: &str = "world_size = 2\ncomms.a = { groups = [[0, 1]] }\ninputs.x = { each = \"rank + 1\", count = 2 }\nsteps = [\n\
    { op = \"all_gather\", in = \"x\", out = \"y[0:4]\" },\n{ op = \"all_gather\", comm = \"a\", in = \"x\", out = \"y[4:8]\" },\n\
    { op = \"abort\", comm = \"a\" },\n]\n";

fn status(text: &str) -> (Status, Vec<String>) {
    let planned = planned_case(text);
    let verdict = planned.judge(&[planned.perfect()]);
    (verdict.status, verdict.notes)
}

fn refusal(text: &str) -> String {
    let refused = try_planned_case(&cases(text)[0]).err();
    refused.map(|diagnostics| diagnostics.iter().map(|d| d.message.clone()).collect()).unwrap_or_default()
}

#[test]
fn what_is_defined_is_compared_beside_what_is_not() {
    for (check, expected) in [
        ("expect.y = { each = [1, 1, 2, 2, 7, 7, 7, 7] }", Status::Pass),
        ("expect.y = { each = [1, 1, 2, 3, 7, 7, 7, 7] }", Status::Fail),
        ("assert = [\"i > 3 * y\"]", Status::Fail),
        ("assert = [\"y == floor(i / 2) + 1\"]", Status::Pass),
        ("assert = [\"y[3] == 2\", \"y[7 - rank * 7] < 2\"]", Status::Pass),
        ("assert = [\"y[3] == 7\"]", Status::Fail),
    ] {
        let (is, notes) = status(&format!("{HALF}{check}\n"));
        assert_eq!(is, expected, "{check}: {notes:?}");
    }
    let (_, notes) = status(&format!("{HALF}expect.y = {{ each = 7 }}\n"));
    assert!(notes.iter().any(|note| note.contains("4 of 8 elements of `y` on rank 0 are undefined")), "{notes:?}");
}

#[test]
fn a_check_of_nothing_but_undefined_elements_is_refused() {
    for check in [
        "expect.\"y[4:8]\" = { each = 7 }",
        "expect.\"y[5:]\" = [[1, 2, 3], \"any\"]",
        "expect.\"y[5:]\" = [\"any\", [1, 2, 3]]",
        "assert = [\"y[4] == 7\"]",
        "assert = [\"same(x, y)\"]",
        "assert = [\"2 * y[7] + x == 3\"]",
    ] {
        let refused = refusal(&format!("{HALF}{check}\n"));
        assert!(refused.contains("undefined"), "{check}: {refused}");
        // In a sweep, some cases may have nothing to compare.
        let (is, notes) = status(&format!("{HALF}variants.only = {{ repeat = 1 }}\n{check}\n"));
        assert!(is == Status::Pass && notes.iter().any(|note| note.contains("undefined")), "{check}: {is:?} {notes:?}");
    }
    for check in
        ["expect.y = \"any\"", "expect.y = { each = [1, 1, 2, 2, 7, 7, 7, 7] }", "assert = [\"if(rank < 2, 1, y[4])\"]"]
    {
        assert_eq!(refusal(&format!("{HALF}{check}\n")), "", "{check}");
    }
}

/// The elements that an assert reads may be known only after the run.
#[test]
fn an_assert_that_has_read_undefined_elements_alone_fails() {
    let text = format!("{HALF}assert = [\"y[x + 4] == 1\"]\n");
    let planned: TestCase = planned_case(&text);
    let verdict = planned.judge(&[planned.perfect()]);
    assert_eq!(verdict.status, Status::Fail);
    assert!(verdict.findings[0].text.contains("reads only undefined elements"), "{:#?}", verdict.findings);
}

/// A call that is left in progress may do its work until its communicator is aborted.
#[test]
fn what_a_call_in_progress_writes_is_undefined() {
    let text = "world_size = 2\ninputs.x = { each = \"rank + 1\", count = 2 }\nsteps = [\n\
        { op = \"init\", new = \"late\", groups = [[0, 1]], config = { blocking = 0 } },\n\
        { op = \"all_reduce\", comm = \"late\", in = \"x\", out = \"y\", error = \"in_progress\" },\n\
        { op = \"abort\", comm = \"late\" },\n{ op = \"all_reduce\", in = \"x\", out = \"z\" },\n]\n";
    let planned = planned_case(text);
    for (buffer, expected) in [("y", Status::Pass), ("z", Status::Fail)] {
        let mut seen = planned.perfect();
        planned.set_f32(&mut seen, buffer, 1, &[9.0]);
        assert_eq!(planned.judge(&[seen]).status, expected, "{buffer}");
    }
}

/// Ranks that meet on the host between an operation and its abort give the operation time, but do not wait for it.
#[test]
fn what_reads_an_aborted_result_is_undefined_although_ranks_meet_before_the_abort() {
    let text = "world_size = 2\ncomms.a = { groups = [[0, 1]] }\ninputs.x = { each = \"rank + 1\", count = 2 }\nsteps = [\n\
        { op = \"all_reduce\", comm = \"a\", in = \"x\", out = \"y\" },\n\
        { op = \"all_reduce\", in = \"y\", out = \"sum\" },\n{ op = \"all_reduce\", in = \"x\", out = \"other\" },\n\
        { op = \"init\", groups = [[0, 1]], new = \"late\" },\n{ op = \"abort\", comm = \"a\" },\n]\n";
    let planned = planned_case(text);
    for (buffer, expected) in [("y", Status::Pass), ("sum", Status::Pass), ("other", Status::Fail)] {
        for rank in 0..2 {
            let mut seen = planned.perfect();
            planned.set_f32(&mut seen, buffer, rank, &[9.0]);
            assert_eq!(planned.judge(&[seen]).status, expected, "{buffer} on rank {rank}");
        }
    }
}

/// Rank 0 aborts when rank 1 has its result, so the operation begins before the abort, but its part on rank 0 may be unfinished.
#[test]
fn an_operation_that_begins_before_its_abort_may_not_be_over() {
    let text = "world_size = 2\ncomms.a = { groups = [[0, 1]] }\ncomms.own = { groups = [[0], [1]] }\n\
        inputs.x = { each = \"rank + 1\", count = 2 }\nsteps = [\n\
        { op = \"all_reduce\", comm = \"a\", in = \"x\", out = \"y\" },\n{ op = \"wait\", ranks = [1] },\n\
        { op = \"all_reduce\", ranks = [0], comm = \"own\", in = \"INPUT\", out = \"z\" },\n\
        { op = \"init\", groups = [[0, 1]], new = \"late\" },\n{ op = \"abort\", ranks = [0], comm = \"a\" },\n]\n";
    for (input, expected) in [("x", Status::Fail), ("y", Status::Pass)] {
        let planned = planned_case(&text.replace("INPUT", input));
        let mut seen = planned.perfect();
        planned.set_f32(&mut seen, "z", 0, &[9.0]);
        assert_eq!(planned.judge(&[seen]).status, expected, "{input}");
    }
}

/// The rank that is left alone may wait without end, whichever rank aborts and even though the ranks meet before the abort.
#[test]
fn a_rank_that_waits_for_what_another_may_abort_is_refused() {
    for (aborting, waiting) in [(0, 1), (1, 0)] {
        for operation in [
            "{ op = \"all_reduce\", comm = \"a\", in = \"x\", out = \"y\" }".to_owned(),
            format!(
                "{{ op = \"send\", ranks = [{aborting}], peer = {waiting}, comm = \"a\", in = \"x\" }},\n\
                {{ op = \"recv\", ranks = [{waiting}], peer = {aborting}, comm = \"a\", out = \"y\", count = 2, dtype = \"f32\" }}"
            ),
        ] {
            let text = format!(
                "world_size = 2\ncomms.a = {{ groups = [[0, 1]] }}\ninputs.x = {{ each = \"rank + 1\", count = 2 }}\nsteps = [\n\
                {operation},\n{{ op = \"init\", groups = [[0, 1]], new = \"late\" }},\n\
                {{ op = \"abort\", ranks = [{aborting}], comm = \"a\" }},\n{{ op = \"wait\", ranks = [{waiting}] }},\n]\n"
            );
            let refused = refusal(&text);
            assert!(refused.contains(&format!("finish: rank {waiting}")), "{text}{refused}");
        }
    }
}

/// Rank 0 reaches the operation, aborts it, and only then rank 1 reaches it: no result is written on either.
#[test]
fn an_operation_whose_partner_comes_after_the_abort_is_undefined() {
    let text = "world_size = 3\ncomms.a = { groups = [[0, 1]] }\ninputs.x = { each = \"rank + 1\", count = 2 }\nsteps = [\n\
        { op = \"all_reduce\", ranks = [0], comm = \"a\", in = \"x\", out = \"y\" },\n\
        { op = \"init\", groups = [[0, 2]], new = \"early\" },\n{ op = \"abort\", ranks = [0], comm = \"a\" },\n\
        { op = \"init\", groups = [[1, 2]], new = \"late\" },\n\
        { op = \"all_reduce\", ranks = [1], comm = \"a\", in = \"x\", out = \"y\" },\n\
        { op = \"init\", groups = [[0, 1]], new = \"last\" },\n{ op = \"abort\", ranks = [1], comm = \"a\" },\n]\n";
    let planned = planned_case(text);
    for rank in 0..2 {
        let mut seen = planned.perfect();
        planned.set_f32(&mut seen, "y", rank, &[9.0]);
        assert_eq!(planned.judge(&[seen]).status, Status::Pass, "rank {rank}");
    }
}
