"""The report: claims and demonstrations as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from octavo_shared.claims import Finding, Outcome, Paper, Status
from octavo_shared.display import summary
from octavo_shared.figures import png
from octavo_shared.files import written_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("octavo_shared", "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {"summary": summary, "data_url": _data_url}
    page = environment.get_template("report.html.j2").render(
        title=title, sections=sections, Status=Status, written=datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC")
    )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as beside:
        beside.write_text(page, encoding="utf-8")
    return path


def _data_url(picture: Figure) -> str:
    return "data:image/png;base64," + base64.b64encode(png(picture)).decode("ascii")
