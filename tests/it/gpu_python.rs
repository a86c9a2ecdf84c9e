//! `collspec gpu` gives Python a package for PyTorch, which changes nothing else there. `ci/torch` tests the package with PyTorch.
use std::path::Path;
use std::process::{Command, Output};

/// Runs a program of Python below `collspec gpu` with these options; `None` if there is no Python.
fn python(options: &[&str], code: &str, path: &Path) -> Option<Output> {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: there is no python3");
        return None;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_collspec"));
    command.arg("gpu").args(options).args(["--", "python3", "-c", code]);
    command.env("COLLSPEC_SOFTWARE_GPUS", "2").env("PYTHONPATH", path).env("PYTHONDONTWRITEBYTECODE", "1");
    Some(command.output().unwrap())
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
#[cfg(target_arch = "x86_64")]
fn the_package_waits_for_torch_and_leaves_a_sitecustomize_in_place() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("sitecustomize.py"), "import builtins\nbuiltins.own = 'here'\n").unwrap();
    let waits = "import sys; print(own, 'torch' in sys.modules, type(sys.meta_path[0]).__name__)";
    let Some(output) = python(&[], waits, folder.path()) else { return };
    assert_eq!(printed(&output), "here False _AfterTorch");
    let output = python(&["--no-torch"], waits, folder.path()).unwrap();
    assert!(printed(&output).starts_with("here False ") && !printed(&output).contains("AfterTorch"));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_torch_that_cannot_be_changed_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let torch = folder.path().join("torch");
    std::fs::create_dir(&torch).unwrap();
    let write = |cuda: &str| {
        std::fs::write(torch.join("__init__.py"), format!("class version: cuda = {cuda}\n__version__ = '9.9'\n"))
            .unwrap();
    };
    write("None");
    let Some(output) = python(&[], "import torch; print(torch.__version__)", folder.path()) else { return };
    assert_eq!(printed(&output), "9.9", "one without CUDA has nothing to replace");
    write("'99.0'");
    // Programs ask whether there is a torch before they import it.
    let asks = "import importlib.util; importlib.util.find_spec('torch'); import torch";
    let output = python(&[], asks, folder.path()).unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("kernels of torch 9.9 cannot be replaced"), "{told}");
    assert!(told.contains("collspec gpu --no-torch"), "{told}");
    let output = python(&["--no-torch"], "import torch; print(torch.__version__)", folder.path()).unwrap();
    assert_eq!(printed(&output), "9.9");
}

/// Programs ask NVML for devices, and libraries are linked with functions of the driver that they never call.
#[test]
#[cfg(target_arch = "x86_64")]
fn nvml_knows_the_devices_and_functions_that_are_missing_can_be_linked() {
    let folder = tempfile::tempdir().unwrap();
    let asks = "
import ctypes
nvml, cuda = ctypes.CDLL('libnvidia-ml.so.1'), ctypes.CDLL('libcuda.so.1')
count, device, memory = ctypes.c_uint(), ctypes.c_void_p(), (ctypes.c_uint64 * 3)()
text, again = ctypes.create_string_buffer(96), ctypes.c_void_p()
codes = [nvml.nvmlInit_v2(), nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)), nvml.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(device)),
    nvml.nvmlDeviceGetMemoryInfo(device, memory), nvml.nvmlDeviceGetUUID(device, text, 96), nvml.nvmlDeviceGetHandleByUUID(text, ctypes.byref(again))]
uuid = text.value.decode()
print(codes, count.value, memory[0] > 0 and memory[0] == memory[1] + memory[2], len(uuid), uuid[:4], again.value == device.value)
print(cuda.cuInit(0), cuda.cuTensorMapEncodeTiled(), cuda.cuTensorMapEncodeTiled())
";
    let Some(output) = python(&[], asks, folder.path()) else { return };
    assert_eq!(printed(&output), "[0, 0, 0, 0, 0, 0] 2 True 40 GPU- True\n0 801 801");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(told.matches("software GPU: cuTensorMapEncodeTiled is not supported").count(), 1, "{told}");
}
