"""Shortest processing time first: the causal schedule that FlashAttention adopted later, as a peer."""

from __future__ import annotations

import numpy as np

from octavo_dash.problem import Geometry
from octavo_dash.schedules.base import Cohort, Rule, UnitTasks, run_of_tasks


class ShortestFirst(Rule):
    """Launches key tiles `n−1 … 0`, `exec(j) = i_min(j) … M−1`, `order(i) = …, 2, 1, 0`.

    Source: Dao-AILab/flash-attention, pull request 1893.
    """

    name = "spt"
    dynamic = True

    def tasks(self, geometry: Geometry, unit: int, cohort: Cohort) -> UnitTasks:
        kv = geometry.num_kv_tiles - 1 - unit
        first, end = geometry.q_ranges[kv]
        return run_of_tasks(kv, np.arange(first, end), unit)
