//! `collspec gpu`.
use super::args::BACKEND;
use super::exit::Exit;
use super::record::{PRELOAD, become_program, before, in_front};
use anyhow::Context;
use clap::Args as ClapArgs;
use collspec_run::backend::software_gpus;
use collspec_run::child::Workers;
use collspec_run::library::{choose, standin, unpack_files};
use std::ffi::OsString;
use std::path::PathBuf;

/// The driver's file name as cargo builds it.
const DRIVER: &str = "libgpuless_driver.so";
/// The name of the folder with the driver under its vendor's names.
const FOLDER: &str = "collspec-gpu";
/// The folders in which Python looks for modules first.
const PYTHON_PATH: &str = "PYTHONPATH";
const NAMES: [(&str, &str); 3] = [("libcuda.so.1", DRIVER), ("libcuda.so", DRIVER), ("libnvidia-ml.so.1", DRIVER)];

/// The package for PyTorch, by the paths below the folder in which Python looks for it.
macro_rules! python_files {
    ($($path:literal),* $(,)?) => {
        [$(($path, include_bytes!(concat!("../../python/", $path)).as_slice())),*]
    };
}
const FOR_TORCH: [(&str, &[u8]); 10] = python_files![
    "sitecustomize.py",
    "collspec_torch/__init__.py",
    "collspec_torch/call.py",
    "collspec_torch/choices.py",
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
    #[command(flatten)]
    pub place: PlaceArgs,

    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// What a program finds in place of what it would find.
#[derive(Clone, Debug, ClapArgs)]
pub struct PlaceArgs {
    /// The NCCL that the program gets in place of the one that it brings along: a file, or one of the versions that `collspec nccl list` shows. It must
    /// have the functions that the program is linked with.
    #[arg(long, value_name = "PATH|VERSION", help_heading = BACKEND)]
    pub nccl: Option<String>,

    /// On software GPUs, leave PyTorch's operations to its CUDA kernels, which are machine code and fail. Its collectives work with tensors that
    /// were made on the CPU and moved.
    #[arg(long, help_heading = BACKEND)]
    pub no_torch: bool,
}

impl PlaceArgs {
    /// The library to preload. A program that needs one of its name takes that, because it is there already.
    pub fn library(&self) -> anyhow::Result<Option<PathBuf>> {
        let Some(spec) = &self.nccl else { return Ok(None) };
        let path = choose(spec, &Workers::CurrentExe)?.path;
        let is_plain = !path.as_os_str().as_encoded_bytes().iter().any(|byte| b" :".contains(byte));
        anyhow::ensure!(is_plain, "{}: the loader separates libraries to preload by spaces and colons", path.display());
        Ok(Some(path))
    }
}

/// Becomes the program. Comes back only if that fails.
pub fn gpu(args: &GpuArgs) -> anyhow::Result<Exit> {
    become_program(&args.program, &variables(&args.place)?)
}

/// The variables with which a program finds software GPUs.
pub(super) fn variables(place: &PlaceArgs) -> anyhow::Result<Vec<(&'static str, OsString)>> {
    anyhow::ensure!(cfg!(target_arch = "x86_64"), "software GPUs need a processor of the x86-64 family");
    software_gpus::check_variables()?;
    let devices = software_gpus::device_count()?;
    let folder = standin::presented(FOLDER, &NAMES)?;
    let preload = in_front(folder.join(NAMES[0].0), place.library()?.map(PathBuf::into_os_string));
    let mut variables = vec![
        (PRELOAD, before(preload.into(), PRELOAD)),
        ("LD_LIBRARY_PATH", before(folder, "LD_LIBRARY_PATH")),
        (software_gpus::COUNT, devices.to_string().into()),
    ];
    if !place.no_torch {
        let folder = unpack_files(&FOR_TORCH).context("the files for PyTorch cannot be written")?;
        variables.push((PYTHON_PATH, before(folder, PYTHON_PATH)));
    }
    Ok(variables)
}
