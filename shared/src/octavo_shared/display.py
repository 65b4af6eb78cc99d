"""Demonstrations and claims at work on a terminal: tables that grow, a bar with the time left."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any

from rich import box
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Table
from rich.text import Text

from octavo_shared.claims import Claim, Finding, Outcome, Paper, Setting, Status, measure

STYLES = {Status.HOLDS: "green", Status.FAILS: "bold red", Status.NOT_RUN: "dim", Status.ERROR: "bold magenta"}
MARKS = {
    True: Text("✓", "green"),
    False: Text("✗", "bold red"),
    None: Text(""),
}


class Interrupted(KeyboardInterrupt):
    """The user interrupted the work. What was done until then is not lost.

    Attributes:
        results: What the interrupted function would have returned, as far as it came.
    """

    def __init__(self, results: Sequence[Any]) -> None:
        super().__init__()
        self.results = list(results)


def run_demo(paper: Paper, setting: Setting, console: Console) -> list[Finding]:
    """Runs a paper's demonstration and shows each finding as it comes: a row of a live table, or a plain line.

    Raises:
        Interrupted: The user interrupted the demonstration; carries the findings until then.
    """
    console.print(Text(f"{paper.slug}: {paper.title}", "bold"))
    findings: list[Finding] = []
    table = _table(("", 1), ("what", 12), ("came out", 12), ("note", 12))
    try:
        with Live(table, console=console, transient=not console.is_terminal) as live:
            for finding in paper.demo(setting):
                findings.append(finding)
                if console.is_terminal:
                    cells = (Text(finding.what), Text(finding.value), Text(finding.note, "dim"))
                    table.add_row(MARKS[finding.holds], *cells)
                    live.refresh()
                else:
                    console.print(_line(finding), soft_wrap=True)
    except KeyboardInterrupt:
        raise Interrupted(findings) from None
    return findings


def run_claims(
    selection: Sequence[tuple[Paper, Sequence[Claim]]], setting: Setting, console: Console
) -> list[tuple[Paper, list[Outcome]]]:
    """Measures the selected claims one after another behind a bar with the time left, then shows what came out.

    Raises:
        Interrupted: The user interrupted the work; carries the outcomes, those of claims not reached among them as not
            run.
    """
    pending = [(paper, claim) for paper, claims in selection for claim in claims]
    outcomes: list[Outcome] = []
    interrupted = False
    with _ClaimProgress([claim for _, claim in pending], setting, console) as progress:
        try:
            for paper, claim in pending:
                progress.begin(paper, claim)
                outcome = measure(claim, setting)
                outcomes.append(outcome)
                progress.end(paper, outcome)
        except KeyboardInterrupt:
            interrupted = True
    outcomes += [_not_reached(claim) for _, claim in pending[len(outcomes) :]]
    following = iter(outcomes)
    results = [(paper, list(islice(following, len(claims)))) for paper, claims in selection]
    for paper, of_paper in results:
        _show_outcomes(paper, of_paper, console)
    if interrupted:
        raise Interrupted(results)
    return results


def claims_table(paper: Paper, outcomes: Sequence[Outcome]) -> Table:
    """One row a claim: what is said, where, and what came out."""
    table = _table(("claim", 5), ("source", 3), ("paper", 3), ("ours", 4), ("", 2))
    table.title, table.title_justify = Text(f"{paper.slug}: {summary(outcomes)}", "bold"), "left"
    for outcome in outcomes:
        claim, finding = outcome.claim, outcome.finding
        # The rest of an error's note is its traceback, which needs more room than a cell.
        note = finding.note.split("\n")[0] if outcome.status is Status.ERROR else finding.note
        table.add_row(
            Text.assemble((claim.name, "bold"), f"\n{claim.statement}"),
            Text(claim.source),
            Text.assemble(claim.paper, (f"\nours: {claim.relation}", "dim")),
            Text.assemble(finding.value, (f"\n{note}" if note else "", "dim")),
            Text.assemble((str(outcome.status), STYLES[outcome.status]), (f"\n{outcome.seconds:.1f} s", "dim")),
        )
    return table


def summary(outcomes: Sequence[Outcome]) -> str:
    """How many claims hold, do not, were not run, erred: `12 hold, 1 does not hold, 3 not run`."""
    counts = Counter(outcome.status for outcome in outcomes)
    words = {
        Status.HOLDS: ("holds", "hold"),
        Status.FAILS: ("does not hold", "do not hold"),
        Status.NOT_RUN: ("not run", "not run"),
        Status.ERROR: ("error", "errors"),
    }
    parts = [f"{counts[status]} {words[status][counts[status] > 1]}" for status in Status if counts[status]]
    return ", ".join(parts) or "no claims"


class _ClaimProgress:
    """A bar over claims by their cost, or a line a claim where the console is no terminal."""

    def __init__(self, claims: Sequence[Claim], setting: Setting, console: Console) -> None:
        self._console = console
        self._device = setting.device
        self._remaining = sum(self._cost(claim) for claim in claims)
        self._expected = self._spent = 0.0
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), _TimeLeft())
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        # A bar of length zero would be full before it began.
        self._task = self._progress.add_task("", total=max(self._remaining, 1e-9), due=0.0)

    def __enter__(self) -> _ClaimProgress:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def begin(self, paper: Paper, claim: Claim) -> None:
        """Names the claim that is being measured, and says when all should be done at the pace so far."""
        pace = self._spent / self._expected if self._expected else 1.0
        due = time.monotonic() + self._remaining * pace
        self._progress.update(self._task, description=f"{paper.slug}: {claim.name}", due=due, refresh=True)

    def end(self, paper: Paper, outcome: Outcome) -> None:
        """Counts a measured claim."""
        cost = self._cost(outcome.claim)
        self._remaining -= cost
        self._expected += cost
        self._spent += outcome.seconds
        self._progress.advance(self._task, cost)
        if not self._console.is_terminal:
            line = f"{paper.slug}: {outcome.claim.name}: {outcome.status} ({outcome.seconds:.1f} s)"
            self._console.print(Text(line), soft_wrap=True)

    def _cost(self, claim: Claim) -> float:
        return claim.seconds if claim.runs_on(self._device) else 0.0


class _TimeLeft(ProgressColumn):
    """Counts down to the time at which all should be done."""

    def render(self, task: Task) -> Text:
        left = max(0, round(task.fields["due"] - time.monotonic()))
        return Text(f"{left // 60}:{left % 60:02} left", "cyan")


def _not_reached(claim: Claim) -> Outcome:
    return Outcome(claim, Status.NOT_RUN, Finding("", "—", note="interrupted before it was measured"), 0.0)


def _show_outcomes(paper: Paper, outcomes: Sequence[Outcome], console: Console) -> None:
    console.print(claims_table(paper, outcomes))
    for outcome in outcomes:
        if outcome.status is Status.ERROR:
            console.print(Text(f"{outcome.claim.name}: {outcome.finding.note.strip()}\n"), soft_wrap=True)


def _table(*columns: tuple[str, int]) -> Table:
    """A table of headings and relative widths, whose cells wrap, within long words too, so that nothing is cut off."""
    table = Table(box=box.SIMPLE_HEAD, show_lines=True, expand=True, padding=(0, 1), pad_edge=False)
    for heading, ratio in columns:
        table.add_column(heading, ratio=ratio, overflow="fold")
    return table


def _line(finding: Finding) -> Text:
    note = Text(f"  ({finding.note})") if finding.note else Text("")
    return Text.assemble(MARKS[finding.holds], f" {finding.what}: {finding.value}", note)
