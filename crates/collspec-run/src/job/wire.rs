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
    /// The bytes are not a message of this protocol.
    #[error("not a message: {0}")]
    Garbled(String),
}

/// Sends one message: for tests; both sides send after their queued messages.
///
/// # Errors
///
/// The message is too long, or the pipe cannot be written.
#[cfg(test)]
pub fn send<T: Serialize>(to: &mut impl Write, message: &T) -> Result<(), WireError> {
    send_behind(to, &mut Vec::new(), message)
}

/// Sends one message after others that [`put`] has queued, and empties the queue.
///
/// # Errors
///
/// Same as `send`.
pub fn send_behind<T: Serialize>(to: &mut impl Write, earlier: &mut Vec<u8>, message: &T) -> Result<(), WireError> {
    put(earlier, message)?;
    let bytes = std::mem::take(earlier);
    to.write_all(&bytes)?;
    Ok(to.flush()?)
}

/// Queues one message after others.
///
/// # Errors
///
/// The message is too long.
pub fn put<T: Serialize>(behind: &mut Vec<u8>, message: &T) -> Result<(), WireError> {
    let start = behind.len();
    let mut bytes = std::mem::take(behind);
    bytes.extend_from_slice(&[0; 4]);
    *behind = postcard::to_extend(message, bytes).map_err(|e| WireError::Garbled(e.to_string()))?;
    let length = behind.len() - start - 4;
    let len = u32::try_from(length).ok().filter(|len| *len <= LONGEST);
    let len = len.ok_or_else(|| WireError::Garbled(format!("{length} bytes are too long for a message")));
    match (len, behind.get_mut(start..start + 4)) {
        (Ok(len), Some(place)) => place.copy_from_slice(&len.to_le_bytes()),
        (Err(error), _) => {
            behind.truncate(start);
            return Err(error);
        }
        (Ok(_), None) => {}
    }
    Ok(())
}

/// Takes one message off the front of the received bytes; `None` if it is incomplete.
///
/// # Errors
///
/// The received bytes are something else.
pub fn take<T: DeserializeOwned>(come: &mut Vec<u8>) -> Result<Option<T>, WireError> {
    let Some((len, rest)) = come.split_first_chunk::<4>() else { return Ok(None) };
    let len = u32::from_le_bytes(*len);
    if len > LONGEST {
        return Err(WireError::Garbled(format!("a message of {len} bytes")));
    }
    let Some(message) = rest.get(..len as usize) else { return Ok(None) };
    let message = postcard::from_bytes(message).map_err(|e| WireError::Garbled(e.to_string()))?;
    come.drain(..4 + len as usize);
    Ok(Some(message))
}

/// Receives one message; `None` if the other side has closed the pipe.
///
/// # Errors
///
/// The pipe cannot be read, ends inside a message, or carries something else.
pub fn receive<T: DeserializeOwned>(from: &mut impl Read) -> Result<Option<T>, WireError> {
    receive_at_most(from, LONGEST)
}

/// Like [`receive`], for a message of at most this many bytes.
///
/// # Errors
///
/// Same as [`receive`], or the message is longer.
pub fn receive_at_most<T: DeserializeOwned>(from: &mut impl Read, longest: u32) -> Result<Option<T>, WireError> {
    let mut len = [0; 4];
    match from.read_exact(&mut len) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let len = u32::from_le_bytes(len);
    if len > longest {
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
    fn messages_that_come_in_pieces_are_taken_when_they_are_complete() {
        let mut pipe = Vec::new();
        send(&mut pipe, &Reply::AtDeath(5)).unwrap();
        send(&mut pipe, &Reply::AtDeath(6)).unwrap();
        let (mut come, mut taken) = (Vec::new(), Vec::new());
        for byte in pipe {
            come.push(byte);
            if let Some(Reply::AtDeath(death)) = take(&mut come).unwrap() {
                taken.push(death);
            }
        }
        assert_eq!((taken, come.len()), (vec![5, 6], 0));
        assert!(take::<Reply>(&mut vec![255, 255, 255, 255]).is_err());
        assert!(take::<Reply>(&mut vec![1, 0, 0, 0, 99]).is_err());
    }

    #[test]
    fn garbage_is_an_error() {
        assert!(receive::<Reply>(&mut &[255u8, 255, 255, 255, 0][..]).is_err());
        assert!(receive::<Reply>(&mut &[1u8, 0, 0, 0, 99][..]).is_err());
    }
}
