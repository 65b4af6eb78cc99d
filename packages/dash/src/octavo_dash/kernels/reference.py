"""Attention as its formula says, line by line: what every kernel is held against."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from octavo_dash.kernels.gradients import Gradients
from octavo_dash.longest_path import STEP, run_fixed
from octavo_dash.problem import UNBOUNDED, Geometry, Problem
from octavo_dash.schedule import Schedule
from octavo_shared.arrays import Bool, Float, Int


def visible(geometry: Geometry, device: torch.device | str = "cpu") -> Bool[Tensor, "seqlen_q seqlen_k"]:
    """Which keys each query of a sequence sees: `-left ≤ j - (i + len_k - len_q) ≤ right`."""
    row = torch.arange(geometry.seqlen_q, device=device)[:, None]
    column = torch.arange(geometry.seqlen_k, device=device)[None, :]
    return within(column - (row + geometry.diagonal), geometry.window)


def within(distance: Int[Tensor, "*shape"], window: tuple[int, int]) -> Bool[Tensor, "*shape"]:
    """Whether a key at this distance from a query's diagonal position lies in the window."""
    left, right = window
    seen = torch.ones_like(distance, dtype=torch.bool)
    if left != UNBOUNDED:
        seen &= distance >= -left
    if right != UNBOUNDED:
        seen &= distance <= right
    return seen


def attention(
    q: Float[Tensor, "total_q heads head_dim"],
    k: Float[Tensor, "total_k heads_kv head_dim"],
    v: Float[Tensor, "total_k heads_kv head_dim"],
    problem: Problem,
    softmax_scale: float,
) -> Float[Tensor, "total_q heads head_dim"]:
    """softmax(scale · Q Kᵀ) V for every sequence and head, through autograd; a query that sees no key gets zeros."""
    out, start_q, start_k = [], 0, 0
    for geometry in problem.geometries:
        end_q, end_k = start_q + geometry.seqlen_q, start_k + geometry.seqlen_k
        query = q[start_q:end_q].transpose(0, 1)
        key, value = (x[start_k:end_k].repeat_interleave(problem.group_size, dim=1).transpose(0, 1) for x in (k, v))
        seen = visible(geometry, q.device)
        scores = (softmax_scale * query @ key.transpose(1, 2)).masked_fill(~seen, -torch.inf)
        probability = torch.softmax(scores.masked_fill(~seen.any(dim=1, keepdim=True), 0.0), dim=-1)
        probability = probability.masked_fill(~seen, 0.0)
        out.append((probability @ value).transpose(0, 1))
        start_q, start_k = end_q, end_k
    return torch.cat(out) if out else torch.zeros_like(q)


def backward_in_order(
    q: Float[Tensor, "total_q heads head_dim"],
    k: Float[Tensor, "total_k heads_kv head_dim"],
    v: Float[Tensor, "total_k heads_kv head_dim"],
    out: Float[Tensor, "total_q heads head_dim"],
    dout: Float[Tensor, "total_q heads head_dim"],
    lse: Float[Tensor, "heads total_q"],
    dlse: Float[Tensor, "heads total_q"],
    schedule: Schedule,
    softmax_scale: float,
) -> Gradients:
    """The gradients, task after task as an SM would, in an order in which every task finds its turn.

    One tile at a time, five products each (section 2 of the paper): the loop that every executor must agree with.
    """
    problem = schedule.problem
    dq, dk, dv = (torch.zeros_like(x) for x in (q, k, v))
    delta = (out * dout).sum(dim=-1) - dlse.transpose(0, 1)
    step = run_fixed(schedule.task_sm, schedule.before, STEP).end
    start_q, start_k = (np.concatenate([[0], np.cumsum(n)]) for n in (problem.seqlens_q, problem.seqlens_k))
    chain = np.repeat(np.arange(len(schedule.chain_start) - 1), np.diff(schedule.chain_start))
    partial: dict[int, tuple[Tensor, Tensor]] = {}
    for task in np.argsort(step, kind="stable").tolist():
        sequence, head = divmod(int(schedule.head[task]), problem.num_heads)
        geometry, head_kv = problem.geometries[sequence], head // problem.group_size
        first_q, first_k = int(schedule.q[task]) * problem.block_m, int(schedule.kv[task]) * problem.block_n
        end_q, end_k = (
            min(first_q + problem.block_m, geometry.seqlen_q),
            min(first_k + problem.block_n, geometry.seqlen_k),
        )
        rows = slice(start_q[sequence] + first_q, start_q[sequence] + end_q)
        columns = slice(start_k[sequence] + first_k, start_k[sequence] + end_k)
        query, key, value, grad = q[rows, head], k[columns, head_kv], v[columns, head_kv], dout[rows, head]
        distance = torch.arange(first_k, end_k) - torch.arange(first_q, end_q)[:, None] - geometry.diagonal
        p = torch.exp(softmax_scale * query @ key.T - lse[head, rows, None])
        p = torch.where(within(distance, problem.window), p, 0)
        ds = p * (grad @ value.T - delta[rows, head, None])
        dk_j, dv_j = partial.get(chain[task]) or (torch.zeros_like(key), torch.zeros_like(value))
        partial[chain[task]] = dk_j + ds.T @ query, dv_j + p.T @ grad
        dq[rows, head] += ds @ key
        if task + 1 == schedule.chain_start[chain[task] + 1]:
            dk_j, dv_j = partial.pop(chain[task])
            dk[columns, head_kv] += softmax_scale * dk_j
            dv[columns, head_kv] += dv_j
    return Gradients(softmax_scale * dq, dk, dv)
