"""Attention as its formula says, line by line: what every kernel is held against."""

from __future__ import annotations

import torch
from torch import Tensor

from octavo_shared.arrays import Bool, Float, Int

from octavo_dash.problem import UNBOUNDED, Geometry, Problem


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
