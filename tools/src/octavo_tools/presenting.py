"""Runs the claims and the demonstrations of the papers in turn, and writes the report page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from rich.console import Console

from octavo_shared.claims import Finding, Outcome, Paper, Scale, Setting
from octavo_shared.cli import failed, outcome_record, print_json
from octavo_shared.display import Interrupted, run_claims, run_demo
from octavo_shared.report import Section, write_report
from octavo_tools import record
from octavo_tools.papers import collect, say_troubles
from octavo_tools.workspace import Workspace

INTERRUPTED = 130
"""The exit status after Ctrl-C, as in a shell. What was done until then is in the report."""


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
    try:
        outcomes, interrupted = run_claims(selection, setting, console), False
    except Interrupted as stop:
        outcomes, interrupted = cast("list[tuple[Paper, list[Outcome]]]", stop.results), True
    record.save(workspace.root, outcomes, setting.device)
    if report is not None:
        sections = [Section(paper, outcomes=of_paper) for paper, of_paper in outcomes]
        _write(report, sections, "octavo: claims", console)
    if as_json:
        rows = [{"package": p.slug, **outcome_record(outcome)} for p, of_paper in outcomes for outcome in of_paper]
        print_json({"claims": rows, "not_loaded": collected.troubles})
    fine = say_troubles(collected.troubles, console)
    if interrupted:
        raise SystemExit(INTERRUPTED)
    return fine and not any(failed(of_paper) for _, of_paper in outcomes)


def run_all_demos(workspace: Workspace, setting: Setting, out: Path, console: Console) -> bool:
    """Runs every package's demonstration and writes the report; says whether all of them loaded and came out right."""
    collected = collect(workspace)
    troubles = dict(collected.troubles)
    sections: list[Section] = []
    interrupted = False
    for slug, paper in collected.papers.items():
        try:
            sections.append(Section(paper, findings=run_demo(paper, setting, console)))
        except Interrupted as stop:
            sections.append(Section(paper, findings=cast("list[Finding]", stop.results)))
            interrupted = True
            break
        # A demonstration that breaks down says so under its own name; those after it still run.
        except Exception as error:
            troubles[slug] = f"broke down in its demonstration: {type(error).__name__}: {error}"
    fine = say_troubles(troubles, console)
    _write(out, sections, "octavo: demonstrations", console)
    if interrupted:
        raise SystemExit(INTERRUPTED)
    return fine and not any(finding.holds is False for section in sections for finding in section.findings)


def _write(folder: Path, sections: Sequence[Section], title: str, console: Console) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = write_report(folder / "index.html", sections, title)
    console.print(f"report: {path.resolve()}", markup=False, soft_wrap=True, highlight=False)
