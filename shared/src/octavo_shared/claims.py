"""A paper's statements as checks: what is claimed, what is measured, and whether the two agree."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Scale(StrEnum):
    """How large an experiment a claim needs."""

    EXACT = "exact"
    """An identity, a bound or a closed form: nothing is lost at desk scale."""
    DESK = "desk"
    """A smaller experiment on this machine, whose ordering, ratio or trend must come out."""
    GPU = "gpu"
    """Needs a CUDA device; reported as not run without one."""


class Status(StrEnum):
    """What came of a claim on this machine."""

    HOLDS = "holds"
    FAILS = "does not hold"
    NOT_RUN = "not run"
    ERROR = "error"


@dataclass(frozen=True)
class Setting:
    """What a check or a demonstration is given: where to run, and the seeds to average over."""

    device: str = "cpu"
    seeds: tuple[int, ...] = (0, 1, 2)


@dataclass(frozen=True)
class Finding:
    """One thing that was measured: a row of a table, with the picture that shows it.

    Attributes:
        what: What was looked at, in a few words. Left empty by a claim, whose statement says it.
        value: What came out, as it should be read, with its unit and spread.
        holds: Whether that is as it should be; `None` where there is nothing to judge.
        note: Conditions, or the reason why something does not hold.
        figure: A matplotlib figure of what came out.
    """

    what: str
    value: str
    holds: bool | None = None
    note: str = ""
    figure: Figure | None = None


@dataclass(frozen=True)
class Claim:
    """One statement of a paper, and the function that measures it.

    Attributes:
        name: A short identifier, unique within the paper: `shift-is-optimal`.
        statement: The statement, in a sentence.
        source: Where the paper makes it: "Theorem 2", "Table 3".
        paper: The paper's value, as printed there.
        relation: How ours must stand to it: "=", "≤", "same order", "> 0 over seeds".
        scale: How large an experiment it needs.
        seconds: What it costs on two cores, roughly.
        check: Measures it. The finding's `holds` is the verdict, and must be able to come out false.
    """

    name: str
    statement: str
    source: str
    paper: str
    relation: str
    scale: Scale
    seconds: float
    check: Callable[[Setting], Finding]

    def runs_on(self, device: str) -> bool:
        """Whether the device is one that the claim can be measured on."""
        return self.scale is not Scale.GPU or device.startswith("cuda")


@dataclass(frozen=True)
class Paper:
    """A paper as its package presents it, published through the entry point group `octavo.papers`.

    Attributes:
        slug: The package's name in the workspace: `dash`.
        title: The paper's title.
        url: Where the paper is.
        purpose: What a user installs the package for, in a sentence.
        host: The library that the package fits into: "transformers".
        claims: The statements that it checks.
        demo: Shows the method at work on embedded real input, in seconds: yields a finding at a time.
    """

    slug: str
    title: str
    url: str
    purpose: str
    host: str
    claims: tuple[Claim, ...]
    demo: Callable[[Setting], Iterator[Finding]]

    def __post_init__(self) -> None:
        names = [claim.name for claim in self.claims]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"claims of {self.slug!r} must have distinct names; repeated: {', '.join(repeated)}")

    def select(self, names: Sequence[str] = (), scales: Sequence[Scale] = ()) -> tuple[Claim, ...]:
        """Returns the claims with these names and scales; all of them where none is given.

        Raises:
            ValueError: A name that the paper does not have.
        """
        known = [claim.name for claim in self.claims]
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ValueError(f"{self.slug} has no claim named {', '.join(unknown)}; it has {', '.join(known)}")
        return tuple(c for c in self.claims if (not names or c.name in names) and (not scales or c.scale in scales))


@dataclass(frozen=True)
class Outcome:
    """What came of one claim: the claim, its status, the finding if there is one, and the seconds it took."""

    claim: Claim
    status: Status
    finding: Finding
    seconds: float


def measure(claim: Claim, setting: Setting) -> Outcome:
    """Runs one claim's check and says what came out; an exception in the check becomes an outcome of its own.

    A claim at GPU scale is not run unless the setting's device is a CUDA device.
    """
    if not claim.runs_on(setting.device):
        return Outcome(claim, Status.NOT_RUN, Finding("", "—", note="needs a CUDA device"), 0.0)
    start = time.perf_counter()
    try:
        finding = claim.check(setting)
        if finding.holds is None:
            raise TypeError(f"the check of {claim.name!r} returned a finding without a verdict (holds=None)")
        status = Status.HOLDS if finding.holds else Status.FAILS
    except Exception as error:
        finding = Finding("", "—", note=f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}")
        status = Status.ERROR
    return Outcome(claim, status, finding, time.perf_counter() - start)
