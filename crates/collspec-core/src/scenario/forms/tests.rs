//! Tests how each form changes a case, and which cases it leaves unchanged.
use super::super::{Placement, SourceFile, Step, parse};
use super::*;
use crate::job::CallKind;
use crate::ops::Kind;
use crate::plan::{self, Limits, Plan};
use crate::scenario::EnvValue;
use std::sync::Arc;

fn case(text: &str) -> Case {
    let file = Arc::new(SourceFile { path: "x.toml".into(), text: text.into() });
    parse(&file, "a/x").unwrap_or_else(|rejected| panic!("{rejected}")).remove(0)
}

fn form(name: &str, text: &str) -> Result<Case, &'static str> {
    by_name(name).unwrap().apply(&case(text))
}

fn planned(case: Case) -> Plan {
    plan::plan(&Arc::new(case), &Limits::default()).unwrap_or_else(|faults| panic!("{faults:?}"))
}

fn made(name: &str, text: &str) -> Plan {
    planned(form(name, text).unwrap())
}

const SUM: &str = "world_size = 4\nop = \"all_reduce\"\ninputs = { each = \"rank + i\", count = 5 }\n";

const PROGRAM: &str = r#"
world_size = 3
inputs.x = { each = "rank", count = 3 }
steps = [
  { op = "all_reduce", in = "x", out = "a", name = "sum" },
  { op = "all_gather", in = "x", out = "b" },
  { op = "all_reduce", in = "a", out = "c" },
  { op = "map", expr = "c + 1", out = "d" },
  { op = "send_recv", to = "(rank + 1) % n", from = "(rank + n - 1) % n", in = "d", out = "e" },
]
assert = ["sum.rounds > 0", "sum.seconds < 100", "e[0] > 0"]
"#;

#[test]
fn names_are_words_of_their_own_and_every_form_says_what_it_is() {
    for (index, form) in FORMS.iter().enumerate() {
        assert!(super::super::names::is_identifier(form.name), "{form:?}");
        assert!(!form.doc.is_empty() && !form.doc.ends_with('.'), "{form:?}");
        assert_eq!(FORMS.iter().position(|other| other == form), Some(index), "{form:?} stands twice");
    }
}

#[test]
fn a_form_has_a_name_of_its_own_and_is_not_changed_again() {
    let tree = form("tree", SUM).unwrap();
    assert_eq!((tree.name.as_str(), tree.base_name()), ("a/x[form=tree]", "a/x"));
    assert!(by_name("ring").unwrap().apply(&tree).is_err());
}

#[test]
fn what_may_end_badly_is_left_alone() {
    for form in FORMS {
        let cases = ["\"hang\"", "[\"ok\", \"error\"]"].map(|outcome| case(&format!("{SUM}outcome = {outcome}\n")));
        assert!(cases.iter().all(|case| form.apply(case).is_err()), "{form:?}");
    }
    assert!(form("misaligned", &format!("{SUM}outcome = \"ok\"\n")).is_ok());
}

fn runs_in_place(step: &Step) -> bool {
    matches!(&step.kind, StepKind::Collective(collective) if collective.in_place.is_some())
}

#[test]
fn in_place_shares_the_memory_of_inputs_that_are_not_read_again() {
    let plan = made("in_place", SUM);
    for rank in 0..4 {
        let [a, b] = [0, 1].map(|buf| plan.buffers[buf].places[rank].unwrap());
        assert_eq!((a.alloc, a.offset), (b.alloc, b.offset));
    }
    // x is read twice, the last step is not a collective
    let changed = form("in_place", PROGRAM).unwrap();
    let places: Vec<bool> = changed.steps.iter().map(runs_in_place).collect();
    assert_eq!(places, [false, false, true, false, false]);
    planned(changed);
}

#[test]
fn in_place_asks_what_the_file_still_needs() {
    let program = |more: &str| {
        format!(
            "world_size = 2\ninputs.x = [[1, 2], [3, 4]]\nsteps = [{{ op = \"all_reduce\", in = \"x\", out = \"y\"{more}\n"
        )
    };
    assert!(form("in_place", &program(" }]")).is_ok());
    assert!(form("in_place", &program(" }]\nexpect.x = [[1, 2], [3, 4]]")).is_err());
    assert!(form("in_place", &program(" }]\nassert = [\"x[0] > 0\"]")).is_err());
    assert!(form("in_place", &program(", times = 2 }]")).is_err());
    assert!(form("in_place", &program(", in_place = false }]")).is_err());
    assert!(form("in_place", "world_size = 2\nop = \"all_to_all\"\ninputs = [[1, 2], [3, 4]]").is_err());
    // on ranks other than the root the snapshot would show the input
    let reduce = form("in_place", &SUM.replace("all_reduce", "reduce")).unwrap();
    assert_eq!(reduce.snapshot, Some(false));
    assert_eq!(form("in_place", SUM).unwrap().snapshot, None);
}

