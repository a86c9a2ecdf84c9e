"""vLLM's communicator, which calls NCCL through ctypes: torchrun --nproc-per-node 2 vllm_pynccl.py"""

import os

import torch
import torch.distributed
from vllm.distributed.device_communicators.pynccl import PyNcclCommunicator

rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
torch.distributed.init_process_group("gloo")
comm = PyNcclCommunicator(torch.distributed.group.WORLD, device=torch.device("cuda", rank))
values = torch.arange(1000, dtype=torch.float32, device="cuda") + rank
total = comm.all_reduce(values)
both = torch.empty(2000, device="cuda")
comm.all_gather(both, values)
half = torch.empty(500, device="cuda")
comm.reduce_scatter(half, values)
received = torch.zeros(1000, device="cuda")
if rank == 0:
    comm.send(values, 1)
else:
    comm.recv(received, 0)
torch.cuda.synchronize()
first = torch.arange(1000, dtype=torch.float32)
sums = 2 * first + 1
assert torch.equal(total.cpu(), sums)
assert torch.equal(both.cpu(), torch.cat([first, first + 1]))
assert torch.equal(half.cpu(), sums[500 * rank : 500 * rank + 500])
assert rank == 0 or torch.equal(received.cpu(), first)
print(f"vLLM's pynccl, rank {rank}: right")
