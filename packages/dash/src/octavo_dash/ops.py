"""The operators `octavo_dash::attention` and `octavo_dash::attention_backward` of `torch.library`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from octavo_dash.kernels import cpu
from octavo_dash.longest_path import Costs
from octavo_dash.planner import plan
from octavo_dash.problem import HEAD_DIMS, Problem

CPU_WORKERS = 64
"""Workers that schedules for a CPU are made for: a thread serves several of them. A constant, so that the order of
additions does not depend on the number of threads."""


def check_inputs(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Refuses tensors that the kernels would misread.

    Raises:
        TypeError: Different dtypes, or one that is not supported.
        ValueError: Different devices, head dimensions or lengths, or heads that do not divide.
        NotImplementedError: A head dimension that there is no kernel for.
    """
    if not q.dtype == k.dtype == v.dtype:
        raise TypeError(f"q, k and v must have one dtype; got {q.dtype}, {k.dtype} and {v.dtype}")
    supported = (torch.float16, torch.bfloat16, torch.float32, *(() if q.is_cuda else (torch.float64,)))
    if q.dtype not in supported:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in supported)
        raise TypeError(f"q, k and v must be one of {names} on {q.device.type}; got {q.dtype}")
    if not q.device == k.device == v.device:
        raise ValueError(f"q, k and v must be on one device; got {q.device}, {k.device} and {v.device}")
    if not q.shape[-1] == k.shape[-1] == v.shape[-1]:
        raise ValueError(f"q, k and v must have one head_dim; got {q.shape[-1]}, {k.shape[-1]} and {v.shape[-1]}")
    if q.shape[-1] not in HEAD_DIMS:
        raise NotImplementedError(f"head_dim must be one of {', '.join(map(str, HEAD_DIMS))}; got {q.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"k and v must have one number of heads; got {k.shape[-2]} and {v.shape[-2]}")
    if k.shape[-2] == 0 or q.shape[-2] % k.shape[-2]:
        raise ValueError(f"heads of q must be a multiple of those of k; got {q.shape[-2]} and {k.shape[-2]}")


def problem_of(
    q: Tensor,
    k: Tensor,
    cu_seqlens_q: Tensor | None,
    cu_seqlens_k: Tensor | None,
    batch: int,
    window: Sequence[int],
) -> Problem:
    """What there is to schedule for packed tensors on their device, with the tile sizes that suit it.

    Raises:
        ValueError: Offsets that do not start at 0, decrease, or do not end at the number of tokens.
    """
    seqlens_q = _lengths("cu_seqlens_q", cu_seqlens_q, batch, q.shape[0])
    seqlens_k = _lengths("cu_seqlens_k", cu_seqlens_k, batch, k.shape[0])
    if len(seqlens_q) != len(seqlens_k):
        raise ValueError(
            f"cu_seqlens_q and cu_seqlens_k must name the same sequences; got {len(seqlens_q)} and {len(seqlens_k)}"
        )
    block_m, block_n, num_sms = cpu.BLOCK_M, cpu.BLOCK_N, CPU_WORKERS
    if q.is_cuda:
        from octavo_dash.kernels.triton import tile_sizes

        properties = torch.cuda.get_device_properties(q.device)
        capability = 10 * properties.major + properties.minor
        block_m, block_n = tile_sizes(q.shape[-1], window[1] == 0, q.element_size(), capability)
        num_sms = properties.multi_processor_count
    return Problem(
        seqlens_q,
        seqlens_k,
        num_heads=q.shape[1],
        num_heads_kv=k.shape[1],
        window=(window[0], window[1]),
        block_m=block_m,
        block_n=block_n,
        num_sms=num_sms,
    )


def _lengths(name: str, cu_seqlens: Tensor | None, batch: int, tokens: int) -> tuple[int, ...]:
    if cu_seqlens is None:
        return (tokens // batch,) * batch if batch else ()
    offsets = cu_seqlens.tolist()
    if not offsets or offsets[0] != 0:
        raise ValueError(f"{name} must start with 0; got {offsets[:1]}")
    lengths = tuple(end - start for start, end in pairwise(offsets))
    if any(length < 0 for length in lengths):
        where = next(i for i, length in enumerate(lengths) if length < 0)
        raise ValueError(f"{name} must not decrease; got {offsets[where]} before {offsets[where + 1]}")
    if offsets[-1] != tokens:
        raise ValueError(f"{name} must end with the number of tokens, {tokens}; got {offsets[-1]}")
    return lengths


_SETTINGS = (
    "Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, SymInt batch, float softmax_scale, SymInt[] window, "
    "bool deterministic, str schedule, str order, float[] costs"
)


@torch.library.custom_op(
    "octavo_dash::attention",
    mutates_args=(),
    schema=f"(Tensor q, Tensor k, Tensor v, {_SETTINGS}) -> (Tensor, Tensor)",
)
def attention_op(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor | None,
    cu_seqlens_k: Tensor | None,
    batch: int,
    softmax_scale: float,
    window: Sequence[int],
    deterministic: bool,
    schedule: str,
    order: str,
    costs: Sequence[float],
) -> tuple[Tensor, Tensor]:
    """softmax(scale · Q Kᵀ) V over packed sequences.

    Args:
        q: Queries `[total_q, heads, head_dim]`.
        k: Keys `[total_k, heads_kv, head_dim]`.
        v: Values, like the keys.
        cu_seqlens_q: Where each sequence starts in `q`, int32 `[batch + 1]`; `None` for `batch` equal lengths.
        cu_seqlens_k: The same for `k` and `v`.
        batch: Number of sequences where offsets are not given.
        softmax_scale: Factor of the scores.
        window: Keys to the left and right of the diagonal that a query sees, -1 for all.
        deterministic: Whether the backward pass adds in the order of a schedule, or as it comes.
        schedule: The schedule of the backward pass, or `"auto"`.
        order: `"canonical"` or `"wave"`; see `make_schedule`.
        costs: c, r and ℓ, from which `"auto"` chooses.

    Returns:
        The output, like `q`; and for each head and query the logarithm of the sum of exponentials, `[heads, total_q]`
        in float32 (float64 for float64).
    """
    check_inputs(q, k, v)
    problem = problem_of(q, k, cu_seqlens_q, cu_seqlens_k, batch, window)
    if deterministic:
        plan(problem, schedule, order, Costs(*costs))  # type: ignore[arg-type]  # fails before any work is done
    if q.is_cuda:
        from octavo_dash.kernels import triton

        return triton.forward(q.contiguous(), k.contiguous(), v.contiguous(), problem, softmax_scale)
    return cpu.forward(q, k, v, problem, softmax_scale)


@attention_op.register_fake
def _attention_fake(q: Tensor, k: Tensor, v: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
    check_inputs(q, k, v)
    dtype = torch.promote_types(q.dtype, torch.float32)
    return torch.empty_like(q, memory_format=torch.contiguous_format), q.new_empty(q.shape[1], q.shape[0], dtype=dtype)


@torch.library.custom_op(
    "octavo_dash::attention_backward",
    mutates_args=(),
    schema="(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor? dlse, "
    f"{_SETTINGS}) -> (Tensor, Tensor, Tensor)",
)
def attention_backward_op(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    dlse: Tensor | None,
    cu_seqlens_q: Tensor | None,
    cu_seqlens_k: Tensor | None,
    batch: int,
    softmax_scale: float,
    window: Sequence[int],
    deterministic: bool,
    schedule: str,
    order: str,
    costs: Sequence[float],
) -> tuple[Tensor, Tensor, Tensor]:
    """dQ, dK and dV for gradients of both results of `attention`, whose other arguments these are.

    Additions are made in the order of the schedule, or as they come where `deterministic` is off.
    """
    problem = problem_of(q, k, cu_seqlens_q, cu_seqlens_k, batch, window)
    table = plan(problem, schedule if deterministic else "descending", order, Costs(*costs))  # type: ignore[arg-type]
    if q.is_cuda:
        from octavo_dash.kernels import triton

        dout, q, k, v = (x.contiguous() for x in (dout, q, k, v))
        gradients = triton.backward(
            dout, q, k, v, out, lse, table, softmax_scale, dlse=dlse, deterministic=deterministic
        )
    else:
        gradients = cpu.backward(dout, q, k, v, out, lse, table, softmax_scale, dlse=dlse, deterministic=deterministic)
    return tuple(gradients)  # type: ignore[return-value]


@attention_backward_op.register_fake
def _attention_backward_fake(dout: Tensor, q: Tensor, k: Tensor, v: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, cu_seqlens_q, cu_seqlens_k, *ctx.settings = inputs
    ctx.save_for_backward(q, k, v, *output, cu_seqlens_q, cu_seqlens_k)
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, dout: Tensor | None, dlse: Tensor | None) -> tuple[Tensor | None, ...]:
    q, k, v, out, lse, cu_seqlens_q, cu_seqlens_k = ctx.saved_tensors
    nothing = (None,) * (2 + len(ctx.settings))
    if dout is None and dlse is None:
        return (None, None, None, *nothing)
    dout = torch.zeros_like(out) if dout is None else dout
    gradients = attention_backward_op(dout, q, k, v, out, lse, dlse, cu_seqlens_q, cu_seqlens_k, *ctx.settings)
    return (*gradients, *nothing)


attention_op.register_autograd(_differentiate, setup_context=_keep)
