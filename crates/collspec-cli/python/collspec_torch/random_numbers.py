"""Random numbers: the CPU's generators, seeded by what the CUDA generators have counted.

A CUDA generator is a seed and a count of numbers that were drawn. Each operation gets a generator of the CPU that is seeded by both, and
advances the count. So torch.cuda.manual_seed, get_rng_state, fork_rng and checkpoints work as they do on a GPU, with other numbers.
"""

import threading

import torch

# Held while an operation has the CPU's default generator, which is one for all threads.
_default = threading.Lock()
# CUDA generators count in steps of this size.
_STEP = 4


def _seed(device_index, generator):
    if generator is None:
        generator = torch.cuda.default_generators[device_index]
    offset = generator.get_offset()
    generator.set_offset(offset + _STEP)
    # Seeds that are neighbours must not give the numbers that neighbouring counts give.
    mixed = (generator.initial_seed() * 0x9E3779B97F4A7C15 + offset * 0xD1B54A32D192ED03) % (1 << 64)
    return (mixed ^ (mixed >> 29)) % (1 << 63)


def generator(device_index, of_program):
    """A generator of the CPU for one operation. `of_program` is the CUDA generator that the program named, if it did."""
    return torch.Generator(device="cpu").manual_seed(_seed(device_index, of_program))


class Default:
    """The CPU's default generator, for an operation that takes no other; afterwards it goes on as before."""

    def __init__(self, device_index):
        self._seed = _seed(device_index, None)

    def __enter__(self):
        _default.acquire()
        self._before = torch.default_generator.get_state()
        torch.default_generator.manual_seed(self._seed)

    def __exit__(self, *_):
        torch.default_generator.set_state(self._before)
        _default.release()
