"""The wavefront driver: one launch a step, one program a task, which an interpreter can run one after another."""

from __future__ import annotations

import triton
import triton.language as tl

from octavo_dash.kernels.triton.task import add_tile, load_tile, store_tile, task


@triton.jit
def wavefront_step(
    step_task, task_chain, chain_start, chain_head, chain_kv, task_q, cu_q, cu_k,
    q, k, v, dout, lse, delta, dq_acc, dk, dv, dk_chain, dv_chain, total_q, scale, scale_log2,
    HEADS: tl.constexpr, GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, MASKED: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """A task of a step: no other of the step adds to its tiles, so that nothing waits.

    dK and dV of a chain lie in memory between its tasks, in float32: storing and loading them changes no bit.
    """
    HEADS_KV: tl.constexpr = HEADS // GROUP
    t = tl.load(step_task + tl.program_id(0))
    chain = tl.load(task_chain + t)
    head_index = tl.load(chain_head + chain)
    sequence = head_index // HEADS
    head = head_index % HEADS
    start_q, start_k = tl.load(cu_q + sequence), tl.load(cu_k + sequence)
    len_q, len_k = tl.load(cu_q + sequence + 1) - start_q, tl.load(cu_k + sequence + 1) - start_k
    q_base = (start_q.to(tl.int64) * HEADS + head) * HEAD_DIM
    kv_base = (start_k.to(tl.int64) * HEADS_KV + head // GROUP) * HEAD_DIM
    row_base = head.to(tl.int64) * total_q + start_q
    columns = tl.load(chain_kv + chain) * BLOCK_N + tl.arange(0, BLOCK_N)
    rows = tl.load(task_q + t) * BLOCK_M + tl.arange(0, BLOCK_M)
    k_tile = load_tile(k + kv_base, columns, len_k, HEADS_KV * HEAD_DIM, HEAD_DIM, BLOCK_D)
    v_tile = load_tile(v + kv_base, columns, len_k, HEADS_KV * HEAD_DIM, HEAD_DIM, BLOCK_D)
    at = chain.to(tl.int64) * BLOCK_N * BLOCK_D
    inside = tl.arange(0, BLOCK_N)[:, None] * BLOCK_D + tl.arange(0, BLOCK_D)[None, :]
    dk_tile, dv_tile, dq_tile = task(
        q + q_base, dout + q_base, lse + row_base, delta + row_base, k_tile, v_tile,
        tl.load(dk_chain + at + inside), tl.load(dv_chain + at + inside),
        rows, columns, len_q, len_k, HEADS * HEAD_DIM, scale_log2,
        HEAD_DIM, BLOCK_D, LEFT, RIGHT, MASKED, PRECISION,
    )  # fmt: skip
    add_tile(dq_acc + q_base, dq_tile, rows, len_q, HEADS * HEAD_DIM, HEAD_DIM, BLOCK_D)
    if t + 1 < tl.load(chain_start + chain + 1):
        tl.store(dk_chain + at + inside, dk_tile)
        tl.store(dv_chain + at + inside, dv_tile)
    else:
        if GROUP == 1:
            store_tile(dk + kv_base, dk_tile * scale, columns, len_k, HEADS_KV * HEAD_DIM, HEAD_DIM, BLOCK_D)
            store_tile(dv + kv_base, dv_tile, columns, len_k, HEADS_KV * HEAD_DIM, HEAD_DIM, BLOCK_D)
        else:
            add_tile(dk + kv_base, dk_tile, columns, len_k, HEADS_KV * HEAD_DIM, HEAD_DIM, BLOCK_D)
            add_tile(dv + kv_base, dv_tile, columns, len_k, HEADS_KV * HEAD_DIM, HEAD_DIM, BLOCK_D)
