//! The one table of the language's keys: the reader takes types and places from it, messages their suggestions, and the
//! manual and the schema their text.
use crate::ops::{COMMON_KEYS, Op};

/// Where a key may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Place {
    File,
    Step,
    Buffer,
    /// A row that is a table, and tables in `expect`.
    Row,
    Random,
    Comm,
    Requires,
    Reduce,
}

/// What a key's value must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Text.
    Text,
    /// Text or a list of texts.
    Texts,
    /// A list of texts.
    TextList,
    /// A whole number.
    Int,
    /// A number.
    Number,
    /// true or false.
    Bool,
    /// A whole number, an expression, or a list by rank.
    NumByRank,
    /// A number that may have a fraction, an expression, or a list by rank.
    RealByRank,
    /// true or false, an expression, or a list by rank.
    BoolByRank,
    /// Text or a list of texts by rank.
    TextByRank,
    /// An expression.
    Expr,
    /// An expression, a number or a row.
    ExprOrRow,
    /// Lists of world ranks.
    Groups,
    /// A list of world ranks or an expression.
    Ranks,
    /// A buffer or a part of it.
    Buffer,
    /// A list of steps.
    Steps,
    /// A table.
    Table,
    /// Something with rules of its own.
    Other,
}

impl Type {
    /// In words, after "wanted: ".
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
            Self::Expr => "an expression in quotes",
            Self::ExprOrRow => "an expression in quotes, a number, or a list of numbers",
            Self::Groups => "lists of world ranks, like `[[0, 1], [2, 3]]`",
            Self::Ranks => "a list of world ranks or an expression in quotes",
            Self::Buffer => "a buffer's name in quotes, or a part of one like `\"x[2:5]\"`",
            Self::Steps => "a list of steps",
            Self::Table => "a table",
            Self::Other => "something else",
        }
    }
}

/// One key.
#[derive(Debug)]
pub struct Key {
    /// Its word.
    pub name: &'static str,
    /// Where it may stand.
    pub places: &'static [Place],
    /// True if it may also stand at the top of the file, or on a `group` or `loop`, as a default.
    pub star: bool,
    /// What its value must be.
    pub ty: Type,
    /// One line for the manual.
    pub doc: &'static str,
}

use Place::*;

const fn key(name: &'static str, places: &'static [Place], ty: Type, doc: &'static str) -> Key {
    Key { name, places, star: false, ty, doc }
}
const fn star(name: &'static str, places: &'static [Place], ty: Type, doc: &'static str) -> Key {
    Key { name, places, star: true, ty, doc }
}

