"""The optimal schedule for the causal mask: the shift on pairs of a long and a short key tile."""

from __future__ import annotations

import numpy as np

from octavo_dash.problem import Geometry
from octavo_dash.schedules.base import Cohort, Rule, UnitTasks, only_with_work, run_of_tasks


class SymmetricShift(Rule):
    """Key tiles p and n−1−p form one work unit, the long one first (section 3 of the paper).

    With σ = block_n / block_m, M = nσ, a cohort of A pairs after f finished ones, a = p − f, `rect = fσ + σ(A−1)` and
    `R = M − rect`:

    - stage 0, key tile p: the rectangle `rect + ((a + t) mod R)` for t < R, then the triangle pσ … rect−1;
    - stage 1, key tile n−1−p: M−1 … (n−1−p)σ.

    Contributions to query tile i are numbered, with `F(i) = f + max(0, f − ⌊(M−1−i)/σ⌋)`: in the rectangle
    `F + ((min((a+t) mod R, A−1) − a) mod A)`; in the triangle `F + ⌊(t−R)/σ⌋`; in stage 1 `F + A + (A−1−a)`.

    The makespan for an even number of heads on n SMs is the lower bound `m(2M − (n−1)σ)(c+r)/2`. An odd n is padded
    with a virtual key tile, a length that is no multiple of block_n with virtual query tiles; neither has a task.
    """

    name = "symmetric_shift"
    lockstep = True

    def refusal(self, geometry: Geometry) -> str | None:
        if geometry.block_n % geometry.block_m:
            return f"block_n must be a multiple of block_m; got {geometry.block_n} and {geometry.block_m}"
        if not geometry.causal:
            return (
                "it is defined for the causal mask with equal lengths; got window "
                f"{geometry.window} with {geometry.seqlen_q} queries and {geometry.seqlen_k} keys"
            )
        return None

    def num_units(self, geometry: Geometry) -> int:
        return (geometry.num_kv_tiles + 1) // 2

    def tasks(self, geometry: Geometry, unit: int, cohort: Cohort) -> UnitTasks:
        sigma = geometry.block_n // geometry.block_m
        n = 2 * self.num_units(geometry)
        num_q_tiles = n * sigma
        place = unit - cohort.first
        rect = sigma * (cohort.first + cohort.size - 1)
        width = num_q_tiles - rect

        def finished(q: np.ndarray) -> np.ndarray:
            return cohort.first + np.maximum(0, cohort.first - (num_q_tiles - 1 - q) // sigma)

        turn = (place + np.arange(width)) % width
        rectangle = rect + turn
        rectangle_key = finished(rectangle) + (np.minimum(turn, cohort.size - 1) - place) % cohort.size
        triangle = np.arange(unit * sigma, rect)
        triangle_key = finished(triangle) + np.arange(len(triangle)) // sigma
        mirror = n - 1 - unit
        short = np.arange(num_q_tiles - 1, mirror * sigma - 1, -1)
        short_key = finished(short) + 2 * cohort.size - 1 - place

        stage_0 = run_of_tasks(
            unit, np.concatenate([rectangle, triangle]), np.concatenate([rectangle_key, triangle_key])
        )
        stage_1 = run_of_tasks(mirror, short, short_key)
        return only_with_work(UnitTasks(*map(np.concatenate, zip(stage_0, stage_1, strict=True))), geometry)
