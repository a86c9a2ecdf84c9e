"""Parallel training on several ranks gives what one process gives.

    collspec gpu -- torchrun --nproc-per-node 4 distributed.py [NAME...]

Each check trains the same model twice, in parallel on CUDA tensors and whole on the CPU, and compares parameters or results. Every rank
prints a line for each check; the exit code is 1 if a check fails on any rank.
"""

import copy
import inspect
import os
import sys
import traceback

import torch
import torch.distributed as dist
from torch import nn

STEPS = 5
BATCH = 4


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 2))


def data(rows):
    torch.manual_seed(1)
    return torch.randn(rows, 8), torch.randn(rows, 2)


def trained_alone(whole, rows, optimiser=torch.optim.SGD, loss=nn.functional.mse_loss, rate=0.1):
    """The parameters after training on all rows in one process, on the CPU."""
    alone = copy.deepcopy(whole)
    optimiser = optimiser(alone.parameters(), lr=rate)
    x, y = data(rows)
    for _ in range(STEPS):
        optimiser.zero_grad()
        loss(alone(x), y).backward()
        optimiser.step()
    return dict(alone.named_parameters())


def own_rows(rank, ranks):
    x, y = data(BATCH * ranks)
    part = slice(BATCH * rank, BATCH * (rank + 1))
    return x[part].cuda(), y[part].cuda()


def train(parallel, optimiser, rank, ranks):
    x, y = own_rows(rank, ranks)
    for _ in range(STEPS):
        optimiser.zero_grad()
        nn.functional.mse_loss(parallel(x), y).backward()
        optimiser.step()


def difference(parameters, expected):
    pairs = [(value, expected[name]) for name, value in parameters]
    assert pairs, "nothing was compared"
    return max((value.detach().cpu() - other.detach()).abs().max().item() for value, other in pairs)


def ddp(rank, ranks):
    whole = model()
    parallel = nn.parallel.DistributedDataParallel(copy.deepcopy(whole).cuda(), device_ids=[rank])
    train(parallel, torch.optim.SGD(parallel.parameters(), lr=0.1), rank, ranks)
    return difference(parallel.module.named_parameters(), trained_alone(whole, BATCH * ranks))


def ddp_with_static_graph_and_accumulation(rank, ranks):
    whole = model()
    parallel = nn.parallel.DistributedDataParallel(copy.deepcopy(whole).cuda(), device_ids=[rank], gradient_as_bucket_view=True)
    optimiser = torch.optim.SGD(parallel.parameters(), lr=0.1)
    x, y = own_rows(rank, ranks)
    for _ in range(STEPS):
        optimiser.zero_grad()
        half = BATCH // 2
        with parallel.no_sync():
            (nn.functional.mse_loss(parallel(x[:half]), y[:half]) / 2).backward()
        (nn.functional.mse_loss(parallel(x[half:]), y[half:]) / 2).backward()
        optimiser.step()
    return difference(parallel.module.named_parameters(), trained_alone(whole, BATCH * ranks))


def fsdp2(rank, ranks):
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:  # before 2.6
        from torch.distributed._composable.fsdp import fully_shard

    whole = model()
    parallel = copy.deepcopy(whole).cuda()
    for layer in parallel:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(parallel)
    train(parallel, torch.optim.AdamW(parallel.parameters(), lr=0.01), rank, ranks)
    full = [(name, value.full_tensor()) for name, value in parallel.named_parameters()]
    return difference(full, trained_alone(whole, BATCH * ranks, torch.optim.AdamW, rate=0.01))


def fsdp1(rank, ranks):
    from torch.distributed.fsdp import FullyShardedDataParallel

    whole = model()
    parallel = FullyShardedDataParallel(copy.deepcopy(whole).cuda(), device_id=rank, use_orig_params=True)
    train(parallel, torch.optim.SGD(parallel.parameters(), lr=0.1), rank, ranks)
    with FullyShardedDataParallel.summon_full_params(parallel):
        full = [(name, value.clone()) for name, value in parallel.module.named_parameters()]
    return difference(full, trained_alone(whole, BATCH * ranks))


