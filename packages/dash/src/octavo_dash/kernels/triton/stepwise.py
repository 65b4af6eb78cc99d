"""The stepwise backward kernel: one program a task, with nothing to wait for inside a launch."""

from __future__ import annotations

import triton
import triton.language as tl

from octavo_dash.kernels.triton.device import add_tile, load_rows, load_tile, store_rows, task, tile_offsets


@triton.jit
def stepwise_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    dout_ptr,
    lse_ptr,
    delta_ptr,
    dq_ptr,
    dk_ptr,
    dv_ptr,
    dk_chain_ptr,
    dv_chain_ptr,
    tasks_ptr,
    task_q_ptr,
    task_chain_ptr,
    chains_ptr,
    num_heads,
    num_heads_kv,
    left,
    right,
    scale,
    scale_log2,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HAS_LEFT: tl.constexpr,
    HAS_RIGHT: tl.constexpr,
    GROUPED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """The tasks `tasks_ptr[0], tasks_ptr[1], …`, no two of which share a chain or a query tile.

    Between launches dK and dV of each chain wait in fp32 tiles: what was a register there and back is the same number.
    The last task of a chain writes them out, or adds them to those of its group.
    """
    index = tl.load(tasks_ptr + tl.program_id(0))
    chain_id = tl.load(task_chain_ptr + index)
    chain = chains_ptr + chain_id * 16
    first_column = tl.load(chain + 2) * BLOCK_N
    head = tl.load(chain + 3)
    start_q = tl.load(chain + 4)
    start_k = tl.load(chain + 5)
    len_q = tl.load(chain + 6)
    len_k = tl.load(chain + 7)
    q_tile_base = tl.load(chain + 8)
    head_kv = head // (num_heads // num_heads_kv)
    k = load_rows(k_ptr, start_k, first_column, len_k, head_kv, num_heads_kv, HEAD_DIM, BLOCK_D, BLOCK_N)
    v = load_rows(v_ptr, start_k, first_column, len_k, head_kv, num_heads_kv, HEAD_DIM, BLOCK_D, BLOCK_N)
    dk = load_tile(dk_chain_ptr, chain_id, HEAD_DIM, BLOCK_D, BLOCK_N)
    dv = load_tile(dv_chain_ptr, chain_id, HEAD_DIM, BLOCK_D, BLOCK_N)
    i = tl.load(task_q_ptr + index)
    dk, dv, dq = task(
        dk, dv, k, v, q_ptr, dout_ptr, lse_ptr, delta_ptr, i * BLOCK_M, first_column, q_tile_base + i,
        head, num_heads, start_q, len_q, len_k, left, right, scale_log2,
        HEAD_DIM, BLOCK_D, BLOCK_M, BLOCK_N, HAS_LEFT, HAS_RIGHT, PRECISION,
    )  # fmt: skip
    add_tile(dq_ptr, dq, q_tile_base + i, HEAD_DIM, BLOCK_D, BLOCK_M)
    if index + 1 < tl.load(chain + 1):
        where = tile_offsets(chain_id, HEAD_DIM, BLOCK_D, BLOCK_N)
        inside = (tl.arange(0, BLOCK_D) < HEAD_DIM)[None, :] & (tl.arange(0, BLOCK_N) >= 0)[:, None]
        tl.store(dk_chain_ptr + where, dk, mask=inside)
        tl.store(dv_chain_ptr + where, dv, mask=inside)
    elif GROUPED:
        kv_tile = tl.load(chain + 9)
        add_tile(dv_ptr, dv, kv_tile, HEAD_DIM, BLOCK_D, BLOCK_N)
        add_tile(dk_ptr, dk, kv_tile, HEAD_DIM, BLOCK_D, BLOCK_N)
    else:
        store_rows(dv_ptr, dv, start_k, first_column, len_k, head, num_heads, HEAD_DIM, BLOCK_D, BLOCK_N)
        store_rows(dk_ptr, dk * scale, start_k, first_column, len_k, head, num_heads, HEAD_DIM, BLOCK_D, BLOCK_N)
