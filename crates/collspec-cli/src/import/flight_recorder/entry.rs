//! An entry of a dump: a call.
use super::super::{MAX_COUNT, MAX_RANKS};
use super::pieces::sum;
use super::value::{Id, Values, Work};
use collspec_core::num::DType;
use serde::Serialize;
use std::collections::HashSet;
use std::sync::Arc;

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// An operation of all ranks of the group, by the scenario language's word.
    Collective(&'static str),
    /// To this rank of the group.
    Send(usize),
    /// From this rank of the group.
    Recv(usize),
    /// The end of calls that were launched together.
    End,
}

/// How far a call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Completed,
    Started,
    Scheduled,
}

impl State {
    pub fn word(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Started => "started",
            Self::Scheduled => "scheduled",
        }
    }
}

/// A call of a rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The order in which a rank made its calls.
    pub record: i128,
    pub group: Arc<str>,
    pub desc: Arc<str>,
    /// The number among the collectives of the group.
    pub number: u64,
    /// The number among the messages of the group.
    pub message: u64,
    /// Equal for calls that were launched together; torch gives every call another one.
    pub launch: i128,
    /// Without the library that it is of.
    pub name: String,
    pub what: What,
    pub in_place: bool,
    /// Elements of each tensor.
    pub inputs: Vec<u64>,
    pub outputs: Vec<u64>,
    /// The types of the inputs, or of the outputs if there are no inputs; at least one. A type that NCCL lacks is `None`.
    pub dtypes: Vec<Option<DType>>,
    pub state: State,
    /// When it was made, and when it was seen to be complete, in nanoseconds of its host's clock; 0 if that is not known.
    pub created: u64,
    pub seen_completed: u64,
    pub stack: Stack,
}

/// The program's frames that led to a call, the innermost first; torch's own are left out.
pub type Stack = Arc<[Frame]>;

/// A line of the program.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Frame {
    pub function: Arc<str>,
    pub file: Arc<str>,
    pub line: Option<i128>,
}

impl Frame {
    /// The file without its folder, and the line, as people write it: `train.py:150`.
    pub fn place(&self) -> String {
        let name: String = self.file.rsplit('/').next().unwrap_or(&self.file).chars().take(MAX_NAME).collect();
        self.at(&name)
    }

    /// The same with the folder.
    pub fn path(&self) -> String {
        self.at(&self.file)
    }

    fn at(&self, file: &str) -> String {
        self.line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}"))
    }
}

/// What one of NCCL's calls is given.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub dtype: Option<DType>,
    pub input: u64,
    pub output: u64,
}

impl Entry {
    /// The number of NCCL's calls: torch makes one for each tensor of a coalesced collective, and copies other lists of tensors into
    /// one first.
    pub fn calls(&self) -> usize {
        let takes_each = match self.what {
            What::Collective("reduce_scatter") => self.outputs.len() > 1,
            What::Collective("all_reduce" | "all_gather" | "broadcast" | "reduce") => true,
            _ => false,
        };
        if takes_each { self.inputs.len().max(1) } else { 1 }
    }

    /// What each of the calls is given.
    pub fn parts(&self) -> Vec<Part> {
        let elements = |list: &[u64], at: usize| list.get(at).copied().unwrap_or(0);
        let part = |at| Part {
            dtype: self.dtypes.get(at).or(self.dtypes.first()).copied().flatten(),
            input: elements(&self.inputs, at),
            output: elements(&self.outputs, at),
        };
        if self.calls() > 1 {
            return (0..self.calls()).map(part).collect();
        }
        vec![Part { input: sum(&self.inputs), output: sum(&self.outputs), ..part(0) }]
    }

    pub fn is_message(&self) -> bool {
        matches!(self.what, What::Send(_) | What::Recv(_))
    }

    /// True for the calls of which torch makes a collective of unlike sizes.
    pub fn is_of_parts(&self) -> bool {
        matches!(self.name.as_str(), "_broadcast_oop" | "_reduce_oop")
    }

    /// The line that made the call; empty if it is not known.
    pub fn line(&self) -> String {
        self.stack.first().map_or_else(String::new, Frame::place)
    }

    /// How a comment names the call.
    pub fn label(&self) -> String {
        if self.is_message() { format!("message {}", self.message) } else { self.number.to_string() }
    }

