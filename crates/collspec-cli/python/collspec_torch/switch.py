"""Waits for the program to import torch, and replaces its kernels then."""

import importlib.util
import os
import sys
import threading

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
    """A finder that finds nothing itself: it has torch's own loader call `install` behind it.

    It stays until torch has been imported, because programs also ask whether there is a torch without importing it.
    """

    def __init__(self):
        self._asking = threading.local()

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or path is not None or getattr(self._asking, "others", False):
            return None
        self._asking.others = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asking.others = False
        if spec is not None and spec.loader is not None:
            self._run_behind(spec.loader)
        return spec

    def _run_behind(self, loader):
        execute = loader.exec_module

        def exec_module(module):
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            # A torch that was built without CUDA has nothing to replace.
            if getattr(getattr(module, "version", None), "cuda", None):
                _install(module)

        loader.exec_module = exec_module


def _install(torch):
    try:
        from . import install

        install.install()
    except Exception as error:
        raise ImportError(
            f"the kernels of torch {getattr(torch, '__version__', '')} cannot be replaced by those for the CPU: "
            "`collspec gpu --no-torch` leaves them as they are"
        ) from error


def on_import_of_torch():
    if "torch" in sys.modules or not _driver_is_loaded():
        return
    # torch reads these when it is imported. A compiled function is a kernel of Triton's, as machine code.
    os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
    os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")
    sys.meta_path.insert(0, _AfterTorch())
