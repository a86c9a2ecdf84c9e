//! A dump of one rank: its process groups and its calls.
use super::super::source::Source;
use super::super::{Error, MAX_RANKS};
use super::entry::{Entry, Stacks, entry};
use super::files::DumpFile;
use super::value::{Id, Values, Work};
use super::{json, pickle};
use std::io::Read;
use std::sync::Arc;

/// Bytes of a dump.
const MAX_BYTES: u64 = 32 << 20;
/// Calls of a rank: more than the recorder keeps unless it is told to.
const MAX_ENTRIES: usize = 100_000;
/// NCCL's calls of a rank: an entry may have one for each of its tensors.
const MAX_CALLS: usize = 1 << 20;

/// A process group as a rank knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub name: Arc<str>,
    pub desc: Arc<str>,
    /// World ranks; empty if the dump does not say them.
    pub ranks: Vec<usize>,
}

/// What one rank recorded.
#[derive(Clone, Debug)]
pub struct Dump {
    pub rank: usize,
    pub version: String,
    pub library: String,
    pub groups: Vec<Group>,
    /// In the order in which they were made.
    pub entries: Vec<Entry>,
    /// Names of entries whose operation is not known.
    pub unknown: Vec<String>,
}

pub fn read(file: &DumpFile) -> Result<Dump, Error> {
    read_from(file.rank, &Source::File(file.path.clone()))
}

pub fn read_from(rank: usize, source: &Source) -> Result<Dump, Error> {
    let path = source.shown();
    let mut bytes = Vec::new();
    let read = source.bytes()?.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|source| Error::Read { path: path.clone(), source })?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Error::at(path, format!("it has more than {MAX_BYTES} bytes")));
    }
    parse(rank, &path, &bytes)
}

/// Reads the bytes of a dump.
pub fn parse(rank: usize, path: &str, bytes: &[u8]) -> Result<Dump, Error> {
    if bytes.is_empty() {
        return Err(Error::at(path, "it is empty: the rank was ended before it wrote its dump"));
    }
    let values = if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
        json::read(bytes).map_err(|message| Error::at(path, message))?
    } else {
        let at = |wrong: pickle::Wrong| Error::at(format!("{path}: byte {}", wrong.offset), wrong.message);
        pickle::read(bytes).map_err(at)?
    };
    dump(rank, &values, bytes.len()).map_err(|message| Error::at(path, message))
}

fn dump(rank: usize, values: &Values, bytes: usize) -> Result<Dump, String> {
    let root = values.root;
    let entries = values.field(root, "entries").and_then(|id| values.list(id));
    let entries = entries.ok_or("it has no list `entries`, so it is not a dump of the Flight Recorder")?;
    if entries.len() > MAX_ENTRIES {
        return Err(format!("{} entries: at most {MAX_ENTRIES} are read", entries.len()));
    }
    let word = |key: &str| {
        let text = values.field(root, key).and_then(|id| values.text(id));
        text.map(|text| text.chars().take(40).collect::<String>()).filter(|text| !text.is_empty())
    };
    let mut dump = Dump {
        rank,
        version: word("version").unwrap_or_default(),
        library: word("comm_lib_version").or_else(|| word("nccl_version")).unwrap_or_default(),
        groups: groups(values, bytes)?,
        entries: Vec::new(),
        unknown: Vec::new(),
    };
    let (mut calls, mut stacks) = (0, Stacks::default());
    for (at, id) in entries.iter().enumerate() {
        match entry(values, *id, at, &mut stacks).map_err(|message| format!("entries[{at}]: {message}"))? {
            Ok(entry) => {
                calls += entry.calls();
                if calls > MAX_CALLS {
                    return Err(format!("entries[{at}]: at most {MAX_CALLS} calls, one for each tensor, are read"));
                }
                dump.entries.push(entry);
            }
            Err(name) => dump.unknown.push(name),
        }
        values.check_work(bytes)?;
    }
    dump.entries.sort_by_key(|entry| entry.record);
    Ok(dump)
}

fn groups(values: &Values, bytes: usize) -> Result<Vec<Group>, String> {
    let Some(config) = values.field(values.root, "pg_config") else { return Ok(Vec::new()) };
    let pairs = values.dict(config).ok_or("pg_config is not a dictionary")?;
    let group = |(key, value): &(Id, Id)| {
        values.spend(Work::Group, 1);
        let name = values.name(*key).ok_or("pg_config has a key that is not a name")?;
        let desc = values.field(*value, "desc").filter(|id| values.text(*id).is_some());
        let desc = desc.and_then(|id| values.name(id)).unwrap_or_default();
        let ranks = values.field(*value, "ranks").map_or(Ok(Vec::new()), |id| ranks(values, id));
        let ranks = ranks.map_err(|message| format!("pg_config of `{name}`: {message}"))?;
        values.spend(Work::Rank, ranks.len());
        values.check_work(bytes)?;
        Ok(Group { name, desc, ranks })
    };
    pairs.iter().take(MAX_ENTRIES).map(group).collect()
}

/// `"[0, 1]"`, or a list.
fn ranks(values: &Values, id: Id) -> Result<Vec<usize>, String> {
    let numbers: Vec<Option<i128>> = match (values.text(id), values.list(id)) {
        (Some(text), _) => {
            let inner = text.trim().trim_start_matches('[').trim_end_matches(']');
            let parts = inner.split(',').map(str::trim).filter(|part| !part.is_empty());
            parts.map(|part| part.parse().ok()).take(MAX_RANKS + 1).collect()
        }
        (None, Some(list)) => list.iter().take(MAX_RANKS + 1).map(|id| values.number(*id)).collect(),
        (None, None) => return Err("`ranks` is not a list".to_owned()),
    };
    let mut ranks = Vec::with_capacity(numbers.len());
    let mut known = [false; MAX_RANKS];
    for number in numbers {
        let rank = number.and_then(|number| usize::try_from(number).ok()).ok_or("`ranks` has what is not a rank")?;
        if rank >= MAX_RANKS {
            return Err(format!("rank {rank}: a scenario has at most {MAX_RANKS} ranks"));
        }
        if std::mem::replace(&mut known[rank], true) {
            return Err(format!("`ranks` has {rank} twice"));
        }
        ranks.push(rank);
    }
    Ok(ranks)
}
