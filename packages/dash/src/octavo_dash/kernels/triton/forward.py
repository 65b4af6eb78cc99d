"""The forward pass: output and logarithms of the sums of exponentials."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from octavo_dash.kernels.triton.device import LOG2E, load_rows, store_rows, visible
from octavo_dash.kernels.triton.launch import on_device, precision
from octavo_dash.kernels.triton.tables import forward_tiles
from octavo_dash.kernels.triton.tiles import forward_tiling, padded
from octavo_dash.problem import UNBOUNDED, Problem
from octavo_shared.arrays import Float


@triton.jit
def attend(
    acc,
    total,
    largest,
    q,
    k_ptr,
    v_ptr,
    first_row,
    first_tile,
    end_tile,
    start_k,
    len_q,
    len_k,
    head_kv,
    num_heads_kv,
    left,
    right,
    scale_log2,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HAS_LEFT: tl.constexpr,
    HAS_RIGHT: tl.constexpr,
    MASKED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Takes key tiles `first_tile … end_tile − 1` into a softmax in progress (in base two)."""
    for tile in range(first_tile, end_tile):
        k = load_rows(k_ptr, start_k, tile * BLOCK_N, len_k, head_kv, num_heads_kv, HEAD_DIM, BLOCK_D, BLOCK_N)
        s = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale_log2
        if MASKED:
            row = first_row + tl.arange(0, BLOCK_M)
            column = tile * BLOCK_N + tl.arange(0, BLOCK_N)
            seen = visible(row[:, None], column[None, :], len_q, len_k, left, right, HAS_LEFT, HAS_RIGHT)
            s = tl.where(seen, s, float("-inf"))
        new_largest = tl.maximum(largest, tl.max(s, axis=1))
        # A row that has seen nothing yet keeps the maximum -inf; 0 in its place avoids inf - inf.
        reference = tl.where(new_largest == float("-inf"), 0.0, new_largest)
        p = tl.exp2(s - reference[:, None])
        shrink = tl.exp2(largest - reference)
        total = total * shrink + tl.sum(p, axis=1)
        v = load_rows(v_ptr, start_k, tile * BLOCK_N, len_k, head_kv, num_heads_kv, HEAD_DIM, BLOCK_D, BLOCK_N)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None], input_precision=PRECISION)
        largest = new_largest
    return acc, total, largest


