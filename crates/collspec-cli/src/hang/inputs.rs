//! What of a folder, of files or of the standard input are dumps, and what are logs or recordings.
use super::job::Job;
use crate::import::flight_recorder::{self, Dump, DumpFile, newer_of_rank, rank_of};
use crate::import::source::Source;
use crate::import::{Error, MAX_RANKS};
use collspec_core::judge::message::ranks_text;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::BufRead;
use std::path::{Path, PathBuf};

/// Files of a folder that are looked at.
const MAX_FILES: usize = 16_384;
/// Numbers in names from this one on are dates.
const MAX_ROTATED: u64 = 10_000;
/// Bytes by which a file is recognised.
const MAX_LOOK: usize = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Of PyTorch's Flight Recorder.
    Dumps,
    /// NCCL's, or what `collspec record` wrote.
    Logs,
}

/// What there is about a job.
#[derive(Debug, Default)]
pub struct Evidence {
    dumps: BTreeMap<usize, Dump>,
    logs: Vec<Source>,
    /// The files of the dumps that were read.
    dump_files: Vec<DumpFile>,
    /// Ranks of which a dump of an earlier run was left out.
    again: BTreeSet<usize>,
    /// All files that were looked at.
    files: Vec<PathBuf>,
    /// What could not be read, and why.
    remarks: Vec<String>,
}

/// Reads files and the files of folders; `-` is the standard input.
///
/// # Errors
///
/// A file or folder that was named cannot be read, or nothing in them is a dump or a log.
pub fn read(paths: &[PathBuf]) -> Result<Evidence, Error> {
    let mut evidence = Evidence::default();
    for path in paths {
        if path.as_os_str() == "-" {
            evidence.take(Source::input()?, false)?;
        } else if path.is_dir() {
            for file in in_folder(path)? {
                evidence.take(Source::File(file), true)?;
            }
        } else {
            evidence.take(Source::File(path.clone()), false)?;
        }
    }
    if evidence.dumps.is_empty() && evidence.logs.is_empty() {
        return Err(match evidence.remarks.as_slice() {
            [] => {
                Error::Input("there are no files in these folders, which are not searched for further ones".to_owned())
            }
            remarks => Error::Input(format!("none of the files is a dump or a log: {}", remarks.join("; "))),
        });
    }
    Ok(evidence)
}

/// The files of a folder. Of a log that was rotated, the oldest file comes first.
fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::Read { path: folder.display().to_string(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)?.take(MAX_FILES) {
        let path = entry.map_err(failed)?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort_by_key(|path| age(path));
    Ok(files)
}

/// The name without the number that rotation adds to it, as in `job.log.2.gz` or `job.2.log`, and that number: a higher one is older. It may
/// also be the number of a process, as the order in which the logs of different processes are read does not matter.
fn age(path: &Path) -> (String, Reverse<u64>) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut parts: Vec<&str> = name.strip_suffix(".gz").unwrap_or(&name).split('.').collect();
    let of_number = |at: &usize| Some((*at, parts.get(*at)?.parse().ok().filter(|number| *number < MAX_ROTATED)?));
    let last = parts.len() - 1;
    let number = [last, last.saturating_sub(1)].iter().filter(|at| **at > 0).find_map(of_number);
    let rotated = number.map_or(0, |(at, number)| {
        parts.remove(at);
        number
    });
    (parts.join("."), Reverse(rotated))
}

