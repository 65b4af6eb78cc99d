"""Runs the members' tests: one pytest process each, side by side."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from octavo_tools.board import Board
from octavo_tools.jobs import Ended, Job, Watcher, cores, run_jobs
from octavo_tools.results import Counts, Result, closing_line, merge_junit, read_counts, tail
from octavo_tools.workspace import Workspace

DEFAULT_MARK = "not slow and not gpu"
DEFAULT_TIMEOUT = 900.0
NO_TESTS = 5
"""The exit status of pytest when it ran no test."""


@dataclass(frozen=True)
class Options:
    """How tests are run.

    Attributes:
        mark: pytest's `-m`; `None` for the default, everything that is quick and needs no GPU.
        timeout: Seconds that one member may take.
        workers: Members that are tested side by side.
    """

    mark: str | None = None
    timeout: float = DEFAULT_TIMEOUT
    workers: int = 1


def results_folder(root: Path) -> Path:
    """Returns the folder that logs and JUnit files go to."""
    return root / "test-results"


def default_workers(workspace: Workspace) -> int:
    """Returns how many members are tested side by side: as many as there are cores, if there are as many members."""
    return max(1, min(cores(), len(workspace.members)))


def pytest_job(
    slug: str,
    options: Options,
    folder: Path,
    cwd: Path,
    *,
    python: str = sys.executable,
    env: Mapping[str, str] | None = None,
    extra: Sequence[str] = (),
) -> Job:
    """Returns the job that runs one member's tests in `cwd`, writing a log and a JUnit file into `folder`."""
    mark = DEFAULT_MARK if options.mark is None else options.mark
    threads = str(max(1, cores() // options.workers))
    log, junit = folder / f"{slug}.log", folder / f"{slug}.xml"
    for file in (log, junit):
        file.unlink(missing_ok=True)
    command = [python, "-m", "pytest", "-m", mark, f"--junitxml={junit}", "--color=no", *extra]
    return Job(slug, command, cwd, log, options.timeout, {**(env or os.environ), "OMP_NUM_THREADS": threads})


def result_of(end: Ended, options: Options) -> Result:
    """Returns what came of a member's tests. Its log is removed where there is nothing in it to look for."""
    log, junit = end.job.log, end.job.log.with_suffix(".xml")
    counts = read_counts(junit, log)
    trouble = _trouble(end, counts, options)
    if counts is None or (trouble and not counts.failed and not counts.error):
        counts = (counts or Counts()) + Counts(error=1)
    if not trouble:
        log.unlink(missing_ok=True)
    return Result(
        end.job.name, counts, end.seconds, trouble, log if trouble else None, junit if junit.is_file() else None
    )


def _trouble(end: Ended, counts: Counts | None, options: Options) -> str:
    if end.timed_out:
        return f"timed out after {end.job.timeout:g} s"
    if end.status == NO_TESTS:
        # Someone who asks for a mark knows that not every member has tests with it.
        nothing_to_do = counts is not None and counts.deselected and options.mark is not None
        return "" if nothing_to_do else "no tests were collected"
    if end.status < 0:
        return f"killed by signal {-end.status}"
    if end.status and counts and (counts.failed or counts.error):
        return describe(counts)
    return f"pytest ended with status {end.status}" if end.status else ""


def describe(counts: Counts) -> str:
    """Returns the counts as a phrase: `1 failed, 12 passed`."""
    return closing_line(counts, 0.0).strip("= ").removesuffix(" in 0.00s")


def run_tests(workspace: Workspace, options: Options, console: Console) -> list[Result]:
    """Runs the tests of every member of the workspace and says on the way how they fare."""
    folder = results_folder(workspace.root)
    folder.mkdir(exist_ok=True)
    jobs = [pytest_job(slug, options, folder, member.path) for slug, member in workspace.members.items()]
    board = Board(console, "octavo test", [*workspace.broken, *workspace.members])
    results = [broken_result(slug, reason) for slug, reason in workspace.broken.items()]

    def ended(end: Ended) -> None:
        result = result_of(end, options)
        results.append(result)
        board.set(result.slug, *state_of(result))

    watcher = Watcher(lambda job: board.set(job.name, "running"), board.tick, ended)
    with board.shown():
        for result in list(results):
            board.set(result.slug, *state_of(result))
        run_jobs(jobs, options.workers, watcher)
    return results


def broken_result(slug: str, reason: str) -> Result:
    """Returns the result of a member whose `pyproject.toml` cannot be read."""
    return Result(slug, Counts(error=1), 0.0, reason)


def state_of(result: Result) -> tuple[str, str, float]:
    """Returns what the board shows of a result: state, note, seconds."""
    return (
        ("failed", result.trouble, result.seconds)
        if result.trouble
        else ("passed", describe(result.counts), result.seconds)
    )


def close(results: Sequence[Result], root: Path, start: float, console: Console) -> bool:
    """Writes the merged JUnit file, prints the ends of the logs and pytest's closing line; says whether all is well."""
    folder = results_folder(root)
    folder.mkdir(exist_ok=True)
    merge_junit(results, folder / "junit.xml")
    for result in results:
        if result.junit is not None:
            result.junit.unlink(missing_ok=True)
        if result.trouble:
            console.rule(f"{result.slug}: {result.trouble}", style="red")
        if result.trouble and result.log is not None:
            console.print("\n".join(tail(result.log)), markup=False, highlight=False, soft_wrap=True)
            console.print(f"whole log: {result.log.relative_to(root)}", markup=False, soft_wrap=True)
    total = sum((result.counts for result in results), Counts())
    line = closing_line(total, time.monotonic() - start, min(console.width, shutil.get_terminal_size().columns))
    console.print(line, markup=False, highlight=False, soft_wrap=True)
    return not any(result.trouble for result in results)
