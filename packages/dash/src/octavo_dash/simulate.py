"""Running a schedule on paper: when each task starts and ends, and what the makespan hangs on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from octavo_dash.longest_path import STEP, Before, Costs, run_dynamic, run_fixed
from octavo_dash.schedule import Schedule
from octavo_dash.schedules import ScheduleError


@dataclass(frozen=True, eq=False)
class Trace:
    """A schedule in time.

    Attributes:
        schedule: What was run.
        costs: What tasks cost.
        start: When the products of each task start: float64, `[tasks]`.
        reduce_start: When each task may add to dQ.
        end: When it has.
        unit_sm: The worker of each unit: int32, `[units]`.
    """

    schedule: Schedule
    costs: Costs
    start: np.ndarray
    reduce_start: np.ndarray
    end: np.ndarray
    unit_sm: np.ndarray

    @property
    def makespan(self) -> float:
        """When the last task ends."""
        return float(self.end.max(initial=0.0))

    @cached_property
    def task_sm(self) -> np.ndarray:
        """The worker of each task: int32, `[tasks]`."""
        return np.repeat(self.unit_sm, np.diff(self.schedule.unit_start))

    @cached_property
    def per_sm_busy(self) -> np.ndarray:
        """How long each worker computes or adds: float64, `[num_sms]`."""
        return self.costs.task * np.bincount(self.task_sm, minlength=self.schedule.problem.num_sms)

    @cached_property
    def stalls(self) -> np.ndarray:
        """How long each task waits for its turn to add: float64, `[tasks]`."""
        return self.reduce_start - self.start - self.costs.compute

    @property
    def bubble_fraction(self) -> float:
        """The part of all workers' time in which nothing is done."""
        available = self.makespan * self.schedule.problem.num_sms
        return 1.0 - float(self.per_sm_busy.sum()) / available if available else 0.0

    @cached_property
    def critical_path(self) -> tuple[int, ...]:
        """The tasks that the makespan hangs on, first to last: each starts or adds when the one before lets it."""
        if not self.schedule.num_tasks:
            return ()
        before_on_sm = _before_on_worker(self.task_sm)
        task = int(np.argmax(self.end))
        path = [task]
        while True:
            waited = self.stalls[task] > 0
            task = int(self.schedule.dq_predecessor[task] if waited else before_on_sm[task])
            if task < 0:
                return tuple(reversed(path))
            path.append(task)


def simulate(schedule: Schedule, compute: float, reduce: float, sync: float = 0.0, *, native: bool = True) -> Trace:
    """Runs a schedule in the paper's model (section 3) and says when everything happens.

    A worker runs its tasks back to back: `compute`, then, as soon as the addition before it in the same dQ tile has
    ended and `sync` has passed, `reduce`. The makespan is the longest path of that graph. Under a dynamic schedule the
    worker that is free first takes the next unit, the lowest of them where several are.

    Args:
        schedule: What to run.
        compute: c.
        reduce: r.
        sync: ℓ.
        native: Whether the compiled module may do it; otherwise plain Python does, with the same result.

    Raises:
        ScheduleError: The schedule waits for itself.
        ValueError: Costs below zero.
    """
    costs, before = Costs(compute, reduce, sync), Before.dq_only(schedule.dq_predecessor)
    if schedule.dynamic:
        times, unit_sm = run_dynamic(schedule.unit_start, schedule.problem.num_sms, before, costs, native=native)
    else:
        unit_sm = schedule.unit_sm
        times = run_fixed(schedule.task_sm, before, costs, native=native)
    never = int(np.isnan(times.end).sum())
    if never:
        raise ScheduleError(f"schedule {schedule.name!r} waits for itself: {never} tasks never run")
    return Trace(schedule, costs, *times, unit_sm)


def levels(schedule: Schedule) -> list[np.ndarray]:
    """The tasks of each step if every chain had a worker of its own and tasks took one step: what can be done at once.

    No two tasks of a step share a chain or a dQ tile, and whatever a task waits for lies in an earlier step. Unlike
    the model of the paper this knows that heads of a group add to dK and dV in turn.
    """
    chain = np.repeat(np.arange(len(schedule.chain_start) - 1), np.diff(schedule.chain_start))
    step = run_fixed(chain, schedule.before, STEP).end.astype(np.int64) - 1
    return np.split(np.argsort(step, kind="stable"), np.cumsum(np.bincount(step))[:-1]) if len(step) else []


def _before_on_worker(task_sm: np.ndarray) -> np.ndarray:
    by_worker = np.argsort(task_sm, kind="stable")
    before = np.full(len(task_sm), -1, dtype=np.int64)
    same = np.diff(task_sm[by_worker]) == 0
    before[by_worker[1:][same]] = by_worker[:-1][same]
    return before
