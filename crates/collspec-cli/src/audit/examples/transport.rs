//! Faults of memory, chunks, blocks and arithmetic. All of these scenarios run on rings.
use super::Example;

/// Scenarios in one line each: `;` for the ends of lines and `'` for quotes.
pub const EXAMPLES: &[Example] = &[
    ("F01", "world_size = 2; op = 'all_reduce'; inputs = { each = 'rank + i', count = 33 }"),
    ("F01b", "world_size = 3; op = 'all_reduce'; inputs = { each = 'rank + i', count = 4 }"),
    ("F02", "world_size = 2; op = 'broadcast'; inputs = { each = 'i', count = 5 }"),
    ("F03", "world_size = 3; op = 'all_gather'; dtype = 'i8'; inputs = { each = 'rank', count = 1 }"),
    ("F04", "world_size = 2; op = 'all_reduce'; inputs = { each = 'rank + i + 3', count = 5 }"),
    ("F04b", "world_size = 2; op = 'all_reduce'; dtype = 'bf16'; inputs = { each = '1', count = 9 }"),
    ("F05", "world_size = 2; op = 'broadcast'; offset = 1; inputs = { each = 'i', count = 8 }"),
    ("F06", "world_size = 2; op = 'broadcast'; inputs = { each = 'i', count = 16400 }"),
    ("F07", "world_size = 2; op = 'broadcast'; inputs = { each = 'i', count = 10000 }"),
    ("F08", "world_size = 2; op = 'broadcast'; inputs = { each = 'i', count = 140000 }"),
    ("F09", "world_size = 2; op = 'broadcast'; inputs = { each = 'i', count = 140000 }"),
    (
        "F10",
        "world_size = 2; inputs.x = { each = 'rank + i', count = 64 }; inputs.y = { each = '7', count = 8 }; \
         steps = [{ op = 'all_reduce', in = 'x', out = 'a' }, { op = 'all_reduce', in = 'y', out = 'b' }]",
    ),
    (
        "F11",
        "world_size = 2; inputs.x = { each = 'rank + i', count = 8 }; inputs.y = { each = '70', count = 8 }; \
         steps = [{ op = 'all_reduce', in = 'x', out = 'a' }, { op = 'all_reduce', in = 'y', out = 'b' }]",
    ),
    ("F16", "world_size = 3; op = 'reduce'; root = 1; inputs = { each = 'rank + i', count = 4 }"),
    ("F16b", "world_size = 3; op = 'reduce'; null_pointers = true; inputs = { each = 'rank + i', count = 4 }"),
    ("F17", "world_size = 3; op = 'all_gather'; inputs = { each = 'rank', count = 2 }"),
    ("F17b", "world_size = 3; op = 'all_gather'; inputs = { each = 'rank', count = 2 }"),
    ("F18", "world_size = 2; op = 'all_gather'; inputs = { each = 'rank', count = 2 }"),
    ("F18b", "world_size = 2; op = 'all_reduce'; inputs = { each = 'rank', count = 2 }"),
    ("F19", "world_size = 3; op = 'all_reduce'; in_place = true; inputs = { each = '2 ^ rank', count = 6 }"),
    ("F19b", "world_size = 2; op = 'all_gather'; in_place = true; inputs = { each = 'rank + 1', count = 6 }"),
    ("F20", "world_size = 2; op = 'all_reduce'; inputs = { each = 'rank + 1', count = 6 }"),
    ("F20b", "world_size = 2; op = 'all_gather'; inputs = { each = 'rank + 1', count = 6 }"),
    ("F21", "world_size = 3; op = 'all_reduce'; inputs = { each = '2 ^ rank', count = 6 }"),
    ("F22", "world_size = 3; op = 'all_reduce'; inputs = { each = '2 ^ rank', count = 6 }"),
    ("F23", "world_size = 3; op = 'all_reduce'; reduce = 'prod'; inputs = { each = 'rank + 2', count = 6 }"),
    ("F23b", "world_size = 2; op = 'all_reduce'; reduce = 'min'; dtype = 'i32'; inputs = [[-1, -5], [3, 2]]"),
    ("F23c", "world_size = 2; op = 'all_reduce'; reduce = 'avg'; inputs = { each = 'rank + 1', count = 6 }"),
    (
        "F24",
        "world_size = 4; op = 'all_reduce'; reduce = 'avg'; dtype = 'i32'; inputs = { each = '64 * rank', count = 6 }",
    ),
    ("F24b", "world_size = 2; op = 'all_reduce'; reduce = 'avg'; inputs = { each = 'rank + 1', count = 40000 }"),
    (
        "F24c",
        "world_size = 3; op = 'all_reduce'; reduce = 'avg'; dtype = 'i32'; inputs = { each = '9 * rank', count = 6 }",
    ),
    ("F24d", "world_size = 2; op = 'all_reduce'; reduce = 'avg'; inputs = { each = 'rank + 1', count = 8 }"),
    (
        "F24e",
        "world_size = 4; comms.half = { color = 'rank % 2' }; inputs.x = { each = 'rank + 1', count = 2 }; \
         steps = [{ op = 'all_reduce', reduce = 'avg', comm = 'half', in = 'x', out = 'y' }]",
    ),
    (
        "F25",
        "world_size = 2; op = 'all_reduce'; reduce = 'avg'; dtype = 'i64'; inputs = { each = '9 * rank', count = 6 }",
    ),
    (
        "F25b",
        "world_size = 2; op = 'all_reduce'; reduce = 'avg'; dtype = 'i32'; inputs = { each = '16777217', count = 2 }",
    ),
    ("F26", "world_size = 2; op = 'all_reduce'; reduce = { premul_sum = 0.5 }; dtype = 'bf16'; inputs = [[2], [4]]"),
    (
        "F26b",
        "world_size = 3; op = 'all_reduce'; reduce = { premul_sum = 'rank + 1' }; inputs = { each = '1', count = 6 }",
    ),
    ("F26c", "world_size = 3; op = 'all_reduce'; reduce = { premul_sum = 2 }; inputs = { each = 'rank', count = 6 }"),
    ("F27", "world_size = 3; op = 'all_reduce'; inputs = { each = '100 * rank + 301', count = 6 }"),
    ("F27b", "world_size = 3; op = 'all_reduce'; dtype = 'f16'; inputs = { each = '100 * rank + 301', count = 6 }"),
    ("F27c", "world_size = 3; op = 'all_reduce'; dtype = 'f64'; inputs = { each = '2 ^ 40 + rank', count = 6 }"),
    ("F28", "world_size = 3; op = 'all_reduce'; inputs = { random = { seed = 1 }, count = 64 }"),
    ("F29", "world_size = 2; op = 'all_reduce'; reduce = 'min'; inputs = [[nan, 1], [2, nan]]"),
    ("F29b", "world_size = 2; op = 'all_reduce'; dtype = 'f8e4m3'; inputs = [[448, 1], [64, 2]]"),
    ("F29c", "world_size = 2; op = 'broadcast'; inputs = [['0x7fc00001'], []]"),
    ("F29d", "world_size = 2; op = 'broadcast'; inputs = [[-0.0], []]"),
    ("F29e", "world_size = 2; op = 'broadcast'; inputs = [['0x80000001'], []]"),
];
