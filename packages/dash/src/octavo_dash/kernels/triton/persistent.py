"""The persistent backward kernel: every CTA walks its chains and waits for its turns."""

from __future__ import annotations

import triton
import triton.language as tl

from octavo_dash.kernels.triton.device import add_tile, load_rows, store_rows, task
from octavo_dash.kernels.triton.turns import pass_turn, wait_for_turn


@triton.jit
def persistent_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    dout_ptr,
    lse_ptr,
    delta_ptr,
    dq_ptr,
    dk_ptr,
    dv_ptr,
    semaphores_ptr,
    task_q_ptr,
    task_wait_ptr,
    chains_ptr,
    queue_start_ptr,
    queue_chain_ptr,
    num_queues,
    num_q_tiles,
    num_kv_tiles,
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
    ORDERED: tl.constexpr,
    DYNAMIC: tl.constexpr,
    PRECISION: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """All tasks of the queues that this CTA runs.

    `semaphores_ptr` holds one int32 for each query tile, one each for dK and dV of every key tile, and last the counter
    from which CTAs claim queues under a dynamic schedule. A queue is claimed by a CTA that runs, and waits for queues
    claimed before it only: whoever holds the lowest unfinished one can go on, however many CTAs are resident. Without
    claims every CTA has one queue and all of them must be resident.

    dK and dV of a chain stay in registers. Heads that share a key head add theirs to fp32 accumulators in turn.
    """
    dk_semaphores = semaphores_ptr + num_q_tiles
    dv_semaphores = dk_semaphores + num_kv_tiles
    counter = dv_semaphores + num_kv_tiles
    group_size = num_heads // num_heads_kv
    queue = tl.atomic_add(counter, 1, sem="relaxed") if DYNAMIC else tl.program_id(0)
    while queue < num_queues:
        slot_end = tl.load(queue_start_ptr + queue + 1)
        for slot in range(tl.load(queue_start_ptr + queue), slot_end):
            chain = chains_ptr + tl.load(queue_chain_ptr + slot) * 16
            first_column = tl.load(chain + 2) * BLOCK_N
            head = tl.load(chain + 3)
            start_q = tl.load(chain + 4)
            start_k = tl.load(chain + 5)
            len_q = tl.load(chain + 6)
            len_k = tl.load(chain + 7)
            q_tile_base = tl.load(chain + 8)
            head_kv = head // group_size
            k = load_rows(k_ptr, start_k, first_column, len_k, head_kv, num_heads_kv, HEAD_DIM, BLOCK_D, BLOCK_N)
            v = load_rows(v_ptr, start_k, first_column, len_k, head_kv, num_heads_kv, HEAD_DIM, BLOCK_D, BLOCK_N)
            dk = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
            dv = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
            for index in range(tl.load(chain), tl.load(chain + 1)):
                i = tl.load(task_q_ptr + index)
                dk, dv, dq = task(
                    dk, dv, k, v, q_ptr, dout_ptr, lse_ptr, delta_ptr, i * BLOCK_M, first_column, q_tile_base + i,
                    head, num_heads, start_q, len_q, len_k, left, right, scale_log2,
                    HEAD_DIM, BLOCK_D, BLOCK_M, BLOCK_N, HAS_LEFT, HAS_RIGHT, PRECISION,
                )  # fmt: skip
                if ORDERED:
                    wait_for_turn(semaphores_ptr + q_tile_base + i, tl.load(task_wait_ptr + index), INTERPRETED)
                add_tile(dq_ptr, dq, q_tile_base + i, HEAD_DIM, BLOCK_D, BLOCK_M)
                if ORDERED:
                    pass_turn(semaphores_ptr + q_tile_base + i, INTERPRETED)
            if GROUPED:
                kv_tile = tl.load(chain + 9)
                turn = tl.load(chain + 10)
                if ORDERED:
                    wait_for_turn(dv_semaphores + kv_tile, turn, INTERPRETED)
                add_tile(dv_ptr, dv, kv_tile, HEAD_DIM, BLOCK_D, BLOCK_N)
                if ORDERED:
                    pass_turn(dv_semaphores + kv_tile, INTERPRETED)
                    wait_for_turn(dk_semaphores + kv_tile, turn, INTERPRETED)
                add_tile(dk_ptr, dk, kv_tile, HEAD_DIM, BLOCK_D, BLOCK_N)
                if ORDERED:
                    pass_turn(dk_semaphores + kv_tile, INTERPRETED)
            else:
                store_rows(dv_ptr, dv, start_k, first_column, len_k, head, num_heads, HEAD_DIM, BLOCK_D, BLOCK_N)
                store_rows(
                    dk_ptr, dk * scale, start_k, first_column, len_k, head, num_heads, HEAD_DIM, BLOCK_D, BLOCK_N
                )
        queue = tl.atomic_add(counter, 1, sem="relaxed") if DYNAMIC else queue + tl.num_programs(0)
