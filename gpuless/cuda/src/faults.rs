//! Faults of the machine on demand: memory, GPUs and connections that fail while a library runs on software GPUs.
//!
//! A fault strikes once, at a store of a kernel or at a received byte, which its owner chooses by number. So a run without a fault first
//! counts stores and bytes. Where the order of warps is decided by a seed, equal numbers are nearly equal moments.
pub use crate::api::Owner;
use crate::api::owner;
use crate::machine;
use ptx::run::{LANES, Order, Stores, Strike};
use std::collections::HashMap;
use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that memory and links move at once.
const LINE: u64 = 128;
/// Bytes of a TCP segment on Ethernet.
const SEGMENT: usize = 1448;
/// NCCL's connections begin with a number of 8 bytes that its ranks share, and 4 bytes for what they are for.
const GREETING: usize = 12;
/// The second of these numbers for the data of the transport NET/Socket.
const NET_SOCKET: u32 = 3;

/// The effect of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A bit flips in memory that a kernel has written; recent stores are likelier places.
    FlippedBit(Owner),
    /// A store to global memory does not happen in the lanes that write the same 128 bytes.
    LostStore,
    /// The kernels of a device halt, for a time or for ever.
    Halt {
        device: usize,
        /// How long.
        time: Option<Duration>,
    },
    /// A connection of NET/Socket is shut down.
    CutConnection,
    /// A bit flips in data that arrives by NET/Socket.
    FlippedBitInTransit,
    /// The last segment that has arrived by NET/Socket arrives again.
    RepeatedSegment,
    /// Data arrives late by NET/Socket.
    Delay(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What it does.
    pub effect: Effect,
    /// How many stores or bytes of those that it can strike come first; at least one store for [`Effect::FlippedBit`].
    pub at: u64,
    /// Decides the place.
    pub seed: u64,
}

/// What faults can strike, counted since [`begin`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Store instructions of warps to global memory.
    pub stores: u64,
    /// Those to device memory of the library's.
    pub to_library: u64,
    /// Those to device memory of the caller's.
    pub to_caller: u64,
    /// Bytes that have arrived by NET/Socket.
    pub received: u64,
}

/// A connection that was accepted.
#[derive(Default)]
struct Connection {
    greeting: [u8; GREETING],
    /// Bytes of the greeting that have arrived.
    greeted: usize,
}

struct State {
    fault: Option<Fault>,
    /// What the fault has done.
    struck: Option<String>,
    order: Order,
    counts: Counts,
    /// For a flipped bit, the number of the store whose place it has, and the place.
    source: u64,
    place: Option<(u64, u32)>,
    connections: HashMap<c_int, Connection>,
    /// A segment that arrives again.
    again: Option<(c_int, Vec<u8>)>,
    tell: fn(&str),
}

static STATE: Mutex<Option<State>> = Mutex::new(None);
/// True between [`begin`] and [`end`].
static AT_WORK: AtomicBool = AtomicBool::new(false);

fn state() -> MutexGuard<'static, Option<State>> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `f` on the state, if there is one.
fn with<R>(f: impl FnOnce(&mut State) -> R) -> Option<R> {
    if AT_WORK.load(Ordering::Relaxed) { state().as_mut().map(f) } else { None }
}

/// From now on stores and received bytes are counted, and the fault strikes if there is one; `tell` is told what it did. Ends an earlier one.
///
/// # Errors
///
/// The threads that run kernels cannot be started.
pub fn begin(fault: Option<Fault>, tell: fn(&str)) -> io::Result<()> {
    end()?;
    *state() = Some(State::new(fault, tell));
    AT_WORK.store(true, Ordering::Relaxed);
    machine::observe_stores(Some(Arc::new(Observer)))
}

/// Nothing is counted any more, and a halted device continues.
pub fn end() -> io::Result<()> {
    if !AT_WORK.swap(false, Ordering::Relaxed) {
        return Ok(());
    }
    *state() = None;
    machine::resume()?;
    machine::observe_stores(None)
}

/// The counts since [`begin`], and what the fault did if it has struck.
pub fn seen() -> (Counts, Option<String>) {
    with(|state| (state.counts, state.struck.clone())).unwrap_or_default()
}

#[derive(Debug)]
struct Observer;

impl Stores for Observer {
    fn before(&self, addresses: &[u64; LANES], lanes: u32, bytes: u64) -> Strike {
        let address = addresses[lanes.trailing_zeros() as usize % LANES];
        let owner = owner(address as usize);
        let (strike, halts) = with(|state| state.store(owner, addresses, lanes, bytes)).unwrap_or((Strike::None, None));
        if let Some((device, time)) = halts {
            // It works: a kernel of this pool has just stored something.
            _ = machine::halt(device, time);
        }
        strike
    }
}

impl State {
    fn new(fault: Option<Fault>, tell: fn(&str)) -> Self {
        let mut order = Order(fault.map_or(0, |fault| fault.seed));
        // How many stores ago its place was written: 1 is as likely as 2 or 3 together, as 4 to 7, and so on.
        let before = fault.map_or(0, |fault| fault.at).saturating_sub(1);
        let magnitude = order.below(65 - before.leading_zeros() as usize);
        let ago = order.below(1 << magnitude.min(62)) as u64;
        Self {
            fault,
            struck: None,
            order,
            counts: Counts::default(),
            source: before.saturating_sub(ago),
            place: None,
            connections: HashMap::new(),
            again: None,
            tell,
        }
    }

