"""`--changed` in a real repository: the change, and all that depends on it."""

import pytest

from octavo_tools.changes import changed_files, touched
from octavo_tools.workspace import read_workspace

GREEN = "def test_a():\n    pass\n"


@pytest.fixture
def committed(place):
    """`shared` <- `base` <- `top`, and `alone`, all committed."""
    place.package("base", GREEN, needs=("shared",))
    place.package("top", GREEN, needs=("base",))
    place.package("alone", GREEN)
    place.write("shared/pyproject.toml", '[project]\nname = "octavo-shared"\n')
    place.write("tools/pyproject.toml", '[project]\nname = "octavo-tools"\n')
    place.git("init", "-q")
    place.git("add", ".")
    place.git("commit", "-qm", "start")
    return place


def slugs(place):
    return list(touched(read_workspace(place.root), changed_files(place.root, "HEAD")))


def test_nothing_changed(committed):
    assert slugs(committed) == []
    done = committed.octavo("test", "--changed", "HEAD")
    assert done.returncode == 0, done.stdout
    assert "nothing to test" in done.stdout
    assert " no tests ran in " in done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("packages/alone/src/octavo_alone/new.py", ["alone"]),
        ("packages/top/README.md", ["top"]),
        ("packages/base/src/octavo_base/__init__.py", ["base", "top"]),
        ("shared/src/data.py", ["shared", "base", "top"]),
        ("tools/src/x.py", ["tools"]),
        ("README.md", ["tools"]),
        ("ci/constraints.txt", ["shared", "tools", "alone", "base", "top"]),
        ("pyproject.toml", ["shared", "tools", "alone", "base", "top"]),
    ],
)
def test_what_a_file_touches(committed, file, expected):
    committed.write(file, "# changed\n")
    assert slugs(committed) == expected
    committed.git("add", ".")
    committed.git("commit", "-qm", "change")
    assert slugs(committed) == []
    found = touched(read_workspace(committed.root), changed_files(committed.root, "HEAD~1"))
    assert list(found) == expected


def test_a_moved_file_touches_both_packages(committed):
    committed.git("mv", "packages/alone/tests/test_alone.py", "packages/top/tests/test_moved.py")
    assert slugs(committed) == ["alone", "top"]


def test_an_umlaut_in_a_name(committed):
    committed.write("packages/alone/tests/test_größe.py", GREEN)
    assert slugs(committed) == ["alone"]


def test_runs_what_is_touched_and_says_why(committed):
    committed.write("packages/base/notes.txt", "new\n")
    done = committed.octavo("test", "--changed", "HEAD")
    assert done.returncode == 0, done.stdout
    assert "base: packages/base/notes.txt changed" in done.stdout
    assert "top: needs base, where packages/base/notes.txt changed" in done.stdout
    assert " 2 passed in " in done.stdout.splitlines()[-1]


def test_slug_and_change_together(committed):
    committed.write("packages/base/notes.txt", "new\n")
    assert " 1 passed in " in committed.octavo("test", "top", "--changed", "HEAD").stdout.splitlines()[-1]


def test_outside_of_git(place):
    place.package("one", GREEN)
    done = place.octavo("test", "--changed", "HEAD")
    assert done.returncode == 2
    assert "git says" in done.stdout
