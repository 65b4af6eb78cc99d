"""A schedule, and the tiles of a problem, as the kernels read them."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from octavo_dash.problem import Problem
from octavo_dash.schedule import Schedule
from octavo_dash.simulate import levels

CHAIN_FIELDS = 16
"""int32 fields of a chain; see `_chains`. A power of two keeps each chain's fields in one sector of the cache."""


class Tables(NamedTuple):
    """A schedule on a device. All int32.

    Attributes:
        task_q: Query tile of each task, within its sequence: `[tasks]`.
        task_wait: How many contributions to that query tile come before: `[tasks]`.
        task_chain: Chain of each task: `[tasks]`.
        chains: What there is to know about each chain: `[chains, CHAIN_FIELDS]`.
        queue_start: Where each queue starts in `queue_chain`: `[queues + 1]`. A queue is what one CTA does in one go:
            all chains of a worker, or, where whoever is free takes the next unit, those of a unit.
        queue_chain: Chains, queue by queue: `[chains]`.
        num_queues: The number of queues.
        num_q_tiles: Query tiles over all sequences and heads.
        num_kv_tiles: Key tiles over all sequences and key heads.
        covers_all_keys: Whether every key tile has a chain of every head, so that all of dK and dV gets written.
    """

    task_q: Tensor
    task_wait: Tensor
    task_chain: Tensor
    chains: Tensor
    queue_start: Tensor
    queue_chain: Tensor
    num_queues: int
    num_q_tiles: int
    num_kv_tiles: int
    covers_all_keys: bool


@lru_cache(maxsize=8)
def schedule_tables(schedule: Schedule, device: torch.device) -> Tables:
    """The tables of a schedule, checked and copied to the device once: every training step asks for them.

    Raises:
        ScheduleError: The schedule is incomplete or waits for itself; on a GPU it would hang.
    """
    schedule.validate()
    problem = schedule.problem
    queues = _queues(schedule)
    task_chain = np.repeat(np.arange(len(schedule.chain_start) - 1), np.diff(schedule.chain_start))
    num_kv_tiles = problem.num_heads_kv * sum(g.num_kv_tiles for g in problem.geometries)

    def on_device(values: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values, dtype=np.int32)).to(device)

    return Tables(
        task_q=on_device(schedule.q),
        task_wait=on_device(schedule.wait),
        task_chain=on_device(task_chain),
        chains=on_device(_chains(schedule)),
        queue_start=on_device(np.concatenate([[0], np.cumsum([len(q) for q in queues])])),
        queue_chain=on_device(np.concatenate([*queues, np.zeros(0)])),
        num_queues=len(queues),
        num_q_tiles=int(problem.q_tile_offsets[-1]),
        num_kv_tiles=num_kv_tiles,
        covers_all_keys=len(schedule.chain_start) - 1 == num_kv_tiles * problem.group_size,
    )


def _chains(schedule: Schedule) -> np.ndarray:
    """What there is to know about each chain.

    Fields: first task, end, key tile, head, token where its queries start, where its keys start, number of queries, of
    keys, first query tile of the head over all heads, key tile over all key heads, turn within the group.
    """
    problem = schedule.problem
    chains = np.zeros((len(schedule.chain_start) - 1, CHAIN_FIELDS), dtype=np.int64)
    first = schedule.chain_start[:-1]
    sequence, head = np.divmod(schedule.head[first].astype(np.int64), problem.num_heads)
    kv = schedule.kv[first].astype(np.int64)
    lengths_q, lengths_k = (np.array(x, dtype=np.int64) for x in (problem.seqlens_q, problem.seqlens_k))
    tiles = np.array([g.num_kv_tiles for g in problem.geometries], dtype=np.int64)
    head_kv, member = np.divmod(head, problem.group_size)
    kv_offset = (np.cumsum(tiles) - tiles)[sequence] * problem.num_heads_kv + head_kv * tiles[sequence]
    columns = (
        first,
        schedule.chain_start[1:],
        kv,
        head,
        (np.cumsum(lengths_q) - lengths_q)[sequence],
        (np.cumsum(lengths_k) - lengths_k)[sequence],
        lengths_q[sequence],
        lengths_k[sequence],
        problem.q_tile_offsets[schedule.head[first]],
        kv_offset + kv,
        _turns_in_group(schedule, member),
    )
    for field, column in enumerate(columns):
        chains[:, field] = column
    return chains


