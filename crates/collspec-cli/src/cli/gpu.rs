//! `collspec gpu`.
use super::exit::Exit;
use super::record::{PRELOAD, become_program, before};
use clap::Args as ClapArgs;
use collspec_run::backend::software_gpus;
use collspec_run::library::standin;
use std::ffi::OsString;

/// The driver's file name as cargo builds it.
const DRIVER: &str = "libgpuless_driver.so";
/// The name of the folder with the driver under its vendor's names.
const FOLDER: &str = "collspec-gpu";
const NAMES: [(&str, &str); 2] = [("libcuda.so.1", DRIVER), ("libcuda.so", DRIVER)];

/// Run a program that calls NCCL on software GPUs, on a machine without a GPU.
///
/// The program finds a CUDA driver with COLLSPEC_SOFTWARE_GPUS devices (32), and its own NCCL runs on them; so do its kernels, if they are
/// there as PTX. cuBLAS and the like do not work; docs/software-gpus.md lists what does. Processes that it starts are treated alike.
///
/// Example: COLLSPEC_SOFTWARE_GPUS=2 collspec gpu -- python all_reduce.py
#[derive(Debug, ClapArgs)]
pub struct GpuArgs {
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// Becomes the program. Comes back only if that fails.
pub fn gpu(args: &GpuArgs) -> anyhow::Result<Exit> {
    become_program(&args.program, &variables()?)
}

/// The variables with which a program finds software GPUs.
pub(super) fn variables() -> anyhow::Result<[(&'static str, OsString); 3]> {
    anyhow::ensure!(cfg!(target_arch = "x86_64"), "software GPUs need a processor of the x86-64 family");
    software_gpus::check_variables()?;
    let devices = software_gpus::device_count()?;
    let folder = standin::presented(FOLDER, &NAMES)?;
    Ok([
        (PRELOAD, before(folder.join(NAMES[0].0), PRELOAD)),
        ("LD_LIBRARY_PATH", before(folder, "LD_LIBRARY_PATH")),
        (software_gpus::COUNT, devices.to_string().into()),
    ])
}
