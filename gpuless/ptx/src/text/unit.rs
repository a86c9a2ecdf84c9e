//! A unit: one text that was compiled separately.
use crate::error::{Error, Place};
use std::sync::Arc;

/// The text of a unit, and its name in messages.
#[derive(Clone, Debug)]
pub struct Unit {
    name: Arc<str>,
    // Not `Arc<str>`, for which a hundred megabytes would be copied.
    text: Arc<String>,
}

impl Unit {
    /// Takes a text. Bytes of zero at its end, with which fat binaries pad, are left out.
    ///
    /// # Errors
    ///
    /// The text is not UTF-8, or longer than 4 GiB.
    pub fn new(name: &str, bytes: Vec<u8>) -> Result<Self, Error> {
        let name: Arc<str> = name.into();
        let mut bytes = bytes;
        bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let before = String::from_utf8_lossy(&error.as_bytes()[..at]).into_owned();
                let place = place_in(&name, &before, at);
                return Err(Error { place, what: "the text is not UTF-8 from here on".into() });
            }
        };
        if u32::try_from(text.len()).is_err() {
            let place = Place { unit: name, line: 1, column: 1 };
            return Err(Error { place, what: "the text is longer than 4 GiB".into() });
        }
        Ok(Self { name, text: Arc::new(text) })
    }

    /// The unit's name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The unit's complete text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The line and column of a byte.
    pub fn place(&self, at: usize) -> Place {
        place_in(&self.name, &self.text, at)
    }

    /// An error at a byte.
    pub fn error(&self, at: usize, what: impl Into<String>) -> Error {
        Error { place: self.place(at), what: what.into() }
    }

    /// The line that holds a byte, without white space around it and cut to a length that fits in a message.
    pub fn line(&self, at: usize) -> &str {
        let at = floor(&self.text, at);
        let start = self.text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let end = self.text[at..].find('\n').map_or(self.text.len(), |newline| at + newline);
        let line = self.text[start..end].trim();
        &line[..floor(line, LONGEST_QUOTE)]
    }
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
    fn padding_is_left_out_and_other_bytes_are_refused() {
        assert_eq!(Unit::new("a", b"ret;\0\0".to_vec()).unwrap().text(), "ret;");
        let error = Unit::new("a", b".version\n\xff".to_vec()).unwrap_err();
        assert_eq!(error.to_string(), "a:2:1: the text is not UTF-8 from here on");
    }
}
