//! Inputs: regular files, which are opened without waiting for anybody and read up to a limit.
//!
//! The length that a file reports is not used as the limit: it may grow, or be false.
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The reason a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// A folder, a pipe, a device or a socket: reading it could wait or never end.
    #[error("it is not a regular file")]
    NotRegular,
    /// More bytes than the limit.
    #[error("it has more than {0} bytes")]
    TooLong(u64),
    /// The operating system refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Io(error) => error,
            other => io::Error::new(io::ErrorKind::InvalidInput, other.to_string()),
        }
    }
}

/// Opens a regular file, or the target of a link.
///
/// # Errors
///
/// It cannot be opened, or is not a regular file.
pub fn open(path: &Path) -> Result<File, Refused> {
    open_with(path, OFlags::empty())
}

/// Opens a regular file that is not a link.
///
/// # Errors
///
/// Same as [`open`]; `ELOOP` for a link.
pub fn open_no_link(path: &Path) -> Result<File, Refused> {
    open_with(path, OFlags::NOFOLLOW)
}

fn open_with(path: &Path, more: OFlags) -> Result<File, Refused> {
    // Without waiting for the writer of a pipe.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | more;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(opened) => File::from(opened),
        // A socket, or a device without a driver.
        Err(Errno::NXIO | Errno::NODEV) => return Err(Refused::NotRegular),
        Err(error) => return Err(Refused::Io(error.into())),
    };
    if file.metadata()?.is_file() { Ok(file) } else { Err(Refused::NotRegular) }
}

/// The bytes of a file, of which there may be at most `most`.
///
/// # Errors
///
/// The file cannot be read, or has more bytes.
pub fn read(file: File, most: u64) -> Result<Vec<u8>, Refused> {
    // The length that the file reports would be useless: it may grow, and files in /proc report 0.
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(Refused::TooLong(most)) } else { Ok(bytes) }
}

/// The text of a regular file of at most this many bytes.
///
/// # Errors
///
/// Same as [`open`] and [`read`], or the file is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> Result<String, Refused> {
    let text = String::from_utf8(read(open(path)?, most)?);
    text.map_err(|_| Refused::Io(io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_regular_files_are_read_and_up_to_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("text"), "abc").unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("zero")).unwrap();
        std::os::unix::fs::symlink("text", at("link")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let text = |name: &str, most: u64| read_text(&at(name), most).map_err(|refused| refused.to_string());
        assert_eq!((text("text", 3).unwrap(), text("link", 3).unwrap()), ("abc".to_owned(), "abc".to_owned()));
        assert_eq!(text("text", 2).unwrap_err(), "it has more than 2 bytes");
        for name in ["zero", "pipe", "socket", ""] {
            assert_eq!(text(name, 3).unwrap_err(), "it is not a regular file", "{name}");
        }
        assert!(matches!(open_no_link(&at("link")), Err(Refused::Io(_))));
        fs::write(at("bytes"), b"\xff").unwrap();
        assert_eq!(text("bytes", 3).unwrap_err(), "it is not UTF-8 text");
    }
}
