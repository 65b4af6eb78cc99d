"""The paper's heuristic for causal masks: every key tile visits the query tiles from the last to the first."""

from __future__ import annotations

import numpy as np

from octavo_dash.problem import Geometry
from octavo_dash.schedules.base import Cohort, Rule, UnitTasks, run_of_tasks


class Descending(Rule):
    """`exec(j) = M−1 … i_min(j)`, `order(i) = 0, 1, 2, …` (section 3 of the paper).

    Key tiles of a causal head are launched longest first, and the SM that is free first takes the next one, so the SM
    that had key tile j in one head gets key tile n−1−j in the next: `m(n+1)(c+r)/2 + (n−1)r` for an even number of
    heads m and r ≤ c. Every wait points to a unit that was launched earlier: it needs no more than one worker.
    """

    name = "descending"
    dynamic = True

    def tasks(self, geometry: Geometry, unit: int, cohort: Cohort) -> UnitTasks:
        first, end = geometry.q_ranges[unit]
        return run_of_tasks(unit, np.arange(end - 1, first - 1, -1), unit)
