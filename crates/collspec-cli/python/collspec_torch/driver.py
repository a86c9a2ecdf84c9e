"""The functions of the CUDA driver that kernels need: whether a stream is being captured, and waiting for it."""

import ctypes

import torch

_driver = ctypes.CDLL("libcuda.so.1")
HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_is_capturing = _driver.cuStreamIsCapturing
_is_capturing.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
_synchronize = _driver.cuStreamSynchronize
_synchronize.argtypes = [ctypes.c_void_p]
_launch = _driver.cuLaunchHostFunc
_launch.argtypes = [ctypes.c_void_p, HOST_FUNCTION, ctypes.c_void_p]


def _check(code, what):
    if code != 0:
        raise RuntimeError(f"CUDA error: {what} failed with {code} before an operation on the CPU")


def current_stream(device_index):
    """The handle of the stream on which this thread puts work of a device."""
    return torch._C._cuda_getCurrentRawStream(device_index)


def is_capturing(stream):
    # The default stream cannot be captured.
    if stream == 0:
        return False
    status = ctypes.c_int(0)
    _check(_is_capturing(stream, ctypes.byref(status)), "cuStreamIsCapturing")
    return status.value != 0


def wait_for(device_index, stream):
    """Waits until everything on a device's stream has ended. Other threads of Python run meanwhile."""
    if stream != 0:
        _check(_synchronize(stream), "cuStreamSynchronize")
        return
    # The default streams of all devices have one handle, which means that of the current device.
    before = torch._C._cuda_exchangeDevice(device_index)
    try:
        _check(_synchronize(stream), "cuStreamSynchronize")
    finally:
        torch._C._cuda_maybeExchangeDevice(before)


def launch_host_function(stream, function, argument):
    _check(_launch(stream, function, argument), "cuLaunchHostFunc")
