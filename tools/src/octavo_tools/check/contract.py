"""All rules, and how they are applied: those that read files here, those that run something side by side."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from octavo_tools.check.breach import Breach, Rule
from octavo_tools.check.dependencies import dependencies, source_job, tests_job
from octavo_tools.check.entry_point import entry_point, entry_point_job
from octavo_tools.check.layout import layout, package_layout
from octavo_tools.check.metadata import metadata, package_metadata, ranges
from octavo_tools.check.readme import quickstart, quickstart_job, readme
from octavo_tools.check.sources import isolation, public_api, syntax
from octavo_tools.jobs import Ended, Job, Watcher, cores, run_jobs
from octavo_tools.workspace import Member, Workspace

MEMBER_RULES: tuple[Rule, ...] = (metadata, ranges, layout, syntax, public_api, isolation)
PACKAGE_RULES: tuple[Rule, ...] = (package_metadata, package_layout, readme)

Verdict = Callable[[Ended], Iterator[Breach]]
Probe = tuple[Callable[[Member, Path], Job | None], Verdict]
"""What a rule that runs something is made of: the job, and what its end says."""

MEMBER_PROBES: tuple[Probe, ...] = ((source_job, dependencies), (tests_job, dependencies))
PACKAGE_PROBES: tuple[Probe, ...] = ((entry_point_job, entry_point), (quickstart_job, quickstart))


def check_workspace(workspace: Workspace, console: Console) -> list[Breach]:
    """Applies every rule to every member and returns the breaches, member by member."""
    breaches = [Breach(slug, "metadata", reason, "mend the file") for slug, reason in workspace.broken.items()]
    for member in workspace.members.values():
        for rule in MEMBER_RULES + (PACKAGE_RULES if member.is_package else ()):
            breaches += rule(member)
    breaches += _run_probes(workspace, console)
    order = [*workspace.broken, *workspace.members]
    return sorted(breaches, key=lambda breach: order.index(breach.slug))


def _run_probes(workspace: Workspace, console: Console) -> list[Breach]:
    breaches: list[Breach] = []
    with tempfile.TemporaryDirectory(prefix="octavo-check-") as scratch:
        probes: list[tuple[Job, Verdict]] = []
        for member in workspace.members.values():
            for make, verdict in MEMBER_PROBES + (PACKAGE_PROBES if member.is_package else ()):
                job = make(member, Path(scratch))
                if job is not None:
                    probes.append((job, verdict))
        columns = (TextColumn("checking"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task("", total=len(probes))
            ends = run_jobs([job for job, _ in probes], cores(), Watcher(ended=lambda end: progress.advance(task)))
        for end, (_, verdict) in zip(ends, probes, strict=True):
            breaches += verdict(end)
    return breaches
