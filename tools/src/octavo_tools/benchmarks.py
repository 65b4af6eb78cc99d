"""Runs the benchmarks, each in a process of its own, and holds them against their peers and against the last run."""

from __future__ import annotations

import ast
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from octavo_tools import history
from octavo_tools.jobs import Ended, Job, Running, Watcher, run_jobs
from octavo_tools.results import tail
from octavo_tools.workspace import Member, Workspace


@dataclass(frozen=True)
class Measured:
    """What came of one benchmark file.

    Attributes:
        name: Package and file: `dash/bench_backward`.
        comparisons: What it yielded; all of it only where there is no trouble.
        changes: For each comparison, the change of its speedup since the last run on this machine, if there was one.
        seconds: What it took.
        trouble: Why it did not come to its end; empty if it did.
    """

    name: str
    comparisons: Sequence[dict[str, Any]]
    changes: Sequence[float | None]
    seconds: float
    trouble: str = ""


def benchmark_files(member: Member, device: str | None = None) -> list[Path]:
    """Returns the benchmark files of a package; for a device, those that do not name others in `DEVICES`."""
    files = sorted((member.path / "benchmarks").glob("bench_*.py"))
    return [file for file in files if device is None or device.partition(":")[0] in _devices(file)]


def _devices(file: Path) -> Sequence[str]:
    """What the file assigns to `DEVICES`, read without running it; a file that does not parse says so when it runs."""
    try:
        statements = ast.parse(file.read_text(encoding="utf-8")).body
    except SyntaxError:
        statements = []
    for statement in statements:
        if isinstance(statement, ast.Assign) and any(ast.unparse(target) == "DEVICES" for target in statement.targets):
            return list(ast.literal_eval(statement.value))
    return ["cpu", "cuda"]


def run_benchmark(
    member: Member,
    file: Path,
    device: str,
    timeout: float,
    scratch: Path,
    console: Console,
    env: Mapping[str, str] | None = None,
) -> Measured:
    """Runs one benchmark file, shows its comparisons as they come, and adds them to its history once all are there."""
    name = f"{member.slug}/{file.stem}"
    results, log = scratch / f"{member.slug}-{file.stem}.jsonl", scratch / f"{member.slug}-{file.stem}.log"
    command = [sys.executable, "-m", "octavo_tools.benchmark_process", str(file), device, str(results)]
    shown = 0

    def tick(running: Sequence[Running]) -> None:
        nonlocal shown
        for comparison in _read(results)[1][shown:]:
            console.print(f"{name}: {comparison['case']}: {_ratio(comparison)}", markup=False, soft_wrap=True)
            shown += 1

    console.print(f"{name}: running on {device}", markup=False)
    (end,) = run_jobs([Job(name, command, member.path, log, timeout, env)], 1, Watcher(tick=tick))
    machine, comparisons = _read(results)
    trouble = _trouble(end, comparisons, log)
    path = history.history_path(file, device)
    before = history.last_run(path, machine)
    if not trouble:
        history.append(path, history.new_run(machine, comparisons, member.path))
    changes = [history.change(before, comparison) for comparison in comparisons]
    return Measured(name, comparisons, changes, end.seconds, trouble)


def table_of(measured: Sequence[Measured]) -> Table:
    """Returns the table that `octavo bench` ends with."""
    table = Table(title="ours against the peer, medians of paired runs", title_justify="left")
    for heading in ("benchmark", "case", "ours vs peer", "speedup", "since last run"):
        table.add_column(heading, overflow="fold")
    for one in measured:
        for comparison, since in zip(one.comparisons, one.changes, strict=True):
            peers = f"{comparison['ours']} vs {comparison['peer']}"
            speedup = f"{comparison['speedup']:.2f}×"
            table.add_row(one.name, comparison["case"], peers, speedup, "—" if since is None else f"{since:+.0%}")
        if one.trouble:
            table.add_row(one.name, f"[bold red]{one.trouble.splitlines()[0]}", "", "", "")
    return table


def _trouble(end: Ended, comparisons: Sequence[object], log: Path) -> str:
    if end.timed_out:
        return f"timed out after {end.job.timeout:g} s"
    if end.status:
        return "\n".join([f"ended with status {end.status}", *tail(log, 20)])
    return "" if comparisons else "yielded no comparison"


def _read(results: Path) -> tuple[str, list[dict[str, Any]]]:
    """Returns the machine and the comparisons so far; a line still being written does not count yet."""
    text = results.read_text(encoding="utf-8") if results.is_file() else ""
    records = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    return (records[0]["machine"], records[1:]) if records else ("", [])


def _ratio(comparison: Mapping[str, Any]) -> str:
    return f"{comparison['ours']} {comparison['speedup']:.2f}× as fast as {comparison['peer']}"


def run_benchmarks(workspace: Workspace, device: str, timeout: float, console: Console) -> bool:
    """Runs all benchmarks, prints the table, and says whether all came to their end."""
    files = [(member, file) for member in workspace.members.values() for file in benchmark_files(member, device)]
    with tempfile.TemporaryDirectory(prefix="octavo-bench-") as scratch:
        measured = [run_benchmark(member, file, device, timeout, Path(scratch), console) for member, file in files]
    console.print(table_of(measured))
    troubles = {one.name: one.trouble for one in measured if one.trouble} | workspace.broken
    for name, trouble in troubles.items():
        console.print(f"{name}: {trouble}", markup=False, soft_wrap=True, highlight=False)
    return not troubles
