//! Unique ids: 128 bytes that identify the process that created them, and how it is reached.
use super::terms::Growth;
use super::{Address, Id, Name, endpoint, known};
use crate::failure::{Failure, Outcome};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The beginning of this library's ids. Then: process number, counter, time, and the address, all zero if there is none. An address
/// on the network lies in the gaps.
const BEGIN: &[u8; 16] = b"collspec-soft-id";

/// An id that only this process can use.
pub(crate) fn private() -> Id {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    let mut id = [0; 128];
    id[..16].copy_from_slice(BEGIN);
    id[16..20].copy_from_slice(&std::process::id().to_le_bytes());
    id[20..28].copy_from_slice(&count.to_le_bytes());
    id[28..36].copy_from_slice(&nanos.to_le_bytes());
    id
}

/// An id that other processes can use as well; if a socket is unavailable, it serves this process alone.
pub(crate) fn public() -> Id {
    let mut id = private();
    if let Ok(endpoint) = endpoint() {
        write_address(&mut id, endpoint.address);
    }
    id
}

/// The places of the parts of an IP address, of its port, and of the number of its bytes.
const IP: [Range<usize>; 2] = [36..48, 105..109];
const PORT: Range<usize> = 109..111;
const IP_BYTES: usize = 111;

fn write_address(id: &mut Id, address: Address) {
    id[48..64].copy_from_slice(&address.name.0.to_le_bytes());
    id[64..80].copy_from_slice(&address.cookie.to_le_bytes());
    write_network(id, address.network);
}

fn write_network(id: &mut Id, network: Option<SocketAddr>) {
    id[IP_BYTES] = 0;
    let Some(network) = network else { return };
    let mut ip = [0; 16];
    id[IP_BYTES] = match network.ip() {
        IpAddr::V4(four) => {
            ip[..4].copy_from_slice(&four.octets());
            4
        }
        IpAddr::V6(six) => {
            ip = six.octets();
            16
        }
    };
    let (first, last) = ip.split_at(IP[0].len());
    id[IP[0].clone()].copy_from_slice(first);
    id[IP[1].clone()].copy_from_slice(last);
    id[PORT].copy_from_slice(&network.port().to_le_bytes());
}

/// The address on the network; `None` if the id does not contain one.
fn network(id: &Id) -> Option<SocketAddr> {
    let mut ip = [0; 16];
    ip[..IP[0].len()].copy_from_slice(&id[IP[0].clone()]);
    ip[IP[0].len()..].copy_from_slice(&id[IP[1].clone()]);
    let four = || <[u8; 4]>::try_from(&ip[..4]).ok().map(IpAddr::from);
    let ip = match id[IP_BYTES] {
        4 => four()?,
        16 => IpAddr::from(ip),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_le_bytes(id[PORT].try_into().ok()?)))
}

/// The id of a communicator that is made by several: the first one's, and a digest of all, so that only ranks with the same list
/// in the same order meet.
pub(crate) fn of_several(ids: &[Id]) -> Id {
    let mut id = ids.first().copied().unwrap_or([0; 128]);
    if ids.len() > 1 {
        let mut hasher = DefaultHasher::new();
        ids.hash(&mut hasher);
        id[DIGEST..DIGEST + 8].copy_from_slice(&hasher.finish().to_le_bytes());
    }
    id
}

/// The place of the digest of several ids in the id that represents them.
const DIGEST: usize = 112;

/// An id with which ranks join a live communicator, at the process `home`; `None` is this one.
pub(crate) fn of_growth(growth: Growth, home: Option<Address>) -> Id {
    let mut id = public();
    if let Some(home) = home {
        write_address(&mut id, home);
    }
    id[80..96].copy_from_slice(&growth.uid.to_le_bytes());
    id[96..104].copy_from_slice(&growth.number.to_le_bytes());
    id[GROWTH] = if growth.spread { 2 } else { 1 };
    id
}

/// The information in an id made by [`of_growth`].
pub(crate) fn growth(id: &Id) -> Outcome<Growth> {
    origin(id)?;
    let mut counter = [0; 8];
    counter.copy_from_slice(&id[96..104]);
    let spread = match id[GROWTH] {
        1 => false,
        2 => true,
        _ => return Err(Failure::argument("the unique id was not made for ranks that join a communicator")),
    };
    Ok(Growth { uid: number(id, 80), spread, number: u64::from_le_bytes(counter) })
}

/// The byte that distinguishes ids of live communicators from others, and spread communicators from those of one process.
const GROWTH: usize = 104;

/// The bytes of an id of this library.
pub(crate) fn check(bytes: Id) -> Outcome<Id> {
    origin(&bytes).map(|_| bytes)
}

/// The process that created the id; `None` if it was this one.
pub(crate) fn origin(id: &Id) -> Outcome<Option<Address>> {
    if id[..16] != *BEGIN {
        return Err(Failure::argument("the unique id was not made by this library"));
    }
    let address = Address { name: Name(number(id, 48)), cookie: number(id, 64), network: network(id) };
    if address.name == Name(0) {
        if id[16..20] == std::process::id().to_le_bytes() {
            return Ok(None);
        }
        return Err(Failure::system(
            "the process that made the unique id had no socket: only its own ranks can use it",
        ));
    }
    let here = known().is_some_and(|own| own.address == address);
    Ok((!here).then_some(address))
}

fn number(id: &Id, at: usize) -> u128 {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&id[at..at + 16]);
    u128::from_le_bytes(bytes)
}
