//! Plans: calls, places, order, foresight and refusals.
use collspec_core::plan::{Event, Foresight, Limits, Plan, plan};
use collspec_core::scenario::{Diagnostic, SourceFile, parse};
use collspec_run::job::{CallKind, Ptr};
use std::sync::Arc;

fn planned(text: &str) -> Result<Plan, Vec<Diagnostic>> {
    let file = Arc::new(SourceFile { path: "test.toml".to_owned(), text: text.into() });
    let cases = parse(&file, "test").unwrap_or_else(|e| panic!("{:?}\n{text}", e.diagnostics));
    let case = cases.into_iter().next().expect("a file has a case");
    plan(&Arc::new(case), &Limits::default())
}

fn good(text: &str) -> Plan {
    planned(text).unwrap_or_else(|d| panic!("{d:?}\n{text}"))
}

fn refusal(text: &str) -> String {
    match planned(text) {
        Ok(_) => panic!("was not refused:\n{text}"),
        Err(list) => list.into_iter().map(|d| d.message).collect::<Vec<_>>().join("\n"),
    }
}

#[test]
fn reduce_scatter_deals_out_blocks() {
    let p = good("world_size = 2\nop = \"reduce_scatter\"\ninputs = [[1, 2], [3, 4]]\n");
    assert_eq!(p.foresight, Foresight::Completes);
    let out = p.buffers.iter().find(|b| b.name == "out").expect("out");
    assert_eq!(out.places[1].map(|p| p.count), Some(1));
    let [Event::Collective(collective)] = &p.events[..] else { panic!("{:?}", p.events) };
    assert_eq!(collective.count(), 1);
    assert_eq!(collective.sends().map(|send| send.map(|r| r.len)).collect::<Vec<_>>(), [Some(2), Some(2)]);
    assert_eq!(collective.recvs().map(|recv| recv.map(|w| w.region.len)).collect::<Vec<_>>(), [Some(1), Some(1)]);
    assert!(matches!(p.prelude[0][..], [collspec_run::job::Call { kind: CallKind::Init { comm: 0, n: 2, .. }, .. }]));
}

#[test]
fn in_place_layouts_are_nccls() {
    let p = good("world_size = 3\nop = \"all_gather\"\nin_place = true\ninputs = { each = \"rank\", count = 2 }\n");
    for (rank, calls) in p.programs.iter().enumerate() {
        let [call] = &calls[..] else { panic!("{calls:?}") };
        let CallKind::Collective {
            send: Ptr::At { alloc: a, byte: from },
            recv: Ptr::At { alloc: b, byte: to },
            count: 2,
            ..
        } = call.kind
        else {
            panic!("{call:?}")
        };
        assert_eq!((a, from), (b, to + rank as u64 * 8));
        assert_eq!(p.allocs[a as usize].payload, 24);
    }
    let p = good("world_size = 3\nop = \"reduce_scatter\"\nin_place = true\ninputs = { each = \"rank\", count = 6 }\n");
    let CallKind::Collective { send: Ptr::At { byte: from, .. }, recv: Ptr::At { byte: to, .. }, .. } =
        p.programs[2][0].kind
    else {
        panic!()
    };
    assert_eq!(to, from + 16);
}

#[test]
fn a_recv_takes_its_count_from_a_send_further_down() {
    let p = good(
        "world_size = 2\ninputs.x = { each = \"rank\", count = 5, dtype = \"f16\" }\nsteps = [\n\
         { op = \"recv\", ranks = [1], peer = 0, out = \"y\" },\n{ op = \"send\", ranks = [0], peer = 1, in = \"x[1:4]\" },\n]\n",
    );
    let y = p.buffers.iter().find(|b| b.name == "y").expect("y");
    assert_eq!((y.dtype.name(), y.places[0], y.places[1].map(|p| p.count)), ("f16", None, Some(3)));
    assert!(matches!(p.events[..], [Event::Sent { .. }, Event::Received { .. }]));
}

