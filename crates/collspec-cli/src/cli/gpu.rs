//! `collspec gpu`.
use super::args::BACKEND;
use super::exit::Exit;
use super::on_nodes::on_each_node;
use super::record::{PRELOAD, become_program, before, in_front};
use anyhow::Context;
use clap::Args as ClapArgs;
use collspec_run::backend::software_gpus;
use collspec_run::child::Workers;
use collspec_run::library::{choose, programs_folder, standin, unpack_files};
use collspec_run::machines::MachineProfile;
use collspec_run::run::SoftwareCluster;
use collspec_suite::suite::options::{machine_name, nodes};
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// The driver's file name as cargo builds it.
const DRIVER: &str = "libgpuless_driver.so";
/// The name of the folder with the driver under its vendor's names.
const FOLDER: &str = "collspec-gpu";
/// The folders in which Python looks for modules first.
const PYTHON_PATH: &str = "PYTHONPATH";
/// The variable with the folder in which processes keep what they have found out about libraries.
const CACHE: &str = "COLLSPEC_SOFTWARE_CACHE";
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

    /// Start the program on this many nodes, once on each, as `srun --ntasks-per-node 1` does. torchrun gets the number of nodes, its node and where
    /// they meet by variables.
    #[arg(long, value_name = "N", value_parser = nodes, help_heading = BACKEND)]
    pub nodes: Option<NonZeroUsize>,

    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// What a program finds in place of what it would find.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct PlaceArgs {
    /// Have software GPUs be those of this machine: one of those that `collspec machine list` shows, a profile, or a file that NCCL has written to
    /// NCCL_TOPO_DUMP_FILE.
    #[arg(long, value_name = "NAME|FILE", value_parser = machine_name, help_heading = BACKEND)]
    pub machine: Option<String>,

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
    /// So many nodes of the machine, or one.
    pub fn cluster(&self, nodes: Option<NonZeroUsize>) -> anyhow::Result<SoftwareCluster> {
        let profile = self.machine.as_deref().map(MachineProfile::find).transpose()?;
        Ok(SoftwareCluster::new(profile, nodes.unwrap_or(NonZeroUsize::MIN))?)
    }

    /// The library to preload. A program that needs one of its name takes that, because it is there already.
    pub fn library(&self) -> anyhow::Result<Option<PathBuf>> {
        let Some(spec) = &self.nccl else { return Ok(None) };
        let path = choose(spec, &Workers::CurrentExe)?.path;
        let is_plain = !path.as_os_str().as_encoded_bytes().iter().any(|byte| b" :".contains(byte));
        anyhow::ensure!(is_plain, "{}: the loader separates libraries to preload by spaces and colons", path.display());
        Ok(Some(path))
    }
}

/// Becomes the program, or starts it on each node.
pub fn gpu(GpuArgs { place, nodes, program }: &GpuArgs) -> anyhow::Result<Exit> {
    let cluster = place.cluster(*nodes)?;
    if nodes.is_none() {
        return become_program(program, &variables(place, &cluster, 0)?);
    }
    let all = (0..cluster.nodes.len()).map(|node| variables(place, &cluster, node)).collect::<Result<_, _>>()?;
    on_each_node(program, all)
}

/// The variables with which a program finds the software GPUs of a node.
pub(super) fn variables(
    place: &PlaceArgs,
    cluster: &SoftwareCluster,
    node: usize,
) -> anyhow::Result<Vec<(String, OsString)>> {
    anyhow::ensure!(cfg!(target_arch = "x86_64"), "software GPUs need a processor of the x86-64 family");
    software_gpus::check_variables(cluster.description().as_deref())?;
    let devices = software_gpus::device_count(cluster.description().as_deref())?;
    let folder = standin::presented(FOLDER, &NAMES)?;
    let preload = in_front(folder.join(NAMES[0].0), place.library()?.map(PathBuf::into_os_string));
    let mut variables = vec![
        (PRELOAD.to_owned(), before(preload.into(), PRELOAD)),
        ("LD_LIBRARY_PATH".to_owned(), before(folder, "LD_LIBRARY_PATH")),
        (software_gpus::COUNT.to_owned(), devices.to_string().into()),
    ];
    if let Ok(folder) = programs_folder() {
        variables.push((CACHE.to_owned(), folder.into()));
    }
    variables.extend(cluster.variables(node).into_iter().map(|(name, value)| (name, value.into())));
    if !place.no_torch {
        let folder = unpack_files(&FOR_TORCH).context("the files for PyTorch cannot be written")?;
        variables.push((PYTHON_PATH.to_owned(), before(folder, PYTHON_PATH)));
    }
    Ok(variables)
}