    /// True if the call was launched together with the one before it.
    pub fn continues(&self, before: &Entry) -> bool {
        let is_barrier = |entry: &Entry| entry.what == What::Collective("barrier");
        if before.what == What::End || is_barrier(before) || is_barrier(self) {
            return false;
        }
        let is_numbered = if before.is_message() {
            (self.is_message() || self.what == What::End) && self.message == before.message && self.message > 0
        } else {
            !self.is_message() && self.number == before.number && self.number > 0
        };
        is_numbered || (self.launch > 0 && self.launch == before.launch)
    }
}

/// The tensors of a call, dimensions of a tensor, and frames that are looked at.
const MAX_TENSORS: usize = 8_192;
const MAX_DIMENSIONS: usize = 64;
const MAX_FRAMES: usize = 256;
/// Frames of a call that are kept.
const MAX_KEPT_FRAMES: usize = 32;
/// Characters of the name of a file.
const MAX_NAME: usize = 80;

/// Reads an entry; the inner error is the name of an operation that is not known.
pub fn entry(values: &Values, id: Id, at: usize, stacks: &mut Stacks) -> Result<Result<Entry, String>, String> {
    values.spend(Work::Entry, 1);
    let number = |key: &str| values.field(id, key).and_then(|id| values.number(id));
    let text = |key: &str| values.field(id, key).and_then(|id| values.text(id));
    let time = |key: &str| number(key).and_then(|time| u64::try_from(time).ok()).unwrap_or(0);
    let full = text("profiling_name").ok_or("it has no profiling_name")?;
    let name: String = full.split_once(':').map_or(full, |(_, name)| name).chars().take(80).collect();
    let Some((what, in_place)) = what(&name)? else { return Ok(Err(name)) };
    let (group, desc) = match values.field(id, "process_group").and_then(|id| values.list(id)) {
        Some([name, desc, ..]) => {
            let desc = values.text(*desc).and_then(|_| values.name(*desc)).unwrap_or_default();
            (values.name(*name).ok_or("process_group has no name")?, desc)
        }
        _ => (number("pg_id").ok_or("it has neither process_group nor pg_id")?.to_string().into(), Arc::default()),
    };
    let sequence = number("collective_seq_id").or_else(|| number("seq_id")).unwrap_or(0);
    let (given, got) = (elements(values, id, "input_dtypes"), elements(values, id, "output_dtypes"));
    Ok(Ok(Entry {
        record: number("record_id").unwrap_or(at as i128),
        group,
        desc,
        number: u64::try_from(sequence).map_err(|_| "collective_seq_id is negative or too large".to_owned())?,
        message: number("p2p_seq_id").and_then(|number| u64::try_from(number).ok()).unwrap_or(0),
        launch: number("op_id").unwrap_or(0),
        name,
        what,
        in_place,
        inputs: sizes(values, id, "input_sizes", &given)?,
        outputs: sizes(values, id, "output_sizes", &got)?,
        dtypes: (0..if given.is_empty() { got.len() } else { given.len() }.max(1))
            .map(|at| [&given, &got].iter().find_map(|list| element(list, at).dtype))
            .collect(),
        state: match text("state") {
            Some("completed") => State::Completed,
            Some("started") => State::Started,
            _ => State::Scheduled,
        },
        created: time("time_created_ns"),
        seen_completed: time("time_discovered_completed_ns"),
        stack: stacks.of(values, id),
    }))
}

/// What a name means, and whether the call works in place.
fn what(name: &str) -> Result<Option<(What, bool)>, String> {
    if let Some((sends, rest)) =
        name.strip_prefix("send ").map(|rest| (true, rest)).or(name.strip_prefix("recv ").map(|rest| (false, rest)))
    {
        let (_, peer) = rest.split_once(if sends { "->" } else { "<-" }).unwrap_or_default();
        let peer = peer.trim().parse().ok().filter(|peer| *peer < MAX_RANKS);
        let peer = peer.ok_or_else(|| format!("`{name}` names no ranks"))?;
        return Ok(Some((if sends { What::Send(peer) } else { What::Recv(peer) }, false)));
    }
    // Of an all_gather or a reduce_scatter of unlike sizes, which is a group of other calls: `ALLGATHER_coalesced`.
    let is_kind = |name: &str| !name.bytes().any(|byte| byte.is_ascii_lowercase());
    if name == "coalesced" || name.strip_suffix("_coalesced").is_some_and(is_kind) {
        return Ok(Some((What::End, false)));
    }
    if name.ends_with("barrier") {
        return Ok(Some((What::Collective("barrier"), false)));
    }
    let mut plain = name.trim_start_matches('_');
    let ends = ["_coalesced", "_oop", "_base", "_into_tensor", "_tensor", "_single"];
    while let Some(shorter) = ends.iter().find_map(|end| plain.strip_suffix(end)) {
        plain = shorter;
    }
    let op = match plain {
        "all_reduce" | "allreduce" => "all_reduce",
        "all_gather" | "allgather" => "all_gather",
        "reduce_scatter" => "reduce_scatter",
        "broadcast" => "broadcast",
        "reduce" => "reduce",
        "gather" => "gather",
        "scatter" => "scatter",
        "all_to_all" | "alltoall" | "all_to_allv" | "all_to_all_v" => "all_to_all",
        _ => return Ok(None),
    };
    let in_place = !name.contains("_oop") && matches!(op, "all_reduce" | "broadcast" | "reduce");
    Ok(Some((What::Collective(op), in_place)))
}

