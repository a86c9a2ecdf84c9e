//! One line of a log: what NCCL says in it, whatever stands before.
use super::super::call::reduces;
use collspec_core::num::DType;

/// The words between the place and the message.
const MARK: &str = " NCCL INFO ";
/// Words of a message that are looked at.
const MAX_WORDS: usize = 64;
/// Characters of a version or of the name of a call.
const MAX_NAME: usize = 40;

/// Who wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Writer<'a> {
    pub host: &'a str,
    pub pid: u64,
    pub tid: u64,
}

/// A communicator begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommInit {
    pub pointer: u64,
    pub rank: usize,
    pub nranks: usize,
    pub device: u64,
    /// Where the device is in its host.
    pub bus: Option<u64>,
    /// The hash of its id.
    pub id: Option<u64>,
    /// The communicator that it was made from.
    pub parent: Option<u64>,
    /// How many were made from the parent before, if the release says it.
    pub number: Option<u64>,
    pub color: Option<u64>,
    pub shrinks: bool,
    /// True if it was said before that it begins, if that line was not lost.
    pub is_complete: bool,
}

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// By the scenario language's word.
    Collective(&'static str),
    Send,
    Recv,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedCall {
    pub kind: Kind,
    pub number: u64,
    pub send: u64,
    pub recv: u64,
    pub count: u64,
    pub dtype: DType,
    pub reduce: &'static str,
    /// The number of the reduction.
    pub op: i64,
    pub factor: Option<String>,
    pub root: usize,
    pub comm: u64,
    /// The ranks of the communicator, if the release says it.
    pub nranks: Option<usize>,
    pub stream: u64,
    /// In a recording: the thread's group that has the call.
    pub group: Option<u64>,
}

/// A reduction that a program made, from a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeReduction {
    pub comm: u64,
    pub op: i64,
    /// A number of the scenario language.
    pub factor: Option<String>,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    Init(CommInit),
    Call(LoggedCall),
    /// A call that no scenario has.
    UnknownCall(String),
    /// The lines are those of `collspec record`.
    Recording,
    Reduction(MadeReduction),
    Version(String),
    /// A process begins to use NCCL.
    Start,
    /// A line of a kind that is read, but half of it is missing.
    Damaged,
    /// Something else.
    Nothing,
}

/// The messages in a line: usually one, several if the lines of several processes were mixed.
pub fn messages(line: &str) -> Vec<(Option<Writer<'_>>, Said)> {
    let marks: Vec<usize> = line.match_indices(MARK).map(|(at, _)| at).collect();
    if marks.is_empty() {
        let version = line.split_once("NCCL version ").and_then(|(_, rest)| version(rest));
        return version.map(|version| (None, version)).into_iter().collect();
    }
    let host = writer(&line[place_start(line, marks[0])..marks[0]]).map(|writer| writer.host);
    let starts: Vec<usize> = marks.iter().map(|mark| place_of_host(line, *mark, host)).collect();
    let ends = starts.iter().skip(1).copied().chain([line.len()]);
    let message = |((mark, start), end): ((&usize, &usize), usize)| {
        let from = (mark + MARK.len()).min(end);
        (writer(&line[*start..*mark]), said(&line[from..end]))
    };
    marks.iter().zip(&starts).zip(ends).map(message).collect()
}

/// Where the place before a mark begins in a line of this host. Without the line break in front of it, the end of the message before
/// runs into it: `stream 0x1003node1:412:430 [0]`.
fn place_of_host(line: &str, mark: usize, host: Option<&str>) -> usize {
    let start = place_start(line, mark);
    let own = writer(&line[start..mark]).zip(host).filter(|(writer, host)| writer.host.ends_with(host));
    own.map_or(start, |(writer, host)| start + writer.host.len() - host.len())
}

/// Where the place before a mark begins: `HOST:PID:TID [DEV]`.
fn place_start(line: &str, mark: usize) -> usize {
    let before = &line[..mark];
    let place = before.rfind('[').map_or(before, |device| &before[..device]).trim_end();
    let is_of_place = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '-' | '_' | '.');
    place.trim_end_matches(is_of_place).len()
}

fn writer(place: &str) -> Option<Writer<'_>> {
    let (place, _) = place.split_once(char::is_whitespace)?;
    let mut parts = place.rsplit(':');
    let (tid, pid, host) = (parts.next()?, parts.next()?, parts.next()?);
    (!host.is_empty()).then_some(Writer { host, pid: pid.parse().ok()?, tid: tid.parse().ok()? })
}

fn version(text: &str) -> Option<Said> {
    let version = text.split_ascii_whitespace().next()?;
    let version = version.starts_with(|c: char| c.is_ascii_digit()).then_some(version)?;
    Some(Said::Version(version.chars().take(MAX_NAME).collect()))
}

