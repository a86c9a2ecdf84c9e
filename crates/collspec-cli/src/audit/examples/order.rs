//! Faults of streams, roots, groups, messages, communicators and failures.
use super::Example;

/// The faults, each with a scenario that it fails.
pub const EXAMPLES: &[Example] = &[
    ("F12", MAPS),
    ("F13", MAPS),
    ("F14", ROOTS),
    ("F15", CHILD),
    ("F30", TYPES),
    ("F30b", OPERATORS),
    ("F30c", ROOTS),
    ("F30d", COUNTS),
    ("F31", FIVE),
    ("F31b", FIVE),
    ("F31c", TWO_COMMUNICATORS),
    ("F31d", MANY_IN_A_GROUP),
    ("F32", MESSAGES),
    ("F32b", SIZES),
    ("F32c", MESSAGES),
    ("F33", SELF),
    ("F34", NOTHING),
    ("F34b", NOTHING),
    ("F35", NEIGHBOURS),
    ("F36", KEYS),
    ("F36b", TIES),
    ("F36c", COLOURS),
    ("F36d", MANY_TIES),
    ("F36e", FAR_COLOURS),
    ("F37", TINY),
    ("F37b", TINY),
    ("F38", TINY),
    ("F40", REFUSED_CALL),
    ("F40b", REFUSED_CALL),
    ("F53", DEVICE_SCALAR),
];

const MAPS: &str = r#"world_size = 2
inputs.x = { each = "rank + i", count = 5 }
steps = [
  { op = "map", expr = "2 * x + 1", out = "y" },
  { op = "all_reduce", in = "y", out = "z" },
  { op = "map", expr = "z + 1", out = "last" },
]"#;

const ROOTS: &str = r#"world_size = 3
inputs.x = { each = "10 * rank + i", count = 3 }
inputs.y = { each = "100 * rank + i", count = 6 }
steps = [
  { op = "group", steps = [
    { op = "broadcast", root = 1, in = "x", out = "a" },
    { op = "reduce", root = 2, in = "x", out = "b" },
    { op = "scatter", root = 2, in = "y", out = "c" },
    { op = "gather", root = 1, in = "x", out = "d" },
  ] },
]"#;

const CHILD: &str = r#"world_size = 4
comms.odd = { color = [-1, 0, -1, 0] }
inputs.x = { each = "10 * rank + i", count = 3 }
comm = "odd"
steps = [
  { op = "broadcast", root = 0, in = "x", out = "a" },
  { op = "gather", root = 0, in = "x", out = "b" },
]"#;

const TYPES: &str = r#"world_size = 2
inputs.x = { each = "rank + i", count = 4, dtype = "f16" }
inputs.y = { each = "rank + i / 3", count = 4, dtype = "f32" }
inputs.z = { each = "rank - i", count = 4, dtype = "f64" }
inputs.w = { each = "rank - i", count = 5, dtype = "i8" }
steps = [
  { op = "group", steps = [
    { op = "all_reduce", in = "x", out = "a" },
    { op = "all_reduce", in = "y", out = "b" },
    { op = "all_gather", in = "z", out = "c" },
    { op = "broadcast", in = "w", out = "d" },
  ] },
]"#;

const OPERATORS: &str = r#"world_size = 2
inputs.x = { each = "rank + i", count = 4 }
steps = [
  { op = "group", steps = [
    { op = "all_reduce", in = "x", out = "a" },
    { op = "all_reduce", reduce = "max", in = "x", out = "b" },
    { op = "all_reduce", reduce = "avg", in = "x", out = "c" },
    { op = "all_reduce", reduce = { premul_sum = 0.5 }, in = "x", out = "d" },
  ] },
]"#;

const COUNTS: &str = r#"world_size = 2
inputs.x = { each = "rank + i", count = 4 }
inputs.y = { each = "rank + i", count = 7 }
steps = [
  { op = "group", steps = [
    { op = "all_reduce", in = "x", out = "a" },
    { op = "all_reduce", in = "y", out = "b" },
  ] },
]"#;

const FIVE: &str = r#"world_size = 2
inputs.x = { each = "rank + i", count = 4 }
inputs.y = { each = "rank + i", count = 4 }
steps = [
  { op = "group", steps = [
    { op = "broadcast", in = "x", out = "a" },
    { op = "broadcast", in = "x", out = "b", root = 1 },
    { op = "broadcast", in = "x", out = "c" },
    { op = "broadcast", in = "x", out = "d", root = 1 },
    { op = "all_reduce", in = "y", out = "e", in_place = true },
  ] },
]"#;

