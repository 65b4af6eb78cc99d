"""The device functions of the backward pass: one task, and what its surroundings need to load and to keep."""

from __future__ import annotations

import triton
import triton.language as tl

LOG2E = 1.4426950408889634
"""exp(x) = 2^(LOG2E·x): the hardware's exponential has base two."""


@triton.jit
def load_rows(
    pointer,
    start,
    first,
    length,
    head,
    num_heads,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Rows `first`, `first + 1`, … of a sequence that begins at token `start`; zeros outside of it.

    Of a packed tensor `[tokens, num_heads, HEAD_DIM]` this gives `[ROWS, BLOCK_D]` of one head.
    """
    row = first + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK_D)
    base = pointer + (start.to(tl.int64) * num_heads + head) * HEAD_DIM
    inside = (row < length)[:, None]
    if BLOCK_D != HEAD_DIM:
        inside = inside & (column < HEAD_DIM)[None, :]
    # Within one sequence 64 bits are needed too: a million tokens of 32 heads of 128 are more than 2^31 elements.
    offset = (row.to(tl.int64) * num_heads * HEAD_DIM)[:, None] + column[None, :]
    return tl.load(base + offset, mask=inside, other=0.0)


@triton.jit
def store_rows(
    pointer,
    value,
    start,
    first,
    length,
    head,
    num_heads,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    ROWS: tl.constexpr,
):
    """The opposite of `load_rows`, cast to the type of what `pointer` points to."""
    row = first + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK_D)
    base = pointer + (start.to(tl.int64) * num_heads + head) * HEAD_DIM
    inside = (row < length)[:, None] & (column < HEAD_DIM)[None, :]
    offset = (row.to(tl.int64) * num_heads * HEAD_DIM)[:, None] + column[None, :]
    tl.store(base + offset, value.to(pointer.dtype.element_ty), mask=inside)


@triton.jit
def tile_offsets(tile, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr):
    """Where the elements of a tile are in an accumulator `[tiles, ROWS, HEAD_DIM]`, whose tiles are contiguous."""
    row = tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK_D)
    return tile.to(tl.int64) * (ROWS * HEAD_DIM) + (row * HEAD_DIM)[:, None] + column[None, :]


@triton.jit
def add_tile(pointer, value, tile, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr):
    """Adds to a tile of an fp32 accumulator, in L2 and without reading it back; one rounding an element.

    Every driver adds through this function: additions in L2 flush subnormal numbers, those in registers do not.
    """
    offset = tile_offsets(tile, HEAD_DIM, BLOCK_D, ROWS)
    if BLOCK_D != HEAD_DIM:
        inside = (tl.arange(0, BLOCK_D) < HEAD_DIM)[None, :] & (tl.arange(0, ROWS) >= 0)[:, None]
        tl.atomic_add(pointer + offset, value, mask=inside, sem="relaxed")
    else:
        tl.atomic_add(pointer + offset, value, sem="relaxed")


@triton.jit
def load_tile(pointer, tile, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr):
    """A tile of an fp32 accumulator."""
    offset = tile_offsets(tile, HEAD_DIM, BLOCK_D, ROWS)
    inside = (tl.arange(0, BLOCK_D) < HEAD_DIM)[None, :] & (tl.arange(0, ROWS) >= 0)[:, None]
    return tl.load(pointer + offset, mask=inside, other=0.0)


@triton.jit
def visible(
    row,
    column,
    len_q,
    len_k,
    left,
    right,
    HAS_LEFT: tl.constexpr,
    HAS_RIGHT: tl.constexpr,
):
    """Whether the key at `column` exists and lies in the window of the query at `row`; the two broadcast."""
    distance = column - (row + (len_k - len_q))
    seen = (column < len_k) & (row < len_q)
    if HAS_LEFT:
        seen = seen & (distance >= -left)
    if HAS_RIGHT:
        seen = seen & (distance <= right)
    return seen


@triton.jit
def on_border(
    first_row,
    first_column,
    len_q,
    len_k,
    left,
    right,
    HAS_LEFT: tl.constexpr,
    HAS_RIGHT: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Whether some key of a tile is out of sight of some query of it. Rows past the end do not matter: P is 0 there."""
    diagonal = len_k - len_q
    border = first_column + COLUMNS > len_k
    if HAS_LEFT:
        border = border | (first_column < first_row + ROWS - 1 + diagonal - left)
    if HAS_RIGHT:
        border = border | (first_column + COLUMNS - 1 > first_row + diagonal + right)
    return border


@triton.jit
def task(
    dk,
    dv,
    k,
    v,
    q_ptr,
    dout_ptr,
    lse_ptr,
    delta_ptr,
    first_row,
    first_column,
    q_tile,
    head,
    num_heads,
    start_q,
    len_q,
    len_k,
    left,
    right,
    scale_log2,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HAS_LEFT: tl.constexpr,
    HAS_RIGHT: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One task (h, j, i): adds its part to dK_j and dV_j, and returns them with its part of dQ_i, all unscaled.

    Scores are held transposed, `[BLOCK_N, BLOCK_M]`: P and dS are then left operands as they lie in registers for two
    of the three products that they enter, and only dQ needs dS turned round.

    Everything is rounded as written here (the kernels are compiled without contraction of products and sums), so that
    a task gives the same bits in whichever kernel it is inlined.
    """
    q = load_rows(q_ptr, start_q, first_row, len_q, head, num_heads, HEAD_DIM, BLOCK_D, BLOCK_M)
    dout = load_rows(dout_ptr, start_q, first_row, len_q, head, num_heads, HEAD_DIM, BLOCK_D, BLOCK_M)
    row = tl.arange(0, BLOCK_M)
    lse = tl.load(lse_ptr + q_tile.to(tl.int64) * BLOCK_M + row)
    delta = tl.load(delta_ptr + q_tile.to(tl.int64) * BLOCK_M + row)

    s = tl.dot(k, tl.trans(q), input_precision=PRECISION)
    p = tl.exp2(tl.fma(s, tl.full(s.shape, 1.0, tl.float32) * scale_log2, tl.broadcast_to(-lse[None, :], s.shape)))
    if on_border(first_row, first_column, len_q, len_k, left, right, HAS_LEFT, HAS_RIGHT, BLOCK_M, BLOCK_N):
        column = first_column + tl.arange(0, BLOCK_N)
        seen = visible((first_row + row)[None, :], column[:, None], len_q, len_k, left, right, HAS_LEFT, HAS_RIGHT)
        p = tl.where(seen, p, 0.0)
    dv = tl.dot(p.to(dout.dtype), dout, dv, input_precision=PRECISION)
    dp = tl.dot(v, tl.trans(dout), input_precision=PRECISION)
    ds = (p * (dp - delta[None, :])).to(q.dtype)
    dk = tl.dot(ds, q, dk, input_precision=PRECISION)
    dq = tl.dot(tl.trans(ds), k, input_precision=PRECISION)
    return dk, dv, dq
