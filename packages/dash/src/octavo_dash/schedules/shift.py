"""The optimal schedule for the full mask: a cyclic shift, so that no two SMs meet at a query tile."""

from __future__ import annotations

import numpy as np

from octavo_dash.problem import Geometry
from octavo_dash.schedules.base import Cohort, Rule, UnitTasks, only_with_work, run_of_tasks


class Shift(Rule):
    """At step s the key tile at place a of its cohort visits query tile `(a + s) mod M`.

    Its contribution to query tile i is number `f + ((min(i, A−1) − a) mod A)`, with A the size of the cohort and f the
    number of key tiles before it. At every step the A key tiles touch A different query tiles, hence by Lemma 1 no
    wait costs anything: the makespan is `m·M·(c+r)`, the lower bound. This needs `A ≤ M`: a longer cohort is cut.
    """

    name = "shift"
    lockstep = True

    def max_cohort(self, geometry: Geometry) -> int | None:
        return max(1, geometry.num_q_tiles)

    def tasks(self, geometry: Geometry, unit: int, cohort: Cohort) -> UnitTasks:
        place = unit - cohort.first
        q = (place + np.arange(geometry.num_q_tiles)) % max(1, geometry.num_q_tiles)
        key = cohort.first + (np.minimum(q, cohort.size - 1) - place) % cohort.size
        return only_with_work(run_of_tasks(unit, q, key), geometry)
