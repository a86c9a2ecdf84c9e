"""An all_reduce of two ranks with nccl4py. On a machine without a GPU: collspec gpu -- python nccl4py_allreduce.py"""

import threading

import numpy as np
import nccl.core as nccl
from cuda.bindings import driver
from cuda.core import Device

COUNT, RANKS = 1000, 2


class View:
    """Device memory as nccl4py takes it."""

    def __init__(self, memory):
        self.__cuda_array_interface__ = {
            "shape": (COUNT,),
            "typestr": "<f4",
            "data": (int(memory.handle), False),
            "version": 3,
        }


def rank(number, unique_id):
    device = Device(number)
    device.set_current()
    stream = device.create_stream()
    comm = nccl.Communicator.init(nranks=RANKS, rank=number, unique_id=unique_id)
    values = np.arange(COUNT, dtype=np.float32) + number
    memory = device.allocate(values.nbytes, stream=stream)
    driver.cuMemcpyHtoD(int(memory.handle), values.ctypes.data, values.nbytes)
    comm.allreduce(View(memory), View(memory), nccl.SUM, stream=stream)
    stream.sync()
    driver.cuMemcpyDtoH(values.ctypes.data, int(memory.handle), values.nbytes)
    print(f"rank {number} of {RANKS}: {values[:4]} ... {values[-1]}")
    comm.destroy()


unique_id = nccl.get_unique_id()
ranks = [threading.Thread(target=rank, args=(number, unique_id)) for number in range(RANKS)]
for thread in ranks:
    thread.start()
for thread in ranks:
    thread.join()
