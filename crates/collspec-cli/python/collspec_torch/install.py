"""Puts the CPU's kernels in place of those for CUDA."""

import warnings

import torch

from . import choices, compositions, driver, graphs, random_numbers
from .call import Call

# Kept: they allocate, look at handles, or copy by the CUDA runtime.
_TORCHS_OWN = {
    "aten::empty.memory_format",
    "aten::empty_strided",
    "aten::resize_",
    "aten::set_",
    "aten::set_.source_Storage",
    "aten::set_.source_Storage_storage_offset",
    "aten::set_.source_Tensor",
    "aten::is_set_to",
    "aten::is_pinned",
    "aten::_pin_memory",
    "aten::record_stream",
    "aten::_local_scalar_dense",
    "aten::_efficientzerotensor",
    "aten::_has_compatible_shallow_copy_type",
}
# With one kernel for all devices, they call kernels for CUDA, cuDNN's among them, behind the dispatcher's back.
_ALSO = {"aten::copy_", "aten::convolution", "aten::ldexp.Tensor", "aten::ldexp.out", "aten::ldexp_"}
# Operations on several tensors that PyTorch refuses if these are on different devices.
_SAME_DEVICE = set(
    "mm bmm addmm addmv mv dot baddbmm addbmm cat convolution embedding gather index_select scatter scatter_ scatter_add scatter_add_ "
    "masked_select take nll_loss_forward nll_loss2d_forward native_layer_norm native_group_norm native_batch_norm".split()
)

_NUMBERS = (bool, int, float, complex)

# A library's kernels live as long as it does.
_libraries = []


def overload(name):
    """The operation of a name such as `aten::add.Tensor`."""
    namespace, rest = name.split("::")
    base, _, variant = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), base), variant or "default")


def _is_view(op):
    return any(result.alias_info is not None and not result.alias_info.is_write for result in op._schema.returns)


def _is_written(argument):
    return argument.alias_info is not None and argument.alias_info.is_write


def _check_devices(name, call):
    others = [tensor for _, tensor in call.originals.values() if tensor.dim() > 0 and tensor.device != call.device()]
    if others:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but {name} got {call.device()} and {others[0].device}"
        )


def kernel(name, op):
    """A kernel for CUDA that runs an operation's kernel for the CPU."""
    schema = op._schema
    outputs = {argument.name for argument in schema.arguments if argument.kwarg_only and _is_written(argument)}
    generator_at = next(
        (index for index, argument in enumerate(schema.arguments) if str(argument.type) == "Optional[Generator]"), None
    )
    draws = torch.Tag.nondeterministic_seeded in op.tags
    base = schema.name.split("::")[1]
    tensors_at = [index for index, argument in enumerate(schema.arguments) if str(argument.type) == "Tensor"]
    packet = getattr(torch.ops.aten, base)
    one_device = torch.Tag.pointwise in op.tags or base in _SAME_DEVICE

    def run(*args, **kwargs):
        call = Call()
        args = [call.on_cpu(arg) for arg in args]
        given = kwargs
        kwargs = {key: call.on_cpu(value) for key, value in given.items() if key not in outputs}
        for key in outputs & given.keys():
            kwargs[key] = call.output_on_cpu(given[key])
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = None
        if one_device:
            _check_devices(name, call)

        # Numbers come as numbers where the kernel has tensors; most operations have a variant for them.
        has_number = any(index < len(args) and type(args[index]) in _NUMBERS for index in tensors_at)
        chosen = packet if has_number else op

        def on_cpu():
            if not draws:
                return chosen(*args, **kwargs)
            index = call.device().index
            if generator_at is not None:
                if generator_at < len(args):
                    drawn = random_numbers.generator(index, args[generator_at])
                    return op(*args[:generator_at], drawn, *args[generator_at + 1 :], **kwargs)
                drawn = random_numbers.generator(index, given.get("generator"))
                return op(*args, **{**kwargs, "generator": drawn})
            with random_numbers.Default(index):
                return op(*args, **kwargs)

        streams = call.streams()
        if driver.is_capturing(streams[0][1]):
            return graphs.capture(chosen, op._schema, call, args, kwargs, on_cpu)
        for device_index, stream in streams:
            driver.wait_for(device_index, stream)
        return call.finish(on_cpu())

    return run


def refusal(name):
    """A kernel for an operation that has none for the CPU."""

    def run(*_args, **_kwargs):
        raise NotImplementedError(
            f"{name} has no kernel for the CPU, and PyTorch's kernel for CUDA is machine code, which software GPUs cannot run"
        )

    return run


def _names():
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("aten::") and name not in _TORCHS_OWN:
            has = lambda key: torch._C._dispatch_has_kernel_for_dispatch_key(name, key)
            if has("CUDA") or (name in _ALSO and has("CompositeExplicitAutograd")):
                yield name


def install():
    choices.make()
    library = torch.library.Library("aten", "IMPL")
    _libraries.append(library)
    with warnings.catch_warnings():
        # The dispatcher warns of each kernel that replaces another.
        warnings.simplefilter("ignore")
        for name in _names():
            op = overload(name)
            if _is_view(op):
                continue
            function = compositions.TABLE.get(name)
            if function is None:
                has_kernel = torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "CPU")
                function = kernel(name, op) if has_kernel else refusal(name)
                function = compositions.AROUND.get(name, lambda own: own)(function)
            library.impl(name.removeprefix("aten::"), function, "CUDA", **_OVERRIDE)


# Newer versions ask for it.
_OVERRIDE = {"allow_override": True} if "allow_override" in torch.library.Library.impl.__code__.co_varnames else {}

