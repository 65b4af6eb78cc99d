"""Attention on the CPU: threads that execute a schedule's tasks, or vectorised PyTorch where nothing is compiled."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from octavo_dash.kernels import vectorised
from octavo_dash.kernels.gradients import Gradients
from octavo_dash.native import native_module
from octavo_dash.problem import Problem
from octavo_dash.schedule import Schedule
from octavo_shared.arrays import Float

if TYPE_CHECKING:
    from octavo_dash._native import Layout, Tables

BLOCK_M = BLOCK_N = 64
"""Tile sizes on a CPU: the working set of a task stays within the second level of cache up to head_dim 256."""


class Timeline(NamedTuple):
    """When each task of a backward pass ran, in seconds of a steady clock, and on which thread: `[tasks]` each.

    Attributes:
        start: Its products started.
        computed: They were done.
        turn: Its turn to add had come.
        end: It had added.
        thread: Who did it: int32.
    """

    start: np.ndarray
    computed: np.ndarray
    turn: np.ndarray
    end: np.ndarray
    thread: np.ndarray

    @classmethod
    def of(cls, schedule: Schedule) -> Timeline:
        """An empty one for a schedule."""
        tasks = schedule.num_tasks
        start, computed, turn, end = np.zeros((4, tasks))
        return cls(start, computed, turn, end, np.zeros(tasks, dtype=np.int32))


def forward(
    q: Float[Tensor, "total_q heads head_dim"],
    k: Float[Tensor, "total_k heads_kv head_dim"],
    v: Float[Tensor, "total_k heads_kv head_dim"],
    problem: Problem,
    softmax_scale: float,
    *,
    threads: int | None = None,
) -> tuple[Float[Tensor, "total_q heads head_dim"], Float[Tensor, "heads total_q"]]:
    """The output and the logarithm of the sum of exp(scale · q·k) over the keys that a query sees, -inf without any.

    Half precision is computed in float32. Query tiles are independent of one another: the bits of the result do not
    depend on the number of threads.

    Args:
        q: Queries of all sequences, packed end to end.
        k: Keys.
        v: Values.
        problem: Lengths, heads, window and tile sizes.
        softmax_scale: Factor of the scores.
        threads: Number of threads; PyTorch's by default.
    """
    module = native_module()
    inner = torch.promote_types(q.dtype, torch.float32)
    if module is None:
        out, lse = vectorised.forward(q.to(inner), k.to(inner), v.to(inner), problem, softmax_scale)
        return out.to(q.dtype), lse
    query, key, value = (x.detach().to(inner).contiguous() for x in (q, k, v))
    out, lse = torch.empty_like(query), query.new_empty(q.shape[1], q.shape[0])
    layout = _layout(problem, q.shape[-1])
    arrays = (x.numpy() for x in (query, key, value, out, lse))
    module.forward(layout, *arrays, softmax_scale, threads or torch.get_num_threads())
    return out.to(q.dtype), lse


def backward(
    dout: Float[Tensor, "total_q heads head_dim"],
    q: Float[Tensor, "total_q heads head_dim"],
    k: Float[Tensor, "total_k heads_kv head_dim"],
    v: Float[Tensor, "total_k heads_kv head_dim"],
    out: Float[Tensor, "total_q heads head_dim"],
    lse: Float[Tensor, "heads total_q"],
    schedule: Schedule,
    softmax_scale: float,
    *,
    dlse: Float[Tensor, "heads total_q"] | None = None,
    deterministic: bool = True,
    threads: int | None = None,
    jitter: int = 0,
    timeline: Timeline | None = None,
) -> Gradients:
    """dQ, dK and dV, with contributions to dQ added in the order of the schedule.

    For a task of query tile i and key tile j: `P = exp(scale·QᵢKⱼᵀ − LSEᵢ)`, `dS = P ∘ (dOᵢVⱼᵀ − rowsum(Oᵢ∘dOᵢ))`,
    `dVⱼ += Pᵀ dOᵢ`, `dKⱼ += scale·dSᵀ Qᵢ`, `dQᵢ += scale·dS Kⱼ` (section 2 of the paper).

    Where no unit of the schedule waits for a later one, threads take whole units in launch order, as persistent CTAs
    do. Where units of a cohort wait for one another, each thread stands in for several workers. Either way the sums,
    hence the bits, are those of the order table, whatever the number of threads.

    Args:
        dout: Gradient of the output.
        q: Queries.
        k: Keys.
        v: Values.
        out: Output of `forward`.
        lse: Logarithms of `forward`.
        schedule: What to execute.
        softmax_scale: Factor of the scores.
        dlse: Gradient of the logarithms, if they were used: it lowers rowsum(O∘dO).
        deterministic: Whether additions wait for their turn; otherwise they are made in the order of completion, with
            a lock a tile: the atomic mode.
        threads: Number of threads; PyTorch's by default.
        jitter: Seed of random sleeps of up to 50 µs between computing and adding, for tests; 0 for none.
        timeline: Where to write when each task ran; needs the compiled module.
    """
    module = native_module()
    inner = lse.dtype
    dlse = torch.zeros_like(lse) if dlse is None else dlse
    query, key, value, output, grad = (x.detach().to(inner).contiguous() for x in (q, k, v, out, dout))
    if module is None:
        gradients = vectorised.backward(query, key, value, output, grad, lse, dlse, schedule, softmax_scale)
    else:
        gradients = Gradients(*(torch.empty_like(x) for x in (query, key, value)))
        arrays = (query, key, value, output, grad, lse.contiguous(), dlse.contiguous(), *gradients)
        module.backward(
            _layout(schedule.problem, q.shape[-1]),
            _tables(schedule),
            *(x.numpy() for x in arrays),
            softmax_scale,
            threads or torch.get_num_threads(),
            deterministic,
            jitter,
            list(timeline or ()),
        )
    return Gradients(*(g.to(x.dtype) for g, x in zip(gradients, (q, k, v), strict=True)))


def _layout(problem: Problem, head_dim: int) -> Layout:
    module = native_module()
    assert module is not None
    cu_q, cu_k = (np.concatenate([[0], np.cumsum(n)]).astype(np.int64) for n in (problem.seqlens_q, problem.seqlens_k))
    heads = (problem.num_heads, problem.num_heads_kv)
    return module.Layout(cu_q, cu_k, *heads, head_dim, *problem.window, problem.block_m, problem.block_n)


@lru_cache(maxsize=8)
def _tables(schedule: Schedule) -> Tables:
    """The schedule as the compiled module reads it; made once a schedule, since every training step asks for it."""
    module = native_module()
    assert module is not None
    unit = np.repeat(np.arange(len(schedule.unit_start) - 1), np.diff(schedule.unit_start))
    claim = all((unit[before] <= unit)[before >= 0].all() for before in schedule.before)
    columns = (schedule.head, schedule.kv, schedule.q, schedule.wait)
    lane_task = np.argsort(schedule.task_sm, kind="stable").astype(np.int64)
    per_lane = np.bincount(schedule.task_sm, minlength=schedule.problem.num_sms)
    lane_start = np.concatenate([[0], np.cumsum(per_lane)]).astype(np.int64)
    return module.Tables(*columns, schedule.unit_start, lane_start, lane_task, claim)
