//! Kernels that do little.
use crate::api::{Attributes, Configuration, Kernels, add_kernels};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, Once};

/// A call of `launch`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launched {
    pub device: usize,
    pub configuration: Configuration,
    pub parameters: Vec<u8>,
}

pub const NOTES: usize = 0;
pub const WAITS: usize = 1;
pub const FAILS: usize = 2;
pub const DROPPED: usize = 3;
/// The host has a function for it, and the device no kernel.
pub const MISSING: usize = 4;
const NAMES: [&str; 4] = ["notes", "waits", "fails", "dropped"];

static STUBS: [u8; 8] = [0; 8];
static LAUNCHED: Mutex<Vec<Launched>> = Mutex::new(Vec::new());
static GATE: Mutex<Option<Receiver<()>>> = Mutex::new(None);

struct Fake;

impl Kernels for Fake {
    fn attributes(&self, kernel: &str) -> Option<Attributes> {
        let known = NAMES.contains(&kernel);
        known.then_some(Attributes { shared: 1000, constant: 16, local: 32, most_threads: 640, registers: 96 })
    }
    fn parameters(&self, kernel: &str) -> Option<Vec<(usize, usize)>> {
        NAMES.contains(&kernel).then(|| vec![(0, 8), (8, 1), (12, 4)])
    }
    fn launch(
        &self,
        device: usize,
        kernel: &str,
        configuration: &Configuration,
        parameters: &[u8],
        ended: Box<dyn FnOnce(Result<(), String>) + Send>,
    ) {
        match kernel {
            "waits" => {
                let gate = GATE.lock().unwrap().take().expect("a gate");
                std::thread::spawn(move || {
                    let _ = gate.recv();
                    ended(Ok(()));
                });
            }
            "fails" => ended(Err("line 7: an address outside of all memory".to_owned())),
            "dropped" => {}
            _ => {
                let configuration = *configuration;
                LAUNCHED.lock().unwrap().push(Launched { device, configuration, parameters: parameters.to_vec() });
                ended(Ok(()));
            }
        }
    }
    fn variable(&self, device: usize, name: &str) -> Option<(u64, u64)> {
        (name == "variable").then_some((0x1000 + device as u64, 24))
    }
}

/// The address of a kernel's host function.
pub fn stub(kernel: usize) -> *const () {
    static ADDED: Once = Once::new();
    ADDED.call_once(|| {
        add_kernels(Box::new(|address| {
            let number = address.addr().checked_sub(STUBS.as_ptr().addr())?;
            let name = [&NAMES[..], &["missing", "variable"]].concat().get(number)?.to_string();
            Some((Arc::new(Fake), name))
        }));
    });
    (&raw const STUBS[kernel]).cast()
}

/// The address of a variable.
pub fn variable() -> *const u8 {
    stub(MISSING + 1).cast()
}

/// The next launch of `WAITS` ends when something is sent, or the sender is gone.
pub fn gate() -> Sender<()> {
    let (sender, receiver) = channel();
    *GATE.lock().unwrap() = Some(receiver);
    sender
}

/// The launches of `NOTES` since the last time.
pub fn launched() -> Vec<Launched> {
    std::mem::take(&mut LAUNCHED.lock().unwrap())
}