@triton.jit
def forward_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    lse_ptr,
    tiles_ptr,
    num_heads,
    num_heads_kv,
    total_q,
    left,
    right,
    scale_log2,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HAS_LEFT: tl.constexpr,
    HAS_RIGHT: tl.constexpr,
    LOG2E: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One query tile. Only tiles that the mask cuts through pay for it."""
    fields = tiles_ptr + tl.program_id(0) * 8
    start, first_row, len_q, head = tl.load(fields), tl.load(fields + 1), tl.load(fields + 2), tl.load(fields + 3)
    start_k, len_k = tl.load(fields + 4), tl.load(fields + 5)
    head_kv = head // (num_heads // num_heads_kv)
    diagonal = len_k - len_q
    last_row = tl.minimum(first_row + BLOCK_M, len_q) - 1
    # Key tiles in sight are begin … end − 1; of them inner_begin … inner_end − 1 are in sight of all rows entirely.
    begin, inner_begin = 0, 0
    end = tl.cdiv(len_k, BLOCK_N)
    inner_end = len_k // BLOCK_N
    if HAS_RIGHT:
        end = tl.minimum(end, tl.cdiv(tl.maximum(last_row + diagonal + right + 1, 0), BLOCK_N))
        inner_end = tl.minimum(inner_end, tl.maximum(first_row + diagonal + right + 1, 0) // BLOCK_N)
    if HAS_LEFT:
        begin = tl.maximum(first_row + diagonal - left, 0) // BLOCK_N
        inner_begin = tl.cdiv(tl.maximum(last_row + diagonal - left, 0), BLOCK_N)
    inner_begin = tl.minimum(tl.maximum(inner_begin, begin), end)
    inner_end = tl.maximum(inner_end, inner_begin)

    q = load_rows(q_ptr, start, first_row, len_q, head, num_heads, HEAD_DIM, BLOCK_D, BLOCK_M)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    largest = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    if HAS_LEFT:
        acc, total, largest = attend(
            acc, total, largest, q, k_ptr, v_ptr, first_row, begin, inner_begin, start_k, len_q, len_k, head_kv,
            num_heads_kv, left, right, scale_log2,
            HEAD_DIM, BLOCK_D, BLOCK_M, BLOCK_N, HAS_LEFT, HAS_RIGHT, True, PRECISION,
        )  # fmt: skip
    acc, total, largest = attend(
        acc, total, largest, q, k_ptr, v_ptr, first_row, inner_begin, inner_end, start_k, len_q, len_k, head_kv,
        num_heads_kv, left, right, scale_log2,
        HEAD_DIM, BLOCK_D, BLOCK_M, BLOCK_N, HAS_LEFT, HAS_RIGHT, False, PRECISION,
    )  # fmt: skip
    acc, total, largest = attend(
        acc, total, largest, q, k_ptr, v_ptr, first_row, inner_end, end, start_k, len_q, len_k, head_kv,
        num_heads_kv, left, right, scale_log2,
        HEAD_DIM, BLOCK_D, BLOCK_M, BLOCK_N, HAS_LEFT, HAS_RIGHT, True, PRECISION,
    )  # fmt: skip
    seen = total > 0.0
    out = acc / tl.where(seen, total, 1.0)[:, None]
    store_rows(out_ptr, out, start, first_row, len_q, head, num_heads, HEAD_DIM, BLOCK_D, BLOCK_M)
    lse = tl.where(seen, (largest + tl.log2(tl.where(seen, total, 1.0))) / LOG2E, float("-inf"))
    row = first_row + tl.arange(0, BLOCK_M)
    tl.store(lse_ptr + head.to(tl.int64) * total_q + start + row, lse, mask=row < len_q)


def forward(
    q: Float[Tensor, "total_q heads head_dim"],
    k: Float[Tensor, "total_k heads_kv head_dim"],
    v: Float[Tensor, "total_k heads_kv head_dim"],
    problem: Problem,
    softmax_scale: float,
) -> tuple[Float[Tensor, "total_q heads head_dim"], Float[Tensor, "heads total_q"]]:
    """The output and the logarithm of the sum of exp(scale · q·k) over the keys that a query sees, -inf without any.

    Every query tile is one program with its keys in order: the result has the same bits in every run, and a sequence
    the same bits in any batch.

    Args:
        q: Queries of all sequences, packed end to end, contiguous; float16, bfloat16 or float32.
        k: Keys.
        v: Values.
        problem: Lengths, heads and window. Tile sizes are the forward pass's own.
        softmax_scale: Factor of the scores.

    Raises:
        ValueError: A head dimension that there is no kernel for.
    """
    head_dim = q.shape[-1]
    tiling = forward_tiling(head_dim, q.element_size())
    out = torch.empty_like(q)
    lse = torch.empty(q.shape[1], q.shape[0], dtype=torch.float32, device=q.device)
    tiles, count = forward_tiles(problem, tiling.block_m, q.device)
    left, right = problem.window
    if not count:
        return out, lse
    with on_device(q):
        forward_kernel[(count,)](
            q,
            k,
            v,
            out,
            lse,
            tiles,
            problem.num_heads,
            problem.num_heads_kv,
            q.shape[0],
            left,
            right,
            softmax_scale * LOG2E,
            HEAD_DIM=head_dim,
            BLOCK_D=padded(head_dim),
            BLOCK_M=tiling.block_m,
            BLOCK_N=tiling.block_n,
            HAS_LEFT=left != UNBOUNDED,
            HAS_RIGHT=right != UNBOUNDED,
            LOG2E=LOG2E,
            PRECISION=precision(q.dtype),
            num_warps=tiling.num_warps,
            num_stages=tiling.num_stages,
            enable_fp_fusion=False,
        )
    return out, lse
