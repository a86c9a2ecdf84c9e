//! What arrives on a connection, as headers and their bodies.

use crate::fabric::frame::{HEADER, Header, Malformed};
use crate::fabric::link::Link;
use std::io;

/// Bytes that are read at once, and the largest part of a body that is allocated before it has arrived.
const CHUNK: usize = 1 << 18;
/// A connection gives way to others after as many bytes.
const TURN: usize = 1 << 21;

/// What a connection's owner does with it.
pub trait Receiver {
    /// Whether the body that follows a header is wanted. What is not wanted is read and dropped.
    fn wants_body(&mut self, header: &Header) -> bool;
    /// A header, and its body if it has one and that was wanted.
    fn frame(&mut self, header: &Header, body: Option<&mut [u8]>);
}

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub enum End {
    #[error(transparent)]
    Closed(#[from] io::Error),
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

#[derive(Debug, Default)]
enum Expect {
    #[default]
    Header,
    Body(Header),
    /// Bytes of a body that nobody wants, and the header that it belongs to.
    Waste(Header, usize),
}

#[derive(Debug, Default)]
pub struct Input {
    buffer: Vec<u8>,
    expect: Expect,
}

impl Input {
    /// Reads what has arrived, and gives every complete frame to the receiver.
    ///
    /// # Errors
    ///
    /// The connection is closed, or the peer does not speak the protocol.
    pub fn read(&mut self, link: &Link, receiver: &mut impl Receiver) -> Result<(), End> {
        let mut read = 0;
        while read < TURN {
            // A long body grows as it arrives, to at most twice of what is there: a length alone allocates nothing.
            let missing = match &self.expect {
                Expect::Body(header) => header.body().saturating_sub(self.buffer.len()),
                _ => 0,
            };
            let most = if missing > CHUNK { missing.min(self.buffer.len().max(CHUNK)) } else { CHUNK };
            match link.read(&mut self.buffer, most) {
                Ok(got) => read += got,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            }
            self.parse(receiver)?;
        }
        Ok(())
    }

    fn parse(&mut self, receiver: &mut impl Receiver) -> Result<(), End> {
        let mut at = 0;
        loop {
            let rest = &mut self.buffer[at..];
            match std::mem::take(&mut self.expect) {
                Expect::Header => {
                    let Some(bytes) = rest.first_chunk::<HEADER>() else { break };
                    let header = Header::read(bytes)?;
                    at += HEADER;
                    self.expect = match header.body() {
                        0 => {
                            receiver.frame(&header, None);
                            Expect::Header
                        }
                        _ if receiver.wants_body(&header) => Expect::Body(header),
                        len => Expect::Waste(header, len),
                    };
                }
                Expect::Body(header) => {
                    let Some(body) = rest.get_mut(..header.body()) else {
                        self.expect = Expect::Body(header);
                        break;
                    };
                    receiver.frame(&header, Some(body));
                    at += header.body();
                }
                Expect::Waste(header, left) => {
                    let dropped = left.min(rest.len());
                    at += dropped;
                    if dropped < left {
                        self.expect = Expect::Waste(header, left - dropped);
                        break;
                    }
                    receiver.frame(&header, None);
                }
            }
        }
        self.buffer.drain(..at);
        if self.buffer.capacity() > 16 * CHUNK && self.buffer.len() < CHUNK {
            self.buffer.shrink_to(2 * CHUNK);
        }
        Ok(())
    }
}
