//! Reads the files of a job side by side, so that the calls of all ranks are met at about the same time.
use super::error::Error;
use collspec_core::files;
use std::collections::VecDeque;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Bytes of a file that are read in one turn. No line of a recording is as long.
const TURN: usize = 256 << 10;

/// How far a file was read.
struct Position {
    path: PathBuf,
    offset: u64,
    /// Lines before that.
    lines: u64,
}

/// Gives each line of the files to `take`. Files are not kept open: there may be more of them than descriptors.
///
/// # Errors
///
/// A file cannot be read, has a line that is too long, or one that `take` refuses.
pub fn read(paths: &[PathBuf], take: &mut dyn FnMut(&str) -> Result<(), String>) -> Result<(), Error> {
    let start = |path: &PathBuf| Position { path: path.clone(), offset: 0, lines: 0 };
    let mut turns: VecDeque<Position> = paths.iter().map(start).collect();
    let mut bytes = vec![0; TURN];
    while let Some(mut position) = turns.pop_front() {
        if turn(&mut position, &mut bytes, take)? {
            turns.push_back(position);
        }
    }
    Ok(())
}

/// Reads on in a file; false if it has no more whole lines. A line without an end is one that was being written.
fn turn(
    position: &mut Position,
    bytes: &mut [u8],
    take: &mut dyn FnMut(&str) -> Result<(), String>,
) -> Result<bool, Error> {
    let Position { path, offset, lines } = position;
    let file = files::open(path).map_err(|refused| Error::read(path, refused))?;
    let mut len = 0;
    while len < bytes.len() {
        match file.read_at(&mut bytes[len..], *offset + len as u64) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::read(path, error.into())),
        }
    }
    let refused = |lines: u64, message| Error::Line { path: path.display().to_string(), line: lines, message };
    let Some(end) = bytes[..len].iter().rposition(|byte| *byte == b'\n') else {
        return match len < bytes.len() {
            true => Ok(false),
            false => Err(refused(*lines + 1, format!("a line of more than {TURN} bytes, which no recording has"))),
        };
    };
    for line in bytes[..end].split(|byte| *byte == b'\n') {
        *lines += 1;
        take(&String::from_utf8_lossy(line)).map_err(|message| refused(*lines, message))?;
    }
    *offset += end as u64 + 1;
    Ok(true)
}