def _turns_in_group(schedule: Schedule, member: np.ndarray) -> np.ndarray:
    """How many heads of its group add to a chain's dK and dV before it: all earlier ones, which see the same tiles."""
    before = schedule.dkv_predecessor[schedule.chain_start[1:] - 1]
    assert ((before >= 0) == (member > 0)).all()
    return member


def _queues(schedule: Schedule) -> list[np.ndarray]:
    unit_chain = np.searchsorted(schedule.chain_start, schedule.unit_start)
    units = [np.arange(first, end) for first, end in pairwise(unit_chain)]
    if schedule.dynamic:
        return units
    workers: dict[int, list[np.ndarray]] = {}
    for unit, worker in enumerate(schedule.unit_sm.tolist()):
        workers.setdefault(worker, []).append(units[unit])
    return [np.concatenate(workers[worker]) for worker in sorted(workers)]


@lru_cache(maxsize=8)
def level_tables(schedule: Schedule, device: torch.device) -> tuple[Tensor, ...]:
    """The tasks of each step of `levels(schedule)`: int32."""
    return tuple(torch.from_numpy(level.astype(np.int32)).to(device) for level in levels(schedule))


class RowTiles(NamedTuple):
    """The tiles of packed rows: int32 `[tiles, 4]` of start token, first row, length of the sequence and head."""

    table: Tensor
    num_tiles: int


@lru_cache(maxsize=32)
def row_tiles(seqlens: tuple[int, ...], num_heads: int, block: int, device: torch.device) -> RowTiles:
    """All tiles of all heads: sequence by sequence, in it head by head, as accumulators number them."""
    start, rows = 0, []
    for length in seqlens:
        first = np.arange(0, length, block)
        head, first = (x.ravel() for x in np.meshgrid(np.arange(num_heads), first, indexing="ij"))
        rows.append(np.stack([np.full_like(first, start), first, np.full_like(first, length), head], axis=1))
        start += length
    table = np.concatenate([*rows, np.zeros((0, 4))]).astype(np.int32)
    return RowTiles(torch.from_numpy(table).to(device), len(table))


@lru_cache(maxsize=32)
def forward_tiles(problem: Problem, block_m: int, device: torch.device) -> RowTiles:
    """The query tiles of the forward pass with the keys they belong to: int32 `[tiles, 8]`.

    The fields of `row_tiles`, then the token where the sequence's keys start, and their number. The tiles with most
    keys in sight come first, so that the last CTAs to finish are the short ones.
    """
    queries, count = row_tiles(problem.seqlens_q, problem.num_heads, block_m, torch.device("cpu"))
    lengths_k = np.array(problem.seqlens_k, dtype=np.int64)
    per_sequence = [problem.num_heads * -(-length // block_m) for length in problem.seqlens_q]
    sequence = np.repeat(np.arange(problem.batch), per_sequence)
    table = np.zeros((count, 8), dtype=np.int32)
    table[:, :4] = queries.numpy()
    table[:, 4] = (np.cumsum(lengths_k) - lengths_k)[sequence]
    table[:, 5] = lengths_k[sequence]
    last_row = np.minimum(table[:, 1] + block_m, table[:, 2]) + table[:, 5] - table[:, 2]
    keys = np.minimum(last_row, table[:, 5]) if problem.window[1] >= 0 else table[:, 5]
    return RowTiles(torch.from_numpy(table[np.argsort(-keys, kind="stable")]).to(device), count)