fn said(text: &str) -> Said {
    let fields = Fields(text.split_ascii_whitespace().take(MAX_WORDS).collect());
    let has = |word: &str| fields.0.contains(&word);
    let Some(first) = fields.0.first() else { return Said::Nothing };
    let name = first.strip_suffix(':');
    if has("opCount") {
        return name.map_or(Said::Damaged, |name| call(name, &fields));
    }
    if has("Init") && (has("START") || has("COMPLETE")) && has("comm") {
        return init(&fields).map_or(Said::Damaged, Said::Init);
    }
    match *first {
        "cudaDriverVersion" => Said::Start,
        "collspec" if fields.0 == ["collspec", "record"] => Said::Recording,
        "ncclRedOpCreatePreMulSum" => made_reduction(&fields).map_or(Said::Damaged, Said::Reduction),
        "NCCL" | "RCCL" if fields.0.get(1) == Some(&"version") => {
            fields.0.get(2).and_then(|word| version(word)).unwrap_or(Said::Nothing)
        }
        // The beginning of one of the others. After the same name NCCL also says how it tunes a call: `AllReduce: 4000 Bytes -> ...`.
        _ if name.is_some_and(|name| kind(name).is_some()) => match fields.0.get(1) {
            Some(word) if !"opCount".starts_with(word) => Said::Nothing,
            _ => Said::Damaged,
        },
        _ => Said::Nothing,
    }
}

fn init(fields: &Fields<'_>) -> Option<CommInit> {
    let init = CommInit {
        pointer: fields.pointer("comm")?,
        rank: usize::try_from(fields.number("rank")?).ok()?,
        nranks: usize::try_from(fields.number("nranks")?).ok()?,
        device: fields.number("cudaDev").unwrap_or(0),
        bus: fields.text("busId").and_then(|bus| u64::from_str_radix(bus, 16).ok()),
        id: fields.pointer("commId"),
        parent: fields.pointer("parent"),
        number: fields.number("splitCount").or_else(|| fields.number("childCount")),
        color: fields.number("color"),
        // The name of the call that makes it, which older releases do not say.
        shrinks: fields.0.iter().any(|word| word.contains("Shrink")),
        is_complete: fields.0.contains(&"COMPLETE"),
    };
    (init.parent.is_some() || init.id.is_some()).then_some(init)
}

fn call(name: &str, fields: &Fields<'_>) -> Said {
    let Some(kind) = kind(name) else {
        let is_name = name.len() < MAX_NAME && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        return if is_name { Said::UnknownCall(name.to_owned()) } else { Said::Damaged };
    };
    let read = || {
        let dtype = fields.number("datatype")?;
        let op = fields.text("op")?.parse().ok()?;
        Some(LoggedCall {
            kind,
            number: u64::from_str_radix(fields.text("opCount")?, 16).ok()?,
            send: fields.pointer("sendbuff")?,
            recv: fields.pointer("recvbuff")?,
            count: fields.number("count")?,
            dtype: DType::all().into_iter().find(|known| u64::try_from(known.nccl().0) == Ok(dtype))?,
            reduce: reduction(kind, op),
            op,
            factor: None,
            root: usize::try_from(fields.number("root")?).ok()?,
            comm: fields.pointer("comm")?,
            nranks: fields.0.iter().find_map(|word| word.strip_prefix("[nranks=")?.strip_suffix(']')?.parse().ok()),
            stream: fields.pointer("stream")?,
            group: fields.number("group"),
        })
    };
    read().map_or(Said::Damaged, Said::Call)
}

fn made_reduction(fields: &Fields<'_>) -> Option<MadeReduction> {
    let text = fields.text("factor")?;
    let number = || match text.parse::<i64>() {
        Ok(number) => Some(number.to_string()),
        Err(_) => text.parse::<f64>().ok().filter(|number| number.is_finite()).map(|number| format!("{number:?}")),
    };
    let factor = if text == "unknown" { None } else { Some(number()?) };
    Some(MadeReduction { comm: fields.pointer("comm")?, op: fields.text("op")?.parse().ok()?, factor })
}

/// Reductions that a program made are numbered from its communicator's pointer.
fn reduction(kind: Kind, op: i64) -> &'static str {
    match (kind, op) {
        (Kind::Collective(name), 1) if reduces(name) => "prod",
        (Kind::Collective(name), 2) if reduces(name) => "max",
        (Kind::Collective(name), 3) if reduces(name) => "min",
        (Kind::Collective(name), 4) if reduces(name) => "avg",
        (Kind::Collective(name), op) if reduces(name) && op != 0 => "premul_sum",
        _ => "sum",
    }
}

fn kind(name: &str) -> Option<Kind> {
    Some(match name {
        "AllReduce" => Kind::Collective("all_reduce"),
        "Reduce" => Kind::Collective("reduce"),
        "Broadcast" | "Bcast" => Kind::Collective("broadcast"),
        "AllGather" => Kind::Collective("all_gather"),
        "Gather" => Kind::Collective("gather"),
        "ReduceScatter" => Kind::Collective("reduce_scatter"),
        "Scatter" => Kind::Collective("scatter"),
        "AlltoAll" | "AllToAll" => Kind::Collective("all_to_all"),
        "Send" => Kind::Send,
        "Recv" => Kind::Recv,
        _ => return None,
    })
}

/// The words of a message: names that are followed by their value.
struct Fields<'a>(Vec<&'a str>);

impl<'a> Fields<'a> {
    fn text(&self, name: &str) -> Option<&'a str> {
        let at = self.0.iter().position(|word| *word == name)?;
        self.0.get(at + 1).copied()
    }

    /// A decimal number. The last field of some releases runs into a hyphen.
    fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.trim_end_matches('-').parse().ok()
    }

    /// A pointer or a hash: `0x7f..`, or `(nil)`.
    fn pointer(&self, name: &str) -> Option<u64> {
        match self.text(name)? {
            "(nil)" => Some(0),
            text => u64::from_str_radix(text.strip_prefix("0x")?, 16).ok(),
        }
    }
}
