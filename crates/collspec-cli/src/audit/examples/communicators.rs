//! Faults of communicators that lose or gain ranks, are revoked, suspended, or created without waiting.
use super::Example;

/// The faults, each with a scenario that it fails.
pub const EXAMPLES: &[Example] = &[
    ("F70", SHRUNK),
    ("F70d", SHRUNK_OFTEN),
    ("F70e", SHRUNK_IN_NO_ORDER),
    ("F72", REVOKED_AT_WORK),
    ("F72b", REVOKED),
    ("F73", RESUMED),
    ("F74b", NONBLOCKING),
];

const SHRUNK: &str = r#"world_size = 4
inputs.x = { each = "10 ^ rank", count = 1 }
steps = [
  { op = "shrink", new = "rest", without = [1] },
  { op = "all_gather", comm = "rest", in = "x", out = "y" },
]"#;

const SHRUNK_IN_NO_ORDER: &str = r#"world_size = 4
timeout = 10
inputs.x = { each = "10 ^ rank", count = 1 }
steps = [
  { op = "shrink", new = "rest", without = [2, 1] },
  { op = "all_gather", comm = "rest", in = "x", out = "y" },
]"#;

const SHRUNK_OFTEN: &str = r#"world_size = 4
inputs.x = { each = "10 ^ rank", count = 1 }
steps = [
  { op = "loop", times = 30, steps = [
    { op = "shrink", new = "rest", without = [1] },
    { op = "all_reduce", comm = "rest", in = "x", out = "y" },
    { op = "destroy", comm = "rest" },
  ] },
]"#;

const REVOKED_AT_WORK: &str = r#"world_size = 2
timeout = 10
inputs.x = { each = "rank", count = 1 }
steps = [
  { op = "all_reduce", in = "x", out = "y" },
  { op = "all_reduce", ranks = [0], in = "x", out = "lost" },
  { op = "revoke" },
]"#;

const REVOKED: &str = r#"world_size = 2
timeout = 10
inputs.x = { each = "rank", count = 1 }
steps = [
  { op = "revoke" },
  { op = "all_reduce", in = "x", out = "y", error = "invalid_usage" },
]"#;

const NONBLOCKING: &str = r#"world_size = 2
config = { blocking = 0 }
inputs.x = { each = "rank + i", count = 3 }
steps = [{ op = "all_reduce", in = "x", out = "y" }]"#;

const RESUMED: &str = r#"world_size = 2
inputs.x = { each = "rank + i", count = 3 }
steps = [
  { op = "suspend" },
  { op = "resume" },
  { op = "all_reduce", in = "x", out = "y" },
]"#;
