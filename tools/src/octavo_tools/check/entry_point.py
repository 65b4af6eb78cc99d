"""That a package's paper loads and is what it says it is; in a process of its own, so that one cannot break another.

The process is `python -m octavo_tools.check.entry_point SLUG`, which prints what is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

from octavo_shared.claims import Paper
from octavo_tools.check.breach import Breach
from octavo_tools.jobs import Ended, Job
from octavo_tools.papers import GROUP
from octavo_tools.results import tail
from octavo_tools.workspace import Member


def entry_point_job(member: Member, scratch: Path) -> Job:
    """Returns the job that loads the paper."""
    command = [sys.executable, "-m", "octavo_tools.check.entry_point", member.slug]
    return Job(member.slug, command, member.path, scratch / f"{member.slug}-entry-point.log", 120.0)


def entry_point(end: Ended) -> Iterator[Breach]:
    """The entry point loads, and gives a paper whose slug fits and that makes claims."""
    if end.status:
        last = "".join(tail(end.job.log, 1)) or f"loading it ends with status {end.status}"
        problem = f"takes more than {end.job.timeout:g} s to load" if end.timed_out else last
        remedy = f"see that {end.job.name}'s claims.py can be imported and that PAPER is right, then install it again"
        yield Breach(end.job.name, "entry-point", problem, remedy)


def trouble_with(slug: str) -> str:
    """Returns what is wrong with the paper that is published under this slug; an empty text if nothing is."""
    points = [point for point in entry_points(group=GROUP) if point.name == slug]
    if not points:
        return (
            f"no paper is installed under {slug!r}: the package is not installed, or was before it had the entry point"
        )
    paper = points[0].load()
    if not isinstance(paper, Paper):
        return f"{points[0].value} is a {type(paper).__name__} where a Paper is expected"
    if paper.slug != slug:
        return f"{points[0].value} has the slug {paper.slug!r} where {slug!r} is expected"
    return "" if paper.claims else f"{points[0].value} makes no claim"


if __name__ == "__main__":
    problem = trouble_with(sys.argv[1])
    sys.stdout.write(problem + "\n")
    sys.exit(bool(problem))
