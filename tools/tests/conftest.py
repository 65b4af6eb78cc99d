"""Small real workspaces, on which the real command runs in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

MARKERS = 'markers = ["slow: more than a few seconds", "gpu: needs a CUDA device"]'


@dataclass
class Place:
    """A workspace in a temporary folder, whose packages are importable as if they had been installed."""

    root: Path
    plugins: bool = False
    """Whether pytest loads all installed plugins, which takes a second and a half each time."""

    @property
    def env(self) -> dict[str, str]:
        sources = [str(path) for path in sorted(self.root.glob("packages/*/src"))]
        paths = [str(self.root / "site"), *sources, os.environ.get("PYTHONPATH", "")]
        env = {key: value for key, value in os.environ.items() if key not in ("PYTEST_ADDOPTS", "COLUMNS")}
        env |= {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "TERM": "dumb", "OMP_NUM_THREADS": "1"}
        return env if self.plugins else {**env, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "octavo_tools", *arguments]

    def octavo(self, *arguments: str, cwd: Path | None = None, timeout: float = 110) -> subprocess.CompletedProcess:
        return subprocess.run(
            self.command(*arguments),
            cwd=cwd or self.root,
            env=self.env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            check=False,
        )

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def package(self, slug: str, tests: str = "", needs: tuple[str, ...] = (), claims: str | None = None) -> Path:
        """Adds a package with this test file and, where `claims` is given, a published paper."""
        module = f"octavo_{slug}"
        dependencies = ", ".join(f'"octavo-{name}"' for name in needs)
        self.write(
            f"packages/{slug}/pyproject.toml",
            f'[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n\n'
            f'[project]\nname = "octavo-{slug}"\nversion = "1"\ndependencies = [{dependencies}]\n\n'
            f"[project.optional-dependencies]\ntest = []\n\n"
            f'[tool.hatch.build.targets.wheel]\npackages = ["src/{module}"]\n\n'
            f"[tool.pytest.ini_options]\n{MARKERS}\n",
        )
        self.write(f"packages/{slug}/src/{module}/__init__.py", "")
        if tests:
            self.write(f"packages/{slug}/tests/test_{slug}.py", tests)
        if claims is not None:
            self.write(f"packages/{slug}/src/{module}/claims.py", claims)
            self.publish(slug, f"{module}.claims:PAPER")
        return self.root / "packages" / slug

    def publish(self, slug: str, value: str) -> None:
        """Puts the metadata beside the sources that pip would have put there."""
        info = f"site/octavo_{slug}-1.dist-info"
        self.write(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: octavo-{slug}\nVersion: 1\n")
        self.write(f"{info}/entry_points.txt", f"[octavo.papers]\n{slug} = {value}\n")

    def git(self, *arguments: str) -> str:
        identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
        command = ["git", *identity, *arguments]
        return subprocess.run(command, cwd=self.root, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path / "workspace")
    place.write("pyproject.toml", "# a workspace\n")
    (place.root / "packages").mkdir()
    return place


def assert_lines(output: str, **expected: str) -> None:
    """Asserts that for each name there is a line `name: ...` that contains the text."""
    for name, text in expected.items():
        assert any(line.startswith(f"{name}:") and text in line for line in output.splitlines()), output
