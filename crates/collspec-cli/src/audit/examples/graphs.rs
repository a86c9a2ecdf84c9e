//! Faults of graphs.
use super::Example;

/// The faults, each with a scenario that it fails.
pub const EXAMPLES: &[Example] = &[
    ("F75", CHANGED),
    ("F75b", CHANGED),
    ("F76b", TWO_OPERATIONS),
    ("F76c", CHANGED),
    ("F77", IN_PLACE),
    ("F78", TWO_GRAPHS),
    ("F79", BETWEEN),
    ("F79b", GROUP),
];

const CHANGED: &str = r#"world_size = 2
inputs.x = { each = "rank + i", count = 4 }
steps = [
  { op = "all_reduce", in = "x", out = "y", graph = "g" },
  { op = "loop", times = 3, steps = [
    { op = "map", expr = "2 * x + 1", out = "x" },
    { op = "launch", graph = "g" },
  ] },
]"#;

const TWO_OPERATIONS: &str = r#"world_size = 2
inputs.x = { each = "rank + i", count = 4 }
steps = [
  { op = "all_reduce", in = "x", out = "y", graph = "g" },
  { op = "all_gather", in = "x", out = "z", graph = "g" },
  { op = "launch", graph = "g" },
]"#;

const IN_PLACE: &str = r#"world_size = 2
inputs.x = { each = "rank + i", count = 4 }
steps = [
  { op = "all_reduce", in = "x", in_place = true, out = "y", graph = "g" },
  { op = "launch", graph = "g" },
]"#;

const TWO_GRAPHS: &str = r#"world_size = 2
inputs.x = { each = "rank + i", count = 4 }
steps = [
  { op = "all_reduce", in = "x", out = "y", graph = "a" },
  { op = "all_reduce", reduce = "max", in = "x", out = "z", graph = "b" },
  { op = "launch", graph = "b" },
  { op = "launch", graph = "a" },
]"#;

const BETWEEN: &str = r#"world_size = 2
inputs.x = { each = "rank + i", count = 4 }
steps = [
  { op = "all_reduce", in = "x", out = "y", graph = "g" },
  { op = "launch", graph = "g" },
  { op = "all_gather", in = "x", out = "z" },
]"#;

const GROUP: &str = r#"world_size = 2
inputs.x = { each = "rank + i", count = 4 }
steps = [
  { op = "group", graph = "g", steps = [
    { op = "all_reduce", in = "x", out = "y" },
    { op = "all_gather", in = "x", out = "z" },
  ] },
  { op = "launch", graph = "g" },
]"#;
