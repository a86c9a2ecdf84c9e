"""Hugging Face accelerate: accelerate launch --multi_gpu --num_processes 2 accelerate_step.py"""

import copy

import torch
from accelerate import Accelerator

accelerator = Accelerator()
torch.manual_seed(0)
plain = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
inputs, targets = torch.randn(64, 32), torch.randn(64, 1)
model, optimizer, loader = accelerator.prepare(
    copy.deepcopy(plain),
    torch.optim.AdamW,
    torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, targets), batch_size=8),
)
optimizer = accelerator.prepare(optimizer(model.parameters(), lr=1e-2))
for x, y in loader:
    accelerator.backward(torch.nn.functional.mse_loss(model(x), y))
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()

# The same in one process: the batches of all ranks together are one batch.
alone = torch.optim.AdamW(plain.parameters(), lr=1e-2)
together = 8 * accelerator.num_processes
for x, y in zip(inputs.split(together), targets.split(together)):
    torch.nn.functional.mse_loss(plain(x), y).backward()
    torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
    alone.step()
    alone.zero_grad()
for ours, theirs in zip(accelerator.unwrap_model(model).parameters(), plain.parameters()):
    torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-5)
accelerator.print("accelerate: as in one process")
accelerator.end_training()
