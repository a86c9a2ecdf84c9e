//! Messages on a pipe: a length in four bytes, little-endian, then postcard.
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};

/// Largest length of a message in bytes; bulk data lies in the arena.
const LONGEST: u32 = 1 << 28;

/// An error of sending or receiving a message.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The pipe is broken.
    #[error("the pipe is broken: {0}")]
    Io(#[from] io::Error),
    /// The bytes are no message of this protocol.
    #[error("not a message: {0}")]
    Garbled(String),
}

/// Sends one message.
///
/// # Errors
///
/// The message is too long, or the pipe cannot be written.
pub fn send<T: Serialize>(to: &mut impl Write, message: &T) -> Result<(), WireError> {
    let mut bytes = postcard::to_extend(message, vec![0u8; 4]).map_err(|e| WireError::Garbled(e.to_string()))?;
    let len = u32::try_from(bytes.len() - 4).ok().filter(|len| *len <= LONGEST);
    let len = len.ok_or_else(|| WireError::Garbled(format!("{} bytes are too long for a message", bytes.len())))?;
    bytes[..4].copy_from_slice(&len.to_le_bytes());
    to.write_all(&bytes)?;
    Ok(to.flush()?)
}

/// Receives one message; `None` if the other side has closed the pipe.
///
/// # Errors
///
/// The pipe cannot be read, ends inside a message, or carries something else.
pub fn receive<T: DeserializeOwned>(from: &mut impl Read) -> Result<Option<T>, WireError> {
    let mut len = [0; 4];
    match from.read_exact(&mut len) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let len = u32::from_le_bytes(len);
    if len > LONGEST {
        return Err(WireError::Garbled(format!("a message of {len} bytes")));
    }
    let mut bytes = Vec::new();
    // grows as bytes come, so that a garbled length costs nothing
    from.take(u64::from(len)).read_to_end(&mut bytes)?;
    if bytes.len() < len as usize {
        return Ok(None);
    }
    postcard::from_bytes(&bytes).map(Some).map_err(|e| WireError::Garbled(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Finish, Reply, Request};

    #[test]
    fn messages_arrive_one_by_one_and_an_end_is_an_end() {
        let mut pipe = Vec::new();
        let finish = Finish { keep: Some(7), destroy: vec![3], answer: true };
        send(&mut pipe, &Request::Finish(finish.clone())).unwrap();
        send(&mut pipe, &Request::Again).unwrap();
        let mut from = pipe.as_slice();
        assert!(matches!(receive(&mut from).unwrap(), Some(Request::Finish(same)) if same == finish));
        assert!(matches!(receive(&mut from).unwrap(), Some(Request::Again)));
        assert!(receive::<Request>(&mut from).unwrap().is_none());
        assert!(receive::<Request>(&mut &pipe[..5]).unwrap().is_none(), "cut off in the middle");
    }

    #[test]
    fn garbage_is_an_error() {
        assert!(receive::<Reply>(&mut &[255u8, 255, 255, 255, 0][..]).is_err());
        assert!(receive::<Reply>(&mut &[1u8, 0, 0, 0, 99][..]).is_err());
    }
}
