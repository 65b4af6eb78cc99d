"""The longest path through a graph of tasks: workers in program order, additions in their order."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from octavo_dash.native import native_module


@dataclass(frozen=True)
class Costs:
    """How long the two parts of a task take, in any one unit of time.

    Attributes:
        compute: c, the products of a task; its worker does not wait for anybody meanwhile.
        reduce: r, the addition to dQ.
        sync: ℓ, from the end of an addition until the next worker sees it. The paper has 0; INFERRED from its
            measurements at long sequences, where signals cross the chip.

    Raises:
        ValueError: A negative number, or tasks that take no time at all.
    """

    compute: float = 4.0
    reduce: float = 1.0
    sync: float = 0.0

    def __post_init__(self) -> None:
        for name in ("compute", "reduce", "sync"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be a finite number of at least 0; got {getattr(self, name)}")
        if self.compute + self.reduce == 0:
            raise ValueError("compute and reduce must not both be 0")

    @property
    def task(self) -> float:
        """What a task takes that does not wait, c + r."""
        return self.compute + self.reduce


STEP = Costs(compute=0.0, reduce=1.0)
"""One unit of time a task: the longest path then counts steps."""


class Before(NamedTuple):
    """What a task waits for besides its worker: task numbers or -1, int64, `[tasks]`.

    Attributes:
        dq: The task that adds to the same dQ tile just before.
        dkv: The task that must have added to the same dK and dV before, with grouped heads.
    """

    dq: np.ndarray
    dkv: np.ndarray

    @classmethod
    def dq_only(cls, dq: np.ndarray) -> Before:
        """The edges of the paper's model, which has no grouped heads."""
        return cls(dq, np.full_like(dq, -1))


class Times(NamedTuple):
    """When each task starts, may add, and has added: float64, `[tasks]`; NaN for a task that never runs."""

    start: np.ndarray
    reduce_start: np.ndarray
    end: np.ndarray

    @classmethod
    def unknown(cls, tasks: int) -> Times:
        """The times of tasks that have not run."""
        return cls(*(np.full(tasks, np.nan) for _ in range(3)))


def run_fixed(worker: np.ndarray, before: Before, costs: Costs, *, native: bool = True) -> Times:
    """Runs tasks on given workers; each worker takes its own in increasing order of their numbers.

    `reduce_start = max(start + c, end(before.dq) + ℓ, end(before.dkv))`, `end = reduce_start + r`. Tasks on a cycle, or
    behind one, never run.

    Args:
        worker: The worker of each task, counted from 0: integers, `[tasks]`.
        before: What each task waits for.
        costs: What tasks cost.
        native: Whether the compiled module may do it; otherwise plain Python does, with the same result.
    """
    times = Times.unknown(len(worker))
    tasks = np.argsort(worker, kind="stable").astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(np.bincount(worker, minlength=1))]).astype(np.int64)
    module = native_module() if native else None
    if module:
        module.run_fixed(starts, tasks, *before, costs.compute, costs.reduce, costs.sync, *times)
    else:
        _run_fixed(starts, tasks, before, costs, times)
    return times


def run_dynamic(
    unit_start: np.ndarray, num_workers: int, before: Before, costs: Costs, *, native: bool = True
) -> tuple[Times, np.ndarray]:
    """Runs units in launch order, each on the worker that is free first, the lowest of them where several are.

    Units may wait for earlier ones only; from a task that waits for a later one on, nothing runs.

    Args:
        unit_start: Where the tasks of each unit start: int64, `[units + 1]`.
        num_workers: The number of workers.
        before: What each task waits for; `before.dkv` is not looked at.
        costs: What tasks cost.
        native: Whether the compiled module may do it.

    Returns:
        The times, and the worker of each unit: int32, `[units]`.
    """
    times = Times.unknown(len(before.dq))
    unit_worker = np.zeros(len(unit_start) - 1, dtype=np.int32)
    module = native_module() if native else None
    if module:
        weights = (costs.compute, costs.reduce, costs.sync)
        module.run_dynamic(unit_start, num_workers, before.dq, *weights, *times, unit_worker)
    else:
        _run_dynamic(unit_start, num_workers, before, costs, times, unit_worker)
    return times, unit_worker


def _finish(task: int, start: float, before: Before, costs: Costs, times: Times) -> float:
    ready = start + costs.compute
    if before.dq[task] >= 0:
        ready = max(ready, times.end[before.dq[task]] + costs.sync)
    if before.dkv[task] >= 0:
        ready = max(ready, times.end[before.dkv[task]])
    times.start[task], times.reduce_start[task], times.end[task] = start, ready, ready + costs.reduce
    return ready + costs.reduce


def _run_fixed(starts: np.ndarray, tasks: np.ndarray, before: Before, costs: Costs, times: Times) -> None:
    """Takes a worker as far as it gets, then the workers that were waiting for what it did."""
    position, clock = starts[:-1].tolist(), [0.0] * (len(starts) - 1)
    waiting: dict[int, list[int]] = {}
    ready = list(range(len(clock)))
    while ready:
        worker = ready.pop()
        while position[worker] < starts[worker + 1]:
            task = int(tasks[position[worker]])
            missing = [int(b[task]) for b in before if b[task] >= 0 and np.isnan(times.end[b[task]])]
            if missing:
                waiting.setdefault(missing[0], []).append(worker)
                break
            clock[worker] = _finish(task, clock[worker], before, costs, times)
            position[worker] += 1
            ready.extend(waiting.pop(task, ()))


def _run_dynamic(
    unit_start: np.ndarray, num_workers: int, before: Before, costs: Costs, times: Times, unit_worker: np.ndarray
) -> None:
    free = [(0.0, worker) for worker in range(num_workers)]
    for unit in range(len(unit_start) - 1):
        clock, unit_worker[unit] = free[0]
        for task in range(unit_start[unit], unit_start[unit + 1]):
            if before.dq[task] >= task:
                return
            clock = _finish(task, clock, Before.dq_only(before.dq), costs, times)
        heapq.heapreplace(free, (clock, int(unit_worker[unit])))