const CROSSED: &str = "world_size = 2\ninputs.x = { each = \"rank\", count = 2 }\nsteps = [\n\
    { op = \"send\", peer = \"1 - rank\", in = \"x\" },\n{ op = \"recv\", peer = \"1 - rank\", out = \"y\" },\n]\n";

#[test]
fn both_send_first_is_recognised() {
    let text = refusal(CROSSED);
    assert!(text.contains("rank 0 at step 1 (send) waits for rank 1") && text.contains("rank 1 at step 1"), "{text}");
    let p = good(&format!("{CROSSED}outcome = [\"hang\", \"ok\"]\n"));
    let Foresight::MayBlock(circle) = &p.foresight else { panic!("{:?}", p.foresight) };
    assert_eq!(circle.iter().map(|w| (w.rank, w.on.clone())).collect::<Vec<_>>(), [(0, vec![1]), (1, vec![0])]);
    let grouped =
        CROSSED.replace("steps = [\n", "steps = [{ op = \"group\", steps = [\n").replace("},\n]\n", "},\n] }]\n");
    assert_eq!(good(&grouped).foresight, Foresight::Completes);
}

#[test]
fn both_recv_first_is_stuck() {
    let text = "world_size = 2\ninputs.x = { each = \"rank\", count = 2 }\noutcome = \"hang\"\nsteps = [\n\
        { op = \"recv\", peer = \"1 - rank\", out = \"y\" },\n{ op = \"send\", peer = \"1 - rank\", in = \"x\" },\n]\n";
    assert!(matches!(good(text).foresight, Foresight::Stuck(_)));
    assert!(refusal(&text.replace("outcome = \"hang\"\n", "")).contains("cannot finish"));
}

#[test]
fn a_hang_that_cannot_be_is_refused() {
    for outcome in ["\"hang\"", "[\"hang\", \"ok\"]"] {
        let text = refusal(&format!("world_size = 2\nop = \"all_reduce\"\ninputs = [[1], [2]]\noutcome = {outcome}\n"));
        assert!(text.contains("so it cannot hang"), "{text}");
    }
    let alone = "world_size = 1\noutcome = \"hang\"\n\
        steps = [{ op = \"recv\", peer = 0, count = 4, dtype = \"f32\", out = \"x\" }]\n";
    let text = refusal(alone);
    assert!(text.contains("rank 0 receives from itself"), "{text}");
}

#[test]
fn events_come_in_an_order_that_reads_what_was_written() {
    // Rank 1's map comes before the send in the file's order of ranks, but reads what rank 0 sends later.
    let p = good(
        "world_size = 2\ninputs.x = { each = \"rank + 1\", count = 1 }\nsteps = [\n\
         { op = \"recv\", ranks = [1], peer = 0, out = \"y\" },\n{ op = \"map\", ranks = [1], expr = \"2 * y\", out = \"z\" },\n\
         { op = \"map\", ranks = [0], expr = \"x + 10\", out = \"w\" },\n{ op = \"send\", ranks = [0], peer = 1, in = \"w\" },\n]\n",
    );
    let kinds: Vec<&str> = p
        .events
        .iter()
        .map(|e| match e {
            Event::Map(call) => p.buffers[call.op.out.buf].name.as_str(),
            Event::Sent { .. } => "sent",
            Event::Received { .. } => "received",
            _ => "other",
        })
        .collect();
    assert_eq!(kinds, ["w", "sent", "received", "z"]);
}

#[test]
fn splits_order_by_key_and_then_by_rank() {
    let p = good(
        "world_size = 4\ncomms.c = { color = [0, 1, 0, 0], key = [5, 0, 5, 1] }\ninputs.x = { each = \"rank\", count = 1 }\n\
         steps = [{ op = \"all_gather\", comm = \"c\", in = \"x\", out = \"y\" }]\n",
    );
    let mut members: Vec<_> =
        p.comms.iter().filter(|c| c.name.as_deref() == Some("c")).map(|c| c.members.clone()).collect();
    members.sort();
    assert_eq!(members, [vec![1], vec![3, 0, 2]]);
}

