//! Extracts NCCL's library from a Python wheel, or from the folder into which one was unpacked, and checks its hash against
//! the wheel's list. No code of the wheel runs.
use collspec_core::files;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use zip::ZipArchive;

/// The library's path in wheels.
const LIBRARY_IN_WHEEL: &str = "nvidia/nccl/lib/libnccl.so.2";
/// Largest size of a list of hashes in bytes.
const MAX_RECORD_BYTES: u64 = 16 << 20;
/// Limit on the size of the library in bytes, more than twice that of the largest one: a small wheel can unpack to anything.
pub(super) const MAX_LIBRARY_BYTES: u64 = 1 << 30;

#[derive(Debug, thiserror::Error)]
pub enum WheelError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// Path of the wheel.
        path: PathBuf,
        /// The error in detail.
        source: io::Error,
    },
    /// The library cannot be written.
    #[error("{}: {source}", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// The error from the system.
        source: io::Error,
    },
    /// It lacks a file.
    #[error("{}: no {what} in it", path.display())]
    Lacks {
        /// Path of the wheel.
        path: PathBuf,
        /// Description of the missing file.
        what: &'static str,
    },
    /// It lists a library that is too large.
    #[error("{}: {LIBRARY_IN_WHEEL} has {bytes} bytes, more than {MAX_LIBRARY_BYTES}", path.display())]
    TooLarge {
        /// Path of the wheel.
        path: PathBuf,
        /// Size in bytes.
        bytes: u64,
    },
    /// The bytes are not those that the wheel lists.
    #[error("{}: {LIBRARY_IN_WHEEL} has sha256 {found} and {bytes} bytes, but the wheel lists {listed}", path.display())]
    Hash {
        /// Path of the wheel.
        path: PathBuf,
        /// The hash of the bytes.
        found: String,
        /// Size in bytes.
        bytes: u64,
        /// The line of RECORD.
        listed: String,
    },
}

/// A file's line in RECORD: `path,sha256=HASH,SIZE`.
#[derive(Debug, PartialEq, Eq)]
struct RecordLine {
    hash: String,
    size: u64,
}

/// Copies the library from `wheel` (a `.whl` file, or a folder) into a new file `to`, and returns its hash.
///
/// # Errors
///
/// The wheel cannot be read or lacks the library, its hash is wrong, or the file cannot be written.
pub fn extract(wheel: &Path, to: &Path) -> Result<String, WheelError> {
    let read = |source| WheelError::Read { path: wheel.to_owned(), source };
    let lacks = |what| WheelError::Lacks { path: wheel.to_owned(), what };
    if wheel.is_dir() {
        let records = fs::read_dir(wheel).map_err(read)?.flatten().map(|entry| entry.path().join("RECORD"));
        let nccl = |path: &PathBuf| path.is_file() && is_record(&relative(path, wheel));
        let text = |path: PathBuf| files::read_text(&path, MAX_RECORD_BYTES).map_err(|refused| read(refused.into()));
        let records = records.filter(nccl).map(text).collect::<Result<String, _>>()?;
        let record = library_record(&records).ok_or_else(|| lacks("hash of the library (RECORD)"))?;
        let library = files::open(&wheel.join(LIBRARY_IN_WHEEL)).map_err(|refused| read(refused.into()))?;
        return copy_verified(library, record, wheel, to);
    }
    let zip_error = |error: zip::result::ZipError| read(io::Error::from(error));
    let mut archive = ZipArchive::new(File::open(wheel).map_err(read)?).map_err(zip_error)?;
    let name = archive.file_names().flatten().find(|name| is_record(name)).map(|name| name.into_owned());
    let name = name.ok_or_else(|| lacks("list of hashes (RECORD)"))?;
    let mut records = String::new();
    let list = archive.by_name(&name).map_err(zip_error)?;
    list.take(MAX_RECORD_BYTES).read_to_string(&mut records).map_err(read)?;
    let record = library_record(&records).ok_or_else(|| lacks("hash of the library (RECORD)"))?;
    let library = match archive.by_name(LIBRARY_IN_WHEEL) {
        Err(zip::result::ZipError::FileNotFound) => return Err(lacks("libnccl.so.2")),
        library => library.map_err(zip_error)?,
    };
    copy_verified(library, record, wheel, to)
}

