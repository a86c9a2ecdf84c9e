//! The table of the language's keys: the places where each key is allowed, and the text of messages about it.
use crate::job::FAULT_KINDS;
use crate::ops::{COMMON_KEYS, Op};

/// What network adapters speak, as the kernel's files call it.
pub(crate) const LINK_LAYERS: [&str; 2] = ["InfiniBand", "Ethernet"];

/// A kind of table in the file, with its own keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    File,
    Step,
    Buffer,
    /// A row that is a table, and tables in `expect`.
    Row,
    Random,
    Comm,
    Requires,
    Fault,
    Reduce,
    /// `algorithm` as a table.
    Algorithm,
    /// The table `[bench]`.
    Bench,
    /// Sizes in `[bench]` as a table.
    Sizes,
}

/// The type of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    Text,
    /// Text or a list of texts.
    Texts,
    TextList,
    /// A whole number only.
    Int,
    /// Any number.
    Number,
    /// A boolean, `true` or `false`.
    Bool,
    /// A whole number, an expression, or a list by rank.
    NumByRank,
    /// A number that may have a fraction, an expression, or a list by rank.
    RealByRank,
    /// true or false, an expression, or a list by rank.
    BoolByRank,
    /// Text or a list of texts by rank.
    TextByRank,
    /// An expression, a number or a row.
    ExprOrRow,
    /// Lists of world ranks.
    Groups,
    /// A list of world ranks or an expression.
    Ranks,
    /// A list of ranks of the step's communicator or an expression.
    RanksOfComm,
    BufferPart,
    /// A list of steps.
    Steps,
    /// A TOML table.
    Table,
    TableOf(KeyPlace),
    /// A table of tables, by names of the file, with the keys of a place.
    TablesOf(KeyPlace),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A buffer's rows, or a table by buffer name.
    Buffers,
    /// As buffers, or a word instead of one.
    Expectations,
    /// The name of an operation.
    Operation,
    /// The name of an element type.
    DType,
    /// The name of a reduction, or a table.
    Reduction,
    /// The name of an algorithm, or a table.
    AlgorithmChoice,
    /// An exit status or a signal.
    ExitStatus,
    /// Counts by pairs of ranks, or by rank.
    Counts,
    /// An expression or a number.
    ExprOrNumber,
    /// A whole number or a list of them.
    Ints,
    /// A boolean or a list of them.
    Bools,
    /// Sizes: a list, or a table.
    SizeRange,
    /// A number of bytes, as a number or a text with a unit.
    ByteSize,
}

impl ValueType {
    /// The type in messages, after "must be ".
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Texts => "text or a list of texts",
            Self::TextList => "a list of texts",
            Self::Int => "a whole number",
            Self::Number => "a number",
            Self::Bool => "true or false",
            Self::NumByRank => "a whole number, an expression in quotes, or a list with one of them per rank",
            Self::RealByRank => "a number, an expression in quotes, or a list with one of them per rank",
            Self::BoolByRank => "true or false, an expression in quotes, or a list with one of them per rank",
            Self::TextByRank => "text, a number, or a list with one per rank",
            Self::ExprOrRow => "an expression in quotes, a number, or a list of numbers",
            Self::Groups => "lists of world ranks, like `[[0, 1], [2, 3]]`",
            Self::Ranks => "a list of world ranks or an expression in quotes",
            Self::RanksOfComm => "a list of ranks of the communicator or an expression in quotes",
            Self::BufferPart => "a buffer's name in quotes, or a part of one like `\"x[2:5]\"`",
            Self::Steps => "a list of steps",
            Self::Table | Self::TableOf(_) | Self::TablesOf(_) => "a table",
            Self::Word(_) | Self::Operation | Self::DType => Self::Text.describe(),
            Self::Buffers | Self::Expectations => "a list with a row per rank, or a table",
            Self::Reduction => "a reduction's name or a table",
            Self::AlgorithmChoice => "an algorithm's name or a table",
            Self::ExitStatus => "a whole number or a signal's name",
            Self::Counts => "lists of whole numbers or an expression in quotes",
            Self::ExprOrNumber => "an expression in quotes or a number",
            Self::Ints => "a whole number or a list of them",
            Self::Bools => "true, false or a list of them",
            Self::SizeRange => "a size, a list of sizes, or a table",
            Self::ByteSize => "a whole number, or text with a unit like `\"1MiB\"`",
        }
    }
}

/// A key of the scenario language.
#[derive(Debug)]
pub struct Key {
    /// The key as written in a file.
    pub name: &'static str,
    /// The places where it is allowed.
    pub places: &'static [KeyPlace],
    /// True if it is also allowed at the top of the file and on a `group` or `loop`, as a default.
    pub is_default: bool,
    pub value: ValueType,
    /// One line for the manual.
    pub doc: &'static str,
}

use KeyPlace::*;
use ValueType::*;

const fn key(name: &'static str, places: &'static [KeyPlace], value: ValueType, doc: &'static str) -> Key {
    Key { name, places, is_default: false, value, doc }
}
const fn default_key(name: &'static str, places: &'static [KeyPlace], value: ValueType, doc: &'static str) -> Key {
    Key { name, places, is_default: true, value, doc }
}