def zero_redundancy(rank, ranks):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    whole = model()
    parallel = nn.parallel.DistributedDataParallel(copy.deepcopy(whole).cuda(), device_ids=[rank])
    optimiser = ZeroRedundancyOptimizer(parallel.parameters(), torch.optim.Adam, lr=0.01)
    train(parallel, optimiser, rank, ranks)
    return difference(parallel.module.named_parameters(), trained_alone(whole, BATCH * ranks, torch.optim.Adam, rate=0.01))


def tensor_parallel(rank, ranks):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    torch.manual_seed(0)
    whole = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    mesh = init_device_mesh("cuda", (ranks,))
    parallel = parallelize_module(copy.deepcopy(whole).cuda(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    optimiser = torch.optim.SGD(parallel.parameters(), lr=0.1)
    x, y = data(BATCH)
    for _ in range(STEPS):
        optimiser.zero_grad()
        nn.functional.mse_loss(parallel(x.cuda()), y.cuda()).backward()
        optimiser.step()
    full = [(name, value.full_tensor()) for name, value in parallel.named_parameters()]
    return difference(full, trained_alone(whole, BATCH))


def pipeline_1f1b(rank, ranks):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    torch.manual_seed(0)
    whole = nn.Sequential(*[nn.Linear(8, 8) for _ in range(ranks)])
    own = copy.deepcopy(whole[rank]).cuda()
    # Versions before 2.6 do not infer the shape of a part.
    stage = PipelineStage(own, rank, ranks, torch.device("cuda", rank), input_args=(torch.zeros(2, 8, device="cuda"),))
    schedule = Schedule1F1B(stage, 2 * ranks, loss_fn=nn.functional.mse_loss)
    torch.manual_seed(1)
    x, y = torch.randn(4 * ranks, 8), torch.randn(4 * ranks, 8)
    if ranks == 1:
        return 0.0
    if rank == 0:
        schedule.step(x.cuda())
    elif rank == ranks - 1:
        schedule.step(target=y.cuda(), losses=[])
    else:
        schedule.step()
    if "scale_grads" not in inspect.signature(Schedule1F1B).parameters:  # before 2.6
        own.weight.grad /= 2 * ranks
    nn.functional.mse_loss(whole(x), y).backward()
    return (own.weight.grad.cpu() - whole[rank].weight.grad).abs().max().item()


def mixture_of_experts(rank, ranks):
    """Rows go to the rank of their expert and come back: all_to_all with uneven counts."""
    torch.manual_seed(rank)
    x = torch.randn(6, 8, device="cuda", requires_grad=True)
    expert = torch.randint(0, ranks, (6,), device="cuda")
    order = torch.argsort(expert, stable=True)
    counts = torch.bincount(expert, minlength=ranks)
    received = torch.empty_like(counts)
    dist.all_to_all_single(received, counts)
    from torch.distributed.nn.functional import all_to_all_single

    there = torch.empty(int(received.sum()), 8, device="cuda")
    there = all_to_all_single(there, x[order].contiguous(), received.tolist(), counts.tolist())
    there = there * (rank + 1)
    back = all_to_all_single(torch.empty_like(x), there.contiguous(), counts.tolist(), received.tolist())
    expected = x[order] * (expert[order] + 1).unsqueeze(1)
    back.sum().backward()
    of_gradient = (x.grad - (expert + 1).unsqueeze(1).expand_as(x)).abs().max().item()
    return max((back - expected).abs().max().item(), of_gradient)


def sync_batch_norm(rank, ranks):
    torch.manual_seed(0)
    whole = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 2))
    parallel = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(whole)).cuda()
    parallel = nn.parallel.DistributedDataParallel(parallel, device_ids=[rank])
    torch.manual_seed(1)
    x = torch.randn(BATCH * ranks, 3, 5, 5)
    part = slice(BATCH * rank, BATCH * (rank + 1))
    optimisers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (whole, parallel)]
    for _ in range(STEPS):
        for each, rows, optimiser in zip((whole, parallel), (x, x[part].cuda()), optimisers):
            optimiser.zero_grad()
            each(rows).square().mean().backward()
            optimiser.step()
    expected = dict(whole.named_parameters()) | {name: value.float() for name, value in whole.named_buffers()}
    found = [*parallel.module.named_parameters(), *((name, value.float()) for name, value in parallel.module.named_buffers())]
    return difference(found, expected)


