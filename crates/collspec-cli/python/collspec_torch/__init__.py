"""PyTorch on software GPUs: operations on CUDA tensors run as PyTorch's CPU kernels over the same memory.

Software GPUs keep a device's memory in the memory of the host, so a tensor of the CPU can lie where a CUDA tensor does. Allocation,
views, streams, events and NCCL stay PyTorch's own; they reach the devices through the CUDA runtime.
"""