#[test]
fn misaligned_buffers_start_off_16_bytes_each_elsewhere() {
    for dtype in ["i8", "f16", "f32", "f64"] {
        let plan = made("misaligned", &format!("{PROGRAM}dtype = \"{dtype}\"\n"));
        let size = plan.buffers[0].dtype.size() as u64;
        let leads = |buf: usize| -> Vec<u64> {
            let places = plan.buffers[buf].places.iter().flatten();
            places.map(|place| plan.allocs[place.alloc].lead + place.offset).collect()
        };
        for buf in 0..plan.buffers.len() {
            let leads = leads(buf);
            assert!(leads.iter().all(|lead| lead % 16 != 0 && lead % size == 0), "{dtype} {leads:?}");
            assert!(leads.windows(2).all(|pair| pair[0] != pair[1]), "{dtype} {leads:?}");
        }
        assert_ne!(leads(0), leads(1));
    }
    let barrier = "world_size = 2\nop = \"barrier\"\n";
    assert!(form("misaligned", barrier).is_err());
}

#[test]
fn misaligned_windows_are_as_long_on_every_rank_as_without_the_form() {
    let put = "world_size = 4\ninputs.x = { each = 1, count = 1, dtype = \"f64\" }\ninputs.w = { count = 1, dtype = \"f64\" }\n";
    let steps = |before: &str| {
        format!(
            "steps = [{before}{{ op = \"put\", ranks = [3], peer = 1, in = \"x\", out = \"w\" }}, {{ op = \"wait_signal\", ranks = [1], peer = 3 }}]\n"
        )
    };
    let step = |name: &str| format!("{{ op = \"register\", register = \"window\", in = \"{name}\" }}, ");
    for text in
        [format!("{put}register = \"window\"\n{}", steps("")), format!("{put}{}", steps(&(step("x") + &step("w"))))]
    {
        let plan = made("misaligned", &text);
        for buf in 0..plan.buffers.len() {
            let places = plan.buffers[buf].places.iter().flatten();
            let leads: Vec<u64> = places.map(|place| plan.allocs[place.alloc].lead + place.offset).collect();
            assert!(leads.iter().all(|lead| lead % 16 != 0 && *lead == leads[0]), "{leads:?}");
        }
    }
}

#[test]
fn grouped_puts_neighbours_that_do_not_meddle_into_one_group() {
    let changed = form("grouped", PROGRAM).unwrap();
    let shape: Vec<(&str, usize)> = changed.steps.iter().map(|step| (step.op.name, step.inner().len())).collect();
    assert_eq!(shape, [("group", 2), ("group", 1), ("map", 0), ("group", 1)]);
    let asserts: Vec<&str> = changed.asserts.iter().map(|assert| &*assert.value.text).collect();
    assert_eq!(asserts, ["sum.rounds > 0", "e[0] > 0"]);
    let plan = planned(changed);
    let opened = plan.programs[0].iter().filter(|call| call.kind == CallKind::GroupStart).count();
    assert_eq!(opened, 4, "three groups and that of the send_recv");
}

#[test]
fn grouped_keeps_rounds_apart_and_leaves_the_files_groups_alone() {
    let text = r#"
world_size = 2
inputs.x = [[1], [2]]
steps = [
  { op = "broadcast", root = "t", times = 2, in = "x", out = "log[t : t + 1]" },
  { op = "loop", times = 2, steps = [{ op = "all_reduce", in = "x", out = "y" }, { op = "barrier" }] },
  { op = "group", steps = [{ op = "all_reduce", in = "x", out = "z" }] },
  { op = "broadcast", root = 5, in = "x", out = "w", error = "invalid_argument" },
  { op = "all_gather", in = "x", out = "u", stream = "s", after = ["main"] },
  { op = "all_gather", in = "x", out = "v", stream = "s", after = ["main"] },
]
"#;
    let changed = form("grouped", text).unwrap();
    let shape: Vec<(&str, usize)> = changed.steps.iter().map(|step| (step.op.name, step.inner().len())).collect();
    assert_eq!(shape, [("group", 1), ("loop", 2), ("group", 1), ("broadcast", 0), ("group", 1), ("group", 1)]);
    assert!(changed.steps[0].times.is_some() && changed.steps[0].inner()[0].times.is_none());
    let inner: Vec<&str> = changed.steps[1].inner().iter().map(|step| step.op.name).collect();
    assert_eq!(inner, ["group", "barrier"]);
    planned(changed);
    let grouped = "world_size = 2\ninputs.x = [[1], [2]]\nsteps = [{ op = \"group\", steps = [{ op = \"all_reduce\", in = \"x\", out = \"z\" }] }]";
    assert!(form("grouped", grouped).is_err());
}