fn relative(path: &Path, root: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

/// True for the path of the list of hashes in a package of NCCL.
fn is_record(name: &str) -> bool {
    name.strip_suffix(".dist-info/RECORD").is_some_and(|package| package.starts_with("nvidia_nccl_cu"))
}

/// The line of the library in the list of hashes.
fn library_record(records: &str) -> Option<RecordLine> {
    let line = records.lines().find_map(|line| line.strip_prefix(LIBRARY_IN_WHEEL)?.strip_prefix(','))?;
    let (hash, size) = line.rsplit_once(',')?;
    Some(RecordLine { hash: hash.strip_prefix("sha256=")?.to_owned(), size: size.trim().parse().ok()? })
}

fn copy_verified(mut library: impl Read, record: RecordLine, wheel: &Path, to: &Path) -> Result<String, WheelError> {
    let read = |source| WheelError::Read { path: wheel.to_owned(), source };
    let write = |source| WheelError::Write { path: to.to_owned(), source };
    if record.size > MAX_LIBRARY_BYTES {
        return Err(WheelError::TooLarge { path: wheel.to_owned(), bytes: record.size });
    }
    let mut file = File::create_new(to).map_err(write)?;
    let mut sum = Sha256::new();
    let mut bytes = 0u64;
    let mut buffer = vec![0; 1 << 20];
    loop {
        let len = match library.read(&mut buffer) {
            Ok(0) => break,
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(read(error)),
        };
        let part = &buffer[..len];
        sum.update(part);
        bytes += len as u64;
        // The limit also holds for an archive that expands without end.
        if bytes > record.size {
            break;
        }
        file.write_all(part).map_err(write)?;
    }
    let found = base64(&sum.finalize());
    if found != record.hash || bytes != record.size {
        let listed = format!("sha256 {} and {} bytes", record.hash, record.size);
        return Err(WheelError::Hash { path: wheel.to_owned(), found, bytes, listed });
    }
    file.sync_all().map_err(write)?;
    Ok(found)
}

/// Base64 with the alphabet for file names and without padding, as in RECORD.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for digit in 0..=group.len() {
            text.push(char::from(DIGITS[(word >> (18 - 6 * digit)) as usize & 63]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use zip::write::{SimpleFileOptions, ZipWriter};

    const RECORD: &str = "nvidia_nccl_cu12-2.30.7.dist-info/RECORD";

    fn line(content: &[u8], size: usize) -> String {
        format!("other,sha256=x,1\n{LIBRARY_IN_WHEEL},sha256={},{size}\n", base64(&Sha256::digest(content)))
    }

    fn wheel(folder: &Path, files: &[(&str, &[u8])]) -> PathBuf {
        let path = folder.join("a.whl");
        let mut zip = ZipWriter::new(File::create(&path).unwrap());
        for (name, content) in files {
            zip.start_file(*name, SimpleFileOptions::default()).unwrap();
            zip.write_all(content).unwrap();
        }
        zip.finish().unwrap();
        path
    }

    #[test]
    fn a_library_comes_out_of_a_wheel_and_of_a_folder_if_its_hash_is_right() {
        let folder = tempfile::tempdir().unwrap();
        let content = b"\x7fELF, as it were".repeat(1000);
        let record = line(&content, content.len());
        let path = wheel(folder.path(), &[(LIBRARY_IN_WHEEL, &content), (RECORD, record.as_bytes())]);
        let hash = extract(&path, &folder.path().join("one")).unwrap();
        assert_eq!(fs::read(folder.path().join("one")).unwrap(), content);
        let tree = folder.path().join("tree");
        for (name, content) in [(LIBRARY_IN_WHEEL, content.as_slice()), (RECORD, record.as_bytes())] {
            fs::create_dir_all(tree.join(name).parent().unwrap()).unwrap();
            fs::write(tree.join(name), content).unwrap();
        }
        assert_eq!(extract(&tree, &folder.path().join("two")).unwrap(), hash);
    }

    #[test]
    fn wrong_bytes_and_lacking_parts_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut count = 0;
        let mut refused = |files: &[(&str, &[u8])]| {
            count += 1;
            extract(&wheel(folder.path(), files), &folder.path().join(count.to_string())).unwrap_err()
        };
        let (good, bad) = (line(b"abc", 3), line(b"abd", 3));
        let longer = line(b"abcd", 3);
        assert!(matches!(refused(&[(LIBRARY_IN_WHEEL, b"abc"), (RECORD, bad.as_bytes())]), WheelError::Hash { .. }));
        assert!(matches!(
            refused(&[(LIBRARY_IN_WHEEL, b"abcd"), (RECORD, longer.as_bytes())]),
            WheelError::Hash { .. }
        ));
        assert!(matches!(refused(&[(LIBRARY_IN_WHEEL, b"ab"), (RECORD, good.as_bytes())]), WheelError::Hash { .. }));
        let huge = line(b"abc", 3 << 30);
        assert!(matches!(
            refused(&[(LIBRARY_IN_WHEEL, b"abc"), (RECORD, huge.as_bytes())]),
            WheelError::TooLarge { .. }
        ));
        assert!(matches!(refused(&[(LIBRARY_IN_WHEEL, b"abc")]), WheelError::Lacks { .. }));
        assert!(matches!(refused(&[(RECORD, good.as_bytes())]), WheelError::Lacks { .. }));
        assert!(matches!(refused(&[(LIBRARY_IN_WHEEL, b"abc"), (RECORD, b"a,b,c\n")]), WheelError::Lacks { .. }));
        let text = folder.path().join("text.whl");
        fs::write(&text, "no archive").unwrap();
        assert!(matches!(extract(&text, &folder.path().join("x")), Err(WheelError::Read { .. })));
    }

    #[test]
    fn base64_as_records_have_it() {
        assert_eq!(base64(b""), "");
        assert_eq!(base64(b"f"), "Zg");
        assert_eq!(base64(b"fo"), "Zm8");
        assert_eq!(base64(b"foo"), "Zm9v");
        assert_eq!(base64(&[0xfb, 0xff]), "-_8");
        assert_eq!(base64(&Sha256::digest(b"")), "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU");
    }
}
