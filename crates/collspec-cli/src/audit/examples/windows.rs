//! Faults of registered memory, windows and one-sided operations.
use super::Example;

/// The faults, each with a scenario that it fails.
pub const EXAMPLES: &[Example] = &[
    ("F80", SECOND_SIGNAL_LATE),
    ("F80b", NO_ELEMENTS),
    ("F80c", SECOND_SIGNAL_LATE),
    ("F80e", ONE_CONTEXT_LATE),
    ("F80f", ONE_INDEX_LATE),
    ("F81", PUT),
    ("F81b", PUT),
    ("F81c", PUT_TO_ONESELF),
    ("F81d", THREE_HUNDRED_PUTS),
    ("F82", DEREGISTERED),
    ("F82b", TWO_REGISTERED),
    ("F82c", TWO_WINDOWS),
    ("F82d", COLLECTIVE_FIRST),
    ("F83", PUT),
    ("F83b", REFUSED),
    ("F83c", REFUSED),
    ("F84", NO_WINDOWS),
    ("F84b", COLLECTIVE_FIRST),
    ("F84c", NO_WINDOW_YET),
    ("F84d", CONTEXT_TOO_LARGE),
];

const SECOND_SIGNAL_LATE: &str = r#"world_size = 2
inputs.x = { each = "10 * (i + 1)", count = 2, register = "window" }
inputs.w = { each = 0, count = 2, register = "window" }
steps = [
  { op = "put", ranks = [0], peer = 1, in = "x[0:1]", out = "w[0:1]" },
  { op = "wait_signal", ranks = [1], peer = 0 },
  { op = "sleep", ranks = [0], seconds = 0.2 },
  { op = "put", ranks = [0], peer = 1, in = "x[1:2]", out = "w[1:2]" },
  { op = "wait_signal", ranks = [1], peer = 0 },
  { op = "map", ranks = [1], expr = "w", out = "y" },
]"#;

const NO_ELEMENTS: &str = r#"world_size = 2
inputs.x = { each = "i", count = 2, register = "window" }
steps = [
  { op = "put", ranks = [0], peer = 1, in = "x[0:0]", out = "x[0:0]" },
  { op = "wait_signal", ranks = [1], peer = 0 },
]"#;

const ONE_CONTEXT_LATE: &str = r#"world_size = 2
config = { numRmaCtx = 2 }
register = "window"
inputs.x = { each = "i + 7", count = 1 }
inputs.v = { each = 0, count = 1 }
inputs.w = { each = 0, count = 1 }
steps = [
  { op = "put", ranks = [0], peer = 1, in = "x", out = "v", context = 1 },
  { op = "sleep", ranks = [0], seconds = 0.2 },
  { op = "put", ranks = [0], peer = 1, in = "x", out = "w" },
  { op = "wait_signal", ranks = [1], peer = 0 },
  { op = "map", ranks = [1], expr = "w", out = "y" },
  { op = "wait_signal", ranks = [1], peer = 0, context = 1 },
]"#;

const ONE_INDEX_LATE: &str = r#"world_size = 2
config = { numRmaSig = 2 }
register = "window"
inputs.x = { each = "i + 7", count = 1 }
inputs.v = { each = 0, count = 1 }
inputs.w = { each = 0, count = 1 }
steps = [
  { op = "put", ranks = [0], peer = 1, in = "x", out = "v", signal_index = 1 },
  { op = "sleep", ranks = [0], seconds = 0.2 },
  { op = "put", ranks = [0], peer = 1, in = "x", out = "w" },
  { op = "wait_signal", ranks = [1], peer = 0 },
  { op = "map", ranks = [1], expr = "w", out = "y" },
  { op = "wait_signal", ranks = [1], peer = 0, signal_index = 1 },
]"#;

const PUT: &str = r#"world_size = 2
inputs.x = { each = "10 * rank + i", count = 4, register = "window" }
inputs.w = { each = 0, count = 4, register = "window" }
steps = [
  { op = "put", peer = "1 - rank", in = "x[0:3]", out = "w[1:4]" },
  { op = "wait_signal", peer = "1 - rank" },
  { op = "map", expr = "w", out = "y" },
]"#;

const PUT_TO_ONESELF: &str = r#"world_size = 1
inputs.x = { each = "i + 1", count = 4, register = "window" }
inputs.w = { each = 0, count = 4, register = "window" }
steps = [
  { op = "put", peer = 0, in = "x", out = "w" },
  { op = "wait_signal", peer = 0 },
]"#;

const THREE_HUNDRED_PUTS: &str = r#"world_size = 2
inputs.x = { each = "i + 1", count = 300, register = "window" }
inputs.w = { each = 0, count = 300, register = "window" }
steps = [
  { op = "put", times = 300, peer = "1 - rank", in = "x[t:t + 1]", out = "w[t:t + 1]" },
  { op = "wait_signal", peer = "1 - rank", signals = 300 },
]"#;

const DEREGISTERED: &str = r#"world_size = 2
inputs.x = { each = "rank + i", count = 3 }
steps = [
  { op = "register", register = "local", in = "x" },
  { op = "deregister", in = "x" },
  { op = "map", expr = "x + 5", out = "x" },
  { op = "all_reduce", in = "x", out = "y" },
]"#;

const TWO_REGISTERED: &str = r#"world_size = 2
register = "local"
inputs.x = { each = "rank + i + 1", count = 3 }
steps = [{ op = "all_reduce", in = "x", out = "y" }]"#;

const TWO_WINDOWS: &str = r#"world_size = 2
dtype = "u8"
inputs.x = { each = "rank + i", count = 8192 }
inputs.w = { each = 0, count = 8192 }
steps = [
  { op = "register", register = "window", in = "x" },
  { op = "register", register = "window", in = "w[0:4096]" },
  { op = "register", register = "window", in = "w[4096:8192]" },
  { op = "put", peer = "1 - rank", in = "x[0:8]", out = "w[5000:5008]" },
  { op = "wait_signal", peer = "1 - rank" },
]"#;

const COLLECTIVE_FIRST: &str = r#"world_size = 2
inputs.x = { each = "rank + i", count = 3, register = "window" }
steps = [{ op = "all_reduce", in = "x", out = "y" }]"#;

const REFUSED: &str = r#"world_size = 2
inputs.x = { each = "rank + i", count = 2048 }
steps = [
  { op = "register", register = "window", in = "x[1:]", error = "invalid_argument" },
  { op = "register", register = "window", in = "x" },
  { op = "all_reduce", in = "x", out = "y" },
]"#;

const NO_WINDOWS: &str = r#"world_size = 2
env.NCCL_WIN_ENABLE = 0
inputs.x = { each = "rank + i", count = 3, register = "window" }
steps = [{ op = "all_reduce", in = "x", out = "y" }]"#;

const NO_WINDOW_YET: &str = r#"world_size = 2
steps = [{ op = "signal", peer = "1 - rank", error = "invalid_usage" }]"#;

const CONTEXT_TOO_LARGE: &str = r#"world_size = 2
inputs.x = { each = "rank + i", count = 3, register = "window" }
steps = [
  { op = "put", peer = "1 - rank", in = "x", out = "x", context = 1, error = "invalid_argument" },
]"#;