const STREAMS: &str = "world_size = 2\ninputs.x = { each = \"rank\", count = 2 }\nsteps = [\n\
    { op = \"all_reduce\", in = \"x\", out = \"y\", stream = \"a\" },\n{ op = \"map\", expr = \"y\", out = \"z\", stream = \"b\"AFTER },\n]\n";

#[test]
fn two_streams_need_an_order() {
    assert!(refusal(&STREAMS.replace("AFTER", "")).contains("on another stream"));
    assert_eq!(good(&STREAMS.replace("AFTER", ", after = [\"a\"]")).foresight, Foresight::Completes);
    let waited =
        STREAMS.replace("AFTER", "").replace("{ op = \"map\"", "{ op = \"wait\", stream = \"a\" },\n{ op = \"map\"");
    assert_eq!(good(&waited).foresight, Foresight::Completes);
    let wrong = waited.replace("stream = \"a\" },\n{ op = \"map\"", "stream = \"b\" },\n{ op = \"map\"");
    assert!(refusal(&wrong).contains("on another stream"));
}

#[test]
fn steps_of_a_group_are_not_ordered() {
    let text = refusal(
        "world_size = 2\ninputs.x = { each = \"rank\", count = 2 }\nsteps = [{ op = \"group\", steps = [\n\
         { op = \"all_reduce\", in = \"x\", out = \"y\" },\n{ op = \"all_reduce\", in = \"y\", out = \"z\" },\n] }]\n",
    );
    assert!(text.contains("within one group"), "{text}");
}

#[test]
fn an_abort_makes_what_cannot_finish_acceptable() {
    let text = "world_size = 2\ninputs.x = { each = \"rank\", count = 2 }\nsteps = [\n\
        { op = \"all_reduce\", ranks = [0], in = \"x\", out = \"y\" },\nABORT]\n";
    assert!(refusal(&text.replace("ABORT", "")).contains("cannot finish"));
    let p = good(&text.replace("ABORT", "{ op = \"abort\" },\n"));
    assert!(p.events.iter().any(|e| matches!(e, Event::Undefined { .. })), "{:?}", p.events);
}

#[test]
fn absurd_sizes_are_refused_at_once() {
    let text = refusal("world_size = 2\nop = \"all_reduce\"\ninputs = { each = \"rank\", count = 1000000000000 }\n");
    assert!(text.contains("limit of 16 GiB"), "{text}");
    let text = refusal(
        "world_size = 2\ninputs.x = { each = \"rank\", count = 1 }\nsteps = [{ op = \"loop\", times = 1000000000, steps = [\n\
         { op = \"all_reduce\", in = \"x\", out = \"y\" },\n] }]\n",
    );
    assert!(text.contains("the limit is 200,000"), "{text}");
}

#[test]
fn an_in_place_input_cannot_be_read_again() {
    let text = refusal(
        "world_size = 2\ninputs.x = { each = \"rank\", count = 2 }\nsteps = [\n\
         { op = \"all_reduce\", in_place = true, in = \"x\", out = \"y\" },\n{ op = \"all_gather\", in = \"x\", out = \"z\" },\n]\n",
    );
    assert!(text.contains("has given its memory to an in-place step"), "{text}");
}

#[test]
fn device_scalars_have_memory_of_their_own() {
    let p = good(
        "world_size = 2\nop = \"all_reduce\"\nreduce = { premul_sum = [0.5, 2] }\nscalar = \"device\"\ninputs = [[1], [2]]\n",
    );
    assert_eq!(p.constants.len(), 2);
    // The scalar that the call reads, and behind it the value that is copied there in stream order.
    assert_eq!(p.contents(p.constants[1].0, 1).ok().flatten(), Some(2f32.to_le_bytes().repeat(2)));
}

