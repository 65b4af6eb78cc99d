"""`octavo new`: what it writes works untouched, and what it cannot write it says."""

import subprocess
import sys
from pathlib import Path

import pytest

from octavo_tools.workspace import find_root

HOME = find_root(Path(__file__))
RUFF = [sys.executable, "-m", "ruff"]


def run(place, *command, **env):
    """Runs a command in the workspace, with these additions to the environment."""
    return subprocess.run(
        command,
        cwd=place.root,
        env={**place.env, **env},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )


@pytest.fixture
def scratch(place):
    """A new package in a workspace with this workspace's settings."""
    place.write("pyproject.toml", (HOME / "pyproject.toml").read_text())
    done = place.octavo("new", "scratch", "--no-install", "--title", "A title", "--purpose", "Sums that stay whole")
    assert done.returncode == 0, done.stdout
    place.publish("scratch", "octavo_scratch.claims:PAPER")
    place.plugins = True
    return place.root / "packages" / "scratch"


def test_tests_ruff_claims_and_bench_pass_untouched(place, scratch):
    for command in (["format", "--check", "."], ["check", "."]):
        done = run(place, *RUFF, *command)
        assert done.returncode == 0, done.stdout
    done = place.octavo("test", "scratch")
    assert done.returncode == 0, done.stdout
    done = place.octavo("claims", "scratch", "--report", "page", "--device", "cpu")
    assert done.returncode == 0, done.stdout
    assert "smaller-error" in (place.root / "page" / "index.html").read_text()
    done = place.octavo("list")
    assert "2 hold" in done.stdout
    assert not [path.name for path in (place.root / ".octavo").iterdir() if path.name.startswith("new-")]


@pytest.mark.parametrize("slug", ["apple", "zebra-fish"])
def test_imports_are_in_order_whatever_the_name(place, slug):
    place.write("pyproject.toml", (HOME / "pyproject.toml").read_text())
    assert place.octavo("new", slug, "--no-install").returncode == 0
    for command in (["format", "--check", "."], ["check", "."]):
        done = run(place, *RUFF, *command)
        assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_types(place, scratch):
    source = "packages/scratch/src"
    command = [sys.executable, "-m", "mypy", "--explicit-package-bases", source]
    done = run(place, *command, MYPYPATH=f"{source}:{HOME}/shared/src")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Scratch"], "lowercase words joined by dashes"),
        (["two_words"], "lowercase words joined by dashes"),
        (["../escape"], "lowercase words joined by dashes"),
        (["1st"], "lowercase words joined by dashes"),
        (["lambda"], "a word of Python's own"),
        (["shared"], "taken by the workspace"),
        (["here"], "packages/here exists"),
        (["fresh", "--url", "ftp://example.org"], "--url must begin with https://"),
        (["fresh", "--title", 'A "quoted" title'], "--title must be one line"),
        (["fresh", "--purpose", "x" * 101], "at most 100 characters"),
    ],
    ids=lambda value: value[-1][:12] if isinstance(value, list) else "",
)
def test_bad_input_writes_nothing(place, arguments, message):
    place.package("here")
    done = place.octavo("new", *arguments, "--no-install")
    assert done.returncode == 2
    assert message in " ".join(done.stdout.replace("│", " ").split())
    assert [path.name for path in (place.root / "packages").iterdir()] == ["here"]


def test_interrupted_writing_leaves_nothing(place, monkeypatch):
    from octavo_tools import new
    from octavo_tools.workspace import read_workspace

    def full(*arguments):
        raise OSError("no space left")

    # The disc fills up after the files are written and before they are put in order.
    monkeypatch.setattr(new, "_sort_imports", full)
    with pytest.raises(OSError, match="no space left"):
        new.write_package(read_workspace(place.root), new.About("scratch", "A title", "https://x", "Sums", "numpy"))
    assert list((place.root / "packages").iterdir()) == []
    assert [path.name for path in (place.root / ".octavo").iterdir()] == [".gitignore"]
