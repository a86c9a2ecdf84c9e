//! `collspec gpu`.
use super::exit::Exit;
use super::record::{PRELOAD, become_program, before};
use anyhow::Context;
use clap::Args as ClapArgs;
use collspec_run::backend::software_gpus;
use collspec_run::library::{standin, unpack_files};
use std::ffi::OsString;

/// The driver's file name as cargo builds it.
const DRIVER: &str = "libgpuless_driver.so";
/// The name of the folder with the driver under its vendor's names.
const FOLDER: &str = "collspec-gpu";
/// The folders in which Python looks for modules first.
const PYTHON_PATH: &str = "PYTHONPATH";
const NAMES: [(&str, &str); 2] = [("libcuda.so.1", DRIVER), ("libcuda.so", DRIVER)];

/// The package for PyTorch, by the paths below the folder in which Python looks for it.
macro_rules! python_files {
    ($($path:literal),* $(,)?) => {
        [$(($path, include_bytes!(concat!("../../python/", $path)).as_slice())),*]
    };
}
const FOR_TORCH: [(&str, &[u8]); 9] = python_files![
    "sitecustomize.py",
    "collspec_torch/__init__.py",
    "collspec_torch/call.py",
    "collspec_torch/compositions.py",
    "collspec_torch/driver.py",
    "collspec_torch/graphs.py",
    "collspec_torch/install.py",
    "collspec_torch/random_numbers.py",
    "collspec_torch/switch.py",
];

/// Run a program that calls NCCL on software GPUs, on a machine without a GPU.
///
/// The program finds a CUDA driver with COLLSPEC_SOFTWARE_GPUS devices (32), and its own NCCL runs on them; so do its kernels, if they are
/// there as PTX. PyTorch's operations on CUDA tensors run as its CPU kernels. cuBLAS and the like do not work; docs/software-gpus.md lists what
/// does. Processes that it starts are treated alike.
///
/// Example: COLLSPEC_SOFTWARE_GPUS=2 collspec gpu -- torchrun --nproc-per-node 2 train.py
#[derive(Debug, ClapArgs)]
pub struct GpuArgs {
    /// Leave PyTorch's operations to its CUDA kernels, which are machine code and fail. Its collectives work with tensors that were made on the
    /// CPU and moved.
    #[arg(long)]
    pub no_torch: bool,

    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// Becomes the program. Comes back only if that fails.
pub fn gpu(args: &GpuArgs) -> anyhow::Result<Exit> {
    anyhow::ensure!(cfg!(target_arch = "x86_64"), "software GPUs need a processor of the x86-64 family");
    software_gpus::check_variables()?;
    let devices = software_gpus::device_count()?;
    let folder = standin::presented(FOLDER, &NAMES)?;
    let mut variables = vec![
        (PRELOAD, before(folder.join(NAMES[0].0), PRELOAD)),
        ("LD_LIBRARY_PATH", before(folder, "LD_LIBRARY_PATH")),
        (software_gpus::COUNT, devices.to_string().into()),
    ];
    if !args.no_torch {
        let folder = unpack_files(&FOR_TORCH).context("the files for PyTorch cannot be written")?;
        variables.push((PYTHON_PATH, before(folder, PYTHON_PATH)));
    }
    become_program(&args.program, &variables)
}