/// Every key of the language. A name that means different things in different places has an entry for each.
pub static KEYS: &[Key] = &[
    key("description", &[File], Type::Text, "what the scenario shows, for people"),
    key("source", &[File], Type::Text, "where the example is from"),
    key("tags", &[File], Type::TextList, "words for filters"),
    key("world_size", &[File], Type::Int, "number of ranks"),
    key("inputs", &[File], Type::Other, "the buffers that exist before the first step"),
    key("steps", &[File, Step], Type::Steps, "the program; of group and loop: its steps"),
    key("comms", &[File], Type::Table, "communicators made before the first step, in file order"),
    key("expect", &[File], Type::Other, "values at the end of the case, in the forms of inputs"),
    key("assert", &[File], Type::Texts, "expressions that must hold at the end"),
    key(
        "outcome",
        &[File],
        Type::Texts,
        "ok, error, an error's name, hang, crash, refused, or a list of admissible ones",
    ),
    key("reason", &[File], Type::Text, "text that the error or refusal must contain"),
    key("matrix", &[File], Type::Table, "axes: lists of values; one case for each combination"),
    key("variants", &[File], Type::Table, "named tables, each of which replaces whole keys of the file"),
    key("env", &[File], Type::Table, "NCCL_* variables of the worker"),
    key("repeat", &[File], Type::Int, "so many runs with the inputs restored; all must agree bit for bit"),
    key("timeout", &[File], Type::Number, "seconds for the case"),
    key("placement", &[File], Type::Text, "threads, processes or one_thread"),
    key("forms", &[File], Type::Texts, "forms in which the cases are run too: in_place, misaligned, grouped, sub, ..."),
    key("requires", &[File], Type::Table, "what is missing is a skip with its reason"),
    key("snapshot", &[File], Type::Bool, "whether the case has a snapshot"),
    star("config", &[Comm, Step], Type::Table, "of all communicators or of one: NCCL's field names"),
    // Buffers.
    key("each", &[Buffer, Row], Type::ExprOrRow, "what each rank holds: an expression, a number or a row"),
    key("random", &[Buffer, Row], Type::Table, "counter-based random numbers"),
    key("text", &[Buffer, Row], Type::Texts, "one text in which {expression} is filled in, or a list by rank"),
    star("count", &[Buffer, Row, Step], Type::NumByRank, "elements"),
    star("dtype", &[Buffer, Step], Type::Text, "element type, default f32"),
    star("offset", &[Buffer], Type::NumByRank, "elements between a 256-byte boundary and the buffer's start"),
    star("register", &[Buffer, Step], Type::TextByRank, "none, local or window"),
    star("ranks", &[Buffer, Step], Type::Ranks, "who has the buffer or runs the step, in world ranks; default all"),
    key("seed", &[Random], Type::Int, "seed of the random numbers, default 0"),
    key("low", &[Random], Type::Number, "least value"),
    key("high", &[Random], Type::Number, "greatest value of integers, first excluded value of floats"),
    // Steps.
    key("op", &[Step], Type::Text, "the operation"),
    key("in", &[Step], Type::Buffer, "the buffer that is read"),
    key("out", &[Step], Type::Buffer, "the buffer that is written"),
    star("reduce", &[Step], Type::Other, "sum (default), prod, min, max, avg, or { premul_sum = 0.5 }"),
    star("scalar", &[Step, Reduce], Type::Text, "device or host: where a premul_sum's factor lies"),
    key("premul_sum", &[Reduce], Type::RealByRank, "each rank's input times this, then the sum"),
    star("root", &[Step], Type::NumByRank, "the root, default 0"),
    star("comm", &[Step, Comm], Type::Text, "the communicator, default world"),
    star("groups", &[Step, Comm], Type::Groups, "a communicator for each list of world ranks"),
    star("in_place", &[Step], Type::BoolByRank, "in and out share memory as NCCL documents it"),
    star("null_pointers", &[Step], Type::Bool, "pass null for pointers that the call must not look at"),
    star("stream", &[Step], Type::Text, "the stream it runs on, default main"),
    key("after", &[Step], Type::Texts, "streams whose work so far it waits for"),
    star("graph", &[Step], Type::Text, "captured into this graph instead of run"),
    key("times", &[Step], Type::NumByRank, "so often in a row; t is the round"),
    key("name", &[Step], Type::Text, "for assert"),
    key("error", &[Step], Type::TextByRank, "the call returns this and writes nothing"),
    key("peer", &[Step], Type::NumByRank, "the other rank"),
    key("to", &[Step], Type::NumByRank, "of send_recv: whom it sends to"),
    key("from", &[Step], Type::NumByRank, "of send_recv: whom it receives from"),
    key("counts", &[Step], Type::Other, "row r, column j is what r sends to j; or an expression in rank and peer"),
    key("expr", &[Step], Type::Expr, "element i of out"),
    key("seconds", &[Step], Type::RealByRank, "how long"),
    key("signals", &[Step], Type::NumByRank, "how many signals from that peer"),
    key("new", &[Step], Type::Text, "the new communicator's name"),
    key("color", &[Step, Comm], Type::NumByRank, "ranks of one colour come together; -1 for none"),
    key("key", &[Step, Comm], Type::NumByRank, "order in the new communicator"),
    key("without", &[Step], Type::Ranks, "ranks that are left out"),
    key("with", &[Step], Type::Ranks, "ranks that join"),
    key("abort", &[Step], Type::Bool, "abort the communicator first"),
    // requires.
    key("nccl", &[Requires], Type::Text, "versions, like >=2.28"),
    key("library", &[Requires], Type::Text, "nvidia: NVIDIA's NCCL, or what behaves as it does"),
    key("gpus", &[Requires], Type::Int, "least number of GPUs"),
    key("nodes", &[Requires], Type::Int, "least number of machines"),
    key("compute", &[Requires], Type::Text, "least compute capability"),
    key("backend", &[Requires], Type::Text, "soft or nccl"),
];

/// NCCL's configuration fields, and whether the value is text.
pub const CONFIG_FIELDS: &[(&str, bool)] = &[
    ("blocking", false),
    ("cgaClusterSize", false),
    ("minCTAs", false),
    ("maxCTAs", false),
    ("netName", true),
    ("splitShare", false),
    ("trafficClass", false),
    ("commName", true),
    ("collnetEnable", false),
    ("CTAPolicy", false),
    ("shrinkShare", false),
    ("nvlsCTAs", false),
    ("nChannelsPerNetPeer", false),
    ("nvlinkCentricSched", false),
    ("graphUsageMode", false),
    ("numRmaCtx", false),
    ("maxP2pPeers", false),
    ("graphStreamOrdering", false),
];

/// The entry of a key in a place.
pub fn find(place: Place, name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|k| k.name == name && k.places.contains(&place))
}

/// The keys that may stand in a place.
pub fn of(place: Place) -> impl Iterator<Item = &'static str> {
    KEYS.iter().filter(move |k| k.places.contains(&place)).map(|k| k.name)
}

/// The keys that may be defaults.
pub fn stars() -> impl Iterator<Item = &'static str> {
    KEYS.iter().filter(|k| k.star).map(|k| k.name)
}

/// True if a step of this operation may have the key.
pub fn on_step(op: &Op, name: &str) -> bool {
    COMMON_KEYS.contains(&name) || op.keys.contains(&name)
}

/// True if the key may stand at the top of the file.
pub fn at_top(name: &str) -> bool {
    find(File, name).is_some() || KEYS.iter().any(|k| k.star && k.name == name)
}
