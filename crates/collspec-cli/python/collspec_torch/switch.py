"""Waits for the program to import torch, and replaces its kernels then."""

import os
import sys

# Part of the name of the folder with the driver of software GPUs, which `collspec gpu` preloads.
_DRIVER = "collspec-gpu"


def _driver_is_loaded():
    """True in a process with software GPUs. On a GPU, an address in device memory would be no address of the host's."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            return any(_DRIVER in line or "libgpuless_driver" in line for line in maps)
    except OSError:
        return False


class _AfterTorch:
    """A finder that finds nothing itself: it has torch's own loader call `install` behind it."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or path is not None:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                break
        else:
            return None
        if spec.loader is not None:
            _run_behind(spec.loader)
        return spec


def _run_behind(loader):
    execute = loader.exec_module

    def exec_module(module):
        execute(module)
        # A module that its program has made up, or a torch that was built without CUDA, has nothing to replace.
        if getattr(getattr(module, "version", None), "cuda", None):
            try:
                from . import install

                install.install()
            except Exception as error:
                raise ImportError(
                    f"the kernels of torch {getattr(module, '__version__', '')} cannot be replaced by those for the CPU: "
                    "`collspec gpu --no-torch` leaves them as they are"
                ) from error

    loader.exec_module = exec_module


def on_import_of_torch():
    if "torch" in sys.modules or not _driver_is_loaded():
        return
    # torch reads these when it is imported. A compiled function is a kernel of Triton's, as machine code.
    os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
    os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")
    sys.meta_path.insert(0, _AfterTorch())
