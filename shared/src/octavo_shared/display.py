"""Demonstrations and claims in a terminal: what comes out, as it comes."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from octavo_shared.claims import Claim, Finding, Outcome, Paper, Setting, Status, measure

STYLES = {Status.HOLDS: "green", Status.FAILS: "bold yellow", Status.NOT_RUN: "dim", Status.ERROR: "bold red"}
MARKS = {True: "[green]✓[/]", False: "[bold yellow]✗[/]", None: ""}


def run_demo(paper: Paper, setting: Setting, console: Console) -> list[Finding]:
    """Runs a paper's demonstration; a table grows by a row a finding.

    An interruption ends the demonstration and keeps the rows on the screen.
    """
    findings: list[Finding] = []
    console.print(f"[bold]{paper.slug}[/]  {paper.title}")
    if console.is_terminal:
        with Live(_findings(findings), console=console, refresh_per_second=4) as live:
            for finding in paper.demo(setting):
                findings.append(finding)
                live.update(_findings(findings))
    else:
        for finding in paper.demo(setting):
            findings.append(finding)
            console.print(f"  {finding.what}: {finding.value}  {MARKS[finding.holds]}  {finding.note}".rstrip())
    return findings


def run_claims(
    selection: Sequence[tuple[Paper, Sequence[Claim]]], setting: Setting, console: Console
) -> list[tuple[Paper, list[Outcome]]]:
    """Measures claims behind a progress bar, then says in a table for each paper what came out.

    The bar advances by the seconds that each claim says it costs. An interruption ends the measuring; what was measured
    by then is shown and returned, the rest counts as not run.
    """
    results: list[tuple[Paper, list[Outcome]]] = []
    total = sum(claim.seconds for _, claims in selection for claim in claims)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    interrupted = False
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=total)
        for paper, claims in selection:
            outcomes: list[Outcome] = []
            results.append((paper, outcomes))
            for claim in claims:
                progress.update(bar, description=f"{paper.slug}: {claim.name}")
                try:
                    outcome = _not_run(claim) if interrupted else measure(claim, setting)
                except KeyboardInterrupt:
                    interrupted, outcome = True, _not_run(claim)
                outcomes.append(outcome)
                progress.advance(bar, claim.seconds)
    for paper, outcomes in results:
        console.print(claims_table(paper, outcomes))
    return results


def claims_table(paper: Paper, outcomes: Sequence[Outcome]) -> Table:
    """One row a claim: what is said, by whom, and what came out."""
    table = Table(title=f"{paper.slug}: {summary(outcomes)}", title_justify="left", show_lines=True, expand=True)
    for heading, ratio in (("claim", 5), ("source", 3), ("paper", 3), ("ours", 4), ("", 2)):
        table.add_column(heading, ratio=ratio, overflow="fold")
    for outcome in outcomes:
        claim, finding = outcome.claim, outcome.finding
        ours = finding.value if not finding.note else f"{finding.value}\n[dim]{_escape(finding.note)}[/]"
        verdict = f"[{STYLES[outcome.status]}]{outcome.status}[/]\n[dim]{outcome.seconds:.1f} s[/]"
        expected = f"{_escape(claim.paper)}\n[dim]ours: {_escape(claim.relation)}[/]"
        table.add_row(_escape(claim.statement), _escape(claim.source), expected, ours, verdict)
    return table


def summary(outcomes: Sequence[Outcome]) -> str:
    """How many claims hold, do not, were not run, erred: `12 hold, 1 does not hold, 3 not run`."""
    counts = {status: sum(o.status is status for o in outcomes) for status in Status}
    words = {
        Status.HOLDS: "hold" if counts[Status.HOLDS] != 1 else "holds",
        Status.FAILS: "do not hold" if counts[Status.FAILS] != 1 else "does not hold",
        Status.NOT_RUN: "not run",
        Status.ERROR: "errors" if counts[Status.ERROR] != 1 else "error",
    }
    return ", ".join(f"{counts[status]} {words[status]}" for status in Status if counts[status]) or "no claims"


def _findings(findings: Sequence[Finding]) -> Table:
    table = Table(expand=True)
    for heading, ratio in (("what", 4), ("came out", 5), ("", None), ("note", 4)):
        table.add_column(heading, ratio=ratio, overflow="fold")
    for finding in findings:
        table.add_row(_escape(finding.what), _escape(finding.value), MARKS[finding.holds], _escape(finding.note))
    return table


def _not_run(claim: Claim) -> Outcome:
    return Outcome(claim, Status.NOT_RUN, Finding("", "—", note="interrupted"), 0.0)


def _escape(text: str) -> str:
    return text.replace("[", "\\[")
