"""Whether a schedule can be run: complete, in whole chains, every turn taken once, and free of deadlock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from octavo_dash.longest_path import STEP, run_fixed
from octavo_dash.schedules.base import ScheduleError

if TYPE_CHECKING:
    from octavo_dash.schedule import Schedule


def validate(schedule: Schedule) -> None:
    """Checks a schedule; see `Schedule.validate`."""
    _complete(schedule)
    _whole_chains(schedule)
    _every_turn_once(schedule)
    if schedule.dynamic:
        _launch_order(schedule)
    _acyclic(schedule)


def task_name(schedule: Schedule, task: int) -> str:
    """A task as a reader would name it."""
    sequence, head = divmod(int(schedule.head[task]), schedule.problem.num_heads)
    return f"(sequence {sequence}, head {head}, key tile {schedule.kv[task]}, query tile {schedule.q[task]})"


def _complete(schedule: Schedule) -> None:
    problem = schedule.problem
    if problem.num_tasks != schedule.num_tasks:
        raise ScheduleError(
            f"schedule {schedule.name!r} has {schedule.num_tasks} tasks, the problem {problem.num_tasks}"
        )
    for sequence, geometry in enumerate(problem.geometries):
        mine = schedule.head // problem.num_heads == sequence
        kv, q = schedule.kv[mine], schedule.q[mine]
        if len(kv) and (kv.min() < 0 or kv.max() >= geometry.num_kv_tiles):
            raise ScheduleError(f"schedule {schedule.name!r} names a key tile outside sequence {sequence}")
        ranges = geometry.q_ranges[kv]
        outside = np.flatnonzero((q < ranges[:, 0]) | (q >= ranges[:, 1]))
        if len(outside):
            task = int(np.flatnonzero(mine)[outside[0]])
            raise ScheduleError(f"schedule {schedule.name!r} has a task without work: {task_name(schedule, task)}")
    rows = np.stack([schedule.head, schedule.kv, schedule.q])
    in_order = np.lexsort(rows)
    repeated = np.flatnonzero((np.diff(rows[:, in_order]) == 0).all(axis=0))
    if len(repeated):
        task = int(in_order[repeated[0]])
        raise ScheduleError(f"schedule {schedule.name!r} has a task twice: {task_name(schedule, task)}")


def _whole_chains(schedule: Schedule) -> None:
    first = schedule.chain_start[:-1]
    chains = list(zip(schedule.head[first].tolist(), schedule.kv[first].tolist(), strict=True))
    if len(set(chains)) != len(chains):
        head, kv = next(chain for chain in chains if chains.count(chain) > 1)
        raise ScheduleError(f"schedule {schedule.name!r} leaves key tile {kv} of head {head} and comes back to it")
    if not np.isin(schedule.unit_start[:-1], schedule.chain_start).all():
        raise ScheduleError(f"schedule {schedule.name!r} splits a chain between two units")


def _every_turn_once(schedule: Schedule) -> None:
    by_turn = np.lexsort((schedule.wait, schedule.q_tile))
    tile, wait = schedule.q_tile[by_turn], schedule.wait[by_turn]
    starts = np.flatnonzero(np.concatenate([[True], np.diff(tile) != 0])) if len(tile) else np.zeros(0, dtype=int)
    turn = np.arange(len(tile)) - np.repeat(starts, np.diff(np.append(starts, len(tile))))
    wrong = np.flatnonzero(wait != turn)
    if len(wrong):
        task = int(by_turn[wrong[0]])
        raise ScheduleError(
            f"schedule {schedule.name!r}: turns at a query tile must be 0, 1, 2, …; turn {schedule.wait[task]} is "
            f"repeated or left out at {task_name(schedule, task)}"
        )


def _launch_order(schedule: Schedule) -> None:
    """Units that are taken by whoever is free must wait for earlier ones only, or few workers would hang."""
    for before in schedule.before:
        late = np.flatnonzero(before >= np.arange(schedule.num_tasks))
        if len(late):
            task = int(late[0])
            raise ScheduleError(
                f"schedule {schedule.name!r}: {task_name(schedule, task)} waits for "
                f"{task_name(schedule, int(before[task]))}, which is launched later"
            )


def _acyclic(schedule: Schedule) -> None:
    stuck = np.flatnonzero(np.isnan(run_fixed(schedule.task_sm, schedule.before, STEP).end))
    if len(stuck):
        cycle = smallest_cycle(schedule, stuck.tolist())
        path = " → ".join(task_name(schedule, task) for task in cycle)
        raise ScheduleError(f"schedule {schedule.name!r} waits for itself through {len(cycle)} tasks: {path}")


def smallest_cycle(schedule: Schedule, stuck: Iterable[int]) -> list[int]:
    """The shortest cycle among tasks that cannot run, each waiting for the next: breadth first from every one."""
    remaining = set(stuck)
    on_worker: dict[int, int] = {}
    last: dict[int, int] = {}
    for task in sorted(remaining):
        worker = int(schedule.task_sm[task])
        on_worker[task] = last.get(worker, -1)
        last[worker] = task
    waits_for = {
        task: [b for b in (on_worker[task], *(int(before[task]) for before in schedule.before)) if b in remaining]
        for task in remaining
    }
    best: list[int] = []
    for start in sorted(remaining):
        found = _shortest_return(start, waits_for, len(best) or len(remaining) + 1)
        best = found or best
    return best


def _shortest_return(start: int, waits_for: dict[int, list[int]], shorter_than: int) -> list[int]:
    came_from = {start: -1}
    queue = deque([(start, 1)])
    while queue:
        task, length = queue.popleft()
        if length >= shorter_than:
            return []
        for following in waits_for[task]:
            if following == start:
                path = [task]
                while came_from[path[-1]] >= 0:
                    path.append(came_from[path[-1]])
                return path[::-1]
            if following not in came_from:
                came_from[following] = task
                queue.append((following, length + 1))
    return []
