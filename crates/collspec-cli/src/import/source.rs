//! Where a log or a dump is read from: a file or the standard input, compressed or not, in UTF-8 or UTF-16.
use super::Error;
use collspec_core::files;
use encoding_rs_io::DecodeReaderBytes;
use flate2::bufread::MultiGzDecoder;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

/// Bytes that are read at once.
const BUFFER: usize = 1 << 18;
/// The first bytes of a file that gzip made.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The marks at the beginning of a text in UTF-16.
const UTF_16: [[u8; 2]; 2] = [[0xff, 0xfe], [0xfe, 0xff]];
/// Bytes of the standard input, which is kept.
const MAX_INPUT: u64 = 256 << 20;

/// A file, or what the standard input had.
#[derive(Clone, Debug)]
pub enum Source {
    File(PathBuf),
    Input(Vec<u8>),
}

impl Source {
    /// Reads the standard input to its end.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is too long to be kept.
    pub fn input() -> Result<Self, Error> {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().take(MAX_INPUT + 1).read_to_end(&mut bytes);
        read.map_err(|source| Error::Read { path: "the standard input".to_owned(), source })?;
        if bytes.len() as u64 > MAX_INPUT {
            return Err(Error::Input(format!(
                "the standard input has more than {MAX_INPUT} bytes: write it to a file"
            )));
        }
        Ok(Self::Input(bytes))
    }

    /// How messages name it.
    pub fn shown(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Input(_) => "the standard input".to_owned(),
        }
    }

    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Input(_) => None,
        }
    }

    /// The bytes, decompressed; of a text in UTF-16, those of the text in UTF-8.
    ///
    /// # Errors
    ///
    /// The file cannot be opened or read.
    pub fn bytes(&self) -> Result<Box<dyn BufRead + '_>, Error> {
        let failed = |source| Error::Read { path: self.shown(), source };
        let mut plain: Box<dyn BufRead> = match self {
            Self::File(path) => {
                let file = files::open(path).map_err(|refused| Error::refused(&self.shown(), refused))?;
                Box::new(BufReader::with_capacity(BUFFER, file))
            }
            Self::Input(bytes) => Box::new(Cursor::new(bytes)),
        };
        let is_compressed = plain.fill_buf().map_err(failed)?.starts_with(&GZIP);
        if is_compressed {
            plain = Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(plain)));
        }
        let start = plain.fill_buf().map_err(failed)?;
        let is_utf_16 = UTF_16.iter().any(|mark| start.starts_with(mark));
        Ok(if is_utf_16 { Box::new(BufReader::with_capacity(BUFFER, DecodeReaderBytes::new(plain))) } else { plain })
    }

    /// The text, in UTF-8 except for bytes that are wrong in the source.
    ///
    /// # Errors
    ///
    /// As of [`Source::bytes`].
    pub fn text(&self) -> Result<impl BufRead + use<'_>, Error> {
        // By the first bytes; without a mark the text is passed through.
        Ok(BufReader::with_capacity(BUFFER, DecodeReaderBytes::new(self.bytes()?)))
    }
}
