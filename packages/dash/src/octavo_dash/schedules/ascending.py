"""The baseline: key tiles in order, each visiting the query tiles in order."""

from __future__ import annotations

import numpy as np

from octavo_dash.problem import Geometry
from octavo_dash.schedules.base import Cohort, Rule, UnitTasks, run_of_tasks


class Ascending(Rule):
    """FlashAttention-3's deterministic backward: `exec(j) = i_min(j) … M−1`, `order(i) = 0, 1, 2, …`.

    Under the full mask its makespan is `m·M·(c+r) + (n−1)·r`: every key tile waits once for its predecessor.
    """

    name = "ascending"

    def tasks(self, geometry: Geometry, unit: int, cohort: Cohort) -> UnitTasks:
        first, end = geometry.q_ranges[unit]
        return run_of_tasks(unit, np.arange(first, end), unit)
