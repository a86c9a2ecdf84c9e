//! Faults in the handling of communicators whose ranks' processes have ended.
use super::Example;

/// The faults, each with a scenario that it fails.
pub const EXAMPLES: &[Example] =
    &[("F90", SHRUNK), ("F91", SHRUNK), ("F92", SHRUNK), ("F92b", SHRUNK), ("F93", APART), ("F94", SHRUNK)];

const SHRUNK: &str = r#"world_size = 3
placement = "processes"
timeout = 10
inputs.x = { each = "10 ^ rank", count = 1 }
steps = [
  { op = "all_reduce", in = "x", out = "y" },
  { op = "wait" },
  { op = "exit", ranks = [1] },
  { op = "wait", error = "remote_error" },
  { op = "all_reduce", in = "x", out = "lost", error = "remote_error" },
  { op = "shrink", new = "rest", without = [1], abort = true },
  { op = "all_reduce", comm = "rest", in = "x", out = "y" },
]"#;

const APART: &str = r#"world_size = 4
placement = "processes"
timeout = 10
comms.pairs = { groups = [[0, 1], [2, 3]] }
inputs.x = { each = "10 ^ rank", count = 1 }
steps = [
  { op = "all_reduce", in = "x", out = "z" },
  { op = "all_reduce", comm = "pairs", in = "x", out = "y" },
  { op = "wait" },
  { op = "exit", ranks = [3] },
  { op = "wait", error = "remote_error" },
  { op = "send_recv", ranks = [0, 1], comm = "pairs", peer = "1 - rank", in = "x", out = "y" },
]"#;