/// The elements of each tensor, as NCCL counts them.
fn sizes(values: &Values, id: Id, key: &str, types: &[Element]) -> Result<Vec<u64>, String> {
    let Some(list) = values.field(id, key).and_then(|id| values.list(id)) else { return Ok(Vec::new()) };
    if list.len() > MAX_TENSORS {
        return Err(format!("{key} has {} tensors: at most {MAX_TENSORS} are read", list.len()));
    }
    values.spend(Work::Tensor, list.len());
    let elements = |(at, tensor): (usize, &Id)| {
        let dimensions = values.list(*tensor).filter(|dimensions| dimensions.len() <= MAX_DIMENSIONS);
        let mut elements = element(types, at).numbers;
        let dimensions = dimensions.ok_or_else(|| format!("{key} is not a list of lists of lengths"))?;
        values.spend(Work::Key, dimensions.len());
        for dimension in dimensions {
            let length = values.number(*dimension).and_then(|number| u64::try_from(number).ok());
            let length = length.ok_or_else(|| format!("{key} has a length that is not a number"))?;
            elements = elements.saturating_mul(length);
        }
        let fits = elements <= MAX_COUNT;
        fits.then_some(elements).ok_or_else(|| format!("{key} has a tensor of more than {MAX_COUNT} elements"))
    };
    list.iter().enumerate().map(elements).collect()
}

/// What an element of a tensor is to NCCL.
#[derive(Clone, Copy)]
struct Element {
    /// `None` if NCCL does not have it.
    dtype: Option<DType>,
    /// Numbers of this type.
    numbers: u64,
}

/// The elements of each tensor.
fn elements(values: &Values, id: Id, key: &str) -> Vec<Element> {
    let list = values.field(id, key).and_then(|id| values.list(id)).unwrap_or_default();
    values.spend(Work::Key, list.len().min(MAX_TENSORS));
    let element = |id: &Id| {
        let name = values.text(*id).unwrap_or_default();
        // Torch passes complex numbers as pairs of real ones.
        let (name, numbers) = name.strip_prefix("Complex").map_or((name, 1), |part| (part, 2));
        let dtype = match name {
            "Byte" | "Bool" => Some(DType::U8),
            "Float8_e4m3fn" => Some(DType::F8e4m3),
            name => DType::parse(name),
        };
        Element { dtype, numbers }
    };
    list.iter().take(MAX_TENSORS).map(element).collect()
}

/// That of a tensor; tensors without one are like the first.
fn element(list: &[Element], at: usize) -> Element {
    list.get(at).or(list.first()).copied().unwrap_or(Element { dtype: None, numbers: 1 })
}

/// The different stacks of a dump: calls of one line share theirs.
#[derive(Debug, Default)]
pub struct Stacks(HashSet<Stack>);

impl Stacks {
    fn of(&mut self, values: &Values, id: Id) -> Stack {
        let frames = values.field(id, "frames").and_then(|id| values.list(id)).unwrap_or_default();
        let frame = |frame: &Id| {
            let field = |key: &str| values.field(*frame, key);
            let file = field("filename").filter(|id| values.text(*id).is_some()).and_then(|id| values.name(id))?;
            let is_torch = file.starts_with("torch/") || file.contains("/torch/");
            let function = field("name").and_then(|id| values.name(id)).unwrap_or_default();
            let line = field("line").and_then(|id| values.number(id));
            (!is_torch).then_some(Frame { function, file, line })
        };
        let frames: Vec<Frame> = frames.iter().take(MAX_FRAMES).filter_map(frame).take(MAX_KEPT_FRAMES).collect();
        if let Some(known) = self.0.get(frames.as_slice()) {
            return known.clone();
        }
        let stack: Stack = frames.into();
        self.0.insert(stack.clone());
        stack
    }
}