#[test]
fn captured_gives_every_step_a_graph_that_is_launched_and_released() {
    let changed = form("captured", PROGRAM).unwrap();
    let shape: Vec<&str> = changed.steps.iter().map(|step| step.op.name).collect();
    let steps = ["all_reduce", "all_gather", "all_reduce", "map", "send_recv"];
    assert_eq!(shape, steps.map(|step| [step, "launch", "release"]).concat());
    let asserts: Vec<&str> = changed.asserts.iter().map(|assert| &*assert.value.text).collect();
    assert_eq!(asserts, ["e[0] > 0"]);
    let plan = planned(changed);
    let count = |is: fn(&CallKind) -> bool| plan.programs[0].iter().filter(|call| is(&call.kind)).count();
    assert_eq!(count(|kind| matches!(kind, CallKind::BeginCapture { .. })), 5);
    assert_eq!(count(|kind| matches!(kind, CallKind::Release { .. })), 5);
    assert_eq!(count(|kind| matches!(kind, CallKind::Captured { .. })), 8, "the send_recv is four calls");
    assert_eq!(count(|kind| matches!(kind, CallKind::Replayed { .. })), 8);
    assert_eq!(count(|kind| matches!(kind, CallKind::Collective { .. })), 0, "nothing runs by itself");
}

#[test]
fn captured_keeps_rounds_and_streams_and_leaves_what_cannot_be_captured() {
    let text = r#"
world_size = 2
inputs.x = [[1], [2]]
steps = [
  { op = "broadcast", root = "t", times = 2, in = "x", out = "log[t : t + 1]" },
  { op = "loop", times = 2, steps = [{ op = "map", expr = "x + t", out = "x" }, { op = "barrier" }] },
  { op = "group", steps = [{ op = "all_reduce", in = "x", out = "z" }] },
  { op = "broadcast", root = 5, in = "x", out = "w", error = "invalid_argument" },
  { op = "all_gather", in = "x", out = "u", stream = "s", after = ["main"] },
]
"#;
    let changed = form("captured", text).unwrap();
    let shape: Vec<(&str, usize)> = changed.steps.iter().map(|step| (step.op.name, step.inner().len())).collect();
    let last = [("all_gather", 0), ("launch", 0), ("release", 0)];
    let begin = [("loop", 3), ("loop", 4), ("group", 1), ("launch", 0), ("release", 0), ("broadcast", 0)];
    assert_eq!(shape, [&begin[..], &last].concat());
    assert!(changed.steps[0].times.is_some() && changed.steps[0].inner()[0].times.is_none());
    let launch = &changed.steps[7];
    assert_eq!((launch.stream.as_str(), launch.after.len(), changed.steps[6].after.len()), ("s", 1, 0));
    planned(changed);
    for own in ["graph = \"g\"", "stream = \"default\"", "placement = \"one_thread\""] {
        assert!(form("captured", &format!("{SUM}{own}\n")).is_err(), "{own}");
    }
    assert!(form("captured", "world_size = 2\nop = \"barrier\"\n").is_err());
}

#[test]
fn sub_makes_the_world_out_of_a_larger_one() {
    for n in [1, 2, 3, 4, 7, 8] {
        let plan = made("sub", &SUM.replace("world_size = 4", &format!("world_size = {n}")));
        assert_eq!((plan.n, plan.ranks(), plan.comms[0].members.len()), (n, n + 2, n));
        assert_eq!(plan.comms[0].members, (0..n).collect::<Vec<_>>());
        let mut numbers = Vec::new();
        for (rank, calls) in plan.prelude.iter().enumerate() {
            let [CallKind::Init { rank: number, n: of, .. }, CallKind::Split { new, color, key, .. }] =
                [0, 1].map(|at| &calls[at].kind)
            else {
                panic!("{calls:?}")
            };
            assert_eq!((*of as usize, *key as usize), (n + 2, rank));
            assert_eq!((*new, *color), if rank < n { (Some(0), 0) } else { (None, -1) });
            assert!(rank >= n || *number as usize != rank, "rank {rank} of {n} keeps its number");
            numbers.push(*number);
        }
        assert!(n < 2 || numbers[0] > numbers[1], "the order is the other way round");
        numbers.sort_unstable();
        assert_eq!(numbers, (0..n as i32 + 2).collect::<Vec<_>>());
        assert!(plan.programs[n..].iter().all(Vec::is_empty));
    }
}

