"""What launches have in common: offsets and tables on the device, and the constants that a kernel is compiled for."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from octavo_dash.problem import Problem
from octavo_dash.schedule import Schedule


class Offsets(NamedTuple):
    """Where sequences and tiles start, int32 on the device.

    Attributes:
        cu_q: First query of each sequence, `[batch + 1]`.
        cu_k: First key of each sequence.
        q_tile_offset: First query tile of each head in a table over all heads, `[batch * heads + 1]`.
        kv_tile_offset: First key tile of each key head, `[batch * heads_kv + 1]`.
        tile_head: Head of each query tile.
        tile_q: Number of each query tile in its head.
    """

    cu_q: Tensor
    cu_k: Tensor
    q_tile_offset: Tensor
    kv_tile_offset: Tensor
    tile_head: Tensor
    tile_q: Tensor


@lru_cache(maxsize=64)
def problem_offsets(problem: Problem, device: torch.device) -> Offsets:
    """The offsets of a problem, copied to a device once."""
    q_tiles = np.repeat([g.num_q_tiles for g in problem.geometries], problem.num_heads).astype(np.int64)
    kv_tiles = np.repeat([g.num_kv_tiles for g in problem.geometries], problem.num_heads_kv).astype(np.int64)
    tile_q = np.concatenate([np.arange(tiles) for tiles in q_tiles] or [np.zeros(0)])
    arrays = (
        _starts(problem.seqlens_q),
        _starts(problem.seqlens_k),
        _starts(q_tiles),
        _starts(kv_tiles),
        np.repeat(np.arange(len(q_tiles)), q_tiles),
        tile_q,
    )
    return Offsets(*(_on(device, array) for array in arrays))


class Tables(NamedTuple):
    """A schedule on the device, int32.

    Attributes:
        chain_start: First task of each chain, `[chains + 1]`.
        chain_head: Head of each chain.
        chain_kv: Key tile of each chain.
        task_q: Query tile of each task.
        task_wait: Turn of each task.
        task_chain: Chain of each task.
        worker_start: First chain of each worker in `worker_chain`, `[workers + 1]`.
        worker_chain: The chains of all workers, each in launch order.
    """

    chain_start: Tensor
    chain_head: Tensor
    chain_kv: Tensor
    task_q: Tensor
    task_wait: Tensor
    task_chain: Tensor
    worker_start: Tensor
    worker_chain: Tensor


@lru_cache(maxsize=64)
def schedule_tables(schedule: Schedule, device: torch.device) -> Tables:
    """The tables of a schedule, checked and copied to a device once: a training loop pays for them in its first step."""
    schedule.validate()
    first = schedule.chain_start[:-1]
    chain_sm = schedule.task_sm[first]
    lengths = np.diff(schedule.chain_start)
    arrays = (
        schedule.chain_start,
        schedule.head[first],
        schedule.kv[first],
        schedule.q,
        schedule.wait,
        np.repeat(np.arange(len(first)), lengths),
        _starts(np.bincount(chain_sm, minlength=schedule.problem.num_sms)),
        np.argsort(chain_sm, kind="stable"),
    )
    return Tables(*(_on(device, array) for array in arrays))


def constants(problem: Problem, q: Tensor) -> dict[str, Any]:
    """The compile-time arguments that every kernel shares."""
    head_dim = q.shape[-1]
    return {
        "HEADS": problem.num_heads,
        "GROUP": problem.group_size,
        "HEAD_DIM": head_dim,
        "BLOCK_D": 1 << (head_dim - 1).bit_length(),
        "BLOCK_M": problem.block_m,
        "BLOCK_N": problem.block_n,
        "LEFT": problem.window[0],
        "RIGHT": problem.window[1],
        "PRECISION": "ieee" if q.dtype == torch.float32 else "tf32",
    }


def masked(problem: Problem) -> bool:
    """Whether any tile must be masked: a window, or a length that is no multiple of its tile."""
    even = all(n % problem.block_m == 0 for n in problem.seqlens_q) and all(
        n % problem.block_n == 0 for n in problem.seqlens_k
    )
    return not (even and problem.window == (-1, -1))


def _starts(lengths: Any) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)])


def _on(device: torch.device, array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.int32)).to(device)
