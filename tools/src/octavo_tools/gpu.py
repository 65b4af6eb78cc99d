"""Everything that needs a GPU, within a few minutes: the tests marked `gpu`, then the benchmarks.

Runs in a bare checkout, where the packages lie on PYTHONPATH and little else is installed: this module and what it
imports need typer, rich and pytest alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from octavo_shared.files import written_whole
from octavo_tools.benchmarks import benchmark_files, run_benchmark
from octavo_tools.history import history_path
from octavo_tools.jobs import run_jobs
from octavo_tools.results import tail
from octavo_tools.testing import Options, describe, pytest_job, result_of
from octavo_tools.workspace import Member, Workspace

LEAST = 60.0
"""Seconds that a piece may take however many there are: kernels have to be compiled first."""


@dataclass(frozen=True)
class Row:
    """One line of the closing table: what ran, what came out, the seconds, and whether it went wrong."""

    piece: str
    outcome: str
    seconds: float
    failed: bool


Piece = Callable[[float], list[Row]]
"""Runs within the seconds it is given."""


@dataclass(frozen=True)
class Bench:
    """Where the pieces run and what they have in common."""

    workspace: Workspace
    console: Console
    scratch: Path
    out: Path | None

    @property
    def env(self) -> dict[str, str]:
        """Our environment, with every member's sources first on the path."""
        paths = [str(path) for path in self.workspace.sources()]
        inherited = os.environ.get("PYTHONPATH")
        return {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, *([inherited] if inherited else [])])}

    def tests(self, member: Member, files: Sequence[Path], seconds: float) -> list[Row]:
        """Runs one package's GPU tests."""
        options = Options(mark="gpu", timeout=seconds)
        # addopts may name plugins that a bare machine lacks, such as jaxtyping's.
        extra = ["-o", "addopts=", "-rs", *map(str, files)]
        job = pytest_job(member.slug, options, self.scratch, member.path, env=self.env, extra=extra)
        (end,) = run_jobs([job], 1)
        result = result_of(end, options)
        if result.trouble and result.log:
            self.console.print("\n".join(tail(result.log)), markup=False, highlight=False)
        outcome = result.trouble or describe(result.counts)
        return [Row(f"{member.slug} tests", outcome, result.seconds, bool(result.trouble))]

    def benchmark(self, member: Member, file: Path, seconds: float) -> list[Row]:
        """Runs one benchmark on the GPU."""
        measured = run_benchmark(member, file, "cuda", seconds, self.scratch, self.console, self.env)
        rows = [
            Row(
                f"{measured.name}: {c['case']}",
                f"{c['ours']} {c['speedup']:.2f}× {c['peer']}{_figures(c['figures'])}",
                measured.seconds,
                False,
            )
            for c in measured.comparisons
        ]
        if measured.trouble:
            self.console.print(measured.trouble, markup=False, highlight=False)
            rows.append(Row(measured.name, measured.trouble.splitlines()[0], measured.seconds, True))
        elif self.out is not None:
            kept = history_path(file, "cuda")
            shutil.copy(kept, self.out / f"{member.slug}-{kept.name}")
        return rows


def gpu_name(env: dict[str, str]) -> str:
    """Returns the name of the CUDA device, or an empty text where there is none."""
    program = "import torch; print(torch.cuda.get_device_name(0) if torch.cuda.is_available() else '')"
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    return done.stdout.strip().splitlines()[-1] if done.returncode == 0 and done.stdout.strip() else ""


def gpu_test_files(member: Member) -> list[Path]:
    """Returns the test files with tests marked `gpu`; the others may import what a GPU machine does not have."""
    files = sorted((member.path / "tests").rglob("test_*.py"))
    return [file for file in files if "mark.gpu" in file.read_text(encoding="utf-8")]


def run_gpu(workspace: Workspace, minutes: float, out: Path | None, console: Console) -> bool:
    """Runs every piece within `minutes`, prints the table, and says whether nothing went wrong."""
    deadline = time.monotonic() + 60 * minutes
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="octavo-gpu-") as scratch:
        bench = Bench(workspace, console, Path(scratch), out)
        name = gpu_name(bench.env)
        title = (
            f"GPU: {name}" if name else "no CUDA device here: GPU tests are collected and skip, benchmarks do not run"
        )
        console.print(title, markup=False)
        rows = [Row(slug, reason, 0.0, True) for slug, reason in workspace.broken.items()]
        rows += run_pieces(pieces_of(bench, with_benchmarks=bool(name)), deadline, console)
    console.print(_table(rows))
    if out is not None:
        with written_whole(out / "gpu.md") as beside:
            beside.write_text(_markdown(rows, title), encoding="utf-8")
        console.print(f"table: {out / 'gpu.md'}", markup=False, soft_wrap=True)
    return not any(row.failed for row in rows)


def pieces_of(bench: Bench, *, with_benchmarks: bool) -> dict[str, Piece]:
    """Returns what there is to run by name: all tests, then all benchmarks."""
    packages = [member for member in bench.workspace.members.values() if member.is_package]
    pieces: dict[str, Piece] = {}
    for member in packages:
        files = gpu_test_files(member)
        if files:
            pieces[f"{member.slug} tests"] = partial(bench.tests, member, files)
    for member in packages if with_benchmarks else ():
        for file in benchmark_files(member, "cuda"):
            pieces[f"{member.slug}/{file.stem}"] = partial(bench.benchmark, member, file)
    return pieces


def run_pieces(pieces: dict[str, Piece], deadline: float, console: Console) -> list[Row]:
    """Runs the pieces one after another; what one does not use is there for those after it.

    Args:
        pieces: What to run, by name.
        deadline: When the last must have ended, by `time.monotonic`.
        console: Where each result is shown when it is there.
    """
    rows: list[Row] = []
    for index, (name, piece) in enumerate(pieces.items()):
        left = deadline - time.monotonic()
        # Most pieces are short, so one may take more than its equal share; but never all that the others have.
        share = min(left, max(LEAST, 3 * left / (len(pieces) - index)))
        new = piece(share) if left > 1 else [Row(name, "not run: no time left", 0.0, True)]
        for row in new:
            console.print(f"{row.piece}: {row.outcome} ({row.seconds:.1f} s)", markup=False, soft_wrap=True)
        rows += new
    return rows


def _figures(figures: dict[str, float | str]) -> str:
    parts = [f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}" for key, value in figures.items()]
    return f" ({', '.join(parts)})" if parts else ""


def _table(rows: Sequence[Row]) -> Table:
    table = Table()
    for heading in ("piece", "outcome", "seconds"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(row.piece, row.outcome, f"{row.seconds:.1f}", style="red" if row.failed else None)
    return table


def _markdown(rows: Sequence[Row], title: str) -> str:
    lines = [f"# {title}", "", "| piece | outcome | seconds |", "| --- | --- | ---: |"]
    for row in rows:
        cells = (row.piece, row.outcome, f"{row.seconds:.1f}")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"
