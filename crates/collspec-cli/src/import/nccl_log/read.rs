//! Reads files line by line, with flat memory.
use super::super::Error;
use super::super::log_line::written;
use super::super::source::Source;
use super::collect::Collector;
use std::io::{BufRead, Read};

/// Bytes of a line that are looked at. No line of NCCL's is as long.
const MAX_LINE: usize = 1 << 16;
/// Lines between two reports of progress.
const LINES_PER_REPORT: u64 = 4_096;

/// Reads all files. `progress` gets the number of bytes read so far, now and then.
pub fn read_files(files: &[Source], into: &mut Collector, progress: &mut dyn FnMut(u64)) -> Result<(), Error> {
    let mut done = 0u64;
    for file in files {
        done += read(file.text()?, &file.shown(), into, &mut |bytes| progress(done + bytes))?;
    }
    into.end().map_err(Error::Input)
}

/// Reads one file; returns its length.
pub fn read(
    mut from: impl BufRead,
    path: &str,
    into: &mut Collector,
    progress: &mut dyn FnMut(u64),
) -> Result<u64, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let (mut bytes, mut number) = (0u64, 0u64);
    let mut line = Vec::new();
    into.begin_file(path);
    loop {
        line.clear();
        let read = from.by_ref().take(MAX_LINE as u64).read_until(b'\n', &mut line).map_err(failed)?;
        if read == 0 {
            return Ok(bytes);
        }
        bytes += read as u64;
        number += 1;
        if read == MAX_LINE && line.last() != Some(&b'\n') {
            bytes += from.skip_until(b'\n').map_err(failed)? as u64;
            line.clear();
        }
        let text = String::from_utf8_lossy(&line);
        for written in written(&text) {
            into.line(&written).map_err(|message| Error::at(format!("{path}:{number}"), message))?;
        }
        if number % LINES_PER_REPORT == 0 {
            progress(bytes);
        }
    }
}
