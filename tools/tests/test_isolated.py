"""`--isolated` with real wheels in real environments: what a package does not declare, its tests do not find."""

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

USES_BASE = """
import sys
from pathlib import Path

import octavo_base
import octavo_top


def test_runs_from_the_wheels_alone():
    for module in (octavo_base, octavo_top):
        assert Path(module.__file__).is_relative_to(sys.prefix)
    assert not [path for path in sys.path if "packages" in Path(path).parts]
"""


def with_pytest(folder):
    """Declares pytest, without which no test runs there."""
    file = folder / "pyproject.toml"
    file.write_text(file.read_text().replace("test = []", 'test = ["pytest>=8"]'))
    return folder


def test_declared_and_undeclared(place):
    place.package("base")
    with_pytest(place.package("top", USES_BASE, needs=("base",)))
    with_pytest(place.package("sly", "import octavo_base\n\ndef test_a():\n    pass\n"))
    inside = place.octavo("test", "sly")
    assert inside.returncode == 0, inside.stdout

    done = place.octavo("test", "top", "sly", "--isolated", timeout=550)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert any(line.startswith("top: passed") and "1 passed" in line for line in lines), done.stdout
    assert any(line.startswith("sly: failed") for line in lines), done.stdout
    assert "No module named 'octavo_base'" in done.stdout
    assert " 1 passed, 1 error in " in lines[-1]
    assert [path.name for path in place.root.rglob("*.egg-info")] == []
    assert sorted(path.name for path in (place.root / "test-results").iterdir()) == [
        "junit.xml",
        "sly-isolated.log",
        "sly.log",
    ]


def test_wheel_that_does_not_build_is_named(place):
    folder = with_pytest(place.package("odd", "def test_a():\n    pass\n"))
    file = folder / "pyproject.toml"
    file.write_text(file.read_text().replace('["src/octavo_odd"]', '["src/octavo_other"]'))
    done = place.octavo("test", "odd", "--isolated", timeout=300)
    assert done.returncode == 1
    assert "odd: failed" in done.stdout
    assert "building wheels failed" in done.stdout or "looking where it came from failed" in done.stdout


def test_tools_stays_in_its_tree(place):
    place.write("tools/pyproject.toml", '[project]\nname = "octavo-tools"\n')
    done = place.octavo("test", "tools", "--isolated")
    assert done.returncode == 2
    assert "tools cannot be tested with --isolated" in done.stdout
