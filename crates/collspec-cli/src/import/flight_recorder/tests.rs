use super::super::golden::{assert_golden, data, refusals};
use super::value::Node;
use super::{build, dump, files, import, pickle};
use proptest::prelude::*;
use std::fs;

fn imported(folder: &str, hang: bool) -> String {
    let folder = data(folder);
    let dumps = files(&folder).unwrap();
    import(&dumps, 20, hang).unwrap_or_else(|error| panic!("{error}")).text
}

#[test]
fn a_missing_rank_is_left_out_of_the_step_that_waits_for_it() {
    let text = imported("fr_missing_rank", false);
    assert_golden("fr_missing_rank.toml", &text);
    let refused = refusals(&text);
    assert!(refused.contains("rank 0 calls AllReduce sum of 1 f32, but rank 2 calls AllGather"), "{refused}");
    let hang = imported("fr_missing_rank", true);
    assert_eq!(refusals(&hang), "", "{hang}");
}

/// The JSON form has the same calls, without the lines that made them.
#[test]
fn json_and_pickle_say_the_same() {
    let mut dumps = files(&data("fr_missing_rank")).unwrap();
    dumps[2].path.set_extension("json");
    let steps = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with("  {"));
        lines.map(|line| line.split(" #").next().unwrap().trim().to_owned()).collect()
    };
    let with_json = import(&dumps, 20, false).unwrap().text;
    assert_eq!(steps(&with_json), steps(&imported("fr_missing_rank", false)));
}

/// An entry as JSON.
fn entry(record: usize, group: &str, number: u64, op: u64, name: &str, sizes: (&str, &str), state: &str) -> String {
    let (input, output) = sizes;
    format!(
        "{{\"record_id\": {record}, \"process_group\": [\"{group}\", \"{group}\"], \"collective_seq_id\": {number}, \"p2p_seq_id\": \
         {number}, \"op_id\": {op}, \"profiling_name\": \"nccl:{name}\", \"input_sizes\": {input}, \"input_dtypes\": [\"Float\"], \
         \"output_sizes\": {output}, \"output_dtypes\": [\"Float\"], \"state\": \"{state}\"}}"
    )
}