    /// A warp is about to store.
    fn store(
        &mut self,
        owner: Option<Owner>,
        addresses: &[u64; LANES],
        lanes: u32,
        bytes: u64,
    ) -> (Strike, Option<(usize, Option<Duration>)>) {
        let before = self.counts;
        self.counts.stores += 1;
        match owner {
            Some(Owner::Library) => self.counts.to_library += 1,
            Some(Owner::Caller) => self.counts.to_caller += 1,
            None => {}
        }
        let none = (Strike::None, None);
        let Some(fault) = self.fault.filter(|_| self.struck.is_none()) else { return none };
        let whose = match owner {
            Some(Owner::Library) => "memory that NCCL allocated",
            Some(Owner::Caller) => "a buffer of the program's",
            None => "memory of the host's",
        };
        match fault.effect {
            Effect::FlippedBit(of) if owner == Some(of) => {
                let number = if of == Owner::Library { before.to_library } else { before.to_caller };
                let (place, source) = (self.place, self.source);
                if number == source {
                    let address = addresses[self.lane_of(lanes)] + self.order.below(bytes as usize) as u64;
                    self.place = Some((address, self.order.below(8) as u32));
                }
                let Some((address, bit)) = place.filter(|_| number == fault.at) else { return none };
                self.strike(format!(
                    "bit {bit} of a byte in {whose} flips; stores since it was written: {}",
                    number - source
                ));
                (Strike::Flip { address, bit }, None)
            }
            Effect::LostStore if before.stores == fault.at => {
                let line = addresses[self.lane_of(lanes)] / LINE;
                let lost = (0..LANES).filter(|lane| lanes & 1 << lane != 0 && addresses[*lane] / LINE == line);
                let lost = lost.fold(0, |lost, lane| lost | 1 << lane);
                let threads: u32 = u32::count_ones(lost);
                self.strike(format!("a store of {bytes} bytes per thread to {whose} is lost; threads: {threads}"));
                (Strike::Lost(lost), None)
            }
            Effect::Halt { device, time } if before.stores == fault.at => {
                let long = time.map_or_else(String::new, |time| format!(" for {} ms", time.as_millis()));
                self.strike(format!("the kernels of device {device} halt{long} at store {}", fault.at));
                (Strike::None, Some((device, time)))
            }
            _ => none,
        }
    }

    fn lane_of(&mut self, lanes: u32) -> usize {
        let skipped = self.order.below(lanes.count_ones() as usize);
        (0..LANES).filter(|lane| lanes & 1 << lane != 0).nth(skipped).unwrap_or_default()
    }

    fn strike(&mut self, what: String) {
        (self.tell)(&what);
        self.struck = Some(what);
    }

    /// Data has arrived by a connection.
    fn receive(&mut self, socket: c_int, data: &mut [u8]) -> After {
        let Some(connection) = self.connections.get_mut(&socket) else { return After::Nothing };
        let missing = GREETING - connection.greeted;
        if missing > 0 {
            let new = data.len().min(missing);
            connection.greeting[connection.greeted..][..new].copy_from_slice(&data[..new]);
            connection.greeted += new;
            return After::Nothing;
        }
        let [.., a, b, c, d] = connection.greeting;
        if u32::from_ne_bytes([a, b, c, d]) != NET_SOCKET {
            return After::Nothing;
        }
        let first = self.counts.received;
        self.counts.received += data.len() as u64;
        let Some(fault) =
            self.fault.filter(|fault| self.struck.is_none() && (first..self.counts.received).contains(&fault.at))
        else {
            return After::Nothing;
        };
        let at = fault.at;
        match fault.effect {
            Effect::CutConnection => {
                self.strike(format!("a connection of NET/Socket is cut after byte {at}"));
                After::Cut
            }
            Effect::FlippedBitInTransit => {
                let bit = self.order.below(8);
                data[(at - first) as usize] ^= 1 << bit;
                self.strike(format!("bit {bit} of byte {at} that arrives by NET/Socket is flipped"));
                After::Nothing
            }
            Effect::RepeatedSegment => {
                let segment = data[data.len().saturating_sub(SEGMENT)..].to_vec();
                self.strike(format!("{} bytes that end after byte {at} arrive twice by NET/Socket", segment.len()));
                self.again = Some((socket, segment));
                After::Nothing
            }
            Effect::Delay(time) => {
                self.strike(format!("byte {at} arrives {} ms late by NET/Socket", time.as_millis()));
                After::Late(time)
            }
            Effect::FlippedBit(_) | Effect::LostStore | Effect::Halt { .. } => After::Nothing,
        }
    }