#[test]
fn sub_needs_a_use_of_the_world() {
    let groups = format!("{SUM}groups = [[0, 1], [2, 3]]\n");
    assert!(form("sub", &groups).is_err());
    let split = format!("{SUM}comm = \"c\"\ncomms.c = {{ color = \"rank % 2\" }}\n");
    let plan = made("sub", &split);
    assert_eq!(plan.prelude[0].len(), 3);
    let large = SUM.replace("world_size = 4", "world_size = 1023");
    assert!(form("sub", &large).is_err());
    let processes = SUM.replace("world_size = 4", "world_size = 15") + "placement = \"processes\"\n";
    assert!(form("sub", &processes).is_err());
}

#[test]
fn placements_leave_the_files_own_alone() {
    assert_eq!(form("one_thread", SUM).unwrap().placement, Placement::OneThread);
    assert_eq!(form("processes", SUM).unwrap().placement, Placement::Processes);
    assert!(form("processes", &SUM.replace("world_size = 4", "world_size = 17")).is_err());
    for word in ["processes", "one_thread"] {
        let own = format!("{SUM}placement = \"{word}\"\n");
        assert!(form("processes", &own).is_err() && form("one_thread", &own).is_err());
    }
}

fn algorithm(name: &str, text: &str) -> Result<String, &'static str> {
    let case = form(name, text)?;
    match case.env.iter().find(|var| var.name.value == "NCCL_ALGO").map(|var| &var.value) {
        Some(EnvValue::All(value)) => Ok(value.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn algorithms_are_asked_for_where_an_operation_has_them() {
    assert_eq!(algorithm("ring", SUM).as_deref(), Ok("Ring"));
    assert_eq!(algorithm("tree", SUM).as_deref(), Ok("Tree"));
    // all_gather has only rings
    assert_eq!(algorithm("tree", PROGRAM).as_deref(), Ok("Ring;allreduce:Tree"));
    let single = "Ring;allreduce:SingleTree;reduce:SingleTree;broadcast:SingleTree";
    assert_eq!(algorithm("single_tree", PROGRAM).as_deref(), Ok(single));
    let reduce = SUM.replace("all_reduce", "reduce");
    assert!(algorithm("tree", &reduce).is_err());
    assert_eq!(algorithm("single_tree", &reduce).as_deref(), Ok("SingleTree"));
    assert!(algorithm("ring", &SUM.replace("all_reduce", "all_to_all").replace("count = 5", "count = 4")).is_err());
    assert!(algorithm("tree", &format!("{SUM}env.NCCL_ALGO = \"Ring\"\n")).is_err());
    assert_eq!(algorithm("tree", "world_size = 2\nop = \"barrier\"\n").as_deref(), Ok("Tree"));
    assert_eq!(form("single_tree", SUM).unwrap().requires.backend.as_deref(), Some("soft"));
    assert!(form("single_tree", &format!("{SUM}requires.backend = \"nccl\"\n")).is_err());
}

/// The software library knows every algorithm that a form requests; it would refuse an unknown name.
#[test]
fn the_software_library_serves_what_the_forms_ask_for() {
    for op in crate::ops::TABLE {
        let Kind::Collective(collective) = &op.kind else { continue };
        let text = SUM.replace("all_reduce", op.name).replace("count = 5", "count = 8");
        for (name, word) in [("ring", "Ring"), ("tree", "Tree"), ("single_tree", "SingleTree")] {
            let asked = form(name, &text).is_ok();
            assert_eq!(asked, collective.algorithms.contains(&word), "{name} of {}", op.name);
        }
    }
}

#[test]
fn an_algorithm_has_its_own_figures() {
    let asserts: Vec<String> =
        form("tree", PROGRAM).unwrap().asserts.iter().map(|a| a.value.text.to_string()).collect();
    assert_eq!(asserts, ["sum.seconds < 100", "e[0] > 0"]);
}

#[test]
fn eager_is_for_sends() {
    let eager = form("eager", PROGRAM).unwrap();
    assert!(eager.env.iter().any(|var| var.name.value == "COLLSPEC_SOFT_EAGER"));
    assert!(form("eager", SUM).is_err());
}

#[test]
fn what_the_file_says_stays_where_it_is() {
    for form in FORMS {
        let Ok(changed) = form.apply(&case(PROGRAM)) else { continue };
        let base = case(PROGRAM);
        assert_eq!(changed.world_size, base.world_size, "{form:?}");
        assert_eq!(changed.inputs.len(), base.inputs.len());
        let plan = planned(changed);
        assert_eq!(plan.n, 3, "{form:?}");
        let places = plan.buffers.iter().all(|buffer| buffer.places.len() == 3);
        assert!(places, "{form:?}");
    }
}