fn dump_of(rank: usize, groups: &str, entries: &[String]) -> dump::Dump {
    let text = format!("{{\"version\": \"2.10\", \"pg_config\": {groups}, \"entries\": [{}]}}", entries.join(", "));
    dump::parse(rank, "dump", text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

const WORLD: &str = "{\"w\": {\"desc\": \"default_pg\", \"ranks\": \"[0, 1]\"}}";

fn built(dumps: Vec<dump::Dump>) -> String {
    build::build(&[], dumps, 20, false).unwrap_or_else(|error| panic!("{error}")).text
}

#[test]
fn messages_of_one_launch_are_a_group_and_lost_ones_are_left_out() {
    let one = "[[4]]";
    let dumps = (0..2).map(|rank| {
        let other = 1 - rank;
        let mut entries = Vec::new();
        for round in 0..3usize {
            let state = if round < 2 { "completed" } else { "started" };
            let op = round as u64 + 1;
            let send = format!("send {rank}->{other}");
            let recv = format!("recv {rank}<-{other}");
            entries.push(entry(10 + 3 * round, "w", 0, op, &send, (one, one), state));
            entries.push(entry(11 + 3 * round, "w", 0, op, &recv, (one, one), state));
            entries.push(entry(12 + 3 * round, "w", 0, op, "coalesced", ("[]", "[]"), state));
        }
        // Rank 1's ring buffer has lost its first group.
        dump_of(rank, WORLD, &entries[3 * rank..])
    });
    let text = built(dumps.collect());
    assert_eq!(refusals(&text), "", "{text}");
    assert_eq!(text.matches("send_recv").count(), 2, "{text}");
    assert!(text.contains("1 call left out at the beginning"), "{text}");
}

/// Torch numbers each call of a launch, shows them as scheduled for ever, and follows the launch instead.
#[test]
fn a_launch_is_as_far_as_the_entry_at_its_end_says() {
    let one = "[[4]]";
    let dumps = (0..2).map(|rank| {
        let (send, recv) = (format!("send {rank}->{}", 1 - rank), format!("recv {rank}<-{}", 1 - rank));
        let entries = (0..2usize).flat_map(|round| {
            let (number, launch) = (round as u64 + 1, 2 * round as u64);
            let state = if round == 0 { "completed" } else { "started" };
            [
                entry(3 * round, "w", number, launch + 1, &send, (one, one), "scheduled"),
                entry(3 * round + 1, "w", number, launch + 2, &recv, (one, one), "scheduled"),
                entry(3 * round + 2, "w", number, launch + 2, "coalesced", ("[]", "[]"), state),
            ]
        });
        dump_of(rank, WORLD, &entries.collect::<Vec<String>>())
    });
    let text = built(dumps.collect());
    assert_eq!(text.matches("send_recv").count(), 2, "{text}");
    assert!(text.contains("2 steps, of which the first 1 were complete"), "{text}");
}

#[test]
fn a_send_that_was_never_made_is_named() {
    let one = "[[4]]";
    let sender = dump_of(0, WORLD, &[entry(0, "w", 1, 1, "all_reduce", (one, one), "completed")]);
    let receiver = dump_of(
        1,
        WORLD,
        &[
            entry(0, "w", 1, 1, "all_reduce", (one, one), "completed"),
            entry(1, "w", 1, 2, "recv 1<-0", (one, one), "scheduled"),
        ],
    );
    let text = built(vec![sender, receiver]);
    let refused = refusals(&text);
    assert!(refused.contains("rank 1 at step 2 (recv) waits for rank 0"), "{refused}\n{text}");
}

#[test]
fn groups_of_one_description_share_a_name_and_each_has_its_stream() {
    let dumps = (0..4).map(|rank| {
        let own = if rank < 2 { "[0, 1]" } else { "[2, 3]" };
        let groups = format!("{{\"t{}\": {{\"desc\": \"Mesh TP\", \"ranks\": \"{own}\"}}}}", rank / 2);
        let name = format!("t{}", rank / 2);
        dump_of(rank, &groups, &[entry(0, &name, 1, 1, "_reduce_scatter_base", ("[[2, 4]]", "[[4]]"), "completed")])
    });
    let text = built(dumps.collect());
    assert_eq!(refusals(&text), "", "{text}");
    assert!(text.contains("comms.mesh_tp = { groups = [[0, 1], [2, 3]] }"), "{text}");
    assert!(text.contains("comm = \"mesh_tp\", in = \"rs\", out = \"rs_out\", stream = \"mesh_tp\""), "{text}");
}

#[test]
fn uneven_pieces_and_roots_are_found_where_the_sizes_show_them() {
    let dumps = (0..2).map(|rank| {
        let list = if rank == 1 { "[[3], [3]]" } else { "[]" };
        dump_of(
            rank,
            WORLD,
            &[
                entry(0, "w", 1, 1, "gather", ("[[3]]", list), "completed"),
                entry(1, "w", 2, 2, "scatter", (list, "[[3]]"), "completed"),
                // As torch does it: the part of each, and the first one of the root's list.
                entry(2, "w", 3, 3, "scatter", ("[[3]]", if rank == 1 { "[[3]]" } else { "[[0]]" }), "completed"),
                entry(3, "w", 4, 4, "all_to_all", ("[[1], [2]]", ["[[1], [1]]", "[[2], [2]]"][rank]), "completed"),
                entry(4, "w", 5, 5, "all_reduce_barrier", ("[[1]]", "[[1]]"), "completed"),
            ],
        )
    });
    let text = built(dumps.collect());
    assert_eq!(refusals(&text), "", "{text}");
    assert_eq!(text.matches("{ op = \"scatter\", root = 1").count(), 2, "{text}");
    for part in ["\"gather\", root = 1", "\"scatter\", root = 1", "counts = [[1, 2], [1, 2]]", "\"barrier\""] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

/// Two ranks of which each makes a call with its own sizes.
fn pair(name: &str, sizes: [(&str, &str); 2], state: &str, hang: bool) -> String {
    let dumps = (0..2).map(|rank| dump_of(rank, WORLD, &[entry(0, "w", 1, 1, name, sizes[rank], state)]));
    build::build(&[], dumps.collect(), 20, hang).unwrap_or_else(|error| panic!("{error}")).text
}

#[test]
fn ranks_that_disagree_about_a_broadcast_keep_their_sizes() {
    let text = pair("broadcast", [("[[4]]", "[[4]]"), ("[[5]]", "[[5]]")], "started", false);
    let refused = refusals(&text);
    assert!(refused.contains("but rank 1 calls Broadcast of 5 f32 with root 0"), "{refused}\n{text}");
}

#[test]
fn an_all_to_all_whose_sums_do_not_fit_keeps_what_each_rank_said() {
    let text = pair("all_to_all", [("[[7]]", "[[5]]"), ("[[5]]", "[[9]]")], "started", false);
    assert!(text.contains("# ranks disagree about an all_to_all"), "{text}");
    assert!(refusals(&text).contains("rank 1 receives 7 f32"), "{text}");
    // As lists: rank 1 awaits more of rank 0 than this sends.
    let text = pair("all_to_all", [("[[1], [2]]", "[[1], [3]]"), ("[[3], [4]]", "[[5], [4]]")], "started", false);
    assert!(refusals(&text).contains("rank 0 sends 2 f32, but rank 1 receives 5 f32"), "{text}");
}

#[test]
fn a_hang_that_the_calls_do_not_show_is_not_claimed() {
    for state in ["started", "completed"] {
        let text = pair("all_reduce", [("[[4]]", "[[4]]"); 2], state, true);
        assert_eq!(refusals(&text), "", "{text}");
        assert!(text.starts_with("# no outcome = \"hang\": ") && !text.contains("\noutcome"), "{text}");
    }
}

/// For each of these torch opens one group, and makes a call in it for every tensor, with that tensor's type and count.
#[test]
fn a_coalesced_collective_is_a_call_for_each_tensor() {
    for (name, op, sizes, calls) in [
        ("allreduce_coalesced", "all_reduce", ("[[10], [3, 4], [7]]", "[[10], [3, 4], [7]]"), 3),
        ("all_gather_into_tensor_coalesced", "all_gather", ("[[4], [6]]", "[[8], [12]]"), 2),
        ("reduce_scatter_tensor_coalesced", "reduce_scatter", ("[[8], [12]]", "[[4], [6]]"), 2),
        // Lists that torch copies into one tensor before and after one call.
        ("all_gather", "all_gather", ("[[4]]", "[[4], [4]]"), 1),
        ("reduce_scatter", "reduce_scatter", ("[[4], [4]]", "[[4]]"), 1),
    ] {
        let text = pair(name, [sizes; 2], "completed", false);
        assert_eq!(refusals(&text), "", "{text}");
        let own = format!("op = \"{op}\"");
        assert_eq!((text.matches(&own).count(), text.contains("op = \"group\"")), (calls, calls > 1), "{text}");
    }
    let text = pair("allreduce_coalesced", [("[[10], [3, 4], [7]]", "[[10], [3, 4], [7]]"); 2], "completed", false);
    for count in ["count = 10", "count = 12", "count = 7"] {
        assert!(text.contains(count), "{count}\n{text}");
    }
}

#[test]
fn ranks_that_coalesce_other_tensors_are_told_apart() {
    let three = ("[[10], [12], [7]]", "[[10], [12], [7]]");
    for (other, says) in [
        (("[[10], [12]]", "[[10], [12]]"), "waits for rank 1"),
        (
            ("[[10], [12], [8]]", "[[10], [12], [8]]"),
            "rank 0 calls AllReduce sum of 7 f32, but rank 1 calls AllReduce sum of 8 f32",
        ),
    ] {
        let text = pair("allreduce_coalesced", [three, other], "started", false);
        assert!(refusals(&text).contains(says), "{text}");
        assert!(text.contains("rank 1 has call 1 with other sizes"), "{text}");
    }
}

#[test]
fn each_tensor_has_its_type() {
    let entry = entry(0, "w", 1, 1, "allreduce_coalesced", ("[[4], [4]]", "[[4], [4]]"), "completed");
    let entry = entry.replace("[\"Float\"]", "[\"BFloat16\", \"Long\"]");
    let text = built((0..2).map(|rank| dump_of(rank, WORLD, std::slice::from_ref(&entry))).collect());
    assert_eq!(refusals(&text), "", "{text}");
    assert!(text.contains("dtype = \"bf16\"") && text.contains("dtype = \"i64\""), "{text}");
    assert!(!text.contains("guessed: f32"), "{text}");
}

/// To NCCL a complex number is two real ones.
#[test]
fn complex_tensors_are_twice_as_many_real_numbers() {
    for (torch, dtype) in [("ComplexHalf", "f16"), ("ComplexFloat", "f32"), ("ComplexDouble", "f64")] {
        for (name, sizes) in [("all_reduce", "[[5]]"), ("all_to_all", "[[3], [2]]"), ("all_gather", "[[5]]")] {
            let out = if name == "all_gather" { "[[5], [5]]" } else { sizes };
            let entry = entry(0, "w", 1, 1, name, (sizes, out), "started").replace("Float", torch);
            let text = built((0..2).map(|rank| dump_of(rank, WORLD, std::slice::from_ref(&entry))).collect());
            let whole = [format!("dtype = \"{dtype}\""), "count = 10".to_owned()].iter().all(|key| text.contains(key));
            let pieces = text.contains(dtype) && text.contains("6") && text.contains("4");
            assert!(if name == "all_to_all" { pieces } else { whole }, "{text}");
            assert!(!text.contains("guessed: f32"), "{text}");
        }
    }
}

/// If the sizes differ, torch makes one broadcast or reduce for each rank, in the order of the ranks, and records a last entry for all of
/// them.
#[test]
fn collectives_of_unlike_sizes_have_the_roots_of_their_parts() {
    for (name, end, op) in [
        ("_broadcast_oop", "ALLGATHER_coalesced", "broadcast"),
        ("_broadcast_oop", "coalesced", "broadcast"),
        ("_reduce_oop", "REDUCE_SCATTER_coalesced", "reduce"),
    ] {
        let entries = [
            entry(0, "w", 1, 1, name, ("[[3]]", "[[3]]"), "scheduled"),
            entry(1, "w", 1, 2, name, ("[[5]]", "[[5]]"), "scheduled"),
            entry(2, "w", 1, 2, end, ("[]", "[]"), "completed"),
        ];
        let text = built((0..2).map(|rank| dump_of(rank, WORLD, &entries)).collect());
        assert_eq!(refusals(&text), "", "{text}");
        assert!(text.contains(&format!("op = \"{op}\", root = 1")), "{text}");
        assert!(!text.contains("guessed: root") && !text.contains("left out"), "{text}");
        assert!(text.contains("call 1 was complete") || text.contains("; call 1"), "{text}");
    }
}

/// Torch before 2.7 records nothing of them but their end.
#[test]
fn ends_without_their_calls_are_told() {
    let entries = [
        entry(0, "w", 1, 1, "all_reduce", ("[[3]]", "[[3]]"), "completed"),
        entry(1, "w", 2, 2, "coalesced", ("[]", "[]"), "completed"),
    ];
    let text = built((0..2).map(|rank| dump_of(rank, WORLD, &entries)).collect());
    assert!(text.contains("left out: 2 groups of calls of which the dumps have only the end"), "{text}");
}

/// That calls are not complete does not say why the case cannot be run.
#[test]
fn calls_that_cost_too_much_are_told_even_if_they_are_not_complete() {
    let size = "[[3000000000]]";
    let text = pair("all_reduce", [(size, size); 2], "started", false);
    assert!(text.starts_with("# check refuses this: this case "), "{text}");
}

#[test]
fn a_rank_without_a_dump_has_made_what_others_completed() {
    let one = "[[4]]";
    let groups = "{\"w\": {\"desc\": \"default_pg\", \"ranks\": \"[0, 1, 2]\"}}";
    let dumps = [0, 2].map(|rank| {
        dump_of(
            rank,
            groups,
            &[
                entry(0, "w", 1, 1, "all_reduce", (one, one), "completed"),
                entry(1, "w", 2, 2, "all_reduce", (one, one), "started"),
            ],
        )
    });
    let text = built(dumps.to_vec());
    assert!(text.contains("ranks = [0, 2]") && text.contains("rank 1 has no dump"), "{text}");
    let refused = refusals(&text);
    assert!(refused.contains("wait for rank 1") || refused.contains("waits for rank 1"), "{refused}\n{text}");
}

#[test]
fn pickles_that_would_call_something_are_refused_at_their_byte() {
    let read = |bytes: &[u8]| pickle::read(bytes).map(|_| ()).map_err(|wrong| (wrong.offset, wrong.message));
    let (offset, message) = read(b"\x80\x02cos\nsystem\n.").unwrap_err();
    assert!(offset == 2 && message.contains("GLOBAL"), "{message}");
    let (offset, message) = read(b"\x80\x04\x8c\x02os\x8c\x06system\x93.").unwrap_err();
    assert!(offset == 14 && message.contains("STACK_GLOBAL"), "{message}");
    assert_eq!(read(b"\x80\x02K\x01R.").unwrap_err().0, 4);
    // A length that is not there, a value that was not kept, an end that is missing.
    assert_eq!(read(b"\x80\x02X\xff\xff\xff\x7fabc.").unwrap_err().0, 2);
    assert_eq!(read(b"\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\xff.").unwrap_err().0, 2);
    assert_eq!(read(b"\x80\x02h\x07.").unwrap_err().0, 2);
    assert_eq!(read(b"\x80\x02]").unwrap_err().0, 3);
    assert!(read(b"\x80\x02\x8a\x20").unwrap_err().1.contains("32 bytes"));
}

/// A list in a list in a list, and a list that contains itself, are values like others.
#[test]
fn depth_costs_nothing() {
    let mut bytes = b"\x80\x02".to_vec();
    bytes.extend(std::iter::repeat_n(b']', 1_000_000));
    bytes.extend(std::iter::repeat_n(b'a', 999_999));
    bytes.push(b'.');
    assert!(pickle::read(&bytes).is_ok());
    let itself = pickle::read(b"\x80\x02]q\x00h\x00a.").unwrap();
    assert_eq!(itself.get(itself.root), &Node::List(vec![itself.root]));
    let deep = "[".repeat(100_000);
    assert!(dump::parse(0, "deep.json", format!("{{\"entries\": {deep}").as_bytes()).is_err());
}

#[test]
fn numbers_are_those_of_python() {
    for (bytes, value) in [
        (&b"\x80\x02K\xff."[..], 255),
        (b"\x80\x02M\xff\xff.", 65535),
        (b"\x80\x02J\xff\xff\xff\xff.", -1),
        (b"\x80\x02\x8a\x00.", 0),
        (b"\x80\x02\x8a\x02\x00\xff.", -256),
        (b"\x80\x02\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00.", 18_446_744_073_709_551_615),
    ] {
        let values = pickle::read(bytes).unwrap();
        assert_eq!(values.get(values.root), &Node::Int(value));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = dump::parse(0, "bytes", &bytes);
    }

    /// Opcodes in any order.
    #[test]
    fn any_opcodes_are_refused_or_values(
        codes in prop::collection::vec(prop::sample::select(&b".(012N]})taesuqrhjKMJGXUBC\x80\x85\x86\x87\x88\x89\x8a\x8b\x8c\x94\x95\x00\x01\x05"[..]), 0..200)
    ) {
        let _ = dump::parse(0, "codes", &codes);
    }

    /// Dumps of which bytes were changed or the end is missing.
    #[test]
    fn changed_dumps_are_refused_or_become_a_scenario(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..10),
        end in any::<prop::sample::Index>(),
        cut in any::<bool>(),
        json in any::<bool>(),
    ) {
        let folder = data("fr_missing_rank");
        let mut dumps = Vec::new();
        for rank in 0..4 {
            let extension = if json && rank == 2 { ".json" } else { "" };
            let name = format!("nccl_trace_rank_{rank}{extension}");
            let mut bytes = fs::read(folder.join(name)).unwrap();
            if rank == 2 {
                for (at, byte) in &changes {
                    let at = at.index(bytes.len());
                    bytes[at] = *byte;
                }
                if cut {
                    bytes.truncate(end.index(bytes.len()));
                }
            }
            dumps.extend(dump::parse(rank, "changed", &bytes));
        }
        let _ = build::build(&[], dumps, 20, true);
    }
}

fn short(text: &[u8]) -> Vec<u8> {
    [&b"X"[..], &(text.len() as u32).to_le_bytes(), text].concat()
}

/// A pickle in which `shared` is kept, and named again `times` times by two bytes as an entry of the dump.
fn repeated(shared: &[u8], times: usize) -> Vec<u8> {
    let entries = b"h\x01".repeat(times);
    [b"\x80\x02", shared, b"q\x010}(", &short(b"entries")[..], b"](", &entries, b"eu."].concat()
}

fn pickled_entry(fields: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let fields = fields.iter().flat_map(|(key, value)| [short(key.as_bytes()), value.clone()].concat());
    [&b"}("[..], &fields.collect::<Vec<u8>>(), b"u"].concat()
}

/// 350 KB must not become gigabytes: each of these would be 100,000 copies of a text, of 8,000 tensors, or of an entry.
#[test]
fn a_pickle_that_repeats_values_is_refused_before_they_are_copied() {
    let name = || ("profiling_name", short(b"nccl:all_reduce"));
    let long = short(&vec![b'a'; 300_000]);
    let group = |name: &[u8]| ("process_group", [b"](", name, &short(b"d"), b"e"].concat());
    let tensor = [&b"]("[..], &b"K\x01".repeat(64), b"e"].concat();
    let tensors = [&tensor[..], b"q\x020](", &b"h\x02".repeat(8_000), b"e"].concat();
    let sizes = |key: &'static str| (key, [&b"]("[..], &tensor, b"e"].concat());
    for shared in [
        pickled_entry(&[name(), group(&long)]),
        pickled_entry(&[name(), group(&short(b"0")), ("input_sizes", b"h\x03".to_vec())]),
        pickled_entry(&[name(), group(&short(b"0")), sizes("input_sizes")]),
    ] {
        let kept = [&tensors[..], b"q\x030", &shared].concat();
        let refused = dump::parse(0, "bomb", &repeated(&kept, 90_000)).unwrap_err().to_string();
        assert!(refused.contains("repeats values so often"), "{refused}");
        // What a program could have recorded is read.
        assert_eq!(dump::parse(0, "dump", &repeated(&kept, 2)).unwrap().entries.len(), 2);
    }
    // Each tensor of an entry may be a call.
    let many = [short(b"nccl:allreduce_coalesced"), b"q\x04".to_vec()].concat();
    let coalesced = pickled_entry(&[("profiling_name", many), group(&short(b"0")), ("input_sizes", b"h\x03".to_vec())]);
    let kept = [&b"]q\x020]("[..], &b"h\x02".repeat(8_000)[..], b"eq\x030", &coalesced].concat();
    let padding = short(&vec![b'a'; 4_000_000]);
    let refused =
        dump::parse(0, "bomb", &repeated(&[&padding, &b"0"[..], &kept].concat(), 200)).unwrap_err().to_string();
    assert!(refused.contains("entries[131]: at most 1048576 calls"), "{refused}");
    let digits = [&b"]("[..], b"](", &short(&[b'0'; 5_000]), b"ee"].concat();
    let number = pickled_entry(&[name(), group(&short(b"0")), ("input_sizes", digits)]);
    assert!(dump::parse(0, "bomb", &repeated(&number, 1)).unwrap_err().to_string().contains("not a number"));
}

/// A rank without a dump is not the one that all wait for.
#[test]
fn a_rank_without_a_dump_goes_with_most_of_the_others() {
    let groups = "{\"w\": {\"desc\": \"default_pg\", \"ranks\": \"[0, 1, 2, 3]\"}}";
    let call =
        |number: u64, size, state| entry(number as usize - 1, "w", number, number, "all_reduce", (size, size), state);
    let dumps = (0..3).map(|rank| {
        let left_out = [call(2, "[[8]]", "started"), call(3, "[[4]]", "scheduled")];
        let calls = if rank == 2 { vec![call(2, "[[4]]", "started")] } else { left_out.to_vec() };
        dump_of(rank, groups, &[vec![call(1, "[[4]]", "completed")], calls].concat())
    });
    let text = built(dumps.collect());
    assert!(text.contains("ranks = [0, 1, 3]") && text.contains("the next one of most others"), "{text}");
    let refused = refusals(&text);
    assert!(
        refused.contains("rank 2 calls AllReduce sum of 4 f32") && !refused.contains("wait for rank 3"),
        "{refused}"
    );
}

/// Two calls have the same size on rank 0 and different sizes on rank 1. They cannot share a buffer then.
#[test]
fn all_to_alls_whose_sizes_differ_on_some_ranks_only_do_not_share_a_buffer() {
    let sizes =
        |rank: usize, call: usize| [[("[[5]]", "[[5]]"); 2], [("[[6]]", "[[6]]"), ("[[9]]", "[[9]]")]][rank][call];
    let dumps = (0..2).map(|rank| {
        let call = |at: usize| entry(at, "w", at as u64 + 1, at as u64 + 1, "all_to_all", sizes(rank, at), "completed");
        dump_of(rank, WORLD, &[call(0), call(1)])
    });
    let text = built(dumps.collect());
    assert_eq!((refusals(&text).as_str(), text.matches("inputs.aa").count()), ("", 2), "{text}");
}
