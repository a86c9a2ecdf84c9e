"""DeepSpeed's ZeRO, stage 1, 2 or 3: STAGE=3 torchrun --nproc-per-node 2 deepspeed_step.py"""

import copy
import os

import deepspeed
import torch

STEPS = 5
stage, rank, world = (int(os.environ[name]) for name in ("STAGE", "RANK", "WORLD_SIZE"))
torch.manual_seed(0)
plain = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
batches = [(torch.randn(4 * world, 32), torch.randn(4 * world, 1)) for _ in range(STEPS)]
ours = copy.deepcopy(plain)
engine, *_ = deepspeed.initialize(
    model=ours,
    model_parameters=ours.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 4,
        "zero_optimization": {"stage": stage},
        "gradient_clipping": 0.0,
        "optimizer": {"type": "Adam", "params": {"lr": 1e-2, "weight_decay": 0, "torch_adam": True}},
    },
)
alone = torch.optim.AdamW(plain.parameters(), lr=1e-2, weight_decay=0)
for x, y in batches:
    own = slice(4 * rank, 4 * rank + 4)
    loss = torch.nn.functional.mse_loss(engine(x[own].to(engine.device)), y[own].to(engine.device))
    engine.backward(loss)
    engine.step()
    # The same in one process.
    torch.nn.functional.mse_loss(plain(x), y).backward()
    alone.step()
    alone.zero_grad()
with deepspeed.zero.GatheredParameters(list(engine.module.parameters())):
    for one, other in zip(engine.module.parameters(), plain.parameters()):
        torch.testing.assert_close(one.detach().cpu(), other, rtol=1e-4, atol=1e-5)
if rank == 0:
    print(f"DeepSpeed, stage {stage}: as in one process")
torch.distributed.destroy_process_group()
