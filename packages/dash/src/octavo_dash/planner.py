"""Choosing a schedule: every one of them tried on paper, and the shortest taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from octavo_dash.build import Order, make_schedule
from octavo_dash.closed_forms import lower_bound
from octavo_dash.longest_path import Costs
from octavo_dash.problem import Geometry, Problem
from octavo_dash.schedule import Schedule
from octavo_dash.schedules import ScheduleError, UnknownScheduleError
from octavo_dash.simulate import Trace, simulate

DASH_SCHEDULES = ("ascending", "descending", "shift", "symmetric_shift")
"""The schedules of the paper and its baseline, those that need fewest workers at once first."""


@dataclass(frozen=True)
class Candidate:
    """A schedule that was tried.

    Attributes:
        name: Its name.
        trace: The schedule in time, `None` where there is no such schedule for the problem.
        bound: A makespan that no schedule can undercut.
        refusal: Why there is none.
    """

    name: str
    trace: Trace | None
    bound: float
    refusal: str = ""

    @property
    def makespan(self) -> float:
        """The makespan; infinite where there is no schedule."""
        return self.trace.makespan if self.trace else float("inf")


def candidates(
    problem: Problem,
    compute: float = 4.0,
    reduce: float = 1.0,
    sync: float = 0.0,
    *,
    order: Order = "canonical",
    names: Sequence[str] = DASH_SCHEDULES,
) -> tuple[Candidate, ...]:
    """Tries schedules on a problem, in the given order of names.

    Args:
        problem: What to schedule.
        compute: c, the duration of a task's products.
        reduce: r, that of its addition.
        sync: ℓ, the latency of a signal.
        order: What the order of additions may depend on; see `make_schedule`.
        names: The schedules to try.

    Raises:
        ScheduleError: A name that there is no schedule of.
    """
    bound = lower_bound(problem, compute, reduce)
    tried = []
    for name in names:
        try:
            schedule = make_schedule(problem, name, order=order)
            tried.append(Candidate(name, simulate(schedule, compute, reduce, sync), bound, schedule.note))
        except UnknownScheduleError:
            raise
        except ScheduleError as error:
            tried.append(Candidate(name, None, bound, str(error)))
    return tuple(tried)


def best(
    problem: Problem,
    compute: float = 4.0,
    reduce: float = 1.0,
    sync: float = 0.0,
    *,
    order: Order = "canonical",
    names: Sequence[str] = DASH_SCHEDULES,
) -> Schedule:
    """The schedule with the shortest makespan; of equal ones the first in `names`.

    Args:
        problem: What to schedule.
        compute: c, the duration of a task's products.
        reduce: r, that of its addition.
        sync: ℓ, the latency of a signal. It decides: for n = 8, m = 4, c = 4, r = 1 the shift is best up to ℓ = 5 and
            worse than ascending at ℓ = 8.
        order: What the order of additions may depend on; see `make_schedule`.
        names: The schedules to choose from.

    Raises:
        ScheduleError: None of them exists for the problem.
    """
    tried = candidates(problem, compute, reduce, sync, order=order, names=names)
    trace = min(tried, key=lambda candidate: candidate.makespan).trace
    if trace is None:
        raise ScheduleError("; ".join(candidate.refusal for candidate in tried))
    return trace.schedule


@lru_cache(maxsize=8)  # all layers of a step share a plan; packed batches bring a new one every step
def plan(problem: Problem, name: str, order: Order, costs: Costs) -> Schedule:
    """The schedule that attention runs: the named one, or for `"auto"` the best, made once and kept.

    Under the canonical order `"auto"` chooses for each sequence by itself, from its tiles and the costs alone (two
    heads on as many workers as it has key tiles, the paper's setting), so that a sequence gets the same bits in any
    batch. Under the wave order it chooses for the problem as a whole.

    Raises:
        ScheduleError: An unknown name, or a schedule that does not exist for the problem.
    """
    if name != "auto":
        return make_schedule(problem, name, order=order)
    if order == "wave":
        return best(problem, costs.compute, costs.reduce, costs.sync, order=order)
    return make_schedule(problem, [_best_alone(g, costs) for g in problem.geometries], order=order)


@lru_cache(maxsize=1024)
def _best_alone(geometry: Geometry, costs: Costs) -> str:
    alone = Problem(
        (geometry.seqlen_q,),
        (geometry.seqlen_k,),
        num_heads=2,
        num_heads_kv=2,
        window=geometry.window,
        block_m=geometry.block_m,
        block_n=geometry.block_n,
        num_sms=max(1, geometry.num_kv_tiles),
    )
    return best(alone, costs.compute, costs.reduce, costs.sync).name
