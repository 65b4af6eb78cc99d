"""The persistent driver: one program a worker, which runs its chains and waits for its turns."""

from __future__ import annotations

import triton
import triton.language as tl

from octavo_dash.kernels.triton.semaphore import end_turn, wait_for_turn
from octavo_dash.kernels.triton.task import add_tile, atomic_add_tile, load_tile, store_tile, task


@triton.jit
def run_chain(
    chain, chain_start, chain_head, chain_kv, task_q, task_wait, cu_q, cu_k, q_tile_offset, kv_tile_offset,
    q, k, v, dout, lse, delta, dq_acc, dk, dv, dq_turn, dk_turn, dv_turn, total_q, scale, scale_log2,
    HEADS: tl.constexpr, GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, MASKED: tl.constexpr,
    DETERMINISTIC: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """All tasks of a key tile of a head, with dK and dV in registers; then the addition to, or the writing of, both."""
    HEADS_KV: tl.constexpr = HEADS // GROUP
    head_index = tl.load(chain_head + chain)
    kv = tl.load(chain_kv + chain)
    sequence = head_index // HEADS
    head = head_index % HEADS
    start_q, start_k = tl.load(cu_q + sequence), tl.load(cu_k + sequence)
    len_q, len_k = tl.load(cu_q + sequence + 1) - start_q, tl.load(cu_k + sequence + 1) - start_k
    q_base = (start_q.to(tl.int64) * HEADS + head) * HEAD_DIM
    kv_base = (start_k.to(tl.int64) * HEADS_KV + head // GROUP) * HEAD_DIM
    row_base = head.to(tl.int64) * total_q + start_q
    columns = kv * BLOCK_N + tl.arange(0, BLOCK_N)
    k_tile = load_tile(k + kv_base, columns, len_k, HEADS_KV * HEAD_DIM, HEAD_DIM, BLOCK_D)
    v_tile = load_tile(v + kv_base, columns, len_k, HEADS_KV * HEAD_DIM, HEAD_DIM, BLOCK_D)
    dk_tile = tl.zeros([BLOCK_N, BLOCK_D], dtype=tl.float32)
    dv_tile = tl.zeros([BLOCK_N, BLOCK_D], dtype=tl.float32)
    turns = dq_turn + tl.load(q_tile_offset + head_index)
    for t in range(tl.load(chain_start + chain), tl.load(chain_start + chain + 1)):
        i = tl.load(task_q + t)
        rows = i * BLOCK_M + tl.arange(0, BLOCK_M)
        dk_tile, dv_tile, dq_tile = task(
            q + q_base, dout + q_base, lse + row_base, delta + row_base, k_tile, v_tile, dk_tile, dv_tile,
            rows, columns, len_q, len_k, HEADS * HEAD_DIM, scale_log2,
            HEAD_DIM, BLOCK_D, LEFT, RIGHT, MASKED, PRECISION,
        )  # fmt: skip
        if DETERMINISTIC:
            wait_for_turn(turns + i, tl.load(task_wait + t))
            add_tile(dq_acc + q_base, dq_tile, rows, len_q, HEADS * HEAD_DIM, HEAD_DIM, BLOCK_D)
            end_turn(turns + i)
        else:
            atomic_add_tile(dq_acc + q_base, dq_tile, rows, len_q, HEADS * HEAD_DIM, HEAD_DIM, BLOCK_D)
    if GROUP == 1:
        store_tile(dk + kv_base, dk_tile * scale, columns, len_k, HEADS_KV * HEAD_DIM, HEAD_DIM, BLOCK_D)
        store_tile(dv + kv_base, dv_tile, columns, len_k, HEADS_KV * HEAD_DIM, HEAD_DIM, BLOCK_D)
    elif DETERMINISTIC:
        tile = tl.load(kv_tile_offset + head_index // GROUP) + kv
        wait_for_turn(dk_turn + tile, head % GROUP)
        add_tile(dk + kv_base, dk_tile, columns, len_k, HEADS_KV * HEAD_DIM, HEAD_DIM, BLOCK_D)
        end_turn(dk_turn + tile)
        wait_for_turn(dv_turn + tile, head % GROUP)
        add_tile(dv + kv_base, dv_tile, columns, len_k, HEADS_KV * HEAD_DIM, HEAD_DIM, BLOCK_D)
        end_turn(dv_turn + tile)
    else:
        atomic_add_tile(dk + kv_base, dk_tile, columns, len_k, HEADS_KV * HEAD_DIM, HEAD_DIM, BLOCK_D)
        atomic_add_tile(dv + kv_base, dv_tile, columns, len_k, HEADS_KV * HEAD_DIM, HEAD_DIM, BLOCK_D)


@triton.jit
def persistent_backward(
    worker_start, worker_chain, next_chain, num_chains,
    chain_start, chain_head, chain_kv, task_q, task_wait, cu_q, cu_k, q_tile_offset, kv_tile_offset,
    q, k, v, dout, lse, delta, dq_acc, dk, dv, dq_turn, dk_turn, dv_turn, total_q, scale, scale_log2,
    HEADS: tl.constexpr, GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, MASKED: tl.constexpr,
    DETERMINISTIC: tl.constexpr, DYNAMIC: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A worker: the chains of its list, or under a dynamic schedule the next chain in launch order, until there is none.

    Progress: every turn is that of a chain launched earlier, or of one that runs beside this one (a cohort of a schedule
    in lockstep never exceeds the workers, and the host has checked that there is no cycle). All programs of the grid
    must be resident at once, which the host checks too.
    """
    if DYNAMIC:
        chain = tl.atomic_add(next_chain, 1, sem="relaxed", scope="gpu")
        while chain < num_chains:
            run_chain(
                chain, chain_start, chain_head, chain_kv, task_q, task_wait, cu_q, cu_k, q_tile_offset, kv_tile_offset,
                q, k, v, dout, lse, delta, dq_acc, dk, dv, dq_turn, dk_turn, dv_turn, total_q, scale, scale_log2,
                HEADS, GROUP, HEAD_DIM, BLOCK_D, BLOCK_M, BLOCK_N, LEFT, RIGHT, MASKED, DETERMINISTIC, PRECISION,
            )  # fmt: skip
            chain = tl.atomic_add(next_chain, 1, sem="relaxed", scope="gpu")
    else:
        worker = tl.program_id(0)
        for position in range(tl.load(worker_start + worker), tl.load(worker_start + worker + 1)):
            run_chain(
                tl.load(worker_chain + position),
                chain_start, chain_head, chain_kv, task_q, task_wait, cu_q, cu_k, q_tile_offset, kv_tile_offset,
                q, k, v, dout, lse, delta, dq_acc, dk, dv, dq_turn, dk_turn, dv_turn, total_q, scale, scale_log2,
                HEADS, GROUP, HEAD_DIM, BLOCK_D, BLOCK_M, BLOCK_N, LEFT, RIGHT, MASKED, DETERMINISTIC, PRECISION,
            )  # fmt: skip
