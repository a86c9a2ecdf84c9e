//! The files of a folder that are dumps: their names end in the number of a rank.
use super::super::{Error, MAX_RANKS};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Files of a folder that are looked at.
const MAX_FILES: usize = 16_384;

/// A dump of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpFile {
    pub rank: usize,
    pub path: PathBuf,
}

/// The dumps in a folder, or the only one that is named. Where a rank has a pickle and a JSON file, the pickle has more in it.
///
/// # Errors
///
/// The folder cannot be read, or has no dumps.
pub fn files(folder: &Path) -> Result<Vec<DumpFile>, Error> {
    let shown = folder.display().to_string();
    let failed = |source| Error::Read { path: shown.clone(), source };
    if folder.is_file() {
        let rank = folder.file_name().and_then(|name| rank_of(name.to_str()?));
        let (rank, _) = rank.filter(|(rank, _)| *rank < MAX_RANKS).ok_or_else(|| {
            Error::Input(format!("{shown}: the name of a dump ends in the number of its rank, as nccl_trace_rank_0"))
        })?;
        return Ok(vec![DumpFile { rank, path: folder.to_owned() }]);
    }
    let mut dumps: BTreeMap<usize, (bool, PathBuf)> = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(failed)?.take(MAX_FILES) {
        let path = entry.map_err(failed)?.path();
        let Some((rank, is_json)) = path.file_name().and_then(|name| rank_of(name.to_str()?)) else { continue };
        if !path.is_file() {
            continue;
        }
        if rank >= MAX_RANKS {
            let message = format!("{}: rank {rank}: a scenario has at most {MAX_RANKS} ranks", path.display());
            return Err(Error::Input(message));
        }
        match dumps.get(&rank) {
            Some((other_is_json, other)) if *other_is_json == is_json => {
                let (first, second) = (other.min(&path).display(), other.max(&path).display());
                return Err(Error::Input(format!("{first} and {second} are both of rank {rank}: keep one of them")));
            }
            Some((false, _)) => {}
            _ => _ = dumps.insert(rank, (is_json, path)),
        }
    }
    if dumps.is_empty() {
        return Err(Error::Input(format!(
            "{shown} has no dumps: files whose names end in the number of a rank, such as nccl_trace_rank_0"
        )));
    }
    Ok(dumps.into_iter().map(|(rank, (_, path))| DumpFile { rank, path }).collect())
}

/// The number at the end of a name, and whether the name is that of a JSON file.
pub fn rank_of(name: &str) -> Option<(usize, bool)> {
    let name = name.strip_suffix(".gz").unwrap_or(name);
    let is_json = name.ends_with(".json");
    let stem = [".json", ".pickle", ".pkl"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    let digits = stem.len() - stem.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let number = stem.get(stem.len() - digits..)?;
    Some((number.parse().ok()?, is_json))
}
