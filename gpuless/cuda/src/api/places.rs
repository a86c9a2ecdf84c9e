//! Whose memory an address is in.
use super::blocks::Owner;
use super::blocks::{self, Kind};
use super::graves::Running;
use super::{raw, virtual_memory};

/// The owner of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// Memory of a device, allocated by the library with the CUDA runtime.
    Device(usize),
    /// Device memory that the program that calls the library has allocated.
    Caller,
    /// Host memory.
    Host,
}

/// A place in memory that the runtime knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Whose memory it is.
    pub home: Home,
    /// The byte's number in its allocation.
    pub offset: usize,
    /// The allocation's size in bytes.
    pub bytes: usize,
    /// The four bytes there, if the address is a multiple of four.
    pub word: Option<u32>,
    /// The addresses at which this process has the allocation.
    pub starts: Vec<usize>,
}

pub fn place(address: usize) -> Option<Place> {
    // What is freed from here on stays until it has been read.
    let _running = Running::begin();
    let found = blocks::find(address)?;
    let home = match blocks::owner(address) {
        Some(Owner::Caller) => Home::Caller,
        Some(Owner::Library) => Home::Device(found.device),
        None => Home::Host,
    };
    let offset = address - found.start;
    let fits = address.is_multiple_of(4) && offset + 4 <= found.len;
    let word = fits.then(|| raw::load_word(address, false) as u32);
    let starts = if found.kind == Kind::Virtual { virtual_memory::aliases(address) } else { vec![found.start] };
    Some(Place { home, offset, bytes: found.len, word, starts })
}
