"""Undeclared and unused dependencies, as deptry finds them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from octavo_tools.check.breach import Breach
from octavo_tools.jobs import Ended, Job
from octavo_tools.results import tail
from octavo_tools.workspace import Member

REMEDIES = {
    "DEP001": "declare it in [project] dependencies or in an extra",
    "DEP002": "remove it from [project], or import it",
    "DEP003": "declare it: what another dependency brings along may go away",
    "DEP004": "move it from the extra 'test' to dependencies or to another extra",
    "DEP005": "remove it: it is part of Python",
}


def source_job(member: Member, scratch: Path) -> Job:
    """Returns the job that holds the imports of `src` against the declared dependencies."""
    return _job(member, scratch, "src", ["src", "--optional-dependencies-dev-groups", "test"])


def tests_job(member: Member, scratch: Path) -> Job | None:
    """Returns the job that holds the imports of tests and benchmarks against all that is declared, extras included."""
    folders = [name for name in ("tests", "benchmarks") if (member.path / name).is_dir()]
    if not folders:
        return None
    # Tests need not use everything, and deptry leaves out folders named tests unless told otherwise.
    return _job(member, scratch, "tests", [*folders, "--ignore", "DEP002", "--exclude", "__pycache__"])


def dependencies(end: Ended) -> Iterator[Breach]:
    """What is imported is declared, and what is declared is imported."""
    report = end.job.log.with_suffix(".json")
    if not report.is_file():
        problem = "deptry broke down: " + "\n".join(tail(end.job.log, 4))
        yield Breach(end.job.name, "dependencies", problem, "run deptry in the package's folder")
        return
    for issue in json.loads(report.read_text(encoding="utf-8")):
        code, location = issue["error"]["code"], issue["location"]
        place = f"{location['file']}:{location['line']}: " if location["line"] else ""
        remedy = REMEDIES.get(code, "see deptry's documentation of the code")
        yield Breach(end.job.name, "dependencies", f"{place}{issue['error']['message']} ({code})", remedy)


def _job(member: Member, scratch: Path, what: str, arguments: list[str]) -> Job:
    log = scratch / f"{member.slug}-deptry-{what}.log"
    command = [sys.executable, "-m", "deptry", *arguments, "--known-first-party", member.module, "--no-ansi"]
    return Job(member.slug, [*command, "--json-output", str(log.with_suffix(".json"))], member.path, log, 120.0)
