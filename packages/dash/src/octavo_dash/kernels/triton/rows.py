"""What comes before and after the tasks: rowsum(O∘dO) and logarithms by tile; accumulators back to packed rows."""

from __future__ import annotations

import triton
import triton.language as tl

from octavo_dash.kernels.triton.device import load_rows, load_tile, store_rows


@triton.jit
def preprocess_kernel(
    out_ptr,
    dout_ptr,
    lse_ptr,
    dlse_ptr,
    delta_ptr,
    lse2_ptr,
    tiles_ptr,
    num_heads,
    total_q,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    HAS_DLSE: tl.constexpr,
    LOG2E: tl.constexpr,
):
    """`delta = rowsum(O∘dO) − dLSE` and `LOG2E·LSE` of one query tile, `[tiles, BLOCK_M]`.

    A row that is not there, or that sees no key, gets the logarithm +inf: its P is exp2(−inf) = 0 everywhere.
    """
    tile = tl.program_id(0)
    fields = tiles_ptr + tile * 4
    start, first, length, head = tl.load(fields), tl.load(fields + 1), tl.load(fields + 2), tl.load(fields + 3)
    out = load_rows(out_ptr, start, first, length, head, num_heads, HEAD_DIM, BLOCK_D, BLOCK_M)
    dout = load_rows(dout_ptr, start, first, length, head, num_heads, HEAD_DIM, BLOCK_D, BLOCK_M)
    delta = tl.sum(out.to(tl.float32) * dout.to(tl.float32), axis=1)
    row = first + tl.arange(0, BLOCK_M)
    where = head.to(tl.int64) * total_q + start + row
    lse = tl.load(lse_ptr + where, mask=row < length, other=float("-inf"))
    if HAS_DLSE:
        delta -= tl.load(dlse_ptr + where, mask=row < length, other=0.0)
    lse = tl.where(lse == float("-inf"), float("inf"), lse * LOG2E)
    position = tile.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    tl.store(delta_ptr + position, delta)
    tl.store(lse2_ptr + position, lse)


@triton.jit
def postprocess_kernel(
    accumulator_ptr,
    result_ptr,
    tiles_ptr,
    num_heads,
    scale,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    ROWS: tl.constexpr,
):
    """`scale · accumulator` of one tile, cast, to its packed rows."""
    tile = tl.program_id(0)
    fields = tiles_ptr + tile * 4
    start, first, length, head = tl.load(fields), tl.load(fields + 1), tl.load(fields + 2), tl.load(fields + 3)
    value = load_tile(accumulator_ptr, tile, HEAD_DIM, BLOCK_D, ROWS) * scale
    store_rows(result_ptr, value, start, first, length, head, num_heads, HEAD_DIM, BLOCK_D, ROWS)