#[test]
fn a_buffer_grows_until_its_last_open_slice_is_known() {
    // `y` is read whole before the step that makes it longest stands resolved: its count comes from a send further down.
    let p = good(
        "world_size = 2\ninputs.x = { each = \"rank\", count = 2 }\nsteps = [\n\
         { op = \"map\", expr = \"x\", out = \"y[0:2]\" },\n{ op = \"recv\", peer = \"1 - rank\", ranks = [1], out = \"y[2:]\" },\n\
         { op = \"map\", expr = \"0 * y\", ranks = [1], out = \"z\" },\n\
         { op = \"map\", expr = \"i\", count = 3, ranks = [0], out = \"w\" },\n{ op = \"send\", ranks = [0], peer = 1, in = \"w\" },\n]\n",
    );
    let count = |name: &str| p.buffers.iter().find(|b| b.name == name).and_then(|b| b.places[1]).map(|p| p.count);
    assert_eq!((count("y"), count("z")), (Some(5), Some(5)));
}

#[test]
fn an_if_inside_of_an_index_counts_in_whole_numbers() {
    let faults = |index: &str| {
        let text = format!(
            "world_size = 2\nop = \"all_reduce\"\ninputs = {{ each = \"i\", count = 2 }}\nassert = [\"out[{index}] == 2\"]\n"
        );
        collspec_core::oracle::Forecast::new(&good(&text), 0).err().map(|faults| faults[0].message.clone())
    };
    assert_eq!(faults("if(3 / 2 == 1, 1, out[9])"), None, "the branch with `out[9]` is not taken");
    assert!(faults("if(3 / 2 == 2, 1, out[9])").is_some_and(|words| words.contains("`out[9]` is outside")));
}

#[test]
fn what_a_call_left_in_progress_writes_is_undefined_until_it_is_written_again() {
    let p = good(
        "world_size = 2\ninputs.x = { each = \"rank\", count = 3 }\n\
         comms.late = { groups = [[0, 1]], config = { blocking = 0 } }\nsteps = [\n\
         { op = \"map\", expr = \"x\", out = \"y\" },\n\
         { op = \"all_reduce\", comm = \"late\", in = \"x\", out = \"y\", error = \"in_progress\" },\n\
         { op = \"abort\", comm = \"late\" },\n\
         { op = \"all_reduce\", in = \"x\", out = \"y\" },\n]\n",
    );
    let y = p.buffers.iter().position(|b| b.name == "y").expect("y");
    // On each rank, in the order of events: what writes y.
    for rank in 0..2 {
        let writes = p.events.iter().filter(|event| {
            event.writes().iter().flatten().any(|write| write.region.buf == y && write.region.rank == rank)
        });
        let kinds: Vec<&str> = writes
            .map(|event| match event {
                Event::Map(_) => "map",
                Event::Undefined { .. } => "undefined",
                Event::Collective(_) => "collective",
                Event::Sent { .. } | Event::Received { .. } => "message",
            })
            .collect();
        let map = kinds.iter().position(|kind| *kind == "map").expect("a map writes y first");
        let behind = &kinds[map + 1..];
        assert!(matches!(behind, [.., "collective"]) && behind.len() > 1, "{kinds:?}");
        assert!(behind[..behind.len() - 1].iter().all(|kind| *kind == "undefined"), "{kinds:?}");
    }
}

/// The messages of all warnings.
fn warnings(text: &str) -> Vec<String> {
    good(text).warnings.iter().map(|warning| warning.message.clone()).collect()
}

const LAUNCHES: &str = "world_size = 3\ninputs.x = { each = \"rank\", count = 4 }\n\
    comms.a = { groups = [[0, 1]] }\ncomms.b = { groups = [[1, 2]] }\ncomms.c = { groups = [[2, 0]] }\n\
    comms.d = { groups = [[0, 1]] }\n";

