"""The forward pass on a GPU: a query tile a program, with the running maximum of FlashAttention."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from octavo_dash.kernels.triton.launch import Offsets, constants, problem_offsets
from octavo_dash.kernels.triton.task import load_tile, store_tile, visible
from octavo_dash.problem import Problem

FORWARD_BLOCK_N = 64
"""Keys of a step of the forward pass: independent of the backward pass's tiles."""


@triton.jit
def forward_tile(
    tile_head, tile_q, cu_q, cu_k, q, k, v, out, lse, total_q, scale_log2,
    HEADS: tl.constexpr, GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """softmax(scale · Q Kᵀ) V for one query tile, key tiles in increasing order: no other program shares its results."""
    HEADS_KV: tl.constexpr = HEADS // GROUP
    head_index = tl.load(tile_head + tl.program_id(0))
    sequence = head_index // HEADS
    head = head_index % HEADS
    start_q, start_k = tl.load(cu_q + sequence), tl.load(cu_k + sequence)
    len_q, len_k = tl.load(cu_q + sequence + 1) - start_q, tl.load(cu_k + sequence + 1) - start_k
    q_base = (start_q.to(tl.int64) * HEADS + head) * HEAD_DIM
    kv_base = (start_k.to(tl.int64) * HEADS_KV + head // GROUP) * HEAD_DIM
    first_row = tl.load(tile_q + tl.program_id(0)) * BLOCK_M
    rows = first_row + tl.arange(0, BLOCK_M)
    query = load_tile(q + q_base, rows, len_q, HEADS * HEAD_DIM, HEAD_DIM, BLOCK_D)
    peak = tl.full([BLOCK_M], float("-inf"), dtype=tl.float32)
    total = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], dtype=tl.float32)
    first_key, end_key = 0, len_k
    if LEFT >= 0:
        first_key = tl.maximum(0, first_row + (len_k - len_q) - LEFT) // BLOCK_N * BLOCK_N
    if RIGHT >= 0:
        end_key = tl.minimum(len_k, tl.minimum(first_row + BLOCK_M, len_q) + (len_k - len_q) + RIGHT)
    for j in range(first_key, end_key, BLOCK_N):
        columns = j + tl.arange(0, BLOCK_N)
        key = load_tile(k + kv_base, columns, len_k, HEADS_KV * HEAD_DIM, HEAD_DIM, BLOCK_D)
        scores = tl.dot(query, tl.trans(key), input_precision=PRECISION) * scale_log2
        scores = tl.where(tl.trans(visible(rows, columns, len_q, len_k, LEFT, RIGHT)), scores, float("-inf"))
        highest = tl.maximum(peak, tl.max(scores, 1))
        shift = tl.where(highest == float("-inf"), 0.0, highest)
        p = tl.exp2(scores - shift[:, None])
        shrink = tl.exp2(peak - shift)
        total = total * shrink + tl.sum(p, 1)
        value = load_tile(v + kv_base, columns, len_k, HEADS_KV * HEAD_DIM, HEAD_DIM, BLOCK_D)
        acc = tl.dot(p.to(value.dtype), value, acc * shrink[:, None], input_precision=PRECISION)
        peak = highest
    acc = acc / tl.where(total > 0, total, 1.0)[:, None]
    store_tile(out + q_base, acc, rows, len_q, HEADS * HEAD_DIM, HEAD_DIM, BLOCK_D)
    logarithm = tl.where(total > 0, (peak + tl.log2(tl.where(total > 0, total, 1.0))) / 1.4426950408889634, float("-inf"))
    tl.store(lse + head.to(tl.int64) * total_q + start_q + rows, logarithm, mask=rows < len_q)


def forward(q: Tensor, k: Tensor, v: Tensor, problem: Problem, softmax_scale: float) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp on a GPU, or in Triton's interpreter; see `kernels.cpu.forward`.

    Args:
        q: Queries `[total_q, heads, head_dim]`, contiguous, in float16, bfloat16 or float32.
        k: Keys `[total_k, heads_kv, head_dim]`.
        v: Values, like the keys.
        problem: Lengths, heads, window and tile sizes.
        softmax_scale: Factor of the scores.
    """
    out, lse = torch.empty_like(q), torch.empty(q.shape[1], q.shape[0], dtype=torch.float32, device=q.device)
    offsets: Offsets = problem_offsets(problem, q.device)
    if len(offsets.tile_head):
        forward_tile[(len(offsets.tile_head),)](
            offsets.tile_head, offsets.tile_q, offsets.cu_q, offsets.cu_k, q, k, v, out, lse, q.shape[0],
            softmax_scale * 1.4426950408889634,
            **constants(problem, q) | {"BLOCK_N": FORWARD_BLOCK_N}, num_warps=4, num_stages=2,
        )  # fmt: skip
    return out, lse
