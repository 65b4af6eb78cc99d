"""What came of a member's tests: counts from its JUnit file, one merged file, and pytest's own closing line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from xml.etree import ElementTree

from octavo_shared.files import written_whole


@dataclass(frozen=True)
class Counts:
    """How many tests there were of each kind, in the order of pytest's closing line."""

    failed: int = 0
    passed: int = 0
    skipped: int = 0
    deselected: int = 0
    error: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True)
class Result:
    """What came of one member.

    Attributes:
        slug: The member.
        counts: Its tests. A member that broke down as a whole counts as one error.
        seconds: What it took.
        trouble: Why it is not green, in a few words; empty if it is.
        log: What its tests printed, kept where there is trouble.
        junit: Its JUnit file, if it got as far as writing one.
    """

    slug: str
    counts: Counts
    seconds: float
    trouble: str = ""
    log: Path | None = None
    junit: Path | None = None


def read_counts(junit: Path, log: Path) -> Counts | None:
    """Returns the counts of a finished run of pytest, or `None` where it wrote no readable JUnit file.

    JUnit does not know deselected tests; the closing line of the log does.
    """
    try:
        suites = list(ElementTree.parse(junit).getroot().iter("testsuite"))
    except (OSError, ElementTree.ParseError):
        return None
    total, failed, error, skipped = (
        sum(int(suite.get(key, "0")) for suite in suites) for key in ("tests", "failures", "errors", "skipped")
    )
    last = next((line for line in reversed(_lines(log)) if line.startswith("=")), "")
    match = re.search(r"(\d+) deselected", last)
    return Counts(failed, total - failed - error - skipped, skipped, int(match.group(1)) if match else 0, error)


def closing_line(counts: Counts, seconds: float, width: int = 80) -> str:
    """Returns the line with which pytest would have ended: `==== 1 failed, 12 passed in 3.20s ====`."""
    parts = [f"{getattr(counts, f.name)} {f.name}" for f in fields(counts) if getattr(counts, f.name)]
    if counts.error > 1:
        parts[-1] += "s"
    return f" {', '.join(parts) or 'no tests ran'} in {seconds:.2f}s ".center(width, "=")


def merge_junit(results: Iterable[Result], path: Path) -> None:
    """Writes all members' tests into one JUnit file, with an error for each member that broke down as a whole."""
    from junitparser import Error, JUnitXml, TestCase, TestSuite

    merged = JUnitXml()
    for result in results:
        if result.junit is not None:
            for suite in JUnitXml.fromfile(str(result.junit)):
                suite.name = result.slug
                merged.add_testsuite(suite)
        if result.trouble and not result.counts.failed and (result.junit is None or not result.counts.error):
            case = TestCase(name=result.slug, classname="octavo", time=result.seconds)
            case.result = [Error(message=result.trouble)]
            broken = TestSuite(result.slug)
            broken.add_testcase(case)
            merged.add_testsuite(broken)
    merged.update_statistics()
    with written_whole(path) as beside:
        merged.write(str(beside), pretty=True)


def tail(log: Path, count: int = 40) -> Sequence[str]:
    """Returns the last lines of a log."""
    return _lines(log)[-count:]


def _lines(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
