//! The programs that the suites run themselves: several operations one after the other on the same communicator. A buffer
//! whose name starts with `timed` is not compared.
use std::fmt::Write;

/// A program's name and text.
type NamedProgram = (String, String);

/// The text of a program that is being written: its inputs and steps.
#[derive(Default)]
struct ProgramText {
    inputs: String,
    steps: String,
}

impl ProgramText {
    fn add_input(&mut self, name: &str, count: u64, dtype: &str) {
        // a String takes everything
        let _ = writeln!(self.inputs, "inputs.{name} = {{ each = 0, count = {count}, dtype = \"{dtype}\" }}");
    }

    fn add_step(&mut self, words: &str) {
        let _ = writeln!(self.steps, "  {{ {words} }},");
    }

    fn finish(&self, head: &str) -> String {
        format!("{head}\n{}steps = [\n{}]\n", self.inputs, self.steps)
    }
}

/// The keys of an operation's step besides its buffers; `blocks` if `in` has a block for every rank.
struct OperationSyntax {
    op: &'static str,
    keys: &'static str,
    blocks: bool,
    in_place: bool,
}

const OPERATIONS: &[OperationSyntax] = &[
    OperationSyntax { op: "all_reduce", keys: "", blocks: false, in_place: true },
    OperationSyntax { op: "reduce", keys: ", root = 1", blocks: false, in_place: true },
    OperationSyntax { op: "broadcast", keys: ", root = 1", blocks: false, in_place: true },
    OperationSyntax { op: "all_gather", keys: "", blocks: false, in_place: true },
    OperationSyntax { op: "gather", keys: ", root = 1", blocks: false, in_place: true },
    OperationSyntax { op: "reduce_scatter", keys: "", blocks: true, in_place: true },
    OperationSyntax { op: "scatter", keys: ", root = 1", blocks: true, in_place: true },
    OperationSyntax { op: "all_to_all", keys: "", blocks: true, in_place: false },
    OperationSyntax {
        op: "send_recv",
        keys: ", to = \"(rank + 1) % n\", from = \"(rank - 1) % n\"",
        blocks: false,
        in_place: false,
    },
];

/// `OP_perf -b 8 -e 1M -n 20 -w 5` with f32 and four ranks: a warm-up with the largest and the smallest size, then per size out of
/// place and in place one call, twenty timed ones, and one that is verified. The timed calls of the in-place half are
/// out of place here, the largest size is timed once, and sizes grow faster than by the usual factor of 2.
pub(super) fn nccl_tests() -> Vec<NamedProgram> {
    const RANKS: u64 = 4;
    const BYTES: [u64; 7] = [8, 32, 128, 512, 4 << 10, 32 << 10, 1 << 20];
    let program = |syntax: &OperationSyntax| {
        let mut program = ProgramText::default();
        let per_rank = matches!(syntax.op, "all_gather" | "gather" | "reduce_scatter" | "scatter" | "all_to_all");
        let count = |bytes: u64| {
            let all = bytes / 4;
            let own = if per_rank { all / RANKS / 4 * 4 } else { all };
            if syntax.blocks { own * RANKS } else { own }
        };
        let sizes: Vec<u64> = BYTES.into_iter().map(count).filter(|count| *count > 0).collect();
        let (op, keys) = (syntax.op, syntax.keys);
        for (i, count) in sizes.iter().enumerate() {
            for name in ["timed_a", "a", "c"].iter().take(if syntax.in_place { 3 } else { 2 }) {
                program.add_input(&format!("{name}{i}"), *count, "f32");
            }
        }
        let timed = |program: &mut ProgramText, i: usize, times: u32| {
            program
                .add_step(&format!("op = \"{op}\", in = \"timed_a{i}\", out = \"timed_b{i}\", times = {times}{keys}"));
            program.add_step("op = \"wait\"");
        };
        for i in [sizes.len() - 1, 0] {
            timed(&mut program, i, 5);
        }
        for i in 0..sizes.len() {
            let times = if i + 1 == sizes.len() { 1 } else { 21 };
            timed(&mut program, i, times);
            program.add_step(&format!("op = \"{op}\", in = \"a{i}\", out = \"b{i}\"{keys}"));
            program.add_step("op = \"wait\"");
            timed(&mut program, i, times);
            if syntax.in_place {
                program.add_step(&format!("op = \"{op}\", in = \"c{i}\", out = \"d{i}\", in_place = true{keys}"));
                program.add_step("op = \"wait\"");
            }
        }
        (format!("nccl-tests/{op}"), program.finish(&format!("world_size = {RANKS}")))
    };
    OPERATIONS.iter().map(program).collect()
}

