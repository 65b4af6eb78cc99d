"""Makespans that can be written down: exact in the paper's model, under the conditions that each states."""

from __future__ import annotations

import math

from octavo_dash.longest_path import Costs
from octavo_dash.problem import Geometry, Problem


def lower_bound(problem: Problem, compute: float, reduce: float) -> float:
    """No schedule is shorter: all work spread over all workers, or the longest chain, whichever is longer.

    Args:
        problem: What is to be scheduled.
        compute: c.
        reduce: r.
    """
    task = Costs(compute, reduce).task
    ranges = [g.q_ranges for g in problem.geometries]
    longest = max((int((r[:, 1] - r[:, 0]).max(initial=0)) for r in ranges), default=0)
    return max(problem.num_tasks / problem.num_sms, longest) * task


def closed_form(problem: Problem, name: str, compute: float, reduce: float, sync: float = 0.0) -> float | None:
    """The makespan of a schedule where a formula is exact, `None` elsewhere.

    With n key tiles, M query tiles, m heads, σ = block_n / block_m, c = compute, r = reduce, ℓ = sync and n workers:

    - full mask, `ascending`: `m·M·(c+r) + (n−1)(r+ℓ)`;
    - full mask, `shift`: `m·M·(c+r)` for M ≥ n without latency; for M = n `m·[(c+r) + (n−1)(max(c,ℓ)+r)]`;
    - causal, σ = 1, `ascending`: `m·n·(c+r) + (n−1)·r` (the paper lets the second term recur with every head, which
      a barrier between heads would cause);
    - causal, σ = 1, `descending`: `m(n+1)(c+r)/2 + (n−1)·r` for an even m and r ≤ c;
    - causal, n even, M = nσ, `symmetric_shift`: `⌈m/2⌉·(2M − (n−1)σ)(c+r)`.

    `spt` has none.

    Args:
        problem: What is scheduled: sequences of one length.
        name: The schedule.
        compute: c.
        reduce: r.
        sync: ℓ.
    """
    costs = Costs(compute, reduce, sync)
    geometries = set(problem.geometries)
    if len(geometries) != 1:
        return None
    geometry, heads = geometries.pop(), problem.total_heads
    if not geometry.num_tasks or problem.num_sms != geometry.num_kv_tiles:
        return None
    formula = {
        "ascending": _ascending,
        "shift": _shift,
        "descending": _descending,
        "symmetric_shift": _symmetric_shift,
    }.get(name)
    return formula(geometry, heads, costs) if formula else None


def _ascending(g: Geometry, heads: int, costs: Costs) -> float | None:
    n = g.num_kv_tiles
    if g.full:
        return heads * g.num_q_tiles * costs.task + (n - 1) * (costs.reduce + costs.sync)
    if _square(g) and not costs.sync:
        return heads * n * costs.task + (n - 1) * costs.reduce
    return None


def _shift(g: Geometry, heads: int, costs: Costs) -> float | None:
    n = g.num_kv_tiles
    if not g.full or g.num_q_tiles < n:
        return None
    if not costs.sync:
        return heads * g.num_q_tiles * costs.task
    if g.num_q_tiles == n:
        return heads * (costs.task + (n - 1) * (max(costs.compute, costs.sync) + costs.reduce))
    return None


def _descending(g: Geometry, heads: int, costs: Costs) -> float | None:
    n = g.num_kv_tiles
    if _square(g) and heads % 2 == 0 and costs.reduce <= costs.compute and not costs.sync:
        return heads * (n + 1) * costs.task / 2 + (n - 1) * costs.reduce
    return None


def _symmetric_shift(g: Geometry, heads: int, costs: Costs) -> float | None:
    n, m = g.num_kv_tiles, g.num_q_tiles
    sigma = g.block_n // g.block_m
    if not g.causal or costs.sync or n % 2 or g.block_n % g.block_m or m != n * sigma:
        return None
    return math.ceil(heads / 2) * (2 * m - (n - 1) * sigma) * costs.task


def _square(g: Geometry) -> bool:
    return g.causal and g.block_m == g.block_n