    /// Data that arrives again, up to `room` bytes.
    fn repeat(&mut self, socket: c_int, room: usize) -> Option<Vec<u8>> {
        let (_, mut segment) = self.again.take_if(|(of, _)| *of == socket && room > 0)?;
        let rest = segment.split_off(segment.len().min(room));
        if !rest.is_empty() {
            self.again = Some((socket, rest));
        }
        Some(segment)
    }
}

/// What the receiver of data does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// It goes on.
    Nothing,
    /// It shuts the connection down.
    Cut,
    /// It waits before it goes on.
    Late(Duration),
}

/// A connection was accepted.
pub(crate) fn accepted(socket: c_int) {
    with(|state| state.connections.insert(socket, Connection::default()));
}

/// A connection is closed.
pub(crate) fn closed(socket: c_int) {
    with(|state| state.connections.remove(&socket));
}

/// Data that arrives again, up to `room` bytes.
pub(crate) fn repeated(socket: c_int, room: usize) -> Option<Vec<u8>> {
    with(|state| state.repeat(socket, room)).flatten()
}

/// Data has arrived; a fault may change it.
pub(crate) fn received(socket: c_int, data: &mut [u8]) -> After {
    with(|state| state.receive(socket, data)).unwrap_or(After::Nothing)
}

/// True if connections are observed.
pub(crate) fn is_at_work() -> bool {
    AT_WORK.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(effect: Effect, at: u64) -> State {
        State::new(Some(Fault { effect, at, seed: 7 }), |_| {})
    }

    /// Stores of 4 bytes by all lanes, one after the other in the caller's memory.
    fn stores(state: &mut State, count: u64) -> Vec<(u64, Strike)> {
        let addresses: [u64; LANES] = std::array::from_fn(|lane| 4096 + 4 * lane as u64);
        let store = |number: u64| {
            let addresses = addresses.map(|address| address + 128 * number);
            (number, state.store(Some(Owner::Caller), &addresses, u32::MAX, 4).0)
        };
        (0..count).map(store).filter(|(_, strike)| *strike != Strike::None).collect()
    }

    #[test]
    fn a_bit_flips_once_in_a_byte_that_was_written_before() {
        for seed in 0..200 {
            let fault = Fault { effect: Effect::FlippedBit(Owner::Caller), at: 9, seed };
            let struck = stores(&mut State::new(Some(fault), |_| {}), 30);
            let [(9, Strike::Flip { address, bit })] = struck[..] else { panic!("{struck:?}") };
            assert!((4096..4096 + 9 * 128).contains(&address) && bit < 8, "{struck:?}");
        }
        assert_eq!(stores(&mut state(Effect::FlippedBit(Owner::Library), 9), 30), []);
    }

    #[test]
    fn a_lost_store_is_a_line_of_one_store() {
        assert_eq!(stores(&mut state(Effect::LostStore, 4), 30), [(4, Strike::Lost(u32::MAX))]);
        let mut apart = state(Effect::LostStore, 0);
        let addresses: [u64; LANES] = std::array::from_fn(|lane| 4096 + 64 * lane as u64);
        let (Strike::Lost(lanes), None) = apart.store(None, &addresses, 0xffff, 8) else { panic!() };
        assert!(lanes.count_ones() == 2 && lanes & 0xffff == lanes, "{lanes:#x}");
    }

    /// A connection of NET/Socket, or of another kind, on which bytes arrive in pieces of four.
    fn arrive(state: &mut State, kind: u32, data: &[u8]) -> (Vec<u8>, Vec<After>) {
        state.connections.insert(5, Connection::default());
        let (mut seen, mut after) = (Vec::new(), Vec::new());
        let greeting = [[9; 8].as_slice(), &kind.to_ne_bytes()].concat();
        for piece in greeting.chunks(4).chain(data.chunks(4)) {
            let mut piece = piece.to_vec();
            after.push(state.receive(5, &mut piece));
            seen.extend(piece);
            seen.extend(std::iter::from_fn(|| state.repeat(5, 3)).flatten());
        }
        after.retain(|after| *after != After::Nothing);
        (seen.split_off(GREETING), after)
    }

    #[test]
    fn only_data_of_net_socket_is_struck() {
        let data: Vec<u8> = (0..20).collect();
        let (seen, after) = arrive(&mut state(Effect::FlippedBitInTransit, 10), NET_SOCKET, &data);
        let wrong: Vec<usize> = (0..20).filter(|at| seen[*at] != data[*at]).collect();
        assert_eq!((wrong, after.len()), (vec![10], 0));
        let (seen, after) = arrive(&mut state(Effect::RepeatedSegment, 10), NET_SOCKET, &data);
        assert_eq!(
            (&seen[..16], &seen[16..], after.len()),
            (&[&data[..12], &data[8..12]].concat()[..], &data[12..], 0)
        );
        let cut = || state(Effect::CutConnection, 10);
        assert_eq!(arrive(&mut cut(), NET_SOCKET, &data), (data.clone(), vec![After::Cut]));
        assert_eq!(arrive(&mut cut(), 1, &data), (data.clone(), Vec::new()), "a connection of the bootstrap");
        let mut counted = State::new(None, |_| {});
        arrive(&mut counted, NET_SOCKET, &data);
        assert_eq!(counted.counts.received, 20);
    }
}
