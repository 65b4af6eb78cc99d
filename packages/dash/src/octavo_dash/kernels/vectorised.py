"""The tasks of a schedule as batched PyTorch products, a step at a time: what runs where nothing is compiled."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from octavo_dash.kernels.gradients import Gradients
from octavo_dash.kernels.reference import visible, within
from octavo_dash.problem import Problem
from octavo_dash.schedule import Schedule
from octavo_dash.simulate import levels
from octavo_shared.arrays import Float


def forward(
    q: Float[Tensor, "total_q heads head_dim"],
    k: Float[Tensor, "total_k heads_kv head_dim"],
    v: Float[Tensor, "total_k heads_kv head_dim"],
    problem: Problem,
    softmax_scale: float,
) -> tuple[Float[Tensor, "total_q heads head_dim"], Float[Tensor, "heads total_q"]]:
    """Output and log-sum-exp, a block of query rows of all heads at a time."""
    out, lse = torch.zeros_like(q), q.new_full((q.shape[1], q.shape[0]), -torch.inf)
    start_q, start_k = 0, 0
    for geometry in problem.geometries:
        key, value = (
            x[start_k : start_k + geometry.seqlen_k].repeat_interleave(problem.group_size, dim=1).transpose(0, 1)
            for x in (k, v)
        )
        seen = visible(geometry, q.device)
        for first in range(0, geometry.seqlen_q if geometry.seqlen_k else 0, 512):
            rows = slice(start_q + first, start_q + min(first + 512, geometry.seqlen_q))
            scores = softmax_scale * q[rows].transpose(0, 1) @ key.transpose(1, 2)
            scores = scores.masked_fill(~seen[first : first + 512], -torch.inf)
            lse[:, rows] = torch.logsumexp(scores, dim=-1)
            probability = torch.exp(scores - lse[:, rows, None]).nan_to_num(0.0)
            out[rows] = (probability @ value).transpose(0, 1)
        start_q, start_k = start_q + geometry.seqlen_q, start_k + geometry.seqlen_k
    return out, lse


class _Tiles(NamedTuple):
    """Where the tokens of each tile of each head are, and how the tiles of a task are found."""

    token: Tensor
    inside: Tensor
    position: Tensor
    head: Tensor

    def gather(self, packed: Tensor) -> Tensor:
        """`[tokens, heads, ...]` to `[tiles, block, ...]`, zero outside the sequence."""
        tiles = packed[self.token, self.head[:, None]]
        return torch.where(self.inside.reshape(*self.inside.shape, *[1] * (tiles.ndim - 2)), tiles, 0)

    def scatter(self, tiles: Tensor, packed: Tensor) -> Tensor:
        """Back to `[tokens, heads, head_dim]`."""
        head = self.head[:, None].expand_as(self.token)[self.inside]
        packed[self.token[self.inside], head] = tiles[self.inside]
        return packed


def _tiles(seqlens: tuple[int, ...], heads: int, block: int, device: torch.device) -> _Tiles:
    token, inside, position, head, start = [], [], [], [], 0
    for length in seqlens:
        tiles = -(-length // block)
        where = torch.arange(tiles * block, device=device).reshape(tiles, block).repeat(heads, 1)
        position.append(where)
        inside.append(where < length)
        token.append(start + where.clamp(max=max(0, length - 1)))
        head.append(torch.arange(heads, device=device).repeat_interleave(tiles))
        start += length
    empty = torch.zeros(0, block, dtype=torch.int64, device=device)
    return _Tiles(
        torch.cat([empty, *token]),
        torch.cat([empty.bool(), *inside]),
        torch.cat([empty, *position]),
        torch.cat([empty[:, 0], *head]),
    )


def backward(
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
    """The gradients, with every step of `levels(schedule)` as one batch.

    No two tasks of a step add to the same dQ tile or belong to the same chain, so that each step is a plain addition
    and the order of additions is that of the schedule.
    """
    problem, device = schedule.problem, q.device
    queries = _tiles(problem.seqlens_q, problem.num_heads, problem.block_m, device)
    keys = _tiles(problem.seqlens_k, problem.num_heads_kv, problem.block_n, device)
    q_tiles, dout_tiles = queries.gather(q), queries.gather(dout)
    k_tiles, v_tiles = keys.gather(k), keys.gather(v)
    lse_tiles, delta_tiles = (
        queries.gather(lse.transpose(0, 1)),
        queries.gather((out * dout).sum(dim=-1) - dlse.transpose(0, 1)),
    )
    dq, dk, dv = (torch.zeros_like(x) for x in (q_tiles, k_tiles, v_tiles))
    task_q, task_kv, task_chain, task_diagonal = _indices(schedule, device)
    chains = len(schedule.chain_start) - 1
    dk_chain, dv_chain = (x.new_zeros(chains, *x.shape[1:]) for x in (dk, dv))
    flush = torch.zeros(schedule.num_tasks, dtype=torch.bool, device=device)
    flush[torch.from_numpy(schedule.chain_start[1:] - 1).to(device)] = True
    for level in levels(schedule):
        tasks = torch.from_numpy(level).to(device)
        i, j, chain = task_q[tasks], task_kv[tasks], task_chain[tasks]
        distance = keys.position[j][:, None, :] - queries.position[i][:, :, None] - task_diagonal[tasks, None, None]
        seen = within(distance, problem.window) & queries.inside[i][:, :, None] & keys.inside[j][:, None, :]
        scores = softmax_scale * q_tiles[i] @ k_tiles[j].transpose(1, 2)
        p = torch.where(seen, torch.exp(scores - lse_tiles[i][..., None]), 0)
        ds = p * (dout_tiles[i] @ v_tiles[j].transpose(1, 2) - delta_tiles[i][..., None])
        dv_chain[chain] += p.transpose(1, 2) @ dout_tiles[i]
        dk_chain[chain] += ds.transpose(1, 2) @ q_tiles[i]
        dq[i] += ds @ k_tiles[j]
        done = flush[tasks]
        dk[j[done]] += softmax_scale * dk_chain[chain[done]]
        dv[j[done]] += dv_chain[chain[done]]
    return Gradients(
        queries.scatter(softmax_scale * dq, torch.zeros_like(q)),
        keys.scatter(dk, torch.zeros_like(k)),
        keys.scatter(dv, torch.zeros_like(v)),
    )


def _indices(schedule: Schedule, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """For each task its query tile and key tile over all heads, its chain, and the diagonal of its sequence."""
    problem = schedule.problem
    q_tile = torch.from_numpy(schedule.q_tile)
    tiles = torch.tensor([g.num_kv_tiles for g in problem.geometries], dtype=torch.int64).repeat_interleave(
        problem.num_heads_kv
    )
    offsets = torch.cat([tiles.new_zeros(1), tiles.cumsum(0)])
    head = torch.from_numpy(schedule.head).long()
    kv_tile = offsets[head // problem.group_size] + torch.from_numpy(schedule.kv)
    lengths = torch.from_numpy(schedule.chain_start).diff()
    chain = torch.arange(len(lengths)).repeat_interleave(lengths)
    diagonal = torch.tensor([g.diagonal for g in problem.geometries], dtype=torch.int64)[head // problem.num_heads]
    return q_tile.to(device), kv_tile.to(device), chain.to(device), diagonal.to(device)
