"""Building a schedule: the rule of each sequence, laid out over its heads, cohorts and workers."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from octavo_dash.problem import Geometry, Problem
from octavo_dash.schedule import Schedule
from octavo_dash.schedules import RULES, Cohort, Rule, ScheduleError, UnknownScheduleError

Order = Literal["canonical", "wave"]

CANONICAL_GROUP = 64
"""Units of a head that run side by side under the canonical order: fewer than any data-centre GPU has SMs. INFERRED."""


class Launch(NamedTuple):
    """A cohort of a head, in the order in which cohorts are launched."""

    head: int
    cohort: Cohort


def make_schedule(
    problem: Problem,
    name: str | Sequence[str],
    *,
    order: Order = "canonical",
    canonical_group: int = CANONICAL_GROUP,
) -> Schedule:
    """The schedule called `name` for a problem.

    The order in which contributions to a dQ tile are added follows from the cohort of each unit, that is from how many
    units of its head run beside it (A) and how many ran before (f).

    - `order="canonical"`: heads are cut into equal groups of at most `canonical_group` units. The order, hence every
      bit, follows from the sequence alone: not from its place in the batch, the number of heads or of SMs.
    - `order="wave"`: the persistent order of the paper's kernel: units are numbered through all heads and cut into
      waves of `num_sms`. Keeps all SMs busy where heads do not divide them, at the price of that invariance.

    Args:
        problem: What to schedule.
        name: A name in `RULES`, or one for each sequence.
        order: What the order of additions may depend on.
        canonical_group: The largest cohort under the canonical order. Where a group does not fit on the SMs the
            schedule is replaced by `descending`, and `Schedule.note` says so.

    Raises:
        ScheduleError: An unknown name, or a schedule that does not exist for these tiles; the text gives the reason.
        ValueError: An unknown order or a group below one.
    """
    if order not in ("canonical", "wave"):
        raise ValueError(f"order must be 'canonical' or 'wave'; got {order!r}")
    if canonical_group < 1:
        raise ValueError(f"canonical_group must be at least 1; got {canonical_group}")
    names = (name,) * problem.batch if isinstance(name, str) else tuple(name)
    if len(names) != problem.batch:
        raise ScheduleError(f"name must be one schedule or one for each of {problem.batch} sequences; got {len(names)}")
    rules = tuple(map(_rule, names))
    for rule, geometry in zip(rules, problem.geometries, strict=True):
        reason = rule.refusal(geometry)
        if reason:
            raise ScheduleError(f"no schedule {rule.name!r} for this problem: {reason}")
    note = ""
    if order == "canonical":
        rules, note = _that_fit(rules, problem, canonical_group)
        launches = list(_canonical(rules, problem, canonical_group))
    else:
        launches = list(_waves(rules, problem))
    return _assemble(problem, rules, order, launches, note)


def _rule(name: str) -> Rule:
    if name not in RULES:
        raise UnknownScheduleError(f"there is no schedule {name!r}; there are {', '.join(RULES)}")
    return RULES[name]


def _that_fit(rules: tuple[Rule, ...], problem: Problem, limit: int) -> tuple[tuple[Rule, ...], str]:
    """Replaces a rule whose cohorts are larger than the machine: they could not all run at once."""
    fitting, notes = list(rules), []
    for index, (rule, geometry) in enumerate(zip(rules, problem.geometries, strict=True)):
        size = max((cohort.size for cohort in _groups(rule, geometry, limit)), default=0)
        if rule.lockstep and size > problem.num_sms:
            fitting[index] = RULES["descending"]
            notes.append(
                f"{rule.name} needs {size} units of a head to run at once and there are {problem.num_sms} SMs: "
                f"descending instead"
            )
    return tuple(fitting), "; ".join(dict.fromkeys(notes))


def _groups(rule: Rule, geometry: Geometry, limit: int) -> Iterator[Cohort]:
    """Equal groups of a head's units, as few as the limit allows."""
    num_units = rule.num_units(geometry)
    limit = min(limit, rule.max_cohort(geometry) or limit)
    num_groups = -(-num_units // limit)
    bounds = [num_units * g // num_groups for g in range(num_groups + 1)] if num_groups else [0]
    for first, end in pairwise(bounds):
        yield Cohort(first, end - first)


def _canonical(rules: Sequence[Rule], problem: Problem, limit: int) -> Iterator[Launch]:
    """The first group of every head, then the second of every head, and so on: later groups wait for earlier ones."""
    groups = [list(_groups(rule, geometry, limit)) for rule, geometry in zip(rules, problem.geometries, strict=True)]
    for turn in range(max(map(len, groups), default=0)):
        for head in range(problem.total_heads):
            if turn < len(groups[head // problem.num_heads]):
                yield Launch(head, groups[head // problem.num_heads][turn])


def _waves(rules: Sequence[Rule], problem: Problem) -> Iterator[Launch]:
    """The units of all heads in one row, cut at every multiple of the number of SMs."""
    start = 0
    for head in range(problem.total_heads):
        rule, geometry = rules[head // problem.num_heads], problem.geometries[head // problem.num_heads]
        num_units, first = rule.num_units(geometry), 0
        while first < num_units:
            size = min(num_units - first, problem.num_sms - (start + first) % problem.num_sms)
            size = min(size, rule.max_cohort(geometry) or size)
            yield Launch(head, Cohort(first, size))
            first += size
        start += num_units


class HeadTable(NamedTuple):
    """The tasks of one head, unit by unit, with the turn of each at its query tile."""

    kv: np.ndarray
    q: np.ndarray
    wait: np.ndarray
    unit_start: np.ndarray


@lru_cache(maxsize=64)
def _head_table(rule_name: str, geometry: Geometry, cohorts: tuple[Cohort, ...]) -> HeadTable:
    rule = RULES[rule_name]
    units = [rule.tasks(geometry, u, c) for c in cohorts for u in range(c.first, c.first + c.size)]
    lengths = [len(unit.q) for unit in units]
    kv, q, key = (np.concatenate([u[i] for u in units] or [np.zeros(0, dtype=np.int64)]) for i in range(3))
    by_turn = np.lexsort((key, q))
    counts = np.bincount(q, minlength=1)
    wait = np.empty_like(q)
    wait[by_turn] = np.arange(len(q)) - np.repeat(np.cumsum(counts) - counts, counts)
    return HeadTable(kv, q, wait, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def _assemble(problem: Problem, rules: tuple[Rule, ...], order: Order, launches: list[Launch], note: str) -> Schedule:
    cohorts: list[list[Cohort]] = [[] for _ in range(problem.total_heads)]
    for launch in launches:
        cohorts[launch.head].append(launch.cohort)
    tables = [
        _head_table(rules[head // problem.num_heads].name, problem.geometries[head // problem.num_heads], tuple(c))
        for head, c in enumerate(cohorts)
    ]
    pieces = [
        (launch.head, slice(*tables[launch.head].unit_start[[first, first + size]]))
        for launch in launches
        for first, size in [launch.cohort]
    ]
    lengths = [np.diff(tables[head].unit_start[first : first + size + 1]) for head, (first, size) in launches]
    head_lengths = [span.stop - span.start for _, span in pieces]
    columns = [
        np.concatenate([getattr(tables[head], column)[span] for head, span in pieces] or [np.zeros(0)]).astype(np.int32)
        for column in ("kv", "q", "wait")
    ]
    unit_length = np.concatenate(lengths or [np.zeros(0)]).astype(np.int64)
    dynamic = all(rule.dynamic for rule in rules)
    sizes = [launch.cohort.size for launch in launches]
    in_use = unit_length > 0
    unit_sm = (
        _free_first(unit_length[in_use], problem.num_sms)
        if dynamic
        else _dealt(sizes, problem.num_sms, whole=order == "canonical")[in_use]
    )
    return Schedule(
        problem=problem,
        names=tuple(rule.name for rule in rules),
        order=order,
        head=np.repeat([head for head, _ in pieces], head_lengths).astype(np.int32),
        kv=columns[0],
        q=columns[1],
        wait=columns[2],
        unit_start=np.concatenate([[0], np.cumsum(unit_length[in_use])]).astype(np.int64),
        unit_sm=unit_sm,
        dynamic=dynamic,
        note=note,
    )


def _dealt(sizes: Sequence[int], num_sms: int, *, whole: bool) -> np.ndarray:
    """Deals units out in turn; a cohort that is to stay whole starts a new round where this one has no room for it."""
    workers, used = [], 0
    for size in sizes:
        if whole and size <= num_sms and used % num_sms + size > num_sms:
            used = 0
        workers.append((used + np.arange(size)) % num_sms)
        used += size
    return np.concatenate(workers or [np.zeros(0, dtype=np.int64)]).astype(np.int32)


def _free_first(unit_length: np.ndarray, num_sms: int) -> np.ndarray:
    """Gives each unit to the worker that is free first, the lowest of them: tasks of equal duration, no waits."""
    free = [(0, sm) for sm in range(num_sms)]
    workers = np.empty(len(unit_length), dtype=np.int32)
    for unit, length in enumerate(unit_length.tolist()):
        time, sm = free[0]
        workers[unit] = sm
        heapq.heapreplace(free, (time + length, sm))
    return workers
