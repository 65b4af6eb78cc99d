"""The history of a benchmark: one JSON line a run, under the package's `benchmarks/results/`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from octavo_shared.files import written_whole


@dataclass(frozen=True)
class Run:
    """One recorded run.

    Attributes:
        date: When, in UTC.
        commit: The commit it was run at; ends in `+` where files differed from it.
        machine: What it ran on.
        comparisons: A record of each comparison: case, ours, peer, the seconds of each run, speedup, figures.
    """

    date: str
    commit: str
    machine: str
    comparisons: Sequence[dict[str, Any]]


def history_path(bench: Path, device: str) -> Path:
    """Returns the file that holds a benchmark's history on a kind of device."""
    return bench.parent / "results" / f"{bench.stem}-{device.partition(':')[0]}.jsonl"


def new_run(machine: str, comparisons: Sequence[dict[str, Any]], folder: Path) -> Run:
    """Returns a run of this moment, at the commit that `folder` is checked out at."""
    return Run(datetime.now(UTC).isoformat(timespec="seconds"), _commit(folder), machine, comparisons)


def last_run(path: Path, machine: str) -> Run | None:
    """Returns the last run that was recorded on this machine."""
    runs = [Run(**json.loads(line)) for line in _lines(path)]
    return next((run for run in reversed(runs) if run.machine == machine), None)


def append(path: Path, run: Run) -> None:
    """Adds a run to the end of its history."""
    path.parent.mkdir(exist_ok=True)
    with written_whole(path) as beside:
        lines = [*_lines(path), json.dumps(run.__dict__)]
        beside.write_text("\n".join(lines) + "\n", encoding="utf-8")


def change(before: Run | None, comparison: dict[str, Any]) -> float | None:
    """Returns by how much the speedup of a comparison has changed since a run: 0.1 for ten per cent faster."""
    key = ("case", "ours", "peer")
    for old in before.comparisons if before else ():
        if all(old[k] == comparison[k] for k in key) and old["speedup"]:
            return float(comparison["speedup"] / old["speedup"] - 1)
    return None


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line] if path.is_file() else []


def _commit(folder: Path) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", folder, "describe", "--always", "--dirty=+", "--exclude=*", "--abbrev=12"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (FileNotFoundError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()
