"""Proves that a package stands alone: its wheel, its declared dependencies, a new environment, tests from elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from octavo_tools.board import Board
from octavo_tools.jobs import Ended, Job, Watcher, run_jobs
from octavo_tools.results import Counts, Result
from octavo_tools.testing import Options, broken_result, pytest_job, result_of, results_folder, state_of
from octavo_tools.workspace import Member, Workspace

NOT_SOURCES = shutil.ignore_patterns(
    "build", "dist", "__pycache__", ".*_cache", ".hypothesis", "test-results", "*.so", "*.egg-info"
)
INSTALL_TIMEOUT = 1800.0


def run_isolated(workspace: Workspace, whole: Workspace, options: Options, console: Console) -> list[Result]:
    """Tests every member of `workspace` away from the tree, one after another, for each environment takes gigabytes.

    Args:
        workspace: The members to test.
        whole: All members: dependencies are looked for here.
        options: As for tests inside the tree; the timeout is for the tests alone.
        console: Where the progress is shown.
    """
    folder = results_folder(workspace.root)
    folder.mkdir(exist_ok=True)
    board = Board(console, "octavo test --isolated", [*workspace.broken, *workspace.members])
    results = [broken_result(slug, reason) for slug, reason in workspace.broken.items()]
    with board.shown():
        for result in results:
            board.set(result.slug, *state_of(result))
        for member in workspace.members.values():
            with tempfile.TemporaryDirectory(prefix=f"octavo-{member.slug}-") as place:
                result = _Isolation(member, whole, options, folder, Path(place).resolve(), board).run()
            results.append(result)
            board.set(result.slug, *state_of(result))
    return results


class _Isolation:
    """One package's way out of the tree: each step is a job, and the first that fails ends it."""

    def __init__(
        self, member: Member, whole: Workspace, options: Options, folder: Path, place: Path, board: Board
    ) -> None:
        self.member, self.whole, self.options, self.folder, self.place, self.board = (
            member, whole, options, folder, place, board
        )  # fmt: skip
        self.log = folder / f"{member.slug}-isolated.log"
        self.python = place / "venv" / "bin" / "python"
        self.seconds = 0.0
        constraints = str(whole.root / "ci" / "constraints.txt")
        # The caller's pip settings hold, and the workspace's exact versions on top; its Python settings do not.
        self.env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
        if Path(constraints).is_file():
            self.env |= {"PIP_CONSTRAINT": constraints, "PIP_BUILD_CONSTRAINT": constraints}

    def run(self) -> Result:
        self.log.unlink(missing_ok=True)
        for note, step in (
            ("building wheels", self._build),
            ("making an environment", self._environment),
            ("installing", self._install),
            ("looking where it came from", self._origin),
        ):
            self.board.set(self.member.slug, "running", note, self.seconds)
            end = self._do(step())
            if end.status:
                why = "timed out" if end.timed_out else "failed"
                return Result(self.member.slug, Counts(error=1), self.seconds, f"{note} {why}", self.log)
        self.board.set(self.member.slug, "running", "testing", self.seconds)
        result = result_of(self._do(self._test()), self.options)
        if not result.trouble:
            self.log.unlink(missing_ok=True)
        return Result(result.slug, result.counts, self.seconds, result.trouble, result.log, result.junit)

    def _do(self, job: Job) -> Ended:
        (end,) = run_jobs([job], 1, Watcher(tick=self.board.tick))
        self.seconds += end.seconds
        return end

    def _job(self, command: Sequence[str | Path], cwd: Path, timeout: float = INSTALL_TIMEOUT) -> Job:
        return Job(self.member.slug, [str(part) for part in command], cwd, self.log, timeout, self.env)

    def _build(self) -> Job:
        # Built from copies: a build inside the tree would overwrite what the editable installation runs.
        copies = []
        for member in (self.member, *self.whole.needs(self.member)):
            copies.append(self.place / "sources" / member.slug)
            shutil.copytree(member.path, copies[-1], ignore=NOT_SOURCES)
        return self._job([sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", "wheels", *copies], self.place)

    def _environment(self) -> Job:
        return self._job([sys.executable, "-m", "venv", self.place / "venv"], self.place)

    def _install(self) -> Job:
        # By path, not by name: no index can offer a package of the same name instead.
        requirements = []
        for wheel in sorted((self.place / "wheels").glob("*.whl")):
            ours = wheel.name.split("-")[0].replace("_", "-").lower() == self.member.dist
            requirements.append(f"{wheel}[test]" if ours else str(wheel))
        shutil.rmtree(self.place / "sources")
        return self._job([self.python, "-m", "pip", "install", "--progress-bar=off", *requirements], self.place)

    def _origin(self) -> Job:
        away = self.place / "tests-only"
        away.mkdir()
        for name in ("tests", "benchmarks", "README.md", "pyproject.toml"):
            source = self.member.path / name
            if source.is_dir():
                shutil.copytree(source, away / name, ignore=NOT_SOURCES)
            elif source.is_file():
                shutil.copy(source, away / name)
        module = self.member.module
        program = (
            f"import sys, {module} as m; print(m.__file__); sys.exit(not m.__file__.startswith(sys.prefix + '/lib'))"
        )
        return self._job([self.python, "-c", program], away, 120)

    def _test(self) -> Job:
        away = self.place / "tests-only"
        return pytest_job(self.member.slug, self.options, self.folder, away, python=str(self.python), env=self.env)
