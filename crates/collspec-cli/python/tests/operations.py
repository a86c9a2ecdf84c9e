"""Every operation that PyTorch's own tests know, on CUDA tensors and on the CPU: results, and gradients, must be the same bits.

    collspec gpu -- python operations.py [--samples N] [--only NAME]

Prints what differs by operation and type, and a summary; the exit code is 1 if anything differs.
"""

import argparse
import collections
import sys
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

TYPES = [torch.float32, torch.bfloat16, torch.int64]
# These give what memory happened to hold, or random numbers.
# jiterator compiles kernels by NVRTC, as machine code.
WITHOUT_VALUES = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_", "resize_as_"}

# PyTorch has no kernel for CUDA, or wants an argument on the CPU.
REFUSED_FOR_CUDA = {"histogram", "histogramdd", "nonzero_static", "tensor_split"}
# PyTorch composes these, or their gradients, differently by device.
OTHER_FORMULAS = {"linalg.lstsq", "nn.functional.rms_norm", "nn.functional.scaled_dot_product_attention", "prod", "renorm"}


def on(device, value):
    """The same arguments on a device, with the strides, the offsets and the gradients that they have on the CPU."""

    def move(item):
        if isinstance(item, torch.Tensor):
            if item.layout is not torch.strided:
                raise Unsuitable
            new = torch.empty_strided(item.size(), item.stride(), dtype=item.dtype, device=device)
            if item.is_conj() or item.is_neg():
                return item.detach().to(device).requires_grad_(item.requires_grad)
            overlaps = any(stride == 0 and size > 1 for size, stride in zip(item.size(), item.stride()))
            if overlaps:
                new = item.detach().to(device)
            else:
                new.copy_(item.detach())
            return new.requires_grad_(item.requires_grad)
        if item == "cpu" or (isinstance(item, torch.device) and item.type == "cpu"):
            return torch.device(device)
        return item

    return tree_map(move, value)


class Unsuitable(Exception):
    """A sample with tensors of a layout that this test does not compare."""


class Draws(TorchDispatchMode):
    """Notices that an operation draws random numbers."""

    found = False

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.found |= torch.Tag.nondeterministic_seeded in function.tags
        return function(*args, **(kwargs or {}))


def outcome(function, sample, device, gradients):
    """What an operation gives: its tensors and their gradients on the CPU, or the kind of error."""
    arguments = on(device, (sample.input, sample.args, sample.kwargs))
    try:
        result = function(arguments[0], *arguments[1], **arguments[2])
        found = [item for item in tree_flatten(result)[0] if isinstance(item, torch.Tensor)]
        given = [item for item in tree_flatten(arguments)[0] if isinstance(item, torch.Tensor)]
        # Arguments that an operation changes are results, too.
        found += [item.detach() for item in given]
        if gradients:
            leaves = [item for item in given if item.requires_grad and item.is_leaf]
            roots = [item for item in found if item.requires_grad and item.grad_fn is not None]
            roots = [item for item in roots if item.is_floating_point() or item.is_complex()]
            if leaves and roots:
                weights = [torch.ones(item.size(), dtype=item.dtype).to(device) for item in roots]
                found += [item for item in torch.autograd.grad(roots, leaves, weights, allow_unused=True) if item is not None]
        found = [item for item in found if item.layout is torch.strided]
        return [(item.detach().cpu(), item.stride()) for item in found]
    except Unsuitable:
        raise
    except NotImplementedError as error:
        return f"not implemented: {str(error).splitlines()[0][:160]}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:160] if str(error) else ''}"


def bits(tensor):
    return tensor.clone(memory_format=torch.contiguous_format).resolve_conj().resolve_neg().reshape(-1).view(torch.uint8)


def same(one, other):
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str) and isinstance(other, str)
    if len(one) != len(other):
        return False
    for (left, _), (right, _) in zip(one, other):
        if left.dtype != right.dtype or left.size() != right.size():
            return False
        if not torch.equal(bits(left), bits(right)):
            return False
    return True


def near(left, right):
    """Sums that cancel keep the rounding of their largest terms."""
    largest = left.abs().nan_to_num(posinf=0, neginf=0).max().item() if left.numel() > 0 else 0
    return torch.allclose(left, right, rtol=1e-4, atol=1e-5 * max(1, largest), equal_nan=True)


def close(one, other):
    pairs = [] if isinstance(one, str) or isinstance(other, str) else zip(one, other)
    return len(one) == len(other) and all(near(left, right) for (left, _), (right, _) in pairs)


def in_words(value):
    if isinstance(value, str):
        return value
    return "; ".join(f"{tuple(item.size())} {item.flatten()[:4].tolist()}" for item, _ in value[:3])


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--samples", type=int, default=8)
    arguments.add_argument("--only", default="")
    arguments = arguments.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    counts = collections.Counter()
    for op in op_db:
        if arguments.only and arguments.only not in op.name:
            continue
        for dtype in TYPES:
            if dtype not in op.dtypes or op.name in WITHOUT_VALUES or op.name.startswith("jiterator"):
                continue
            gradients = dtype is torch.float32 and op.supports_autograd
            try:
                samples = list(zip(range(arguments.samples), op.sample_inputs("cpu", dtype, requires_grad=gradients)))
            except Exception as error:
                counts["no samples"] += 1
                continue
            wrong = None
            for _, sample in samples:
                try:
                    # Some operations check their arguments only where no mode is active.
                    with Draws() as draws:
                        outcome(op.op, sample, "cpu", False)
                    if draws.found:
                        counts["samples with random numbers"] += 1
                        continue
                    expected = outcome(op.op, sample, "cpu", gradients)
                    found = outcome(op.op, sample, "cuda", gradients)
                except Unsuitable:
                    counts["samples of other layouts"] += 1
                    continue
                counts["samples"] += 1
                if op.name in REFUSED_FOR_CUDA and isinstance(found, str):
                    counts["samples that a GPU refuses, too"] += 1
                elif op.name in OTHER_FORMULAS and close(expected, found):
                    counts["samples with another formula for CUDA, which are close"] += 1
                elif not same(expected, found):
                    counts["samples that differ"] += 1
                    wrong = wrong or (expected, found)
            counts["operations with a type"] += 1
            if wrong:
                counts["operations with a type that differ"] += 1
                print(f"{op.formatted_name} {str(dtype)[6:]}:\n  CPU:  {in_words(wrong[0])}\n  CUDA: {in_words(wrong[1])}", flush=True)
    for what, count in counts.items():
        print(f"{count} {what}")
    return 1 if counts["samples that differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
