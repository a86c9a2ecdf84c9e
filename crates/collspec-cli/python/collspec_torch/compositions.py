"""Operations that have no kernel for the CPU, made of others that have."""

import math

import torch


def _wide(tensor):
    """Kernels for CUDA compute half precision in single precision."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


# Batch normalisation over several processes (torch.nn.SyncBatchNorm). The channels are dimension 1.


def _over_channels(values, input):
    return values.reshape([1, -1] + [1] * (input.dim() - 2))


def _all_but_channels(input):
    return [0, *range(2, input.dim())]


def _batch_norm_stats(input, eps):
    wide = _wide(input)
    variance, mean = torch.var_mean(wide, _all_but_channels(input), correction=0)
    return mean, torch.rsqrt(variance + eps)


def _batch_norm_elemt(input, weight, bias, mean, invstd, eps):
    result = (_wide(input) - _over_channels(mean, input)) * _over_channels(invstd, input)
    if weight is not None:
        result = result * _over_channels(weight, input)
    if bias is not None:
        result = result + _over_channels(bias, input)
    return result.to(input.dtype)


def _batch_norm_gather_stats(input, mean, invstd, running_mean, running_var, momentum, eps, count):
    counts = torch.full([mean.size(0)], float(count), dtype=mean.dtype, device=mean.device)
    return _batch_norm_gather_stats_with_counts(input, mean, invstd, running_mean, running_var, momentum, eps, counts)


def _batch_norm_gather_stats_with_counts(input, mean, invstd, running_mean, running_var, momentum, eps, counts):
    counts = counts.to(mean.dtype).reshape(-1, 1)
    total = counts.sum()
    all_mean = (counts * mean).sum(0) / total
    variance = (counts * (invstd.square().reciprocal() - eps + (mean - all_mean).square())).sum(0) / total
    if running_mean is not None:
        running_mean.lerp_(all_mean.to(running_mean.dtype), momentum)
    if running_var is not None:
        running_var.lerp_((variance * total / (total - 1)).to(running_var.dtype), momentum)
    return all_mean, torch.rsqrt(variance + eps)


def _batch_norm_backward_reduce(grad_out, input, mean, invstd, weight, input_g, weight_g, bias_g):
    grad, dims = _wide(grad_out), _all_but_channels(input)
    sum_dy = grad.sum(dims)
    sum_dy_xmu = (grad * (_wide(input) - _over_channels(mean, input))).sum(dims)
    kind = grad.dtype if weight is None else weight.dtype
    return (
        sum_dy if input_g else None,
        sum_dy_xmu if input_g else None,
        (sum_dy_xmu * invstd).to(kind) if weight_g else None,
        sum_dy.to(kind) if bias_g else None,
    )


def _batch_norm_backward_elemt(grad_out, input, mean, invstd, weight, sum_dy, sum_dy_xmu, count):
    total = count.sum()
    of_mean = _over_channels(sum_dy / total, input)
    of_variance = _over_channels(invstd.square() * sum_dy_xmu / total, input)
    scale = invstd if weight is None else invstd * weight
    grad = _wide(grad_out) - of_mean - (_wide(input) - _over_channels(mean, input)) * of_variance
    return (grad * _over_channels(scale, input)).to(input.dtype)


def _rms_norm_backward(grad_out, input, normalized_shape, rstd, weight, output_mask):
    dims = list(range(input.dim() - len(normalized_shape), input.dim()))
    grad, normal = _wide(grad_out), _wide(input) * rstd
    weighted = grad if weight is None else grad * _wide(weight)
    grad_input = rstd * (weighted - normal * (weighted * normal).mean(dims, keepdim=True))
    grad_weight = None
    if output_mask[1] and weight is not None:
        others = list(range(input.dim() - len(normalized_shape)))
        grad_weight = ((grad * normal).sum(others) if others else grad * normal).to(weight.dtype)
    return grad_input.to(input.dtype) if output_mask[0] else None, grad_weight


# Cells of recurrent networks.


def _gates(input_gates, hidden_gates, input_bias, hidden_bias):
    if input_bias is not None:
        input_gates, hidden_gates = input_gates + input_bias, hidden_gates + hidden_bias
    return input_gates, hidden_gates


def _lstm_cell(input_gates, hidden_gates, cx, input_bias=None, hidden_bias=None):
    input_gates, hidden_gates = _gates(input_gates, hidden_gates, input_bias, hidden_bias)
    into, forget, cell, out = (input_gates + hidden_gates).chunk(4, 1)
    into, forget, cell, out = into.sigmoid(), forget.sigmoid(), cell.tanh(), out.sigmoid()
    cy = forget * cx + into * cell
    return out * cy.tanh(), cy, torch.cat([into, forget, cell, out], 1)


def _lstm_cell_backward(grad_hy, grad_cy, cx, cy, workspace, has_bias):
    into, forget, cell, out = workspace.chunk(4, 1)
    tanh = cy.tanh()
    grad_hy = torch.zeros_like(cy) if grad_hy is None else grad_hy
    grad = grad_hy * out * (1 - tanh * tanh)
    if grad_cy is not None:
        grad = grad + grad_cy
    gates = torch.cat(
        [
            grad * cell * into * (1 - into),
            grad * cx * forget * (1 - forget),
            grad * into * (1 - cell * cell),
            grad_hy * tanh * out * (1 - out),
        ],
        1,
    )
    return gates, grad * forget, gates.sum(0) if has_bias else None


def _gru_cell(input_gates, hidden_gates, hx, input_bias=None, hidden_bias=None):
    input_gates, hidden_gates = _gates(input_gates, hidden_gates, input_bias, hidden_bias)
    (i_reset, i_update, i_new), (h_reset, h_update, h_new) = input_gates.chunk(3, 1), hidden_gates.chunk(3, 1)
    reset, update = (i_reset + h_reset).sigmoid(), (i_update + h_update).sigmoid()
    new = (i_new + reset * h_new).tanh()
    return new + update * (hx - new), torch.cat([reset, update, new, hx, h_new], 1)


def _gru_cell_backward(grad_hy, workspace, has_bias):
    reset, update, new, hx, h_new = workspace.chunk(5, 1)
    of_new = grad_hy * (1 - update) * (1 - new * new)
    of_update = grad_hy * (hx - new) * update * (1 - update)
    of_reset = of_new * h_new * reset * (1 - reset)
    grad_input = torch.cat([of_reset, of_update, of_new], 1)
    grad_hidden = torch.cat([of_reset, of_update, of_new * reset], 1)
    biases = (grad_input.sum(0), grad_hidden.sum(0)) if has_bias else (None, None)
    return grad_input, grad_hidden, grad_hy * update, *biases


# Attention in one operation, which distributed tensors know how to split. They want the seed with which the gradient draws the same dropout again
# as a single number; a captured one cannot be read, and what it has kept takes its place.


def _kept(weights, seed, dropout):
    if seed.dim() > 0:
        return seed
    drawn = torch.empty(weights.shape).bernoulli_(1 - dropout, generator=torch.Generator().manual_seed(int(seed)))
    return drawn.to(weights.device)


def _seed(weights, dropout):
    if dropout > 0 and torch.cuda.is_current_stream_capturing():
        return torch.empty_like(weights).bernoulli_(1 - dropout)
    return torch.randint(2**62, (), device=weights.device) if dropout > 0 else torch.zeros((), device=weights.device)


def _weights(query, key, bias, is_causal, scale):
    scores = _wide(query) @ _wide(key).transpose(-2, -1) * scale
    if bias is not None:
        scores = scores + bias
    if is_causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    sums = scores.logsumexp(-1)
    # A row without any element that counts is zero.
    return torch.where(sums.unsqueeze(-1) == -math.inf, 0.0, scores.softmax(-1)), sums


def _scale(query, scale):
    return query.size(-1) ** -0.5 if scale is None else scale


def _attention(query, key, value, bias, _sums, dropout=0.0, is_causal=False, *, scale=None):
    weights, sums = _weights(query, key, bias, is_causal, _scale(query, scale))
    seed = _seed(weights, dropout)
    if dropout > 0:
        weights = weights * _kept(weights, seed, dropout) / (1 - dropout)
    offset = torch.zeros((), dtype=torch.int64, device=query.device)
    # Programs rely on the strides: heads are next to each other at each place of a sequence.
    result = torch.empty(query.size(0), query.size(2), query.size(1), value.size(3), dtype=query.dtype, device=query.device)
    result = result.transpose(1, 2)
    return result.copy_(weights @ _wide(value)), sums, seed, offset


def _attention_backward(
    grad, query, key, value, bias, _out, _sums, seed, _offset, dropout, wanted, is_causal=False, *, scale=None
):
    scale = _scale(query, scale)
    weights, _ = _weights(query, key, bias, is_causal, scale)
    wide = _wide(grad)
    through = _kept(weights, seed, dropout) / (1 - dropout) if dropout > 0 else 1.0
    grad_value = (weights * through).transpose(-2, -1) @ wide
    of_weights = wide @ _wide(value).transpose(-2, -1) * through
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True))
    grad_bias = of_scores.sum_to_size(bias.shape).to(bias.dtype) if bias is not None and wanted[3] else None
    grad_query = of_scores @ _wide(key) * scale
    grad_key = of_scores.transpose(-2, -1) @ _wide(query) * scale
    return grad_query.to(query.dtype), grad_key.to(key.dtype), grad_value.to(value.dtype), grad_bias


def _in_type(operation):
    """A matrix product that names the type of its result."""

    def run(*arguments, **scales):
        *tensors, dtype = arguments
        return operation(*[tensor.to(dtype) for tensor in tensors], **scales)

    return run


def _into(operation):
    """An operation that writes its result to `out`."""

    def run(*arguments, out, **scales):
        result = operation(*arguments, **scales)
        return out.resize_(result.size()).copy_(result)

    return run


def _no(*_):
    return False


# Softmax from half to single precision, which is one kernel for CUDA: `softmax(x, dtype=torch.float32)`.


def _widened(kernel):
    def run(input, dim, half_to_float, **out):
        return kernel(input.float() if half_to_float else input, dim, False, **out)

    return run


def _narrowed(backward):
    """Around the kernel for its gradient, which has the type of the input."""

    def around(kernel):
        def run(grad, output, dim, input_dtype, **out):
            if grad.dtype == input_dtype:
                return kernel(grad, output, dim, input_dtype, **out)
            result = backward(grad, output, dim, grad.dtype).to(input_dtype)
            for place in out.values():
                place.resize_(result.size()).copy_(result)
                return place
            return result

        return run

    return around


# By name: what stands around an operation's own kernel.
AROUND = {}
for name, backward in (
    ("softmax", torch._softmax_backward_data),
    ("log_softmax", torch._log_softmax_backward_data),
):
    for overload in ("", ".out"):
        AROUND[f"aten::_{name}{overload}"] = _widened
        AROUND[f"aten::_{name}_backward_data{overload}"] = _narrowed(backward)


TABLE = {
    "aten::batch_norm_stats": _batch_norm_stats,
    "aten::batch_norm_elemt": _batch_norm_elemt,
    "aten::batch_norm_gather_stats": _batch_norm_gather_stats,
    "aten::batch_norm_gather_stats_with_counts": _batch_norm_gather_stats_with_counts,
    "aten::batch_norm_backward_reduce": _batch_norm_backward_reduce,
    "aten::batch_norm_backward_elemt": _batch_norm_backward_elemt,
    "aten::_fused_rms_norm_backward": _rms_norm_backward,
    "aten::_scaled_dot_product_efficient_attention": _attention,
    "aten::_scaled_dot_product_efficient_attention_backward": _attention_backward,
    "aten::_thnn_fused_lstm_cell": _lstm_cell,
    "aten::_thnn_fused_lstm_cell_backward_impl": _lstm_cell_backward,
    "aten::_thnn_fused_gru_cell": _gru_cell,
    "aten::_thnn_fused_gru_cell_backward": _gru_cell_backward,
    # Whether other libraries have kernels for these arguments.
    "aten::_use_cudnn_ctc_loss": _no,
    "aten::_use_cudnn_ctc_loss.Tensor": _no,
    "aten::_use_miopen_ctc_loss": _no,
    "aten::_use_miopen_ctc_loss.Tensor": _no,
}
for product in (torch.mm, torch.bmm, torch.addmm, torch.baddbmm):
    TABLE[f"aten::{product.__name__}.dtype"] = _in_type(product)
    TABLE[f"aten::{product.__name__}.dtype_out"] = _into(_in_type(product))
TABLE["aten::batch_norm_elemt.out"] = _into(_batch_norm_elemt)
