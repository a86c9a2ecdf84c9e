//! A device with memory for kernels of the tests' own.
use ptx::link::Program;
use ptx::run::{Configuration, Executable, Fault, Figures, Image, Launch, Memory, Multicast, Options, Region, Stores};
use ptx::text::Unit;
use std::sync::Arc;

const HEAD: &str = ".version 8.8\n.target sm_90\n.address_size 64\n";

/// 16 bytes, so that arrays are aligned to as many.
#[derive(Clone, Copy)]
#[repr(align(16))]
struct Words([u32; 4]);

/// Arrays at one address.
#[derive(Debug)]
struct Together {
    address: u64,
    len: u64,
    members: Vec<u64>,
}

impl Multicast for Together {
    fn with_members(&self, address: u64, len: u64, f: &mut dyn FnMut(&[u64])) -> bool {
        let offset = address.wrapping_sub(self.address);
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        if inside {
            f(&self.members.iter().map(|member| member + offset).collect::<Vec<_>>());
        }
        inside
    }
}

/// A program on a device, and arrays that its kernels reach.
pub struct Device {
    pub image: Arc<Image>,
    memory: Arc<Memory>,
    arrays: Vec<Box<[Words]>>,
}

impl Device {
    pub fn new(text: &str) -> Self {
        Self::with(text, Options::default())
    }

    pub fn with(text: &str, options: Options) -> Self {
        let unit = Unit::new("kernels.ptx", format!("{HEAD}{text}").into()).unwrap();
        let program = Program::link(vec![unit], 1).unwrap_or_else(|error| panic!("{error}"));
        let memory = Arc::new(Memory::default());
        let executable = Executable::new(Arc::new(program), options);
        let image = Arc::new(Image::new(executable, memory.clone()));
        Self { image, memory, arrays: Vec::new() }
    }

    /// The address of a new array with these values.
    pub fn array(&mut self, values: &[u32]) -> u64 {
        let mut words = vec![Words([0; 4]); values.len().div_ceil(4).max(1)].into_boxed_slice();
        for (at, value) in values.iter().enumerate() {
            words[at / 4].0[at % 4] = *value;
        }
        let start = words.as_mut_ptr() as u64;
        // SAFETY: the array lives as long as the device, and nothing else uses it while a kernel runs.
        unsafe { self.memory.map(Region::new(start, 4 * values.len() as u64)) };
        self.arrays.push(words);
        start
    }

    /// Kernels report their stores from now on.
    pub fn observe_stores(&self, stores: Arc<dyn Stores>) {
        self.memory.observe_stores(Some(stores));
    }

    /// The devices whose kernels have written to an array.
    pub fn writers(&self, array: u64) -> Vec<usize> {
        self.memory.writers(array)
    }

    /// Lets an address stand for arrays of `len` bytes.
    pub fn multicast(&self, address: u64, len: u64, members: Vec<u64>) {
        // SAFETY: as for an array.
        unsafe { self.memory.set_multicast(Box::new(Together { address, len, members })) };
    }

    pub fn values(&self, array: usize) -> Vec<u32> {
        self.arrays[array].iter().flat_map(|words| words.0).collect()
    }

    /// A kernel that is ready to begin.
    pub fn launch(&self, kernel: &str, grid: u32, block: u32, parameters: &[u64]) -> Result<Launch, Fault> {
        let bytes: Vec<u8> = parameters.iter().flat_map(|parameter| parameter.to_le_bytes()).collect();
        let configuration = Configuration { grid: [grid, 1, 1], block: [block, 1, 1], dynamic_shared: 256 };
        Launch::new(&self.image, kernel, &configuration, &bytes)
    }

    /// Runs a kernel to its end, in an order that a seed decides.
    pub fn run(&self, kernel: &str, grid: u32, block: u32, parameters: &[u64], seed: u64) -> Result<Figures, Fault> {
        self.launch(kernel, grid, block, parameters)?.run(seed)
    }
}
