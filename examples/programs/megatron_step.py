"""Megatron-Core, a small GPT with tensor and pipeline parallelism: TP=2 PP=2 torchrun --nproc-per-node 4 megatron_step.py"""

import math
import os

import torch
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.distributed.finalize_model_grads import finalize_model_grads
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.pipeline_parallel.schedules import get_forward_backward_func
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer.transformer_config import TransformerConfig

WORDS, LENGTH, BATCH = 128, 32, 2
tensor, pipeline = int(os.environ["TP"]), int(os.environ["PP"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.distributed.init_process_group("nccl")
parallel_state.initialize_model_parallel(tensor, pipeline)
model_parallel_cuda_manual_seed(123)
config = TransformerConfig(
    num_layers=2,
    hidden_size=16,
    num_attention_heads=4,
    tensor_model_parallel_size=tensor,
    pipeline_model_parallel_size=pipeline,
    pipeline_dtype=torch.float32,
    use_cpu_initialization=True,
    gradient_accumulation_fusion=False,
    hidden_dropout=0.0,
    attention_dropout=0.0,
)
model = GPTModel(
    config=config,
    transformer_layer_spec=get_gpt_layer_local_spec(),
    vocab_size=WORDS,
    max_sequence_length=LENGTH,
    pre_process=parallel_state.is_pipeline_first_stage(),
    post_process=parallel_state.is_pipeline_last_stage(),
).cuda()
model = DistributedDataParallel(config, DistributedDataParallelConfig(), model)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
generator = torch.Generator().manual_seed(parallel_state.get_data_parallel_rank())
text = torch.randint(0, WORDS, (BATCH, LENGTH + 1), generator=generator)


def batches():
    while True:
        yield {
            "input_ids": text[:, :-1].cuda(),
            "labels": text[:, 1:].cuda(),
            "position_ids": torch.arange(LENGTH).repeat(BATCH, 1).cuda(),
            "attention_mask": torch.ones(BATCH, 1, LENGTH, LENGTH).triu(1).bool().cuda(),
        }


def forward(data, model):
    return model(**next(data)), lambda output: (output.float().mean(), {"loss": output.float().mean()})


losses, data = [], batches()
for _ in range(4):
    optimizer.zero_grad()
    model.zero_grad_buffer()
    made = get_forward_backward_func()(
        forward_step_func=forward,
        data_iterator=data,
        model=model,
        num_microbatches=2,
        seq_length=LENGTH,
        micro_batch_size=BATCH,
        forward_only=False,
    )
    finalize_model_grads([model])
    for parameter in model.parameters():
        parameter.grad = parameter.main_grad
    optimizer.step()
    losses += [one["loss"].item() for one in made or []]
# It learns its text by heart, and the ranks of a tensor-parallel group compute one loss.
if losses:
    assert all(map(math.isfinite, losses)) and losses[-1] < losses[0], losses
    alike = [None] * tensor
    torch.distributed.all_gather_object(alike, losses, group=parallel_state.get_tensor_model_parallel_group())
    assert alike == [losses] * tensor, alike
    if parallel_state.get_tensor_model_parallel_rank() == 0:
        print(f"Megatron-Core, TP {tensor}, PP {pipeline}: the loss goes from {losses[0]:.4f} to {losses[-1]:.4f}")
torch.distributed.destroy_process_group()
