"""What a schedule has to say of one head, and the cohorts of work units that it says it for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from octavo_dash.problem import Geometry


class ScheduleError(ValueError):
    """A schedule that does not exist for a problem, or that is not valid for it."""


class UnknownScheduleError(ScheduleError):
    """A name that there is no schedule of."""


class Cohort(NamedTuple):
    """Consecutive work units of one head that run side by side, after `first` units of that head.

    In the paper's terms `size` is A and `first` is f.
    """

    first: int
    size: int


class UnitTasks(NamedTuple):
    """The tasks of one work unit in the order in which its SM runs them.

    Attributes:
        kv: The key tile of each task. All tasks of a key tile are adjacent: its dK and dV stay in registers.
        q: The query tile of each task.
        key: Contributions to dQ of a query tile are added in increasing order of this number.
    """

    kv: np.ndarray
    q: np.ndarray
    key: np.ndarray


class Rule(ABC):
    """A schedule of the paper: the work units of a head and the tasks of each of them.

    Attributes:
        name: The schedule's name.
        dynamic: Whether the SM that is free first takes the next unit; otherwise units are dealt out in waves.
        lockstep: Whether the units of a cohort wait for one another, so that all of them must run at once.
    """

    name: ClassVar[str]
    dynamic: ClassVar[bool] = False
    lockstep: ClassVar[bool] = False

    @abstractmethod
    def tasks(self, geometry: Geometry, unit: int, cohort: Cohort) -> UnitTasks:
        """The tasks of a unit that belongs to a cohort."""

    def num_units(self, geometry: Geometry) -> int:
        """How many work units the head has, launched in increasing order: one for each key tile."""
        return geometry.num_kv_tiles

    def max_cohort(self, geometry: Geometry) -> int | None:
        """How many units a cohort may hold; `None` for any number."""
        return None

    def refusal(self, geometry: Geometry) -> str | None:
        """Why there is no such schedule for these tiles; `None` where there is one."""
        return None


def run_of_tasks(kv: int, q: np.ndarray, key: np.ndarray | int) -> UnitTasks:
    """The tasks of one key tile that visits the query tiles `q` in this order."""
    q = np.asarray(q, dtype=np.int64)
    return UnitTasks(np.full_like(q, kv), q, np.broadcast_to(np.asarray(key, dtype=np.int64), q.shape))


def only_with_work(tasks: UnitTasks, geometry: Geometry) -> UnitTasks:
    """Drops the tasks of virtual tiles and of tiles that the mask leaves empty.

    A schedule laid out on a larger, padded grid stays free of cycles when tasks are left out: every path of what
    remains is a path of the whole. Query tiles are then visited, and contributions added, in the order that is left.
    """
    inside = tasks.kv < geometry.num_kv_tiles
    ranges = geometry.q_ranges[np.where(inside, tasks.kv, 0)] if geometry.num_kv_tiles else np.zeros((len(inside), 2))
    keep = inside & (tasks.q >= ranges[:, 0]) & (tasks.q < ranges[:, 1])
    return UnitTasks(tasks.kv[keep], tasks.q[keep], tasks.key[keep])
