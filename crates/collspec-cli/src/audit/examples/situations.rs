//! Faults of one operation in one situation: for each member of a family a scenario with that operation in that situation.

/// A scenario that catches this member of a family.
pub fn of_member(id: &str) -> Option<String> {
    let (family, operation) = id.split_once('-')?;
    let (_, scenario) = SITUATIONS.iter().find(|(of, _)| *of == family)?;
    let operation = match operation {
        "avg" | "max" => format!("op = \"all_reduce\", reduce = \"{operation}\""),
        "send_recv" => r#"op = "send_recv", to = "(rank + 1) % n", from = "(rank + n - 1) % n""#.to_owned(),
        "reduce" | "broadcast" | "scatter" => format!("op = \"{operation}\", root = 1"),
        _ => format!("op = \"{operation}\""),
    };
    // The number of elements for an output of four MiB depends on the operation.
    let elements = match id.split_once('-')?.1 {
        "all_gather" | "gather" => 524_288,
        "reduce_scatter" | "scatter" => 2_097_152,
        _ => 1_048_576,
    };
    Some(scenario.replace("OPERATION", &operation).replace("ELEMENTS", &elements.to_string()))
}

/// A scenario on this many ranks.
macro_rules! on {
    ($ranks:literal) => {
        concat!(
            "world_size = ",
            $ranks,
            "\ninputs.x = { each = \"100 * rank + i\", count = \"2 * n\", dtype = \"i32\" }\nsteps = [\n  ",
            "{ OPERATION, in = \"x\", out = \"y\" },\n]"
        )
    };
}

/// A scenario on two ranks with this many elements in each of its inputs.
macro_rules! on_two_ranks {
    ($count:literal, [$($input:literal),*], $steps:literal) => {
        concat!(
            "world_size = 2\n",
            $("inputs.", $input, " = { each = \"1000 * rank + i\", count = \"", $count, "\", dtype = \"i32\" }\n",)*
            "steps = [\n  ",
            $steps,
            "\n]"
        )
    };
}

/// Families, each with a scenario in which OPERATION is replaced by a step's keys without its buffers.
const SITUATIONS: &[(&str, &str)] = &[
    ("F95", on!("9")),
    ("F95b", on!("10")),
    ("F95c", on!("11")),
    ("F95d", on!("12")),
    ("F95e", on!("13")),
    ("F95f", on!("14")),
    ("F95g", on!("15")),
    ("F95h", on!("17")),
    ("F96", GROWN),
    ("F96b", SHRUNK),
    ("F96c", RESUMED),
    ("F97", on_two_ranks!("1025 * 4", ["x"], r#"{ OPERATION, in = "x", out = "y", in_place = true },"#)),
    (
        "F97b",
        on_two_ranks!(
            "4",
            ["x", "z"],
            r#"{ op = "group", steps = [
    { OPERATION, in = "x", out = "y", in_place = true },
    { OPERATION, in = "z", out = "w", in_place = true },
  ] },"#
        ),
    ),
    ("F97c", on_two_ranks!("4", ["x"], r#"{ OPERATION, in = "x", out = "y", in_place = true, graph = "g" },"#)),
    ("F97d", IN_GRAPH_ODD),
    ("F97e", CHILD_IN_PLACE),
    (
        "F98",
        on_two_ranks!(
            "4",
            ["x"],
            r#"{ OPERATION, in = "x", out = "y", in_place = true, algorithm = { prefer = "ring" } },"#
        ),
    ),
    (
        "F98b",
        on_two_ranks!("1025 * 4", ["x"], r#"{ OPERATION, in = "x", out = "y", algorithm = { prefer = "ring" } },"#),
    ),
    (
        "F98c",
        on_two_ranks!(
            "4",
            ["x", "z"],
            r#"{ op = "group", steps = [
    { OPERATION, in = "x", out = "y", algorithm = { prefer = "ring" } },
    { OPERATION, in = "z", out = "w", algorithm = { prefer = "ring" } },
  ] },"#
        ),
    ),
    (
        "F98d",
        on_two_ranks!(
            "4",
            ["x"],
            r#"{ OPERATION, in = "x", out = "y", graph = "g", algorithm = { prefer = "ring" } },"#
        ),
    ),
    ("F98e", CHILD_CONFIGURED),
    ("F98f", LARGE_IN_GRAPH),
    ("F98g", OF_FOUR_MEBIBYTES),
    (
        "F98h",
        on_two_ranks!(
            "4",
            ["x", "z"],
            r#"{ op = "group", steps = [
    { op = "all_reduce", in = "x", out = "v", stream = "a" },
    { OPERATION, in = "z", out = "w", stream = "b" },
  ] },"#
        ),
    ),
];

const GROWN: &str = r#"world_size = 3
inputs.x = { each = "100 * rank + i + 1", count = 6, dtype = "i32" }
comms.two = { groups = [[0, 1]] }
steps = [
  { op = "grow", new = "three", comm = "two", with = [2] },
  { OPERATION, comm = "three", in = "x", out = "y" },
]"#;

const SHRUNK: &str = r#"world_size = 4
inputs.x = { each = "100 * rank + i + 1", count = 6, dtype = "i32" }
steps = [
  { op = "shrink", new = "rest", without = [1] },
  { OPERATION, comm = "rest", in = "x", out = "y" },
]"#;

const RESUMED: &str = r#"world_size = 2
inputs.x = { each = "100 * rank + i", count = 6, dtype = "i32" }
steps = [
  { op = "suspend" },
  { op = "resume" },
  { op = "all_reduce", in = "x", out = "first" },
  { OPERATION, in = "x", out = "y" },
]"#;

const IN_GRAPH_ODD: &str = r#"world_size = 3
inputs.x = { each = "100 * rank + i + 1", count = 9, dtype = "i32" }
steps = [{ OPERATION, in = "x", out = "y", in_place = true, graph = "g" }]"#;

const CHILD_IN_PLACE: &str = r#"world_size = 4
inputs.x = { each = "100 * rank + i", count = 4, dtype = "i32" }
comms.child = { color = "rank % 2" }
steps = [{ OPERATION, comm = "child", in = "x", out = "y", in_place = true }]"#;

const CHILD_CONFIGURED: &str = r#"world_size = 4
inputs.x = { each = "100 * rank + i", count = 4, dtype = "i32" }
comms.child = { color = "rank % 2" }
steps = [{ OPERATION, comm = "child", in = "x", out = "y", algorithm = { prefer = "ring" } }]"#;

const LARGE_IN_GRAPH: &str = r#"world_size = 2
inputs.x = { each = "1000 * rank + i", count = 600000, dtype = "i32" }
steps = [{ OPERATION, in = "x", out = "y", graph = "g" }]"#;

const OF_FOUR_MEBIBYTES: &str = r#"world_size = 2
inputs.x = { each = "1000 * rank + i", count = ELEMENTS, dtype = "i32" }
steps = [{ OPERATION, in = "x", out = "y" }]"#;