const TWO_COMMUNICATORS: &str = r#"world_size = 2
comms.a = { groups = [[0, 1]] }
comms.b = { groups = [[1, 0]] }
inputs.x = { each = "10 ^ rank", count = 2 }
steps = [
  { op = "group", steps = [
    { op = "all_reduce", comm = "a", in = "x", out = "sum" },
    { op = "all_gather", comm = "b", in = "x", out = "all" },
  ] },
]"#;

const MANY_IN_A_GROUP: &str = r#"world_size = 2
inputs.x = { each = "100 * rank + i", count = 80 }
steps = [
  { op = "group", steps = [
    { op = "send", ranks = [0], peer = 1, times = 80, in = "x[t : t + 1]" },
    { op = "recv", ranks = [1], peer = 0, times = 80, out = "y[t : t + 1]" },
  ] },
]"#;

const MESSAGES: &str = r#"world_size = 2
inputs.x = { each = "rank + i", count = 4 }
inputs.y = { each = "rank - i", count = 4 }
steps = [
  { op = "group", steps = [
    { op = "send", ranks = [0], peer = 1, in = "x" },
    { op = "send", ranks = [0], peer = 1, in = "y" },
    { op = "recv", ranks = [1], peer = 0, out = "a" },
    { op = "recv", ranks = [1], peer = 0, out = "b" },
  ] },
]"#;

const SIZES: &str = r#"world_size = 2
outcome = ["hang", "error"]
inputs.x = { each = "rank + i", count = 4 }
inputs.y = { each = "rank - i", count = 5 }
steps = [
  { op = "group", steps = [
    { op = "send", ranks = [0], peer = 1, in = "x" },
    { op = "send", ranks = [0], peer = 1, in = "y" },
    { op = "recv", ranks = [1], peer = 0, count = 5, out = "a" },
    { op = "recv", ranks = [1], peer = 0, count = 4, out = "b" },
  ] },
]"#;

const SELF: &str = r#"world_size = 2
inputs.x = { each = "rank + i", count = 4 }
steps = [
  { op = "group", steps = [
    { op = "send_recv", peer = "1 - rank", in = "x", out = "a" },
    { op = "send_recv", peer = "rank", in = "x", out = "b" },
  ] },
]"#;

const NOTHING: &str = r#"world_size = 2
inputs.x = { each = "rank + i", count = 0 }
inputs.y = { each = "rank + i", count = 3 }
steps = [
  { op = "all_reduce", in = "x", out = "a" },
  { op = "all_reduce", in = "y", out = "b" },
]"#;

const NEIGHBOURS: &str = r#"world_size = 4
comms.pairs = { color = "rank / 2" }
inputs.x = { each = "rank + i", count = 3 }
inputs.y = { each = "2 * rank - i", count = 3 }
steps = [
  { op = "all_reduce", in = "x", out = "a" },
  { op = "all_reduce", comm = "pairs", in = "y", out = "b" },
]"#;

const KEYS: &str = r#"world_size = 3
comms.back = { color = 0, key = "-rank" }
inputs.x = { each = "rank", count = 1 }
steps = [{ op = "all_gather", comm = "back", in = "x", out = "all" }]"#;

const TIES: &str = r#"world_size = 3
comms.equal = { color = 0, key = 7 }
inputs.x = { each = "rank", count = 1 }
steps = [{ op = "all_gather", comm = "equal", in = "x", out = "all" }]"#;

const COLOURS: &str = r#"world_size = 3
comms.some = { color = [0, 0, -1] }
inputs.x = { each = "rank", count = 1 }
steps = [{ op = "all_gather", comm = "some", in = "x", out = "all" }]"#;

const TINY: &str = r#"world_size = 2
inputs.x = { each = "rank + i", count = 300 }
steps = [{ op = "all_reduce", times = 300, in = "x[t : t + 1]", out = "y[t : t + 1]" }]"#;

const REFUSED_CALL: &str = r#"world_size = 2
inputs.x = { each = "rank + i", count = 4 }
steps = [
  { op = "broadcast", root = 7, in = "x", out = "y", error = "invalid_argument" },
  { op = "all_reduce", in = "x", out = "z" },
]"#;

const DEVICE_SCALAR: &str = r#"world_size = 2
scalar = "device"
inputs.x = { each = "rank + i", count = 4 }
steps = [{ op = "all_reduce", reduce = { premul_sum = 3 }, in = "x", out = "y" }]"#;

const MANY_TIES: &str = r#"world_size = 9
inputs.x = { each = "rank", count = 1 }
comms.child = { color = 0, key = 3 }
steps = [{ op = "all_gather", comm = "child", in = "x", out = "y" }]"#;

const FAR_COLOURS: &str = r#"world_size = 4
inputs.x = { each = "rank", count = 1 }
comms.child = { color = "1 + 65536 * (rank % 2)" }
steps = [{ op = "all_gather", comm = "child", in = "x", out = "y" }]"#;
