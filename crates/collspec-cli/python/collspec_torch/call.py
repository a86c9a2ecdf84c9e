"""The arguments and results of one operation, with CPU tensors in place of CUDA tensors."""

import ctypes

import torch

from . import driver

CPU = torch.device("cpu")
_storage_at = torch._C._construct_storage_from_data_pointer


def over_the_same_memory(tensor, storages):
    """A CPU tensor over a CUDA tensor's memory. `storages` has those that other tensors of the same call lie in, by address:
    kernels compare storages to find out that tensors overlap."""
    storage = tensor.untyped_storage()
    address = storage.data_ptr()
    if address == 0 or tensor.numel() == 0:
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=CPU)
    known = storages.get(address)
    if known is None:
        known = storages[address] = _storage_at(address, CPU, storage.nbytes())
    alias = torch.empty(0, dtype=tensor.dtype, device=CPU)
    alias.set_(known, tensor.storage_offset(), tensor.size(), tensor.stride())
    if tensor.is_conj():
        alias = torch._conj(alias)
    if tensor.is_neg():
        alias = torch._neg_view(alias)
    return alias


def copy_into(target, result):
    """Copies a result of the CPU into a CUDA tensor of the same size."""
    if result.numel() == 0:
        return
    if target.stride() == result.stride() and _is_dense(result):
        # Anything else is several operations, which take longer than a small copy.
        ctypes.memmove(target.data_ptr(), result.data_ptr(), result.numel() * result.element_size())
    else:
        over_the_same_memory(target, {}).copy_(result)


def _is_dense(tensor):
    plain = tensor.is_contiguous() or (tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last))
    return plain and not tensor.is_conj() and not tensor.is_neg()


class Call:
    """One call of an operation on the tensors of one or more devices."""

    __slots__ = ("devices", "storages", "originals", "outputs")

    def __init__(self):
        # In the order in which the arguments name them; the first one is that of the results.
        self.devices = []
        self.storages = {}
        # The argument for each CPU tensor that the kernel gets, by that tensor's identity, which lasts as long as the entry.
        self.originals = {}
        # Pairs of a new CPU tensor and the `out=` argument that it stands for.
        self.outputs = []

    def on_cpu(self, value):
        """An argument as the kernel gets it."""
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, (list, tuple)):
            return [self.on_cpu(item) for item in value]
        if isinstance(value, torch.device):
            self._note(value)
            return CPU
        return value

    def output_on_cpu(self, value):
        """An `out=` argument as the kernel gets it: a tensor of its own, because kernels resize what they write to."""
        if isinstance(value, (list, tuple)):
            return [self.output_on_cpu(item) for item in value]
        if not isinstance(value, torch.Tensor) or not value.is_cuda:
            return self.on_cpu(value)
        self._note(value.device)
        new = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=CPU)
        self.outputs.append((new, value))
        self.originals[id(new)] = (new, value)
        return new

    def device(self):
        return self.devices[0] if self.devices else torch.device("cuda", torch.cuda.current_device())

    def streams(self):
        """The streams on which a GPU would put this operation, or wait: pairs of a device and a handle."""
        devices = self.devices or [self.device()]
        return [(device.index, driver.current_stream(device.index)) for device in devices]

    def finish(self, result):
        """A kernel's result as the program gets it; what was written to `out=` is there."""
        for new, original in self.outputs:
            if new.size() != original.size():
                original.resize_(new.size())
            copy_into(original, new)
        return self._on_cuda(result)

    def _tensor(self, tensor):
        if not tensor.is_cuda:
            self.originals[id(tensor)] = (tensor, tensor)
            return tensor
        self._note(tensor.device)
        alias = over_the_same_memory(tensor, self.storages)
        self.originals[id(alias)] = (alias, tensor)
        return alias

    def _note(self, device):
        if device.type != "cuda":
            return
        if device.index is None:
            device = torch.device("cuda", torch.cuda.current_device())
        if device not in self.devices:
            self.devices.append(device)

    def _on_cuda(self, result):
        if isinstance(result, torch.Tensor):
            known = self.originals.get(id(result))
            return self._new(result) if known is None else known[1]
        if type(result) in (list, tuple):
            return type(result)(self._on_cuda(item) for item in result)
        return result

    def _new(self, result):
        if result.layout is torch.sparse_coo:
            parts = self._new(result._indices()), self._new(result._values())
            return torch.sparse_coo_tensor(*parts, result.size(), check_invariants=False, is_coalesced=result.is_coalesced())
        if result.layout is not torch.strided:
            raise NotImplementedError(f"a result of the layout {result.layout} has no counterpart on software GPUs")
        result = result.resolve_conj().resolve_neg()
        new = torch.empty_strided(result.size(), result.stride(), dtype=result.dtype, device=self.device())
        copy_into(new, result)
        return new