#[test]
fn calls_in_a_circle_of_orders_are_warned_of() {
    let on = |op: &str, comm: &str, rank: usize| {
        format!(
            "{{ op = \"{op}\", comm = \"{comm}\", ranks = [{rank}], in = \"x\", out = \"{comm}\", stream = \"{comm}\" }},\n"
        )
    };
    let program = |calls: &[(&str, usize)]| -> String {
        let lines: String = calls.iter().map(|(comm, rank)| on("all_reduce", comm, *rank)).collect();
        // What connects is not looked at here.
        let warm: String = ["a", "b", "c", "d"]
            .map(|comm| format!("{{ op = \"all_reduce\", comm = \"{comm}\", in = \"x\", out = \"{comm}\" }},\n"))
            .concat();
        format!("{LAUNCHES}steps = [\n{warm}{{ op = \"wait\" }},\n{lines}]\n")
    };

    let circle = warnings(&program(&[("a", 0), ("c", 0), ("b", 1), ("a", 1), ("c", 2), ("b", 2), ("d", 0), ("d", 1)]));
    let [text] = &circle[..] else { panic!("{circle:?}") };
    for part in [
        "rank 0 issues step 6 (all_reduce) on `a` before step 7 (all_reduce) on `c`",
        "rank 1 issues step 8 (all_reduce) on `b` before step 9",
        "rank 2 issues step 10 (all_reduce) on `c` before step 11",
        "nothing orders them on rank 0",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let sound = warnings(&program(&[("a", 0), ("c", 0), ("a", 1), ("b", 1), ("b", 2), ("c", 2), ("d", 0), ("d", 1)]));
    assert!(sound.is_empty(), "{sound:?}");
}

#[test]
fn messages_and_signals_count_in_the_order_of_calls() {
    let two = "world_size = 2\ninputs.x = { each = \"rank\", count = 4 }\ncomms.a = { groups = [[0, 1]] }\nsteps = [\n\
        { op = \"all_reduce\", comm = \"a\", in = \"x\", out = \"y\" },\n\
        { op = \"all_reduce\", comm = \"a\", ranks = [0], in = \"x\", out = \"y\" },\n\
        { op = \"send_recv\", peer = \"1 - rank\", in = \"x\", out = \"z\", stream = \"side\" },\n\
        { op = \"all_reduce\", comm = \"a\", ranks = [1], in = \"x\", out = \"y\" },\n]\n";
    let told = warnings(two);
    let words = "rank 0 issues step 2 (all_reduce) on `a` before step 3 (send_recv) on `world`, rank 1 issues them the other way round";
    assert!(matches!(&told[..], [text] if text.contains(words)), "{told:?}");
    let after = two.replace("stream = \"side\" }", "stream = \"side\", after = [\"main\"] }");
    let told = warnings(&after);
    assert!(matches!(&told[..], [text] if text.contains("nothing orders them on rank 1")), "{told:?}");
    let same_order = two
        .replace("comm = \"a\", ranks = [0], in", "comm = \"a\", in")
        .replace("{ op = \"all_reduce\", comm = \"a\", ranks = [1]", "# {");
    assert!(warnings(&same_order).is_empty());

    let signals = "world_size = 2\ninputs.x = { each = \"rank\", count = 4, register = \"window\" }\n\
        inputs.w = { count = 4, register = \"window\" }\nsteps = [\n\
        { op = \"wait_signal\", peer = \"1 - rank\" },\n\
        { op = \"put\", peer = \"1 - rank\", in = \"x\", out = \"w\", stream = \"side\" },\n]\n";
    let told = warnings(signals);
    assert!(
        matches!(&told[..], [text] if text.contains("rank 0 issues step 1 (wait_signal) on `world` before step 2 (put)")),
        "{told:?}"
    );
    let first = signals
        .replace("{ op = \"wait_signal\", peer = \"1 - rank\" },\n", "")
        .replace("\n]", "\n{ op = \"wait_signal\", peer = \"1 - rank\" },\n]");
    assert!(warnings(&first).is_empty());
}

/// The time to look at the order of calls grows with the number of calls, not with its square.
#[test]
fn many_unordered_calls_cost_little() {
    let program = |stream: &str| {
        format!(
            "world_size = 64\ninputs.x = {{ each = \"rank\", count = 1 }}\ncomms.a = {{ color = 0 }}\ncomms.b = {{ color = 0 }}\nsteps = [\n\
             {{ op = \"loop\", times = 400, steps = [\n{{ op = \"all_reduce\", comm = \"a\", in = \"x\", out = \"y\" }},\n\
             {{ op = \"all_reduce\", comm = \"b\", in = \"x\", out = \"z\", stream = \"{stream}\" }},\n] }},\n]\n"
        )
    };
    let time = |stream: &str| {
        let start = std::time::Instant::now();
        assert!(warnings(&program(stream)).is_empty());
        start.elapsed()
    };
    let (one, two) = (time("main"), time("side"));
    assert!(two < 6 * one + std::time::Duration::from_secs(1), "{two:?} for two streams, {one:?} for one");
}

#[test]
fn first_collectives_that_wait_for_each_other_are_warned_of() {
    let start =
        "world_size = 2\ninputs.x = { each = \"rank\", count = 4 }\ncomms.a = { groups = [[0, 1]] }\nsteps = [\n";
    let sum = |comm: &str, rank: usize| {
        format!(
            "{{ op = \"all_reduce\", comm = \"{comm}\", ranks = [{rank}], in = \"x\", out = \"{comm}\", stream = \"s{comm}\" }},\n"
        )
    };
    let message = "{ op = \"send\", ranks = [0], peer = 1, in = \"x\" },\n{ op = \"recv\", ranks = [1], peer = 0, out = \"z\" },\n";
    let beside = format!("{start}{}{message}{}]\n", sum("a", 0), sum("a", 1));
    let told = warnings(&beside);
    assert!(matches!(&told[..], [text] if text.contains("if they connect at the first collective")), "{told:?}");
    // A file may know it.
    assert!(matches!(good(&format!("outcome = [\"hang\", \"ok\"]\n{beside}")).foresight, Foresight::MayBlock(_)));
    let warm = "{ op = \"all_reduce\", comm = \"a\", in = \"x\", out = \"a\" },\n";
    let warm = warm.replace("in = ", "stream = \"sa\", in = ");
    let told = warnings(&beside.replace("steps = [\n", &format!("steps = [\n{warm}")));
    assert!(!told.iter().any(|text| text.contains("connect")), "{told:?}");

    let end = |rank: usize| format!("{{ op = \"destroy\", comm = \"late\", ranks = [{rank}] }},\n");
    let late = "{ op = \"init\", new = \"late\", groups = [[0, 1]] },\n";
    let ends = format!(
        "{start}{late}{}{{ op = \"all_reduce\", comm = \"a\", in = \"x\", out = \"y\" }},\n{}]\n",
        end(0),
        end(1)
    );
    let told = warnings(&ends);
    assert!(
        matches!(&told[..], [text] if text.contains("these ranks may wait for each other while NCCL connects them")),
        "{told:?}"
    );
}

#[test]
fn a_communicator_that_some_ranks_destroy_and_others_cut_short_is_warned_of() {
    let program = |ends: &str| {
        warnings(&format!(
            "world_size = 3\ncomms.old = {{ color = 0 }}\ninputs.x = {{ each = \"rank\", count = 4 }}\nsteps = [\n\
             {{ op = \"all_reduce\", comm = \"old\", in = \"x\", out = \"y\" }},\n{{ op = \"wait\" }},\n{ends}]\n"
        ))
    };
    let call = |op: &str, ranks: &str| format!("{{ op = \"{op}\", comm = \"old\", ranks = {ranks} }},\n");
    let shrink = "{ op = \"shrink\", comm = \"old\", new = \"rest\", without = [2], abort = true },\n";
    for cut in [call("abort", "[2]"), call("revoke", "[2]"), shrink.to_owned()] {
        let told = program(&format!("{cut}{}", call("destroy", "[0, 1]")));
        let fits = |text: &String| text.contains("rank 0 destroys this communicator, and rank 2 does not");
        assert!(told.len() == 1 && told.iter().all(fits), "{cut}: {told:?}");
    }
    for sound in [
        call("abort", "[0, 1, 2]"),
        call("destroy", "[0, 1, 2]"),
        format!("{}{}", call("revoke", "[0, 1, 2]"), call("destroy", "[0, 1, 2]")),
        format!("{shrink}{}", call("abort", "[0, 1, 2]")),
    ] {
        assert_eq!(program(&sound), [""; 0], "{sound}");
    }
}

#[test]
fn launches_of_some_ranks_of_a_process_are_warned_of_where_all_launch_together() {
    let program = |placement: &str, calls: &str| {
        warnings(&format!(
            "world_size = 3\nplacement = \"{placement}\"\nenv.NCCL_LAUNCH_MODE = \"GROUP\"\n\
             inputs.x = {{ each = \"rank\", count = 6 }}\nsteps = [\n{calls}]\n"
        ))
    };
    let sum = "{ op = \"all_reduce\", in = \"x\", out = \"y\" },\n";
    let message = "{ op = \"send\", ranks = [0], peer = 1, in = \"x\" },\n{ op = \"recv\", ranks = [1], peer = 0, out = \"z\" },\n";
    let told = program("threads", &format!("{sum}{message}"));
    let fits = |text: &String| text.contains("rank 0 at step 2 (send) waits for rank 2 (it has launched less often");
    assert!(told.len() == 1 && told.iter().all(fits), "{told:?}");
    assert_eq!(program("threads", sum), [""; 0]);
    assert_eq!(program("processes", &format!("{sum}{message}")), [""; 0]);

    // As many launches on every rank, but rank 2 connects to the others in its first one, and they in their second.
    let to_itself = "{ op = \"send_recv\", ranks = [2], to = \"2\", from = \"2\", in = \"x\", out = \"own\" },\n";
    let told = program("threads", &format!("{message}{sum}{to_itself}"));
    let fits = |text: &String| {
        text.contains("rank 0 at step 1 (send) waits for rank 2 (it has launched less often")
            && text
                .contains("rank 2 at step 3 (all_reduce) waits for ranks 0, 1 (the ranks of a communicator may connect")
    };
    assert!(told.len() == 1 && told.iter().all(fits), "{told:?}");
    assert_eq!(program("threads", &format!("{sum}{message}{to_itself}")), [""; 0], "all are connected by the sum");

    // Rank 0 waits for its message to rank 1, which receives it in a second launch, and that launch waits for the second one of rank 0.
    let there = "{ op = \"send\", ranks = [0], peer = 1, in = \"x\" },\n{ op = \"send\", ranks = [1], peer = 2, in = \"x\" },\n\
                 { op = \"recv\", ranks = [2], peer = 1, out = \"z\" },\n";
    let back = "{ op = \"recv\", ranks = [1], peer = 0, out = \"z\" },\n{ op = \"send\", ranks = [0], peer = 2, in = \"x\" },\n\
                { op = \"recv\", ranks = [2], peer = 0, out = \"z\" },\n";
    let wait = "{ op = \"wait\", ranks = [0] },\n";
    let connected = "{ op = \"all_to_all\", in = \"x\", out = \"y\" },\n";
    assert_eq!(program("threads", &format!("{connected}{there}{back}")), [""; 0]);
    let told = program("threads", &format!("{connected}{there}{wait}{back}"));
    assert!(told.len() == 1 && told[0].contains("NCCL may wait without end"), "{told:?}");
}

#[test]
fn ranks_that_group_their_collectives_differently_are_warned_of() {
    let both = |ranks: &str| {
        format!(
            "{{ op = \"all_reduce\", in = \"x\", out = \"y\"{ranks} }}, {{ op = \"all_gather\", in = \"x\", out = \"z\"{ranks} }}"
        )
    };
    let grouped = |ranks: &str| format!("{{ op = \"group\"{ranks}, steps = [{}] }}", both(""));
    let program = |steps: &[String]| {
        let steps = steps.join(",\n");
        warnings(&format!("world_size = 3\ninputs.x = {{ each = \"rank\", count = 6 }}\nsteps = [\n{steps},\n]\n"))
    };
    let told = program(&[grouped(", ranks = [0, 1]"), both(", ranks = [2]")]);
    let fits = |text: &String| text.contains("ranks 0 and 2 put this call into different groups");
    assert!(told.len() == 1 && told.iter().all(fits), "{told:?}");
    assert_eq!(program(&[grouped(", ranks = [0, 1]"), grouped(", ranks = [2]")]), [""; 0]);
    assert_eq!(program(&[both(""), grouped("")]), [""; 0]);

    // A message beside a collective on one side, and before it on the other.
    let sum = |ranks: &str| format!("{{ op = \"all_reduce\", in = \"x\", out = \"y\"{ranks} }}");
    let send = "{ op = \"send\", peer = 1, in = \"x\" }";
    let recv = "{ op = \"recv\", ranks = [1], peer = 0, out = \"z\" }".to_owned();
    let mixed = format!("{{ op = \"group\", ranks = [0], steps = [{send}, {}] }}", sum(""));
    let connected = "{ op = \"all_to_all\", in = \"x\", out = \"w\" }".to_owned();
    let told = program(&[connected.clone(), mixed.clone(), recv, sum(", ranks = [1, 2]")]);
    assert!(told.iter().any(|text| text.contains("ranks 0 and 1 put this call into different groups")), "{told:?}");
    let also_mixed =
        format!("{{ op = \"group\", ranks = [1], steps = [{{ op = \"recv\", peer = 0, out = \"z\" }}, {}] }}", sum(""));
    assert_eq!(program(&[connected, mixed, also_mixed, sum(", ranks = [2]")]), [""; 0]);
}

#[test]
fn a_program_with_two_endings_says_both_and_nothing_of_its_results() {
    let program = |rest: &str| {
        format!(
            "world_size = 3\ncomms.a = {{ groups = [[0, 1, 2]] }}\ninputs.x = {{ each = \"rank\", count = 4 }}\nsteps = [\n\
             {{ op = \"all_reduce\", comm = \"a\", in = \"x\", out = \"y\" }},\n\
             {{ op = \"wait\", ranks = [1, 2] }},\n{{ op = \"abort\", comm = \"a\" }},\n]\n{rest}"
        )
    };
    let text = refusal(&program("outcome = \"hang\"\n"));
    assert!(text.contains("this program may not finish: ranks 1, 2"), "{text}");
    for said in ["expect.y = { each = 3 }\n", "assert = [\"y == 3\"]\n"] {
        let text = refusal(&program(&format!("outcome = [\"hang\", \"ok\"]\n{said}")));
        assert!(text.contains("nothing can be said of its results"), "{text}");
    }
}

#[test]
fn a_rank_that_aborts_its_own_call_does_not_wait_for_itself() {
    let text = refusal(
        "world_size = 2\ncomms.a = { groups = [[0, 1]], config = { blocking = 0 } }\ninputs.x = { each = \"rank\", count = 4 }\nsteps = [\n\
         { op = \"all_reduce\", comm = \"a\", in = \"x\", out = \"y\" },\n\
         { op = \"broadcast\", comm = \"a\", root = 5, in = \"x\", out = \"w\", error = \"invalid_argument\" },\n\
         { op = \"destroy\", comm = \"a\", error = \"invalid_argument\" },\n{ op = \"abort\", comm = \"a\" },\n]\n",
    );
    assert!(text.contains("rank 0 may abort the communicator before its step 1 (all_reduce) is over"), "{text}");
}

#[test]
fn an_abort_that_nothing_waits_for_is_refused_in_a_large_program() {
    let program = |wait: &str| {
        format!(
            "world_size = 128\ncomms.a = {{ color = 0 }}\ninputs.x = {{ each = \"rank\", count = 1 }}\nsteps = [\n\
             {{ op = \"all_reduce\", comm = \"a\", in = \"x\", out = \"y\", times = 1100 }},\n{wait}{{ op = \"abort\", comm = \"a\" }},\n]\n"
        )
    };
    let text = refusal(&program(""));
    assert!(text.contains("too many calls before this abort to tell which of them are over"), "{text}");
    assert_eq!(good(&program("{ op = \"wait\" },\n")).foresight, Foresight::Completes);
}
