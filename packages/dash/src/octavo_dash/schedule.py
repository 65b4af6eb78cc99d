"""A schedule: the table that says which worker does which tile when, and in which order contributions are added."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from octavo_dash.longest_path import Before
from octavo_dash.problem import Problem
from octavo_dash.validation import validate


@dataclass(frozen=True, eq=False)
class Schedule:
    """The tasks of a problem in launch order, unit by unit, with the turn in which each may add to dQ.

    A task is a pair of a query tile and a key tile of a head. Consecutive tasks of one head and key tile form a
    *chain*, which keeps dK and dV of that tile; one chain or two form a *unit*, which one worker runs without a break.

    Attributes:
        problem: What is scheduled.
        names: The schedule of each sequence.
        order: `"canonical"` or `"wave"`: what the order of additions may depend on.
        head: Head of each task, `sequence * num_heads + h`: int32, `[tasks]`.
        kv: Key tile of each task: int32, `[tasks]`.
        q: Query tile of each task: int32, `[tasks]`.
        wait: How many contributions to dQ of that query tile are added before this one: int32, `[tasks]`.
        unit_start: Where the tasks of each unit start: int64, `[units + 1]`.
        unit_sm: The worker of each unit, which runs its units in launch order: int32, `[units]`.
        dynamic: Whether the worker that is free first takes the next unit. `unit_sm` is then one such assignment, the
            one for tasks of equal duration; the bits of the result do not depend on it.
        note: What the planner has to say about this schedule, if anything.
    """

    problem: Problem
    names: tuple[str, ...]
    order: str
    head: np.ndarray
    kv: np.ndarray
    q: np.ndarray
    wait: np.ndarray
    unit_start: np.ndarray
    unit_sm: np.ndarray
    dynamic: bool
    note: str = field(default="")

    @property
    def name(self) -> str:
        """The schedule's name; the names joined by `+` where sequences differ."""
        return "+".join(dict.fromkeys(self.names)) or "empty"

    @property
    def num_tasks(self) -> int:
        """The number of tile pairs with work."""
        return len(self.head)

    @cached_property
    def task_sm(self) -> np.ndarray:
        """The worker of each task: int32, `[tasks]`."""
        return np.repeat(self.unit_sm, np.diff(self.unit_start))

    @cached_property
    def q_tile(self) -> np.ndarray:
        """The query tile of each task, counted over all heads: int64, `[tasks]`."""
        return self.problem.q_tile_offsets[self.head] + self.q

    @cached_property
    def chain_start(self) -> np.ndarray:
        """Where the tasks of each chain start: int64, `[chains + 1]`."""
        if not self.num_tasks:
            return np.zeros(1, dtype=np.int64)
        changes = np.flatnonzero((np.diff(self.head) != 0) | (np.diff(self.kv) != 0)) + 1
        return np.concatenate([[0], changes, [self.num_tasks]]).astype(np.int64)

    @cached_property
    def exec(self) -> tuple[tuple[tuple[int, int, int], ...], ...]:
        """What each worker does, in order: tuples of (head, key tile, query tile)."""
        work: list[list[tuple[int, int, int]]] = [[] for _ in range(self.problem.num_sms)]
        for unit, sm in enumerate(self.unit_sm):
            span = slice(self.unit_start[unit], self.unit_start[unit + 1])
            work[sm].extend(zip(*(a[span].tolist() for a in (self.head, self.kv, self.q)), strict=True))
        return tuple(map(tuple, work))

    @cached_property
    def order_table(self) -> Mapping[tuple[int, int, int], tuple[int, ...]]:
        """For (sequence, head, query tile) the key tiles whose contributions are added to its dQ, in this order."""
        table: dict[tuple[int, int, int], list[int]] = {}
        for task in self._by_turn:
            sequence, head = divmod(int(self.head[task]), self.problem.num_heads)
            table.setdefault((sequence, head, int(self.q[task])), []).append(int(self.kv[task]))
        return {key: tuple(order) for key, order in table.items()}

    @cached_property
    def _by_turn(self) -> np.ndarray:
        return np.lexsort((self.wait, self.q_tile))

    def turn(self, sequence: int, head: int, kv: int, q: int) -> int:
        """How many contributions to dQ of query tile `q` come before that of key tile `kv`.

        Raises:
            KeyError: There is no work for this pair of tiles.
        """
        order = self.order_table.get((sequence, head, q), ())
        if kv not in order:
            raise KeyError(f"no task for key tile {kv} and query tile {q} of head {head} in sequence {sequence}")
        return order.index(kv)

    @cached_property
    def order_hash(self) -> str:
        """SHA-256 of tile sizes and order table: equal hashes mean equal sums, hence equal bits on one GPU model."""
        by_turn = self._by_turn
        table = np.stack([self.head[by_turn], self.q[by_turn], self.kv[by_turn]]).astype("<i4")
        tiles = np.array([self.problem.block_m, self.problem.block_n], dtype="<i4")
        return hashlib.sha256(tiles.tobytes() + table.tobytes()).hexdigest()

    @cached_property
    def dq_predecessor(self) -> np.ndarray:
        """The task whose contribution to the same dQ tile is added just before, or -1: int64, `[tasks]`."""
        by_turn = self._by_turn
        predecessor = np.full(self.num_tasks, -1, dtype=np.int64)
        same = np.diff(self.q_tile[by_turn]) == 0
        predecessor[by_turn[1:][same]] = by_turn[:-1][same]
        return predecessor

    @cached_property
    def dkv_predecessor(self) -> np.ndarray:
        """For the last task of a chain, the last one of the chain that adds to the same dK and dV before, or -1.

        Query heads that share a key head add to its dK and dV in increasing order: int64, `[tasks]`.
        """
        predecessor = np.full(self.num_tasks, -1, dtype=np.int64)
        if self.problem.group_size == 1 or not self.num_tasks:
            return predecessor
        last = self.chain_start[1:] - 1
        group, member = np.divmod(self.head[last].astype(np.int64), self.problem.group_size)
        by_turn = last[np.lexsort((member, self.kv[last], group))]
        group, kv = self.head[by_turn] // self.problem.group_size, self.kv[by_turn]
        same = (np.diff(group) == 0) & (np.diff(kv) == 0)
        predecessor[by_turn[1:][same]] = by_turn[:-1][same]
        return predecessor

    @property
    def before(self) -> Before:
        """Everything that a task waits for besides its worker."""
        return Before(self.dq_predecessor, self.dkv_predecessor)

    def validate(self) -> None:
        """Checks that every task is there once, in one run a chain, and that nothing waits for itself.

        Raises:
            ScheduleError: Names the missing or repeated task, the repeated turn, or the smallest cycle.
        """
        validate(self)
