//! Faults of an operation's surroundings: its size, the calls before it, other readers of its input, communicators, groups,
//! the null stream, arguments.
use super::Example;

/// The faults, each with a scenario that it fails.
pub const EXAMPLES: &[Example] = &[
    ("F60", SENT),
    ("F60b", CONTRIBUTED),
    ("F60c", FROM_THE_ROOT),
    ("F61", MEGABYTES),
    ("F61b", COLLECTED),
    ("F61c", FAR),
    ("F61d", MEGABYTES_OF_FOUR),
    ("F62", CALLS),
    ("F62b", GROUP_OF_MANY),
    ("F63", CHILD_DESTROYED),
    ("F63b", CHILD_ABORTED),
    ("F63c", PARENT_DESTROYED),
    ("F64", TWO_READERS),
    ("F65", LEFT_OUT),
    ("F65b", TURNED),
    ("F65c", TURNED),
    ("F65d", TURNED),
    ("F65e", TURNED),
    ("F65f", REFUSED),
    ("F66", EMPTY),
    ("F66b", NESTED),
    ("F66c", NESTED),
    ("F67", NULL_STREAM),
    ("F67b", NULL_STREAM),
    ("F68", REFUSED),
    ("F68b", REFUSED_BLOCKS),
    ("F68c", REFUSED_PEERS),
    ("F68d", REFUSED_NEGATIVE),
];

const SENT: &str = r#"world_size = 2
inputs.x = { each = "rank + i", count = 5 }
steps = [
  { op = "send", ranks = [0], peer = 1, in = "x" },
  { op = "recv", ranks = [1], peer = 0, out = "y" },
  { op = "map", expr = "-1 - x", out = "x" },
]"#;

const CONTRIBUTED: &str = r#"world_size = 3
inputs.x = { each = "rank + i", count = 5 }
steps = [
  { op = "gather", root = 2, in = "x", out = "y" },
  { op = "map", expr = "-1 - x", out = "x" },
  { op = "reduce", root = 1, in = "x", out = "z" },
  { op = "map", expr = "-1 - 2 * x", out = "x" },
]"#;

const FROM_THE_ROOT: &str = r#"world_size = 3
inputs.x = { each = "rank + i", count = 6 }
steps = [
  { op = "broadcast", root = 2, in = "x", out = "y" },
  { op = "map", expr = "-1 - x", out = "x" },
  { op = "scatter", root = 1, in = "x", out = "z" },
  { op = "map", expr = "-1 - 2 * x", out = "x" },
]"#;

const MEGABYTES: &str = r#"world_size = 2
inputs.x = { each = "i % 251", count = 1200007, dtype = "u8" }
steps = [
  { op = "send", ranks = [0], peer = 1, in = "x" },
  { op = "recv", ranks = [1], peer = 0, out = "y" },
]"#;

const COLLECTED: &str = r#"world_size = 2
op = "all_gather"
inputs = { each = "i % 251", count = 2097155, dtype = "u8" }"#;

const MEGABYTES_OF_FOUR: &str = r#"world_size = 2
op = "broadcast"
inputs = { each = "i % 251 + 1", count = 4194311, dtype = "u8" }"#;

const FAR: &str = r#"world_size = 2
op = "all_gather"
inputs = { each = "i % 251 + rank", count = 8388617, dtype = "u8" }"#;

const CALLS: &str = r#"world_size = 3
inputs.x = { each = "2 * rank + 1", count = 1, dtype = "u32" }
steps = [{ op = "all_reduce", in = "x", out = "x", times = 4100 }]"#;

const GROUP_OF_MANY: &str = r#"world_size = 2
inputs.x = { each = "1000 * rank + i", count = 1010 }
steps = [
  { op = "group", steps = [
    { op = "send", ranks = [0], peer = 1, times = 1010, in = "x[t : t + 1]" },
    { op = "recv", ranks = [1], peer = 0, times = 1010, out = "y[t : t + 1]" },
  ] },
]"#;

