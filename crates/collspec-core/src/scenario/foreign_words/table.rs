//! The table of foreign words.
use super::{ForeignWord, WordPlace};
use crate::scenario::keys::KeyPlace;

const fn word(words: &'static [&'static str], place: WordPlace, ours: &'static str, help: &'static str) -> ForeignWord {
    ForeignWord { words, place, ours, help }
}
/// A foreign word for a key of the file.
const fn file(words: &'static [&'static str], ours: &'static str, help: &'static str) -> ForeignWord {
    word(words, WordPlace::Key(KeyPlace::File), ours, help)
}
/// A foreign word for a key of a step.
const fn step(words: &'static [&'static str], ours: &'static str, help: &'static str) -> ForeignWord {
    word(words, WordPlace::Key(KeyPlace::Step), ours, help)
}
/// A foreign word for a key of steps with one of some operations.
const fn of(
    ops: &'static [&'static str],
    words: &'static [&'static str],
    ours: &'static str,
    help: &'static str,
) -> ForeignWord {
    word(words, WordPlace::KeyOf(ops), ours, help)
}
/// A foreign word for a key of a buffer or row.
const fn buffer(words: &'static [&'static str], ours: &'static str, help: &'static str) -> ForeignWord {
    word(words, WordPlace::Key(KeyPlace::Buffer), ours, help)
}
/// A foreign word for a key of a communicator.
const fn comm(words: &'static [&'static str], ours: &'static str, help: &'static str) -> ForeignWord {
    word(words, WordPlace::Key(KeyPlace::Comm), ours, help)
}
/// A foreign word for an operation.
const fn op(words: &'static [&'static str], ours: &'static str, help: &'static str) -> ForeignWord {
    word(words, WordPlace::Op, ours, help)
}
const fn reduction(words: &'static [&'static str], ours: &'static str, help: &'static str) -> ForeignWord {
    word(words, WordPlace::Reduction, ours, help)
}
/// A foreign word for an element type.
const fn dtype(words: &'static [&'static str], ours: &'static str, help: &'static str) -> ForeignWord {
    word(words, WordPlace::Dtype, ours, help)
}
/// A foreign word for a name in expressions.
const fn name(words: &'static [&'static str], ours: &'static str) -> ForeignWord {
    word(words, WordPlace::Name, ours, "")
}

/// Operations whose NCCL call has a count and a type. A scenario takes both from the buffer.
const CALLS: &[&str] = &[
    "all_reduce",
    "reduce",
    "broadcast",
    "all_gather",
    "gather",
    "all_gather_v",
    "reduce_scatter",
    "scatter",
    "all_to_all",
    "all_to_all_v",
    "send",
    "send_recv",
];
const FROM_ROOT: &[&str] = &["broadcast", "scatter"];
const TO_ROOT: &[&str] = &["reduce", "gather"];
const PAIRWISE: &[&str] = &["send", "recv", "send_recv"];

const NO_TOLERANCE: &str = "`expect` is compared exactly, and a run without it is judged with every rounding that NCCL may make; a tolerance stands in `assert = [\"close(BUFFER, VALUE, {})\"]`";
/// The help for places where other programs have sizes.
pub(in crate::scenario) const SIZES_AS_AXIS: &str =
    "sizes are an axis, in elements: `matrix.count = [1, 1024, 1048576]`";
const COUNTS_OF_PIECES: &str = "`counts` says what every rank sends: `counts = [[0, 1], [2, 3]]`, where row r, column j is what rank r sends to rank j";
const NO_PLACES_OF_PIECES: &str = "leave it out: the pieces lie one after the other, in rank order";
const ALWAYS_ASYNCHRONOUS: &str =
    "leave it out: every call is asynchronous, in the order of its `stream`; `{ op = \"wait\" }` makes the host wait";
const GROUP_OF_CALLS: &str = "write `{ op = \"group\", steps = [{ op = \"send\", ... }, { op = \"recv\", ... }] }`: its steps are one NCCL group call";
const WORLD_EXISTS: &str =
    "leave it out: the communicator `world` exists; others are `comms.NAME = { groups = [[0, 1], [2, 3]] }`";