def autocast(rank, ranks):
    """In half precision, so only the scale of the gradients and the type are compared, and that all ranks agree."""
    parallel = nn.parallel.DistributedDataParallel(model().cuda(), device_ids=[rank])
    optimiser = torch.optim.SGD(parallel.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    x, y = own_rows(rank, ranks)
    for _ in range(STEPS):
        optimiser.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            result = parallel(x)
            assert result.dtype is torch.float16
            loss = nn.functional.mse_loss(result.float(), y)
        scaler.scale(loss).backward()
        scaler.step(optimiser)
        scaler.update()
    found = torch.cat([value.detach().flatten() for value in parallel.parameters()])
    others = [torch.empty_like(found) for _ in range(ranks)]
    dist.all_gather(others, found)
    return max((other - found).abs().max().item() for other in others)


def graph(rank, ranks):
    """A step with its all_reduce, captured once and launched for each batch."""
    whole = model()
    own = copy.deepcopy(whole).cuda()
    x, y = own_rows(rank, ranks)
    given_x, given_y = torch.zeros_like(x), torch.zeros_like(y)

    def step():
        for value in own.parameters():
            value.grad = None
        nn.functional.mse_loss(own(given_x), given_y).backward()
        for value in own.parameters():
            dist.all_reduce(value.grad)
            with torch.no_grad():
                value.sub_(value.grad, alpha=0.1 / ranks)

    dist.all_reduce(torch.zeros(1, device="cuda"))
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        step()
    given_x.copy_(x)
    given_y.copy_(y)
    for _ in range(STEPS):
        captured.replay()
    torch.cuda.synchronize()
    return difference(own.named_parameters(), trained_alone(whole, BATCH * ranks))


def memory_that_is_used_again(rank, ranks):
    """Tensors are freed while their collectives are outstanding, and others get their memory."""
    works, worst = [], 0.0
    for round in range(50):
        value = torch.full((1000,), float(rank + round), device="cuda")
        works.append((dist.all_reduce(value, async_op=True), value if round % 2 else None, round))
        del value
        torch.full((1000,), -1.0, device="cuda")
    for work, value, round in works:
        work.wait()
        if value is not None:
            expected = ranks * round + ranks * (ranks - 1) / 2
            worst = max(worst, (value - expected).abs().max().item())
    return worst


def objects(rank, ranks):
    found = [None] * ranks
    dist.all_gather_object(found, {"rank": rank, "tensor": torch.full((2,), float(rank), device="cuda")})
    assert [each["rank"] for each in found] == list(range(ranks))
    return max((each["tensor"].cpu() - each["rank"]).abs().max().item() for each in found)


CHECKS = [
    ddp,
    ddp_with_static_graph_and_accumulation,
    fsdp2,
    fsdp1,
    zero_redundancy,
    tensor_parallel,
    pipeline_1f1b,
    mixture_of_experts,
    sync_batch_norm,
    autocast,
    graph,
    memory_that_is_used_again,
    objects,
]


def say(line):
    # At once, because the ranks share the output.
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main():
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    failed = 0
    for check in CHECKS:
        if len(sys.argv) > 1 and check.__name__ not in sys.argv[1:]:
            continue
        try:
            found = check(rank, ranks)
            verdict = "ok" if found < 1e-5 else "DIFFERS"
            say(f"rank {rank} of {ranks}: {check.__name__}: {verdict}, difference {found:.2e}")
            failed += verdict != "ok"
        except Exception:
            traceback.print_exc()
            say(f"rank {rank} of {ranks}: {check.__name__}: FAILED")
            failed += 1
    dist.destroy_process_group()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