/// A sweep as `TestBed::RunSimpleSweep` does it: buffers of the largest size, prepared once for all_reduce, broadcast and
/// reduce out of place; then what `GroupCallTests.cpp` and `SplitCommsTest.cpp` are about: several calls in a group, the same,
/// different ones, different types; the halves of a split communicator.
pub(super) fn rccl() -> Vec<NamedProgram> {
    let mut programs = Vec::new();
    for syntax in OPERATIONS.iter().filter(|syntax| matches!(syntax.op, "all_reduce" | "broadcast" | "reduce")) {
        let mut program = ProgramText::default();
        program.add_input("x", 393_216, "f32");
        let (op, keys) = (syntax.op, syntax.keys);
        for slice in ["", "[0:12888]", "[0:384]"] {
            program.add_step(&format!("op = \"{op}\", in = \"x{slice}\", out = \"y{slice}\"{keys}"));
            program.add_step("op = \"wait\"");
        }
        programs.push((format!("rccl/{op}"), program.finish("world_size = 4")));
    }
    let group = |name: &str, list: &[(&str, &str)]| {
        let mut program = ProgramText::default();
        let mut inner = String::new();
        for (i, (op, dtype)) in list.iter().enumerate() {
            let syntax = OPERATIONS.iter().find(|syntax| syntax.op == *op);
            let (keys, blocks) = syntax.map_or(("", false), |syntax| (syntax.keys, syntax.blocks));
            program.add_input(&format!("a{i}"), if blocks { 384 * 4 } else { 384 }, dtype);
            let _ = write!(inner, "{{ op = \"{op}\", in = \"a{i}\", out = \"b{i}\"{keys} }}, ");
        }
        program.add_step(&format!("op = \"group\", steps = [{inner}]"));
        (format!("rccl/{name}"), program.finish("world_size = 4"))
    };
    programs.push(group("group_of_the_same", &[("all_reduce", "f32"); 5]));
    let ops = ["broadcast", "reduce", "all_gather", "reduce_scatter", "all_reduce", "gather", "scatter", "all_to_all"];
    programs.push(group("group_of_different", &ops.map(|op| (op, "f32"))));
    programs.push(group("group_of_types", &["f32", "f64", "i32", "i8", "f16"].map(|dtype| ("all_reduce", dtype))));
    let mut split = ProgramText::default();
    split.add_input("x", 1024, "f32");
    split.add_step("op = \"all_reduce\", in = \"x\", out = \"y\", comm = \"half\"");
    let head = "world_size = 4\ncomms.half = { color = \"rank % 2\" }";
    programs.push(("rccl/split".to_owned(), split.finish(head)));
    programs
}

/// The tests called `multiple` and `persistent`: an operation in teams of two, seven and eight at once, three times over the same memory.
pub(super) fn ucc() -> Vec<NamedProgram> {
    let mut programs = Vec::new();
    for syntax in OPERATIONS.iter().filter(|syntax| !matches!(syntax.op, "scatter" | "send_recv")) {
        let reduces = syntax.op.contains("reduce");
        for count in if reduces { [4, 256, 65_536] } else { [1, 3, 8192] } {
            let mut program = ProgramText::default();
            let keys = if syntax.op == "reduce" { "" } else { syntax.keys };
            for (team, ranks, list) in [("two", 2, "[0, 1]"), ("seven", 7, "[0, 1, 2, 3, 4, 5, 6]"), ("world", 8, "")] {
                let elements = if syntax.blocks { (count / ranks).max(1) * ranks } else { count };
                let who = if list.is_empty() { String::new() } else { format!(", ranks = {list}") };
                let _ = writeln!(
                    program.inputs,
                    "inputs.{team}_in = {{ each = 0, count = {elements}, dtype = \"i32\"{who} }}"
                );
                program.add_step(&format!(
                    "op = \"{}\", in = \"{team}_in\", out = \"{team}_out\", comm = \"{team}\"{keys}",
                    syntax.op
                ));
            }
            let head = "world_size = 8\nrepeat = 3\ncomms.two = { groups = [[0, 1]] }\n\
                        comms.seven = { groups = [[0, 1, 2, 3, 4, 5, 6]] }";
            programs.push((format!("ucc/{}_{count}", syntax.op), program.finish(head)));
        }
    }
    programs
}
