//! Faults of the algorithm that a call requests.
use super::Example;

/// The faults, each with a scenario that it fails.
pub const EXAMPLES: &[Example] = &[
    ("F85", TREE),
    ("F85b", REFUSED),
    ("F86", BEFORE_ANOTHER),
    ("F89", ROOT),
    ("F89b", MAXIMUM),
    ("F89c", NOTHING),
    ("F89d", NOTHING),
    ("F89e", HISTORY),
];

const TREE: &str = r#"world_size = 5
inputs.x = { each = "rank + i", count = 10 }
steps = [{ op = "all_reduce", algorithm = "tree", name = "sum", in = "x", out = "y" }]
assert = ["sum.rounds != 8"]"#;

const REFUSED: &str = r#"world_size = 3
inputs.x = { each = "rank + i", count = 5 }
steps = [{ op = "all_gather", algorithm = "tree", in = "x", out = "y", error = "invalid_argument" }]"#;

const BEFORE_ANOTHER: &str = r#"world_size = 5
inputs.x = { each = "rank + i", count = 10 }
steps = [
  { op = "all_reduce", algorithm = "tree", in = "x", out = "y" },
  { op = "all_reduce", name = "sum", in = "x", out = "z" },
]
assert = ["sum.rounds == 8"]"#;

const ROOT: &str = r#"world_size = 3
op = "broadcast"
root = 1
algorithm = "ring"
inputs = { each = "rank + i", count = 5 }"#;

const MAXIMUM: &str = r#"world_size = 3
op = "all_reduce"
reduce = "max"
algorithm = "ring"
inputs = { each = "rank + i", count = 5 }"#;

const HISTORY: &str = r#"world_size = 4
inputs.x = { random = { seed = 3 }, count = 40, dtype = "bf16" }
before = [{ op = "all_reduce", groups = [[0, 1], [3, 2]], in = "x", out = "earlier" }]
steps = [{ op = "all_reduce", in = "x", out = "sum" }]"#;

const NOTHING: &str = r#"world_size = 3
inputs.x = { each = "rank", count = 0 }
steps = [{ op = "all_gather", algorithm = "tree", in = "x", out = "y" }]"#;