const PIECES_OF_A_BUFFER: &str = "one buffer holds all pieces, one after the other: write its name as `in` or `out`";

/// Every foreign word. If a word has several entries for a place, the first whose key is not used yet applies.
pub(super) static FOREIGN_WORDS: &[ForeignWord] = &[
    // Keys of the file.
    file(
        &[
            "nranks",
            "numranks",
            "nprocs",
            "numprocs",
            "numprocesses",
            "np",
            "n",
            "size",
            "commsize",
            "world",
            "worldsizes",
            "ngpus",
            "numgpus",
            "gpus",
            "nthreads",
            "nprocpernode",
            "processes",
        ],
        "world_size",
        "",
    ),
    file(&["ops", "program", "operations", "calls", "step", "sequence", "commands", "actions"], "steps", ""),
    file(&["collective", "operation", "primitive", "call", "kind", "type", "test"], "op", ""),
    file(&["input", "data", "tensor", "tensors", "buffer", "buffers", "values", "inputdata", "init"], "inputs", ""),
    file(&["output", "outputs", "expected", "expects", "result", "results", "want", "expectedoutput"], "expect", ""),
    file(
        &["sendbuff", "sendbuf", "recvbuff", "recvbuf"],
        "",
        "with `op` at the top the buffers are `inputs` and `expect`, without names; for names write `steps`",
    ),
    file(&["tolerance", "tol", "atol", "rtol", "abstol", "reltol", "eps", "epsilon", "maxerror"], "", NO_TOLERANCE),
    file(&["shape", "dims"], "count", "write `count = {}`: a buffer has a number of elements and no shape"),
    file(
        &[
            "elements",
            "numel",
            "length",
            "len",
            "nelem",
            "numelements",
            "sendcount",
            "recvcount",
            "countperrank",
            "size",
        ],
        "count",
        "",
    ),
    file(&["datatype", "type", "elementtype", "dtypes", "scalartype"], "dtype", ""),
    file(&["minbytes", "maxbytes", "stepfactor", "stepbytes", "bytes", "sizes"], "", SIZES_AS_AXIS),
    file(&["iters", "iterations", "niters", "numiters", "runs"], "repeat", ""),
    file(
        &["warmup", "warmupiters"],
        "",
        "leave it out: a scenario measures nothing that would need it; `repeat = {}` runs a case several times",
    ),
    file(&["algo", "alg", "algselection"], "algorithm", ""),
    file(&["proto", "protocol"], "", "write `env.NCCL_PROTO = {}`"),
    file(&["environment", "envvars", "environ"], "env", ""),
    file(&["title", "doc", "summary", "comment", "about"], "description", ""),
    file(
        &["backend"],
        "",
        "`--backend` of `collspec run` chooses it; a case that needs it has `requires = { backend = {} }`",
    ),
    file(&["device", "devices"], "", "leave it out: each rank gets a GPU where the case runs on GPUs"),
    file(&["communicators", "processgroups"], "comms", ""),
    file(
        &["newgroup", "newgroups", "subgroup"],
        "",
        "a communicator of some ranks is `groups = [[0, 1]]`; one with a name is `comms.NAME = { groups = [[0, 1]] }`, used by `comm = \"NAME\"`",
    ),
    file(&["sweep", "parametrize", "parameters", "params", "grid", "axes"], "matrix", ""),
    file(&["cases", "subtests"], "variants", ""),
    file(&["exclude"], "", "write `matrix.exclude = {}`"),
    file(&["check", "verify", "validate"], "", "every run is judged; more is `assert = [\"BUFFER > 0\"]`"),
    file(&["assertions", "invariants", "checks"], "assert", ""),
    file(
        &["expecterror", "fails", "shouldfail", "raises", "xfail"],
        "",
        "write `outcome = \"error\"`, and text of the error as `reason`",
    ),
    file(&["errormessage", "message"], "reason", ""),
    file(&["skip", "skipif"], "", "a case is skipped where it lacks what `requires` names: `requires = { gpus = 2 }`"),
    file(&["seed"], "", "write it where the numbers are made: `inputs = { random = { seed = {} }, count = 4 }`"),
    file(&["outofplace"], "", "leave it out: only `in_place = true` is in place"),
    file(&["timelimit", "timeouts", "timeoutseconds"], "timeout", ""),
    // Keys of steps.
    step(&["collective", "operation", "primitive", "call", "kind", "type", "function"], "op", ""),
    of(FROM_ROOT, &["src", "groupsrc", "source", "from", "rootrank", "peer"], "root", ""),
    of(TO_ROOT, &["dst", "groupdst", "dest", "destination", "to", "rootrank", "peer"], "root", ""),
    of(&["send"], &["dst", "groupdst", "dest", "destination", "to", "peerrank", "partner", "root"], "peer", ""),
    of(&["recv"], &["src", "groupsrc", "source", "from", "peerrank", "partner", "root"], "peer", ""),
    of(&["send_recv"], &["dst", "dest", "destination", "sendto"], "to", ""),
    of(&["send_recv"], &["src", "source", "recvfrom"], "from", ""),
    of(&["send_recv"], &["peerrank", "partner"], "peer", ""),
    of(&["recv"], &["tensor", "buffer", "buf"], "out", ""),
    of(&["send"], &["tensor", "buffer", "buf"], "in", ""),
    step(&["tensor", "buffer", "buf"], "in", "write `in = {}`, and as `out` the same buffer (in place) or another one"),
    step(&["input", "inputs", "inputtensor", "sendbuf", "sendbuff", "sendbuffer", "inbuf", "sendtensor"], "in", ""),
    step(
        &["output", "outputs", "outputtensor", "recvbuf", "recvbuff", "recvbuffer", "outbuf", "recvtensor", "result"],
        "out",
        "",
    ),
    step(
        &["tensorlist", "gatherlist", "scatterlist", "outputtensorlist", "inputtensorlist", "inputlist", "outputlist"],
        "",
        PIECES_OF_A_BUFFER,
    ),
    step(&["reduceop", "redop", "reduction", "mpiop", "reducer"], "reduce", ""),
    step(&["group", "processgroup", "pg", "communicator", "commname"], "comm", ""),
    step(&["asyncop", "async", "blocking", "nonblocking"], "", ALWAYS_ASYNCHRONOUS),
    of(
        PAIRWISE,
        &["tag", "tags"],
        "",
        "leave it out: NCCL has no tags. The k-th send of a rank to another one meets the k-th recv there",
    ),
    of(
        &["all_to_all_v"],
        &["count", "sendcounts", "inputsplitsizes", "splits", "sizes", "recvcounts", "outputsplitsizes"],
        "",
        COUNTS_OF_PIECES,
    ),
    of(
        &["all_to_all"],
        &["sendcounts", "inputsplitsizes", "recvcounts", "outputsplitsizes", "splits", "counts"],
        "",
        "pieces of different length are `op = \"all_to_all_v\"` with `counts = [[0, 1], [2, 3]]`: row r, column j is what rank r sends to rank j",
    ),
    of(
        &["all_gather"],
        &["recvcounts", "counts", "outputsplitsizes"],
        "",
        "pieces of different length are `op = \"all_gather_v\"`; they are as long as each rank's input",
    ),
    of(
        &["all_gather_v"],
        &["recvcounts", "counts", "sendcounts"],
        "",
        "leave it out: each piece is as long as the rank's input",
    ),
    step(&["sdispls", "rdispls", "displs"], "", NO_PLACES_OF_PIECES),
    of(
        CALLS,
        &["count", "counts", "sendcount", "recvcount", "size", "numel", "length", "elements"],
        "",
        "leave it out: the count is that of the buffer; a part of a buffer is `in = \"x[0:4]\"`",
    ),
    of(
        CALLS,
        &["dtype", "datatype", "type"],
        "",
        "leave it out: the type is that of the buffer, which `inputs` gives: `inputs.x = { ..., dtype = {} }`",
    ),
    of(&["recv", "map"], &["size", "numel", "length", "elements", "recvcount"], "count", ""),
    of(&["recv", "map"], &["datatype", "type"], "dtype", ""),
    step(
        &["src", "dst", "dest", "source", "destination"],
        "",
        "it is `root` of broadcast, scatter, reduce and gather, and `peer` of send and recv",
    ),
    step(
        &["sendcounts", "recvcounts", "inputsplitsizes", "outputsplitsizes"],
        "",
        "pieces of different length are those of `all_gather_v` and `all_to_all_v`",
    ),
    step(&["tag"], "", "leave it out: NCCL has no tags"),
    step(&["rank", "on", "onrank", "onranks", "who", "where", "only"], "ranks", ""),
    step(&["repeat", "iters", "iterations", "niters", "loop"], "times", ""),
    of(&["map"], &["fn", "func", "function", "expression", "formula", "value", "lambda", "each"], "expr", ""),
    of(&["map"], &["in", "input", "inputs"], "", "leave it out: the expression names the buffers that it reads"),
    of(&["sleep"], &["duration", "time", "s", "secs"], "seconds", ""),
    step(&["id", "label"], "name", ""),
    step(&["expecterror", "raises", "fails"], "error", ""),
    step(&["depends", "dependson", "waitfor"], "after", ""),
    // Keys of buffers.
    buffer(&["shape", "dims", "size"], "count", "write `count = {}`: a buffer has a number of elements and no shape"),
    buffer(&["numel", "length", "len", "nelem", "numelements", "elements"], "count", ""),
    buffer(&["type", "datatype", "elementtype"], "dtype", ""),
    buffer(&["value", "values", "data", "fill", "init", "expr", "content", "contents", "full"], "each", ""),
    buffer(&["string", "str"], "text", ""),
    buffer(&["rank", "on"], "ranks", ""),
    buffer(
        &["seed", "low", "high", "min", "max"],
        "",
        "bounds and seed stand in `random = { seed = 0, low = -1, high = 1 }`",
    ),
    // Keys of communicators.
    comm(&["ranks", "members", "group", "worldranks", "list"], "groups", ""),
    comm(&["parent"], "comm", ""),
    // Operations.
    op(&["allgatherintotensor", "allgathertensor", "allgatherbase", "allgathercoalesced"], "all_gather", ""),
    op(&["reducescattertensor", "reducescatterbase", "reducescatterblock", "psumscatter"], "reduce_scatter", ""),
    op(
        &["alltoallsingle"],
        "all_to_all",
        "write `op = \"all_to_all\"`; with split sizes it is `op = \"all_to_all_v\"`",
    ),
    op(
        &["allreducecoalesced", "allreducemultigpu"],
        "all_reduce",
        "write an `all_reduce` for each tensor; as `steps` of `{ op = \"group\", ... }` they are one NCCL group call",
    ),
    op(&["isend"], "send", "write `op = \"send\"`: every call is asynchronous, in the order of its `stream`"),
    op(&["irecv"], "recv", "write `op = \"recv\"`: every call is asynchronous, in the order of its `stream`"),
    op(&["batchisendirecv", "p2pop", "groupstart", "groupend", "groupcall"], "", GROUP_OF_CALLS),
    op(&["ppermute", "permute", "sendrecvreplace", "collectivepermute"], "send_recv", ""),
    op(&["bcast", "broadcastobjectlist", "broadcastcoalesced"], "broadcast", ""),
    op(&["psum", "pmax", "pmin", "pmean"], "all_reduce", ""),
    op(
        &["allgatherobject", "gatherobject", "scatterobjectlist"],
        "",
        "an object is bytes: give them as `text` of a buffer, and gather them with `op = \"all_gather_v\"`",
    ),
    op(&["initprocessgroup", "comminitrank", "comminitall", "comminitrankconfig"], "", WORLD_EXISTS),
    op(
        &["newgroup", "newsubgroups", "commcreate", "commcreategroup"],
        "",
        "write `comms.NAME = { groups = [[0, 1], [2, 3]] }`, or the step `{ op = \"init\", new = \"NAME\", groups = [[0, 1]] }`",
    ),
    op(&["commsplit"], "split", ""),
    op(&["commabort", "abortprocessgroup"], "abort", ""),
    op(&["commdestroy", "destroyprocessgroup", "commfree"], "destroy", ""),
    op(&["commfinalize"], "finalize", ""),
    op(&["monitoredbarrier"], "barrier", ""),
    op(&["synchronize", "streamsynchronize", "devicesynchronize", "waitall", "join"], "wait", ""),
    op(
        &["gatherv", "scatterv"],
        "",
        "NCCL has no call for it: write `send` and `recv` steps in `{ op = \"group\", steps = [...] }`, or `op = \"all_gather_v\"`",
    ),
    op(&["reducescatterv"], "", "NCCL has no call for it: write a `reduce` of a slice for each rank as `root`"),
    op(&["scan", "exscan", "cumsum"], "", "NCCL has no scan: write `all_gather`, and a `map` that adds"),
    op(
        &["copy", "memcpy", "compute", "apply", "add", "mul", "matmul", "fill", "set"],
        "",
        "write `{ op = \"map\", expr = \"...\", out = \"y\" }`: elements of `out` from an expression",
    ),
    op(
        &["sum", "avg", "mean", "max", "min", "prod", "product", "average"],
        "",
        "`op` is the operation, and `reduce` says how it combines: write `op = \"all_reduce\"`, and `reduce = \"sum\"` on a separate line",
    ),
    op(&["for", "while", "repeat"], "loop", ""),
    op(&["kill", "quit"], "exit", ""),
    // Reductions.
    reduction(&["mean", "average"], "avg", ""),
    reduction(&["product", "mul", "multiply", "times"], "prod", ""),
    reduction(&["maximum", "amax"], "max", ""),
    reduction(&["minimum", "amin"], "min", ""),
    reduction(&["add", "plus", "all", "total"], "sum", ""),
    reduction(&["premulsum", "premul"], "", "write `reduce = { premul_sum = 0.5 }`"),
    reduction(
        &["band", "bor", "bxor", "land", "lor", "lxor", "and", "or", "xor", "maxloc", "minloc", "replace"],
        "",
        "NCCL has sum, prod, min, max, avg and premul_sum; of numbers 0 and 1, `min` is the logical and, `max` the or",
    ),
    // Types.
    dtype(&["fp64"], "f64", ""),
    dtype(&["fp32", "single"], "f32", ""),
    dtype(&["tf32"], "f32", "write `dtype = \"f32\"`: tf32 is a way to multiply f32 numbers, which are sent as f32"),
    dtype(&["fp16", "half2", "float16t"], "f16", ""),
    dtype(&["bf", "brainfloat", "bfloat"], "bf16", ""),
    dtype(&["f8", "fp8", "float8"], "", "there are two: `dtype = \"f8e4m3\"` and `dtype = \"f8e5m2\"`"),
    dtype(&["fp8e4m3", "fp8e4m3fn", "e4m3", "e4m3fn"], "f8e4m3", ""),
    dtype(&["fp8e5m2", "e5m2"], "f8e5m2", ""),
    dtype(&["byte", "uchar", "unsignedchar"], "u8", "write `dtype = \"u8\"`, of one byte"),
    dtype(
        &["bool", "boolean", "cbool"],
        "u8",
        "write `dtype = \"u8\"` with 0 and 1, as torch passes bools to NCCL; `reduce = \"max\"` is the logical or (torch's sum, too), `\"min\"` the and",
    ),
    dtype(&["signedchar", "schar"], "i8", ""),
    dtype(&["unsigned", "uint", "unsignedint"], "u32", ""),
    dtype(&["longlong", "longlongint"], "i64", ""),
    dtype(&["unsignedlong", "unsignedlonglong", "ulong", "sizet"], "u64", ""),
    dtype(
        &[
            "int16",
            "short",
            "uint16",
            "i16",
            "u16",
            "complex64",
            "complex128",
            "int4",
            "float8e4m3fnuz",
            "float8e5m2fnuz",
        ],
        "",
        "NCCL has no such type; its types are i8, u8, i32, u32, i64, u64, f16, bf16, f32, f64, f8e4m3, f8e5m2",
    ),
    dtype(&["string", "str", "text"], "u8", "a text is a buffer `{ text = \"...\" }`, of type u8"),
    // Names in expressions.
    name(&["nranks", "numranks", "size", "commsize", "world", "nprocs", "ngpus"], "n"),
    name(&["myrank", "rankid", "r", "id", "localrank"], "rank"),
    name(&["index", "idx", "j", "k", "elem", "element"], "i"),
    name(&["round", "iter", "iteration", "step"], "t"),
];