/// Every key of the language. A name that means different things in different places has an entry for each.
pub static KEYS: &[Key] = &[
    key("description", &[File], Text, "what the scenario shows, for people"),
    key("source", &[File], Text, "where the example is from"),
    key("tags", &[File], TextList, "words for filters"),
    key("world_size", &[File], Int, "number of ranks"),
    key("inputs", &[File], Buffers, "the buffers that exist before the first step"),
    key(
        "before",
        &[File],
        Steps,
        "steps that run first, on separate communicators: no bit of the results may depend on them",
    ),
    key("steps", &[File, Step], Steps, "the program; of group and loop: its steps"),
    key("comms", &[File], TablesOf(Comm), "communicators made before the first step, in file order"),
    key("expect", &[File], Expectations, "values at the end of the case, in the forms of inputs"),
    key("assert", &[File], Texts, "expressions that must hold at the end"),
    key("outcome", &[File], Texts, "ok, error, an error's name, hang, crash, refused, or a list of admissible ones"),
    key("reason", &[File], Text, "text that the error or refusal must contain"),
    key("matrix", &[File], Table, "axes: lists of values; one case for each combination"),
    key("variants", &[File], Table, "named tables, each of which replaces whole keys of the file"),
    key("env", &[File], Table, "NCCL_* variables of the worker"),
    key("repeat", &[File], Int, "the number of runs, each with the inputs restored; all must agree bit for bit"),
    key("timeout", &[File], Number, "seconds for the case"),
    key("placement", &[File], Word(&["threads", "processes", "one_thread"]), "threads, processes or one_thread"),
    key("forms", &[File], Texts, "forms in which the cases are run too: in_place, misaligned, grouped, sub, ..."),
    key("fault", &[File], TableOf(Fault), "what happens to the machine, on software GPUs: kind, rank, at, seed"),
    key("requires", &[File], TableOf(Requires), "what is missing is a skip with its reason"),
    key("bench", &[File], TableOf(Bench), "what `collspec bench` measures for the file"),
    key("snapshot", &[File], Bool, "whether the case has a snapshot"),
    default_key("config", &[Comm, Step], Table, "of all communicators or of one: NCCL's field names"),
    // Buffers.
    key("each", &[Buffer, Row], ExprOrRow, "what each rank holds: an expression, a number or a row"),
    key("random", &[Buffer, Row], TableOf(Random), "counter-based random numbers"),
    key("text", &[Buffer, Row], Texts, "one text in which {expression} is filled in, or a list by rank"),
    default_key("count", &[Buffer, Row, Step], NumByRank, "elements"),
    default_key("dtype", &[Buffer, Step], DType, "element type, default f32"),
    default_key("offset", &[Buffer], NumByRank, "elements between a 256-byte boundary and the buffer's start"),
    default_key("register", &[Buffer, Step], TextByRank, "none, local or window"),
    default_key("ranks", &[Buffer, Step], Ranks, "who has the buffer or runs the step, in world ranks; default all"),
    key("seed", &[Random, Fault], Int, "seed of the random numbers, or of the place of a fault; default 0"),
    key("low", &[Random], ExprOrNumber, "least value"),
    key("high", &[Random], ExprOrNumber, "greatest value of integers, first excluded value of floats"),
    // Steps.
    key("op", &[Step], Operation, "the operation"),
    key("in", &[Step], BufferPart, "the buffer that is read"),
    key("out", &[Step], BufferPart, "the buffer that is written"),
    default_key("reduce", &[Step], Reduction, "sum (default), prod, min, max, avg, or { premul_sum = 0.5 }"),
    default_key(
        "scalar",
        &[Step, Reduce],
        Word(&["device", "host"]),
        "device or host: where a premul_sum's factor lies",
    ),
    key("destroyed", &[Reduce], Bool, "destroy the operator before the call, which must fail"),
    key("premul_sum", &[Reduce], RealByRank, "each rank's input times this, then the sum"),
    default_key("root", &[Step], NumByRank, "the root, default 0"),
    default_key("comm", &[Step, Comm], Text, "the communicator, default world"),
    default_key("groups", &[Step, Comm], Groups, "a communicator for each list of world ranks"),
    default_key("in_place", &[Step], BoolByRank, "in and out share memory as NCCL documents it"),
    default_key("null_pointers", &[Step], BoolByRank, "pass null for pointers that the call must not look at"),
    default_key("stream", &[Step], Text, "the stream it runs on, default main"),
    key("after", &[Step], Texts, "streams whose work so far it waits for"),
    default_key("graph", &[Step], Text, "the graph: captured into it instead of run, or launched or released"),
    key("times", &[Step], NumByRank, "so often in a row; t is the round"),
    key("name", &[Step], Text, "for assert"),
    key("error", &[Step], TextByRank, "the call returns this and writes nothing"),
    key("peer", &[Step], NumByRank, "the other rank"),
    key("to", &[Step], NumByRank, "of send_recv: whom it sends to"),
    key("from", &[Step], NumByRank, "of send_recv: whom it receives from"),
    key(
        "counts",
        &[Step],
        Counts,
        "row r, column j is what r sends to j, or of reduce_scatter_v entry j is what j receives; or an expression in rank and peer",
    ),
    default_key(
        "algorithm",
        &[Step],
        AlgorithmChoice,
        "the algorithm that the call asks for, such as ring_simple; auto leaves it to the library",
    ),
    key("prefer", &[Algorithm], Text, "an algorithm that the call takes if it can"),
    key("expr", &[Step], ExprOrNumber, "element i of out"),
    key("seconds", &[Step], RealByRank, "how long"),
    key("status", &[Step], ExitStatus, "of exit: the exit status, or a signal such as SIGKILL; default 0"),
    key("signals", &[Step], NumByRank, "how many signals of the peer, or an expression in rank and peer"),
    key("context", &[Step], NumByRank, "context of a one-sided operation, default 0"),
    key("signal_index", &[Step], NumByRank, "which of a context's signals, default 0"),
    key("flags", &[Step], NumByRank, "flags of a put or signal that must fail: NCCL has none, default 0"),
    key("new", &[Step], Text, "the new communicator's name"),
    key("color", &[Step, Comm], NumByRank, "ranks of one colour come together; -1 for none"),
    key("key", &[Step, Comm], NumByRank, "order in the new communicator"),
    key("ids", &[Step, Comm], Int, "how many unique ids the ranks pass, with ncclCommInitRankScalable"),
    key("without", &[Step], RanksOfComm, "ranks that are left out"),
    key("with", &[Step], Ranks, "ranks that join"),
    key("abort", &[Step], Bool, "abort the communicator first"),
    // requires.
    key("nccl", &[Requires], Text, "versions, like >=2.28"),
    key("library", &[Requires], Word(&["nvidia"]), "nvidia: NVIDIA's NCCL, or what behaves as it does"),
    key("gpus", &[Requires], Int, "least number of GPUs"),
    key("nodes", &[Requires], Int, "least number of machines"),
    key("nics", &[Requires], Int, "least number of network adapters for RDMA in each machine"),
    key("nvlinks", &[Requires], Int, "least number of NVLinks of each GPU"),
    key("link_layer", &[Requires], Word(&LINK_LAYERS), "what the adapters speak: InfiniBand, or Ethernet for RoCE"),
    key("compute", &[Requires], ExprOrNumber, "least compute capability"),
    key("multicast", &[Requires], Bool, "true: GPUs with multicast memory, as for NVLS"),
    key("backend", &[Requires], Word(&["soft", "nccl"]), "soft or nccl"),
    // fault.
    key("kind", &[Fault], Word(&FAULT_KINDS), "what happens, such as ib_port_down; `collspec faults --help` lists all"),
    key("rank", &[Fault], Int, "a rank of the process in which it happens, default 0"),
    key("at", &[Fault], Int, "at which store, byte or message of the process, default 1"),
    // bench.
    key("op", &[Bench], Texts, "operations"),
    key("reduce", &[Bench], Texts, "reductions"),
    key("dtype", &[Bench], Texts, "element types"),
    key("root", &[Bench], Ints, "roots"),
    key("world_size", &[Bench], Ints, "numbers of ranks"),
    key("in_place", &[Bench], Bools, "true, false, or both as a list"),
    key("algorithm", &[Bench], Texts, "values of NCCL_ALGO; auto leaves the choice to the library"),
    key("protocol", &[Bench], Texts, "values of NCCL_PROTO; auto leaves the choice to the library"),
    key("bytes", &[Bench], SizeRange, "sizes: a list, or { from, to, factor }"),
    key("warm_up", &[Bench], Int, "iterations that are not timed"),
    key("iterations", &[Bench], Int, "iterations that are timed"),
    key("samples", &[Bench], Int, "process groups, each of which gives a sample"),
    key("from", &[Sizes], ByteSize, "the smallest size"),
    key("to", &[Sizes], ByteSize, "the largest size"),
    key("factor", &[Sizes], Int, "each size is the one before times this"),
];

/// The entry of a key in a place.
pub fn find(place: KeyPlace, name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|k| k.name == name && k.places.contains(&place))
}

/// The keys that are allowed in a place.
pub fn keys_in(place: KeyPlace) -> impl Iterator<Item = &'static str> {
    KEYS.iter().filter(move |k| k.places.contains(&place)).map(|k| k.name)
}

/// True if the language has a key of this name in any place.
pub fn is_known(name: &str) -> bool {
    KEYS.iter().any(|k| k.name == name)
}

/// The keys that can be defaults.
pub fn default_keys() -> impl Iterator<Item = &'static str> {
    KEYS.iter().filter(|k| k.is_default).map(|k| k.name)
}

/// True if a step of this operation can have the key.
pub fn is_step_key(op: &Op, name: &str) -> bool {
    COMMON_KEYS.contains(&name) || op.keys.contains(&name)
}

/// True if the key is allowed at the top of the file.
pub fn is_file_key(name: &str) -> bool {
    find(File, name).is_some() || KEYS.iter().any(|k| k.is_default && k.name == name)
}
