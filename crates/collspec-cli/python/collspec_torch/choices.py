"""What PyTorch chooses before the dispatcher is asked: kernels of other libraries and compilers, which are machine code."""

import sys

import torch


def _ignored(*_args, **_kwargs):
    """In place of a function that would turn such a kernel on."""


def make():
    """Turns off what cannot run here, for good: programs also turn it on."""
    # Of several kernels for attention, those that are composed of other operations.
    for name, is_used in {"flash": False, "cudnn": False, "mem_efficient": True, "math": True}.items():
        _fix(f"_set_sdp_use_{name}", is_used)
    _fix("_set_cudnn_enabled", False)
    cudnn = type(torch.backends.cudnn)
    cudnn.enabled = torch.backends.ContextProp(torch._C._get_cudnn_enabled, _ignored)
    # It makes nested tensors of padded ones.
    torch.backends.mha.set_fastpath_enabled(False)
    torch._C._jit_override_can_fuse_on_gpu(False)
    _profile_the_cpu_alone()
    _say_that_compile_is_eager()


def _fix(setter, value):
    if hasattr(torch._C, setter):
        getattr(torch._C, setter)(value)
        setattr(torch._C, setter, _ignored)


def _say_once(text):
    if text not in _said:
        _said.add(text)
        sys.stderr.write(f"software GPU: {text}\n")


_said = set()


def _profile_the_cpu_alone():
    """The library that traces GPUs has a CUDA runtime of its own, which cannot be replaced."""
    cuda = torch.profiler.ProfilerActivity.CUDA
    profiler = torch.profiler.profiler._KinetoProfile
    initialise = profiler.__init__

    def __init__(self, *, activities=None, **options):
        wanted = set(activities or torch.profiler.supported_activities())
        if cuda in wanted:
            _say_once("the profiler records what the CPU does, and no activities of GPUs")
        initialise(self, activities=wanted - {cuda}, **options)

    profiler.__init__ = __init__


def _say_that_compile_is_eager():
    compile = torch.compile

    def wrapper(model=None, **options):
        _say_once("torch.compile does nothing here; the program runs in eager mode")
        return compile(model, **options)

    wrapper.__doc__ = compile.__doc__
    torch.compile = wrapper
