"""Attention with a reproducible backward pass, for batches of equal lengths and for packed sequences."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from octavo_dash.build import Order
from octavo_dash.longest_path import Costs
from octavo_dash.ops import attention_op
from octavo_dash.problem import UNBOUNDED, causal_window
from octavo_shared.arrays import Float, Int32

Layout = Literal["blhd", "bhld"]


def attention(
    q: Float[Tensor, "batch a b head_dim"],
    k: Float[Tensor, "batch c d head_dim"],
    v: Float[Tensor, "batch c d head_dim"],
    *,
    causal: bool = False,
    softmax_scale: float | None = None,
    window_size: tuple[int, int] = (UNBOUNDED, UNBOUNDED),
    deterministic: bool = True,
    schedule: str = "auto",
    order: Order = "canonical",
    layout: Layout = "blhd",
    costs: Costs | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """softmax(scale · Q Kᵀ) V, whose gradients are the same bits in every run.

    For fixed inputs, dtypes, shapes, mask, schedule, order, costs, tile sizes, compiled kernel and processor model,
    dQ, dK and dV are bit-equal in every run, on every stream and for every number of threads. They may differ between
    schedules, tile sizes and processors. Under `order="canonical"` they do not depend on the other sequences of the
    batch either.

    Args:
        q: Queries, `[batch, seqlen_q, heads, head_dim]` for layout `"blhd"`, `[batch, heads, seqlen_q, head_dim]` for
            `"bhld"`. float16, bfloat16, float32, or float64 on a CPU.
        k: Keys, with `heads_kv` heads, a divisor of `heads` (grouped-query attention).
        v: Values, like the keys.
        causal: Whether a query sees no key beyond its diagonal position. The mask is aligned to the bottom right:
            query i is at key position `i + seqlen_k - seqlen_q`.
        softmax_scale: Factor of the scores; 1/√head_dim by default.
        window_size: Keys to the left and to the right of its position that a query sees; -1 for all.
        deterministic: Whether the backward pass adds contributions in the order of a schedule. Otherwise it adds them
            as they are completed, which is what attention kernels do by default.
        schedule: `"auto"`, or one of `ascending`, `descending`, `shift`, `symmetric_shift`, `spt`.
        order: What the order of additions may depend on; see `make_schedule`.
        layout: How the dimensions of the tensors are laid out.
        costs: Costs from which `"auto"` chooses; the defaults of `Costs` if not given. See `octavo-dash calibrate`.
        return_lse: Whether to return the log-sum-exp `[batch, heads, seqlen_q]` too.

    Returns:
        The output, laid out like `q`; with `return_lse` a pair.

    Raises:
        TypeError: Tensors of different dtypes or of one that is not supported.
        ValueError: Shapes, devices or settings that do not fit.
        NotImplementedError: A head dimension that there is no kernel for.
        ScheduleError: A schedule that does not exist for these lengths and this mask.

    Example:
        >>> q, k, v = torch.randn(3, 2, 100, 4, 64).unbind()
        >>> attention(q, k, v, causal=True).shape
        torch.Size([2, 100, 4, 64])
    """
    if layout not in ("blhd", "bhld"):
        raise ValueError(f"layout must be 'blhd' or 'bhld'; got {layout!r}")
    if any(x.ndim != 4 for x in (q, k, v)):
        raise ValueError(f"q, k and v must have 4 dimensions; got {q.ndim}, {k.ndim} and {v.ndim}")
    query, key, value = (x if layout == "blhd" else x.transpose(1, 2) for x in (q, k, v))
    if not query.shape[0] == key.shape[0] == value.shape[0]:
        raise ValueError(f"q, k and v must have one batch size; got {q.shape[0]}, {k.shape[0]} and {v.shape[0]}")
    if key.shape[1] != value.shape[1]:
        raise ValueError(f"k and v must have one length; got {key.shape[1]} and {value.shape[1]}")
    batch, seqlen_q = query.shape[:2]
    out, lse = _packed(
        query.flatten(0, 1),
        key.flatten(0, 1),
        value.flatten(0, 1),
        None,
        None,
        batch=batch,
        causal=causal,
        softmax_scale=softmax_scale,
        window_size=window_size,
        deterministic=deterministic,
        schedule=schedule,
        order=order,
        costs=costs,
    )
    out = out.unflatten(0, (batch, seqlen_q))
    out = out if layout == "blhd" else out.transpose(1, 2)
    return (out, lse.unflatten(1, (batch, seqlen_q)).transpose(0, 1)) if return_lse else out


def attention_varlen(
    q: Float[Tensor, "total_q heads head_dim"],
    k: Float[Tensor, "total_k heads_kv head_dim"],
    v: Float[Tensor, "total_k heads_kv head_dim"],
    cu_seqlens_q: Int32[Tensor, " batch_plus_one"],
    cu_seqlens_k: Int32[Tensor, " batch_plus_one"],
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    *,
    causal: bool = False,
    softmax_scale: float | None = None,
    window_size: tuple[int, int] = (UNBOUNDED, UNBOUNDED),
    deterministic: bool = True,
    schedule: str = "auto",
    order: Order = "canonical",
    costs: Costs | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """`attention` for sequences of different lengths, packed end to end; an empty sequence gets zero gradients.

    Args:
        q: Queries of all sequences.
        k: Keys of all sequences.
        v: Values of all sequences.
        cu_seqlens_q: Where the queries of each sequence start, and where the last ones end: int32, beginning with 0.
            It is read on the host.
        cu_seqlens_k: The same for keys and values.
        max_seqlen_q: As flash-attn has it: checked against the offsets if given, not needed otherwise.
        max_seqlen_k: The same for keys.
        causal: See `attention`; the mask of each sequence is aligned to its own bottom right.
        softmax_scale: See `attention`.
        window_size: See `attention`.
        deterministic: See `attention`.
        schedule: See `attention`; a schedule must exist for every sequence.
        order: See `attention`.
        costs: See `attention`.
        return_lse: Whether to return the log-sum-exp `[heads, total_q]` too.

    Returns:
        The output, like `q`; with `return_lse` a pair.

    Raises:
        TypeError: Dtypes as for `attention`, or offsets that are not int32.
        ValueError: As for `attention`; offsets that do not start with 0, decrease or do not end at the last token.
        NotImplementedError: A head dimension that there is no kernel for.
        ScheduleError: A schedule that does not exist for a sequence.
    """
    if any(x.ndim != 3 for x in (q, k, v)):
        raise ValueError(f"q, k and v must have 3 dimensions; got {q.ndim}, {k.ndim} and {v.ndim}")
    if k.shape[0] != v.shape[0]:
        raise ValueError(f"k and v must have one length; got {k.shape[0]} and {v.shape[0]}")
    for name, offsets, longest in (
        ("cu_seqlens_q", cu_seqlens_q, max_seqlen_q),
        ("cu_seqlens_k", cu_seqlens_k, max_seqlen_k),
    ):
        if offsets.dtype != torch.int32:
            raise TypeError(f"{name} must be int32; got {offsets.dtype}")
        if offsets.ndim != 1:
            raise ValueError(f"{name} must have 1 dimension; got {offsets.ndim}")
        if longest is not None and not torch.compiler.is_compiling() and int(offsets.diff().max()) > longest:
            raise ValueError(
                f"max_seqlen of {name} is {longest}, but a sequence has {int(offsets.diff().max())} tokens"
            )
    out, lse = _packed(
        q,
        k,
        v,
        cu_seqlens_q,
        cu_seqlens_k,
        batch=0,
        causal=causal,
        softmax_scale=softmax_scale,
        window_size=window_size,
        deterministic=deterministic,
        schedule=schedule,
        order=order,
        costs=costs,
    )
    return (out, lse) if return_lse else out


def _packed(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor | None,
    cu_seqlens_k: Tensor | None,
    *,
    batch: int,
    causal: bool,
    softmax_scale: float | None,
    window_size: tuple[int, int],
    deterministic: bool,
    schedule: str,
    order: Order,
    costs: Costs | None,
) -> tuple[Tensor, Tensor]:
    window = causal_window(window_size, causal)
    if len(window_size) != 2 or min(window) < UNBOUNDED:
        raise ValueError(f"window_size must be two numbers of at least 0, or -1 for no limit; got {window_size}")
    scale = 1.0 / math.sqrt(q.shape[-1]) if softmax_scale is None else softmax_scale
    costs = costs or Costs()
    return attention_op(
        q,
        k,
        v,
        cu_seqlens_q,
        cu_seqlens_k,
        batch,
        scale,
        list(window),
        deterministic,
        schedule,
        order,
        [costs.compute, costs.reduce, costs.sync],
    )
