"""Operations on a stream that is being captured: they become host functions of the graph, and run at each launch of it."""

import atexit
import sys
import threading
import traceback

import torch

from . import driver
from .call import CPU, copy_into

# What the nodes of all graphs run, by the number that the host function gets. A graph may be launched as long as the process lives.
_nodes = []
_adding = threading.Lock()


@driver.HOST_FUNCTION
def _run(number):
    try:
        _nodes[(number or 0)]()
    except BaseException:
        # There is nobody to whom a graph on a stream could raise it.
        sys.stderr.write("software GPU: an operation of a CUDA graph failed\n")
        traceback.print_exc()


def _wait_for_launches():
    """A node that begins while Python ends could not call it any more, and the process would abort."""
    for index in range(torch.cuda.device_count()):
        torch.cuda.synchronize(index)


def _on_meta(value):
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, (list, tuple)):
        return [_on_meta(item) for item in value]
    return torch.device("meta") if isinstance(value, torch.device) else value


def _without_memory(op, args, kwargs):
    """The sizes of what an operation gives, without values. Arguments that it gives back are not recognised by identity here."""
    kwargs = {key: None if isinstance(value, torch.Generator) else _on_meta(value) for key, value in kwargs.items()}
    return op(*[_on_meta(arg) for arg in args], **kwargs)


def capture(op, schema, call, args, kwargs, run):
    """Makes a node of an operation. `run` calls the kernel with the arguments, which lie over device memory."""
    shapes = _without_memory(op, args, kwargs)
    returned = _returned(schema, args, kwargs)
    plain = _several(shapes)
    results = []
    for index, shape in enumerate(plain):
        if returned is not None and returned[index] is not None:
            results.append(call.originals[id(returned[index])][1])
        elif isinstance(shape, torch.Tensor):
            results.append(torch.empty_strided(shape.size(), shape.stride(), dtype=shape.dtype, device=call.device()))
        else:
            raise RuntimeError(f"{op} gives a {type(shape).__name__} to the host, which a graph cannot")

    for (_, original), shape in zip(call.outputs, plain):
        if original.size() != shape.size():
            original.resize_(shape.size())

    def node():
        out = run()
        for new, original in call.outputs:
            copy_into(original, new)
        for index, value in enumerate(_several(out)):
            if returned is None or returned[index] is None:
                if value.size() != results[index].size():
                    raise RuntimeError(f"{op} gives {tuple(value.size())} and gave {tuple(results[index].size())} when it was captured")
                copy_into(results[index], value)

    with _adding:
        if not _nodes:
            atexit.register(_wait_for_launches)
        _nodes.append(node)
        number = len(_nodes) - 1
    driver.launch_host_function(call.streams()[0][1], _run, number)
    if isinstance(shapes, (list, tuple)):
        return type(shapes)(results)
    return results[0] if results else None


def _several(results):
    """The results of an operation as a list. One that writes to a list of tensors gives nothing back."""
    if results is None:
        return []
    return results if isinstance(results, (list, tuple)) else [results]


def _returned(schema, args, kwargs):
    """The argument that each result is, or None for new ones; None if all are new."""
    if not any(result.alias_info is not None for result in schema.returns):
        return None
    given = []
    for result in schema.returns:
        found = None
        if result.alias_info is not None:
            for index, argument in enumerate(schema.arguments):
                if argument.alias_info is not None and argument.alias_info.before_set == result.alias_info.before_set:
                    found = kwargs.get(argument.name) if argument.name in kwargs else args[index]
        given.append(found)
    return given