impl Evidence {
    /// Adds a file. A dump that cannot be read is remarked, and so is any file that was found in a folder: the others may be enough.
    pub(super) fn take(&mut self, source: Source, is_found: bool) -> Result<(), Error> {
        self.files.extend(source.path().map(Path::to_owned));
        let kind = match kind(&source) {
            Ok(kind) => kind,
            Err(error) if is_found => {
                self.remarks.push(format!("left out: {error}"));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        match kind {
            Kind::Logs => self.logs.push(source),
            Kind::Dumps => {
                let named = source.path().and_then(|path| rank_of(path.file_name()?.to_str()?));
                let Some((rank, is_json)) = named.filter(|(rank, _)| *rank < MAX_RANKS) else {
                    let shown = source.shown();
                    self.remarks.push(format!(
                        "{shown} is left out: nothing says of which rank it is, for the name of a dump ends in the number of its rank, below {MAX_RANKS}"
                    ));
                    return Ok(());
                };
                match flight_recorder::read(rank, &source) {
                    Ok(dump) if self.dumps.get(&rank).is_none_or(|other| newer_of_rank(other, &dump)) => {
                        if self.dumps.insert(rank, dump).is_some() {
                            self.again.insert(rank);
                        }
                        self.dump_files.retain(|file| file.rank != rank);
                        self.dump_files.extend(source.path().map(|path| DumpFile { rank, path: path.to_owned() }));
                    }
                    // torch writes JSON beside the pickle on demand, without the lines.
                    Ok(_) if is_json => {}
                    Ok(_) => {
                        let shown = source.shown();
                        self.remarks.push(format!("{shown} is left out: another dump is of rank {rank} too"));
                    }
                    Err(error) => self.remarks.push(format!("the dump of rank {rank} is left out: {error}")),
                }
            }
        }
        Ok(())
    }

    pub fn kind(&self) -> Kind {
        if self.dumps.is_empty() { Kind::Logs } else { Kind::Dumps }
    }

    pub fn logs(&self) -> &[Source] {
        &self.logs
    }

    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    pub fn dump_files(&self) -> &[DumpFile] {
        &self.dump_files
    }

    /// The calls of all ranks. Where there are dumps, these say more than logs.
    ///
    /// # Errors
    ///
    /// There is more in it than can be read, or what is needed is not in it.
    pub fn job(self, progress: &mut dyn FnMut(u64)) -> Result<Job, Error> {
        let mut job = if self.dumps.is_empty() {
            Job::of_logs(&self.logs, progress)?
        } else {
            Job::of_dumps(self.dumps.into_values().collect())?
        };
        if !self.again.is_empty() {
            let ranks = ranks_text(&self.again.into_iter().collect::<Vec<_>>());
            job.remarks.insert(0, format!("the job was started again, and of {ranks} only the later dump is read"));
        }
        job.remarks.extend(self.remarks);
        if job.knows_progress && !self.logs.is_empty() {
            let what = if self.logs.len() == 1 { "1 file is" } else { &format!("{} files are", self.logs.len()) };
            job.remarks.push(format!("{what} no dump, and not looked at: dumps say more than logs"));
        }
        Ok(job)
    }
}

/// A pickle, or an object of JSON that is not a line of a log driver's file, is a dump.
fn kind(source: &Source) -> Result<Kind, Error> {
    let named = || source.path().and_then(|path| rank_of(path.file_name()?.to_str()?)).is_some();
    let mut bytes = source.bytes()?;
    let failed = |error| Error::Read { path: source.shown(), source: error };
    let start = bytes.fill_buf().map_err(failed)?;
    let start = &start[..start.len().min(MAX_LOOK)];
    let is_pickle = start.first() == Some(&0x80) && start.get(1).is_some_and(|protocol| (2..=5).contains(protocol));
    let is_object = start.trim_ascii_start().first() == Some(&b'{');
    // A driver's line is complete, and has no calls.
    let line = start.iter().position(|byte| *byte == b'\n').and_then(|end| start.get(..end));
    let line: Option<serde_json::Value> = line.and_then(|line| serde_json::from_slice(line).ok());
    let is_of_driver = line.is_some_and(|line| line.get("entries").is_none());
    let is_dump = is_pickle || is_object && !is_of_driver || start.is_empty() && named();
    Ok(if is_dump { Kind::Dumps } else { Kind::Logs })
}
