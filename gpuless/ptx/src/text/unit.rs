//! A unit: one text that was compiled separately.
use crate::error::{Error, Place};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The text of a unit, and its name in messages.
#[derive(Clone, Debug)]
pub struct Unit {
    name: Arc<str>,
    text: Arc<Text>,
}

/// Reads a unit's bytes; the error says why it cannot.
type Source = Box<dyn Fn() -> Result<Vec<u8>, String> + Send + Sync>;

/// A text that is here, or that is read when it is first needed.
struct Text {
    read: OnceLock<Result<String, Error>>,
    source: Option<Source>,
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Text").field("read", &self.read.get().is_some()).finish_non_exhaustive()
    }
}

impl Unit {
    /// Takes a text. Bytes of zero at its end, with which fat binaries pad, are left out.
    ///
    /// # Errors
    ///
    /// The text is not UTF-8, or longer than 4 GiB.
    pub fn new(name: &str, bytes: Vec<u8>) -> Result<Self, Error> {
        let name: Arc<str> = name.into();
        let text = text_of(&name, bytes)?;
        Ok(Self { name, text: Arc::new(Text { read: OnceLock::from(Ok(text)), source: None }) })
    }

    /// A unit whose text is read when it is first needed: most units of a library have no function that a process runs. What is
    /// wrong with it is known then ([`Unit::check`]).
    pub fn when_needed(name: &str, read: impl Fn() -> Result<Vec<u8>, String> + Send + Sync + 'static) -> Self {
        Self { name: name.into(), text: Arc::new(Text { read: OnceLock::new(), source: Some(Box::new(read)) }) }
    }

    fn read(&self) -> &Result<String, Error> {
        self.text.read.get_or_init(|| {
            let bytes = self.text.source.as_ref().map_or_else(|| Ok(Vec::new()), |read| read());
            let unread = |what| Error { place: Place { unit: self.name.clone(), line: 1, column: 1 }, what };
            text_of(&self.name, bytes.map_err(unread)?)
        })
    }

    /// Reads the text, unless it was read before.
    ///
    /// # Errors
    ///
    /// It cannot be read, is not UTF-8, or is longer than 4 GiB.
    pub fn check(&self) -> Result<(), Error> {
        self.read().as_ref().map(|_| ()).map_err(Clone::clone)
    }

    /// The unit's name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The unit's complete text; empty if it cannot be read.
    pub fn text(&self) -> &str {
        self.read().as_deref().unwrap_or_default()
    }

    /// The line and column of a byte.
    pub fn place(&self, at: usize) -> Place {
        place_in(&self.name, self.text(), at)
    }

    /// An error at a byte.
    pub fn error(&self, at: usize, what: impl Into<String>) -> Error {
        Error { place: self.place(at), what: what.into() }
    }

    /// The line that holds a byte, without white space around it and cut to a length that fits in a message.
    pub fn line(&self, at: usize) -> &str {
        let text = self.text();
        let at = floor(text, at);
        let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let end = text[at..].find('\n').map_or(text.len(), |newline| at + newline);
        let line = text[start..end].trim();
        &line[..floor(line, LONGEST_QUOTE)]
    }
}

/// The text without the zeros at its end.
fn text_of(name: &Arc<str>, mut bytes: Vec<u8>) -> Result<String, Error> {
    bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(&error.as_bytes()[..at]).into_owned();
        Error { place: place_in(name, &before, at), what: "the text is not UTF-8 from here on".into() }
    })?;
    if u32::try_from(text.len()).is_err() {
        let place = Place { unit: name.clone(), line: 1, column: 1 };
        return Err(Error { place, what: "the text is longer than 4 GiB".into() });
    }
    Ok(text)
}

/// Bytes of a line that a message quotes.
const LONGEST_QUOTE: usize = 200;

/// The last character boundary at or before a byte.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn place_in(unit: &Arc<str>, text: &str, at: usize) -> Place {
    let before = &text[..floor(text, at)];
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    Place { unit: unit.clone(), line, column: before[start..].chars().count() + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let unit = Unit::new("a.ptx", "ä b\n  ret;\n".into()).unwrap();
        assert_eq!(unit.place(0).to_string(), "a.ptx:1:1");
        assert_eq!(unit.place(3).to_string(), "a.ptx:1:3");
        assert_eq!(unit.place(7).to_string(), "a.ptx:2:3");
        assert_eq!(unit.place(1_000).to_string(), "a.ptx:3:1");
        assert_eq!((unit.line(7), unit.line(1_000)), ("ret;", ""));
        // In the middle of a character.
        assert_eq!(unit.place(1).to_string(), "a.ptx:1:1");
    }

    #[test]
    fn a_text_is_read_once_and_when_it_is_needed() {
        let reads = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = reads.clone();
        let count = move || counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let unit = Unit::when_needed("a", move || {
            count();
            Ok(b"ret;\0".to_vec())
        });
        assert_eq!((unit.name(), reads.load(std::sync::atomic::Ordering::Relaxed)), ("a", 0));
        assert_eq!((unit.text(), unit.clone().text(), unit.check()), ("ret;", "ret;", Ok(())));
        assert_eq!(reads.load(std::sync::atomic::Ordering::Relaxed), 1);
        let unit = Unit::when_needed("a", || Err("it is gone".into()));
        assert_eq!((unit.text(), unit.check().unwrap_err().to_string()), ("", "a:1:1: it is gone".to_owned()));
    }

    #[test]
    fn padding_is_left_out_and_other_bytes_are_refused() {
        assert_eq!(Unit::new("a", b"ret;\0\0".to_vec()).unwrap().text(), "ret;");
        let error = Unit::new("a", b".version\n\xff".to_vec()).unwrap_err();
        assert_eq!(error.to_string(), "a:2:1: the text is not UTF-8 from here on");
    }
}
