"""The report: claims and demonstrations as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import os
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from octavo_shared.claims import Finding, Outcome, Paper, Status
from octavo_shared.display import summary
from octavo_shared.figures import png, svg
from octavo_shared.files import written_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = {Status.HOLDS: "holds", Status.FAILS: "fails", Status.NOT_RUN: "idle", Status.ERROR: "error"}
"""The style sheet's name of each status."""

WIDE = 8.0
"""A figure of more inches than this takes the whole width of the page."""

LARGEST_SVG = 200_000
"""Bytes. A figure of thousands of shapes is smaller as pixels."""


@dataclass(frozen=True)
class Section:
    """A paper's part of a report.

    Attributes:
        paper: The paper.
        findings: What its demonstration showed.
        outcomes: What came of its claims.
    """

    paper: Paper
    findings: Sequence[Finding] = ()
    outcomes: Sequence[Outcome] = ()


def write_report(path: str | Path, sections: Sequence[Section], title: str) -> Path:
    """Writes a report: one HTML file, whole or not at all, with its figures inside.

    Args:
        path: The file to write; its folder is made if it is not there.
        sections: The papers, in order.
        title: The page's title.

    Returns:
        The path of the file.

    Example:
        >>> write_report("octavo-report/dash.html", [Section(paper, outcomes=outcomes)], paper.title)
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("octavo_shared", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "data_url": _data_url,
        "in_short": _in_short,
        "is_wide": _is_wide,
        "note": _note,
        "seconds": _seconds,
        "summary": summary,
    }
    python, system = platform.python_version(), f"{platform.system()}, {platform.machine()}"
    counts = Counter(outcome.status for section in sections for outcome in section.outcomes)
    now = datetime.now(UTC)
    page = environment.get_template("report.html.j2").render(
        title=title,
        sections=sections,
        kinds=KINDS,
        counts=[{"status": status, "kind": kind, "count": counts[status]} for status, kind in KINDS.items()],
        when=f"{now.day} {now:%B %Y, %H:%M} UTC",
        machine=f"Python {python} on {os.cpu_count()} cores ({system})",
    )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as beside:
        beside.write_text(page, encoding="utf-8")
    return path


def _data_url(picture: Figure) -> str:
    kind, content = "svg+xml", svg(picture)
    if len(content) > LARGEST_SVG:
        kind, content = "png", png(picture)
    return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _is_wide(picture: Figure) -> bool:
    return bool(picture.get_figwidth() > WIDE)


def _in_short(section: Section) -> str:
    """What the list of papers says of one: `4 findings, 1 not as it should be; 12 hold`."""
    findings = section.findings
    parts = []
    if findings:
        wrong = sum(finding.holds is False for finding in findings)
        count = f"{len(findings)} finding{'s' if len(findings) > 1 else ''}"
        parts.append(f"{count}, {wrong} not as it should be" if wrong else count)
    if section.outcomes:
        parts.append(summary(section.outcomes))
    return "; ".join(parts) or "nothing measured"


def _note(outcome: Outcome) -> tuple[str, str]:
    """The note for reading, and the traceback that follows it where a check broke down."""
    if outcome.status is not Status.ERROR:
        return outcome.finding.note, ""
    reason, _, traceback = outcome.finding.note.partition("\n")
    return reason, traceback.strip()


def _seconds(outcome: Outcome) -> str:
    """How long it took; nothing for a claim that was not run."""
    if outcome.status is Status.NOT_RUN:
        return "—"
    return f"{outcome.seconds:.2f} s" if outcome.seconds < 10 else f"{outcome.seconds:.0f} s"
