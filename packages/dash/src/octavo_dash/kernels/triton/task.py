"""One task of the backward pass, as a device function that every driver calls."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def visible(rows, columns, len_q, len_k, LEFT: tl.constexpr, RIGHT: tl.constexpr):
    """Which keys (down) which queries (across) see: inside the sequence, and -LEFT ≤ j - (i + len_k - len_q) ≤ RIGHT."""
    seen = (columns < len_k)[:, None] & (rows < len_q)[None, :]
    distance = columns[:, None] - (rows[None, :] + (len_k - len_q))
    if LEFT >= 0:
        seen = seen & (distance >= -LEFT)
    if RIGHT >= 0:
        seen = seen & (distance <= RIGHT)
    return seen


@triton.jit
def tile_offsets(rows, row_stride, BLOCK_D: tl.constexpr):
    """Where the elements of a tile lie behind the start of their sequence: 32 bits, the host checks that they suffice."""
    return rows[:, None] * row_stride + tl.arange(0, BLOCK_D)[None, :]


@triton.jit
def tile_mask(rows, length, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr):
    """What of a tile lies inside the sequence and inside head_dim."""
    if HEAD_DIM == BLOCK_D:
        return (rows < length)[:, None]
    else:
        return (rows < length)[:, None] & (tl.arange(0, BLOCK_D) < HEAD_DIM)[None, :]


@triton.jit
def load_tile(base, rows, length, row_stride, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr):
    """Rows of a packed tensor, zero beyond the sequence and beyond head_dim."""
    mask = tile_mask(rows, length, HEAD_DIM, BLOCK_D)
    return tl.load(base + tile_offsets(rows, row_stride, BLOCK_D), mask=mask, other=0.0)


@triton.jit
def store_tile(base, value, rows, length, row_stride, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr):
    """The way back; what lies beyond the sequence is left alone."""
    mask = tile_mask(rows, length, HEAD_DIM, BLOCK_D)
    tl.store(base + tile_offsets(rows, row_stride, BLOCK_D), value.to(base.dtype.element_ty), mask=mask)


@triton.jit
def add_tile(base, value, rows, length, row_stride, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr):
    """Adds to rows of an accumulator past the first-level cache, which other processors do not see."""
    mask = tile_mask(rows, length, HEAD_DIM, BLOCK_D)
    pointers = base + tile_offsets(rows, row_stride, BLOCK_D)
    tl.store(pointers, tl.load(pointers, mask=mask, other=0.0, cache_modifier=".cg") + value, mask=mask)


@triton.jit
def atomic_add_tile(base, value, rows, length, row_stride, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr):
    """Adds to rows of an accumulator in the order of completion."""
    mask = tile_mask(rows, length, HEAD_DIM, BLOCK_D)
    tl.atomic_add(base + tile_offsets(rows, row_stride, BLOCK_D), value, mask=mask, sem="relaxed")


@triton.jit
def task(
    q_base, dout_base, lse_base, delta_base, k, v, dk, dv, rows, columns, len_q, len_k, q_stride, scale_log2,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr,
    MASKED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The five products of a task (section 2 of the paper), with keys down and queries across.

    `P = 2^(scale·log2(e)·K Qᵀ − LSE·log2(e))`, `dS = P ∘ (V dOᵀ − Δ)`, `dV += P dO`, `dK += dS Q`, `dQ = dSᵀ K`, the last
    two without their factor `scale`.

    Returns:
        dK and dV with this task added, and its contribution to dQ, `[BLOCK_M, BLOCK_D]` in float32.
    """
    q = load_tile(q_base, rows, len_q, q_stride, HEAD_DIM, BLOCK_D)
    dout = load_tile(dout_base, rows, len_q, q_stride, HEAD_DIM, BLOCK_D)
    lse = tl.load(lse_base + rows, mask=rows < len_q, other=0.0) * 1.4426950408889634
    delta = tl.load(delta_base + rows, mask=rows < len_q, other=0.0)
    p = tl.exp2(tl.dot(k, tl.trans(q), input_precision=PRECISION) * scale_log2 - lse[None, :])
    if MASKED:
        p = tl.where(visible(rows, columns, len_q, len_k, LEFT, RIGHT), p, 0.0)
    dv = tl.dot(p.to(dout.dtype), dout, dv, input_precision=PRECISION)
    ds = (p * (tl.dot(v, tl.trans(dout), input_precision=PRECISION) - delta[None, :])).to(q.dtype)
    dk = tl.dot(ds, q, dk, input_precision=PRECISION)
    dq = tl.dot(tl.trans(ds), k, input_precision=PRECISION)
    return dk, dv, dq
