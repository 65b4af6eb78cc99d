"""Validating every schedule over a grid of problems: the question whether any plan that is returned could hang."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from octavo_dash.build import make_schedule
from octavo_dash.problem import Problem
from octavo_dash.schedules import RULES, ScheduleError

ORDERS = ("canonical", "wave")


@dataclass
class Verdict:
    """What came of some problems.

    Attributes:
        valid: How many schedules were made and found valid.
        refused: How many were refused, by schedule and reason, numbers left out.
        invalid: Descriptions of schedules that were made and are not valid: there must be none.
    """

    valid: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    invalid: list[str] = field(default_factory=list)

    def add(self, other: Verdict) -> None:
        """Takes another verdict in."""
        self.valid += other.valid
        self.refused += other.refused
        self.invalid += other.invalid


def grid(
    key_tiles: Iterable[int] = range(1, 20),
    heads: Sequence[int] = (1, 2, 3, 4),
    num_sms: Sequence[int] = (*range(1, 17), 132),
    sigmas: Sequence[int] = (1, 2),
) -> Iterator[Problem]:
    """Problems with n key tiles, and n/2, n, n+1 or 2n query tiles as wide as σ-th of them, full and causal."""
    for n in key_tiles:
        for m in sorted({n // 2, n, n + 1, 2 * n} - {0}):
            for causal, sigma, head, sms in itertools.product((False, True), sigmas, heads, num_sms):
                yield Problem.tiles(n, m, num_heads=head, causal=causal, sigma=sigma, num_sms=sms)


def verify(problem: Problem, names: Sequence[str] = tuple(RULES)) -> Verdict:
    """Makes every schedule of a problem, under both orders, and validates it."""
    verdict = Verdict()
    for name, order in itertools.product(names, ORDERS):
        try:
            schedule = make_schedule(problem, name, order=order)  # type: ignore[arg-type]
        except ScheduleError as error:
            verdict.refused[f"{name}: {_reason(str(error))}"] += 1
            continue
        try:
            schedule.validate()
            verdict.valid += 1
        except ScheduleError as error:
            verdict.invalid.append(f"{problem}, {order}: {error}")
    return verdict


def _reason(text: str) -> str:
    """The reason without the numbers of the case."""
    return text.split(": ", 1)[-1].split("; got")[0]
