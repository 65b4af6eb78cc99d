"""Runs the claims and the demonstrations of the papers in turn, and writes the report page."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from octavo_shared.claims import Outcome, Paper, Scale, Setting, Status
from octavo_shared.display import run_claims, run_demo
from octavo_shared.report import Section, write_report
from rich.console import Console

from octavo_tools import record
from octavo_tools.papers import collect, say_troubles
from octavo_tools.workspace import Workspace


def run_all_claims(
    workspace: Workspace,
    scales: Sequence[Scale],
    setting: Setting,
    report: Path | None,
    console: Console,
    *,
    as_json: bool,
) -> bool:
    """Runs the claims of every package of the workspace; says whether all of them loaded and none failed."""
    collected = collect(workspace)
    selection = [(paper, paper.select(scales=scales)) for paper in collected.papers.values()]
    outcomes = run_claims(selection, setting, console)
    record.save(workspace.root, outcomes, setting.device)
    if report is not None:
        sections = [Section(paper, outcomes=of_paper) for paper, of_paper in outcomes]
        _write(report, sections, "octavo: claims", console)
    if as_json:
        rows = [_row(paper, outcome) for paper, of_paper in outcomes for outcome in of_paper]
        json.dump({"claims": rows, "not_loaded": collected.troubles}, sys.stdout, indent=1)
        sys.stdout.write("\n")
    failed = any(o.status in (Status.FAILS, Status.ERROR) for _, of_paper in outcomes for o in of_paper)
    return say_troubles(collected.troubles, console) and not failed


def run_all_demos(workspace: Workspace, setting: Setting, out: Path, console: Console) -> bool:
    """Runs every package's demonstration and writes the report; says whether all of them loaded and came out right."""
    collected = collect(workspace)
    troubles = dict(collected.troubles)
    sections: list[Section] = []
    for slug, paper in collected.papers.items():
        try:
            sections.append(Section(paper, findings=run_demo(paper, setting, console)))
        # A demonstration that breaks down says so under its own name; those after it still run.
        except Exception as error:
            troubles[slug] = f"broke down in its demonstration: {type(error).__name__}: {error}"
    fine = say_troubles(troubles, console)
    _write(out, sections, "octavo: demonstrations", console)
    return fine and not any(finding.holds is False for section in sections for finding in section.findings)


def _write(folder: Path, sections: Sequence[Section], title: str, console: Console) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = write_report(folder / "index.html", sections, title)
    console.print(f"report: {path.resolve()}", markup=False, soft_wrap=True, highlight=False)


def _row(paper: Paper, outcome: Outcome) -> dict[str, Any]:
    claim, finding = outcome.claim, outcome.finding
    return {
        "package": paper.slug,
        "claim": claim.name,
        "statement": claim.statement,
        "source": claim.source,
        "paper": claim.paper,
        "relation": claim.relation,
        "scale": str(claim.scale),
        "ours": finding.value,
        "status": str(outcome.status),
        "seconds": outcome.seconds,
        "note": finding.note,
    }