const CHILD_DESTROYED: &str = r#"world_size = 3
inputs.x = { each = "rank", count = 1 }
steps = [
  { op = "split", new = "child", color = 0 },
  { op = "destroy", comm = "child" },
  { op = "all_reduce", in = "x", out = "y" },
]"#;

const CHILD_ABORTED: &str = r#"world_size = 3
inputs.x = { each = "rank", count = 1 }
steps = [
  { op = "split", new = "child", color = 0 },
  { op = "abort", comm = "child" },
  { op = "all_reduce", in = "x", out = "y" },
]"#;

const PARENT_DESTROYED: &str = r#"world_size = 3
inputs.x = { each = "rank", count = 1 }
steps = [
  { op = "init", new = "parent", groups = [[0, 1, 2]] },
  { op = "split", new = "child", comm = "parent", color = 0 },
  { op = "destroy", comm = "parent" },
  { op = "all_reduce", comm = "child", in = "x", out = "y" },
]"#;

const TWO_READERS: &str = r#"world_size = 2
comms.other = { groups = [[0, 1]] }
inputs.x = { each = "rank + i", count = 5 }
steps = [
  { op = "all_reduce", ranks = [0], in = "x", out = "y", stream = "one" },
  { op = "send_recv", comm = "other", peer = "1 - rank", in = "x", out = "seen", times = 3, stream = "two" },
  { op = "all_reduce", ranks = [1], in = "x", out = "y", stream = "two" },
]"#;

const LEFT_OUT: &str = r#"world_size = 3
comms.some = { color = [0, -1, 0] }
inputs.x = { each = "rank", count = 1 }
steps = [{ op = "all_reduce", comm = "some", in = "x", out = "y" }]"#;

const TURNED: &str = r#"world_size = 3
comms.turned = { color = 0, key = "-rank" }
inputs.x = { each = "rank", count = 1 }
steps = [{ op = "all_gather", comm = "turned", in = "x", out = "y" }]"#;

const REFUSED: &str = r#"world_size = 3
inputs.x = { each = "rank", count = 1 }
steps = [
  { op = "broadcast", root = 3, in = "x", out = "y", error = "invalid_argument" },
  { op = "reduce", root = 2147483647, in = "x", out = "z", error = "invalid_argument" },
]"#;

const REFUSED_BLOCKS: &str = r#"world_size = 3
inputs.x = { each = "rank", count = 3 }
steps = [
  { op = "gather", root = 4, in = "x", out = "y", error = "invalid_argument" },
  { op = "scatter", root = 3, in = "x", out = "z", error = "invalid_argument" },
]"#;

const REFUSED_PEERS: &str = r#"world_size = 2
inputs.x = { each = "rank", count = 1 }
steps = [
  { op = "send", ranks = [0], peer = 3, in = "x", error = "invalid_argument" },
  { op = "recv", ranks = [1], peer = 2, count = 1, dtype = "f32", out = "y", error = "invalid_argument" },
]"#;

const REFUSED_NEGATIVE: &str = r#"world_size = 3
inputs.x = { each = "rank", count = 1 }
steps = [{ op = "broadcast", root = -1, in = "x", out = "y", error = "invalid_argument" }]"#;

const EMPTY: &str = r#"world_size = 2
inputs.x = { each = "rank", count = 1 }
steps = [{ op = "group", steps = [] }, { op = "all_reduce", in = "x", out = "y" }]"#;

const NESTED: &str = r#"world_size = 2
inputs.x = { each = "rank + i", count = 3 }
steps = [
  { op = "group", steps = [
    { op = "group", steps = [{ op = "send", peer = "1 - rank", in = "x" }] },
    { op = "recv", peer = "1 - rank", out = "y" },
  ] },
]"#;

const NULL_STREAM: &str = r#"world_size = 2
stream = "default"
inputs.x = { each = "rank + i", count = 3 }
steps = [
  { op = "map", expr = "2 * x + 1", out = "y" },
  { op = "all_reduce", in = "y", out = "z" },
]"#;
